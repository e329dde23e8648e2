"""The exact hGP-LVM: log marginal likelihood of the data given the latents.

``C = K + β⁻¹I = LLᵀ``, ``α = C⁻¹Y`` and (paper, Eq. for F)::

    F      = -ND/2 log 2π - D Σ log L_ii - ½ tr(αᵀY)
    ∂F/∂K  = G = ½ (ααᵀ - D C⁻¹)

One Cholesky and one inverse from it an evaluation. Everything of size N×N is filled and read in
tiles of the lower triangle, so that temporaries stay in the cache and three N×N arrays suffice.
With missing entries (:mod:`hgplvm.objectives.responses`) YYᵀ gains diag(u), as if Y had the further
columns diag(√u).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hgplvm import linalg
from hgplvm._threads import long_operation
from hgplvm.geometry import Manifold
from hgplvm.kernels import Kernel, cusp_division
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.responses import Imputation, Responses
from hgplvm.objectives.tiles import tile_size, tiles

__all__ = ["ExactObjective"]


class ExactObjective:
    """Log marginal likelihood and its closed-form gradient.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data. For D > N it is rotated down to N columns, which changes nothing: it enters
        as YYᵀ alone.
    manifold, kernel
        Latent space and covariance.
    noise_floor : float
        The noise variance is ``noise_floor + exp(logs["noise"])``.
    imputation : Imputation, optional
        What stands for missing entries.
    """

    def __init__(
        self,
        data: Tensor,
        manifold: Manifold,
        kernel: Kernel,
        *,
        noise_floor: float = 0.0,
        imputation: Imputation | None = None,
    ) -> None:
        self.manifold = manifold
        self.kernel = kernel
        self.noise_floor = noise_floor
        self.responses = Responses(data, imputation)
        self.n_rows, self.n_columns = data.shape
        self.n_entries = self.responses.n_entries
        self._memory = data.new_empty(0)  # K: fresh pages at every evaluation would cost more
        self.tile = tile_size(data.device)

    stochastic = False

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def state(self) -> dict[str, Any]:
        """Nothing changes from step to step."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on: there is nothing to restore."""

    def noise_variance(self, parameters: Parameters) -> float:
        """``β⁻¹``."""
        return self.noise_floor + parameters.positive("noise")

    def value(self, parameters: Parameters) -> float:
        """F alone: one Cholesky."""
        gram = self._gram(parameters)
        with long_operation(self.n_rows):
            factor = linalg.cholesky(gram, shift=self.noise_variance(parameters))
            data, unseen = self.responses.data, self.responses.unseen
            quadratic = (linalg.solve_cholesky(factor, data) * data).sum()
            if unseen is not None:
                quadratic += (linalg.inverse_from_cholesky(factor).diagonal() * unseen).sum()
        return self._log_likelihood(factor, quadratic)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """F and its gradient with respect to latents and free parameters."""
        gram = self._gram(parameters)
        noise = self.noise_variance(parameters)
        data, unseen = self.responses.data, self.responses.unseen
        with long_operation(self.n_rows):
            factor = linalg.cholesky(gram, shift=noise)
            alpha = linalg.solve_cholesky(factor, data)  # [N, D]
            inverse = linalg.inverse_from_cholesky(factor)
        quadratic = (alpha * data).sum()  # tr αᵀY
        if unseen is not None:  # C⁻¹ diag(√u): more columns of α
            quadratic += (inverse.diagonal() * unseen).sum()
            alpha = torch.cat([alpha, inverse * unseen.sqrt()], dim=1)
        value = self._log_likelihood(factor, quadratic)
        del factor

        # ∂F/∂β⁻¹ = tr G
        trace = 0.5 * (alpha.square().sum() - self.n_columns * inverse.diagonal().sum())
        latents, log_length_scale = self._through_distances(parameters, gram, alpha, inverse)
        gradients = {
            # Σ G∘K = Σ G∘C - β⁻¹ tr G, and Σ G∘C = ½ (tr αᵀY - ND)
            "variance": 0.5 * (quadratic - self.n_rows * self.n_columns) - noise * trace,
            "noise": parameters.positive("noise") * trace,
            "length_scale": log_length_scale,
        }
        free = [gradients[name].reshape(1) for name in parameters.free]
        return Evaluation(value, torch.cat([latents.reshape(-1), *free]))

    def _log_likelihood(self, factor: Tensor, quadratic: Tensor) -> float:
        log_det = linalg.log_det_from_cholesky(factor)
        constant = self.n_rows * self.n_columns * math.log(2.0 * math.pi)
        value = -0.5 * (constant + self.n_columns * log_det.item() + quadratic.item())
        return value + self.responses.entropy

    def _gram(self, parameters: Parameters) -> Tensor:
        """Lower triangle of K."""
        features = self.manifold.pair_features(parameters.latents)
        variance, length_scale = (parameters.positive(k) for k in ("variance", "length_scale"))
        gram = self._memory.resize_(self.n_rows, self.n_rows)
        for rows, columns in tiles(self.n_rows, None, self.tile):
            squared = self.manifold.pair_squared_chord(features[rows], features[columns])
            ratio = self.manifold.distance_from_chord(squared).div_(length_scale)
            gram[rows, columns] = self.kernel.profile(ratio).mul_(variance)
        return gram

    def _through_distances(
        self, parameters: Parameters, gram: Tensor, alpha: Tensor, inverse: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Gradients that pass through d: latents in their frames [N, Q], and log κ.

        With ``∂F/∂d_ij = 2 G_ij σ g'(d_ij/κ)/κ`` for i > j (K is symmetric) and
        ``grad_i d_ij = -(x_j - c_ij x_i)/sinh d_ij``.
        """
        manifold, x = self.manifold, parameters.latents
        features = manifold.pair_features(x)
        variance, length_scale = (parameters.positive(k) for k in ("variance", "length_scale"))
        gradient = x.new_zeros(self.n_rows, manifold.to_frame(x[:1], x[:1]).shape[1])
        log_length_scale = x.new_zeros(())
        for rows, columns in tiles(self.n_rows, None, self.tile):
            squared = manifold.pair_squared_chord(features[rows], features[columns])
            ratio = manifold.distance_from_chord(squared).div_(length_scale)
            value = gram[rows, columns] / variance
            # 2 G, from the lower triangle
            pull = torch.addmm(
                inverse[rows, columns], alpha[rows], alpha[columns].mT, beta=-self.n_columns
            )
            pull.mul_(self.kernel.slope(ratio, value)).mul_(variance / length_scale)  # ∂F/∂d
            if rows.start < columns.stop:  # a tile on the diagonal: pairs i > j alone
                pull.tril_(rows.start - columns.start - 1)
            if "length_scale" in parameters.free:
                log_length_scale -= length_scale * torch.vdot(pull.view(-1), ratio.view(-1))
            directions = cusp_division(pull.neg_(), manifold.sinh_from_chord(squared))
            gradient[rows] += manifold.direction_sums(x[rows], x[columns], directions, squared)
            gradient[columns] += manifold.direction_sums(
                x[columns], x[rows], directions.mT, squared.mT
            )
        return gradient, log_length_scale
