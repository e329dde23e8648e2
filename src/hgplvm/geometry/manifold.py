"""What a latent space has to offer: the interface that the models are written against."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Manifold"]


class Manifold(Protocol):
    """A space of constant curvature, as a module of pure functions.

    :mod:`hgplvm.geometry.lorentz` and :mod:`hgplvm.geometry.euclidean` satisfy it. Distances reach
    the models through the squared chord s² (cheap, exact near 0), from which d and sinh d follow.
    """

    def ambient_dim(self, n_components: int, /) -> int:
        """Coordinates a point has."""

    def origin(
        self, n_components: int, /, *, dtype: torch.dtype = ..., device: torch.device | str = ...
    ) -> Tensor:
        """Return the origin."""

    def project(self, x: Tensor, radius: float | None = None, /) -> Tensor:
        """Put x back on the manifold, and inside a radius where its coordinates have a limit."""

    def squared_chord(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Squared chord, broadcast over leading axes."""

    def pair_features(self, x: Tensor, /) -> Tensor:
        """Per-row numbers that make pairwise chords cheap."""

    def pair_squared_chord(self, f: Tensor, g: Tensor, /) -> Tensor:
        """All squared chords between two sets of pair features; exactly 0 for equal rows."""

    def distance_from_chord(self, squared: Tensor, /) -> Tensor:
        """Geodesic distance from the squared chord."""

    def sinh_from_chord(self, squared: Tensor, /) -> Tensor:
        """Length of the directions that :meth:`direction_sums` adds up."""

    def direction_sums(self, x: Tensor, y: Tensor, weights: Tensor, squared: Tensor, /) -> Tensor:
        """Weighted sums of the directions from each x_i to all y_j, in the frame at x_i."""

    def distance(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Geodesic distance."""

    def pairwise_distance(self, x: Tensor, y: Tensor | None = None, /) -> Tensor:
        """All distances between two sets of rows."""

    def squared_radius(self, x: Tensor, /) -> Tensor:
        """Squared distance from the origin, smooth there."""

    def log_stretch(self, square: Tensor, /) -> Tensor:
        """How much the exponential map stretches volume across a ray, from the squared length."""

    def log_stretch_slope(self, square: Tensor, /) -> Tensor:
        """Gradient of :meth:`log_stretch` as a factor of the vector itself."""

    def placed(self, mean: Tensor, v: Tensor, /) -> Tensor:
        """Point with frame coordinates v as seen from μ: ``Exp_μ(PT(v))``."""

    def placed_gradient(self, mean: Tensor, v: Tensor, frame: Tensor, /) -> tuple[Tensor, Tensor]:
        """Pull gradients at ``Exp_μ(PT(v))`` back to μ, in its frame, and to v."""

    def project_tangent(self, x: Tensor, v: Tensor, /) -> Tensor:
        """Project to the tangent space at x."""

    def to_frame(self, x: Tensor, v: Tensor, /) -> Tensor:
        """Coordinates of a tangent vector in the transported frame."""

    def from_frame(self, x: Tensor, coordinates: Tensor, /) -> Tensor:
        """Tangent vector with these frame coordinates."""

    def from_tangent(self, coordinates: Tensor, /) -> Tensor:
        """Exponential map at the origin, on plain arrays."""

    def to_tangent(self, x: Tensor, /) -> Tensor:
        """Inverse of :meth:`from_tangent`."""

    def exp_map(self, x: Tensor, v: Tensor, /) -> Tensor:
        """Exponential map."""

    def log_map(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Inverse of the exponential map."""

    def geodesic(self, x: Tensor, y: Tensor, share: Tensor, /) -> Tensor:
        """Points at shares [..., 1] of the way from x to y."""

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor, /) -> Tensor:
        """Transport v from x to y along the geodesic."""

    def recenter(self, x: Tensor, root: Tensor, /) -> Tensor:
        """Move root to the origin by an isometry, and x with it."""

    def uncenter(self, x: Tensor, root: Tensor, /) -> Tensor:
        """Inverse of :meth:`recenter`: move the origin to root, and x with it."""

    def rotate(self, x: Tensor, rotation: Tensor, /) -> Tensor:
        """Rotate about the origin."""

    def canonical_rotation(self, x: Tensor, /) -> Tensor:
        """Rotation that brings centred points into the canonical pose."""

    def frechet_mean(self, x: Tensor, weights: Tensor | None = None, /) -> Tensor:
        """Point with the least mean squared distance."""

    def weighted_mean(self, x: Tensor, weights: Tensor, /) -> Tensor:
        """Point between others, by weights: cheaper than the Fréchet mean."""

    def to_chart(self, x: Tensor, /) -> Tensor:
        """Coordinates that users see."""

    def from_chart(self, p: Tensor, /) -> Tensor:
        """Point with these coordinates."""

    def chart_ball(self, x: Tensor, radius: Tensor, /) -> tuple[Tensor, Tensor]:
        """Centre and radius, in the chart, of the geodesic balls around x: Euclidean balls."""
