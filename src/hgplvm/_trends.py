"""Trends of features along a lineage: what the model decodes, and what the rows say, with bands.

A model sees few directions of many columns, and smooths them over the map. So the shape s_g(u) that
it decodes along a lineage, at the position u, is one thing that a trend may be made of, and not all
of it. The trend of a feature (of counts of its logarithm) is a Gaussian process along the lineage

    f_g ~ GP(m_g, c² + s_g(u) s_g(u') + τ² ρ(|u - u'|/ℓ))

around its mean m_g, with a level that the data decide (a large c), and a correlation ρ that is
smooth, ``(1 + √3 r) exp(-√3 r)``, or rough, ``exp(-r)``. Amplitude τ, length ℓ and ρ come from a
small grid, over which posteriors are averaged by the evidence of each feature: the best of them
alone would be too sure. (With the decoded shape as the mean, and not in the covariance, its own
noise would be taken for a trend.) Rows count as much as they belong to the lineage, in bins along
it; counts with their own likelihood (Newton's method, and a normal posterior around its end), other
data with a noise variance for each feature. The derivative is that of the posterior.

Where a row is along a lineage is known up to a standard deviation w(u). So rows that are gathered
at u see ``(Bf)(u) = E f(u + δ)`` with ``δ ~ N(0, w²)``. The mean that is given is that of Bf, which
is what rows show: sharpening it would amplify whatever else differs between rows at one position.
The variance is that of f, which is known the less the more B blurs. Rows also shift together, with
the map: ``E[(f(u + δ) - f(u))²]`` is added to the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.sparse import issparse

from hgplvm._typing import Array

__all__ = ["Binned", "Trend", "fit_trend", "gather"]

# variance of the level, and the grid of amplitudes and lengths (shares of the lineage)
LEVEL = 1.0
AMPLITUDES = (0.1, 0.3, 0.8, 1.6)
LENGTHS, ROUGH = (0.25, 0.6), (1.0,)
# steps of Newton's method, and the longest of each
STEPS, LONGEST = 8, 2.0
# least noise variance, as a share of a feature's variance; and least information of a bin
SMALLEST = 1e-9
# rows that the variance of a feature over the lineage counts for, in its noise variance
PRIOR_ROWS = 5.0
# positions over which the uncertainty of positions is smoothed
SMOOTHED = 2.0
# features that are worked on at a time
AT_ONCE = 256
# logarithms beyond which rates are not numbers
LARGEST_LOG = 300.0


@dataclass(frozen=True)
class Binned:
    """Rows of a lineage, gathered at T positions.

    Attributes
    ----------
    positions : array [T]
        Distances from the root.
    base : array [T, G]
        What the model decodes there: of counts the logarithm of the rate of a median cell.
    total : array [T, G]
        Weighted sums of the rows.
    size : array [T, G]
        Weighted sums of the sizes of the cells, of other data of the rows.
    variance : array [G]
        Of counts the dispersion φ, of other data the noise variance.
    seen : array [T, G]
        Sums of the weights of the rows whose entry there is.
    effective : array [T]
        Sums of the weights of all rows.
    doubt : array [T]
        Standard deviation of a row's position there.
    counts : bool
        Whether rows are counts.
    """

    positions: Array
    base: Array
    total: Array
    size: Array
    variance: Array
    seen: Array
    effective: Array
    doubt: Array
    counts: bool


@dataclass(frozen=True)
class Trend:
    """Trends of features: mean, standard deviation, and derivative, on the scale of `base`.

    Attributes
    ----------
    positions : array [T]
        Distances from the root.
    mean, std : array [T, G]
        Of counts, of the logarithm of the rate.
    slope, slope_std : array [T, G]
        Derivative by the position.
    covariance : array [G, T, T]
        Posterior covariance of the mean.
    counts : bool
        Whether the mean is a logarithm.
    """

    positions: Array
    mean: Array
    std: Array
    slope: Array
    slope_std: Array
    covariance: Array
    counts: bool

    def band(self, level: float) -> tuple[Array, Array, Array]:
        """Mean, and the ends of the band that holds it with a probability, on the data's scale."""
        from scipy.stats import norm

        wide = float(norm.ppf(0.5 + 0.5 * level)) * self.std
        found = self.mean, self.mean - wide, self.mean + wide
        if not self.counts:
            return found
        return tuple(np.exp(np.minimum(part, LARGEST_LOG)) for part in found)  # type: ignore[return-value]


