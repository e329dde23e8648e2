"""The Gaussian process after a fit: what it predicts at a point, and where a new row belongs.

Every model predicts in the same form. With ``c = k(x, points)``, coefficients ``a = cT`` of some
basis rows R, and a matrix W::

    m(x) = aR,    v(x) = σ + β⁻¹ - c W cᵀ

==================  ==============================  =====================  =======================
model               points                          coefficients           basis rows
==================  ==============================  =====================  =======================
exact               training latents                ``c C⁻¹``              Y
sparse, Bayesian    inducing points, K_mm = LLᵀ     ``c L⁻ᵀ``              ``LᵀE``, E = βA⁻¹Ψ₁Y
nearest neighbours  the nearest training latents    ``b``, ``t`` of that   their rows of Y, and the
                    of each x, and inducing points  model's formulas       smooth part's mean
==================  ==============================  =====================  =======================

The latent of a new row y maximises ``-½ D log 2πv - ‖y - m‖²/(2v)`` over its observed entries, plus
the log density of a prior around the origin. In a Bayesian model the row has a distribution
``q(x)``, and a share in the bound that the model maximises:

    E_q[-½ D log 2πβ⁻¹ - ½β (‖y - m‖² + D (v - β⁻¹))] - KL(q ‖ prior)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hgplvm import linalg
from hgplvm.geometry import Manifold, wrapped_normal
from hgplvm.geometry.neighbors import nearest_to
from hgplvm.kernels import Kernel, Pairs, gram
from hgplvm.objectives.bound import Statistics
from hgplvm.objectives.features import jittered_gram
from hgplvm.objectives.parameters import Evaluation, Parameters

__all__ = [
    "Landmarks",
    "NeighborPosterior",
    "PlacementObjective",
    "Posterior",
    "Predictor",
    "RowEvaluation",
    "VariationalPlacement",
    "collapsed_posterior",
    "exact_posterior",
    "log_prior",
]

# training latents that a row is placed amid, and numbers that are worked on at a time for it
LIKELIEST = 10
LANDMARK_STARTS = 3
PLACED_ENTRIES = 2**21


class Predictor(Protocol):
    """A model after its fit."""

    @property
    def manifold(self) -> Manifold:
        """Latent space."""

    @property
    def row_entries(self) -> int:
        """Numbers that a row takes while it is placed."""

    def near(self, x: Tensor, /) -> Posterior:
        """Return the posterior that holds around each x [n, ·]."""


@dataclass(frozen=True)
class Posterior:
    """Predictions of one form for all models; see the module's table.

    Attributes
    ----------
    variance, length_scale, noise : float
        σ, κ and β⁻¹.
    points : Tensor [m, Q+1] or [n, m, Q+1]
        What covariances are taken with; in the second form each x has its own, and so have the
        other arrays a leading axis.
    coefficients : Tensor [m, r]
        T.
    basis : Tensor [r, D]
        R.
    inverse : Tensor [m, m]
        W.
    doubt : Tensor [r, D], optional
        Variances of the basis rows' entries, where some were missing from the data.
    """

    manifold: Manifold
    kernel: Kernel
    variance: float
    length_scale: float
    noise: float
    points: Tensor
    coefficients: Tensor
    basis: Tensor
    inverse: Tensor
    doubt: Tensor | None = None

    @property
    def local(self) -> bool:
        """Whether each x has points of its own."""
        return self.points.ndim == 3

    @property
    def row_entries(self) -> int:
        """Numbers that a row takes while it is placed."""
        return 4 * self.points.shape[-2] + 2 * self.basis.shape[-1]

    def near(self, x: Tensor) -> Posterior:  # noqa: ARG002
        """Return the posterior itself: it holds everywhere."""
        return self

    def pairs(self, x: Tensor) -> Pairs:
        """Evaluate the kernel between each x and the points: [n, m], or [n, 1, m] if local."""
        x = x.unsqueeze(1) if self.local else x
        return Pairs.of(self.kernel, self.manifold, x, self.points, self.length_scale)

    def covariance(self, pairs: Pairs) -> Tensor:
        """``c = k(x, points)``: [n, m]."""
        return self.variance * (pairs.profile.squeeze(1) if self.local else pairs.profile)

    def covariance_gradient(self, pairs: Pairs, by_covariance: Tensor) -> Tensor:
        """Gradient in the frames at x [n, Q] from ``∂F/∂c`` [n, m]."""
        weights = self.variance * by_covariance
        if not self.local:
            return pairs.gradient(weights)
        return pairs.gradient(weights.unsqueeze(1)).squeeze(1)

    def reading(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Coefficients a [n, r], ``cW`` [n, m] and the variance v [n], its noise included."""
        weights = rows_times(c, self.inverse)
        same = self.coefficients is self.inverse
        a = weights if same else rows_times(c, self.coefficients)
        total = self.variance + self.noise
        # never below the noise, whatever rounding says
        spread = (total - (c * weights).sum(1)).clamp_min(max(self.noise, 1e-12 * total))
        return a, weights, spread

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [n, D] and variance [n] of a new row at each x, its noise included."""
        a, _, variance = self.reading(self.covariance(self.pairs(x)))
        return rows_times(a, self.basis), variance

    def predict_entries(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each entry of a new row at each x: [n, D] both.

        What was missing from the data adds its own variance, ``Σ a² doubt``.
        """
        a, _, variance = self.reading(self.covariance(self.pairs(x)))
        mean = rows_times(a, self.basis)
        spread = variance[:, None].expand_as(mean)
        return mean, spread if self.doubt is None else spread + rows_times(a.square(), self.doubt)

    def log_density(self, rows: Tensor, x: Tensor, observed: Tensor) -> Tensor:
        """Log density of the observed entries of each row at its own x: [n]."""
        mean, variance = self.predict(x)
        misfit = ((rows - mean) * observed).square().sum(1)
        return log_normal(observed.sum(1), misfit, variance)


