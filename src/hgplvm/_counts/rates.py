"""Rates of counts as a function of scores, and the counts as observations of the scores.

The count of gene g in cell n has the mean ``ℓ_n exp(m_g + Λ_g·s_n + B_g·z_n)``, with the size ℓ_n
of the cell's library in units of the median one, the gene's share ``exp m_g``, its loadings Λ_g on
r directions, and the effects B_g of known covariates z_n, if there are any. The scores s are what a
Gaussian process models. Where they are only known to be normal, ``s_n ~ N(μ_n, v_n I)``, each count
is a pseudo-observation of ``η_ng`` (:mod:`hgplvm._counts.likelihoods`) with the gradient g and the
weight w, and all counts of a cell together say of s_n what one observation would say::

    s̃_n = μ_n + a_n Σ_g g_ng Λ_g,    1/a_n = (1/r) Σ_g w_ng ‖Λ_g‖²

That a_n is one number is an approximation: it takes ``Σ_g w_ng Λ_gΛ_gᵀ`` for a multiple of the
identity. It is exact where weights have rank one, ``w_ng = ℓ_n w_g``, since loadings are chosen
with ``Σ_g w_g Λ_gΛ_gᵀ = I``, up to a factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

from hgplvm._counts.likelihoods import CountLikelihood, shrunk_dispersions
from hgplvm._typing import Array

__all__ = ["NO_COUNTS", "CountRows", "Expectation", "RateModel", "bounded", "gauge_of"]

# numbers that are worked on at a time
ENTRIES = {"cpu": 2**20, "cuda": 2**26}
# logarithms of rates above this are taken for it where they are squared
LARGEST_LOG = 30.0
# longest change of a logarithm of a rate in one step of Newton's method
LONGEST = 1.5
# variance of a logarithm of a rate above which expectations are taken for it: of a gene in few
# cells, of which nothing is known elsewhere, they would be anything
MOST_SPREAD = 6.0
# how far, in logarithms of rates, an observation lies from where counts are looked at
FARTHEST = 20.0
# steps of Newton's method
STEPS = 8
# with more effects, the curvature of each gene is taken for diagonal in them
MANY_EFFECTS = 24
# precision of effects, and of shares, before anything is known
RIDGE, RIDGE_SHARE = 0.1, 1e-3
# a change of logarithms of rates at which it ends
ARRIVED = 1e-3
# share of all counts, and multiple of the mean share, above which a gene is dominant; the least
# share that the others must have, and what stands for no counts of theirs
DOMINANT, MANY_TIMES, LEAST_GAUGE, NO_COUNTS = 0.05, 20.0, 0.2, 0.5
# weight of a score's prior information where counts say nothing
LEAST_PRECISION = 1e-6


@dataclass(frozen=True)
class CountRows:
    """Counts of cells, sparse or dense, and the sizes of their libraries.

    Attributes
    ----------
    counts : CSR matrix or array [n, G]
        y; NaN where an entry is missing.
    log_sizes : Tensor [n]
        log ℓ.
    design : Tensor [n, q], optional
        z.
    shift, shifted : Tensor [G], [n], optional
        What a new batch adds to logarithms of rates, and 1 for its cells.
    """

    counts: Any
    log_sizes: Tensor
    design: Tensor | None = None
    shift: Tensor | None = None
    shifted: Tensor | None = None

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def of_rows(self, rows: Any) -> CountRows:
        """Return some of the cells."""
        some = torch.as_tensor(rows, device=self.log_sizes.device)
        design = None if self.design is None else self.design[some]
        shifted = None if self.shifted is None else self.shifted[some]
        counts = self.counts[some.cpu().numpy()]
        return CountRows(counts, self.log_sizes[some], design, self.shift, shifted)

    def chunks(self, n_numbers: int, like: Tensor) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
        """Cells, their counts, and 1 where these are observed; None for all.

        As many cells at a time as chunks of so many numbers a cell hold.
        """
        size = max(1, ENTRIES["cuda" if like.device.type != "cpu" else "cpu"] // n_numbers)
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            part = self.counts[rows]
            dense = part.toarray() if issparse(part) else np.asarray(part)
            missing = np.isnan(dense)
            observed: Tensor | None = None
            if missing.any():
                dense = np.where(missing, 0.0, dense)
                observed = torch.from_numpy(~missing).to(like)
            yield (
                rows,
                torch.from_numpy(np.ascontiguousarray(dense, dtype=float)).to(like),
                observed,
            )


@dataclass(frozen=True)
class Expectation:
    """What counts say of scores, given what is known of these.

    Attributes
    ----------
    scores, noise : Tensor [n, r], [n]
        s̃ and a.
    log_prob : Tensor [n]
        Expected log probability of each cell's counts, without the likelihood's constants.
    by_share, weight : Tensor [G, 1 + q], [G, 1 + q, 1 + q]
        Its derivatives by (m, B): ``Σ_n g (1, z)`` and, less its sign, ``Σ_n w (1, z)(1, z)ᵀ``; of
        many effects its diagonal alone.
    dispersion : Tensor [G]
        Estimate of φ from moments.
    """

    scores: Tensor
    noise: Tensor
    log_prob: Tensor
    by_share: Tensor
    weight: Tensor
    dispersion: Tensor


@dataclass(frozen=True)
class RateModel:
    """Rates of counts as a function of scores.

    Attributes
    ----------
    log_share : Tensor [G]
        m: logarithm of the expected count in a cell of median size at the scores 0.
    loadings : Tensor [G, r]
        Λ.
    likelihood : CountLikelihood
        Poisson or negative binomial.
    effects : Tensor [G, q], optional
        B.
    unit : float
        Counts of a cell of size 1: those of a median cell.
    ridge : Tensor [q], optional
        Precision of effects before anything is known of a gene.
    gauge : Tensor [G], optional
        1 for the genes whose counts make up the size of a cell, 0 for dominant ones
        (:func:`gauge_of`); by default all.
    """

    log_share: Tensor
    loadings: Tensor
    likelihood: CountLikelihood
    effects: Tensor | None = None
    unit: float = 1.0
    ridge: Tensor | None = None
    gauge: Tensor | None = None

    @property
    def rank(self) -> int:
        """R."""
        return int(self.loadings.shape[1])

    @property
    def squares(self) -> Tensor:
        """``‖Λ_g‖²`` [G]."""
        return self.loadings.square().sum(1)

    def to(self, device: torch.device | str) -> RateModel:
        """Return the model on a device."""
        share = self.log_share.to(device)
        effects = None if self.effects is None else self.effects.to(device)
        ridge = None if self.ridge is None else self.ridge.to(device)
        gauge = None if self.gauge is None else self.gauge.to(device)
        parts = (share, self.loadings.to(device), self.likelihood.to(share), effects)
        return RateModel(*parts, self.unit, ridge, gauge)

    def scaled(self, factor: float) -> RateModel:
        """Return the model of scores that are so many times as large."""
        return replace(self, loadings=self.loadings / factor)

    # --- cells ----------------------------------------------------------------------------

    def rows(self, counts: Any, design: Tensor | None = None) -> CountRows:
        """Cells with their sizes: the counts of a cell, in units of those of the median one.

        Of the genes that are not dominant; where counts are missing, of what is observed.
        """
        share = self.log_share.exp().cpu().numpy()
        gauge = np.ones_like(share) if self.gauge is None else self.gauge.cpu().numpy()
        share = share * gauge
        totals, seen = _totals(counts, gauge, share / share.sum())
        sizes = np.where(seen > 0, np.maximum(totals, NO_COUNTS), 0.0)
        log_sizes = np.log(np.maximum(sizes / np.maximum(seen, 1e-12) / self.unit, 1e-12))
        return CountRows(counts, torch.from_numpy(log_sizes).to(self.log_share), design)

    def log_rates(self, rows: CountRows, some: Any, scores: Tensor) -> Tensor:
        """``log ℓ + m + B·z + Λ·s`` of some of the cells [n, G]."""
        design = None if rows.design is None else rows.design[some]
        found = self.log_rates_of(rows.log_sizes[some], scores, design)
        if rows.shift is not None and rows.shifted is not None:
            found.addcmul_(rows.shifted[some, None], rows.shift)
        return found

    def log_rates_of(self, log_sizes: Tensor, scores: Tensor, design: Tensor | None) -> Tensor:
        """Return the same of cells of these sizes and covariates."""
        found = torch.addmm(self.log_share + log_sizes[:, None], scores, self.loadings.mT)
        if design is not None and self.effects is not None:
            found.addmm_(design, self.effects.mT)
        return found

    def expectation(self, rows: CountRows, mean: Tensor, variance: Tensor) -> Expectation:
        """Return what counts say of scores that are known to be ``N(mean_n, variance_n I)``."""
        squares, parts = self.squares, []
        width = 1 if rows.design is None else 1 + rows.design.shape[1]
        by_share = squares.new_zeros(len(squares), width)
        many = width > MANY_EFFECTS
        weight = squares.new_zeros(len(squares), width if many else width**2)
        excesses, seconds = torch.zeros_like(squares), torch.zeros_like(squares)
        for some, y, observed in rows.chunks(8 * len(squares), self.log_share):
            centre = mean[some]
            spread = (variance[some, None] * squares).clamp_max(MOST_SPREAD)
            eta = self.log_rates(rows, some, centre)
            value, g, w = self.likelihood.expected(y, eta, spread)
            rate = torch.exp((eta + 0.5 * spread).clamp_max(LARGEST_LOG))
            second = rate.square() * torch.exp(spread.clamp_max(LARGEST_LOG))  # E μ²
            # E (y - μ)² - E μ
            excess = (y - rate).square() + (second - rate.square()) - rate
            if observed is not None:
                for array in (value, g, w, second, excess):
                    array *= observed
            precision = ((w @ squares) / self.rank).clamp_min(LEAST_PRECISION)
            scores = centre + bounded(self.loadings, (g @ self.loadings) / precision[:, None])
            parts.append((scores, 1.0 / precision, value.sum(1)))
            sides = torch.ones_like(centre[:, :1])
            if rows.design is not None:
                sides = torch.cat([sides, rows.design[some]], dim=1)
            by_share.addmm_(g.mT, sides)
            outer = sides.square() if many else (sides[:, :, None] * sides[:, None, :]).flatten(1)
            weight.addmm_(w.mT, outer)
            excesses += excess.sum(0)
            seconds += second.sum(0)
        scores, noise, log_prob = (torch.cat(part) for part in zip(*parts, strict=True))
        return Expectation(
            scores,
            noise,
            log_prob,
            by_share,
            weight if many else weight.view(-1, width, width),
            shrunk_dispersions(excesses, seconds),
        )

    def improved(self, found: Expectation) -> RateModel:
        """Return the model with shares, effects and dispersions that fit an expectation better.

        Where the shares are at their best, decoded rates of the training cells add up to their
        counts, gene by gene, if these are Poisson; of others, large rates count less.
        """
        known = self.log_share[:, None]
        if self.effects is not None:
            known = torch.cat([known, self.effects], dim=1)
        ridge = torch.full_like(known[0], RIDGE)
        ridge[0] = RIDGE_SHARE
        if self.ridge is not None:
            ridge[1:] = self.ridge
        pull = found.by_share - ridge * torch.cat([0.0 * known[:, :1], known[:, 1:]], dim=1)
        if found.weight.ndim == 2:  # of many effects, which hardly overlap
            step = pull / (found.weight + ridge)
        else:
            step = torch.linalg.solve(found.weight + torch.diag(ridge), pull)
        step = step.clamp(-LONGEST, LONGEST)
        return replace(
            self,
            log_share=self.log_share + step[:, 0],
            effects=None if self.effects is None else self.effects + step[:, 1:],
            likelihood=self.likelihood.learnt(found.dispersion),
        )

    def constant(self, counts: Any) -> float:
        """Sum of the likelihood's constants over all counts."""
        return float(sum(part.sum() for part in self._constants(counts)))

    def constants(self, counts: Any) -> Array:
        """Sum of the likelihood's constants over the counts of each cell [n]."""
        found = [np.asarray(part) for part in self._constants(counts, per_row=True)]
        return np.concatenate(found) if found else np.zeros(0)

    def _constants(self, counts: Any, *, per_row: bool = False) -> Iterator[Array]:
        size = max(1, 2**22 // counts.shape[1])
        for start in range(0, counts.shape[0], size):
            part = counts[start : start + size]
            part = part.toarray() if issparse(part) else np.asarray(part, dtype=float)
            row, column = np.nonzero(np.nan_to_num(part))
            values = self.likelihood.constants(part[row, column], column)
            yield np.bincount(row, values, minlength=len(part)) if per_row else values

    # --- scores of single cells -----------------------------------------------------------

    def modes(self, rows: CountRows, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Likeliest scores of cells, where these are known to be ``N(mean_n, variance_n I)``.

        Returns
        -------
        scores : Tensor [n, r]
            The maximum, by Newton's method.
        log_prob : Tensor [n]
            Log probability of each cell's counts, by Laplace's method around it::

                log p(y) ≈ log p(y | s) + log N(s; μ, v) + ½ r log 2π - ½ log |H + I/v|
        """
        r, loadings = self.rank, self.loadings
        outer = (loadings[:, :, None] * loadings[:, None, :]).flatten(1)  # [G, r²]
        eye = torch.eye(r, dtype=loadings.dtype, device=loadings.device)
        found = []
        for some, y, observed in rows.chunks(8 * len(loadings), self.log_share):
            centre, spread = mean[some], variance[some, None]
            s = mean[some].clone()
            nothing = torch.zeros((), dtype=s.dtype, device=s.device)
            # each cell stops by itself, so that it goes as far in a batch as alone
            moving = torch.ones_like(s[:, :1], dtype=torch.bool)
            for count in range(STEPS + 1):
                last = count == STEPS or not bool(moving.any())
                eta = self.log_rates(rows, some, s)
                if last:
                    value, g, w = self.likelihood.expected(y, eta, nothing)
                    value = value if observed is None else value * observed
                else:
                    g = self.likelihood.slope(y, eta)
                    w = self.likelihood.information(torch.exp(eta.clamp_max(LARGEST_LOG)))
                if observed is not None:
                    g, w = g * observed, w * observed
                hessian = (w @ outer).view(-1, r, r) + eye / spread[:, :, None]
                if last:
                    break
                slope = g @ loadings - (s - centre) / spread
                step = torch.linalg.solve(hessian, slope)
                step = bounded(loadings, step, LONGEST) * moving
                s = s + step
                moving = moving & ((step @ loadings.mT).abs().amax(1, keepdim=True) >= ARRIVED)
            misfit = (s - centre).square().sum(1) / spread[:, 0]
            log_prob = value.sum(1) - 0.5 * (misfit + r * torch.log(spread[:, 0]))
            log_prob = log_prob - 0.5 * torch.linalg.slogdet(hessian).logabsdet
            found.append((s, log_prob))
        scores, log_prob = (torch.cat(part) for part in zip(*found, strict=True))
        return scores, log_prob

    def deviances(self, rows: CountRows, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Deviance of each cell's counts at its scores [n], and how many are observed.

        ``2 Σ_g [ℓ(y; y) - ℓ(y; μ)]``: twice what the counts would gain by rates of their own.
        """
        nothing = torch.zeros((), dtype=scores.dtype, device=scores.device)
        totals, counts = [], []
        for some, y, observed in rows.chunks(8 * len(self.loadings), self.log_share):
            eta = self.log_rates(rows, some, scores[some])
            best = self.likelihood.expected(y, torch.log(y.clamp_min(1.0)), nothing)[0]
            best = torch.where(y > 0, best, 0.0)
            gain = best - self.likelihood.expected(y, eta, nothing)[0]
            seen = torch.ones_like(y) if observed is None else observed
            totals.append(2.0 * (gain * seen).sum(1))
            counts.append(seen.sum(1))
        return torch.cat(totals), torch.cat(counts)

    # --- decoding -------------------------------------------------------------------------

    def decoded(
        self, mean: Tensor, variance: Tensor, design: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return expected counts [n, G] of cells of median size, and their deviations.

        Of scores that are ``N(mean_n, variance_n I)``; the deviations are those of counts.
        """
        spread = variance[:, None] * self.squares
        eta = self.log_rates_of(torch.zeros_like(variance), mean, design)
        rate = torch.exp((eta + 0.5 * spread).clamp_max(LARGEST_LOG))
        second = rate.square() * torch.exp(spread.clamp_max(LARGEST_LOG))  # E μ²
        # Var y = E μ + Var μ + φ E μ²
        phi = self.likelihood.dispersion
        variance_of_count = rate + (second - rate.square())
        if phi is not None:
            variance_of_count = variance_of_count + phi * second
        return rate, variance_of_count.clamp_min(0.0).sqrt()


def bounded(loadings: Tensor, step: Tensor, most: float = FARTHEST) -> Tensor:
    """Cut steps of scores [n, r] where they change a logarithm of a rate by more than this."""
    change = (step @ loadings.mT).abs().amax(1, keepdim=True)
    return step * (most / change.clamp_min(most))


def gauge_of(totals: Tensor) -> Tensor:
    """1 for genes whose counts tell how large a library is, 0 for dominant ones: [G].

    A gene that makes up a large part of all counts [G] changes the sum of a cell's counts by its
    own ups and downs; if sizes followed it, all other genes would seem to fall where it rises.
    """
    share = totals / totals.sum()
    found = (share <= max(DOMINANT, MANY_TIMES / len(share))).to(totals)
    return found if float((share * found).sum()) >= LEAST_GAUGE else torch.ones_like(totals)


def _totals(counts: Any, gauge: Array, share: Array) -> tuple[Array, Array]:
    """Sum of the observed counts of each cell, and the sum of the shares of their genes."""
    if issparse(counts):
        return np.asarray(counts @ gauge, dtype=float).ravel(), np.ones(counts.shape[0])
    observed = ~np.isnan(counts)
    return np.where(observed, counts, 0.0) @ gauge, observed @ share
