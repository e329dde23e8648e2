"""The collapsed bound for given Ψ statistics: value and closed-form derivatives.

With ``P = Ψ₁Y`` and ``A = K_mm + βΨ₂`` (paper, Eqs. for the sparse and the Bayesian bound)::

    F = ND/2 (log β - log 2π) - D/2 (log|A| - log|K_mm|) - β/2 tr YYᵀ
        + β²/2 tr(PᵀA⁻¹P) - βD/2 (ψ₀ - tr(K_mm⁻¹Ψ₂))

in the whitened form: ``K_mm = LLᵀ``, ``B = L⁻¹Ψ₂L⁻ᵀ``, ``I + βB = L_B L_Bᵀ``. The sparse model, the
Bayesian model and both manifolds share it: everything that grows with N has been summed before.
Where entries are missing, YYᵀ gains diag(u) (:mod:`hgplvm.objectives.responses`), and so PPᵀ gains
``U = Σ_i u_i ψ₁ᵢψ₁ᵢᵀ``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm import linalg

__all__ = ["Bound", "Statistics", "collapsed_bound"]


@dataclass(frozen=True)
class Statistics:
    """What the rows contribute: sums over them, so that chunks and machines can share the work.

    Attributes
    ----------
    n_rows, n_columns : int
        N and D.
    psi0 : float
        ``ψ₀ = Σ_i E[k(x_i, x_i)] = Nσ``.
    psi2 : Tensor [M, M]
        ``Ψ₂ = Σ_i E[k_mi k_im]``.
    projection : Tensor [M, D]
        ``P = Ψ₁Y``.
    squares : float
        ``tr YYᵀ``.
    unseen : Tensor [M, M], optional
        U, where entries are missing.
    """

    n_rows: int
    n_columns: int
    psi0: float
    psi2: Tensor
    projection: Tensor
    squares: float
    unseen: Tensor | None = None


@dataclass(frozen=True)
class Bound:
    """Value of the bound and its derivatives.

    ``∂F/∂Ψ₁ = βEYᵀ`` is given by ``weights = βE`` [M, D], since Ψ₁ itself is never held whole.
    """

    value: float
    weights: Tensor  # βE, with E = βA⁻¹P: the posterior mean of the inducing variables is K_mm E
    psi2: Tensor  # ∂F/∂Ψ₂ [M, M]
    gram: Tensor  # ∂F/∂K_mm [M, M]
    psi0: float  # ∂F/∂ψ₀
    beta: float  # ∂F/∂β
    unseen: Tensor | None  # β²A⁻¹: times u_iψ₁ᵢ, what missing entries add to ∂F/∂Ψ₁


def collapsed_bound(gram: Tensor, statistics: Statistics, beta: float) -> Bound:
    """Evaluate the bound.

    Parameters
    ----------
    gram : Tensor [M, M]
        K_mm, jitter included.
    statistics : Statistics
        Sums over the rows.
    beta : float
        Noise precision β.
    """
    n, d, psi2 = statistics.n_rows, statistics.n_columns, statistics.psi2
    eye = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    whitener = _inverse_lower(linalg.cholesky(gram), eye)  # L⁻¹
    white = whitener @ psi2 @ whitener.mT  # B
    factor = linalg.cholesky_shifted(beta * white)  # L_B
    inner = _inverse_lower(factor, eye)  # L_B⁻¹
    half = inner @ (whitener @ statistics.projection)  # L_B⁻¹L⁻¹P

    log_det = linalg.log_det_from_cholesky(factor).item()  # log|A| - log|K_mm|
    captured = white.diagonal().sum().item()  # tr K_mm⁻¹Ψ₂
    quadratic = half.square().sum().item()  # tr PᵀA⁻¹P
    e = beta * (whitener.mT @ (inner.mT @ half))  # E = βA⁻¹P
    outer = e @ e.mT
    solved: Tensor | None = None
    if statistics.unseen is not None:
        solve = inner @ whitener
        solve = solve.mT @ solve  # A⁻¹
        quadratic += (solve * statistics.unseen).sum().item()
        outer = outer + beta**2 * solve @ statistics.unseen @ solve
        solved = beta**2 * solve
    missed = statistics.psi0 - captured
    value = 0.5 * (
        n * d * (math.log(beta) - math.log(2.0 * math.pi))
        - d * log_det
        - beta * statistics.squares
        + beta**2 * quadratic
        - beta * d * missed
    )

    posterior = inner.mT @ inner  # (I + βB)⁻¹
    difference = whitener.mT @ (eye - posterior) @ whitener  # K_mm⁻¹ - A⁻¹
    spread = whitener.mT @ white @ whitener  # K_mm⁻¹Ψ₂K_mm⁻¹
    through_a = (posterior * white).sum().item()  # tr A⁻¹Ψ₂
    through_e = (outer * psi2).sum().item()  # tr EᵀΨ₂E
    return Bound(
        value=value,
        weights=beta * e,
        psi2=0.5 * beta * (d * difference - outer),
        gram=0.5 * (d * difference - outer - beta * d * spread),
        psi0=-0.5 * beta * d,
        beta=0.5 * (n * d / beta - d * through_a - statistics.squares - through_e - d * missed)
        + quadratic * beta,  # tr EᵀP = β tr PᵀA⁻¹P
        unseen=solved,
    )


def _inverse_lower(factor: Tensor, eye: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor, eye, upper=False)
