"""Flat space, in which the paper's baselines live."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from hgplvm.geometry import euclidean
from hgplvm.manifolds._base import Manifold

__all__ = ["LENGTH_SCALE", "Flat"]

# Flat space has no unit of its own: fits have this length scale, and users see another unit.
LENGTH_SCALE = 3.0


class Flat(Manifold):
    """Flat space, by the functions of :mod:`hgplvm.geometry.euclidean`.

    Tangent vectors are their own frame coordinates, the chart is the identity, and the generalised
    sine of a distance is the distance itself.
    """

    name = "flat"
    chart = "Euclidean"
    curved = False
    start_scales: ClassVar[tuple[float, ...]] = tuple(
        LENGTH_SCALE / share for share in (50.0, 12.0, 4.0, 1.5)
    )
    heat_dimensions = math.inf

    ambient_dim = staticmethod(euclidean.ambient_dim)
    origin = staticmethod(euclidean.origin)
    project = staticmethod(euclidean.project)
    squared_chord = staticmethod(euclidean.squared_chord)
    pair_squared_chord = staticmethod(euclidean.pair_squared_chord)
    distance_from_chord = staticmethod(euclidean.distance_from_chord)
    sine_from_chord = staticmethod(euclidean.sinh_from_chord)
    direction_sums = staticmethod(euclidean.direction_sums)
    squared_radius = staticmethod(euclidean.squared_radius)
    log_stretch = staticmethod(euclidean.log_stretch)
    log_stretch_slope = staticmethod(euclidean.log_stretch_slope)
    project_tangent = staticmethod(euclidean.project_tangent)
    to_frame = staticmethod(euclidean.to_frame)
    from_frame = staticmethod(euclidean.from_frame)
    from_tangent = staticmethod(euclidean.from_tangent)
    to_tangent = staticmethod(euclidean.to_tangent)
    displaced = staticmethod(euclidean.displaced)
    displaced_gradient = staticmethod(euclidean.displaced_gradient)
    exp_map = staticmethod(euclidean.exp_map)
    log_map = staticmethod(euclidean.log_map)
    geodesic = staticmethod(euclidean.geodesic)
    parallel_transport = staticmethod(euclidean.parallel_transport)
    recenter = staticmethod(euclidean.recenter)
    uncenter = staticmethod(euclidean.uncenter)
    rotate = staticmethod(euclidean.rotate)
    frechet_mean = staticmethod(euclidean.frechet_mean)
    weighted_mean = staticmethod(euclidean.weighted_mean)
    to_chart = staticmethod(euclidean.to_chart)
    from_chart = staticmethod(euclidean.from_chart)
    search_coordinates = staticmethod(euclidean.to_chart)
    search_ball = staticmethod(euclidean.chart_ball)

    def heat_factor(self, d: Tensor) -> tuple[Tensor, Tensor]:
        """``f = 1``: mixtures of Gaussians are kernels as they are."""
        return torch.ones_like(d), torch.zeros_like(d)