def rows_times(c: Tensor, matrix: Tensor) -> Tensor:
    """Multiply rows [n, m] by one matrix [m, r], or each by its own [n, m, r]."""
    return c @ matrix if matrix.ndim == 2 else (c.unsqueeze(1) @ matrix).squeeze(1)


def log_normal(count: Tensor, misfit: Tensor, variance: Tensor) -> Tensor:
    """Log density of `count` entries with this sum of squared residuals and one variance."""
    return -0.5 * (count * torch.log(2.0 * math.pi * variance) + misfit / variance)


def log_bound(count: Tensor, misfit: Tensor, variance: Tensor, noise: float) -> Tensor:
    """Share of `count` entries in a sparse model's bound.

    ``-½ D log 2πβ⁻¹ - ½β (‖y - m‖² + D (v - β⁻¹))``.
    """
    constant = math.log(2.0 * math.pi * noise)
    return -0.5 * (count * (constant + variance / noise - 1.0) + misfit / noise)


# --- the models -----------------------------------------------------------------------------


def exact_posterior(
    data: Tensor,
    parameters: Parameters,
    manifold: Manifold,
    kernel: Kernel,
    *,
    noise: float,
    doubt: Tensor | None = None,
) -> Posterior:
    """Predictions of the exact model: ``m = k C⁻¹Y``, ``v = σ + β⁻¹ - k C⁻¹kᵀ``.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data of the training rows.
    parameters : Parameters
        Their latents, ``variance`` and ``length_scale``.
    noise : float
        β⁻¹.
    doubt : Tensor [N, D], optional
        Variances of entries that were imputed, 0 for the others.
    """
    scales = {k: parameters.positive(k) for k in ("variance", "length_scale")}
    x = parameters.latents
    covariance = gram(kernel, manifold, x, x, **scales)
    inverse = linalg.inverse_from_cholesky(linalg.cholesky(covariance, shift=noise))  # C⁻¹
    return Posterior(
        manifold,
        kernel,
        noise=noise,
        points=x,
        coefficients=inverse,
        basis=data,
        inverse=inverse,
        doubt=doubt,
        **scales,
    )


