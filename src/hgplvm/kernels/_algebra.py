"""Sums and products of kernels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

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

    def _both(
        self, d: Tensor, theta: Theta, manifold: Manifold, wanted: Collection[str]
    ) -> tuple[tuple[Tensor, Tensor], tuple[Derivatives, Derivatives]]:
        """Correlations and derivatives of the two; those of the second by its own length scale."""
        a, b = self._correlations(d, theta, manifold)
        inner = [
            [w.split(".", 1)[1] for w in wanted if w.startswith(s)] for s in ("left.", "right.")
        ]
        if "length_scale" in wanted:
            inner[0].append("length_scale")
        if {"length_scale", "ratio"} & set(wanted):
            inner[1].append("length_scale")
        left, right = self._thetas(theta)
        return (a, b), (
            self.left.derivatives(d, a, left, manifold, inner[0]),
            self.right.derivatives(d, b, right, manifold, inner[1]),
        )


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

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,  # noqa: ARG002
        theta: Theta,
        manifold: Manifold,
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """Add the two sides by their shares; ``∂ρ/∂log w = w (ρ_right - ρ_left)/(1 + w)²``."""
        (a, b), ((a_d, a_log), (b_d, b_log)) = self._both(d, theta, manifold, wanted)
        w = theta["weight"]
        left, right = 1.0 / (1.0 + w), w / (1.0 + w)
        by_log = {
            **{f"left.{k}": left * v for k, v in a_log.items() if k != "length_scale"},
            **{f"right.{k}": right * v for k, v in b_log.items() if k != "length_scale"},
        }
        if "weight" in wanted:
            by_log["weight"] = left * right * (b - a)
        if "ratio" in wanted:
            by_log["ratio"] = right * b_log["length_scale"]
        if "length_scale" in wanted:
            by_log["length_scale"] = left * a_log["length_scale"] + right * b_log["length_scale"]
        return left * a_d + right * b_d, by_log


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

    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,  # noqa: ARG002
        theta: Theta,
        manifold: Manifold,
        wanted: Collection[str] = (),
    ) -> Derivatives:
        """By the product rule."""
        (a, b), ((a_d, a_log), (b_d, b_log)) = self._both(d, theta, manifold, wanted)
        by_log = {
            **{f"left.{k}": b * v for k, v in a_log.items() if k != "length_scale"},
            **{f"right.{k}": a * v for k, v in b_log.items() if k != "length_scale"},
        }
        if "ratio" in wanted:
            by_log["ratio"] = a * b_log["length_scale"]
        if "length_scale" in wanted:
            by_log["length_scale"] = b * a_log["length_scale"] + a * b_log["length_scale"]
        return b * a_d + a * b_d, by_log
