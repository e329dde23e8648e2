"""What all likelihoods and bounds share: data, covariance and noise."""

from __future__ import annotations

from torch import Tensor

from hgplvm.covariance import CovarianceFunction
from hgplvm.noise import Noise
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
    """

    def __init__(
        self,
        data: Tensor,
        covariance: CovarianceFunction,
        noise: Noise,
        imputation: Imputation | None = None,
    ) -> None:
        self.covariance, self.noise = covariance, noise
        self.manifold = covariance.manifold
        self.responses = Responses(data, imputation)
        self.n_rows, self.n_columns = data.shape
        self.n_entries = self.responses.n_entries + round(noise.n_beyond)

    @property
    def data(self) -> Tensor:
        """Centred data [N, min(N, D)], filled and rotated."""
        return self.responses.data
