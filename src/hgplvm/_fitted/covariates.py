"""Covariates after a fit: how rows are coded, and what is known of the effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hgplvm._batches import BatchCovariance
from hgplvm._covariates import Covariates
from hgplvm.covariance import Covariance
from hgplvm.manifolds._tagged import Tagged

__all__ = ["FittedCovariates"]


@dataclass(frozen=True)
class FittedCovariates:
    """Covariates of a fitted model.

    Attributes
    ----------
    coding : Covariates
        How they become numbers.
    tags : Tensor [N, T]
        Tags of the training rows.
    design_covariance : Tensor [q, q]
        ``WᵀW/N`` of the training rows.
    shares : tuple of float
        Share of the decoded functions' variance that the levels of each categorical covariate have
        to themselves.
    mean, covariance : Tensor [q, r], [q, q]
        Posterior mean and covariance of the effects β, in the model's units.
    """

    coding: Covariates
    tags: Tensor
    design_covariance: Tensor
    shares: tuple[float, ...]
    mean: Tensor
    covariance: Tensor

    def mapped(self, function: Any) -> FittedCovariates:
        """Apply a function to all tensors."""
        names = ("tags", "design_covariance", "mean", "covariance")
        return replace(self, **{name: function(getattr(self, name)) for name in names})

    def covariance_of(self, base: Covariance) -> Covariance:
        """Covariance of rows with tags, from that of the space alone."""
        if not self.shares:
            return base
        space = Tagged(base.manifold, self.tags.shape[1])
        parts = (base.kernel, base.variance, base.theta)
        return BatchCovariance(space, *parts, self.coding.levels, self.shares)

    def tagged(self, latents: Tensor) -> Tensor:
        """Latents of the training rows with their tags."""
        return torch.cat([latents, self.tags.to(latents)], dim=1)

    def shift(self, design: Tensor) -> Tensor:
        """``Wβ`` [n, r]."""
        return design @ self.mean

    def spread(self, design: Tensor) -> Tensor:
        """Variance of ``Wβ`` [n], of each column."""
        return ((design @ self.covariance) * design).sum(1).clamp_min(0.0)
