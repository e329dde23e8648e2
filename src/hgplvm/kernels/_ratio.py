"""Kernels that are a function of d/κ alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

import torch
from torch import Tensor

from hgplvm.kernels._base import Derivatives, Kernel, Theta
from hgplvm.manifolds import Manifold

__all__ = ["Exponential", "RatioKernel"]


class RatioKernel(Kernel):
    """``ρ = g(d/κ)``: a subclass writes the profile g and its slope.

    Being positive definite in flat space does not make a profile so in curved space; one that
    cannot be seen to be so on 200 random points of the space is refused.
    """

    @abstractmethod
    def profile(self, r: Tensor, /) -> Tensor:
        """``g(r)``, with ``g(0) = 1``; r may be overwritten."""

    @abstractmethod
    def slope(self, r: Tensor, g: Tensor, /) -> Tensor:
        """``g'(r)``; g is the profile at r, for kernels that can reuse it."""

    def correlation(self, d: Tensor, theta: Theta, manifold: Manifold) -> Tensor:  # noqa: ARG002
        """``g(d/κ)``."""
        return self.profile(d / theta["length_scale"])

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,
        theta: Theta,
        manifold: Manifold,  # noqa: ARG002
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """``∂ρ/∂d = g'/κ`` and ``∂ρ/∂log κ = -d ∂ρ/∂d``."""
        scale = theta["length_scale"]
        by_d = self.slope(d / scale, rho) / scale
        return by_d, {"length_scale": -d * by_d} if "length_scale" in wanted else {}


class Exponential(RatioKernel):
    """The geodesic exponential kernel, ``ρ = exp(-d/κ)`` (paper, Eq. for k).

    Positive definite on hyperbolic and flat space and on spheres, because distance is conditionally
    negative definite on all of them. It is the covariance of Brownian motion along a tree.
    """

    name = "exponential"

    def check(self, manifold: Manifold, n_components: int) -> None:
        """Accept every space: distance is conditionally negative definite on those built in."""

    def profile(self, r: Tensor) -> Tensor:
        """``exp(-r)``."""
        return torch.exp(-r)

    def slope(self, r: Tensor, g: Tensor) -> Tensor:  # noqa: ARG002
        """``-exp(-r)``."""
        return -g

    # the two below are what the general ones compute, in fewer passes over large arrays

    def correlation(self, d: Tensor, theta: Theta, manifold: Manifold) -> Tensor:  # noqa: ARG002
        """``exp(-d/κ)``."""
        return (d * (-1.0 / theta["length_scale"])).exp_()

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,
        theta: Theta,
        manifold: Manifold,  # noqa: ARG002
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """``∂ρ/∂d = -ρ/κ`` and ``∂ρ/∂log κ = ρ d/κ``."""
        by_d = rho * (-1.0 / theta["length_scale"])
        return by_d, {"length_scale": -d * by_d} if "length_scale" in wanted else {}
