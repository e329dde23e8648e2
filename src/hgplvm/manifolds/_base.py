"""What a latent space has to offer: some primitives, and what follows from them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hgplvm.geometry.lorentz import canonical_axes

__all__ = ["Manifold", "cusp_division"]

# steps and relative accuracy of the general Fréchet mean
MEAN_STEPS = 100
MEAN_ACCURACY = 1e-12


class Manifold(ABC):
    """A latent space: an immutable object whose methods are pure functions on tensors.

    A point is the last axis of a tensor, of :meth:`ambient_dim` coordinates; everything broadcasts
    over leading axes. Tangent vectors are given by their coordinates in an orthonormal *frame*, the
    origin's basis transported to the point, so that optimisers see plain [n, Q] arrays. Distances
    reach the models through the squared chord s², which is cheap and exact near 0.

    A new space is a subclass with the abstract methods below. The others have defaults that hold
    for every complete space; a space overrides those for which it knows a shorter way.
    """

    #: name in files and messages
    name: ClassVar[str]
    #: what the coordinates that users see are called
    chart: ClassVar[str]
    #: fitted attribute that holds the points themselves; "" where the chart shows them
    points_attribute: ClassVar[str] = ""
    #: whether the space has a unit of length of its own, the curvature radius
    curved: ClassVar[bool] = True
    #: median distances at which a start is tried, in curvature radii
    start_scales: ClassVar[tuple[float, ...]]
    #: most dimensions for which `heat_factor` makes kernels positive definite
    heat_dimensions: ClassVar[float] = 0

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # --- points ---------------------------------------------------------------------------

    @abstractmethod
    def ambient_dim(self, n_components: int, /) -> int:
        """Coordinates a point has."""

    @abstractmethod
    def origin(
        self,
        n_components: int,
        /,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Return the origin."""

    @abstractmethod
    def project(self, x: Tensor, radius: float | None = None, /) -> Tensor:
        """Put x back on the manifold, and inside a radius where its coordinates have a limit."""

    def n_components(self, x: Tensor, /) -> int:
        """Dimensions of the space that points x lie in."""
        return x.shape[-1] - self.ambient_dim(0)

    def latent_radius(self, dtype: torch.dtype, /) -> float:  # noqa: ARG002
        """Radius within which coordinates of this precision tell neighbours apart."""
        return math.inf

    def inside(self, x: Tensor, /) -> Tensor:
        """Points pulled back to where their coordinates can tell them apart."""
        return self.project(x, self.latent_radius(x.dtype))

    def diameter(self, dtype: torch.dtype, /) -> float:
        """Largest distance that latents can have."""
        return 2.0 * self.latent_radius(dtype)

    # --- distance -------------------------------------------------------------------------

    @abstractmethod
    def squared_chord(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Squared chord, broadcast over leading axes."""

    @abstractmethod
    def distance_from_chord(self, squared: Tensor, /) -> Tensor:
        """Geodesic distance from the squared chord."""

    @abstractmethod
    def sine_from_chord(self, squared: Tensor, /) -> Tensor:
        """Length of the directions that :meth:`direction_sums` adds up: sinh d, d or sin d."""

    @abstractmethod
    def direction_sums(self, x: Tensor, y: Tensor, weights: Tensor, squared: Tensor, /) -> Tensor:
        """Weighted sums of the directions from each x_i to all y_j, in the frame at x_i."""

    def pair_features(self, x: Tensor, /) -> Tensor:
        """Per-row numbers that make pairwise chords cheap."""
        return x

    def pair_squared_chord(self, f: Tensor, g: Tensor, /) -> Tensor:
        """All squared chords between two sets of pair features; exactly 0 for equal rows."""
        return self.squared_chord(f.unsqueeze(-2), g.unsqueeze(-3))

    def distance(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Geodesic distance."""
        return self.distance_from_chord(self.squared_chord(x, y))

    def pairwise_distance(self, x: Tensor, y: Tensor | None = None, /) -> Tensor:
        """All distances between two sets of rows."""
        return self.distance(x.unsqueeze(-2), (x if y is None else y).unsqueeze(-3))

    def distance_gradient(
        self, x: Tensor, y: Tensor, by_distance: Tensor, squared: Tensor, /
    ) -> Tensor:
        """Gradient of ``Σ_ij W_ij d(x_i, y_j)`` in the frames at x: [..., n, Q].

        ``grad_x d = -(direction from x to y)/(its length)``, and 0 at coincident points.
        """
        directions = cusp_division(by_distance, self.sine_from_chord(squared))
        return self.direction_sums(x, y, directions, squared).neg_()

    def distance_gradients(
        self, x: Tensor, y: Tensor, by_distance: Tensor, squared: Tensor, /
    ) -> tuple[Tensor, Tensor]:
        """Return the same in the frames at x and in those at y: [..., n, Q] and [..., m, Q]."""
        directions = cusp_division(by_distance, self.sine_from_chord(squared))
        return (
            self.direction_sums(x, y, directions, squared).neg_(),
            self.direction_sums(y, x, directions.mT, squared.mT).neg_(),
        )

    # --- tangent vectors ------------------------------------------------------------------

    @abstractmethod
    def to_frame(self, x: Tensor, v: Tensor, /) -> Tensor:
        """Coordinates of a tangent vector in the transported frame."""

    @abstractmethod
    def from_frame(self, x: Tensor, coordinates: Tensor, /) -> Tensor:
        """Tangent vector with these frame coordinates."""

    @abstractmethod
    def exp_map(self, x: Tensor, v: Tensor, /) -> Tensor:
        """Exponential map."""

    @abstractmethod
    def log_map(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Inverse of the exponential map."""

    @abstractmethod
    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor, /) -> Tensor:
        """Transport v from x to y along the geodesic."""

    def project_tangent(self, x: Tensor, v: Tensor, /) -> Tensor:
        """Project to the tangent space at x."""
        return self.from_frame(x, self.to_frame(x, v))

    def from_tangent(self, coordinates: Tensor, /) -> Tensor:
        """Exponential map at the origin, on plain arrays."""
        origin = self._origin_like(coordinates, coordinates.shape[-1])
        return self.exp_map(origin, self.from_frame(origin, coordinates))

    def to_tangent(self, x: Tensor, /) -> Tensor:
        """Inverse of :meth:`from_tangent`."""
        origin = self._origin_like(x, self.n_components(x))
        return self.to_frame(origin, self.log_map(origin, x))

    def displaced(self, mean: Tensor, v: Tensor, /) -> Tensor:
        """Point with frame coordinates v as seen from μ: ``Exp_μ(PT(v))``."""
        return self.exp_map(mean, self.from_frame(mean, v))

    def displaced_gradient(
        self, mean: Tensor, v: Tensor, frame: Tensor, /
    ) -> tuple[Tensor, Tensor]:
        """Pull gradients at ``Exp_μ(PT(v))`` back to μ, in its frame, and to v."""
        shape = np.broadcast_shapes(mean.shape[:-1], v.shape[:-1], frame.shape[:-1])
        with torch.enable_grad():
            here = mean.detach().expand(*shape, mean.shape[-1])
            move = torch.zeros(*shape, v.shape[-1], dtype=v.dtype, device=v.device)
            move.requires_grad_()
            vector = v.detach().expand(*shape, v.shape[-1]).clone().requires_grad_()
            start = self.exp_map(here, self.from_frame(here, move))
            end = self.displaced(start, vector)
            # frame coordinates are linear in the vector, so that they see how the end moves
            seen = (self.to_frame(end.detach(), end) * frame).sum()
            by_move, by_v = torch.autograd.grad(seen, (move, vector))
        return by_move, by_v

    def geodesic(self, x: Tensor, y: Tensor, share: Tensor, /) -> Tensor:
        """Points at shares [..., 1] of the way from x to y."""
        return self.exp_map(x, share * self.log_map(x, y))

    # --- distributions --------------------------------------------------------------------

    @abstractmethod
    def log_stretch(self, square: Tensor, /) -> Tensor:
        """How much the exponential map stretches volume across a ray, from the squared length."""

    @abstractmethod
    def log_stretch_slope(self, square: Tensor, /) -> Tensor:
        """Gradient of :meth:`log_stretch` as a factor of the vector itself."""

    def squared_radius(self, x: Tensor, /) -> Tensor:
        """Squared distance from the origin, smooth there."""
        return self.to_tangent(x).square().sum(-1)

    def heat_factor(self, d: Tensor, /) -> tuple[Tensor, Tensor]:
        """Factor f(d), and its slope, with which Gaussian mixtures become kernels here.

        ``f(d) M(d/κ)`` is positive definite, in up to `heat_dimensions` dimensions, for every
        mixture M of Gaussians over scales.
        """
        raise NotImplementedError(f"{self!r} has no closed form for smooth kernels.")

    # --- isometries -----------------------------------------------------------------------

    @abstractmethod
    def recenter(self, x: Tensor, root: Tensor, /) -> Tensor:
        """Move root to the origin by an isometry, and x with it."""

    @abstractmethod
    def uncenter(self, x: Tensor, root: Tensor, /) -> Tensor:
        """Inverse of :meth:`recenter`: move the origin to root, and x with it."""

    @abstractmethod
    def rotate(self, x: Tensor, rotation: Tensor, /) -> Tensor:
        """Rotate about the origin."""

    def canonical_rotation(self, x: Tensor, /) -> Tensor:
        """Rotation that brings centred points into the canonical pose."""
        return canonical_axes(self.to_tangent(x))

    def frechet_mean(self, x: Tensor, weights: Tensor | None = None, /) -> Tensor:
        """Point with the least mean squared distance."""
        w = x.new_ones(len(x)) if weights is None else weights
        w = w / w.sum()
        mean = self.weighted_mean(x, w)
        value, rate = w @ self.distance(mean, x).square(), 1.0
        for _ in range(MEAN_STEPS):
            step = w @ self.to_frame(mean, self.log_map(mean.expand_as(x), x))
            candidate = self.displaced(mean, rate * step)
            there = w @ self.distance(candidate, x).square()
            if there > value:  # too long a step: curvature makes distances rise faster
                rate *= 0.5
                continue
            mean, value = candidate, there
            if torch.linalg.vector_norm(step) <= MEAN_ACCURACY:
                break
        return mean

    def weighted_mean(self, x: Tensor, weights: Tensor, /) -> Tensor:
        """Point between others [..., n, ·], by weights [..., n]: cheaper than the Fréchet mean."""
        first = x[..., :1, :]
        tangents = self.to_frame(first, self.log_map(first, x))
        share = weights / weights.sum(-1, keepdim=True)
        return self.displaced(first.squeeze(-2), (share.unsqueeze(-2) @ tangents).squeeze(-2))

    # --- the chart that users see ---------------------------------------------------------

    @abstractmethod
    def to_chart(self, x: Tensor, /) -> Tensor:
        """Coordinates that users see."""

    @abstractmethod
    def from_chart(self, p: Tensor, /) -> Tensor:
        """Point with these coordinates."""

    def chart_error(self, p: np.ndarray[Any, Any], /) -> str | None:  # noqa: ARG002
        """Say what is wrong with finite coordinates of points, as the end of a sentence."""
        return None

    def clip_chart(self, p: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        """Coordinates that rounding has put where there are no points, put back."""
        return p

    # --- searching for neighbours ---------------------------------------------------------

    def search_coordinates(self, x: Tensor, /) -> Tensor | None:  # noqa: ARG002
        """Coordinates in which geodesic balls lie in Euclidean balls; None if there are none.

        With them, neighbours among many points are found by a k-d tree.
        """
        return None

    def search_ball(self, x: Tensor, radius: Tensor, /) -> tuple[Tensor, Tensor]:
        """Centre and radius, in the search coordinates, of balls that hold the balls around x."""
        raise NotImplementedError(f"{self!r} has no coordinates to search in.")

    # --- helpers --------------------------------------------------------------------------

    def _origin_like(self, x: Tensor, n_components: int) -> Tensor:
        return self.origin(n_components, dtype=x.dtype, device=x.device)


def cusp_division(numerator: Tensor, sine: Tensor) -> Tensor:
    """``numerator/sn(d)``, and 0 at coincident points: a distance has no direction there."""
    # dividing by infinity there is one pass cheaper than selecting afterwards
    return numerator / sine.masked_fill(sine == 0, torch.inf)