def gather(
    positions: Array,
    base: Array,
    rows: Any,
    where: Array,
    weights: Array,
    std: Array,
    *,
    sizes: Array | None = None,
    dispersion: Array | None = None,
    shifts: Array | None = None,
) -> Binned:
    """Gather rows [n, G] of a lineage at the nearest of T positions.

    Parameters
    ----------
    where, weights, std : array [n]
        Positions of the rows, how much each belongs to the lineage, and how sure its position is.
    sizes : array [n], optional
        Sizes of the cells, in units of the median, where rows are counts.
    dispersion : array [G], optional
        φ of counts; where they vary more around the mean of their bin, φ is what they say.
    shifts : array [n, G], optional
        What covariates do to the rows, of counts to their logarithms.
    """
    t, g = base.shape
    edges = 0.5 * (positions[1:] + positions[:-1])
    at = np.searchsorted(edges, where)
    some = np.flatnonzero(weights > 0)
    total, size, seen = np.zeros((t, g)), np.zeros((t, g)), np.zeros((t, g))
    effective, doubt = np.zeros(t), np.zeros(t)
    squares, seconds, counts = np.zeros(g), np.zeros(g), sizes is not None
    for b in range(t):
        members = some[at[some] == b]
        if not len(members):
            continue
        w = weights[members]
        block = rows[members]
        block = block.toarray() if issparse(block) else np.asarray(block, dtype=float)
        if shifts is not None and not counts:
            block = block - shifts[members]
        there = ~np.isnan(block)
        block = np.where(there, block, 0.0)
        effective[b] = w.sum()
        doubt[b] = math.sqrt(float(w @ np.square(std[members])) / w.sum())
        seen[b], total[b] = w @ there, w @ block
        if sizes is None:
            size[b] = seen[b]
            mean = there * (total[b] / np.maximum(seen[b], 1e-300))
            squares += w @ np.square(block - mean)
            continue
        exposure = sizes[members, None] * there
        if shifts is not None:
            exposure = exposure * np.exp(shifts[members])
        size[b] = w @ exposure
        mean = exposure * (total[b] / np.maximum(size[b], 1e-300))
        squares += w @ (np.square(block - mean) - mean)
        seconds += w @ np.square(mean)
    known = effective > 0
    if known.any():  # where there are no rows, positions are as sure as nearby
        doubt = np.interp(positions, positions[known], doubt[known])
        doubt = gaussian_filter1d(doubt, SMOOTHED, mode="nearest")
    if counts:
        given = np.zeros(g) if dispersion is None else np.asarray(dispersion, dtype=float)
        variance = np.maximum(given, squares / np.maximum(seconds, 1e-300))
    else:  # around the means of the bins
        degrees = np.maximum(seen.sum(0) - (seen > 0).sum(0), 1.0)
        least = np.square(base).mean(0) + np.square(total).sum(0) / np.maximum(seen.sum(0), 1.0)
        # the few rows of a bin may agree by chance: a feature varies among them as on the lineage
        means = np.where(seen > 0, total / np.maximum(seen, 1e-300), 0.0)
        middle = total.sum(0) / np.maximum(seen.sum(0), 1e-300)
        between = (seen * np.square(means - middle)).sum(0)
        overall = (squares + between) / np.maximum(seen.sum(0), 1e-300)
        variance = (squares + PRIOR_ROWS * overall) / (degrees + PRIOR_ROWS)
        variance = variance + SMALLEST * np.maximum(least, SMALLEST)
    return Binned(positions, base, total, size, variance, seen, effective, doubt, counts)