def collapsed_posterior(
    inducing: Tensor,
    statistics: Statistics,
    parameters: Parameters,
    manifold: Manifold,
    kernel: Kernel,
    *,
    noise: float,
) -> Posterior:
    """Predictions of the sparse and the Bayesian model: ``m = k E``, ``v = σ + β⁻¹ - k W kᵀ``.

    With ``K_mm = LLᵀ`` and ``S = (I + βL⁻¹Ψ₂L⁻ᵀ)⁻¹``: ``LᵀE = βS L⁻¹P`` and
    ``W = K_mm⁻¹ - A⁻¹ = L⁻ᵀ(I - S)L⁻¹``.
    """
    scales = {k: parameters.positive(k) for k in ("variance", "length_scale")}
    gram_matrix = jittered_gram(kernel, manifold, inducing, **scales)
    eye = torch.eye(len(inducing), dtype=inducing.dtype, device=inducing.device)
    whitener = torch.linalg.solve_triangular(linalg.cholesky(gram_matrix), eye, upper=False)  # L⁻¹
    white = whitener @ statistics.psi2 @ whitener.mT / noise
    inner = linalg.inverse_from_cholesky(linalg.cholesky_shifted(white))  # S
    return Posterior(
        manifold,
        kernel,
        noise=noise,
        points=inducing,
        coefficients=whitener.mT.contiguous(),
        basis=inner @ (whitener @ statistics.projection) / noise,
        inverse=whitener.mT @ (eye - inner) @ whitener,
        doubt=None,
        **scales,
    )


@dataclass(frozen=True)
class NeighborPosterior:
    """Predictions of the nearest-neighbour model: each x sees its k nearest training rows.

    With the features ``φ = L⁻¹k_m`` of M inducing points (perhaps none), ``C`` the neighbours'
    covariance without what these explain, and weights of the features of mean E and covariance
    S⁻¹ (:mod:`hgplvm.objectives.vecchia`)::

        b = (k_n - φΦ_nᵀ) C⁻¹,   t = φ - bΦ_n
        m = bY_n + tE,           v = σ + β⁻¹ - φφᵀ - (k_n - φΦ_nᵀ)bᵀ + t S⁻¹ tᵀ

    all of which is linear, or quadratic, in ``c = (k_n, k_m)``.

    Attributes
    ----------
    data : Tensor [N, D]
        Centred data of the training rows.
    latents : Tensor [N, Q+1]
        Their latents.
    inducing : Tensor [M, Q+1]
        Inducing points.
    smooth_mean, smooth_covariance : Tensor [M, D], [M, M]
        E and S⁻¹.
    doubt : Tensor [N, D], optional
        Variances of entries that were imputed, 0 for the others.
    """

    manifold: Manifold
    kernel: Kernel
    variance: float
    length_scale: float
    noise: float
    n_neighbors: int
    data: Tensor
    latents: Tensor
    inducing: Tensor
    smooth_mean: Tensor
    smooth_covariance: Tensor
    doubt: Tensor | None = None

    @property
    def row_entries(self) -> int:
        """Numbers that a row takes while it is placed."""
        width = self.n_neighbors + len(self.inducing)
        return width * (4 * width + 2 * self.data.shape[1])

    def near(self, x: Tensor) -> Posterior:
        """Posterior around each x, from its nearest training rows."""
        return self.of(nearest_to(self.manifold, x, self.latents, self.n_neighbors))

    def of(self, neighbors: Tensor) -> Posterior:
        """Posterior from given training rows [n, k]."""
        scales = {"variance": self.variance, "length_scale": self.length_scale}
        n, k = neighbors.shape
        m, d = len(self.inducing), self.data.shape[1]
        near = self.latents[neighbors]  # [n, k, Q+1]
        covariance = gram(self.kernel, self.manifold, near, near, **scales)
        eye = torch.eye(k + m, dtype=near.dtype, device=near.device)
        white, features = eye[k:, k:], near.new_zeros(n, k, m)
        if m:
            inner = jittered_gram(self.kernel, self.manifold, self.inducing, **scales)
            white = torch.linalg.solve_triangular(linalg.cholesky(inner), white, upper=False)
            cross = gram(self.kernel, self.manifold, near, self.inducing, **scales)
            features = cross @ white.mT  # Φ_n
            covariance = covariance - features @ features.mT
        factor = linalg.cholesky(covariance, shift=self.noise)
        # k_n - φΦ_nᵀ = c Z, with Z = (I; -L⁻ᵀΦ_nᵀ)
        left = torch.cat([eye[:k, :k].expand(n, k, k), -white.mT @ features.mT], dim=1)
        to_b = torch.cholesky_solve(left.mT, factor).mT  # b = cB
        whole = torch.cat([near.new_zeros(k, m), white.mT])  # φ = c (0; L⁻ᵀ)
        to_t = whole - to_b @ features
        inverse = left @ to_b.mT + whole @ whole.mT - to_t @ self.smooth_covariance @ to_t.mT
        doubt: Tensor | None = None
        if self.doubt is not None:
            doubt = torch.cat([self.doubt[neighbors], near.new_zeros(n, m, d)], dim=1)
        return Posterior(
            self.manifold,
            self.kernel,
            noise=self.noise,
            points=torch.cat([near, self.inducing.expand(n, m, near.shape[2])], dim=1),
            coefficients=torch.cat([to_b, to_t], dim=2),
            basis=torch.cat([self.data[neighbors], self.smooth_mean.expand(n, m, d)], dim=1),
            inverse=inverse,
            doubt=doubt,
            **scales,
        )


