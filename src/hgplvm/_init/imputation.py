"""Imputation of missing entries from nearest rows, before the latents are known.

A missing entry gets the mean and the variance of that column among the nearest rows, the donors.
Rows are compared first on the entries that both have observed, and then on the observed entries of
one and the observed or imputed entries of the other, which are more. The number of donors is chosen
by hiding some of the observed entries and measuring the error of their imputation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.impute import KNNImputer

from hgplvm._typing import Array

__all__ = ["Filled", "fill_gaps"]

# rows that donors are taken from, and rows whose distances are computed at a time
DONOR_ROWS = 3000
# number of donors at first, and the numbers that are then tried
FIRST = 20
DONORS = (4, 8, 15, 30)
# share of the observed entries that is hidden to choose between them, and how much larger than the
# smallest the error may be: of numbers that are as good, the largest gives the best variances
HIDDEN = 0.1
SLACK = 1.05


@dataclass(frozen=True)
class Filled:
    """Data without gaps."""

    data: Array  # [N, D]
    variance: Array  # [N, D] of imputed entries; 0 for observed ones
    gaps: Array  # [N] how many there are in each row

    @property
    def row_variance(self) -> Array:
        """Mean variance of the imputed entries of each row: [N]."""
        return self.variance.sum(1) / np.maximum(self.gaps, 1)


def fill_gaps(data: Array, seed: int) -> Filled:
    """Impute the missing entries (NaN) of centred data."""
    random = np.random.default_rng((seed, 1))
    observed = ~np.isnan(data)
    hidden = observed & (random.random(data.shape) < HIDDEN)
    # a row or a column that would be left with nothing keeps what it has
    hidden[~(observed & ~hidden).any(1)] = False
    hidden[:, ~(observed & ~hidden).any(0)] = False
    count = DONORS[0]
    if hidden.any():
        fewer = _Neighbors(np.where(hidden, np.nan, data), random)
        errors = [_root_mean_square((fewer.fill(n).data - data)[hidden]) for n in DONORS]
        count = max(n for n, e in zip(DONORS, errors, strict=True) if e <= SLACK * min(errors))
    return _Neighbors(data, random).fill(count)


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.square(values).mean()))


class _Neighbors:
    """Fills gaps from nearest rows."""

    def __init__(self, data: Array, random: np.random.Generator) -> None:
        self._observed = ~np.isnan(data)
        self._seen = np.where(self._observed, data, 0.0)
        self._weight = self._observed.astype(float)
        self._donors = random.permutation(len(data))[:DONOR_ROWS]
        # what no donor has stays at the column's mean, which is 0
        count = min(FIRST, len(self._donors))
        imputer = KNNImputer(n_neighbors=count, keep_empty_features=True)
        self._first = imputer.fit(data[self._donors]).transform(data)

    def fill(self, n_donors: int) -> Filled:
        """Impute from so many donors: the nearest by a row's observed entries."""
        count = max(1, min(n_donors, len(self._donors) - 1))
        filled, variance = np.empty_like(self._first), np.empty_like(self._first)
        known = self._first[self._donors]
        for start in range(0, len(filled), DONOR_ROWS):
            rows = slice(start, min(start + DONOR_ROWS, len(filled)))
            gaps = self._weight[rows] @ (known**2).T - 2.0 * self._seen[rows] @ known.T
            own = np.arange(rows.start, rows.stop)[:, None] == self._donors
            gaps[own] = np.inf  # no row is its own donor
            near = self._donors[np.argpartition(gaps, count - 1, axis=1)[:, :count]]
            filled[rows], variance[rows] = self._asked(rows, near)
        return Filled(filled, variance, (~self._observed).sum(1))

    def _asked(self, rows: slice, near: Array) -> tuple[Array, Array]:
        """Mean and variance over the donors [n, k]: of observed entries where there are any."""
        votes, total, squares, guessed = (np.zeros_like(self._seen[rows]) for _ in range(4))
        for donor in near.T:
            votes += self._weight[donor]
            total += self._seen[donor]
            squares += self._seen[donor] ** 2
            guessed += self._first[donor] / near.shape[1]
        some = np.maximum(votes, 1.0)
        mean = np.where(votes > 0, total / some, guessed)
        # one more observation varies by this much around a mean of so many
        variance = np.maximum(squares / some - (total / some) ** 2, 0.0)
        variance *= (votes + 1.0) / np.maximum(votes - 1.0, 1.0)
        seen = self._observed[rows]
        return np.where(seen, self._seen[rows], mean), np.where(seen, 0.0, variance)
