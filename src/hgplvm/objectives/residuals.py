"""Calibration of the predictive variance, by column and point, from residuals of training rows.

A model has one noise variance for all columns and points. Real columns differ, and so do the
branches of a tree: a gene that is silent on one is noisy on another. With ``z_id`` the residual of
an entry of a training row, predicted without that row, in units of the model's standard deviation,
the variance of column d at x becomes ``v(x) s²_d(x)`` with::

    s²_d(x) = (Σ_j z_jd² + n₀ s²_d)/(K + n₀)

over the K training rows nearest to x, shrunk towards the whole column's mean s²_d. It is kept at
some rows, the sites. Between them it is a weighted mean of the nearest, whose weights go to zero
where the next one takes over, and far from all of them it is the column's mean::

    s²_d(x) = ρ Σ_j w_j s²_d(x_j)/Σ_j w_j + (1 - ρ) s²_d,    w_j = (1 - (d_j/d_m)²)²,
    ρ = exp(-(d_1/h)²/2)

with d_1 ≤ … ≤ d_m the distances of the nearest sites, and h four times the median distance between
a site and its m-th neighbour. So it changes smoothly, and what calibrates one branch says nothing
of the empty space beside it. For the same reason it multiplies no more than the noise and the
variance that the model's functions usually have at the training rows; what exceeds this, away from
them, is multiplied by the column's mean.

Residuals need not be normal: where most entries are exactly what was predicted and a few are far
off, 90% intervals of a normal with the right variance contain nearly all of them. So all scales are
multiplied by one factor: 1 if 87% to 93% of the residuals lie in their intervals (each computed
from the other rows nearby), else the factor that brings their share to the nearer of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_to

__all__ = ["ResidualScale", "residual_sites"]

# rows that a local scale is a mean over, and the weight of the column's mean, in rows
NEARBY = 20
SHRINKAGE = 10.0
# number of sites at which scales are kept, and of those that are averaged at a point
SITES = 1000
AVERAGED = 12
# how far a site is heard, in distances between a site and the last of those around it
REACH = 4.0
# the share of residuals that the normal's 90% intervals, of this half-width, may hold
HALF_WIDTH = 1.6449
SHARES = (0.87, 0.93)
# residuals that this is judged by
JUDGED = 2**20
# least scale: columns that are constant have no residual at all
SMALLEST = 1e-6
# least distance and weight
TINY = 1e-9


@dataclass(frozen=True)
class ResidualScale:
    """Factors of the predictive variance, by point and column.

    Attributes
    ----------
    sites : Tensor [S, Q+1]
        Points at which they are kept.
    squares : Tensor [S, D]
        s² there.
    """

    manifold: Manifold
    sites: Tensor
    squares: Tensor

    @classmethod
    def of(
        cls,
        manifold: Manifold,
        sites: Tensor,
        nearby: Tensor,
        residuals: Tensor,
        observed: Tensor | None,
    ) -> ResidualScale:
        """From rows' standardised residuals.

        Parameters
        ----------
        sites : Tensor [S, Q+1]
            Latents of rows.
        nearby : Tensor [S, K]
            Which of the residuals' rows are near each; the row of the site itself stands first.
        residuals : Tensor [n, D]
            z.
        observed : Tensor [n, D], optional
            1 where there is an entry at all.
        """
        squares = residuals.square()
        seen = torch.ones_like(squares) if observed is None else observed
        squares = squares * seen
        column = squares.sum(0) / seen.sum(0).clamp_min(1.0)
        size = max(1, 2**22 // (nearby.shape[1] * squares.shape[1]))
        scales, ratios = [], []
        for rows in torch.split(nearby, size):
            own, own_seen = squares[rows[:, 0]], seen[rows[:, 0]]
            total, count = squares[rows].sum(1), seen[rows].sum(1)
            scales.append((total + SHRINKAGE * column) / (count + SHRINKAGE))
            without = (total - own + SHRINKAGE * column) / (count - own_seen + SHRINKAGE)
            ratio = own / without.clamp_min(SMALLEST)
            ratios.append(ratio[own_seen > 0])
        factor = _factor(torch.cat(ratios).cpu().numpy())
        return cls(manifold, sites, (factor * torch.cat(scales)).clamp_min(SMALLEST))

    def at(self, x: Tensor) -> Tensor:
        """s² at each x [n, ·], [n, D]."""
        near = nearest_to(self.manifold, x, self.sites, min(AVERAGED, len(self.sites)))
        gaps = self._gaps(x, near)
        # sites at one place weigh the same; so does the last where it is the only one
        share = gaps / gaps[:, -1:].clamp_min(TINY)
        weights = (1.0 - share.square()).clamp_min(TINY).square()
        heard = torch.exp(-0.5 * (gaps[:, 0] / self._reach).square())
        weights = weights * (heard / weights.sum(1))[:, None]
        found = (1.0 - heard)[:, None] * self.whole
        for weight, site in zip(weights.unbind(1), near.unbind(1), strict=True):
            found.addcmul_(weight[:, None], self.squares[site])
        return found

    @property
    def whole(self) -> Tensor:
        """s² of the whole columns [D]."""
        return self.squares.mean(0)

    def _gaps(self, x: Tensor, near: Tensor) -> Tensor:
        """Distances [n, m] to some of the sites."""
        return self.manifold.distance(x.unsqueeze(1), self.sites[near])

    @cached_property
    def _reach(self) -> float:
        """h: how far a site is heard."""
        k = min(AVERAGED, len(self.sites))
        last = nearest_to(self.manifold, self.sites, self.sites, k)[:, -1:]
        return max(REACH * float(self._gaps(self.sites, last).median()), TINY)


def _factor(ratios: np.ndarray[Any, Any]) -> float:
    """Factor of the variances that makes 90% intervals hold about as many: 1 if they do."""
    ratios = np.sqrt(ratios[:: max(1, len(ratios) // JUDGED)]) / HALF_WIDTH
    low, high = np.quantile(ratios, SHARES)
    return float(max(low, min(high, 1.0)) ** 2) or 1.0


def residual_sites(manifold: Manifold, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Choose sites among latents x [N, ·], and the rows whose residuals they need.

    Returns
    -------
    sites : Tensor [S]
        Rows of x.
    rows : Tensor [n]
        Rows whose residuals are to be computed.
    nearby : Tensor [S, K]
        For each site, positions in `rows`, its own first.
    """
    generator = torch.Generator().manual_seed(0)  # which rows it is does not matter
    sites = torch.randperm(len(x), generator=generator)[:SITES].to(x.device)
    near = nearest_to(manifold, x[sites], x, min(NEARBY, len(x)))
    own = (near != sites[:, None]).to(torch.uint8)
    near = near.gather(1, own.argsort(dim=1, stable=True))  # the site's own row first
    near[:, 0] = sites  # rows at the same place may have hidden it
    rows, positions = torch.unique(near, return_inverse=True)
    return sites, rows, positions
