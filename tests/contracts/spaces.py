"""Every manifold and every kernel: a new one joins a list here and inherits all contract tests."""

from __future__ import annotations

import pytest
import torch

from hgplvm.kernels import (
    Exponential,
    GaussianMixture,
    Heat,
    Matern32,
    Matern52,
    RatioKernel,
    RationalQuadratic,
)
from hgplvm.manifolds import Flat, Hyperbolic, Sphere

MANIFOLDS = [Hyperbolic(), Flat(), Sphere()]


class Rational(RatioKernel):
    """``g(r) = 1/(1 + r)``: a user's kernel, a mixture of exponential kernels of all scales."""

    def profile(self, r):
        return 1.0 / (1.0 + r)

    def slope(self, r, g):
        return -g * g


class Bare(RatioKernel):
    """Matérn 3/2 without the factor of curved space: not positive definite there."""

    def profile(self, r):
        return (1.0 + 3**0.5 * r) * torch.exp(-(3**0.5) * r)

    def slope(self, r, g):
        return -3.0 * r * torch.exp(-(3**0.5) * r)


SMOOTH: list[GaussianMixture] = [Matern32(), Matern52(), Heat(), RationalQuadratic(0.7)]
ANYWHERE = [Exponential(), Rational()]
COMBINED = [
    Exponential() + Matern32(),
    Exponential() * Heat(),
    (Matern52() + RationalQuadratic()) * Exponential(),
]

PAIRS = [
    pytest.param(kernel, manifold, id=f"{type(kernel).__name__}-{manifold.name}")
    for manifold in MANIFOLDS
    for kernel in [*ANYWHERE, *([] if manifold == Sphere() else [*SMOOTH, *COMBINED])]
]
