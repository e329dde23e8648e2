"""The covariance of rows of several batches: latents are shared, functions differ a little.

With t_i the *tags* of a row, one number for each batch (1 for its own, 0 for the others), the
decoded function of a batch is partly its own::

    K_ij = σ ρ(d(x_i, x_j)) R_ij,    R = Π_c [(1 - s_c) + s_c t_i·t_j]

over the categorical covariates c, with the share s_c of the variance in which batches differ. What
shifts a whole batch by the same amount everywhere is not here but in
:class:`hgplvm.objectives.effects.LinearEffects`. Functions are linear in the tags: the mean over
batches, with weights π, is the function of a row whose tags are π.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hgplvm.covariance import Covariance, CovarianceFunction, CovarianceGradient, Pairs
from hgplvm.manifolds._tagged import Tagged

__all__ = ["BatchCovariance", "BatchFunction", "BatchPairs", "share_name", "without_batches"]

# share of the variance that is a batch's own, at the start of a fit
START_SHARE = 0.05


def share_name(place: int) -> str:
    """Name, in a fit, of the odds ``s/(1 - s)`` of a categorical covariate."""
    return f"batch_odds.{place}"


@dataclass(frozen=True)
class BatchFunction(CovarianceFunction):
    """A kernel on a tagged space, for any values of its parameters.

    Attributes
    ----------
    widths : tuple of int
        Number of batches of each categorical covariate: so many tags stand for it.
    """

    manifold: Tagged
    widths: tuple[int, ...] = ()

    @property
    def shape(self) -> dict[str, float]:
        """Parameters of the kernel, and the odds."""
        odds = START_SHARE / (1.0 - START_SHARE)
        return {**super().shape, **{share_name(c): odds for c in range(len(self.widths))}}

    def at(self, values: Mapping[str, Any]) -> BatchCovariance:
        """Covariance at positive values of all parameters."""
        base = super().at(values)
        odds = [float(values[share_name(c)]) for c in range(len(self.widths))]
        shares = tuple(o / (1.0 + o) for o in odds)
        return BatchCovariance(
            self.manifold, base.kernel, base.variance, base.theta, self.widths, shares
        )


@dataclass(frozen=True)
class BatchCovariance(Covariance):
    """``σ ρ∘R`` with numbers.

    Attributes
    ----------
    widths, shares : tuples
        Number of tags, and s, of each categorical covariate.
    """

    manifold: Tagged
    widths: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()

    def factors(self, x: Tensor, z: Tensor) -> list[Tensor]:
        """``t_i·t_j`` of each covariate: [..., n, m]."""
        x, z = self.manifold.tags(x), self.manifold.tags(z)
        return [
            a @ b.mT
            for a, b in zip(
                torch.split(x, list(self.widths), dim=-1),
                torch.split(z, list(self.widths), dim=-1),
                strict=True,
            )
        ]

    def at_tags(self, tags: Tensor) -> float:
        """``k(x, x)`` of a point with these tags [n_tags]."""
        found = self.variance
        for share, part in zip(self.shares, torch.split(tags, list(self.widths)), strict=True):
            found *= (1.0 - share) + share * float(part.square().sum())
        return found

    def pairs_of_features(
        self, x: Tensor, z: Tensor, f: Tensor, g: Tensor, *, value: Tensor | None = None
    ) -> BatchPairs:
        """Evaluate pairs of tagged points; K that is known is not used."""
        del value
        base = super().pairs_of_features(x, z, f, g)
        same = self.factors(x, z)
        own = torch.ones_like(base.rho)
        for share, part in zip(self.shares, same, strict=True):
            own = own * ((1.0 - share) + share * part)
        return BatchPairs(**vars(base), same=same, own=own)


@dataclass(frozen=True)
class BatchPairs(Pairs):
    """Pairs that know what they share of their batches.

    Attributes
    ----------
    same : list of Tensor [..., n, m]
        ``t_i·t_j`` of each covariate.
    own : Tensor [..., n, m]
        R.
    """

    covariance: BatchCovariance
    same: list[Tensor]
    own: Tensor

    def value(self) -> Tensor:
        """``σ ρ∘R``."""
        return super().value() * self.own

    def _by_distance(
        self, by_value: Tensor, total: CovarianceGradient | None, share: float
    ) -> Tensor:
        """``∂F/∂d``, and ``∂F/∂log odds = s (1 - s) ∂F/∂s``."""
        if total is not None:
            through = by_value * self.rho * (share * self.covariance.variance)
            for place, (s, same) in enumerate(zip(self.covariance.shares, self.same, strict=True)):
                others = self.own / ((1.0 - s) + s * same)
                slope = (through * others * (same - 1.0)).sum()
                total.include(share_name(place), s * (1.0 - s) * slope)
        plain = Pairs(self.covariance, self.x, self.z, self.squared, self.distance, self.rho)
        return plain._by_distance(by_value.mul_(self.own), total, share)


def without_batches(covariance: BatchCovariance) -> Covariance:
    """Return the covariance of the space itself."""
    parts = (covariance.kernel, covariance.variance, covariance.theta)
    return Covariance(covariance.manifold.base, *parts)
