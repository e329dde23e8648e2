"""Counts as data of any of the models: a bound on their log probability.

The scores s of the cells have the Gaussian process prior, and the counts y are what
:mod:`hgplvm._counts` says of them. With q(s) the process's posterior given pseudo-observations
``s̃_n ~ N(s_n, a_n I)`` in the place of the counts, and F the model's own objective for these::

    log p(y) ≥ B = F(s̃, a) + Σ_n E_q[log p(y_n | s_n) - log N(s̃_n | s_n, a_n I)]

The second part is the *correction*. Pseudo-observations are renewed from time to time by the
fixed-point equations of the best q, each with a step in the natural parameters 1/a and s̃/a; at the
fixed point B does not change with them, so that its gradient by latents and parameters is that of F
with s̃ and a held fixed. In between, the correction is held fixed, too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm._counts.rates import CountRows, Expectation, RateModel
from hgplvm.noise import KnownRowNoise
from hgplvm.objectives.parameters import Evaluation, Parameters

__all__ = ["CountObjective"]

# the first renewal comes after so many steps, and each later one after this many times as many
FIRST_RENEWAL, GROWTH = 5, 2.0
# step of the natural parameters at a renewal
STEP = 0.7
# a renewal raises the precision of a cell's observation at most so many times
MOST_GAIN = 10.0
# renewals after the last step of a fit
LAST_RENEWALS = 2


class CountObjective:
    """An objective of counts, from one of Gaussian data.

    Parameters
    ----------
    inner : objective
        The objective F, over the pseudo-observations that stand at the start, with a
        :class:`~hgplvm.noise.KnownRowNoise`.
    rates : RateModel
        Rates as a function of scores.
    rows : CountRows
        The cells.
    """

    def __init__(self, inner: Any, rates: RateModel, rows: CountRows) -> None:
        self.inner, self.rates, self.rows = inner, rates, rows
        self.manifold, self.covariance = inner.manifold, inner.covariance
        # rises are judged by the counts, most of which no score depends on
        self.n_entries = inner.n_entries = int(np.prod(rows.counts.shape))
        self.scores, self.variances = inner.data, inner.noise.start
        self._correction: float | None = None
        self._n_steps, self._next = 0, FIRST_RENEWAL

    @property
    def stochastic(self) -> bool:
        """Whether the value depends on draws: as for Gaussian data."""
        return bool(self.inner.stochastic)

    @property
    def noise(self) -> KnownRowNoise:
        """Noise of the pseudo-observations."""
        return self.inner.noise

    # --- pseudo-observations --------------------------------------------------------------

    def advance(self, parameters: Parameters) -> bool:
        """Begin a step: True where a draw or a renewal changed the value."""
        changed = self.inner.advance(parameters)
        self._n_steps += 1
        if self._n_steps < self._next:
            return changed
        self._next = math.ceil(GROWTH * self._next)
        self.renew(parameters)
        return True

    def renew(self, parameters: Parameters) -> None:
        """Renew the pseudo-observations, the shares and dispersions of the genes, and the value."""
        found = self._expectation(parameters)
        precision = 1.0 / torch.maximum(found.noise.to(self.variances), self.variances / MOST_GAIN)
        old, new = (1.0 - STEP) / self.variances, STEP * precision
        total = old + new
        scores = old[:, None] * self.scores + new[:, None] * found.scores.to(self.scores)
        self._take(scores / total[:, None], 1.0 / total)
        self.rates = self.rates.improved(found)
        self._correction = None

    def settle(self, parameters: Parameters) -> float:
        """Renew until little changes, where a fit has ended, and return the value there."""
        for _ in range(LAST_RENEWALS):
            self.renew(parameters)
        return self.value(parameters)

    def _take(self, scores: Tensor, variances: Tensor) -> None:
        self.scores, self.variances = scores, variances
        self.inner.renew(scores, KnownRowNoise(variances))

    def _expectation(self, parameters: Parameters) -> Expectation:
        return self.rates.expectation(self.rows, *self._marginals(parameters))

    def _marginals(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Posterior means [N, r] and variances [N] of the scores.

        A cell's own observation leaves no more than its noise; where inducing points are too few to
        see it, their variances would be larger.
        """
        mean, variance = self.inner.marginals(parameters)
        variance = torch.minimum(variance, self.variances.to(variance))
        return mean.to(self.rates.log_share), variance.to(self.rates.log_share)

    def correction(self, parameters: Parameters) -> float:
        """``Σ_n E_q[log p(y_n | s_n) - log N(s̃_n | s_n, a_n I)]``."""
        mean, variance = self._marginals(parameters)
        log_prob = self.rates.expectation(self.rows, mean, variance).log_prob.sum()
        r, a = self.rates.rank, self.variances.double()
        misfit = (self.scores.double() - mean).square().sum(1) + r * variance
        normal = -0.5 * (r * torch.log(2.0 * math.pi * a) + misfit / a)
        return float(log_prob - normal.sum()) + self.rates.constant(self.rows.counts)

    # --- value and gradient ---------------------------------------------------------------

    def value(self, parameters: Parameters) -> float:
        """B, with the correction of the last renewal."""
        return self.inner.value(parameters) + self._corrected(parameters)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """B and its gradient."""
        correction = self._corrected(parameters)
        found = self.inner.evaluate(parameters)
        return replace(found, value=found.value + correction)

    def _corrected(self, parameters: Parameters) -> float:
        if self._correction is None:
            self._correction = self.correction(parameters)
        return self._correction

    # --- checkpoints ----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that changes from step to step."""
        return {
            "inner": self.inner.state(),
            "scores": self.scores,
            "variances": self.variances,
            "log_share": self.rates.log_share,
            "effects": self.rates.effects,
            "dispersion": self.rates.likelihood.dispersion,
            "correction": self._correction,
            "n_steps": self._n_steps,
            "next": self._next,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        self._take(state["scores"], state["variances"])
        self.inner.restore(state["inner"])
        likelihood = self.rates.likelihood
        if state["dispersion"] is not None:
            likelihood = likelihood.learnt(state["dispersion"])
        self.rates = replace(
            self.rates,
            log_share=state["log_share"],
            effects=state["effects"],
            likelihood=likelihood,
        )
        self._correction = state["correction"]
        self._n_steps, self._next = state["n_steps"], state["next"]
