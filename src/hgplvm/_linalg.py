"""The one jittered Cholesky, and what follows from it.

The matrix to factorise is read in its lower triangle alone, so that callers need to fill no more
than that: it halves the elementwise work around the factorisation.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from hgplvm.errors import JitterWarning, NotPositiveDefiniteError

__all__ = [
    "cholesky",
    "cholesky_shifted",
    "inverse_from_cholesky",
    "log_det_from_cholesky",
    "solve_cholesky",
]


def cholesky(a: Tensor, *, shift: float | Tensor = 0.0) -> Tensor:
    """Lower factor L of ``A + diag(shift) = LLᵀ``, with jitter on the diagonal where needed.

    Parameters
    ----------
    a : Tensor [..., n, n]
        Symmetric, one matrix or a batch; only lower triangles are read. It comes back as it was.
    shift : float or Tensor [..., n]
        Added to the diagonal (the noise variances of the models).

    Returns
    -------
    Tensor [..., n, n]
        L, lower triangular.

    Raises
    ------
    NotPositiveDefiniteError
        If jitter of 1e-2 of the mean diagonal does not suffice, or an entry is not finite.
    """
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    original = diagonal.clone()
    noise = float(shift.mean() if isinstance(shift, Tensor) else shift)
    mean = original.mean().item() + noise
    step = mean * 10.0 * a.shape[-1] * torch.finfo(a.dtype).eps
    jitter = 0.0
    try:
        while 0 < mean < math.inf and jitter <= 1e-2 * mean:  # NaN compares false
            torch.add(original, shift + jitter, out=diagonal)  # no copy of a: it may be large
            factor, info = torch.linalg.cholesky_ex(a)
            if not info.any() and bool(factor.diagonal(dim1=-2, dim2=-1).isfinite().all()):
                if jitter:
                    warnings.warn(
                        f"Added jitter {jitter:.3g} to the diagonal (mean {mean:.3g}) of a "
                        f"covariance matrix of size {a.shape[-1]} that was not positive definite.",
                        JitterWarning,
                        stacklevel=2,
                    )
                return factor
            jitter = step if jitter == 0.0 else 10.0 * jitter
    finally:
        diagonal.copy_(original)
    raise NotPositiveDefiniteError(
        f"A covariance matrix of size {a.shape[-1]} with mean diagonal {mean:.3g} (of which "
        f"{noise:.3g} is noise) is not positive definite, even with jitter of {0.1 * jitter:.3g}. "
        "Check the data for extreme values, or use dtype='float64'."
    )


def cholesky_shifted(a: Tensor) -> Tensor:
    """Lower factor of ``I + A`` for A [n, n] that is positive semidefinite but for rounding.

    Where A was whitened by a nearly singular matrix, rounding can make eigenvalues negative that
    are next to nothing, by much more than 1: these are set to 0, where jitter would bend the others
    as well.
    """
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    factor, info = torch.linalg.cholesky_ex(a + eye)
    if not info.any() and bool(factor.diagonal().isfinite().all()):
        return factor
    if not bool(a.isfinite().all()):
        return cholesky(a, shift=1.0)  # which says so
    values, vectors = torch.linalg.eigh(0.5 * (a + a.mT))
    return cholesky((vectors * values.clamp_min(0.0)) @ vectors.mT, shift=1.0)


def inverse_from_cholesky(factor: Tensor) -> Tensor:
    """``(LLᵀ)⁻¹`` from L (LAPACK's potri)."""
    return torch.cholesky_inverse(factor)


def solve_cholesky(factor: Tensor, b: Tensor) -> Tensor:
    """``(LLᵀ)⁻¹ B`` for B [n, k]."""
    return torch.cholesky_solve(b, factor)


def log_det_from_cholesky(factor: Tensor) -> Tensor:
    """``log|LLᵀ| = 2 Σ log L_ii``."""
    return 2.0 * factor.diagonal().log().sum()
