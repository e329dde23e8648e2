"""Flat space behind the same interface as :mod:`hgplvm.geometry.lorentz`.

The flat baselines (GP-LVM and its sparse and Bayesian forms) are the hyperbolic models with this
module in the manifold's place: tangent vectors are their own frame coordinates, the chart is the
identity, and ``sinh d`` becomes d.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.geometry.lorentz import canonical_axes

__all__ = [
    "ambient_dim",
    "canonical_rotation",
    "chart_ball",
    "direction_sums",
    "displaced",
    "displaced_gradient",
    "distance",
    "distance_from_chord",
    "exp_map",
    "frechet_mean",
    "from_chart",
    "from_frame",
    "from_tangent",
    "geodesic",
    "log_map",
    "log_stretch",
    "log_stretch_slope",
    "max_radius",
    "origin",
    "pair_features",
    "pair_squared_chord",
    "pairwise_distance",
    "parallel_transport",
    "project",
    "project_tangent",
    "recenter",
    "rotate",
    "sinh_from_chord",
    "squared_chord",
    "squared_radius",
    "to_chart",
    "to_frame",
    "to_tangent",
    "uncenter",
    "weighted_mean",
]


def ambient_dim(n_components: int) -> int:
    """Coordinates a point has: Q."""
    return n_components


def max_radius(dtype: torch.dtype) -> float:
    """Radius at which the squares of coordinates come close to overflow."""
    return 1e150 if dtype == torch.float64 else 1e18


def origin(
    n_components: int, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the origin."""
    return torch.zeros(n_components, dtype=dtype, device=device)


def project(x: Tensor, radius: float | None = None) -> Tensor:  # noqa: ARG001
    """Every vector is a point, and none is too far out to be told from its neighbours."""
    return x


def squared_chord(x: Tensor, y: Tensor) -> Tensor:
    """Squared distance, from the exact differences."""
    gap = x[..., 0] - y[..., 0]
    squared = gap * gap
    for q in range(1, x.shape[-1]):
        gap = x[..., q] - y[..., q]
        squared = torch.addcmul(squared, gap, gap)
    return squared


def pair_features(x: Tensor) -> Tensor:
    """Return the coordinates themselves."""
    return x


def pair_squared_chord(f: Tensor, g: Tensor) -> Tensor:
    """Squared distances between two sets of rows: [..., n, m]."""
    f, g = f.unsqueeze(-2), g.unsqueeze(-3)
    squared = torch.sub(f[..., 0], g[..., 0]).square_()
    for q in range(1, f.shape[-1]):
        gap = f[..., q] - g[..., q]
        squared.addcmul_(gap, gap)
    return squared


def distance_from_chord(squared: Tensor) -> Tensor:
    """``√s²``, with derivative 0 at 0."""
    positive = squared > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, squared, 1.0)), 0.0)


def sinh_from_chord(squared: Tensor) -> Tensor:
    """Return the distance itself: the length of ``y - x``."""
    return torch.sqrt(squared)


def distance(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distance, with gradient 0 at coincident points."""
    return distance_from_chord(squared_chord(x, y))


def pairwise_distance(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Distances between all rows of x [n, Q] and of y [m, Q] (default: x): [n, m]."""
    return distance(x.unsqueeze(-2), (x if y is None else y).unsqueeze(-3))


def direction_sums(x: Tensor, y: Tensor, weights: Tensor, squared: Tensor) -> Tensor:  # noqa: ARG001
    """``Σ_j w_ij (y_j - x_i)``: [..., n, Q]."""
    return weights @ y - weights.sum(-1, keepdim=True) * x


def squared_radius(x: Tensor) -> Tensor:
    """``‖x‖²``."""
    return x.square().sum(-1)


def log_stretch(square: Tensor) -> Tensor:
    """Flat space does not stretch: 0."""
    return torch.zeros_like(square)


def log_stretch_slope(square: Tensor) -> Tensor:
    """Flat space does not stretch: 0."""
    return torch.zeros_like(square)


def to_tangent(x: Tensor) -> Tensor:
    """Points are plain arrays."""
    return x


def displaced(mean: Tensor, v: Tensor) -> Tensor:
    """``μ + v``."""
    return mean + v


def displaced_gradient(mean: Tensor, v: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Pull gradients at ``x = μ + v`` back to μ and to v: they are the same."""
    return frame, frame


def project_tangent(x: Tensor, v: Tensor) -> Tensor:  # noqa: ARG001
    """Every vector is tangent."""
    return v


def to_frame(x: Tensor, v: Tensor) -> Tensor:  # noqa: ARG001
    """Coordinates of a vector in the standard basis."""
    return v


def from_frame(x: Tensor, coordinates: Tensor) -> Tensor:  # noqa: ARG001
    """Vector with these coordinates."""
    return coordinates


def from_tangent(coordinates: Tensor) -> Tensor:
    """Plain arrays are points."""
    return coordinates


def exp_map(x: Tensor, v: Tensor) -> Tensor:
    """``x + v``."""
    return x + v


def log_map(x: Tensor, y: Tensor) -> Tensor:
    """``y - x``."""
    return y - x


def geodesic(x: Tensor, y: Tensor, share: Tensor) -> Tensor:
    """``(1-t) x + t y``."""
    return (1.0 - share) * x + share * y


def parallel_transport(x: Tensor, y: Tensor, v: Tensor) -> Tensor:  # noqa: ARG001
    """Vectors do not turn in flat space."""
    return v


def recenter(x: Tensor, root: Tensor) -> Tensor:
    """Translate root to the origin."""
    return x - root


def uncenter(x: Tensor, root: Tensor) -> Tensor:
    """Move the origin to root: the inverse of :func:`recenter`."""
    return x + root


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """``x → R x``."""
    return x @ rotation.mT


def canonical_rotation(x: Tensor) -> Tensor:
    """Principal axes by decreasing spread, signed by their third moment: [Q, Q]."""
    return canonical_axes(x)


def frechet_mean(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """Weighted mean."""
    return x.mean(0) if weights is None else (weights / weights.sum()) @ x


def weighted_mean(x: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean of points [..., n, Q]: [..., Q]."""
    total = (weights.unsqueeze(-2) @ x).squeeze(-2)
    return total / weights.sum(-1, keepdim=True)


def to_chart(x: Tensor) -> Tensor:
    """Users see the coordinates themselves."""
    return x


def from_chart(p: Tensor) -> Tensor:
    """Inverse of the identity."""
    return p


def chart_ball(x: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Balls are what they are."""
    return x, radius
