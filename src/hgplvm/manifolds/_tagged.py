"""Points that carry numbers besides their coordinates, such as the batch that a row is of.

Distances, steps and frames are those of the space itself; no step changes the numbers. So an
objective, an optimiser or a search that knows nothing of them works on such points as they are, and
what does know of them (:mod:`hgplvm._batches`) finds them there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.manifolds._base import Manifold

__all__ = ["Tagged"]


class Tagged(Manifold):
    """A space whose points have `n_tags` numbers behind their coordinates.

    Parameters
    ----------
    base : Manifold
        The space.
    n_tags : int
        How many numbers a point carries.
    """

    def __init__(self, base: Manifold, n_tags: int) -> None:
        self.base, self.n_tags = base, n_tags

    # --- tags -----------------------------------------------------------------------------

    def tagged(self, x: Tensor, tags: Tensor) -> Tensor:
        """Points of the space with their tags [..., n_tags], which broadcast."""
        return torch.cat([x, tags.to(x).expand(*x.shape[:-1], self.n_tags)], dim=-1)

    def bare(self, x: Tensor) -> Tensor:
        """Return points without their tags."""
        return x[..., : x.shape[-1] - self.n_tags]

    def tags(self, x: Tensor) -> Tensor:
        """Return the tags of points."""
        return x[..., x.shape[-1] - self.n_tags :]

    def _like(self, moved: Tensor, x: Tensor) -> Tensor:
        return self.tagged(moved, self.tags(x))

    def _without(self, v: Tensor) -> Tensor:
        """Tangent vectors: no step changes a tag."""
        return torch.cat([v, v.new_zeros(*v.shape[:-1], self.n_tags)], dim=-1)

    # --- points ---------------------------------------------------------------------------

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the space."""
        return self.base.name

    @property
    def chart(self) -> str:  # type: ignore[override]
        """What its coordinates are called."""
        return self.base.chart

    @property
    def curved(self) -> bool:  # type: ignore[override]
        """Whether it has a unit of length."""
        return self.base.curved

    @property
    def start_scales(self) -> tuple[float, ...]:  # type: ignore[override]
        """Median distances at which a start is tried."""
        return self.base.start_scales

    @property
    def heat_dimensions(self) -> float:  # type: ignore[override]
        """Most dimensions for smooth kernels."""
        return self.base.heat_dimensions

    def ambient_dim(self, n_components: int) -> int:
        """Coordinates and tags."""
        return self.base.ambient_dim(n_components) + self.n_tags

    def origin(
        self,
        n_components: int,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Return the origin, its tags 0."""
        return self._without(self.base.origin(n_components, dtype=dtype, device=device))

    def project(self, x: Tensor, radius: float | None = None) -> Tensor:
        """Put x back on the manifold."""
        return self._like(self.base.project(self.bare(x), radius), x)

    def latent_radius(self, dtype: torch.dtype) -> float:
        """As of the space."""
        return self.base.latent_radius(dtype)

    # --- distance -------------------------------------------------------------------------

    def squared_chord(self, x: Tensor, y: Tensor) -> Tensor:
        """Squared chord."""
        return self.base.squared_chord(self.bare(x), self.bare(y))

    def distance_from_chord(self, squared: Tensor) -> Tensor:
        """Geodesic distance from the squared chord."""
        return self.base.distance_from_chord(squared)

    def sine_from_chord(self, squared: Tensor) -> Tensor:
        """Length of directions."""
        return self.base.sine_from_chord(squared)

    def direction_sums(self, x: Tensor, y: Tensor, weights: Tensor, squared: Tensor) -> Tensor:
        """Weighted sums of directions."""
        return self.base.direction_sums(self.bare(x), self.bare(y), weights, squared)

    def pair_features(self, x: Tensor) -> Tensor:
        """Numbers that make pairwise chords cheap; tags have no part in them."""
        return self.base.pair_features(self.bare(x))

    def pair_squared_chord(self, f: Tensor, g: Tensor) -> Tensor:
        """All squared chords between pair features."""
        return self.base.pair_squared_chord(f, g)

    # --- tangent vectors ------------------------------------------------------------------

    def to_frame(self, x: Tensor, v: Tensor) -> Tensor:
        """Frame coordinates."""
        return self.base.to_frame(self.bare(x), self.bare(v))

    def from_frame(self, x: Tensor, coordinates: Tensor) -> Tensor:
        """Tangent vector."""
        return self._without(self.base.from_frame(self.bare(x), coordinates))

    def exp_map(self, x: Tensor, v: Tensor) -> Tensor:
        """Exponential map."""
        moved = self.base.exp_map(self.bare(x), self.bare(v))
        return self._like(moved, x)

    def log_map(self, x: Tensor, y: Tensor) -> Tensor:
        """Inverse of the exponential map."""
        return self._without(self.base.log_map(self.bare(x), self.bare(y)))

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Transport v from x to y."""
        return self._without(self.base.parallel_transport(self.bare(x), self.bare(y), self.bare(v)))

    def to_tangent(self, x: Tensor) -> Tensor:
        """Frame coordinates at the origin."""
        return self.base.to_tangent(self.bare(x))

    def displaced(self, mean: Tensor, v: Tensor) -> Tensor:
        """Point with frame coordinates v as seen from μ."""
        return self._like(self.base.displaced(self.bare(mean), v), mean)

    def displaced_gradient(self, mean: Tensor, v: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
        """Pull gradients back to μ and v."""
        return self.base.displaced_gradient(self.bare(mean), v, frame)

    # --- the rest -------------------------------------------------------------------------

    def log_stretch(self, square: Tensor) -> Tensor:
        """How much the exponential map stretches volume."""
        return self.base.log_stretch(square)

    def log_stretch_slope(self, square: Tensor) -> Tensor:
        """Return its slope."""
        return self.base.log_stretch_slope(square)

    def squared_radius(self, x: Tensor) -> Tensor:
        """Squared distance from the origin."""
        return self.base.squared_radius(self.bare(x))

    def heat_factor(self, d: Tensor) -> tuple[Tensor, Tensor]:
        """Factor of smooth kernels."""
        return self.base.heat_factor(d)

    def recenter(self, x: Tensor, root: Tensor) -> Tensor:
        """Move root, without tags, to the origin."""
        return self._like(self.base.recenter(self.bare(x), root), x)

    def uncenter(self, x: Tensor, root: Tensor) -> Tensor:
        """Inverse of :meth:`recenter`."""
        return self._like(self.base.uncenter(self.bare(x), root), x)

    def rotate(self, x: Tensor, rotation: Tensor) -> Tensor:
        """Rotate about the origin."""
        return self._like(self.base.rotate(self.bare(x), rotation), x)

    def to_chart(self, x: Tensor) -> Tensor:
        """Coordinates that users see."""
        return self.base.to_chart(self.bare(x))

    def from_chart(self, p: Tensor) -> Tensor:
        """Point with these coordinates, its tags 0."""
        return self._without(self.base.from_chart(p))

    def search_coordinates(self, x: Tensor) -> Tensor | None:
        """As of the space."""
        return self.base.search_coordinates(self.bare(x))

    def search_ball(self, x: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """As of the space."""
        return self.base.search_ball(self.bare(x), radius)
