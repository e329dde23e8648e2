"""Hyperbolic space: the Lorentz model for computing, the Poincaré ball for users."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hgplvm.geometry import lorentz
from hgplvm.manifolds._base import Manifold

__all__ = ["Hyperbolic"]

# Latents stay within this radius, where neighbours at a distance of 1e-10 (float32: 1e-4) still
# differ in their coordinates.
LATENT_RADIUS = {torch.float64: 12.0, torch.float32: 6.0}


class Hyperbolic(Manifold):
    """Hyperbolic space of curvature -1, by the functions of :mod:`hgplvm.geometry.lorentz`."""

    name = "hyperbolic"
    chart = "Poincaré ball"
    points_attribute = "lorentz_"
    # beyond 5 the outer rows come near the radius that latents may have
    start_scales: ClassVar[tuple[float, ...]] = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    # the factor comes from the heat kernel of H³, in which H¹ and H² lie
    heat_dimensions = 3

    ambient_dim = staticmethod(lorentz.ambient_dim)
    origin = staticmethod(lorentz.origin)
    project = staticmethod(lorentz.project)
    squared_chord = staticmethod(lorentz.squared_chord)
    pair_features = staticmethod(lorentz.pair_features)
    pair_squared_chord = staticmethod(lorentz.pair_squared_chord)
    distance_from_chord = staticmethod(lorentz.distance_from_chord)
    sine_from_chord = staticmethod(lorentz.sinh_from_chord)
    distance = staticmethod(lorentz.distance)
    pairwise_distance = staticmethod(lorentz.pairwise_distance)
    direction_sums = staticmethod(lorentz.direction_sums)
    squared_radius = staticmethod(lorentz.squared_radius)
    log_stretch = staticmethod(lorentz.log_stretch)
    log_stretch_slope = staticmethod(lorentz.log_stretch_slope)
    project_tangent = staticmethod(lorentz.project_tangent)
    to_frame = staticmethod(lorentz.to_frame)
    from_frame = staticmethod(lorentz.from_frame)
    from_tangent = staticmethod(lorentz.from_tangent)
    to_tangent = staticmethod(lorentz.to_tangent)
    displaced = staticmethod(lorentz.displaced)
    displaced_gradient = staticmethod(lorentz.displaced_gradient)
    exp_map = staticmethod(lorentz.exp_map)
    log_map = staticmethod(lorentz.log_map)
    geodesic = staticmethod(lorentz.geodesic)
    parallel_transport = staticmethod(lorentz.parallel_transport)
    recenter = staticmethod(lorentz.recenter)
    uncenter = staticmethod(lorentz.uncenter)
    rotate = staticmethod(lorentz.rotate)
    canonical_rotation = staticmethod(lorentz.canonical_rotation)
    frechet_mean = staticmethod(lorentz.frechet_mean)
    weighted_mean = staticmethod(lorentz.weighted_mean)
    to_chart = staticmethod(lorentz.to_chart)
    from_chart = staticmethod(lorentz.from_chart)
    search_coordinates = staticmethod(lorentz.to_chart)
    search_ball = staticmethod(lorentz.chart_ball)

    def latent_radius(self, dtype: torch.dtype) -> float:
        """12 in double precision, 6 in single."""
        return LATENT_RADIUS[dtype]

    def heat_factor(self, d: Tensor) -> tuple[Tensor, Tensor]:
        """``f = d/sinh d`` and ``f' = (sinh d - d cosh d)/sinh² d``.

        The heat kernel of H³ is ``(d/sinh d) exp(-d²/4t)`` times a constant in d.
        """
        small = d < 1e-2
        safe = torch.where(small, 1.0, d)
        # 1/sinh and coth by exponentials that do not overflow
        decay = torch.exp(-2.0 * safe)
        inverse = 2.0 * torch.exp(-safe) / (1.0 - decay)
        coth = (1.0 + decay) / (1.0 - decay)
        square = d * d
        value = torch.where(small, 1.0 - square / 6.0 * (1.0 - 7.0 / 60.0 * square), safe * inverse)
        series = -d / 3.0 * (1.0 - 7.0 / 30.0 * square * (1.0 - 31.0 / 147.0 * square))
        return value, torch.where(small, series, inverse * (1.0 - safe * coth))

    def chart_error(self, p: np.ndarray[Any, Any]) -> str | None:
        """Coordinates must have a norm below 1."""
        radius = np.linalg.norm(p, axis=-1).max(initial=0.0)
        if radius < 1.0:
            return None
        return (
            "must hold Poincaré ball coordinates, of norm below 1. "
            f"Got a point of norm {radius:.6g} instead."
        )

    def clip_chart(self, p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Put points inside that rounding has put on the boundary."""
        most = 1.0 - 4.0 * np.finfo(p.dtype).eps
        norm = np.linalg.norm(p, axis=1, keepdims=True)
        return np.where(norm > most, p * (most / np.maximum(norm, most)), p)
