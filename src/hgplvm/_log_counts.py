"""Logarithms of counts: what sequencing depth alone does to them, as part of the mean.

Rows hold ``x = log(1 + u_n y)`` of counts y, where the unit u_n goes with the inverse of the cell's
depth: all entries of a row are whole multiples of one number, once the logarithm is undone. That
tells the unit, and with it the depth, even where genes have been left out since. The base of the
logarithm and the size of the units (counts per 10,000, say) are the user's choice. Residuals are
taken of natural logarithms in which one count of a cell of median depth is the unit::

    z = log(1 + (base^x - 1)/ū) = log(1 + v_n y),    v_n = u_n/ū,    ū the median of u

With a larger unit the difference between no count and one would be the largest of all, and that is
mostly noise.

The logarithm of a rare count is not on average the logarithm of its mean: a shallow cell has many
zeros and a few large numbers where a deep one has small numbers. With p_g the count of a gene that
a cell of median depth has on average, and Poisson counts, the expectation

    h(μ, v) = E log(1 + v Y),   Y ~ Poisson(μ)

tells how far: ``h(p/v_n, v_n) - h(p, 1)`` is subtracted from z, with p of the group of cells that
the row is most likely from. What remains is as if all cells had the median depth, but for the
noise, which stays what it was. The same expectation leads back from a decoded z to the row's own
logarithms: with the mean count μ for which ``h(μ, 1) = z``, x is ``h(μ, ū)`` to the base.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.special import gammaln

from hgplvm._means import Mean
from hgplvm._typing import Array

__all__ = ["CountUnits", "LogCountMean", "expected_log", "log_normalised"]

# bases of the logarithm that are recognised
BASES = (math.e, 2.0, 10.0)
# how far from a whole number a count may be, or which share of it, and up to which count that is
# looked at
ROUNDING, ROUNDED, LOOKED_AT = 0.02, 1e-4, 1000.0
# the smallest entry of a row may be one of these counts
SMALLEST_COUNTS = (1, 2, 3, 4)
# no count adds less than this to ``base^x``, and no logarithm of one is larger
LEAST_UNIT, LARGEST_LOG = 1e-9, 50.0
# rows that are looked at before all of them
FIRST_ROWS = 50
# share of the rows that may be something else, such as a cell whose least count is large
ODD_ROWS = 0.02
# grid of the table of h: logarithms of μ, up to 10^9, and of u
LOG_MEANS = math.log(1e-4) + (math.log(1e8) / 73) * np.arange(120)
LOG_UNITS = np.linspace(math.log(1e-4), math.log(1e6), 93)
# counts beyond which a Taylor series stands for the sum
LARGE_COUNT = 400
# weight of the mean shares of all cells in those of a group, in cells of median depth
PRIOR_CELLS = 1.0
# rows that are worked on at a time
CHUNK = 1024
# numbers below it have no logarithm to speak of
TINY = 1e-100


@dataclass(frozen=True)
class CountUnits:
    """How counts became the entries of rows: ``x = log_base(1 + u_n y)``.

    Attributes
    ----------
    base : float
        Base of the logarithm.
    units : Array [n]
        u.
    """

    base: float
    units: Array

    @classmethod
    def of(cls, rows: Any) -> Self | None:
        """Recognise logarithms of normalised counts; None where rows are something else.

        Rows may be a sparse matrix; NaN is a missing entry.
        """
        entries = rows.data if issparse(rows) else rows
        if not entries.size or entries.dtype.kind != "f":
            return None
        least, most = np.nanmin(entries), np.nanmax(entries)
        if not (least >= 0.0 and most < LARGEST_LOG and (issparse(rows) or least == 0.0)):
            return None
        if _are_whole(entries):
            return None
        above = _above_zero(rows)
        some = above[:: -(-len(above) // FIRST_ROWS)]
        for base in BASES:
            if (_units(some, base) > 0).any():
                units = _units(above, base)
                if _explained(above, base, units):
                    return cls(base, np.where(units > 0, units, np.nanmedian(units)))
        return None

    def at_median_depth(self, rows: Any) -> Any:
        """Logarithms z of dense or sparse rows."""
        if issparse(rows):
            found = csr_matrix(rows, dtype=float, copy=True)
            found.data = self.at_median_depth(found.data)
            return found
        power = math.log(self.base) * np.asarray(rows, dtype=float)
        return np.log1p(np.expm1(power) / float(np.median(self.units)))


def _above_zero(rows: Any) -> list[Array]:
    """Entries above zero of each row."""
    if not issparse(rows):
        return [row[row > 0] for row in rows]
    stored = csr_matrix(rows)
    return [row[row > 0] for row in np.split(stored.data, stored.indptr[1:-1])]


def _are_whole(entries: Array) -> bool:
    """Whether all entries are whole numbers: counts themselves, codes or grades."""
    return bool((entries == np.rint(entries))[~np.isnan(entries)].all())


def _unit(above: Array, base: float) -> float | None:
    """U of a row with these entries above zero; None if they are no logarithms of counts."""
    entries = np.expm1(math.log(base) * above.astype(float))
    smallest = entries.min()
    if not (smallest > LEAST_UNIT and entries.max() < np.inf):
        return None
    for count in SMALLEST_COUNTS:
        multiples = entries * (count / smallest)
        small = multiples[multiples < LOOKED_AT]
        # larger ones are too close to whole numbers to say anything
        if 2 * small.size < multiples.size:
            return None
        if (np.abs(small - np.rint(small)) < np.maximum(ROUNDING, ROUNDED * small)).all():
            return float(smallest / count)
    return None


def _units(above: list[Array], base: float) -> Array:
    """U of each row, from its entries above zero; NaN where there is none."""
    found = [_unit(row, base) if row.size else None for row in above]
    return np.array([np.nan if unit is None else unit for unit in found])


def _explained(above: list[Array], base: float, units: Array) -> bool:
    """Whether nearly all rows have a unit, and most have counts beyond one.

    Of ones alone anything is a multiple.
    """
    filled = [(row, unit) for row, unit in zip(above, units, strict=True) if row.size]
    odd = sum(not unit > 0 for _, unit in filled)
    several = sum(np.expm1(math.log(base) * row.max()) > 1.5 * unit for row, unit in filled)
    return odd <= ODD_ROWS * len(filled) and several > 0.5 * len(above)


def unlogged(rows: Array, base: float, units: Array) -> Array:
    """Return the counts of rows; NaN stays."""
    counts: Array = np.rint(np.expm1(math.log(base) * rows) / units[:, None])
    return counts


def log_normalised(counts: Any, target: float | None = None) -> tuple[Any, float]:
    """``log(1 + y c/total)`` of counts, dense or sparse, and c, by default the median total."""
    total = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    target = float(np.median(total)) if target is None else target
    factors = target / np.maximum(total, 1.0)
    if not issparse(counts):
        return np.log1p(np.asarray(counts, dtype=float) * factors[:, None]), target
    found = csr_matrix(counts, dtype=float, copy=True)
    found.data = np.log1p(found.data * np.repeat(factors, np.diff(found.indptr)))
    return found, target


@dataclass(frozen=True)
class LogCountMean(Mean):
    """Column means of logarithms of counts at the median depth, and the effect of the depth.

    Attributes
    ----------
    values : Array [D]
        Means of z at the median depth.
    shares : Array [K, D]
        p: expected counts of a cell of median depth, in each group.
    base : float
        Base of the rows' logarithm.
    unit : float
        ū: median over the training rows of what one count adds to ``base^x``.
    """

    values: Array
    shares: Array
    base: float
    unit: float

    @classmethod
    def of(cls, rows: Array, counts: CountUnits, groups: Array) -> LogCountMean:
        """From rows, how they were made, and the group [n] of each, counted from 0."""
        unit = float(np.median(counts.units))
        seen = ~np.isnan(rows)
        depth = unit / counts.units  # 1/v
        whole = np.where(seen, unlogged(rows, counts.base, counts.units), 0.0)
        total, exposure = whole.sum(0), (seen * depth[:, None]).sum(0)
        mean = (total + 1e-2) / (exposure + 1e-2)
        shares = np.empty((int(groups.max()) + 1, rows.shape[1]))
        for k in range(len(shares)):
            own = groups == k
            known = (seen[own] * depth[own, None]).sum(0)
            shares[k] = (whole[own].sum(0) + PRIOR_CELLS * mean) / (known + PRIOR_CELLS)
        first = cls(np.zeros(rows.shape[1]), shares, counts.base, unit)
        return cls(np.nanmean(first.residuals(rows), axis=0), shares, counts.base, unit)

    def residuals(self, rows: Array) -> Array:
        """Logarithms z less the effect of the rows' depth and the means at the median depth."""
        self._check(rows)
        found = np.empty(rows.shape)
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            found[start : start + CHUNK] = self._rescaled(part) - self.depth_effect(part)
        return found - self.values

    def _check(self, rows: Array) -> None:
        """Refuse raw counts, and what can be no logarithm of one."""
        largest = np.nanmax(rows, initial=0.0)
        raw = largest >= 2.0 and not _are_whole(np.array([self.unit])) and _are_whole(rows)
        if largest > LARGEST_LOG or raw:
            raise ValueError(
                f"The rows have entries up to {largest:.4g} and look like raw counts, but the fit "
                "saw logarithms of normalised counts: prepare new rows as those of the fit were."
            )

    def restored(self, residuals: Array) -> Array:
        """Rows as they are expected at the median depth."""
        return self._expected(residuals + self.values)[0]

    def restored_std(self, residuals: Array, std: Array) -> Array:
        """Multiply deviations of z by ``∂x/∂z`` of the expected rows."""
        return std * self._expected(residuals + self.values)[1]

    def log_slopes(self, rows: Array) -> Array:
        """``log ∂z/∂x = log (b e^{bx}/(ū + e^{bx} - 1))`` with b the logarithm of the base."""
        power = math.log(self.base) * np.abs(rows)
        slopes: Array = math.log(math.log(self.base)) + power - np.log(self.unit + np.expm1(power))
        return slopes

    def _rescaled(self, rows: Array) -> Array:
        """``z = log(1 + (base^x - 1)/ū)``; an odd function, for entries below zero."""
        found = np.log1p(np.expm1(math.log(self.base) * np.abs(rows)) / self.unit)
        return np.copysign(found, rows)

    def _expected(self, z: Array) -> tuple[Array, Array]:
        """Rows ``x = h(μ, ū)``, to the base, where ``z = h(μ, 1)``; and ``∂x/∂z``.

        Interpolated between powers of z, and continued as such; odd functions, for z below zero.
        """
        log_z = np.log(_expected_logs(LOG_MEANS, 0.0))
        log_x = np.log(_expected_logs(LOG_MEANS, math.log(self.unit)) / math.log(self.base))
        powers = np.diff(log_x) / np.diff(log_z)
        at = np.log(np.maximum(np.abs(z), TINY))
        step = np.clip(np.searchsorted(log_z, at) - 1, 0, len(powers) - 1)
        x = np.exp(log_x[step] + powers[step] * (at - log_z[step]))
        return np.copysign(x, z), powers[step] * x / np.exp(at)

    def depth_effect(self, rows: Array) -> Array:
        """``h(p/v_n, v_n) - h(p, 1)`` for the group that each row is most likely from."""
        units = np.array([self._unit_of(row) for row in rows])
        counts = unlogged(rows, self.base, units)
        seen = ~np.isnan(rows)
        group = self._likeliest(np.where(seen, counts, 0.0), seen, self.unit / units)
        log_shares = np.log(self.shares)
        typical = [_expected_logs(logs, 0.0) for logs in log_shares]
        effect = np.empty(rows.shape)
        for n, (k, u) in enumerate(zip(group, units, strict=True)):
            depth = math.log(self.unit / u)  # of which -log v_n
            effect[n] = _expected_logs(log_shares[k] + depth, -depth) - typical[k]
        return effect

    def _unit_of(self, row: Array) -> float:
        """U of a row; that of the median depth for one that holds no logarithms of counts."""
        (above,) = _above_zero(row[None])
        if np.nanmin(row, initial=0.0) < 0.0 or not above.size:
            return self.unit
        return _unit(above, self.base) or self.unit

    def _likeliest(self, counts: Array, seen: Array, depth: Array) -> Array:
        """Group with the highest Poisson likelihood ``Σ y log(w p) - w p`` of each row: [n]."""
        likelihood = counts @ np.log(self.shares).T
        likelihood -= depth[:, None] * (seen @ self.shares.T)
        group: Array = likelihood.argmax(1)
        return group


