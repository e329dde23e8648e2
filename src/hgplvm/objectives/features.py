"""The smooth part of a Gaussian process: what M inducing points explain, as features of a row.

With ``K_mm = LLᵀ`` the features of a point x are ``φ(x) = L⁻¹ k_m(x)``, so that ``φ(x)·φ(z)`` is
the part of k(x, z) that is seen through the inducing points, and ``k(x, z) - φ(x)·φ(z)`` is what
they leave.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hgplvm import linalg
from hgplvm.geometry import Manifold
from hgplvm.kernels import Kernel, gram, gram_gradient
from hgplvm.objectives.parameters import Parameters

__all__ = ["InducingFeatures", "jittered", "jittered_gram"]

# on the diagonal of K_mm, as a share of σ: coincident inducing points must not break it
JITTER = {torch.float64: 1e-10, torch.float32: 1e-5}


def jittered(gram: Tensor, variance: float) -> Tensor:
    """Return K_mm with its jitter: a copy."""
    result = gram.clone()
    result.diagonal().add_(JITTER[gram.dtype] * variance)
    return result


def jittered_gram(
    kernel: Kernel, manifold: Manifold, inducing: Tensor, *, variance: float, length_scale: float
) -> Tensor:
    """Evaluate ``K_mm``, jitter included."""
    scales = {"variance": variance, "length_scale": length_scale}
    return jittered(gram(kernel, manifold, inducing, inducing, **scales), variance)


class InducingFeatures:
    """Features of all rows, and the way back from their gradient.

    Parameters
    ----------
    parameters : Parameters
        Latents of the rows, σ and κ.
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
        self,
        parameters: Parameters,
        inducing: Tensor,
        manifold: Manifold,
        kernel: Kernel,
        *,
        chunk_size: int,
    ) -> None:
        self._latents, self._inducing = parameters.latents, inducing
        self._manifold, self._kernel = manifold, kernel
        self._chunk_size = chunk_size
        self._scales = {k: parameters.positive(k) for k in ("variance", "length_scale")}
        self.values = self._latents.new_zeros(self._latents.shape[0], inducing.shape[0])
        if inducing.shape[0]:
            eye = torch.eye(inducing.shape[0], dtype=inducing.dtype, device=inducing.device)
            factor = linalg.cholesky(jittered_gram(kernel, manifold, inducing, **self._scales))
            self._whitener = torch.linalg.solve_triangular(factor, eye, upper=False)  # L⁻¹
            for rows in self._chunks():
                self.values[rows] = self._covariance(self._latents[rows]) @ self._whitener.mT

    def _covariance(self, x: Tensor) -> Tensor:
        return gram(self._kernel, self._manifold, x, self._inducing, **self._scales)

    def _chunks(self) -> Iterator[slice]:
        n = self._latents.shape[0]
        for start in range(0, n, self._chunk_size):
            yield slice(start, min(start + self._chunk_size, n))

    def gradient(self, by_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Turn ``Γ = ∂F/∂Φ`` into gradients of the latents (in their frames), log σ and log κ.

        ``∂F/∂K_nm = ΓL⁻¹`` and ``∂F/∂K_mm = -½ L⁻ᵀ(ΓᵀΦ)L⁻¹``: F does not change when all features
        are turned together, so ΓᵀΦ is symmetric and the derivative of the Cholesky factor is not
        needed.
        """
        rows = []
        through = by_values.mT @ self.values
        *_, by_variance, by_length_scale = self._back(
            self._inducing, -0.5 * self._whitener.mT @ through @ self._whitener
        )
        for chunk in self._chunks():
            frame, _, more_variance, more_length_scale = self._back(
                self._latents[chunk], by_values[chunk] @ self._whitener
            )
            rows.append(frame)
            by_variance = by_variance + more_variance
            by_length_scale = by_length_scale + more_length_scale
        return torch.cat(rows), by_variance, by_length_scale

    def _back(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return gram_gradient(
            self._kernel, self._manifold, x, self._inducing, weights, **self._scales
        )
