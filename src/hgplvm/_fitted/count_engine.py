"""A fitted model of counts at work: latents of cells, rates, log probabilities, samples.

What counts say of a cell's scores depends on what is known of these already
(:mod:`hgplvm._counts`). So a new cell is placed in turns: counts are taken as observations around
its likeliest scores, the cell is placed by these, and what the model predicts there is where its
counts are looked at next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm._counts import CountRows, RateModel
from hgplvm._covariates import Coded
from hgplvm._fitted.engine import SHIFT_ROUNDS, Engine, Inferred
from hgplvm._fitted.model import FittedModel, row_digests
from hgplvm._fitted.off_map import log_rest
from hgplvm._fitted.rates import RateUnits
from hgplvm._typing import Array

__all__ = ["CountEngine"]

# turns of observations and places
TURNS = 3
# pseudo-count of a new batch's shift, and the variance of logarithms of rates before it is seen
SHIFT_COUNT, SHIFT_VARIANCE = 0.5, 1.0
# cells by which the information of loadings is found, genes at a time, and the least information
INFORMANTS, GENES_AT_ONCE, LEAST_INFORMATION = 1000, 256, 1e-2
# least variance of a decoded score
SMALLEST = 1e-8


class CountEngine(Engine):
    """A fitted model of counts on a device."""

    def __init__(self, model: FittedModel, device: torch.device) -> None:
        super().__init__(model, device)
        assert isinstance(model.units, RateUnits)
        self.rates: RateModel = model.units.rates.to(device)
        self.log_sizes: Array = model.units.log_sizes

    # --- rows -----------------------------------------------------------------------------

    def infer(self, data: Any, coded: Coded | None = None) -> Inferred:
        """Latents of cells; those of the training data are where the fit put them."""
        coded = self.coded(coded, data.shape[0])
        known = self.model.known(row_digests(data, coded.design))
        rows = self._rows(data, coded)
        if coded.fresh.any():
            rows = self._shifted(rows, coded)
        return self._turns(rows, coded, known)

    def _rows(self, data: Any, coded: Coded) -> CountRows:
        design = torch.from_numpy(coded.design).to(self.latents)
        return self.rates.rows(data, None if self.rates.effects is None else design)

    def _turns(self, rows: CountRows, coded: Coded, known: Array) -> Inferred:
        """Place cells, and look at their counts where they are."""
        effects, spread = self.effects(coded)
        n, rank = len(rows), self.rates.rank
        prior = self.latents.new_zeros(n, rank)
        typical = self.model.covariance.diagonal + self.model.noise
        mean, _ = self.rates.modes(rows, prior, prior[:, 0] + typical)
        variance = prior[:, 0] + SMALLEST
        nothing = _unknown(rows.counts)  # cells of which no entry is observed
        observed = torch.ones_like(prior)
        observed[torch.from_numpy(nothing).to(observed.device)] = 0.0
        for _ in range(TURNS):
            found = self.rates.expectation(rows, mean, variance)
            noise = found.noise if spread is None else found.noise + spread
            scores = found.scores - effects
            x, std = self._placed(scores, observed, noise, coded, known)
            function, own = self.function_moments(x, coded)
            own = own if spread is None else own + spread
            # of what the model predicts there and what the counts say
            precision = 1.0 / own + 1.0 / found.noise
            mean = ((function + effects) / own[:, None] + found.scores / found.noise[:, None]) / (
                precision[:, None]
            )
            variance = 1.0 / precision
        beyond = np.zeros(n)
        return Inferred(scores, observed, x, std, known, noise, beyond, coded, rows)

    def function_moments(
        self, x: Tensor, coded: Coded, *, smooth: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Mean [n, r] and variance [n] of the decoded scores."""
        mean, variance = self._function(x, coded, smooth=smooth)
        return mean, (variance[:, 0] - self.model.noise).clamp_min(SMALLEST)

    def _shifted(self, rows: CountRows, coded: Coded) -> CountRows:
        """Cells of a new batch with what their batch does to the rates among their sizes.

        In turn, a gene's shift is what makes the expected counts of the batch its counts, shrunk as
        those of the fit are spread, and the cells are placed with it.
        """
        assert self.covariates is not None
        fresh = torch.from_numpy(np.flatnonzero(coded.fresh)).to(self.latents.device)
        own, some = rows.of_rows(fresh), coded.some(coded.fresh)
        total = torch.from_numpy(np.asarray(np.nan_to_num(_sum(own.counts)), dtype=float))
        total = total.to(self.latents)
        variance = self._log_shift_variance()
        nothing = np.full(len(own), -1)
        scores = self.latents.new_zeros(len(own), self.rates.rank)
        shift = torch.zeros_like(total)
        for _ in range(SHIFT_ROUNDS):
            expected = torch.zeros_like(total)
            for part in torch.split(torch.arange(len(own), device=scores.device), 4096):
                expected += self.rates.log_rates(own, part, scores[part]).exp().sum(0)
            raw = torch.log((total + SHIFT_COUNT) / (expected + SHIFT_COUNT))
            shift = raw * variance / (variance + 1.0 / (total + SHIFT_COUNT))
            everyone = torch.ones_like(own.log_sizes)
            placed = self._turns(replace(own, shift=shift, shifted=everyone), some, nothing)
            scores = self.function_moments(placed.x, some)[0]
        return replace(rows, shift=shift, shifted=torch.from_numpy(coded.fresh).to(shift))

    def _log_shift_variance(self) -> Tensor:
        """Variance [G], over the training cells, of what covariates do to logarithms of rates."""
        assert self.covariates is not None
        effects = self.covariates.mean.to(self.latents) @ self.rates.loadings.mT
        if self.rates.effects is not None:
            effects = effects + self.rates.effects.mT
        weights = self.covariates.design_covariance.to(effects)
        found = ((weights @ effects) * effects).sum(0)
        return found.clamp_min(1e-3 * SHIFT_VARIANCE)

    def rest(self, found: Inferred, degrees: float = 0.0, errors: Tensor | None = None) -> Tensor:
        """Logarithm of the deviance of a count of each cell."""
        effects, _ = self.effects(found.coded)
        mean, _ = self.function_moments(found.x, found.coded)
        if errors is not None:
            mean = found.rows - errors
        deviance, counts = self.rates.deviances(found.counts, mean + effects)
        return log_rest(deviance, counts, degrees)

    def _sizes(self, found: Inferred) -> Tensor | None:
        sizes: Tensor = found.counts.log_sizes
        return sizes

    def log_density(self, found: Inferred) -> float:
        """Mean log probability of the cells' counts at their latents.

        Scores are integrated over what the model predicts there, by Laplace's method.
        """
        effects, spread = self.effects(found.coded)
        mean, variance = self.function_moments(found.x, found.coded)
        variance = variance if spread is None else variance + spread
        _, density = self.rates.modes(found.counts, mean + effects, variance)
        constants = self.rates.constants(found.counts.counts)
        return float(density.mean().item() + constants.mean())

    # --- decoding -------------------------------------------------------------------------

    def decode(self, x: Tensor, coded: Coded | None = None) -> tuple[Array, Array]:
        """Return expected counts of cells of median size, and deviations of their counts."""
        coded = self.coded(coded, len(x))
        mean, variance, design = self._scores(x, coded)
        found, std = self.rates.decoded(mean, variance, design)
        return found.cpu().numpy(), std.cpu().numpy()

    def _scores(self, x: Tensor, coded: Coded) -> tuple[Tensor, Tensor, Tensor | None]:
        mean, variance = self.function_moments(x, coded, smooth=True)
        effects, spread = self.effects(coded)
        variance = variance if spread is None else variance + spread
        design = torch.from_numpy(coded.design).to(mean)
        return mean + effects, variance, None if self.rates.effects is None else design

    def base(self, x: Tensor) -> Array:
        """Logarithms of the rates of a cell of median size [n, G], a mean over batches."""
        mean, _, design = self._scores(x, self.coded(None, len(x)))
        return np.asarray(self.rates.log_rates_of(0.0 * mean[:, 0], mean, design).cpu().numpy())

    def loading_variances(self, change: Tensor) -> Array:
        """Return the same by the information that the counts of each gene hold of its loadings."""
        scores = self._training_functions()
        chosen = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))
        chosen = chosen[:INFORMANTS].to(scores.device)
        some = scores[chosen]
        sizes = torch.from_numpy(self.log_sizes).to(some)[chosen]
        rates = self.rates.log_rates_of(sizes, some, None).exp()
        weights = self.rates.likelihood.information(rates) * (len(scores) / len(some))  # [n, G]
        eye = LEAST_INFORMATION * torch.eye(some.shape[1]).to(some)
        found = []
        for part in torch.split(weights, GENES_AT_ONCE, dim=1):
            # the level of a gene is estimated, too
            sides = torch.cat([torch.ones_like(some[:, :1]), some], dim=1)
            whole = torch.einsum("ng,ni,nj->gij", part, sides, sides)
            level = whole[:, :1, 0].clamp_min(1e-300)
            cross = whole[:, 0, 1:]
            inner = whole[:, 1:, 1:] - cross.unsqueeze(2) * cross.unsqueeze(1) / level.unsqueeze(2)
            solved = torch.linalg.solve(inner + eye, change.mT.expand(len(inner), -1, -1))
            found.append((change * solved.mT).sum(2))
        return np.asarray(torch.cat(found).mT.clamp_min(0.0).cpu().numpy())

    def shifts(self, coded: Coded | None, columns: Array) -> Array | None:
        """Return what covariates do to logarithms of rates of some genes [n, m]."""
        if self.covariates is None or coded is None:
            return None
        design = torch.from_numpy(coded.design).to(self.latents)
        whole = self.covariates.shift(design) @ self.rates.loadings.mT
        if self.rates.effects is not None:
            whole = whole + design @ self.rates.effects.mT
        return np.asarray(whole[:, torch.from_numpy(columns).to(whole.device)].cpu().numpy())

    def sample(self, rows: Array, zeta: Array, random: np.random.RandomState) -> Array:
        """Draw counts at latents drawn around those of training cells, of the sizes of these."""
        x, coded = self._drawn(rows, zeta)
        mean, variance, design = self._scores(x, coded)
        noise = torch.from_numpy(random.standard_normal(tuple(mean.shape))).to(mean)
        sizes = torch.from_numpy(self.log_sizes[rows]).to(mean)
        drawn = mean + variance.sqrt()[:, None] * noise
        rates = self.rates.log_rates_of(sizes, drawn, design).exp().cpu().numpy()
        return self.rates.likelihood.draw(rates, random)

    def _columns(self) -> tuple[Tensor, Tensor, float]:
        """In logarithms of rates, in units of what the counts of a median cell leave open."""
        assert self.covariates is not None
        weights = self.rates.likelihood.information(self.rates.log_share.exp()).sqrt()
        loadings = self.rates.loadings.mT * weights
        effects = self.covariates.mean.to(loadings) @ loadings
        if self.rates.effects is not None:
            effects = effects + self.rates.effects.mT * weights
        return effects, loadings, 1.0


def _unknown(counts: Any) -> Array:
    """Cells of which nothing is observed [n]."""
    if not isinstance(counts, np.ndarray):
        return np.zeros(counts.shape[0], dtype=bool)
    return np.asarray(np.isnan(counts).all(axis=1))


def _sum(counts: Any) -> Array:
    """Add up the counts of each gene."""
    if isinstance(counts, np.ndarray):
        return np.asarray(np.nansum(counts, axis=0))
    return np.asarray(counts.sum(axis=0)).ravel()
