"""The exact hGP-LVM: log marginal likelihood of the data given the latents.

``C = K + diag(a) = LLᵀ`` with the noise variances a (all β⁻¹ in the paper), ``α = C⁻¹Y`` and
(paper, Eq. for F)::

    F      = -ND/2 log 2π - D Σ log L_ii - ½ tr(αᵀY)
    ∂F/∂K  = G = ½ (ααᵀ - D C⁻¹),   ∂F/∂a = diag G

An evaluation takes one Cholesky and one inverse from it. Everything of size N×N is filled and read
in tiles of the lower triangle, so that temporaries stay in the cache and three N×N arrays suffice.
With missing entries (:mod:`hgplvm.objectives.responses`) YYᵀ gains diag(u), as if Y had the further
columns diag(√u). Effects of covariates add ``UUᵀ`` to C, and ``∂F/∂U = 2GU``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm._threads import long_operation
from hgplvm.covariance import Covariance, CovarianceFunction, CovarianceGradient
from hgplvm.noise import Noise
from hgplvm.objectives.effects import EffectsPosterior, LinearEffects
from hgplvm.objectives.gaussian import GaussianObjective
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.responses import Imputation
from hgplvm.objectives.tiles import tile_size, tiles

__all__ = ["ExactObjective"]


class ExactObjective(GaussianObjective):
    """Log marginal likelihood and its closed-form gradient.

    Parameters are those of :class:`~hgplvm.objectives.gaussian.GaussianObjective`.
    """

    stochastic = False

    def __init__(
        self,
        data: Tensor,
        covariance: CovarianceFunction,
        noise: Noise,
        *,
        imputation: Imputation | None = None,
        effects: LinearEffects | None = None,
    ) -> None:
        super().__init__(data, covariance, noise, imputation, effects)
        self._memory = data.new_empty(0)  # K: fresh pages at every evaluation would cost more
        self.tile = tile_size(data.device)

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def state(self) -> dict[str, Any]:
        """Nothing changes from step to step."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on: there is nothing to restore."""

    def value(self, parameters: Parameters) -> float:
        """F alone: one Cholesky."""
        gram = self._gram(self.covariance.at(parameters.values), parameters.latents)
        data, unseen = self.responses.data, self.responses.unseen
        with long_operation(self.n_rows):
            factor = self._factor(gram, parameters)
            quadratic = (linalg.solve_cholesky(factor, data) * data).sum()
            if unseen is not None:
                quadratic += (linalg.inverse_from_cholesky(factor).diagonal() * unseen).sum()
        return self._log_likelihood(factor, quadratic) + self.noise.evidence(parameters)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """F and its gradient with respect to latents and free parameters."""
        covariance = self.covariance.at(parameters.values)
        gram = self._gram(covariance, parameters.latents)
        data, unseen = self.responses.data, self.responses.unseen
        with long_operation(self.n_rows):
            factor = self._factor(gram, parameters)
            alpha = linalg.solve_cholesky(factor, data)  # [N, D]
            inverse = linalg.inverse_from_cholesky(factor)
        quadratic = (alpha * data).sum()  # tr αᵀY
        if unseen is not None:  # C⁻¹ diag(√u): more columns of α
            quadratic += (inverse.diagonal() * unseen).sum()
            alpha = torch.cat([alpha, inverse * unseen.sqrt()], dim=1)
        value = self._log_likelihood(factor, quadratic) + self.noise.evidence(parameters)
        del factor

        by_noise = 0.5 * (alpha.square().sum(1) - self.n_columns * inverse.diagonal())  # diag G
        total = CovarianceGradient(parameters.free, data)
        latents = self._back(covariance, parameters.latents, gram, alpha, inverse, total)
        by_noise = by_noise if self.noise.per_row else by_noise.sum()
        logs = {**total.gradients(), **self.noise.gradients(parameters, by_noise)}
        if self.effects is not None:  # 2GU
            u = self.effects.features(parameters)
            by_features = alpha @ (alpha.mT @ u) - self.n_columns * (inverse @ u)
            logs |= self.effects.gradients(u, by_features)
        return Evaluation(value, parameters.flat(latents, logs))

    # --- posteriors -----------------------------------------------------------------------

    def marginals(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """``Y - AC⁻¹Y`` and ``a - a² diag C⁻¹``."""
        inverse = self._inverse(parameters)
        a = self.noise.variances(parameters).expand(self.n_rows)
        mean = self.data - a[:, None] * (inverse @ self.data)
        return mean, (a - a.square() * inverse.diagonal()).clamp_min(0.0)

    def effects_posterior(self, parameters: Parameters, data: Tensor) -> EffectsPosterior:
        """``β/√Γ``: mean ``UᵀC⁻¹Y``, covariance ``I - UᵀC⁻¹U``."""
        assert self.effects is not None
        u = self.effects.features(parameters)
        weighted = u.mT @ self._inverse(parameters)
        scales = self.effects.scales(parameters)
        return EffectsPosterior.of(scales, weighted @ data, weighted @ u)

    def _inverse(self, parameters: Parameters) -> Tensor:
        """C⁻¹."""
        gram = self._gram(self.covariance.at(parameters.values), parameters.latents)
        with long_operation(self.n_rows):
            return linalg.inverse_from_cholesky(self._factor(gram, parameters))

    def _factor(self, gram: Tensor, parameters: Parameters) -> Tensor:
        """L, from K, which comes back as it was."""
        shift = self.noise.variances(parameters)
        if self.effects is None:
            return linalg.cholesky(gram, shift=shift)
        u = self.effects.features(parameters)
        return linalg.cholesky(gram + u @ u.mT, shift=shift)

    def _log_likelihood(self, factor: Tensor, quadratic: Tensor) -> float:
        log_det = linalg.log_det_from_cholesky(factor)
        constant = self.n_rows * self.n_columns * math.log(2.0 * math.pi)
        value = -0.5 * (constant + self.n_columns * log_det.item() + quadratic.item())
        return value + self.responses.entropy

    def _gram(self, covariance: Covariance, x: Tensor) -> Tensor:
        """Lower triangle of K."""
        features = self.manifold.pair_features(x)
        gram = self._memory.resize_(self.n_rows, self.n_rows)
        for rows, columns in tiles(self.n_rows, None, self.tile):
            gram[rows, columns] = covariance.pairs_of_features(
                x[rows], x[columns], features[rows], features[columns]
            ).value()
        return gram

    def _back(
        self,
        covariance: Covariance,
        x: Tensor,
        gram: Tensor,
        alpha: Tensor,
        inverse: Tensor,
        total: CovarianceGradient,
    ) -> Tensor:
        """Gradient of the latents in their frames [N, Q], from G tile by tile."""
        features = self.manifold.pair_features(x)
        gradient = x.new_zeros(self.n_rows, self.manifold.n_components(x))
        for rows, columns in tiles(self.n_rows, None, self.tile):
            pairs = covariance.pairs_of_features(
                x[rows], x[columns], features[rows], features[columns], value=gram[rows, columns]
            )
            # K is symmetric: 2G below the diagonal stands for both sides, and G on it
            by_value = torch.addmm(
                inverse[rows, columns], alpha[rows], alpha[columns].mT, beta=-self.n_columns
            )
            if rows.start < columns.stop:
                offset = rows.start - columns.start
                by_value.tril_(offset).diagonal(offset).mul_(0.5)
            at_rows, at_columns = pairs.back_both(by_value, total)
            gradient[rows] += at_rows
            gradient[columns] += at_columns
        return gradient