def fit_trend(binned: Binned) -> Trend:
    """Find the trends of all features."""
    starts = range(0, binned.base.shape[1], AT_ONCE)
    parts = [_fit(binned, slice(start, start + AT_ONCE)) for start in starts]
    mean = np.concatenate([part[0] for part in parts], axis=1)
    covariance = np.concatenate([part[1] for part in parts])
    positions = binned.positions
    slopes = _difference(positions)
    variance = np.diagonal(covariance, axis1=1, axis2=2).T + _displaced(binned, mean)
    slope_variance = np.einsum("ta,gab,tb->tg", slopes, covariance, slopes, optimize=True)
    return Trend(
        positions,
        mean,
        np.sqrt(np.maximum(variance, 0.0)),
        slopes @ mean,
        np.sqrt(np.maximum(slope_variance, 0.0)),
        covariance,
        binned.counts,
    )


def _blur(binned: Binned) -> Array:
    """``B`` [T, T]: where rows that are gathered at a position may be."""
    u = binned.positions
    gap = float(u[-1] - u[0]) / max(len(u) - 1, 1)
    width = np.maximum(binned.doubt, 1e-3 * gap + 1e-300)[:, None]
    weights = np.exp(-0.5 * np.square((u[None] - u[:, None]) / width))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _displaced(binned: Binned, mean: Array) -> Array:
    """``E[(f(u + δ) - f(u))²]`` [T, G], with f at the positions that there are."""
    weights = _blur(binned)
    first, second = weights @ mean, weights @ np.square(mean)
    return np.maximum(second - 2.0 * mean * first + np.square(mean), 0.0)


def _fit(binned: Binned, some: slice) -> tuple[Array, Array]:
    """Posterior mean [T, g] and covariance [g, T, T] of some features, averaged over kernels."""
    u = binned.positions
    apart = np.abs(u[:, None] - u[None]) / max(float(u[-1] - u[0]), 1e-12)
    shape = binned.base[:, some].T  # [g, T]
    weights = np.maximum(binned.effective, 1e-9) / np.maximum(binned.effective, 1e-9).sum()
    shape = shape - (shape @ weights)[:, None]
    level, unit = _level(binned, some)
    outer = LEVEL * np.square(unit)[:, None, None] + shape[:, :, None] * shape[:, None, :]
    outer = outer + 1e-8 * np.square(unit)[:, None, None] * np.eye(len(u))
    blur = _blur(binned)
    shapes = [(1.0 + r) * np.exp(-r) for r in (math.sqrt(3.0) * apart / s for s in LENGTHS)]
    shapes += [np.exp(-apart / s) for s in ROUGH]
    # moments over all kernels, weighted by evidence, the largest of which is `top`
    top, weight = np.full(len(shape), -np.inf), np.zeros(len(shape))
    first, second = np.zeros_like(shape), np.zeros((*shape.shape, len(u)))
    for rho in shapes:
        for amplitude in AMPLITUDES:
            kernel = outer + np.square(amplitude * unit)[:, None, None] * rho
            value, m, c = _posterior(binned, some, level, kernel, blur)
            m = m @ blur.T
            higher = np.maximum(top, value)
            before, now = np.exp(top - higher), np.exp(value - higher)
            c = c + m[:, :, None] * m[:, None, :]
            first = before[:, None] * first + now[:, None] * m
            second = before[:, None, None] * second + now[:, None, None] * c
            top, weight = higher, before * weight + now
    mean = first / weight[:, None]
    covariance = second / weight[:, None, None] - mean[:, :, None] * mean[:, None, :]
    return (level + mean).T, covariance


