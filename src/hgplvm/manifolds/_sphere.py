"""The sphere: everything that the models need of it, in one file.

A point is a unit vector ``x = (x₀, x̃)`` with origin ``o = (1, 0, …, 0)``. The formulas are those of
the Lorentz model with the signs of the sphere: ``c = x·z = cos d = 1 - s²/2`` for the chord s.
Users see stereographic coordinates ``p = x̃/(1 + x₀)``: the hemisphere around the origin is the unit
disk, and the antipode is infinitely far.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from hgplvm.manifolds._base import Manifold

__all__ = ["Sphere"]

# antipodes have no shortest way between them: denominators stay above this
SMALLEST = 1e-12
# largest stereographic coordinate: the antipode of the origin is infinitely far
FARTHEST = 1e12


class Sphere(Manifold):
    """The unit sphere, curvature 1. ``exp(-d/κ)`` is positive definite on it."""

    name = "sphere"
    chart = "stereographic"
    points_attribute = "sphere_"
    start_scales: ClassVar[tuple[float, ...]] = (0.4, 0.8, 1.2, 1.57)

    # --- points and distance --------------------------------------------------------------

    def ambient_dim(self, n_components: int) -> int:
        """Coordinates a point has: Q + 1."""
        return n_components + 1

    def origin(
        self,
        n_components: int,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Return the origin o = (1, 0, …, 0)."""
        o = torch.zeros(n_components + 1, dtype=dtype, device=device)
        o[0] = 1.0
        return o

    def project(self, x: Tensor, radius: float | None = None) -> Tensor:  # noqa: ARG002
        """``x/‖x‖``."""
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(SMALLEST)

    def latent_radius(self, dtype: torch.dtype) -> float:  # noqa: ARG002
        """No point is farther from the origin than half a turn."""
        return math.pi

    def diameter(self, dtype: torch.dtype) -> float:  # noqa: ARG002
        """Half a turn."""
        return math.pi

    def squared_chord(self, x: Tensor, y: Tensor) -> Tensor:
        """``s² = ‖x - y‖² = 4 sin²(d/2)``."""
        return (x - y).square().sum(-1)

    def distance_from_chord(self, squared: Tensor) -> Tensor:
        """``d = 2 asin(s/2)``, with derivative 0 at coincident points and at antipodes."""
        inner = (squared > 0) & (squared < 4.0)
        half = 0.5 * torch.sqrt(torch.where(inner, squared, 1.0))
        ends = torch.where(squared > 0, math.pi, 0.0).to(squared)
        return torch.where(inner, 2.0 * torch.asin(half), ends)

    def sine_from_chord(self, squared: Tensor) -> Tensor:
        """``sin d = s √(1 - s²/4)``."""
        return torch.sqrt(squared * (1.0 - 0.25 * squared).clamp_min(0.0))

    def direction_sums(self, x: Tensor, y: Tensor, weights: Tensor, squared: Tensor) -> Tensor:
        """``Σ_j w_ij (y_j - c_ij x_i)`` in the frame at x_i: [..., n, Q]."""
        products = weights @ y
        cosine_sums = weights.sum(-1, keepdim=True) - 0.5 * (weights * squared).sum(-1, True)
        # a vector t has coordinates t̃ - t₀ p in the frame, and x itself the coordinates p
        return products[..., 1:] - (products[..., :1] + cosine_sums) * _ball(x)

    # --- tangent vectors ------------------------------------------------------------------

    def to_frame(self, x: Tensor, v: Tensor) -> Tensor:
        """``ṽ - v₀ x̃/(1 + x₀)``."""
        return v[..., 1:] - v[..., :1] * _ball(x)

    def from_frame(self, x: Tensor, coordinates: Tensor) -> Tensor:
        """``PT_{o→x}(0, a) = (-x̃·a, a - x̃ (x̃·a)/(1 + x₀))``."""
        dot = (x[..., 1:] * coordinates).sum(-1, keepdim=True)
        return torch.cat([-dot, coordinates - dot * _ball(x)], dim=-1)

    def exp_map(self, x: Tensor, v: Tensor) -> Tensor:
        """``cos‖v‖ x + sin‖v‖ v/‖v‖``."""
        square = v.square().sum(-1, keepdim=True)
        positive = square > 0
        norm = torch.sqrt(torch.where(positive, square, 1.0))
        sinc = torch.where(positive, torch.sin(norm) / norm, 1.0)
        cosine = torch.where(positive, torch.cos(norm), 1.0)
        return self.project(cosine * x + sinc * v)

    def log_map(self, x: Tensor, y: Tensor) -> Tensor:
        """``d/sin d (y - c x)``."""
        squared = self.squared_chord(x, y).unsqueeze(-1)
        d, sine = self.distance_from_chord(squared), self.sine_from_chord(squared)
        apart = sine > SMALLEST
        ratio = torch.where(apart, d / torch.where(apart, sine, 1.0), 1.0)
        vector = self.project_tangent(x, ratio * (y - (1.0 - 0.5 * squared) * x))
        # all ways to the antipode are as short: the one along the first axis is taken
        across = torch.zeros_like(vector[..., 1:])
        across[..., 0] = math.pi
        opposite = ~apart & (squared > 2.0)
        return torch.where(opposite, self.from_frame(x.expand_as(vector), across), vector)

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """``v - (y·v)/(1 + x·y) (x + y)``."""
        cosine = (x * y).sum(-1, keepdim=True)
        through = (y * v).sum(-1, keepdim=True) / (1.0 + cosine).clamp_min(SMALLEST)
        return v - through * (x + y)

    def log_stretch(self, square: Tensor) -> Tensor:
        """``log(sin r/r)``, which ends at half a turn."""
        small = square < 1e-3
        r = torch.sqrt(torch.where(small, 1.0, square)).clamp_max(math.pi - 1e-3)
        series = -square / 6.0 - square.square() / 180.0
        return torch.where(small, series, torch.log(torch.sin(r) / r))

    def log_stretch_slope(self, square: Tensor) -> Tensor:
        """``(r cot r - 1)/r²``."""
        small = square < 1e-3
        r = torch.sqrt(torch.where(small, 1.0, square)).clamp_max(math.pi - 1e-3)
        series = -1.0 / 3.0 - square / 45.0
        return torch.where(small, series, (r / torch.tan(r) - 1.0) / r.square())

    # --- isometries, charts, search -------------------------------------------------------

    def recenter(self, x: Tensor, root: Tensor) -> Tensor:
        """Rotate root to the origin in their common plane."""
        return self._turned(x, root, self._origin_like(root, self.n_components(root)))

    def uncenter(self, x: Tensor, root: Tensor) -> Tensor:
        """Rotate the origin to root."""
        return self._turned(x, self._origin_like(root, self.n_components(root)), root)

    def _turned(self, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Isometry that takes a to b: ``x - (a+b)·x/(1 + a·b) (a+b) + 2 (a·x) b``.

        Where a and b are more than a quarter turn apart, and the rotation is ill-determined, the
        reflection ``x - 2 (u·x) u`` with u along ``a - b``.
        """
        both, cosine = a + b, (a * b).sum(-1, True)
        share = (both * x).sum(-1, True) / (1.0 + cosine).clamp_min(SMALLEST)
        turned = x - share * both + 2.0 * (a * x).sum(-1, True) * b
        u = torch.nn.functional.normalize(a - b, dim=-1)
        mirrored = x - 2.0 * (u * x).sum(-1, True) * u
        return self.project(torch.where(cosine < 0, mirrored, turned))

    def weighted_mean(self, x: Tensor, weights: Tensor) -> Tensor:
        """Weighted sum, scaled back to the sphere; the first point where the points cancel."""
        total = (weights.unsqueeze(-2) @ x).squeeze(-2) / weights.sum(-1, keepdim=True)
        cancel = torch.linalg.vector_norm(total, dim=-1, keepdim=True) < 1e-6
        return self.project(torch.where(cancel, x[..., 0, :], total))

    def rotate(self, x: Tensor, rotation: Tensor) -> Tensor:
        """``x̃ → R x̃``."""
        return torch.cat([x[..., :1], x[..., 1:] @ rotation.mT], dim=-1)

    def to_chart(self, x: Tensor) -> Tensor:
        """``p = x̃/(1 + x₀)``; the antipode is far out along the first axis."""
        p = x[..., 1:] / (1.0 + x[..., :1]).clamp_min(SMALLEST)
        antipode = torch.zeros_like(p)
        antipode[..., 0] = FARTHEST
        return torch.where(1.0 + x[..., :1] < SMALLEST, antipode, p)

    def from_chart(self, p: Tensor) -> Tensor:
        """``x = (1 - ‖p‖², 2p)/(1 + ‖p‖²)``."""
        norm = torch.linalg.vector_norm(p, dim=-1, keepdim=True)
        p = p * (FARTHEST / norm.clamp_min(FARTHEST))
        square = norm.clamp_max(FARTHEST).square()
        return torch.cat([1.0 - square, 2.0 * p], dim=-1) / (1.0 + square)

    def search_coordinates(self, x: Tensor) -> Tensor:
        """Points themselves: chords grow with distances."""
        return x

    def search_ball(self, x: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Balls of radius ``2 sin(r/2)`` in the ambient space."""
        return x, 2.0 * torch.sin(0.5 * radius.clamp_max(math.pi))


def _ball(x: Tensor) -> Tensor:
    """``x̃/(1 + x₀)``, 0 at the antipode of the origin, whose frame is any."""
    return x[..., 1:] / (1.0 + x[..., :1]).clamp_min(SMALLEST)
