"""Where the signal of noisy data lies: noise of rows and columns, and directions beyond noise.

The data are taken as ``y_nd = f_nd + e_nd`` with ``Var e_nd = a_n b_d``: rows differ in noise (a
shallow cell), and so do columns (a gene with few counts). With the noise scaled to one
(*biwhitening*), white noise alone has singular values below ``√N + √D`` (Marchenko and Pastur), and
the r directions above it are the signal::

    z_nd = y_nd/√b_d,    Z/√a = U Λ Vᵀ,    s_n = Vᵀz_n  (the scores)

Where the columns are principal components already, most of the noise has gone with those that were
left out. The remaining noise has one variance, and the leading columns are the signal, as far as
their variances exceed what those of the second half, continued to the front, would be.

The scores have noise of variance a_n, too. They are what a model needs to see: by the Gaussian
model, all other directions are noise and say nothing about the latents. They say how noisy a row
is, though: ``k_n = D - r`` entries with the sum of squares ``q_n``, of which a_n is the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.stats import spearmanr

from hgplvm._typing import Array

__all__ = ["RowScores", "Signal", "are_components", "biwhitened", "median_marchenko_pastur"]

# with fewer rows or columns, noise is not told from signal
FEWEST = 20
# columns that may be principal components, perhaps of more rows: as many, in falling order of their
# variances (rank correlation with the order), and hardly correlated
COMPONENTS, FALLING, UNCORRELATED = (10, 200), -0.8, 0.5
# how far a component's variance must exceed what noise would have
COMPONENT_MARGIN = 1.1
# rows that directions are estimated from
SAMPLE_ROWS = 5000
# passes in which noise factors are estimated without the signal found so far
ROUNDS = 2
# sweeps over rows and columns in turn
SWEEPS = 10
# no factor falls below this share of what the whole variance of its row or column gives
LEAST_NOISE = 0.1
# least factor of a row, of the mean, and of a column, of the median: rare entries of a column that
# is otherwise constant are no direction of their own
LEAST_ROW, LEAST_COLUMN = 0.05, 0.02
# scaled entries are cut at this many standard deviations, so that single ones make no direction
LARGEST = 10.0
# how far a direction's variance must exceed the largest of noise
MARGIN = 1.04
# directions are at most this share of the columns or rows
MOST_DIRECTIONS = 1 / 3
# rows that the noise of a new row's column average counts for, in entries
PRIOR_ENTRIES = 5.0
# ridge of the scores of rows with missing entries
RIDGE = 1e-2


@dataclass(frozen=True)
class RowScores:
    """Rows in the directions of the signal, and what lies beyond them.

    Attributes
    ----------
    values : Array [n, r]
        s, the scores.
    inflation : Array [n]
        How many times its noise a row's scores have: 1, and more where entries are missing.
    squares, counts : Array [n]
        q and k: sum of squares of the entries beyond the signal, and how many observed entries
        there are beyond the r of the scores (below zero where a row has fewer).
    log_volume : Array [n]
        What turns a log density of scores and entries beyond into one of the observed entries:
        ``-½ log |VᵀV|``, 0 for complete rows.
    """

    values: Array
    inflation: Array
    squares: Array
    counts: Array
    log_volume: Array

    @property
    def noise(self) -> Array:
        """A [n], of the entries beyond the signal, next to a few of the typical variance 1."""
        return (self.squares + PRIOR_ENTRIES) / (self.counts.clip(0.0) + PRIOR_ENTRIES)


@dataclass(frozen=True)
class Signal:
    """The directions of the signal.

    Attributes
    ----------
    scale : Array [D]
        √b: standard deviations of the columns' noise in a typical row, for which a = 1.
    axes : Array [D, r]
        V, orthonormal directions of the scaled columns.
    share : float
        Share of the scaled data's variance that lies beyond the signal.
    rare : float
        Share of what lies beyond the signal that is in single entries far out of its noise.
    components : bool
        Whether the columns are principal components.
    """

    scale: Array
    axes: Array
    share: float
    rare: float = 0.0
    components: bool = False

    @classmethod
    def of(cls, residuals: Array) -> Self | None:
        """Find the signal in centred rows without gaps; None where nothing stands out of noise."""
        spread = np.sqrt(np.square(residuals).mean(0))
        if are_components(residuals):
            return cls._of_components(residuals)
        if min(residuals.shape) < FEWEST or not spread.max() > 0:
            return None
        chosen = np.random.default_rng(0).permutation(len(residuals))[:SAMPLE_ROWS]
        sample = residuals[np.sort(chosen)]
        varying = np.flatnonzero(spread > 1e-6 * spread.max())
        found = _Biwhitening(sample[:, varying])
        if found.rank == 0:
            return None
        scale = np.full(residuals.shape[1], np.sqrt(found.columns.min()))
        scale[varying] = np.sqrt(found.columns)
        axes = np.zeros((residuals.shape[1], found.rank))
        axes[varying] = found.axes
        scaled = sample / scale
        share = 1.0 - np.square(scaled @ axes).sum() / np.square(scaled).sum()
        return cls(scale, axes, float(share), found.rare)

    @classmethod
    def _of_components(cls, residuals: Array) -> Self:
        """Take the leading columns of principal components, and the others for noise."""
        order = np.argsort(-np.square(residuals).mean(0), kind="stable")
        variances = np.square(residuals).mean(0)[order]
        d = len(variances)
        half = d // 2
        # the largest of N sorted eigenvalues of white noise fall from the edge with k^(2/3)
        place = np.arange(1, d + 1) ** (2.0 / 3.0)
        line = np.polyfit(place[half:], variances[half:], 1)
        noise = np.maximum(np.polyval(line, place), variances[-1])
        above = variances[:half] > COMPONENT_MARGIN * noise[:half]
        rank = max(half if above.all() else int(np.argmin(above)), 1)
        level = max(variances[rank:].mean(), 1e-12 * variances[0])
        axes = np.eye(d)[:, order[:rank]]
        share = float(d * level / variances.sum())
        return cls(np.full(d, np.sqrt(level)), axes, share, components=True)

    @property
    def rank(self) -> int:
        """R."""
        return self.axes.shape[1]

    def scores(self, residuals: Array) -> RowScores:
        """Scores of centred rows; NaN is a missing entry."""
        observed = ~np.isnan(residuals)
        scaled = np.where(observed, residuals, 0.0) / self.scale
        values = scaled @ self.axes
        inflation = np.ones(len(values))
        squares = np.square(scaled).sum(1) - np.square(values).sum(1)
        counts = observed.sum(1) - float(self.rank)
        log_volume = np.zeros(len(values))
        for n in np.flatnonzero(~observed.all(1)):  # s = (VᵀV)⁻¹Vᵀz over the observed entries
            axes, z = self.axes[observed[n]], scaled[n, observed[n]]
            precision = axes.T @ axes + RIDGE * np.eye(self.rank)
            inverse = np.linalg.inv(precision)
            values[n] = inverse @ (axes.T @ z)
            inflation[n] = max(1.0, float(inverse.trace()) / self.rank)
            squares[n] = np.square(z - axes @ values[n]).sum()
            log_volume[n] = -0.5 * np.linalg.slogdet(precision)[1]
        # a row that is the mean, perhaps since it was imputed, is not free of noise
        squares = np.maximum(squares, LEAST_ROW * counts.clip(0.0))
        return RowScores(values, inflation, squares, counts, log_volume)

    def beyond(self, residuals: Array, scores: Array) -> Array:
        """Return what scores leave of centred, scaled rows [n, D]; 0 where an entry is missing."""
        rest: Array = residuals / self.scale - scores @ self.axes.T
        return np.nan_to_num(rest)

    def restored(self, scores: Array) -> Array:
        """Centred rows with these scores: [n, D]."""
        rows: Array = (scores @ self.axes.T) * self.scale
        return rows


def are_components(residuals: Array) -> bool:
    """Whether columns are principal components: hardly correlated, with variances that fall."""
    n, d = residuals.shape
    variances = np.square(residuals).mean(0)
    if not COMPONENTS[0] <= d <= min(COMPONENTS[1], n - 1) or not (variances > 0).all():
        return False
    if (
        not variances[0] > variances[-1]
        or not spearmanr(np.arange(d), variances).statistic < FALLING
    ):
        return False
    scaled = residuals / np.sqrt(variances)
    correlation = np.abs(scaled.T @ scaled / n - np.eye(d))
    return bool(correlation.max() < UNCORRELATED)


def biwhitened(residuals: Array) -> Array | None:
    """Directions [D, r] of centred rows that stand out of noise; None where there are none."""
    varying = np.flatnonzero(np.square(residuals).mean(0) > 0)
    if min(len(residuals), varying.size) < FEWEST:
        return None
    found = _Biwhitening(residuals[:, varying])
    if found.rank == 0:
        return None
    axes = np.zeros((residuals.shape[1], found.rank))
    axes[varying] = found.axes
    return axes


class _Biwhitening:
    """Noise factors and directions of a sample of rows [n, D], none of its columns constant."""

    def __init__(self, rows: Array) -> None:
        squares = np.square(rows)
        a, b = _balanced(squares)
        floors = LEAST_NOISE * a, LEAST_NOISE * b
        n, d = rows.shape
        for count in range(ROUNDS + 1):
            scaled = (rows / np.sqrt(a)[:, None] / np.sqrt(b)).clip(-LARGEST, LARGEST)
            variances, left = _principal(scaled)
            level = _noise_level(variances, n, d)
            r = _rank(variances / level, n, d)
            if count == ROUNDS:
                break
            rest = _without(scaled, left[:, :r])
            # what is left of the noise has (1 - r/n)(1 - r/D) of its degrees of freedom
            rest = np.square(rest) / ((1.0 - r / n) * (1.0 - r / d))
            by_row = rest.mean(1)
            b = np.maximum(b * (rest / np.maximum(by_row, 1e-12)[:, None]).mean(0), floors[1])
            a = np.maximum(a * by_row, floors[0])
        self.rank = r
        whole = rows / np.sqrt(a * level)[:, None] / np.sqrt(b)
        rest = np.square(_without(whole, left[:, :r]))
        self.rare = float(rest[rest > LARGEST**2].sum() / max(rest.sum(), 1e-300))
        # of a typical row, for which a = 1
        self.columns = b * level * a.mean()
        self.axes = np.linalg.qr(scaled.T @ left[:, :r])[0]


def _balanced(squares: Array) -> tuple[Array, Array]:
    """Factors a [n] and b [D] with ``mean_d y²/b = a`` and ``mean_n y²/a = b`` (Sinkhorn)."""
    b = squares.mean(0)
    floor = LEAST_COLUMN * np.median(b)
    b = np.maximum(b, floor)
    for _ in range(SWEEPS):
        a = (squares / b).mean(1)
        a = np.maximum(a / max(a.mean(), 1e-300), LEAST_ROW)
        b = np.maximum((squares / a[:, None]).mean(0), floor)
    return a, b


def _principal(scaled: Array) -> tuple[Array, Array]:
    """Squared singular values, falling, and the left singular vectors [n, ·] of scaled rows."""
    n, d = scaled.shape
    if n <= d:
        values, left = np.linalg.eigh(scaled @ scaled.T)
        return values[::-1].clip(0.0), left[:, ::-1]
    values, right = np.linalg.eigh(scaled.T @ scaled)
    values, right = values[::-1].clip(0.0), right[:, ::-1]
    return values, (scaled @ right) / np.sqrt(np.maximum(values, 1e-300))


def _without(scaled: Array, left: Array) -> Array:
    """Return rows without the directions of some left singular vectors."""
    rest: Array = scaled - left @ (left.T @ scaled)
    return rest


def _noise_level(variances: Array, n: int, d: int) -> float:
    """Variance of white noise whose median squared singular value is that of the data."""
    long, ratio = max(n, d), min(n, d) / max(n, d)
    return max(float(np.median(variances)) / (long * median_marchenko_pastur(ratio)), 1e-12)


def _rank(variances: Array, n: int, d: int) -> int:
    """How many squared singular values, in units of the noise, exceed ``(√n + √D)²``."""
    edge = MARGIN * (math.sqrt(n) + math.sqrt(d)) ** 2
    return int(min((variances > edge).sum(), MOST_DIRECTIONS * min(n, d)))


def median_marchenko_pastur(ratio: float) -> float:
    """Median of the squared singular values of white noise, over the longer side."""
    low, high = (1.0 - math.sqrt(ratio)) ** 2, (1.0 + math.sqrt(ratio)) ** 2
    # x = low + (high - low) sin² t takes the infinite density at 0, for a ratio of 1, away
    t = np.linspace(0.0, 0.5 * np.pi, 4001)[1:-1]
    x = low + (high - low) * np.sin(t) ** 2
    # √((high - x)(x - low))/x dx
    mass = np.cumsum((np.sin(t) * np.cos(t)) ** 2 / x)
    return float(x[np.searchsorted(mass, 0.5 * mass[-1])])
