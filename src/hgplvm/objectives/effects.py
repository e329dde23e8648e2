"""Effects of covariates that are the same everywhere in latent space, and linear in them.

Each column is shifted by ``W β`` with the covariates W [N, q] of the rows: indicators of batches,
less their means, or standardised numbers. With ``β ~ N(0, γ_c)`` for those that belong to covariate
c, this adds ``U Uᵀ`` with ``U = W √Γ`` to the covariance: kernels ``γ_c 1[b_i = b_j]`` and
``γ_c z_i z_j``. It has rank q, so every objective keeps it whole: the exact model adds it, and for
the others U are further features of a row, as those of inducing points are.

F depends on U alone, so with ``∂F/∂U``::

    ∂F/∂log γ_c = ½ Σ_{n, j of c} U_nj (∂F/∂U)_nj
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm.objectives.parameters import Parameters

__all__ = ["EffectsPosterior", "LinearEffects", "effect_name"]


def effect_name(place: int) -> str:
    """Name, in a fit, of the variance γ of a covariate."""
    return f"effect.{place}"


@dataclass(frozen=True)
class LinearEffects:
    """Covariates of the rows.

    Attributes
    ----------
    design : Tensor [N, q]
        W.
    widths : tuple of int
        How many columns of W belong to each covariate.
    """

    design: Tensor
    widths: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variances in a fit."""
        return tuple(effect_name(c) for c in range(len(self.widths)))

    def scales(self, parameters: Parameters) -> Tensor:
        """``√Γ`` [q]."""
        parts = [
            torch.exp(0.5 * parameters.logs[name]).expand(width)
            for name, width in zip(self.names, self.widths, strict=True)
        ]
        return torch.cat(parts).to(self.design)

    def features(self, parameters: Parameters) -> Tensor:
        """``U = W √Γ`` [N, q]."""
        return self.design * self.scales(parameters)

    def gradients(self, features: Tensor, by_features: Tensor) -> dict[str, Tensor]:
        """Gradients by the logarithms of the variances from ``∂F/∂U``."""
        each = 0.5 * (features * by_features).sum(0)
        parts = torch.split(each, list(self.widths))
        return {name: part.sum() for name, part in zip(self.names, parts, strict=True)}

    def of_rows(self, rows: Tensor) -> LinearEffects:
        """Covariates of some of the rows."""
        return LinearEffects(self.design[rows], self.widths)


@dataclass(frozen=True)
class EffectsPosterior:
    """What a fit knows of β.

    Attributes
    ----------
    mean : Tensor [q, D]
        Posterior mean.
    covariance : Tensor [q, q]
        Posterior covariance, the same for each column.
    """

    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, scales: Tensor, mean: Tensor, explained: Tensor) -> EffectsPosterior:
        """From the posterior mean of ``β/√Γ`` and what the data take off its covariance, I."""
        eye = torch.eye(len(scales), dtype=scales.dtype, device=scales.device)
        left = scales[:, None] * (eye - explained) * scales
        return cls(scales[:, None] * mean, 0.5 * (left + left.mT))
