"""The start of a fit: latents, positive parameters, a kernel, and a floor for the noise.

A sample of a few hundred rows decides on the kind of start and its scale (by evidence,
:mod:`hgplvm._init.candidates`), on the noise level and, with ``kernel="auto"``, on the kernel (both
by held-out rows, :mod:`hgplvm._noise_search`). The chosen start is then made for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from hgplvm import _init as init
from hgplvm._noise_search import NoiseSearch, search_noise
from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import KERNELS, Exponential, Kernel
from hgplvm.manifolds import Manifold
from hgplvm.objectives.responses import Imputation, rotated_to_rank

__all__ = ["RATE", "Start", "choose_kernel", "find_start"]

# first step length of a fit, as a share of the median distance between the latents
RATE = 7e-3
# Starts are compared with most of the variance taken for noise, so that the large distances decide:
# the fit will correct the small ones.
NOISE_SHARE = 0.9
# with fewer rows, none are held out
HELD_OUT_ROWS = 20
# standard errors, over held-out rows, by which another kernel must be ahead of the exponential one
KERNEL_GAIN = 2.0


@dataclass(frozen=True)
class Start:
    """Where a fit starts; variances as shares of the data's."""

    latents: Tensor
    variance: float
    noise: float
    length_scale: float
    noise_floor: float
    history: dict[str, np.ndarray[Any, Any]]
    kernel: str = ""  # name of a built-in one
    shape: dict[str, float] = field(default_factory=dict)  # of the kernel, where it was learnt

    def state(self) -> dict[str, Any]:
        """Tree for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Self:
        """Return the start that :meth:`state` described, perhaps with tensors in the history."""
        history = {k: np.asarray(_plain(v)) for k, v in state["history"].items()}
        values = {field.name: state[field.name] for field in fields(cls)}
        return cls(**{**values, "history": history})


def _plain(value: Any) -> Any:
    return value.cpu().numpy() if isinstance(value, Tensor) else value


def find_start(
    data: Tensor,
    n_components: int,
    covariance: CovarianceFunction,
    *,
    kinds: Sequence[str],
    scales: Sequence[float],
    length_scale: float | None,
    noise_floor: float | None,
    smallest_floor: float,
    row_noise: Tensor | None = None,
    generator: torch.Generator,
    given: Tensor | None = None,
    n_probes: int = 1,
    imputation: Imputation | None = None,
) -> Start:
    """Find the start of a fit.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data of mean square 1.
    kinds, scales, length_scale, given, n_probes
        As in :class:`hgplvm._init.Candidates`.
    noise_floor : float, optional
        Least noise variance; without it, it is estimated from held-out rows.
    smallest_floor : float
        The floor where the noise is free to vanish.
    row_noise : Tensor [N], optional
        Noise variances of the rows, where they are known; then no floor is searched for.
    imputation : Imputation, optional
        Which entries are missing, and what stands for them in the data.
    """
    candidates, chosen, noise = _search(
        data,
        n_components,
        covariance,
        kinds=kinds,
        scales=scales,
        length_scale=length_scale,
        generator=generator,
        given=given,
        n_probes=n_probes,
        imputation=imputation,
        row_noise=row_noise,
        holds_out=noise_floor is None and row_noise is None,
    )
    history = candidates.arrays()
    if noise_floor is None:
        noise_floor = smallest_floor
        if noise is not None:
            noise_floor = max(noise.floor, smallest_floor)
            history |= noise.arrays()
    whole = data if imputation is None else imputation.columns()
    latents = candidates.latents(chosen)
    variance, noise_variance = init.variogram(
        whole,
        latents,
        covariance,
        chosen.profile.length_scale,
        n_columns=data.shape[1],
        noise_floor=noise_floor,
        noise=None if row_noise is None else row_noise.mean().item(),
    )
    return Start(
        latents,
        variance,
        max(noise_variance - noise_floor, 0.01 * noise_floor, 1e-6),
        chosen.profile.length_scale,
        noise_floor,
        history,
        covariance.kernel.name,
    )


def _search(
    data: Tensor,
    n_components: int,
    covariance: CovarianceFunction,
    *,
    generator: torch.Generator,
    imputation: Imputation | None,
    holds_out: bool,
    **options: Any,
) -> tuple[init.Candidates, init.Candidate, NoiseSearch | None]:
    """Compare starts on a sample of the rows and, with `holds_out`, noise levels on held-out rows.

    No noise levels are compared where there is too little to hold out.
    """
    whole = data if imputation is None else imputation.columns()
    candidates = init.Candidates(
        rotated_to_rank(whole),
        n_components,
        covariance,
        n_columns=data.shape[1],
        generator=generator,
        **options,
    )
    chosen = candidates.compare(NOISE_SHARE).chosen
    probe = data[candidates.probe_rows]
    if not holds_out or probe.shape[0] < HELD_OUT_ROWS or data.shape[1] < 2:
        return candidates, chosen, None
    noise = search_noise(
        probe.double(),  # a few hundred rows, and scores that are close to each other
        candidates.probe(chosen).double(),
        chosen.profile,
        covariance,
        rate=RATE,
        generator=generator,
        seen=None if imputation is None else imputation.observed[candidates.probe_rows],
    )
    return candidates, chosen, noise


def choose_kernel(
    data: Tensor,
    n_components: int,
    manifold: Manifold,
    *,
    kinds: Sequence[str],
    scales: Sequence[float],
    length_scale: float | None,
    generator: torch.Generator,
    imputation: Imputation | None = None,
) -> tuple[Kernel, dict[str, np.ndarray[Any, Any]]]:
    """Choose one of the built-in kernels by the density of hidden entries of held-out rows.

    The exponential kernel is kept unless another one is clearly ahead, and where there is too
    little to hold out. Parameters are those of :func:`find_start`.

    Returns
    -------
    kernel : Kernel
        The choice.
    history : dict
        ``kernel_name`` and ``kernel_score``, one entry for each kernel that was compared.
    """
    default: Kernel = Exponential()
    if data.shape[0] < HELD_OUT_ROWS or data.shape[1] < 2:
        return default, {}
    scores: dict[str, float] = {}
    rows: dict[str, Tensor] = {}
    state = generator.get_state()
    for name, kernel in KERNELS.items():
        if isinstance(kernel, Exponential) or n_components <= manifold.heat_dimensions:
            generator.set_state(state)  # the same sample and the same hidden entries for all
            *_, noise = _search(
                data,
                n_components,
                CovarianceFunction(manifold, kernel),
                kinds=kinds,
                scales=scales,
                length_scale=length_scale,
                generator=generator,
                imputation=imputation,
                holds_out=True,
            )
            if noise is not None:
                scores[name], rows[name] = max(noise.scores), noise.best_rows
    best = max(scores, key=lambda name: scores[name])
    ahead = rows[best] - rows[default.name]
    clearly = ahead.mean() > KERNEL_GAIN * ahead.std() / math.sqrt(len(ahead))
    chosen = KERNELS[best] if best != default.name and clearly else default
    return chosen, {
        "kernel_name": np.array(list(scores)),
        "kernel_score": np.array(list(scores.values())),
    }
