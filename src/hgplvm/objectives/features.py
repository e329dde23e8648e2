"""The smooth part of a Gaussian process: what M inducing points explain, as features of a row.

With ``K_mm = LLᵀ`` the features of a point x are ``φ(x) = L⁻¹ k_m(x)``, so that ``φ(x)·φ(z)`` is
the part of k(x, z) that is seen through the inducing points, and ``k(x, z) - φ(x)·φ(z)`` is what
they leave.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm.covariance import Covariance, CovarianceGradient

__all__ = ["InducingFeatures", "add_inducing_gradient", "jittered", "jittered_gram"]

# on the diagonal of K_mm, as a share of σ: coincident inducing points must not break it
JITTER = {torch.float64: 1e-10, torch.float32: 1e-5}


def jittered(gram: Tensor, variance: float) -> Tensor:
    """Return K_mm with its jitter: a copy."""
    result = gram.clone()
    result.diagonal().add_(JITTER[gram.dtype] * variance)
    return result


def jittered_gram(covariance: Covariance, inducing: Tensor) -> Tensor:
    """Evaluate ``K_mm``, jitter included."""
    return jittered(covariance.gram(inducing, inducing), covariance.diagonal)


def add_inducing_gradient(
    covariance: Covariance, inducing: Tensor, by_gram: Tensor, total: CovarianceGradient
) -> None:
    """Pass ``∂F/∂K_mm``, jitter included, on to the parameters; the points are held fixed."""
    total.add_diagonal(covariance, JITTER[by_gram.dtype] * by_gram.diagonal().sum())
    covariance.pairs(inducing, inducing).back(by_gram.clone(), total)


class InducingFeatures:
    """Features of all rows, and the way back from their gradient.

    Parameters
    ----------
    covariance : Covariance
        Kernel and manifold.
    latents : Tensor [N, Q+1]
        Latents of the rows.
    inducing : Tensor [M, Q+1]
        Inducing points, held fixed in the gradient; there may be none.
    chunk_size : int
        Rows whose [rows, M] arrays are worked on at a time.

    Attributes
    ----------
    values : Tensor [N, M]
        ``Φ``, row by row.
    """

    def __init__(
        self, covariance: Covariance, latents: Tensor, inducing: Tensor, *, chunk_size: int
    ) -> None:
        self._covariance, self._latents, self._inducing = covariance, latents, inducing
        self._chunk_size = chunk_size
        self.values = latents.new_zeros(latents.shape[0], inducing.shape[0])
        if inducing.shape[0]:
            eye = torch.eye(inducing.shape[0], dtype=inducing.dtype, device=inducing.device)
            factor = linalg.cholesky(jittered_gram(covariance, inducing))
            self._whitener = torch.linalg.solve_triangular(factor, eye, upper=False)  # L⁻¹
            for rows in self._chunks():
                cross = covariance.gram(latents[rows], inducing)
                self.values[rows] = cross @ self._whitener.mT

    def _chunks(self) -> Iterator[slice]:
        n = self._latents.shape[0]
        for start in range(0, n, self._chunk_size):
            yield slice(start, min(start + self._chunk_size, n))

    def back(self, by_values: Tensor, total: CovarianceGradient) -> Tensor:
        """Turn ``Γ = ∂F/∂Φ`` into the gradient of the latents, in their frames, and of parameters.

        ``∂F/∂K_nm = ΓL⁻¹`` and ``∂F/∂K_mm = -½ L⁻ᵀ(ΓᵀΦ)L⁻¹``: F does not change when all features
        are turned together, so ΓᵀΦ is symmetric and the derivative of the Cholesky factor is not
        needed.
        """
        through = by_values.mT @ self.values
        by_gram = -0.5 * self._whitener.mT @ through @ self._whitener
        add_inducing_gradient(self._covariance, self._inducing, by_gram, total)
        frames = []
        for rows in self._chunks():
            pairs = self._covariance.pairs(self._latents[rows], self._inducing)
            frames.append(pairs.back(by_values[rows] @ self._whitener, total))
        return torch.cat(frames)