def _level(binned: Binned, some: slice) -> tuple[Array, Array]:
    """Mean of each feature [g, 1], and the unit of its changes [g]: 1 for logarithms."""
    total = binned.total[:, some]
    if binned.counts:
        size = binned.size[:, some].sum(0)
        level = np.log((total.sum(0) + 0.5) / np.maximum(size, 0.5))
        return level[:, None], np.ones(total.shape[1])
    seen = binned.seen[:, some]
    level = total.sum(0) / np.maximum(seen.sum(0), 1e-300)
    gaps = np.where(seen > 0, total / np.maximum(seen, 1e-300) - level, 0.0)
    between = np.square(gaps).sum(0) / np.maximum((seen > 0).sum(0), 1)
    spread = np.sqrt(between + binned.variance[some])
    return level[:, None], np.asarray(np.maximum(spread, 1e-150))


def _posterior(
    binned: Binned, some: slice, level: Array, k: Array, blur: Array
) -> tuple[Array, Array, Array]:
    """Evidence [g], mean [g, T] and covariance [g, T, T] of f - m, by Laplace's method.

    Rows see ``Bf``. With its prior covariance ``S = BKBᵀ`` and the information W of the rows, the
    likeliest Bf is ``S a``, and f has the mean ``KBᵀa`` and the covariance
    ``K - KBᵀ(I + WS)⁻¹WBK``.
    """
    eye = np.eye(k.shape[1])
    cross = blur @ k  # [g, T, T]
    seen = cross @ blur.T
    a, delta = np.zeros(seen.shape[:2]), np.zeros(seen.shape[:2])
    for _ in range(STEPS if binned.counts else 1):
        score, information, _ = _likelihood(binned, some, level + delta)
        # (S⁻¹ + W) δ' = W δ + s, and δ' = S a'
        right = information * delta + score
        new = np.linalg.solve(eye + information[:, :, None] * seen, right[:, :, None])[:, :, 0]
        step = (seen @ (new - a)[:, :, None])[:, :, 0]
        part = np.ones((len(step), 1))
        if binned.counts:
            longest = np.abs(step).max(axis=1, keepdims=True)
            part = LONGEST / np.maximum(longest, LONGEST)
        a, delta = a + part * (new - a), delta + part * step
    _, information, value = _likelihood(binned, some, level + delta)
    b = eye + information[:, :, None] * seen
    covariance = k - cross.transpose(0, 2, 1) @ np.linalg.solve(b, information[:, :, None] * cross)
    evidence = value - 0.5 * (delta * a).sum(1) - 0.5 * np.linalg.slogdet(b)[1]
    mean = (cross.transpose(0, 2, 1) @ a[:, :, None])[:, :, 0]
    return evidence, mean, 0.5 * (covariance + covariance.transpose(0, 2, 1))


def _likelihood(binned: Binned, some: slice, eta: Array) -> tuple[Array, Array, Array]:
    """Slope and information of each bin [g, T], and the log likelihood [g]."""
    total, seen = binned.total[:, some].T, binned.seen[:, some].T
    variance = binned.variance[some, None]
    if not binned.counts:
        misfit = seen * np.square(total / np.maximum(seen, 1e-300) - eta)
        score = (total - seen * eta) / variance
        return score, seen / variance, -0.5 * (misfit / variance).sum(1)
    # cells of a bin as one, of their mean size: μ of a cell, of which there are `seen`
    cells = np.maximum(seen, 1e-300)
    rate = np.exp(np.clip(eta, -LARGEST_LOG, LARGEST_LOG)) * (binned.size[:, some].T / cells)
    spread = 1.0 + variance * rate
    score = (total - cells * rate) / spread
    information = cells * rate / spread
    log_rate = np.log(np.maximum(rate, 1e-300))
    # Σ y log μ - (y + n/φ) log(1 + φμ), and its limit for φ = 0
    phi = np.maximum(variance, 1e-12)
    value = total * (log_rate - np.log(spread)) - cells * np.log1p(phi * rate) / phi
    return score, information, value.sum(1)


def _difference(u: Array) -> Array:
    """Matrix [T, T] of central differences."""
    n = len(u)
    found = np.zeros((n, n))
    for i in range(n):
        a, b = max(i - 1, 0), min(i + 1, n - 1)
        gap = max(float(u[b] - u[a]), 1e-300)
        found[i, b] += 1.0 / gap
        found[i, a] -= 1.0 / gap
    return found
