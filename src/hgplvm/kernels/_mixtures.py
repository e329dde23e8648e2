"""Smooth kernels: mixtures of Gaussians over scales, in the form that curved space asks for.

If M(r) is a mixture of Gaussians over scales, then ``ρ = f(d) M(d/κ)`` is positive definite on
hyperbolic space of up to three dimensions with ``f = d/sinh d``, because the heat kernel of H³ is
``(d/sinh d) exp(-d²/4t)`` up to a constant and mixtures of positive definite functions are positive
definite. In flat space ``f = 1``. The profile M alone is *not* positive definite in curved space.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm.kernels._base import Derivatives, Kernel, Theta
from hgplvm.manifolds import Manifold

__all__ = ["GaussianMixture", "Heat", "Matern32", "Matern52", "RationalQuadratic"]


class GaussianMixture(Kernel):
    """``ρ = f(d) M(d/κ)``: a subclass writes M, a mixture of Gaussians over scales, and its slope.

    A mixture with parameters of its own names them in `shape`, reads them from θ and overrides
    :meth:`by_shape`.
    """

    @abstractmethod
    def mixture(self, r: Tensor, theta: Theta, /) -> Tensor:
        """``M(r)``, with ``M(0) = 1``."""

    @abstractmethod
    def slope(self, r: Tensor, m: Tensor, theta: Theta, /) -> Tensor:
        """``M'(r)``; m is M at r."""

    def by_shape(self, name: str, r: Tensor, m: Tensor, theta: Theta, /) -> Tensor:
        """``∂M/∂log θ`` of a parameter in `shape`."""
        raise NotImplementedError(f"{type(self).__name__}.by_shape must be written for {name!r}.")

    def check(self, manifold: Manifold, n_components: int) -> None:
        """Refuse spaces for which no factor f is known."""
        if n_components > manifold.heat_dimensions:
            most = int(manifold.heat_dimensions)
            where = f"in more than {most} dimensions of" if most else "on"
            raise ValueError(
                f"The kernel {self!r} has no positive definite form {where} {manifold.name} space. "
                "Use kernel='exponential'"
                + (f", or n_components={most} or fewer." if most else ".")
            )

    def correlation(self, d: Tensor, theta: Theta, manifold: Manifold) -> Tensor:
        """``f(d) M(d/κ)``."""
        m = self.mixture(d / theta["length_scale"], theta)
        return m if not manifold.curved else manifold.heat_factor(d)[0] * m

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,
        theta: Theta,
        manifold: Manifold,
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """``∂ρ/∂d = f'M + f M'/κ``, ``∂ρ/∂log κ = -f M' d/κ`` and ``∂ρ/∂log θ = f ∂M/∂log θ``."""
        r = d / theta["length_scale"]
        if manifold.curved:
            factor, factor_slope = manifold.heat_factor(d)
            m = self.mixture(r, theta)
        else:
            factor, factor_slope, m = torch.ones_like(d), torch.zeros_like(d), rho
        slope = factor * self.slope(r, m, theta)  # f M'
        by_log = {n: factor * self.by_shape(n, r, m, theta) for n in self.shape if n in wanted}
        if "length_scale" in wanted:
            by_log["length_scale"] = -slope * r
        return factor_slope * m + slope / theta["length_scale"], by_log


class Matern32(GaussianMixture):
    """Matérn kernel of order 3/2: ``M = (1 + √3 r) exp(-√3 r)``. Functions have one derivative."""

    name = "matern32"

    def mixture(self, r: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``(1 + √3 r) exp(-√3 r)``."""
        a = 3**0.5 * r
        return (1.0 + a) * torch.exp(-a)

    def slope(self, r: Tensor, m: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``-3r exp(-√3 r)``."""
        return -3.0 * r * torch.exp(-(3**0.5) * r)


class Matern52(GaussianMixture):
    """Matérn kernel of order 5/2: ``M = (1 + √5 r + 5r²/3) exp(-√5 r)``. Two derivatives."""

    name = "matern52"

    def mixture(self, r: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``(1 + √5 r + 5r²/3) exp(-√5 r)``."""
        a = 5**0.5 * r
        return (1.0 + a + a * a / 3.0) * torch.exp(-a)

    def slope(self, r: Tensor, m: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``-(5r/3)(1 + √5 r) exp(-√5 r)``."""
        a = 5**0.5 * r
        return -(5.0 / 3.0) * r * (1.0 + a) * torch.exp(-a)


class Heat(GaussianMixture):
    """Heat kernel, the squared exponential of flat space: ``M = exp(-r²/2)``. All derivatives."""

    name = "heat"

    def mixture(self, r: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``exp(-r²/2)``."""
        return torch.exp(-0.5 * r * r)

    def slope(self, r: Tensor, m: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``-r M``."""
        return -r * m


@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(GaussianMixture):
    """Rational quadratic kernel: ``M = (1 + r²/2α)^(-α)``, with α learnt.

    Parameters
    ----------
    alpha : float
        Where a fit starts with α: small for many scales at once, large for one (:class:`Heat`).
    """

    alpha: float = 1.0

    @property
    def shape(self) -> dict[str, float]:  # type: ignore[override]
        """α."""
        return {"alpha": self.alpha}

    def mixture(self, r: Tensor, theta: Theta) -> Tensor:
        """``(1 + r²/2α)^(-α)``."""
        alpha = theta["alpha"]
        return (1.0 + r * r / (2.0 * alpha)).pow(-alpha)

    def slope(self, r: Tensor, m: Tensor, theta: Theta) -> Tensor:
        """``-r M/(1 + r²/2α)``."""
        return -r * m / (1.0 + r * r / (2.0 * theta["alpha"]))

    def by_shape(self, name: str, r: Tensor, m: Tensor, theta: Theta) -> Tensor:  # noqa: ARG002
        """``∂M/∂log α = M [r²/2 /(1 + r²/2α) - α log(1 + r²/2α)]``."""
        alpha = theta["alpha"]
        base = 1.0 + r * r / (2.0 * alpha)
        return m * (0.5 * r * r / base - alpha * torch.log(base))
