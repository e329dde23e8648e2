"""What a fit to counts begins with: directions in which rates change, and scores of the cells.

The first directions are those of Pearson residuals ``(y - ℓp)/√(ℓp + φ(ℓp)²)`` that stand out of
noise (:mod:`hgplvm._signal`). Then, in turn: scores are averaged with those of the nearest cells,
each gene's share and loadings are fitted to the averages by Newton's method, its dispersion by
moments, and the scores are computed anew around the averages. Directions are scaled so that a cell
of median size has scores with noise of variance 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from hgplvm._counts.likelihoods import (
    CountLikelihood,
    NegativeBinomial,
    Poisson,
    shrunk_dispersions,
)
from hgplvm._counts.rates import (
    MANY_EFFECTS,
    NO_COUNTS,
    CountRows,
    RateModel,
    bounded,
    gauge_of,
)
from hgplvm._init.alignment import aligned
from hgplvm._init.paths import averaged
from hgplvm._signal import biwhitened
from hgplvm._typing import Array

__all__ = ["CountStart", "check_counts", "start_counts"]

# cells that directions are learnt from
SAMPLE_CELLS = 5000
# rounds of averages, loadings and scores
ROUNDS = 3
# steps of Newton's method for the genes in each round, and the longest change of a log rate
GENE_STEPS, LONGEST = 2, 1.5
# precision of a gene's loadings on directions of variance 1 before anything is known
RIDGE = 1.0
# the same of the effects of covariates: changes of logarithms of rates
RIDGE_EFFECTS = 0.1
# with fewer cells or genes, noise is not told from signal
FEWEST = 20
# directions in which averages differ by less, in units of a median cell's noise, are as if by this
LEAST_SPREAD = 0.05
# no noise of a cell counts as less than this share of the median one
LEAST_NOISE = 0.05
# pearson residuals are cut at this size
LARGEST = 10.0
# least and largest variance of the effects of a covariate on logarithms of rates
LEAST_EFFECT, MOST_EFFECT = 1e-6, 10.0
# logarithm of the largest share, and of the inverse of the smallest
LARGEST_SHARE = 40.0
# pseudo-count of a gene's share, in counts of a cell of median size
LEAST_SHARE = 1e-2
# cells whose scores are averaged at a time by their nearest ones, among at most this many others
OTHERS = 20_000


@dataclass(frozen=True)
class CountStart:
    """Rates, cells, and the cells' scores.

    Attributes
    ----------
    model : RateModel
        Rates as a function of scores.
    rows : CountRows
        The cells.
    scores, noise : Tensor [n, r], [n]
        Scores, and the noise variances that they have, a multiple of the identity each.
    """

    model: RateModel
    rows: CountRows
    scores: Tensor
    noise: Tensor

    @property
    def size(self) -> float:
        """Root mean square of the scores; noisier ones count less."""
        weights = 1.0 / self.noise
        square = (weights[:, None] * self.scores.square()).sum() / weights.sum()
        return max(math.sqrt(float(square) / self.model.rank), 1e-6)

    def scaled(self, factor: float) -> CountStart:
        """Return the same with scores that are so many times as large."""
        return CountStart(
            self.model.scaled(factor), self.rows, factor * self.scores, factor**2 * self.noise
        )


def check_counts(owner: str, counts: Any) -> None:
    """Refuse what are no counts, and cells without any; nothing may be known of a new cell."""
    if issparse(counts) and np.isnan(counts.data).any():
        raise ValueError(
            f"{owner} finds missing entries (NaN) in a sparse matrix of counts: pass a dense "
            "array, in which NaN is a missing entry."
        )
    entries = counts.data if issparse(counts) else counts[~np.isnan(counts)]
    what: str | None = None
    if entries.size and entries.min() < 0:
        what = f"negative numbers, such as {entries.min():.4g}"
    elif entries.size and (odd := entries[entries != np.rint(entries)]).size:
        what = f"numbers that are not whole, such as {odd[0]:.4g}"
    elif entries.size and entries.max() > 2**53:
        what = f"numbers too large to be exact, such as {entries.max():.4g}"
    if what is not None:
        raise ValueError(
            f"{owner} with a likelihood of counts needs raw counts: whole numbers from 0. Got "
            f"{what}; pass the raw counts, or take likelihood='gaussian'."
        )
    if issparse(counts):
        total = np.asarray(counts.sum(axis=1)).ravel()
    else:
        total = np.nansum(counts, axis=1)
    unknown = False if issparse(counts) else np.isnan(counts).all(axis=1)
    empty = np.flatnonzero((total == 0) & ~np.asarray(unknown))
    if empty.size:
        more = f" and {empty.size - 1} more" if empty.size > 1 else ""
        raise ValueError(
            f"{owner} with a likelihood of counts finds no counts in row {empty[0]}{more}: leave "
            "such rows out."
        )


def start_counts(
    counts: Any,
    family: str,
    *,
    n_least: int,
    seed: int,
    device: torch.device,
    design: Array | None = None,
    widths: tuple[int, ...] = (),
    batches: Array | None = None,
) -> CountStart:
    """Learn directions from counts [n, G], sparse or dense, and compute the scores of all cells.

    Parameters
    ----------
    family : {"poisson", "negative-binomial"}
        Likelihood.
    n_least : int
        Directions to take at least, as far as there are cells and genes for them.
    design : array [n, q], optional
        Covariates z of the cells, whose effects on each gene are fitted along with the rest.
    widths : tuple of int
        How many of its columns belong to each covariate.
    batches : array [n, c], optional
        Number of the batch of each cell, for each categorical covariate: cells are brought
        together across batches before they are averaged.
    """
    z = None if design is None else torch.from_numpy(design).to(device)
    chosen = np.sort(np.random.default_rng((seed, 3)).permutation(counts.shape[0])[:SAMPLE_CELLS])
    sample = counts[chosen]
    dense = sample.toarray() if issparse(sample) else np.asarray(sample)
    y = torch.from_numpy(np.nan_to_num(np.ascontiguousarray(dense, dtype=float))).to(device)
    observed: Tensor | None = None
    if not issparse(sample) and np.isnan(dense).any():
        observed = torch.from_numpy(~np.isnan(dense)).to(y)
    groups = None if batches is None else torch.from_numpy(batches[chosen]).to(device)
    own = None if z is None else z[torch.from_numpy(chosen).to(device)]
    model, log_sizes = _begun(y, observed, family, n_least, own, widths)
    rows = CountRows(sample, log_sizes, own)
    centre = y.new_zeros(len(y), model.rank)
    scores, noise = _scores(model, rows, centre)
    for _ in range(ROUNDS):
        # no cell is to outweigh all others, however many counts it has
        weight = noise.clamp_min(LEAST_NOISE * noise.median())
        together = scores if groups is None else aligned(scores, weight, groups)
        centre, _ = averaged(together, together, weight)
        better = _fitted(model, y, observed, rows, centre)
        if not _is_sane(better):  # single cells with nearly all counts can make it run away
            break
        model, centre = _scaled(better, centre)
        scores, noise = _scores(model, rows, centre)
    if len(chosen) == counts.shape[0]:
        return CountStart(model, rows, scores, noise)
    return _everywhere(model, model.rows(counts, z), scores, noise)


def _everywhere(model: RateModel, rows: CountRows, others: Tensor, noise: Tensor) -> CountStart:
    """Scores of all cells, each around the average of its nearest ones of a sample."""
    first = _modes_of(model, rows, others, noise)
    parts = [averaged(some, others, noise)[0] for some in torch.split(first, OTHERS)]
    return CountStart(model, rows, *_scores(model, rows, torch.cat(parts)))


def _modes_of(model: RateModel, rows: CountRows, others: Tensor, noise: Tensor) -> Tensor:
    """Likeliest scores of cells, with the spread of a sample for their prior."""
    weights = 1.0 / noise
    spread = ((weights[:, None] * others.square()).sum() / weights.sum() / model.rank).clamp_min(
        1.0
    )
    zero = others.new_zeros(len(rows), model.rank)
    return model.modes(rows, zero, spread.expand(len(rows)))[0]


# --- parts ------------------------------------------------------------------------------------


def _begun(
    y: Tensor,
    observed: Tensor | None,
    family: str,
    n_least: int,
    design: Tensor | None,
    widths: tuple[int, ...],
) -> tuple[RateModel, Tensor]:
    """Shares, dispersions and first directions, and the logarithms of the sizes of the cells."""
    seen = torch.ones_like(y) if observed is None else observed
    gauge = gauge_of(y.sum(0))
    total = torch.where(y.sum(1) > 0, (y @ gauge).clamp_min(NO_COUNTS), 0.0)
    if observed is not None:  # of what is missing, a cell has as much as others
        share = gauge * y.sum(0) / (seen * total[:, None]).sum(0).clamp_min(1.0)
        total = total / (seen @ (share / share.sum())).clamp_min(1e-6)
    unit = float(total.median())
    sizes = total / unit
    exposure = seen.mT @ sizes
    share = (y.sum(0) + LEAST_SHARE) / (exposure + LEAST_SHARE)
    log_sizes = sizes.log()
    likelihood: CountLikelihood = Poisson()
    mean = sizes[:, None] * share * seen
    if family == NegativeBinomial.name:
        likelihood = NegativeBinomial(torch.ones_like(share)).learnt(_dispersion(y, mean))
    nothing = y.new_zeros(len(share), 0)
    model = RateModel(share.log(), nothing, likelihood, unit=unit, gauge=gauge)
    if design is not None:
        model = replace(model, effects=y.new_zeros(len(share), design.shape[1]))
        rows = CountRows(y, log_sizes, design)
        for _ in range(ROUNDS):
            model = _fitted(model, y, observed, rows, y.new_zeros(len(y), 0))
            model = replace(model, ridge=_precisions(model, rows, widths, seen))
        mean = torch.exp(model.log_rates(rows, slice(None), y.new_zeros(len(y), 0))) * seen
    residuals = (y - mean) / model.likelihood.count_variance(mean).clamp_min(1e-300).sqrt()
    axes = _axes((residuals * seen).clamp(-LARGEST, LARGEST), n_least)
    weights = model.likelihood.information(model.log_share.exp()).sqrt()[:, None]
    model = replace(model, loadings=axes / weights)
    return _scaled(model, y.new_zeros(len(y), axes.shape[1]))[0], log_sizes


def _is_sane(model: RateModel) -> bool:
    """Whether the rates of a gene at the scores 0 are numbers that a gene can have."""
    finite = torch.isfinite(model.log_share) & torch.isfinite(model.loadings).all(1)
    return bool(finite.all()) and float(model.log_share.abs().max()) < LARGEST_SHARE


def _precisions(model: RateModel, rows: CountRows, widths: tuple[int, ...], seen: Tensor) -> Tensor:
    """Precision of the effects of each covariate before anything is known of a gene [q].

    With information I about an effect, its estimate squared has the expectation ``τ² + 1/I``.
    """
    assert rows.design is not None
    assert model.effects is not None
    scores = seen.new_zeros(len(seen), model.rank)
    rates = torch.exp(model.log_rates(rows, slice(None), scores).clamp_max(30.0))
    information = (model.likelihood.information(rates) * seen).mT @ rows.design.square()  # [G, q]
    found = []
    for width, known, own in zip(
        widths,
        torch.split(information, list(widths), dim=1),
        torch.split(model.effects, list(widths), dim=1),
        strict=True,
    ):
        free = max(width - 1, 1) / width  # effects of levels add up to 0
        often = known > 1.0  # of others little is known, and estimates are drawn to 0
        excess = ((known * own.square() - free) * often).sum()
        variance = float(excess / (known * often).sum().clamp_min(1.0))
        found.append(seen.new_full((width,), 1.0 / min(max(variance, LEAST_EFFECT), MOST_EFFECT)))
    return torch.cat(found)


def _axes(residuals: Tensor, n_least: int) -> Tensor:
    """Directions of residuals that stand out of noise [G, r], or a few of the leading ones."""
    n, d = residuals.shape
    least = max(1, min(n_least, n - 1, d))
    if min(n, d) >= FEWEST:
        found = biwhitened(residuals.cpu().numpy())
        if found is not None and found.shape[1] >= least:
            return torch.from_numpy(found).to(residuals)
    return torch.linalg.svd(residuals, full_matrices=False).Vh[:least].mT.contiguous()


def _dispersion(y: Tensor, mean: Tensor) -> Tensor:
    """Estimate φ from moments."""
    excess = ((y - mean).square() - mean) * (mean > 0)
    return shrunk_dispersions(excess.sum(0), mean.square().sum(0))


def _scores(model: RateModel, rows: CountRows, centre: Tensor) -> tuple[Tensor, Tensor]:
    """Scores around known ones: by the expected information, which a single count cannot upset."""
    found = []
    for some, y, observed in rows.chunks(4 * len(model.log_share), model.log_share):
        eta = model.log_rates(rows, some, centre[some])
        slope = model.likelihood.slope(y, eta)
        weight = model.likelihood.information(torch.exp(eta.clamp_max(30.0)))
        if observed is not None:
            slope, weight = slope * observed, weight * observed
        precision = ((weight @ model.squares) / model.rank).clamp_min(1e-6)
        step = bounded(model.loadings, (slope @ model.loadings) / precision[:, None])
        found.append((centre[some] + step, 1.0 / precision))
    scores, noise = (torch.cat(part) for part in zip(*found, strict=True))
    return scores, noise


def _scaled(model: RateModel, centre: Tensor) -> tuple[RateModel, Tensor]:
    """Turn directions so that ``Σ_g w_g Λ_gΛ_gᵀ = I``, and scores with them: ``Λs`` stays."""
    weight = model.likelihood.information(model.log_share.exp())
    inner = model.loadings.mT @ (weight[:, None] * model.loadings)
    values, vectors = torch.linalg.eigh(inner)
    roots = values.clamp_min(1e-12 * float(values.max().clamp_min(1e-300))).sqrt()
    turned = replace(model, loadings=model.loadings @ (vectors / roots))
    return turned, centre @ (vectors * roots)


def _fitted(
    model: RateModel, y: Tensor, observed: Tensor | None, rows: CountRows, scores: Tensor
) -> RateModel:
    """Fit shares, loadings, effects and dispersions of the genes to counts at known scores."""
    middle = scores.mean(0)
    spread = (scores - middle).square().mean(0).sqrt().clamp_min(LEAST_SPREAD)
    r = scores.shape[1]
    parts = [torch.ones_like(y[:, :1]), (scores - middle) / spread]
    known = [(model.log_share + model.loadings @ middle)[:, None], model.loadings * spread]
    if rows.design is not None and model.effects is not None:
        parts.append(rows.design)
        known.append(model.effects)
    design, weights = torch.cat(parts, dim=1), torch.cat(known, dim=1)
    width = design.shape[1]
    # of many effects, which hardly overlap, the curvature is taken for diagonal
    block = 1 + r if width - 1 - r > MANY_EFFECTS else width
    inner, beside = design[:, :block], design[:, block:]
    outer = (inner[:, :, None] * inner[:, None, :]).flatten(1)
    ridge = RIDGE * torch.ones(width, dtype=y.dtype, device=y.device)
    ridge[0], ridge[1 + r :] = 1e-3, RIDGE_EFFECTS
    if model.ridge is not None:
        ridge[1 + r :] = model.ridge
    masked: Callable[[Tensor], Tensor] = lambda a: a if observed is None else a * observed  # noqa: E731
    for _ in range(GENE_STEPS):
        eta = rows.log_sizes[:, None] + design @ weights.mT
        slope = masked(model.likelihood.slope(y, eta))
        information = masked(model.likelihood.information(torch.exp(eta.clamp_max(30.0))))
        hessian = (information.mT @ outer).view(-1, block, block) + torch.diag(ridge[:block])
        pull = slope.mT @ design
        pull[:, 1:] -= ridge[1:] * weights[:, 1:]
        step = torch.empty_like(pull)
        step[:, :block] = torch.linalg.solve(hessian, pull[:, :block])
        step[:, block:] = pull[:, block:] / (information.mT @ beside.square() + ridge[block:])
        change = (step @ design.mT).abs().amax(1, keepdim=True)
        weights = weights + step * (LONGEST / change.clamp_min(LONGEST))
    loadings = weights[:, 1 : 1 + r] / spread
    found = replace(
        model,
        log_share=weights[:, 0] - loadings @ middle,
        loadings=loadings,
        effects=None if model.effects is None else weights[:, 1 + r :].contiguous(),
    )
    mean = masked(torch.exp(found.log_rates(rows, slice(None), scores).clamp_max(30.0)))
    return replace(found, likelihood=model.likelihood.learnt(_dispersion(y, mean)))
