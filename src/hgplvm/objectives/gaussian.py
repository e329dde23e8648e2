"""What all likelihoods and bounds share: data, covariance, noise, and effects of covariates."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from hgplvm.covariance import CovarianceFunction
from hgplvm.noise import Noise
from hgplvm.objectives.effects import EffectsPosterior, LinearEffects
from hgplvm.objectives.parameters import Parameters
from hgplvm.objectives.responses import Imputation, Responses

__all__ = ["GaussianObjective"]


class GaussianObjective:
    """An objective over centred data.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data. For D > N it is rotated down to N columns, which changes nothing: it enters
        as YYᵀ alone.
    covariance : CovarianceFunction
        Latent space and kernel.
    noise : Noise
        Noise variances.
    imputation : Imputation, optional
        What stands for missing entries.
    effects : LinearEffects, optional
        Effects of covariates.
    """

    def __init__(
        self,
        data: Tensor,
        covariance: CovarianceFunction,
        noise: Noise,
        imputation: Imputation | None = None,
        effects: LinearEffects | None = None,
    ) -> None:
        self.covariance, self.noise, self.effects = covariance, noise, effects
        self.manifold = covariance.manifold
        self.responses = Responses(data, imputation)
        self.n_rows, self.n_columns = data.shape
        self.n_entries = self.responses.n_entries + round(noise.n_beyond)

    @property
    def data(self) -> Tensor:
        """Centred data [N, min(N, D)], filled and rotated."""
        return self.responses.data

    @property
    def n_effects(self) -> int:
        """Return q, the number of covariates' columns."""
        return 0 if self.effects is None else int(self.effects.design.shape[1])

    def effect_features(self, parameters: Parameters) -> Tensor:
        """U [N, q]; no columns where there are no covariates."""
        if self.effects is None:
            return self.data.new_zeros(self.n_rows, 0)
        return self.effects.features(parameters)

    def renew(self, data: Tensor, noise: Noise) -> None:
        """Go over to other data of the same shape, and their noise."""
        self.responses, self.noise = Responses(data, self.responses.imputation), noise

    def effects_posterior(self, parameters: Parameters, data: Tensor) -> EffectsPosterior:
        """Return what is known of the effects, given data before their rotation."""
        raise NotImplementedError

    def without_effects(self, parameters: Parameters, data: Tensor) -> EffectsPosterior:
        """Take the effects at their posterior means off data [N, D], and go on without them.

        With β at its mean, predictions of the decoded function are what they were, and its
        variances miss what β adds, which is little once a batch has more than a few rows.
        """
        assert self.effects is not None
        found = self.effects_posterior(parameters, data)
        design, self.effects = self.effects.design, None
        self.renew(data - design @ found.mean.to(data), self.noise)
        return found

    def marginals(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Posterior means [N, D] and variances [N] of the rows without their noise."""
        raise NotImplementedError


def without_logs(parameters: Parameters, names: tuple[str, ...]) -> Parameters:
    """Return parameters without some that stand for the noise or for effects."""
    logs = {name: log for name, log in parameters.logs.items() if name not in names}
    return replace(parameters, logs=logs, free=tuple(n for n in parameters.free if n not in names))
