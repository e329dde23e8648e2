"""The Gaussian process after a fit: predictions at a point, and the density of rows there.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm._batches import BatchCovariance
from hgplvm._threads import long_operation
from hgplvm.covariance import Covariance, Pairs
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_to
from hgplvm.manifolds._tagged import Tagged
from hgplvm.objectives.bound import Statistics
from hgplvm.objectives.features import jittered_gram

__all__ = [
    "NeighborPosterior",
    "Posterior",
    "Predictor",
    "collapsed_posterior",
    "exact_posterior",
    "log_bound",
    "log_normal",
    "rows_times",
]


# neighbours that a decoded point sees, as a multiple of those of the density; the noise of the
# farther ones, as a share of the signal's variance; and the least weight, of the last
SMOOTH_TIMES, TAPER, LEAST_WEIGHT = 3, 0.05, 1e-6


class Predictor(Protocol):
    """A model after its fit."""

    @property
    def noise(self) -> float:
        """Noise variance that its predictions include."""

    @property
    def manifold(self) -> Manifold:
        """Latent space."""

    @property
    def row_entries(self) -> int:
        """Numbers that a row takes while it is placed."""

    def near(self, x: Tensor, /) -> Posterior:
        """Return the posterior that holds around each x [n, ·]."""

    def smooth(self, x: Tensor, /) -> Posterior:
        """Posterior around each x that changes smoothly with x."""

    def with_tag(self, tag: Tensor, /) -> Predictor:
        """Predict for rows of these batches."""


@dataclass(frozen=True)
class Posterior:
    """Predictions of one form for all models; see the module's table.

    Attributes
    ----------
    covariance : Covariance
        k, with the values of its parameters.
    noise : float
        β⁻¹, of a new row.
    points : Tensor [m, Q+1] or [n, m, Q+1]
        What covariances are taken with; in the second form each x has its own, and so have the
        other arrays a leading axis.
    coefficients : Tensor [m, r]
        T.
    basis : Tensor [r, D]
        R.
    inverse : Tensor [m, m]
        W.
    missing_variance : Tensor [r, D], optional
        Variances of the basis rows' entries, where some were missing from the data.
    tag : Tensor [n_tags], optional
        Of the batches that are predicted, where points carry those of theirs; without it, the
        points that are asked for carry their own.
    """

    covariance: Covariance
    noise: float
    points: Tensor
    coefficients: Tensor
    basis: Tensor
    inverse: Tensor
    missing_variance: Tensor | None = None
    tag: Tensor | None = None

    @property
    def manifold(self) -> Manifold:
        """Latent space."""
        return _space(self.covariance, self.tag)

    @property
    def diagonal(self) -> float:
        """``k(x, x)``."""
        return _diagonal(self.covariance, self.tag)

    @property
    def local(self) -> bool:
        """Whether each x has points of its own."""
        return self.points.ndim == 3

    @property
    def row_entries(self) -> int:
        """Numbers that a row takes while it is placed."""
        return 4 * self.points.shape[-2] + 2 * self.basis.shape[-1]

    def smooth(self, x: Tensor) -> Posterior:  # noqa: ARG002
        """Itself: it is smooth."""
        return self

    def near(self, x: Tensor) -> Posterior:  # noqa: ARG002
        """Return the posterior itself: it holds everywhere."""
        return self

    def pairs(self, x: Tensor) -> Pairs:
        """Evaluate the kernel between each x and the points: [n, m], or [n, 1, m] if local."""
        x = _tagged(self.covariance, x, self.tag)
        return self.covariance.pairs(x.unsqueeze(1) if self.local else x, self.points)

    def cross(self, pairs: Pairs) -> Tensor:
        """``c = k(x, points)``: [n, m]."""
        return pairs.value().squeeze(1) if self.local else pairs.value()

    def cross_gradient(self, pairs: Pairs, by_cross: Tensor) -> Tensor:
        """Gradient in the frames at x [n, Q] from ``∂F/∂c`` [n, m], which is overwritten."""
        if not self.local:
            return pairs.back(by_cross)
        return pairs.back(by_cross.unsqueeze(1)).squeeze(1)

    def reading(self, c: Tensor, more: Tensor | float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
        """Coefficients a [n, r], ``cW`` [n, m] and the variance v [n], its noise included.

        `more` is what k(x, x) has beyond that of the kernel.
        """
        weights = rows_times(c, self.inverse)
        same = self.coefficients is self.inverse
        a = weights if same else rows_times(c, self.coefficients)
        least = self.covariance.diagonal + self.noise
        total = self.diagonal + self.noise + more
        # never below the noise, whatever rounding says
        spread = (total - (c * weights).sum(1)).clamp_min(max(self.noise, 1e-12 * least))
        return a, weights, spread

    def with_tag(self, tag: Tensor) -> Posterior:
        """Predict for these batches."""
        return replace(self, tag=tag)

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [n, D] and variance [n] of a new row at each x, its noise included."""
        a, _, variance = self.reading(self.cross(self.pairs(x)))
        return rows_times(a, self.basis), variance

    def predict_entries(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each entry of a new row at each x: [n, D] both.

        What was missing from the data adds its own variance, ``Σ a² missing_variance``.
        """
        a, _, variance = self.reading(self.cross(self.pairs(x)))
        mean = rows_times(a, self.basis)
        spread = variance[:, None].expand_as(mean)
        return mean, spread if self.missing_variance is None else spread + rows_times(
            a.square(), self.missing_variance
        )

    def log_density(self, rows: Tensor, x: Tensor, observed: Tensor) -> Tensor:
        """Log density of the observed entries of each row at its own x: [n]."""
        mean, variance = self.predict(x)
        misfit = ((rows - mean) * observed).square().sum(1)
        return log_normal(observed.sum(1), misfit, variance)


def _tagged(covariance: Covariance, x: Tensor, tag: Tensor | None) -> Tensor:
    """Points with a tag, where there is one."""
    if tag is None or not isinstance(covariance.manifold, Tagged):
        return x
    return covariance.manifold.tagged(x, tag)


def _space(covariance: Covariance, tag: Tensor | None) -> Manifold:
    """Space of the points that are asked for."""
    space = covariance.manifold
    return space.base if tag is not None and isinstance(space, Tagged) else space


def _diagonal(covariance: Covariance, tag: Tensor | None) -> float:
    """``k(x, x)`` of points with a tag."""
    if tag is None or not isinstance(covariance, BatchCovariance):
        return covariance.diagonal
    return covariance.at_tags(tag)


def rows_times(c: Tensor, matrix: Tensor) -> Tensor:
    """Multiply rows [n, m] by one matrix [m, r], or each by its own [n, m, r]."""
    return c @ matrix if matrix.ndim == 2 else (c.unsqueeze(1) @ matrix).squeeze(1)


def log_normal(count: Tensor, misfit: Tensor, variance: Tensor) -> Tensor:
    """Log density of `count` entries with this sum of squared residuals and one variance."""
    return -0.5 * (count * torch.log(2.0 * math.pi * variance) + misfit / variance)


def log_bound(count: Tensor, misfit: Tensor, variance: Tensor, noise: Tensor | float) -> Tensor:
    """Share of `count` entries in a sparse model's bound.

    ``-½ D log 2πβ⁻¹ - ½β (‖y - m‖² + D (v - β⁻¹))``.
    """
    constant = torch.log(2.0 * math.pi * torch.as_tensor(noise))
    return -0.5 * (count * (constant + variance / noise - 1.0) + misfit / noise)


# --- the models -----------------------------------------------------------------------------


def exact_posterior(
    data: Tensor,
    latents: Tensor,
    covariance: Covariance,
    *,
    noise: float,
    row_noise: Tensor | None = None,
    missing_variance: Tensor | None = None,
) -> Posterior:
    """Predictions of the exact model: ``m = k C⁻¹Y``, ``v = σ + β⁻¹ - k C⁻¹kᵀ``.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data of the training rows.
    latents : Tensor [N, Q+1]
        Their latents.
    noise : float
        β⁻¹, of a new row.
    row_noise : Tensor [N], optional
        Noise variances of the training rows, where they differ.
    missing_variance : Tensor [N, D], optional
        Variances of entries that were imputed, 0 for the others.
    """
    shift = noise if row_noise is None else row_noise
    gram = covariance.gram(latents, latents)
    with long_operation(len(latents)):
        factor = linalg.cholesky(gram, shift=shift)
        inverse = linalg.inverse_from_cholesky(factor)  # C⁻¹
    return Posterior(covariance, noise, latents, inverse, data, inverse, missing_variance)


def collapsed_posterior(
    inducing: Tensor,
    statistics: Statistics,
    covariance: Covariance,
    *,
    noise: float,
    gram: Tensor | None = None,
) -> Posterior:
    """Predictions of the sparse and the Bayesian model: ``m = k E``, ``v = σ + β⁻¹ - k W kᵀ``.

    `gram` is K_mm where the statistics are of more features than those of the inducing points.
    With ``K_mm = LLᵀ`` and ``S = (I + L⁻¹Ψ₂L⁻ᵀ)⁻¹``: ``LᵀE = S L⁻¹P`` and
    ``W = K_mm⁻¹ - A⁻¹ = L⁻ᵀ(I - S)L⁻¹``.
    """
    gram = jittered_gram(covariance, inducing) if gram is None else gram
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    whitener = torch.linalg.solve_triangular(linalg.cholesky(gram), eye, upper=False)  # L⁻¹
    white = whitener @ statistics.psi2 @ whitener.mT
    inner = linalg.inverse_from_cholesky(linalg.cholesky_shifted(white))  # S
    return Posterior(
        covariance,
        noise,
        points=inducing,
        coefficients=whitener.mT.contiguous(),
        basis=inner @ (whitener @ statistics.projection),
        inverse=whitener.mT @ (eye - inner) @ whitener,
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
    row_noise : Tensor [N], optional
        Noise variances of the training rows, where they differ from that of a new row.
    missing_variance : Tensor [N, D], optional
        Variances of entries that were imputed, 0 for the others.
    tag : Tensor [n_tags], optional
        As of :class:`Posterior`.
    """

    covariance: Covariance
    noise: float
    n_neighbors: int
    data: Tensor
    latents: Tensor
    inducing: Tensor
    smooth_mean: Tensor
    smooth_covariance: Tensor
    row_noise: Tensor | None = None
    missing_variance: Tensor | None = None
    tag: Tensor | None = None

    @property
    def manifold(self) -> Manifold:
        """Latent space."""
        return _space(self.covariance, self.tag)

    def with_tag(self, tag: Tensor) -> NeighborPosterior:
        """Predict for these batches."""
        return replace(self, tag=tag)

    @property
    def row_entries(self) -> int:
        """Numbers that a row takes while it is placed."""
        width = self.n_neighbors + len(self.inducing)
        return width * (4 * width + 2 * self.data.shape[1])

    def near(self, x: Tensor) -> Posterior:
        """Posterior around each x, from its nearest training rows."""
        x = _tagged(self.covariance, x, self.tag)
        return self.of(nearest_to(self.covariance.manifold, x, self.latents, self.n_neighbors))

    def smooth(self, x: Tensor) -> Posterior:
        """Posterior around each x that changes smoothly with x, to decode.

        More neighbours than for the density, of which the farther ones get noise of their own, the
        last of them endless noise, so that nothing jumps where one takes the place of another::

            u_j = τσ (1/w_j - 1),    w_j = 1 - t_j⁴,    t_j = (d_j - d_1)/(d_k - d_1)
        """
        x = _tagged(self.covariance, x, self.tag)
        k = min(SMOOTH_TIMES * self.n_neighbors, len(self.latents))
        near = nearest_to(self.covariance.manifold, x, self.latents, k)
        if k <= self.n_neighbors:
            return self.of(near)
        gaps = self.covariance.manifold.distance(x.unsqueeze(1), self.latents[near])
        span = (gaps[:, -1:] - gaps[:, :1]).clamp_min(1e-12)
        weight = (1.0 - ((gaps - gaps[:, :1]) / span).pow(4)).clamp_min(LEAST_WEIGHT)
        return self.of(near, TAPER * self.covariance.diagonal * (1.0 / weight - 1.0))

    def of(self, neighbors: Tensor, more: Tensor | None = None) -> Posterior:
        """Posterior from given training rows [n, k], perhaps with more noise than their own."""
        n, k = neighbors.shape
        m, d = len(self.inducing), self.data.shape[1]
        near = self.latents[neighbors]  # [n, k, Q+1]
        matrix = self.covariance.gram(near, near)
        eye = torch.eye(k + m, dtype=near.dtype, device=near.device)
        white, features = eye[k:, k:], near.new_zeros(n, k, m)
        if m:
            inner = jittered_gram(self.covariance, self.inducing)
            white = torch.linalg.solve_triangular(linalg.cholesky(inner), white, upper=False)
            features = self.covariance.gram(near, self.inducing) @ white.mT  # Φ_n
            matrix = matrix - features @ features.mT
        noise: Tensor | float = self.noise
        if self.row_noise is not None:
            noise = self.row_noise[neighbors]
        if more is not None:
            noise = noise + more
        factor = linalg.cholesky(matrix, shift=noise)
        # k_n - φΦ_nᵀ = c Z, with Z = (I; -L⁻ᵀΦ_nᵀ)
        left = torch.cat([eye[:k, :k].expand(n, k, k), -white.mT @ features.mT], dim=1)
        to_b = torch.cholesky_solve(left.mT, factor).mT  # b = cB
        whole = torch.cat([near.new_zeros(k, m), white.mT])  # φ = c (0; L⁻ᵀ)
        to_t = whole - to_b @ features
        inverse = left @ to_b.mT + whole @ whole.mT - to_t @ self.smooth_covariance @ to_t.mT
        missing_variance: Tensor | None = None
        if self.missing_variance is not None:
            missing_variance = torch.cat(
                [self.missing_variance[neighbors], near.new_zeros(n, m, d)], dim=1
            )
        return Posterior(
            self.covariance,
            self.noise,
            points=torch.cat([near, self.inducing.expand(n, m, near.shape[2])], dim=1),
            coefficients=torch.cat([to_b, to_t], dim=2),
            basis=torch.cat([self.data[neighbors], self.smooth_mean.expand(n, m, d)], dim=1),
            inverse=inverse,
            missing_variance=missing_variance,
            tag=self.tag,
        )
