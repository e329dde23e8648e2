"""Kernels as functions of geodesic distance, on any manifold.

A kernel is ``k(x, z) = σ g(d(x, z)/κ)`` with a profile g, ``g(0) = 1``. A new one is a class with
two methods, the profile and its derivative; the variance σ and the length scale κ, and the
gradients with respect to them and to the points, are the same for all::

    class Matern32:
        def profile(self, r):
            return (1 + 3**0.5 * r) * torch.exp(-(3**0.5) * r)

        def slope(self, r, g):
            return -3 * r * torch.exp(-(3**0.5) * r)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hgplvm.geometry import Manifold

__all__ = ["Exponential", "Kernel", "Pairs", "gram", "gram_gradient"]


class Kernel(Protocol):
    """Profile g(r) of a stationary kernel, with r = d/κ."""

    def profile(self, r: Tensor, /) -> Tensor:
        """``g(r)``, with ``g(0) = 1``."""

    def slope(self, r: Tensor, g: Tensor, /) -> Tensor:
        """``g'(r)``; g is the profile at r, for kernels that can reuse it."""


class Exponential:
    """The geodesic exponential kernel, ``g(r) = exp(-r)`` (paper, Eq. for k).

    Positive definite on hyperbolic and on flat space, because distance is conditionally negative
    definite on both.
    """

    def profile(self, r: Tensor) -> Tensor:
        """``exp(-r)``."""
        return torch.exp(-r)

    def slope(self, r: Tensor, g: Tensor) -> Tensor:  # noqa: ARG002
        """``-exp(-r)``."""
        return -g


@dataclass(frozen=True)
class Pairs:
    """A kernel between points x [..., n, ·] and z [..., m, ·], with what its gradient needs."""

    manifold: Manifold
    kernel: Kernel
    x: Tensor
    z: Tensor
    length_scale: float
    squared: Tensor  # squared chords [..., n, m]
    ratio: Tensor  # d/κ
    profile: Tensor  # g(d/κ)

    @classmethod
    def of(
        cls, kernel: Kernel, manifold: Manifold, x: Tensor, z: Tensor, length_scale: float
    ) -> Pairs:
        """Evaluate the profile."""
        squared = manifold.pair_squared_chord(manifold.pair_features(x), manifold.pair_features(z))
        ratio = manifold.distance_from_chord(squared) / length_scale
        return cls(manifold, kernel, x, z, length_scale, squared, ratio, kernel.profile(ratio))

    def pull(self, weights: Tensor) -> Tensor:
        """``κ ∂F/∂d`` for weights ``σ ∂F/∂K``."""
        return weights * self.kernel.slope(self.ratio, self.profile)

    def directions(self, pull: Tensor) -> Tensor:
        """``B = -(∂F/∂d)/sinh d``."""
        return cusp_division(-pull / self.length_scale, self.manifold.sinh_from_chord(self.squared))

    def gradient(self, weights: Tensor) -> Tensor:
        """Gradient in the frames at x, for weights ``σ ∂F/∂K``."""
        directions = self.directions(self.pull(weights))
        return self.manifold.direction_sums(self.x, self.z, directions, self.squared)


def gram(
    kernel: Kernel,
    manifold: Manifold,
    x: Tensor,
    z: Tensor,
    *,
    variance: float,
    length_scale: float,
) -> Tensor:
    """Gram matrix ``K_ij = σ g(d(x_i, z_j)/κ)``: [..., n, m]."""
    return variance * Pairs.of(kernel, manifold, x, z, length_scale).profile


def gram_gradient(
    kernel: Kernel,
    manifold: Manifold,
    x: Tensor,
    z: Tensor,
    weights: Tensor,
    *,
    variance: float,
    length_scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of ``Σ_ij G_ij K_ij`` with K the Gram matrix of x [n] and z [m].

    Parameters
    ----------
    weights : Tensor [n, m]
        ``G = ∂F/∂K``.

    Returns
    -------
    grad_x, grad_z : Tensor [n, Q], [m, Q]
        Riemannian gradients in the frames at x and z:
        ``grad_i = Σ_j B_ij (z_j - c_ij x_i)`` with ``B = -G σ g'/(κ sinh d)``.
    grad_log_variance, grad_log_length_scale : Tensor []
        ``Σ G∘K`` and ``-Σ G σ g' d/κ``.
    """
    pairs = Pairs.of(kernel, manifold, x, z, length_scale)
    pull = pairs.pull(variance * weights)
    directions = pairs.directions(pull)
    return (
        manifold.direction_sums(x, z, directions, pairs.squared),
        manifold.direction_sums(z, x, directions.mT, pairs.squared.mT),
        variance * (weights * pairs.profile).sum(),
        -(pull * pairs.ratio).sum(),
    )


def cusp_division(numerator: Tensor, sinh_distance: Tensor) -> Tensor:
    """``numerator / sinh d``, and 0 at coincident points: the kernel's cusp has no direction."""
    # dividing by infinity there is one pass cheaper than selecting afterwards
    return numerator / sinh_distance.masked_fill(sinh_distance == 0, torch.inf)
