"""The latents of new rows, given what a fitted model predicts at each point.

The latent of a new row y maximises ``-½ D log 2πv - ‖y - m‖²/(2v)`` over its observed entries, plus
the log density of a prior around the origin. In a Bayesian model the row has a distribution
``q(x)``, and a share in the bound that the model maximises:

    E_q[-½ D log 2πβ⁻¹ - ½β (‖y - m‖² + D (v - β⁻¹))] - KL(q ‖ prior)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold, wrapped_normal
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.predictive import Posterior, log_bound, log_normal, rows_times

__all__ = [
    "NewRows",
    "NewRowsBound",
    "RowEvaluation",
    "log_prior",
    "prior_slope",
]


@dataclass(frozen=True)
class RowEvaluation(Evaluation):
    """An evaluation with the density of each row: `density` [n] sums to `value`."""

    density: Tensor


class NewRows:
    """Log density of new rows as a function of their latents: all rows at once, none coupled.

    Parameters
    ----------
    rows : Tensor [n, D]
        Centred data of the new rows; what is not observed may be any number.
    observed : Tensor [n, D]
        1 for entries that count, 0 for the others.
    prior_scale : float, optional
        Scale τ of a wrapped normal prior at the origin; without it there is none.
    bound : bool
        Whether to take the row's share in a sparse model's bound in place of its log density.
    noise : Tensor [n], optional
        Noise variance of each row; without it that which the posterior has for new rows.
    """

    stochastic = False

    def __init__(
        self,
        posterior: Posterior,
        rows: Tensor,
        observed: Tensor,
        *,
        prior_scale: float | None = None,
        bound: bool = False,
        noise: Tensor | None = None,
    ) -> None:
        self._noise: Tensor | float = posterior.noise if noise is None else noise
        self.posterior = posterior
        self._bound = bound
        self.manifold = posterior.manifold
        self.prior_scale = prior_scale
        self.n_entries = rows.numel()
        self._count = observed.sum(1)
        kind = _ProductMisfit if posterior.local else _DirectMisfit
        self._misfit = kind(rows * observed, observed, posterior.basis)

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def value(self, parameters: Parameters) -> float:
        """Sum of the rows' log densities."""
        return self.density(parameters.latents).sum().item()

    def density(self, x: Tensor) -> Tensor:
        """Log density of each row at its own x, the prior included: [n]."""
        a, _, variance = self.posterior.reading(self.posterior.cross(self.posterior.pairs(x)))
        density, *_ = self._likelihood(self._misfit(a)[0], variance)
        return density if self.prior_scale is None else density + self._log_prior(x)

    def _likelihood(self, misfit: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log density [n], and its derivatives by misfit and variance."""
        noise = self._noise
        variance = variance + (noise - self.posterior.noise)
        if self._bound:
            density = log_bound(self._count, misfit, variance, noise)
            slope = -0.5 / (noise + torch.zeros_like(misfit))
            return density, slope, self._count * slope
        density = log_normal(self._count, misfit, variance)
        return density, -0.5 / variance, 0.5 * (misfit / variance - self._count) / variance

    def evaluate(self, parameters: Parameters) -> RowEvaluation:
        """Sum of the log densities L, and its gradient through ``∂L/∂c``.

        With ``e = ‖y - m‖²``: ``∂L/∂a = -(∂e/∂a)/(2v)``, ``∂L/∂v = (e/v - D)/(2v)`` and
        ``∂L/∂c = ∂L/∂a Tᵀ - 2 ∂L/∂v cW``.
        """
        posterior, x = self.posterior, parameters.latents
        pairs = posterior.pairs(x)
        c = posterior.cross(pairs)
        a, weights, variance = posterior.reading(c)
        misfit, by_a = self._misfit(a)
        density, by_misfit, by_variance = self._likelihood(misfit, variance)
        by_c = rows_times(by_a.mul_(by_misfit[:, None]), posterior.coefficients.mT)
        by_c -= 2.0 * by_variance[:, None] * weights
        gradient = posterior.cross_gradient(pairs, by_c)
        if self.prior_scale is not None:
            density = density + self._log_prior(x)
            gradient = gradient - prior_slope(self.manifold, x, self.prior_scale)
        return RowEvaluation(density.sum().item(), gradient.reshape(-1), density)

    def _log_prior(self, x: Tensor) -> Tensor:
        return log_prior(self.manifold, x, float(self.prior_scale or 0.0))


class NewRowsBound:
    """The Bayesian model's bound as a function of new rows' ``q(x)``; none is coupled.

    ``logs["std"]`` [n, Q] holds log s. Expectations are taken over unscented nodes, as in the fit.
    """

    stochastic = False

    def __init__(
        self,
        posterior: Posterior,
        rows: Tensor,
        observed: Tensor,
        *,
        prior_scale: float,
        noise: Tensor | None = None,
    ) -> None:
        self.manifold, self.prior_scale = posterior.manifold, prior_scale
        self.n_entries = rows.numel()
        q = posterior.covariance.manifold.n_components(posterior.points)
        self._zeta, self._weights = wrapped_normal.unscented(q, like=rows)
        each = len(self._weights)
        self._nodes = NewRows(
            posterior,
            rows.repeat_interleave(each, 0),
            observed.repeat_interleave(each, 0),
            bound=True,
            noise=None if noise is None else noise.repeat_interleave(each, 0),
        )

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def value(self, parameters: Parameters) -> float:
        """Sum of the rows' bounds."""
        return self.evaluate(parameters).value

    def evaluate(self, parameters: Parameters) -> RowEvaluation:
        """Evaluate the bounds, and their gradients by mean and log deviations."""
        mean, std = parameters.latents, parameters.logs["std"].exp()
        zeta, weights = self._zeta, self._weights
        nodes = wrapped_normal.points(self.manifold, mean.unsqueeze(1), std.unsqueeze(1), zeta)
        there = self._nodes.evaluate(Parameters(nodes.flatten(0, 1), {}, ()))
        shape = nodes.shape[:2]
        density = (there.density.view(shape) * weights).sum(1)
        density = density - wrapped_normal.kl_from_nodes(
            self.manifold, nodes, std, zeta, weights, self.prior_scale
        )
        frame = weights[:, None] * there.gradient.view(*shape, -1)
        by_mean, by_log_std = wrapped_normal.pull_back(
            self.manifold, mean, std, nodes, frame, zeta, weights, self.prior_scale
        )
        gradient = torch.cat([by_mean.reshape(-1), by_log_std.reshape(-1)])
        return RowEvaluation(density.sum().item(), gradient, density)


class _DirectMisfit:
    """``e = ‖(y - aR)∘o‖²`` and ``∂e/∂a`` for coefficients a [n, r] of one basis R [r, D].

    Of complete rows, only the part in the span of R moves: it has r coordinates.
    """

    def __init__(self, seen: Tensor, observed: Tensor, basis: Tensor) -> None:
        self._beyond: Tensor | float = 0.0
        self._observed: Tensor | None = observed
        if bool(observed.all()):
            self._observed = None
            if basis.shape[1] > basis.shape[0]:
                axes, inside = torch.linalg.qr(basis.mT)  # Rᵀ = Q S
                whole = seen.square().sum(1)
                seen, basis = seen @ axes, inside.mT
                self._beyond = (whole - seen.square().sum(1)).clamp_min(0.0)
        self._seen, self._basis = seen, basis

    def __call__(self, a: Tensor) -> tuple[Tensor, Tensor]:
        residual = torch.addmm(self._seen, a, self._basis, alpha=-1.0)
        if self._observed is not None:
            residual *= self._observed
        misfit = residual.square().sum(1) + self._beyond
        return misfit, -2.0 * residual @ self._basis.mT


class _ProductMisfit:
    """The same where each row has a basis of its own [n, r, D], by products of its rows.

    They take r² numbers per row in place of rD, and coefficients are of the order of 1, so that
    little precision is lost.
    """

    def __init__(self, seen: Tensor, observed: Tensor, basis: Tensor) -> None:
        visible = basis * observed.unsqueeze(1)
        self._products = visible @ visible.mT  # [n, r, r]
        self._cross = (visible @ seen.unsqueeze(2)).squeeze(2)  # [n, r]
        self._squares = seen.square().sum(1)

    def __call__(self, a: Tensor) -> tuple[Tensor, Tensor]:
        through = rows_times(a, self._products)
        misfit = self._squares + (a * (through - 2.0 * self._cross)).sum(1)
        return misfit.clamp_min(0.0), 2.0 * (through - self._cross)


def log_prior(manifold: Manifold, x: Tensor, scale: float) -> Tensor:
    """Log density of the wrapped normal at the origin with scale τ: [n].

    ``-r²/2τ² - (Q-1) log(sinh r/r) - Q/2 log 2πτ²`` with ``r = d(o, x)``.
    """
    square, q = manifold.squared_radius(x), manifold.n_components(x)
    constant = 0.5 * q * math.log(2.0 * math.pi * scale**2)
    return -square / (2.0 * scale**2) - (q - 1) * manifold.log_stretch(square) - constant


def prior_slope(manifold: Manifold, x: Tensor, scale: float) -> Tensor:
    """Gradient of the *negative* log prior, in the frames at x: it points out along the ray."""
    tangent = manifold.to_tangent(x)
    slope = manifold.log_stretch_slope(manifold.squared_radius(x)).unsqueeze(-1)
    return (1.0 / scale**2 + (tangent.shape[-1] - 1) * slope) * tangent
