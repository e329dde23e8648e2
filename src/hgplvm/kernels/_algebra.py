"""Sums and products of kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hgplvm.kernels._base import Derivatives, Kernel, Theta
from hgplvm.manifolds import Manifold

__all__ = ["Product", "Sum"]


@dataclass(frozen=True, eq=False, repr=False)
class _Pair(Kernel):
    """Two kernels: the second has a length scale of ``ratio`` times the first's, and both learn.

    Parameters of the two stand under ``left.`` and ``right.``.
    """

    left: Kernel
    right: Kernel
    ratio: float = field(default=1.0, kw_only=True)

    @property
    def shape(self) -> dict[str, float]:  # type: ignore[override]
        """The ratio, and the parameters of both."""
        sides = (("left", self.left), ("right", self.right))
        inner = {f"{side}.{k}": v for side, kernel in sides for k, v in kernel.shape.items()}
        return {"ratio": self.ratio, **inner}

    def check(self, manifold: Manifold, n_components: int) -> None:
        """Check both: sums and products are positive definite where both are."""
        self.left.check(manifold, n_components)
        self.right.check(manifold, n_components)

    def _thetas(self, theta: Theta) -> tuple[Theta, Theta]:
        scales = {"left": 1.0, "right": theta["ratio"]}
        left, right = (
            {
                "length_scale": scales[side] * theta["length_scale"],
                **{k.split(".", 1)[1]: v for k, v in theta.items() if k.startswith(f"{side}.")},
            }
            for side in ("left", "right")
        )
        return left, right

    def _correlations(self, d: Tensor, theta: Theta, manifold: Manifold) -> tuple[Tensor, Tensor]:
        left, right = self._thetas(theta)
        return self.left.correlation(d, left, manifold), self.right.correlation(d, right, manifold)

    @abstractmethod
    def _partial(self, a: Tensor, b: Tensor, theta: Theta) -> tuple[Any, Any]:
        """``∂ρ/∂ρ_left`` and ``∂ρ/∂ρ_right``, for correlations a and b of the two."""

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,  # noqa: ARG002
        theta: Theta,
        manifold: Manifold,
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """``∂ρ = (∂ρ/∂ρ_left) ∂ρ_left + (∂ρ/∂ρ_right) ∂ρ_right``."""
        a, b = self._correlations(d, theta, manifold)
        thetas, shared = self._thetas(theta), {"length_scale", "ratio"} & set(wanted)
        sides = {}
        for kernel, side, value, own in (
            (self.left, "left.", a, thetas[0]),
            (self.right, "right.", b, thetas[1]),
        ):
            names = [name.split(".", 1)[1] for name in wanted if name.startswith(side)]
            names += ["length_scale"] if shared else []
            sides[side] = kernel.derivatives(d, value, own, manifold, names)
        by_log: dict[str, Tensor] = {}
        by_d, by_scale = [], []
        for (side, (slope, logs)), share in zip(
            sides.items(), self._partial(a, b, theta), strict=True
        ):
            by_d.append(share * slope)
            by_log |= {side + k: share * v for k, v in logs.items() if k != "length_scale"}
            by_scale += [share * logs["length_scale"]] if shared else []
        if "ratio" in wanted:  # the length scale of the second alone
            by_log["ratio"] = by_scale[1]
        if "length_scale" in wanted:
            by_log["length_scale"] = by_scale[0] + by_scale[1]
        return by_d[0] + by_d[1], by_log


@dataclass(frozen=True, eq=False, repr=False)
class Sum(_Pair):
    """``ρ = (ρ_left + w ρ_right)/(1 + w)``, with the weight w learnt.

    Parameters
    ----------
    left, right : Kernel
        The two kernels; their own parameters are learnt, too.
    ratio : float
        Where a fit starts with the length scale of the second, as a multiple of the first's.
    weight : float
        Where it starts with w.
    """

    weight: float = field(default=1.0, kw_only=True)

    @property
    def shape(self) -> dict[str, float]:  # type: ignore[override]
        """The weight, the ratio, and the parameters of both."""
        return {"weight": self.weight, **super().shape}

    def correlation(self, d: Tensor, theta: Theta, manifold: Manifold) -> Tensor:
        """``(ρ_left + w ρ_right)/(1 + w)``."""
        a, b = self._correlations(d, theta, manifold)
        return (a + theta["weight"] * b) / (1.0 + theta["weight"])

    def _partial(self, a: Tensor, b: Tensor, theta: Theta) -> tuple[float, float]:  # noqa: ARG002
        """``1/(1 + w)`` and ``w/(1 + w)``."""
        w = theta["weight"]
        return 1.0 / (1.0 + w), w / (1.0 + w)

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,
        theta: Theta,
        manifold: Manifold,
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """Add ``∂ρ/∂log w = w (ρ_right - ρ_left)/(1 + w)²`` to those of the two."""
        by_d, by_log = super().derivatives(d, rho, theta, manifold, wanted)
        if "weight" in wanted:
            a, b = self._correlations(d, theta, manifold)
            left, right = self._partial(a, b, theta)
            by_log["weight"] = left * right * (b - a)
        return by_d, by_log


class Product(_Pair):
    """``ρ = ρ_left ρ_right``.

    Parameters
    ----------
    left, right : Kernel
        The two kernels; their own parameters are learnt, too.
    ratio : float
        Where a fit starts with the length scale of the second, as a multiple of the first's.
    """

    def correlation(self, d: Tensor, theta: Theta, manifold: Manifold) -> Tensor:
        """``ρ_left ρ_right``."""
        a, b = self._correlations(d, theta, manifold)
        return a * b

    def _partial(self, a: Tensor, b: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """``ρ_right`` and ``ρ_left``."""
        return b, a