def expected_log(mean: Array, unit: Array | float) -> Array:
    """``h(μ, u) = E log(1 + u Y)`` for Poisson counts, summed up (or a Taylor series)."""
    mean, unit = np.broadcast_arrays(np.asarray(mean, float), np.asarray(unit, float))
    k = np.arange(2 * LARGE_COUNT)
    m, u = mean[..., None], unit[..., None]
    mass = np.exp(k * np.log(np.maximum(m, 1e-300)) - m - gammaln(k + 1.0))
    summed = (mass * np.log1p(u * k)).sum(-1)
    series = np.log1p(unit * mean) - 0.5 * unit**2 * mean / (1.0 + unit * mean) ** 2
    found: Array = np.where(mean < LARGE_COUNT, summed, series)
    return found


@lru_cache(maxsize=1)
def _table() -> Array:
    """Values of h on the grid [units, means]."""
    means = np.exp(LOG_MEANS)
    return np.stack([expected_log(means, math.exp(log_unit)) for log_unit in LOG_UNITS])


def _expected_logs(log_means: Array, log_unit: float) -> Array:
    """H at many means and one unit, by interpolation; below the grid in proportion to the mean."""
    table = _table()
    at = np.clip((log_unit - LOG_UNITS[0]) / (LOG_UNITS[1] - LOG_UNITS[0]), 0, len(LOG_UNITS) - 1)
    low = min(int(at), len(LOG_UNITS) - 2)
    line = (1.0 - (at - low)) * table[low] + (at - low) * table[low + 1]
    found: Array = np.exp(np.interp(log_means, LOG_MEANS, np.log(line)))
    found *= np.exp(np.minimum(log_means - LOG_MEANS[0], 0.0))
    return found
