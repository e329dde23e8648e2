"""What a fit is of: rows as the model sees them, and the way back to those of the user."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from hgplvm._counts import CountRows, RateModel
from hgplvm._covariates import Coded, Covariates
from hgplvm._fitted import RateUnits, Units, row_digests
from hgplvm._init.alignment import aligned
from hgplvm._init.counts import start_counts
from hgplvm._init.imputation import fill_gaps
from hgplvm._means import ColumnMeans, Mean
from hgplvm._preparation import Preparation, prepare
from hgplvm._typing import Array
from hgplvm.manifolds._tagged import Tagged
from hgplvm.noise import KnownRowNoise, LearntRowNoise
from hgplvm.objectives.effects import LinearEffects
from hgplvm.objectives.responses import Imputation

__all__ = ["Problem", "Rows", "count_problem", "gaussian_problem"]

logger = logging.getLogger(__name__)

DTYPES = {"float64": torch.float64, "float32": torch.float32}
# least variance of a missing entry, as a share of the data's
SMALLEST_VARIANCE = 1e-9
# rows and columns of the sample that a model keeps, and rows whose scores it keeps
SAMPLE_ROWS, SAMPLE_COLUMNS, SCORE_ROWS = 300, 2000, 1000


@dataclass(frozen=True)
class Rows:
    """Centred training rows on a device, of mean square 1.

    Attributes
    ----------
    data : Tensor [N, D]
        Rows, with imputed values where entries are missing; of noisy data and of counts, their
        scores in the directions of the signal.
    imputation : Imputation, optional
        What is missing.
    noise : LearntRowNoise or KnownRowNoise, optional
        The noise of the rows, of noisy data and of counts.
    effects : LinearEffects, optional
        Covariates.
    tags : Tensor [N, T], optional
        Indicators of batches.
    levels : tuple of int
        How many of them belong to each categorical covariate.
    """

    data: Tensor
    imputation: Imputation | None = None
    noise: LearntRowNoise | KnownRowNoise | None = None
    effects: LinearEffects | None = None
    tags: Tensor | None = None
    levels: tuple[int, ...] = ()

    def scaled(self, factor: float) -> Rows:
        """Multiply the data by a factor."""
        if factor == 1.0:
            return self
        imputation = None if self.imputation is None else self.imputation.scaled(factor)
        noise = None if self.noise is None else self.noise.scaled(factor)
        return replace(self, data=self.data * factor, imputation=imputation, noise=noise)

    def some(self, rows: Tensor) -> Rows:
        """Return some of the rows, without their covariates."""
        imputation = None if self.imputation is None else self.imputation.of_rows(rows)
        noise = None if self.noise is None else self.noise.of_rows(rows)
        return Rows(self.data[rows], imputation, noise)

    @property
    def alone(self) -> Rows:
        """Return the rows without their covariates, batches moved onto each other: for a start."""
        found = Rows(self.data, self.imputation, self.noise)
        if self.tags is None:
            return found
        parts = torch.split(self.tags, list(self.levels), dim=1)
        batches = torch.stack([part.argmax(1) for part in parts], dim=1)
        noise = torch.ones_like(self.data[:, 0]) if self.noise is None else self.noise.start
        data = aligned(self.data, noise, batches)
        if self.imputation is not None:
            found = replace(found, imputation=replace(self.imputation, data=data))
        return replace(found, data=data)

    def with_covariates(self, coded: Coded, covariates: Covariates) -> Rows:
        """Return the rows with covariates, if there are any."""
        if not covariates.parts:
            return self
        design, tags = (torch.from_numpy(a).to(self.data) for a in (coded.design, coded.tags))
        return replace(
            self,
            effects=LinearEffects(design, covariates.widths),
            tags=tags if covariates.levels else None,
            levels=covariates.levels,
        )

    def tagged(self, latents: Tensor) -> Tensor:
        """Latents with the tags of their rows."""
        return latents if self.tags is None else torch.cat([latents, self.tags.to(latents)], dim=1)

    def bare(self, latents: Tensor) -> Tensor:
        """Return latents without tags."""
        return latents if self.tags is None else latents[:, : -self.tags.shape[1]]

    def space(self, manifold: Any) -> Any:
        """Space of the tagged latents."""
        return manifold if self.tags is None else Tagged(manifold, self.tags.shape[1])

    @property
    def observed(self) -> Tensor | None:
        """False where an entry is missing; None for complete rows."""
        return None if self.imputation is None else self.imputation.observed

    @property
    def missing_variance(self) -> Tensor | None:
        """Variance of each entry, 0 for those that are observed; None for complete rows."""
        return None if self.imputation is None else self.imputation.entry_variance.double()


@dataclass(frozen=True)
class Problem:
    """Rows for a fit, and what the user's rows are to them.

    Attributes
    ----------
    rows : Rows
        Rows of mean square 1.
    units : Units
        Conversion from and to the rows of the user.
    size : float
        What the rows were divided by.
    shape : tuple of int
        N and the number of the user's columns.
    digests : Array [N]
        Fingerprints of the user's rows.
    volume : callable
        From the number of entries that an objective sees, what turns its value into a log density
        of the user's rows.
    beyond : callable, optional
        Entries beyond the signal of some rows.
    observed : Tensor [N, D], optional
        Which of the user's entries are observed.
    rates, counts : RateModel, CountRows, optional
        Of a fit to counts.
    sample : Array [n, d]
        Some of the user's rows, centred and without covariates, of counts their logarithms.
    scores : Array [m, r], optional
        Of counts the scores of some rows, centred.
    """

    rows: Rows
    units: Units
    size: float
    shape: tuple[int, int]
    digests: Array
    volume: Callable[[float], float]
    beyond: Callable[[Tensor], Tensor] | None = None
    observed: Tensor | None = None
    rates: RateModel | None = None
    counts: CountRows | None = None
    covariates: Covariates | None = None
    coded: Coded | None = field(default=None, repr=False)
    sample: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32), repr=False)
    scores: Array | None = field(default=None, repr=False)


def gaussian_problem(
    owner: str,
    data: Array,
    mean: Mean,
    covariates: tuple[Covariates, Coded] | None,
    *,
    unit: float | None,
    latent_unit: float,
    seed: int,
    uniform: bool,
    dtype: str,
    device: torch.device,
) -> Problem:
    """Prepare rows for a Gaussian likelihood.

    Parameters
    ----------
    unit : float, optional
        Unit in which the fit sees the data; by default their own size.
    uniform : bool
        Whether all rows and columns have the same noise.
    """
    design = None if covariates is None or not covariates[0].parts else covariates[1].design
    ready = prepare(
        data,
        mean,
        seed,
        uniform=uniform,
        design=design,
        widths=() if covariates is None else covariates[0].widths,
        batches=_batches(covariates),
    )
    size = ready.size
    units = Units(
        ready.mean,
        size if unit is None else unit,
        latent_unit,
        ready.signal,
        ready.effects,
    )
    rows = _gaussian_rows(ready, size, seed, dtype, device)
    if ready.signal is not None:
        logger.info(
            "%s: %.0f%% of the variance is noise; the signal has %d of %d directions",
            owner,
            100.0 * ready.signal.share,
            ready.signal.rank,
            data.shape[1],
        )

    def volume(n_entries: float) -> float:
        found = units.log_volume(data, n_entries)
        return found if ready.scores is None else found + float(ready.scores.log_volume.sum())

    def beyond(chosen: Tensor) -> Tensor:
        assert ready.signal is not None
        assert ready.scores is not None
        some = chosen.cpu().numpy()
        rest = ready.signal.beyond(ready.residuals[some], ready.scores.values[some])
        return torch.from_numpy(rest).to(chosen.device)

    observed = rows.observed
    if ready.signal is not None and np.isnan(ready.residuals).any():
        observed = torch.from_numpy(~np.isnan(ready.residuals)).to(device)
    problem = Problem(
        rows,
        units,
        size,
        (data.shape[0], data.shape[1]),
        row_digests(data, design),
        volume,
        None if ready.signal is None else beyond,
        observed,
        sample=_sample(ready.residuals, None if ready.effects is not None else design, seed),
    )
    return _with_covariates(problem, covariates)


def _sample(rows: Array, design: Array | None, seed: int, n_rows: int = SAMPLE_ROWS) -> Array:
    """Rows of which is asked after the fit whether they call for curvature; NaN where missing.

    The largest entry is 1: tiny and huge data keep their digits in single precision.
    """
    chosen = np.random.RandomState(seed).permutation(len(rows))[:n_rows]
    found = np.asarray(rows[chosen], dtype=float)
    seen = ~np.isnan(found)
    found = found - np.where(seen, found, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    largest = np.max(np.abs(found), where=seen, initial=0.0)
    found = found / largest if largest > 0.0 else found
    if found.shape[1] > SAMPLE_COLUMNS:
        squares = np.where(seen, np.square(found), 0.0).sum(0)
        kept = np.argsort(-squares, kind="stable")[:SAMPLE_COLUMNS]
        found = found[:, np.sort(kept)]
    if design is not None and design.shape[1]:
        own = design[chosen]
        found = found - own @ np.linalg.lstsq(own, np.nan_to_num(found), rcond=None)[0]
    return found.astype(np.float32)


def _gaussian_rows(
    ready: Preparation, size: float, seed: int, dtype: str, device: torch.device
) -> Rows:
    """Rows on their device; missing entries are imputed from the nearest rows."""
    data = ready.values / size
    if ready.scores is not None:
        found = ready.scores
        parts = (found.noise / size**2, found.inflation, found.squares / size**2, found.counts)
        values, *noise = (
            torch.from_numpy(part).to(device, DTYPES[dtype]) for part in (data, *parts)
        )
        return Rows(values, noise=LearntRowNoise(*noise))
    observed = ~np.isnan(data)
    if observed.all():
        return Rows(torch.from_numpy(data).to(device, DTYPES[dtype]))
    guess = fill_gaps(data, seed)
    filled = torch.from_numpy(guess.data).to(device, DTYPES[dtype])
    imputation = Imputation(
        filled,
        torch.from_numpy(observed).to(device),
        torch.from_numpy(guess.row_variance).to(filled).clamp_min(SMALLEST_VARIANCE),
        torch.from_numpy(guess.variance).to(filled),
    )
    return Rows(filled, imputation)


def count_problem(
    owner: str,
    counts: Any,
    covariates: tuple[Covariates, Coded] | None,
    *,
    likelihood: str,
    n_components: int,
    latent_unit: float,
    seed: int,
    dtype: str,
    device: torch.device,
) -> Problem:
    """Prepare counts, sparse or dense, for their own likelihood."""
    design = None if covariates is None or not covariates[0].parts else covariates[1].design
    start = start_counts(
        counts,
        likelihood,
        n_least=n_components,
        seed=seed,
        device=device,
        design=design,
        widths=() if covariates is None else covariates[0].widths,
        batches=_batches(covariates),
    )
    start = start.scaled(1.0 / start.size)
    logger.info(
        "%s: rates of %d genes as functions of %d scores", owner, counts.shape[1], start.model.rank
    )
    scores, noise = (part.to(DTYPES[dtype]) for part in (start.scores, start.noise))
    units = RateUnits(
        ColumnMeans(np.zeros(start.model.rank)),
        1.0,
        latent_unit,
        rates=start.model,
        log_sizes=start.rows.log_sizes.cpu().numpy(),
    )
    problem = Problem(
        Rows(scores, noise=KnownRowNoise(noise)),
        units,
        1.0,
        (int(counts.shape[0]), int(counts.shape[1])),
        row_digests(counts, design),
        lambda _: 0.0,
        rates=start.model,
        counts=start.rows,
        sample=_sample_of_counts(start.model, counts, design, seed),
        scores=_sample(start.scores.cpu().numpy(), None, seed, SCORE_ROWS),
    )
    return _with_covariates(problem, covariates)


def _sample_of_counts(model: RateModel, counts: Any, design: Array | None, seed: int) -> Array:
    """Return the same of logarithms of counts at the median depth."""
    chosen = np.random.RandomState(seed).permutation(counts.shape[0])[:SAMPLE_ROWS]
    some = counts[chosen]
    dense = some.toarray() if issparse(some) else np.nan_to_num(some)
    sizes = model.rows(some).log_sizes.exp().cpu().numpy()
    logs = np.log1p(dense / sizes[:, None])
    return _sample(logs, None if design is None else design[chosen], seed)


def _batches(covariates: tuple[Covariates, Coded] | None) -> Array | None:
    """Return the number of the batch of each row [N, c], of each categorical covariate."""
    if covariates is None or not covariates[0].levels:
        return None
    ends = np.cumsum(covariates[0].levels)[:-1]
    parts = np.split(covariates[1].tags, ends, axis=1)
    return np.stack([part.argmax(axis=1) for part in parts], axis=1)


def _with_covariates(problem: Problem, covariates: tuple[Covariates, Coded] | None) -> Problem:
    if covariates is None:
        return problem
    coding, coded = covariates
    rows = problem.rows.with_covariates(coded, coding)
    return replace(problem, rows=rows, covariates=coding, coded=coded)
