"""The collapsed bound for given Ψ statistics: value and closed-form derivatives.

With noise precisions ``w_n`` of the rows (all β in the paper) inside the statistics,
``Ψ₂ = Σ w_n E[kkᵀ]``, ``P = Σ w_n ψ₁ₙ y_nᵀ``, ``ψ₀ = Σ w_n σ`` and ``A = K_mm + Ψ₂`` (paper, Eqs.
for the sparse and the Bayesian bound)::

    F = D/2 Σ log w_n - ND/2 log 2π - D/2 (log|A| - log|K_mm|) - ½ Σ w_n ‖y_n‖²
        + ½ tr(PᵀA⁻¹P) - D/2 (ψ₀ - tr(K_mm⁻¹Ψ₂))

in the whitened form: ``K_mm = LLᵀ``, ``B = L⁻¹Ψ₂L⁻ᵀ``, ``I + B = L_B L_Bᵀ``. The sparse model, the
Bayesian model and all manifolds share it: everything that grows with N has been summed before.
Where entries are missing, YYᵀ gains diag(u) (:mod:`hgplvm.objectives.responses`), and so PPᵀ gains
``U = Σ_n u_n w_n² ψ₁ₙψ₁ₙᵀ``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm import _linalg as linalg

__all__ = ["Bound", "Statistics", "collapsed_bound"]


@dataclass(frozen=True)
class Statistics:
    """What the rows contribute: sums over them, so that chunks and machines can share the work.

    Attributes
    ----------
    n_rows, n_columns : int
        N and D.
    log_precision : float
        ``Σ_n log w_n``.
    psi0 : float
        ``ψ₀ = Σ_n w_n E[k(x_n, x_n)]``.
    psi2 : Tensor [M, M]
        ``Ψ₂ = Σ_n w_n E[k_mn k_nm]``.
    projection : Tensor [M, D]
        ``P = Σ_n w_n ψ₁ₙ y_nᵀ``.
    squares : float
        ``Σ_n w_n E‖y_n‖²``.
    unseen : Tensor [M, M], optional
        U, where entries are missing.
    """

    n_rows: int
    n_columns: int
    log_precision: float
    psi0: float
    psi2: Tensor
    projection: Tensor
    squares: float
    unseen: Tensor | None = None


@dataclass(frozen=True)
class Bound:
    """Value of the bound and its derivatives.

    ``∂F/∂Ψ₁ = w E Yᵀ`` is given by E, since Ψ₁ itself is never held whole.
    """

    value: float
    weights: Tensor  # E = A⁻¹P [M, D]: the posterior mean of the inducing variables is K_mm E
    psi2: Tensor  # ∂F/∂Ψ₂ [M, M]
    gram: Tensor  # ∂F/∂K_mm [M, M]
    psi0: float  # ∂F/∂ψ₀
    log_precision: float  # ∂F/∂log w, where all rows have the same
    inverse: Tensor | None  # A⁻¹, where entries are missing


def collapsed_bound(gram: Tensor, statistics: Statistics) -> Bound:
    """Evaluate the bound.

    Parameters
    ----------
    gram : Tensor [M, M]
        K_mm, jitter included.
    statistics : Statistics
        Sums over the rows.
    """
    n, d, dtype = statistics.n_rows, statistics.n_columns, gram.dtype
    # small matrices, but badly conditioned: always in double precision
    gram, psi2, projection = (a.double() for a in (gram, statistics.psi2, statistics.projection))
    unseen = None if statistics.unseen is None else statistics.unseen.double()
    eye = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    whitener = _inverse_lower(linalg.cholesky(gram), eye)  # L⁻¹
    white = whitener @ psi2 @ whitener.mT  # B
    factor = linalg.cholesky_shifted(white)  # L_B
    inner = _inverse_lower(factor, eye)  # L_B⁻¹
    half = inner @ (whitener @ projection)  # L_B⁻¹L⁻¹P

    log_det = linalg.log_det_from_cholesky(factor).item()  # log|A| - log|K_mm|
    captured = white.diagonal().sum().item()  # tr K_mm⁻¹Ψ₂
    quadratic = half.square().sum().item()  # tr PᵀA⁻¹P
    e = whitener.mT @ (inner.mT @ half)  # E = A⁻¹P
    outer = e @ e.mT
    inverse: Tensor | None = None
    if unseen is not None:
        inverse = inner @ whitener
        inverse = inverse.mT @ inverse  # A⁻¹
        quadratic += (inverse * unseen).sum().item()
        outer = outer + inverse @ unseen @ inverse
    missed = statistics.psi0 - captured
    value = 0.5 * (
        d * statistics.log_precision
        - n * d * math.log(2.0 * math.pi)
        - d * log_det
        - statistics.squares
        + quadratic
        - d * missed
    )

    posterior = inner.mT @ inner  # (I + B)⁻¹
    difference = whitener.mT @ (eye - posterior) @ whitener  # K_mm⁻¹ - A⁻¹
    spread = whitener.mT @ white @ whitener  # K_mm⁻¹Ψ₂K_mm⁻¹
    by_psi2 = 0.5 * (d * difference - outer)
    # every statistic is proportional to w, and U to its square
    by_log_precision = (
        0.5 * (n * d - statistics.squares - d * statistics.psi0)
        + (by_psi2 * psi2).sum().item()
        + quadratic
    )
    return Bound(
        value=value,
        weights=e.to(dtype),
        psi2=by_psi2.to(dtype),
        gram=(0.5 * (d * difference - outer - d * spread)).to(dtype),
        psi0=-0.5 * d,
        log_precision=by_log_precision,
        inverse=None if inverse is None else inverse.to(dtype),
    )


def _inverse_lower(factor: Tensor, eye: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor, eye, upper=False)
