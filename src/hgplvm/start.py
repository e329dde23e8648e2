"""Everything that a fit needs to begin: latents, positive parameters, and a floor for the noise.

Three questions are answered on a probe of a few hundred rows: which kind of start, at which scale
(by evidence, :mod:`hgplvm.init.candidates`), and how much of the data is noise (by rows held out,
:mod:`hgplvm.heldout`). The chosen start is then made for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from hgplvm import init
from hgplvm.geometry import Manifold
from hgplvm.heldout import search_noise
from hgplvm.kernels import Kernel
from hgplvm.objectives.responses import Imputation, rotated_to_rank

__all__ = ["RATE", "Begin", "find_start"]

# first step length of a fit, as a share of the median distance between the latents
RATE = 7e-3
# Starts are compared with most of the data taken for noise, so that the large distances decide:
# the small ones are what the fit is for.
NOISE_SHARE = 0.9
# fewer rows have nothing to hold out
HELD_OUT_ROWS = 20


@dataclass(frozen=True)
class Begin:
    """Where a fit begins; variances as shares of the data's."""

    latents: Tensor
    variance: float
    noise: float
    length_scale: float
    noise_floor: float
    history: dict[str, np.ndarray[Any, Any]]

    def state(self) -> dict[str, Any]:
        """Tree for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Self:
        """Return the start that :meth:`state` told of, perhaps with tensors in the history."""
        history = {k: np.asarray(_plain(v)) for k, v in state["history"].items()}
        told = {field.name: state[field.name] for field in fields(cls)}
        return cls(**{**told, "history": history})


def _plain(value: Any) -> Any:
    return value.cpu().numpy() if isinstance(value, Tensor) else value


def find_start(
    data: Tensor,
    n_components: int,
    manifold: Manifold,
    kernel: Kernel,
    *,
    kinds: Sequence[str],
    scales: Sequence[float],
    length_scale: float | None,
    noise_floor: float | None,
    smallest_floor: float,
    generator: torch.Generator,
    given: Tensor | None = None,
    n_probes: int = 1,
    imputation: Imputation | None = None,
) -> Begin:
    """Find the start of a fit.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data of mean square 1.
    kinds, scales, length_scale, given, n_probes
        As in :class:`hgplvm.init.Candidates`.
    noise_floor : float, optional
        Least noise variance; without it, what rows that are held out say.
    smallest_floor : float
        The floor where the noise is free to vanish.
    imputation : Imputation, optional
        Which entries are missing, and what stands for them in the data.
    """
    whole = data if imputation is None else imputation.columns()
    candidates = init.Candidates(
        rotated_to_rank(whole),
        n_components,
        manifold,
        kernel,
        kinds=kinds,
        scales=scales,
        length_scale=length_scale,
        n_columns=data.shape[1],
        generator=generator,
        given=given,
        n_probes=n_probes,
    )
    comparison = candidates.compare(NOISE_SHARE)
    chosen, history = comparison.chosen, comparison.arrays()
    if noise_floor is None:
        noise_floor = smallest_floor
        probe = data[candidates.probe_rows]
        if probe.shape[0] >= HELD_OUT_ROWS and data.shape[1] > 1:
            noise = search_noise(
                probe,
                candidates.probe(chosen),
                chosen.profile,
                manifold,
                kernel,
                rate=RATE,
                generator=generator,
                seen=None if imputation is None else imputation.observed[candidates.probe_rows],
            )
            noise_floor = max(noise.floor, smallest_floor)
            history |= noise.arrays()
    latents = candidates.latents(chosen)
    variance, noise_variance = init.variogram(
        whole,
        latents,
        manifold,
        kernel,
        chosen.profile.length_scale,
        n_columns=data.shape[1],
        noise_floor=noise_floor,
    )
    return Begin(
        latents,
        variance,
        max(noise_variance - noise_floor, 0.01 * noise_floor, 1e-6),
        chosen.profile.length_scale,
        noise_floor,
        history,
    )
