"""The Gaussian process after a fit: what it predicts at a point, and where a new row belongs.

With ``C = K + β⁻¹I`` over the training rows, at a point x with ``k = k(x, X)``::

    m(x) = k C⁻¹Y,    v(x) = σ + β⁻¹ - k C⁻¹kᵀ

and the latent of a new row y maximises ``-½ D log 2πv - ‖y - m‖²/(2v)`` over its observed entries.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgplvm import linalg
from hgplvm.geometry import Manifold
from hgplvm.kernels import Kernel, gram, gram_gradient
from hgplvm.objectives.parameters import Evaluation, Parameters

__all__ = ["PlacementObjective", "Posterior"]

# training latents that a row is placed amid, and numbers that are worked on at a time for it
LIKELIEST = 10
PLACED_ENTRIES = 2**21


class Posterior:
    """Predictions of the exact model, given latents, data and positive parameters.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data of the training rows.
    parameters : Parameters
        Their latents, ``variance`` and ``length_scale``.
    noise : float
        β⁻¹.
    """

    def __init__(
        self,
        data: Tensor,
        parameters: Parameters,
        manifold: Manifold,
        kernel: Kernel,
        *,
        noise: float,
    ) -> None:
        self.manifold = manifold
        self.kernel = kernel
        self.latents = parameters.latents
        self.variance = parameters.positive("variance")
        self.length_scale = parameters.positive("length_scale")
        self.noise = noise
        factor = linalg.cholesky(self.covariance(self.latents), shift=noise)
        self.alpha = linalg.solve_cholesky(factor, data)  # C⁻¹Y [N, D]
        self.inverse = linalg.inverse_from_cholesky(factor)  # C⁻¹ [N, N]

    def covariance(self, x: Tensor) -> Tensor:
        """``k(x, X)``: [n, N]."""
        return gram(
            self.kernel,
            self.manifold,
            x,
            self.latents,
            variance=self.variance,
            length_scale=self.length_scale,
        )

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [n, D] and variance [n] of a new row at each x, its noise included."""
        cross = self.covariance(x)
        return cross @ self.alpha, self._variance(cross, cross @ self.inverse)

    def _variance(self, cross: Tensor, weights: Tensor) -> Tensor:
        total = self.variance + self.noise
        # never below the noise, whatever rounding says
        return (total - (cross * weights).sum(1)).clamp_min(max(self.noise, 1e-12 * total))

    def log_density(self, rows: Tensor, x: Tensor, observed: Tensor) -> Tensor:
        """Log density of the observed entries of each row at its own x: [n]."""
        mean, variance = self.predict(x)
        misfit = ((rows - mean) * observed).square().sum(1)
        return _log_normal(observed.sum(1), misfit, variance)

    def nearest(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Training latent at which each row is the most likely: a start for its own."""
        mean, variance = self.predict(self.latents)
        misfit = (rows * observed).square().sum(1)[:, None] + observed @ mean.square().mT
        misfit -= 2.0 * (rows * observed) @ mean.mT
        density = _log_normal(observed.sum(1)[:, None], misfit, variance[None, :])
        return self.latents[density.argmax(1)]

    def among(self, rows: Tensor) -> Tensor:
        """Place rows [n, D] amid the training latents at which they are the most likely.

        A mean of the likeliest few with their densities as weights: the posterior mean if rows
        could stand at training latents alone. Where one of them takes it all, the weights are
        evened out until the third has a say, so that no two rows coincide for want of others; and
        those that lie apart from the likeliest, on another branch perhaps, have none. In chunks.
        """
        mean, variance = self.predict(self.latents)
        squares, log_variance = mean.square().sum(1), torch.log(variance)
        size = max(1, PLACED_ENTRIES // len(mean))
        placed = []
        for part in torch.split(rows, size):
            misfit = part.square().sum(1)[:, None] + squares - 2.0 * part @ mean.mT
            density = -0.5 * (rows.shape[1] * log_variance + misfit / variance)
            best, which = density.topk(min(LIKELIEST, len(mean)), dim=1)
            gaps = best[:, :1] - best  # rising from 0
            weights = torch.exp(-gaps / gaps[:, min(2, gaps.shape[1] - 1), None].clamp_min(1.0))
            points = self.latents[which]  # [n, few, Q+1]
            apart = self.manifold.distance(points, points[:, :1])
            weights *= torch.exp(-apart / apart.median(1, keepdim=True).values.clamp_min(1e-12))
            placed.append(self.manifold.weighted_mean(points, weights))
        return torch.cat(placed)


class PlacementObjective:
    """Log density of new rows as a function of their latents: all rows at once, none coupled.

    Parameters
    ----------
    rows : Tensor [n, D]
        Centred data of the new rows; what is not observed may be any number.
    observed : Tensor [n, D]
        1 for entries that count, 0 for the others.
    """

    stochastic = False

    def __init__(self, posterior: Posterior, rows: Tensor, observed: Tensor) -> None:
        self.posterior = posterior
        self.manifold = posterior.manifold
        self.rows = rows * observed
        self.observed = observed
        self.n_entries = rows.numel()

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def value(self, parameters: Parameters) -> float:
        """Sum of the rows' log densities."""
        density = self.posterior.log_density(self.rows, parameters.latents, self.observed)
        return density.sum().item()

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Sum of the log densities L, and its gradient through ``∂L/∂k``.

        ``∂L/∂m = (y - m)/v``, ``∂L/∂v = (‖y - m‖²/v - D)/(2v)`` and
        ``∂L/∂k = ∂L/∂m (C⁻¹Y)ᵀ - 2 ∂L/∂v k C⁻¹``.
        """
        posterior, x = self.posterior, parameters.latents
        cross = posterior.covariance(x)
        weights = cross @ posterior.inverse
        variance = posterior._variance(cross, weights)
        residual = self.rows - (cross @ posterior.alpha) * self.observed
        misfit, count = residual.square().sum(1), self.observed.sum(1)
        value = _log_normal(count, misfit, variance).sum().item()
        by_variance = 0.5 * (misfit / variance - count) / variance
        by_cross = (residual / variance[:, None]) @ posterior.alpha.mT
        by_cross -= 2.0 * by_variance[:, None] * weights
        gradient, *_ = gram_gradient(
            posterior.kernel,
            self.manifold,
            x,
            posterior.latents,
            by_cross,
            variance=posterior.variance,
            length_scale=posterior.length_scale,
        )
        return Evaluation(value, gradient.reshape(-1))


def _log_normal(count: Tensor, misfit: Tensor, variance: Tensor) -> Tensor:
    """Log density of `count` entries with this sum of squared residuals and one variance."""
    return -0.5 * (count * torch.log(2.0 * math.pi * variance) + misfit / variance)
