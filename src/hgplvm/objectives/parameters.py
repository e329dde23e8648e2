"""The parameters of a fit: latents on their manifold, and logarithms of positive numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold

__all__ = ["Evaluation", "KeptObjective", "Objective", "Parameters"]

# Logarithms of positive parameters stay within this bound, in the units that the objective sees.
LOG_BOUND = 25.0


@dataclass(frozen=True)
class Parameters:
    """A point of the search space.

    Attributes
    ----------
    latents : Tensor [n, Q+1] (flat space: [n, Q])
        Points of the manifold.
    logs : dict of str to Tensor
        Logarithms of positive parameters: ``variance`` (σ), ``length_scale`` (κ), those of the
        kernel's shape (``kernel.…``), those of the noise (``noise``), and ``std`` (the Bayesian
        model's [n, Q] standard deviations).
    free : tuple of str
        The names in `logs` that the fit may change.
    """

    latents: Tensor
    logs: dict[str, Tensor]
    free: tuple[str, ...]

    def positive(self, name: str) -> float:
        """Value of a scalar parameter."""
        return float(self.logs[name].exp())

    @property
    def values(self) -> dict[str, float]:
        """Values of all scalar parameters."""
        return {name: float(log.exp()) for name, log in self.logs.items() if log.ndim == 0}

    def moved(self, manifold: Manifold, step: Tensor) -> Parameters:
        """Move by a flat step: ``Exp`` in the frame for the latents, addition for the logs.

        The step holds the frame coordinates of all rows [n·Q], then the free logs in order.
        """
        tangents, n_frame = self._tangents(manifold, step)
        logs, at = dict(self.logs), n_frame
        for name in self.free:
            size = self.logs[name].numel()
            moved = self.logs[name] + step[at : at + size].reshape(self.logs[name].shape)
            logs[name] = moved.clamp(-LOG_BOUND, LOG_BOUND)
            at += size
        latents = manifold.exp_map(self.latents, tangents)
        return Parameters(manifold.inside(latents), logs, self.free)

    def transported(self, manifold: Manifold, step: Tensor, there: Parameters) -> Tensor:
        """Parallel transport a flat step from here to `there`, along the geodesics of each row."""
        tangents, n_frame = self._tangents(manifold, step)
        carried = manifold.parallel_transport(self.latents, there.latents, tangents)
        return torch.cat([manifold.to_frame(there.latents, carried).reshape(-1), step[n_frame:]])

    def _tangents(self, manifold: Manifold, step: Tensor) -> tuple[Tensor, int]:
        """Tangent vectors of the latents in a flat step, and where the logs begin."""
        n_frame = step.numel() - sum(self.logs[name].numel() for name in self.free)
        frame = step[:n_frame].reshape(self.latents.shape[0], -1)
        return manifold.from_frame(self.latents, frame), n_frame

    def flat(self, latents: Tensor, logs: Mapping[str, Tensor]) -> Tensor:
        """Join a gradient: frame coordinates [n, Q], then those of the free logs."""
        return torch.cat([latents.reshape(-1), *(logs[name].reshape(-1) for name in self.free)])


@dataclass(frozen=True)
class Evaluation:
    """Value of an objective (to be maximised) and its gradient, flat as in `Parameters.moved`."""

    value: float
    gradient: Tensor

    @property
    def finite(self) -> bool:
        """Whether value and gradient are usable."""
        return bool(torch.isfinite(self.gradient).all()) and abs(self.value) < float("inf")


class Objective(Protocol):
    """A log likelihood or a bound, with its closed-form gradient."""

    manifold: Manifold
    n_entries: int  # N·D, the scale of the value
    stochastic: bool  # whether the value depends on random draws that change between steps

    def advance(self, parameters: Parameters, /) -> bool:
        """Begin a step: redraw when it is due, and return whether that changed the value."""

    def value(self, parameters: Parameters, /) -> float:
        """Value alone."""

    def evaluate(self, parameters: Parameters, /) -> Evaluation:
        """Value and gradient."""


class KeptObjective(Objective, Protocol):
    """An objective whose draws can be kept, so that a fit can be interrupted and go on."""

    def state(self) -> dict[str, Any]:
        """Everything that changes from step to step, the random state included."""

    def restore(self, state: dict[str, Any], /) -> None:
        """Go on from what :meth:`state` returned."""
