"""What a fit moves: the latents on their manifold, and positive numbers by their logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hgplvm.geometry import Manifold

__all__ = ["Evaluation", "KeptObjective", "Objective", "Parameters", "inside"]

# Logarithms of positive parameters stay within this bound, in the units that the objective sees.
LOG_BOUND = 25.0

# Latents stay within this hyperbolic radius, where neighbours at a distance of 1e-10 (float32:
# 1e-4) still differ in their coordinates.
LATENT_RADIUS = {torch.float64: 12.0, torch.float32: 6.0}


@dataclass(frozen=True)
class Parameters:
    """A point of the search space.

    Attributes
    ----------
    latents : Tensor [n, Q+1] (flat space: [n, Q])
        Points of the manifold.
    logs : dict of str to Tensor
        Logarithms of positive parameters: ``variance`` (σ), ``noise`` (β⁻¹ above its floor),
        ``length_scale`` (κ), and ``std`` (the Bayesian model's [n, Q] deviations).
    free : tuple of str
        The names in `logs` that the fit may change.
    """

    latents: Tensor
    logs: dict[str, Tensor]
    free: tuple[str, ...]

    def positive(self, name: str) -> float:
        """Value of a scalar parameter."""
        return float(self.logs[name].exp())

    def moved(self, manifold: Manifold, step: Tensor) -> Parameters:
        """Move by a flat step: ``Exp`` in the frame for the latents, addition for the logs.

        The step holds the frame coordinates of all rows [n·Q], then the free logs in order.
        """
        n = self.latents.shape[0]
        n_frame = step.numel() - sum(self.logs[name].numel() for name in self.free)
        tangents = manifold.from_frame(self.latents, step[:n_frame].reshape(n, -1))
        logs, at = dict(self.logs), n_frame
        for name in self.free:
            size = self.logs[name].numel()
            moved = self.logs[name] + step[at : at + size].reshape(self.logs[name].shape)
            logs[name] = moved.clamp(-LOG_BOUND, LOG_BOUND)
            at += size
        latents = manifold.exp_map(self.latents, tangents)
        return Parameters(inside(manifold, latents), logs, self.free)

    def transported(self, manifold: Manifold, step: Tensor, there: Parameters) -> Tensor:
        """Parallel transport a flat step from here to `there`, along the geodesics of each row."""
        n = self.latents.shape[0]
        n_frame = step.numel() - sum(self.logs[name].numel() for name in self.free)
        tangents = manifold.from_frame(self.latents, step[:n_frame].reshape(n, -1))
        carried = manifold.parallel_transport(self.latents, there.latents, tangents)
        return torch.cat([manifold.to_frame(there.latents, carried).reshape(-1), step[n_frame:]])


def inside(manifold: Manifold, latents: Tensor) -> Tensor:
    """Latents pulled back to where their coordinates can tell them apart."""
    return manifold.project(latents, LATENT_RADIUS[latents.dtype])


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
        """Begin a step: draw anew where it is time, and say whether the value has changed by it."""

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
