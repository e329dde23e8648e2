"""The one way from points to covariances, and from ``∂F/∂K`` back to points and parameters.

``K_ij = σ ρ(d(x_i, z_j))`` with a kernel's correlation ρ and a manifold's distance d. For an
objective F with ``G = ∂F/∂K``::

    grad_x F      = Σ_j G_ij σ ρ'(d_ij) grad_x d_ij
    ∂F/∂log σ     = Σ G∘K
    ∂F/∂log θ     = Σ G σ ∂ρ/∂log θ          for κ and every other parameter of the kernel

Objectives say what G is; everything behind it is here. An objective asks a
:class:`CovarianceFunction` for the :class:`Covariance` at its parameters, and that for
:class:`Pairs` of points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hgplvm.kernels import Kernel, Theta
from hgplvm.manifolds import Manifold

__all__ = ["Covariance", "CovarianceFunction", "CovarianceGradient", "Pairs"]

# parameters of a kernel stand under this name among those of a fit
PREFIX = "kernel."


@dataclass(frozen=True)
class CovarianceFunction:
    """A kernel on a manifold, for any values of its parameters."""

    manifold: Manifold
    kernel: Kernel

    @property
    def shape(self) -> dict[str, float]:
        """Parameters besides σ and κ, by the name that they have in a fit, and their start."""
        return {PREFIX + name: value for name, value in self.kernel.shape.items()}

    def at(self, values: Mapping[str, Any]) -> Covariance:
        """Covariance at positive values ``variance``, ``length_scale`` and those of `shape`."""
        theta = {
            name: float(values.get(PREFIX + name, start))
            for name, start in self.kernel.shape.items()
        }
        theta["length_scale"] = float(values["length_scale"])
        return Covariance(self.manifold, self.kernel, float(values["variance"]), theta)


@dataclass(frozen=True)
class Covariance:
    """``k(x, z) = σ ρ(d(x, z))`` with numbers for σ and θ."""

    manifold: Manifold
    kernel: Kernel
    variance: float  # σ
    theta: Theta  # κ and further parameters

    @property
    def values(self) -> dict[str, float]:
        """Parameters by their names in a fit: the inverse of :meth:`CovarianceFunction.at`."""
        shape = {PREFIX + k: v for k, v in self.theta.items() if k != "length_scale"}
        return {"variance": self.variance, "length_scale": self.theta["length_scale"], **shape}

    @property
    def diagonal(self) -> float:
        """``k(x, x)``."""
        return self.variance

    @property
    def diagonal_slopes(self) -> dict[str, float]:
        """Derivatives of ``k(x, x)`` by the logarithms of parameters, by their names in a fit."""
        return {"variance": self.variance}

    def gram(self, x: Tensor, z: Tensor) -> Tensor:
        """``K_ij = k(x_i, z_j)``: [..., n, m]."""
        return self.pairs(x, z).value()

    def correlation(self, d: Tensor) -> Tensor:
        """``ρ(d)``."""
        return self.kernel.correlation(d, self.theta, self.manifold)

    def pairs(self, x: Tensor, z: Tensor) -> Pairs:
        """Evaluate all pairs of points x [..., n, ·] and z [..., m, ·]."""
        features = self.manifold.pair_features
        return self.pairs_of_features(x, z, features(x), features(z))

    def pairs_of_features(
        self, x: Tensor, z: Tensor, f: Tensor, g: Tensor, *, value: Tensor | None = None
    ) -> Pairs:
        """Evaluate the same from pair features that are known, and perhaps K itself."""
        squared = self.manifold.pair_squared_chord(f, g)
        distance = self.manifold.distance_from_chord(squared)
        rho = self.correlation(distance) if value is None else value / self.variance
        return Pairs(self, x, z, squared, distance, rho)


@dataclass(frozen=True)
class Pairs:
    """A covariance between points x and z, with what the way back needs: [..., n, m] each."""

    covariance: Covariance
    x: Tensor
    z: Tensor
    squared: Tensor  # squared chords
    distance: Tensor
    rho: Tensor  # correlations

    def value(self) -> Tensor:
        """``K = σρ``: a new tensor."""
        return self.covariance.variance * self.rho

    def back(
        self, by_value: Tensor, total: CovarianceGradient | None = None, *, share: float = 1.0
    ) -> Tensor:
        """Gradient in the frames at x [..., n, Q] from ``∂F/∂K``, which is overwritten.

        Parameters
        ----------
        by_value : Tensor [..., n, m]
            ``∂F/∂K``; where x and z are the same latents, twice that.
        total : CovarianceGradient, optional
            Takes the gradients of σ and θ, times `share` (½ where `by_value` was doubled).
        """
        by_distance = self._by_distance(by_value, total, share)
        manifold = self.covariance.manifold
        frame = manifold.distance_gradient(self.x, self.z, by_distance, self.squared)
        return frame.mul_(self.covariance.variance)

    def back_both(
        self, by_value: Tensor, total: CovarianceGradient | None = None
    ) -> tuple[Tensor, Tensor]:
        """Gradients in the frames at x and in those at z; `by_value` is overwritten."""
        by_distance = self._by_distance(by_value, total, 1.0)
        manifold = self.covariance.manifold
        at_x, at_z = manifold.distance_gradients(self.x, self.z, by_distance, self.squared)
        variance = self.covariance.variance
        return at_x.mul_(variance), at_z.mul_(variance)

    def _by_distance(
        self, by_value: Tensor, total: CovarianceGradient | None, share: float
    ) -> Tensor:
        """``∂F/∂d``, without the factor σ."""
        covariance = self.covariance
        by_distance, by_log = covariance.kernel.derivatives(
            self.distance,
            self.rho,
            covariance.theta,
            covariance.manifold,
            () if total is None else total.theta,
        )
        if total is not None:
            total.add(by_value, self.rho, by_log, share * covariance.variance)
        return by_value.mul_(by_distance)


class CovarianceGradient:
    """Gathers the gradients of the free parameters of a covariance, by their names in a fit."""

    def __init__(self, free: tuple[str, ...], like: Tensor) -> None:
        self._variance = "variance" in free
        names = {"length_scale": "length_scale"}
        names |= {name.removeprefix(PREFIX): name for name in free if name.startswith(PREFIX)}
        self._names = {k: v for k, v in names.items() if v in free}
        self._zero = like.new_zeros(())
        self._sums: dict[str, Tensor] = {}

    @property
    def theta(self) -> tuple[str, ...]:
        """Parameters of the kernel that are free, by their own names."""
        return tuple(self._names)

    def add(self, by_value: Tensor, rho: Tensor, by_log: dict[str, Tensor], factor: float) -> None:
        """Add ``Σ G∘ρ`` and ``Σ G ∂ρ/∂log θ``, times a factor."""
        if self._variance:
            self.include("variance", factor * _dot(by_value, rho))
        for name, full_name in self._names.items():
            self.include(full_name, factor * _dot(by_value, by_log[name]))

    def include(self, name: str, amount: float | Tensor) -> None:
        """Add to the gradient by the logarithm of a parameter, by its name in a fit."""
        self._sums[name] = self._sums.get(name, self._zero) + amount

    def add_diagonal(self, covariance: Covariance, by_diagonal: float | Tensor) -> None:
        """Add what does not come from pairs: ``Σ ∂F/∂k(x, x)``, times the derivative of k(x, x)."""
        for name, slope in covariance.diagonal_slopes.items():
            self.include(name, slope * by_diagonal)

    def gradients(self) -> dict[str, Tensor]:
        """Gradients by the logarithms of the free parameters."""
        free = (*(("variance",) if self._variance else ()), *self._names.values())
        return {**dict.fromkeys(free, self._zero), **self._sums}


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a.reshape(-1), b.reshape(-1))
