"""Batches as a covariate, in one file: what an extension of the covariance looks like.

``K = σ ρ(d)∘R + γ L`` with ``L_ij = 1[b_i = b_j]`` and ``R = (1 - s) + s L``: each batch shifts all
columns, and differently along the latent space. A point carries its batch in its last coordinate,
which no step changes; every objective works with it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hgplvm.covariance import Covariance, CovarianceFunction, CovarianceGradient, Pairs
from hgplvm.manifolds import Manifold


class Tagged(Manifold):
    """Points of a space with a batch number behind their coordinates."""

    def __init__(self, base: Manifold) -> None:
        self.base = base
        self.name = f"tagged {base.name}"

    def ambient_dim(self, n_components):
        return self.base.ambient_dim(n_components) + 1

    def origin(self, n_components, *, dtype=torch.float64, device="cpu"):
        origin = self.base.origin(n_components, dtype=dtype, device=device)
        return torch.cat([origin, origin.new_zeros(1)])

    def project(self, x, radius=None):
        return _with(self.base.project(x[..., :-1], radius), x)

    def latent_radius(self, dtype):
        return self.base.latent_radius(dtype)

    def squared_chord(self, x, y):
        return self.base.squared_chord(x[..., :-1], y[..., :-1])

    def pair_features(self, x):
        return _with(self.base.pair_features(x[..., :-1]), x)

    def pair_squared_chord(self, f, g):
        return self.base.pair_squared_chord(f[..., :-1], g[..., :-1])

    def distance_from_chord(self, squared):
        return self.base.distance_from_chord(squared)

    def sine_from_chord(self, squared):
        return self.base.sine_from_chord(squared)

    def direction_sums(self, x, y, weights, squared):
        return self.base.direction_sums(x[..., :-1], y[..., :-1], weights, squared)

    def to_frame(self, x, v):
        return self.base.to_frame(x[..., :-1], v[..., :-1])

    def from_frame(self, x, coordinates):
        vector = self.base.from_frame(x[..., :-1], coordinates)
        return torch.cat([vector, torch.zeros_like(vector[..., :1])], dim=-1)

    def exp_map(self, x, v):
        return _with(self.base.exp_map(x[..., :-1], v[..., :-1]), x)

    def log_map(self, x, y):
        vector = self.base.log_map(x[..., :-1], y[..., :-1])
        return torch.cat([vector, torch.zeros_like(vector[..., :1])], dim=-1)

    def parallel_transport(self, x, y, v):
        vector = self.base.parallel_transport(x[..., :-1], y[..., :-1], v[..., :-1])
        return torch.cat([vector, torch.zeros_like(vector[..., :1])], dim=-1)

    def log_stretch(self, square):
        return self.base.log_stretch(square)

    def log_stretch_slope(self, square):
        return self.base.log_stretch_slope(square)

    def recenter(self, x, root):
        return _with(self.base.recenter(x[..., :-1], root[..., :-1]), x)

    def uncenter(self, x, root):
        return _with(self.base.uncenter(x[..., :-1], root[..., :-1]), x)

    def rotate(self, x, rotation):
        return _with(self.base.rotate(x[..., :-1], rotation), x)

    def to_chart(self, x):
        return self.base.to_chart(x[..., :-1])

    def from_chart(self, p):
        return torch.cat([self.base.from_chart(p), torch.zeros_like(p[..., :1])], dim=-1)


def _with(points: Tensor, tagged: Tensor) -> Tensor:
    """Append the batches of other points."""
    return torch.cat([points, tagged[..., -1:].expand(*points.shape[:-1], 1)], dim=-1)


@dataclass(frozen=True)
class BatchFunction(CovarianceFunction):
    """A kernel on a tagged space, and the two parameters of the batches."""

    @property
    def shape(self) -> dict[str, float]:
        return {**super().shape, "batch_variance": 0.3, "batch_share": 0.2}

    def at(self, values: Mapping[str, Any]) -> BatchCovariance:
        base = super().at(values)
        own = {name: float(values[name]) for name in ("batch_variance", "batch_share")}
        return BatchCovariance(base.manifold, base.kernel, base.variance, base.theta, **own)


@dataclass(frozen=True)
class BatchCovariance(Covariance):
    """``σ ρ∘R + γ L`` with numbers."""

    batch_variance: float = 0.0  # γ
    batch_share: float = 0.0  # s = share/(1 + share)

    @property
    def diagonal(self) -> float:
        return self.variance + self.batch_variance

    @property
    def diagonal_slopes(self) -> dict[str, float]:
        return {"variance": self.variance, "batch_variance": self.batch_variance}

    def pairs_of_features(self, x, z, f, g, *, value=None):
        base = super().pairs_of_features(x, z, f, g)
        same = (x[..., -1].unsqueeze(-1) == z[..., -1].unsqueeze(-2)).to(base.rho)
        return BatchPairs(**vars(base), same=same)


@dataclass(frozen=True)
class BatchPairs(Pairs):
    """Pairs that know which of them are of one batch."""

    same: Tensor = None  # type: ignore[assignment]

    def _factor(self) -> Tensor:
        share = self.covariance.batch_share / (1.0 + self.covariance.batch_share)
        return (1.0 - share) + share * self.same

    def value(self) -> Tensor:
        return super().value() * self._factor() + self.covariance.batch_variance * self.same

    def _by_distance(self, by_value, total: CovarianceGradient | None, share):
        at = self.covariance
        if total is not None:
            total.include(
                "batch_variance", share * at.batch_variance * (by_value * self.same).sum()
            )
            slope = at.batch_share / (1.0 + at.batch_share) ** 2  # of s by log share
            through = by_value * at.variance * self.rho * (self.same - 1.0)
            total.include("batch_share", share * slope * through.sum())
        inner = replace(self, same=torch.ones_like(self.same))
        return super(BatchPairs, inner)._by_distance(by_value.mul_(self._factor()), total, share)
