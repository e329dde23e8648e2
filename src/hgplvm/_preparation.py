"""What is done to the rows before a fit: the mean is subtracted, and noise is told from signal.

Where much of the variance is noise, a model sees the rows in the directions of the signal alone
(:mod:`hgplvm._signal`), each with a noise variance of its own. Logarithms of counts and principal
components always count as noisy. The effect that the sequencing depth has on logarithms of counts
is subtracted, too (:mod:`hgplvm._log_counts`).

So is what covariates W do to each column: ``y = m + W B + …``. Batches may hold the parts of a tree
in different shares, and their means then differ by more than the batches' effects. So B is fitted
along with controls: the rows in the directions of the signal, brought together across batches
(:mod:`hgplvm._init.alignment`) and averaged with the nearest ones. What this still misses in these
directions is for the model to find (:mod:`hgplvm.objectives.effects`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import KMeans

from hgplvm._init.alignment import aligned
from hgplvm._init.imputation import fill_gaps
from hgplvm._init.paths import averaged
from hgplvm._log_counts import CountUnits, LogCountMean
from hgplvm._means import ColumnMeans, Mean, root_mean_squares
from hgplvm._signal import RowScores, Signal
from hgplvm._typing import Array

__all__ = ["Preparation", "prepare", "root_mean_square", "without_rounding"]

logger = logging.getLogger(__name__)

# share of the variance that noise must have before the rest is told from it, unless rows are known
# to be noisy: logarithms of counts, or principal components
NOISY = 0.4
# with more of it in single entries far out of the noise, rows are exact codes with columns of their
# own, such as the ancestors of a tree's nodes
MOST_RARE = 0.5
# rows so many times as far from the mean as the median row are outliers, if they are at most this
# share of the rows: they have no part in the mean, and are pulled in to that distance
FARTHEST, MOST_OUTLIERS = 10.0, 0.02
# cells of a group within which the effect of the depth is taken to be the same, and most groups
GROUP_CELLS, MOST_GROUPS = 50, 50
# cells that groups are made from
GROUPED_CELLS = 20_000
# rounds in which the effects of covariates are fitted with controls, and most controls
CONTROL_ROUNDS, MOST_CONTROLS = 3, 20
# rows that controls are averaged over, and rows that are averaged at a time
CONTROL_ROWS, CONTROL_CHUNK = 5000, 20_000
# least variance of the effects of a covariate, in units of the noise
LEAST_EFFECT = 1e-6


@dataclass(frozen=True)
class Preparation:
    """Rows that are ready for a fit.

    Attributes
    ----------
    mean : Mean
        What was subtracted.
    residuals : Array [N, D]
        Rows without their mean; NaN where an entry is missing.
    signal : Signal, optional
        Where the signal lies, in noisy data.
    scores : RowScores, optional
        The rows there.
    effects : Array [q, D], optional
        B: what covariates do to residuals, which are without it.
    """

    mean: Mean
    residuals: Array
    signal: Signal | None = None
    scores: RowScores | None = None
    effects: Array | None = None

    @property
    def values(self) -> Array:
        """What the model sees, before its units."""
        return self.residuals if self.scores is None else self.scores.values

    @property
    def size(self) -> float:
        """Root mean square of the values; noisier rows count less."""
        if self.scores is None:
            return root_mean_square(self.values[~np.isnan(self.values)])
        weights = 1.0 / self.scores.noise
        return root_mean_square(np.sqrt(weights / weights.mean())[:, None] * self.values)


def prepare(
    data: Array,
    mean: Mean,
    seed: int,
    *,
    uniform: bool,
    design: Array | None = None,
    widths: tuple[int, ...] = (),
    batches: Array | None = None,
) -> Preparation:
    """Prepare rows.

    Parameters
    ----------
    data : Array [N, D]
        Rows; NaN is a missing entry.
    mean : Mean
        What is subtracted, unless something better is found.
    uniform : bool
        Whether noise is not told from signal.
    design : Array [N, q], optional
        Covariates.
    widths : tuple of int
        How many of its columns belong to each covariate.
    batches : Array [N, c], optional
        Number of the batch of each row, for each categorical covariate.
    """
    known = None if design is None else _Known(design, widths, batches)
    residuals = without_rounding(data, mean.residuals(data))
    if uniform:
        residuals, effects = _without_effects(residuals, known, None)
        return Preparation(mean, residuals, effects=effects)
    counts = CountUnits.of(data) if isinstance(mean, ColumnMeans) else None
    if counts is not None:
        logs = counts.at_median_depth(data)
        logs -= np.nanmean(logs, axis=0)
        logs, _ = _without_effects(logs, known, None)
        mean = LogCountMean.of(data, counts, _groups(logs, _signal(logs, seed)))
        residuals = without_rounding(data, mean.residuals(data))
    elif isinstance(mean, ColumnMeans):
        mean = _robust(mean, data, residuals)
        residuals = without_rounding(data, mean.residuals(data))
    found = _Separated.of(residuals, known, seed)
    if found.signal is None or not (counts is not None or _is_noise(found.signal)):
        return Preparation(mean, found.residuals, effects=found.effects)
    scores = found.signal.scores(found.residuals)
    return Preparation(mean, found.residuals, found.signal, scores, found.effects)


@dataclass(frozen=True)
class _Known:
    """Covariates: their design [N, q], columns of each, and the batches [N, c] among them."""

    design: Array
    widths: tuple[int, ...]
    batches: Array | None


@dataclass(frozen=True)
class _Separated:
    """Residuals without the effects of covariates, these, and the signal in the residuals."""

    residuals: Array
    effects: Array | None
    signal: Signal | None

    @classmethod
    def of(cls, whole: Array, known: _Known | None, seed: int) -> _Separated:
        residuals, effects = _without_effects(whole, known, None)
        signal = _signal(residuals, seed)
        if known is None:
            return cls(residuals, None, signal)
        for _ in range(CONTROL_ROUNDS):
            controls = _controls(residuals, signal, known.batches)
            residuals, effects = _without_effects(whole, known, controls)
        return cls(residuals, effects, _signal(residuals, seed))


def _without_effects(
    residuals: Array, known: _Known | None, controls: Array | None
) -> tuple[Array, Array | None]:
    """Least squares of the columns on covariates and controls; what covariates do is taken off.

    Effects are shrunk by how large those of their covariate are, in all columns together.
    """
    if known is None:
        return residuals, None
    q = known.design.shape[1]
    sides = known.design if controls is None else np.concatenate([known.design, controls], axis=1)
    effects = _least_squares(sides, residuals, np.zeros(sides.shape[1]))[:q]
    left = residuals - known.design @ effects
    if controls is not None:
        beside = _least_squares(controls, left, np.zeros(controls.shape[1]))
        left = left - controls @ beside
    ridge = np.zeros(sides.shape[1])
    ridge[:q] = _precisions(known, effects, np.nanmean(np.square(left), axis=0))
    effects = _least_squares(sides, residuals, ridge)[:q]
    return residuals - known.design @ effects, effects


def _least_squares(sides: Array, rows: Array, ridge: Array) -> Array:
    """Coefficients [q, D] of rows [n, D] on sides [n, q]; NaN is a missing entry."""
    prior = np.diag(np.sqrt(ridge))[ridge > 0]
    observed = ~np.isnan(rows)
    whole = observed.all(axis=0)
    found = np.zeros((sides.shape[1], rows.shape[1]))
    more = np.zeros((len(prior), rows.shape[1]))
    stacked = np.concatenate([sides, prior])
    found[:, whole] = np.linalg.lstsq(
        stacked, np.concatenate([rows[:, whole], more[:, whole]]), rcond=1e-10
    )[0]
    for d in np.flatnonzero(~whole):
        own = observed[:, d]
        some = np.concatenate([sides[own], prior])
        found[:, d] = np.linalg.lstsq(
            some, np.concatenate([rows[own, d], more[:, d]]), rcond=1e-10
        )[0]
    return found


def _precisions(known: _Known, effects: Array, noise: Array) -> Array:
    """Ridge [q] of the effects, from the variance of those of each covariate in units of the noise.

    With information I about an effect, its estimate squared has the expectation ``τ² + 1/I``.
    """
    information = np.square(known.design).sum(0)
    varying = noise > 1e-12 * max(noise.max(), 1e-300)
    found, start = np.zeros(len(information)), 0
    for width in known.widths:
        some = slice(start, start + width)
        start += width
        if not varying.any():
            continue
        squares = np.square(effects[some][:, varying]) / noise[varying]
        free = max(width - 1, 1) / width  # effects of levels add up to 0
        excess = (information[some, None] * squares - free).sum()
        variance = excess / (information[some].sum() * varying.sum())
        found[some] = 1.0 / max(variance, LEAST_EFFECT)
    return found


def _controls(residuals: Array, signal: Signal | None, batches: Array | None) -> Array:
    """Leading directions of the rows, averaged with the nearest ones of all batches [N, ·]."""
    filled = np.nan_to_num(residuals)
    if signal is not None:
        scores = signal.scores(residuals)
        values, noise = scores.values, scores.noise * scores.inflation
    else:
        n_axes = min(MOST_CONTROLS, *filled.shape)
        axes = np.linalg.svd(filled[:CONTROL_ROWS], full_matrices=False)[2][:n_axes]
        values, noise = filled @ axes.T, np.ones(len(filled))
    rows, own = torch.from_numpy(values), torch.from_numpy(noise)
    if batches is not None:
        rows = aligned(rows, own, torch.from_numpy(batches))
    chosen = np.sort(np.random.default_rng(0).permutation(len(values))[:CONTROL_ROWS])
    parts = [
        averaged(part, rows[chosen], own[chosen])[0] for part in torch.split(rows, CONTROL_CHUNK)
    ]
    means = torch.cat(parts).numpy()
    return np.asarray(means - means.mean(axis=0))


def _is_noise(signal: Signal) -> bool:
    """Whether what lies beyond the signal is noise."""
    return signal.components or (signal.share >= NOISY and signal.rare <= MOST_RARE)


def _robust(mean: ColumnMeans, data: Array, residuals: Array) -> ColumnMeans:
    """Column means without the outliers, which are pulled in; the same where there are none."""
    norms = root_mean_squares(residuals)
    far = norms > FARTHEST * np.median(norms)
    few = 0 < far.sum() <= max(1, MOST_OUTLIERS * len(far))
    # the others must say something about all columns
    if not few or np.isnan(residuals[~far]).all(0).any():
        return mean
    middle = ColumnMeans.of(data[~far]).values
    limit = FARTHEST * float(np.median(root_mean_squares(data[~far] - middle)))
    if not limit > 0:  # most rows are the same, and the others are the data
        return mean
    logger.warning(
        "%d of %d rows are more than %g times as far from the mean as the median row, the first "
        "of them row %d: these count as if they were so far",
        far.sum(),
        len(far),
        FARTHEST,
        far.argmax(),
    )
    return ColumnMeans(middle, limit)


def _signal(residuals: Array, seed: int) -> Signal | None:
    """Directions of the signal; missing entries are imputed for it, with noise of their own."""
    if not np.isnan(residuals).any():
        return Signal.of(residuals)
    filled = fill_gaps(residuals, seed)
    noise = np.random.default_rng((seed, 2)).standard_normal(residuals.shape)
    return Signal.of(filled.data + np.sqrt(filled.variance) * noise)


def _groups(residuals: Array, signal: Signal | None) -> Array:
    """Group of each row [N]: cells that are alike in the directions of the signal."""
    n_groups = min(MOST_GROUPS, len(residuals) // GROUP_CELLS)
    if signal is None or n_groups < 2:
        return np.zeros(len(residuals), dtype=int)
    scores = signal.scores(residuals).values
    chosen = np.random.default_rng(0).permutation(len(scores))[:GROUPED_CELLS]
    n_groups = min(n_groups, len(np.unique(scores[chosen], axis=0)))
    centres = KMeans(n_groups, n_init=1, random_state=0).fit(scores[chosen]).cluster_centers_
    nearest = np.square(centres).sum(1) - 2.0 * scores @ centres.T
    _, groups = np.unique(nearest.argmin(1), return_inverse=True)
    return np.asarray(groups)


def without_rounding(data: Array, centred: Array) -> Array:
    """Centred columns; those that vary by no more than rounding are constant."""
    rounding = 8.0 * np.finfo(float).eps * np.nanmax(np.abs(data), axis=0)
    return np.where(np.nanmax(np.abs(centred), axis=0) <= rounding, 0.0 * centred, centred)


def root_mean_square(data: Array) -> float:
    """Scale of centred data, 1 where they are constant."""
    largest = float(np.abs(data).max())
    if largest == 0.0:
        return 1.0
    scale = largest * float(np.sqrt(np.mean((data / largest) ** 2)))
    if not 1e-140 < scale < 1e140:
        raise ValueError(
            f"The data vary on a scale of {scale:.3g}, whose square is beyond floating point. "
            "Rescale them to a unit in which numbers are of ordinary size."
        )
    return scale
