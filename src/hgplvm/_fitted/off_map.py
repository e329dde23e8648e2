"""Rows that a model does not explain: how unusual a row is among those of the fit.

Two things may be wrong with a row at its place x on the map, and each is compared with the same
number for training rows. *On the map*: its residual ``e = (s - m(x))/√(v + a)`` is large, or in
directions in which the residuals of the training rows near x are small::

    eᵀS⁻¹e/r,    S = (Σ_j e_j e_jᵀ + κ S₀)/(K + κ)   over the K training rows nearest to x

with S₀ the same over all rows. (A plane has room for little: residuals of training rows have
structure, too, and it is no surprise when a new row shares it. Of many directions those are taken
in which the residuals of every other of the rows are largest, and the rest of the rows are what new
ones are compared with: among those that chose the directions, little would be left beyond them.)
*Beyond*: what is left in the
directions that the model does not see is large: the sum of squares of the entries beyond the
signal, or the deviance of the counts, which depends on the size of a library as in training rows.

Both numbers become shares p₁, p₂ of training rows that are as unusual, and the p-value of the row
is the share of training rows whose ``-log p₁ - log p₂`` is as large as its own. So it is uniform
for rows like those of the fit, up to the resolution of the few hundred rows that are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_to

__all__ = ["OffMap", "log_rest"]

# training rows nearest to a place, and how many rows the covariance of all counts for
NEARBY, SHRINKAGE = 60, 20.0
# directions of residuals that are looked at one by one, of rows with more
DIRECTIONS = 30
# degree of the polynomial by which what is beyond depends on the size of a library
DEGREE = 3
# rows that are worked on at a time
CHUNK = 512


@dataclass(frozen=True)
class OffMap:
    """What training rows leave unexplained.

    Attributes
    ----------
    rows : Tensor [m]
        Which training rows.
    axes : Tensor [r, q]
        Directions of residuals.
    residuals : Tensor [m, q]
        Standardised residuals in these; each row is predicted without itself where it can be.
    rest : Tensor [m]
        Logarithm of what is beyond, of an entry, less what sizes explain.
    trend : Tensor [k]
        Coefficients of the polynomial in the logarithm of the size, the highest first.
    errors : Tensor [m, r], optional
        Residuals as they are, until what is beyond has been computed from them.
    """

    rows: Tensor
    axes: Tensor
    residuals: Tensor
    rest: Tensor
    trend: Tensor
    errors: Tensor | None = None

    @classmethod
    def of(cls, rows: Tensor, errors: Tensor, scale: Tensor | None = None) -> OffMap:
        """From residuals [m, r] and their standard deviations [m]; `rest` is still to come."""
        residuals = errors if scale is None else errors / scale[:, None]
        r = residuals.shape[1]
        axes = torch.eye(r, dtype=residuals.dtype, device=residuals.device)
        if r > DIRECTIONS:
            chosen = residuals[1::2] if len(residuals) > 2 else residuals
            axes = torch.linalg.svd(chosen, full_matrices=False)[2][:DIRECTIONS].mT.contiguous()
            if len(residuals) > 2:
                rows, residuals, errors = rows[::2], residuals[::2], errors[::2]
        rest = torch.zeros_like(residuals[:, 0])
        return cls(rows, axes, residuals @ axes, rest, rest.new_zeros(1), errors)

    def with_rest(self, log_rest: Tensor, log_sizes: Tensor | None) -> OffMap:
        """Return the same with what is beyond [m], and the sizes of the libraries, of counts."""
        trend = log_rest.new_zeros(1) + log_rest.median()
        if log_sizes is not None and len(log_rest) > 10 * DEGREE:
            powers = _powers(log_sizes, DEGREE + 1)
            trend = torch.linalg.lstsq(powers, log_rest[:, None], driver="gelsd").solution[:, 0]
        rest = log_rest - _trend(trend, log_sizes, log_rest)
        return replace(self, rest=rest, trend=trend, errors=None)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> OffMap:
        """Apply a function to all tensors."""
        names = ("rows", "axes", "residuals", "rest", "trend")
        parts = {name: function(getattr(self, name)) for name in names}
        return OffMap(**parts, errors=None if self.errors is None else function(self.errors))

    def p_values(
        self,
        manifold: Manifold,
        points: Tensor,
        x: Tensor,
        residuals: Tensor,
        log_rest: Tensor,
        log_sizes: Tensor | None,
    ) -> Tensor:
        """Share of training rows that are as unusual as each row: [n].

        Parameters
        ----------
        points : Tensor [N, ·]
            Training latents.
        x, residuals : Tensor [n, ·], [n, r]
            Latents of the rows, and their standardised residuals.
        log_rest, log_sizes : Tensor [n]
            What is beyond, and the sizes of their libraries, of counts.
        """
        landmarks = points[self.rows]
        own = torch.arange(len(landmarks), device=x.device)
        known = self._misfits(manifold, landmarks, landmarks, self.residuals, own)
        misfits = self._misfits(manifold, landmarks, x, residuals @ self.axes, None)
        rest = log_rest - _trend(self.trend, log_sizes, log_rest)
        both = [
            -torch.log(_shares(known, those)) - torch.log(_shares(self.rest, these))
            for those, these in ((known, self.rest), (misfits, rest))
        ]
        return _shares(both[0], both[1])

    def _misfits(
        self, manifold: Manifold, landmarks: Tensor, x: Tensor, e: Tensor, own: Tensor | None
    ) -> Tensor:
        """``eᵀS⁻¹e/q`` [n]; a row that is one of the landmarks is left out of its own S."""
        m, q = self.residuals.shape
        wanted = min(NEARBY, m - 1 if own is not None else m)
        if wanted < 1:
            return e.square().mean(1)
        overall = self.residuals.mT @ self.residuals / m
        overall = overall + 1e-6 * (overall.diagonal().mean() + 1e-12) * torch.eye(q).to(e)
        found = []
        for start in range(0, len(x), CHUNK):
            some = slice(start, start + CHUNK)
            near = nearest_to(manifold, x[some], landmarks, min(wanted + 1, m))
            if own is not None:  # the row itself last, and left out
                mine = (near == own[some, None]).to(torch.uint8)
                near = near.gather(1, mine.argsort(dim=1, stable=True))
            there = self.residuals[near[:, :wanted]]  # [n, K, q]
            covariance = (there.mT @ there + SHRINKAGE * overall) / (wanted + SHRINKAGE)
            solved = torch.linalg.solve(covariance, e[some].unsqueeze(2)).squeeze(2)
            found.append((solved * e[some]).sum(1) / q)
        return torch.cat(found)


def log_rest(squares: Tensor, counts: Tensor, degrees: float = 0.0) -> Tensor:
    """Logarithm of the mean square of entries beyond, of rows with this many of them.

    `degrees` is the share of the squares that training rows lost to the fit.
    """
    return torch.log((squares + 1e-12) / counts.clamp_min(1.0)) - torch.log1p(
        torch.tensor(-min(degrees, 0.5), dtype=squares.dtype)
    ).to(squares)


def _powers(log_sizes: Tensor, n: int) -> Tensor:
    return torch.stack([log_sizes**k for k in range(n - 1, -1, -1)], dim=1)


def _trend(trend: Tensor, log_sizes: Tensor | None, like: Tensor) -> Tensor:
    if log_sizes is None or len(trend) == 1:
        return trend[-1].expand_as(like)
    return _powers(log_sizes.to(like), len(trend)) @ trend


def _shares(reference: Tensor, values: Tensor) -> Tensor:
    """``(1 + number of references as large)/(1 + m)``."""
    ordered = reference.sort().values
    above = len(ordered) - torch.searchsorted(ordered, values.contiguous())
    return (1.0 + above) / (1.0 + len(ordered))