# --- where a new row belongs ----------------------------------------------------------------


@dataclass(frozen=True)
class Landmarks:
    """Points with what the model predicts there: where new rows may begin.

    Attributes
    ----------
    latents : Tensor [C, Q+1]
        The points, some or all of the training latents.
    mean, variance : Tensor [C, D], [C]
        Predictions there.
    noise : float, optional
        β⁻¹, where rows are judged by their share in a sparse model's bound.
    """

    manifold: Manifold
    latents: Tensor
    mean: Tensor
    variance: Tensor
    noise: float | None = None

    @classmethod
    def of(cls, predictor: Predictor, latents: Tensor, *, noise: float | None = None) -> Landmarks:
        """Predict at the latents, in chunks."""
        size = max(1, PLACED_ENTRIES // predictor.row_entries)
        parts = [predictor.near(x).predict(x) for x in torch.split(latents, size)]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return cls(predictor.manifold, latents, mean, variance, noise)

    def log_density(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Log density of each row's observed entries at each landmark: [n, C]."""
        seen = rows * observed
        misfit = seen.square().sum(1)[:, None] + observed @ self.mean.square().mT
        misfit = misfit.addmm_(seen, self.mean.mT, alpha=-2.0).clamp_min_(0.0)
        count = observed.sum(1)[:, None]
        if self.noise is None:
            return log_normal(count, misfit, self.variance)
        return log_bound(count, misfit, self.variance, self.noise)

    def nearest(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Landmark at which each row is the most likely."""
        return self.latents[self.log_density(rows, observed).argmax(1)]

    def among(self, rows: Tensor) -> Tensor:
        """Place complete rows [n, D] amid the landmarks at which they are the most likely."""
        placed = []
        for part in torch.split(rows, max(1, PLACED_ENTRIES // len(self.latents))):
            density = self.log_density(part, torch.ones_like(part))
            placed.append(self._amid(density)[0])
        return torch.cat(placed)

    def starts(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Where to begin with each row: [n, S, Q+1].

        Amid the likeliest landmarks, at the likeliest, and at those of the likeliest few that lie
        the farthest from it and from each other.
        """
        middle, points = self._amid(self.log_density(rows, observed))
        every = torch.arange(len(rows), device=rows.device)
        found, apart = [middle], torch.full_like(points[..., 0], torch.inf)
        pick = torch.zeros_like(every)  # the likeliest stands first
        for _ in range(min(LANDMARK_STARTS, points.shape[1])):
            found.append(points[every, pick])
            apart = torch.minimum(apart, self.manifold.distance(points, found[-1].unsqueeze(1)))
            pick = apart.argmax(1)
        return torch.stack(found, dim=1)

    def _amid(self, density: Tensor) -> tuple[Tensor, Tensor]:
        """Mean of the likeliest few landmarks with their densities as weights; and the few.

        It is the posterior mean if rows could stand at landmarks alone. Where one of them takes it
        all, the weights are evened out until the third has a say, so that no two rows coincide for
        want of others; and those that lie apart from the likeliest, on another branch perhaps,
        have none.
        """
        best, which = density.topk(min(LIKELIEST, len(self.latents)), dim=1)
        gaps = best[:, :1] - best  # rising from 0
        weights = torch.exp(-gaps / gaps[:, min(2, gaps.shape[1] - 1), None].clamp_min(1.0))
        points = self.latents[which]  # [n, few, Q+1]
        apart = self.manifold.distance(points, points[:, :1])
        weights *= torch.exp(-apart / apart.median(1, keepdim=True).values.clamp_min(1e-12))
        return self.manifold.weighted_mean(points, weights), points


@dataclass(frozen=True)
class RowEvaluation(Evaluation):
    """An evaluation that tells the rows apart: `density` [n] sums to `value`."""

    density: Tensor


class PlacementObjective:
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
    ) -> None:
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
        a, _, variance = self.posterior.reading(self.posterior.covariance(self.posterior.pairs(x)))
        density, *_ = self._likelihood(self._misfit(a)[0], variance)
        return density if self.prior_scale is None else density + self._log_prior(x)

    def _likelihood(self, misfit: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log density [n], and its derivatives by misfit and variance."""
        if self._bound:
            noise = self.posterior.noise
            density = log_bound(self._count, misfit, variance, noise)
            return density, torch.full_like(misfit, -0.5 / noise), -0.5 * self._count / noise
        density = log_normal(self._count, misfit, variance)
        return density, -0.5 / variance, 0.5 * (misfit / variance - self._count) / variance

    def evaluate(self, parameters: Parameters) -> RowEvaluation:
        """Sum of the log densities L, and its gradient through ``∂L/∂c``.

        With ``e = ‖y - m‖²``: ``∂L/∂a = -(∂e/∂a)/(2v)``, ``∂L/∂v = (e/v - D)/(2v)`` and
        ``∂L/∂c = ∂L/∂a Tᵀ - 2 ∂L/∂v cW``.
        """
        posterior, x = self.posterior, parameters.latents
        pairs = posterior.pairs(x)
        c = posterior.covariance(pairs)
        a, weights, variance = posterior.reading(c)
        misfit, by_a = self._misfit(a)
        density, by_misfit, by_variance = self._likelihood(misfit, variance)
        by_c = rows_times(by_a.mul_(by_misfit[:, None]), posterior.coefficients.mT)
        by_c -= 2.0 * by_variance[:, None] * weights
        gradient = posterior.covariance_gradient(pairs, by_c)
        if self.prior_scale is not None:
            density = density + self._log_prior(x)
            gradient = gradient - prior_slope(self.manifold, x, self.prior_scale)
        return RowEvaluation(density.sum().item(), gradient.reshape(-1), density)

    def _log_prior(self, x: Tensor) -> Tensor:
        return log_prior(self.manifold, x, float(self.prior_scale or 0.0))


class VariationalPlacement:
    """The Bayesian model's bound as a function of new rows' ``q(x)``; none is coupled.

    ``logs["std"]`` [n, Q] holds log s. Expectations are taken over unscented nodes, as in the fit.
    """

    stochastic = False

    def __init__(
        self, posterior: Posterior, rows: Tensor, observed: Tensor, *, prior_scale: float
    ) -> None:
        self.manifold, self.prior_scale = posterior.manifold, prior_scale
        self.n_entries = rows.numel()
        q = self.manifold.to_tangent(posterior.points[:1]).shape[-1]
        self._zeta, self._weights = wrapped_normal.unscented(q, like=rows)
        each = len(self._weights)
        self._nodes = PlacementObjective(
            posterior,
            rows.repeat_interleave(each, 0),
            observed.repeat_interleave(each, 0),
            bound=True,
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
        nodes = wrapped_normal.place(self.manifold, mean.unsqueeze(1), std.unsqueeze(1), zeta)
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

    They take r² numbers a row in place of rD, and coefficients are of the order of 1, so that
    little cancels.
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
    square, q = manifold.squared_radius(x), manifold.to_tangent(x).shape[-1]
    constant = 0.5 * q * math.log(2.0 * math.pi * scale**2)
    return -square / (2.0 * scale**2) - (q - 1) * manifold.log_stretch(square) - constant


def prior_slope(manifold: Manifold, x: Tensor, scale: float) -> Tensor:
    """Gradient of the *negative* log prior, in the frames at x: it points out along the ray."""
    tangent = manifold.to_tangent(x)
    slope = manifold.log_stretch_slope(manifold.squared_radius(x)).unsqueeze(-1)
    return (1.0 / scale**2 + (tangent.shape[-1] - 1) * slope) * tangent
