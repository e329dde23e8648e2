"""What a fitted model keeps to predict from: one class for each kind of model.

Each holds plain tensors in the frame of the fit, makes the :class:`~hgplvm.objectives.predictive`
posterior from them, and knows the residuals of the training rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from hgplvm.covariance import Covariance
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_to
from hgplvm.objectives.bound import Statistics
from hgplvm.objectives.predictive import (
    NeighborPosterior,
    Posterior,
    Predictor,
    collapsed_posterior,
    exact_posterior,
)

__all__ = ["KINDS", "InducingPredictions", "NeighborPredictions", "Predictions", "RowPredictions"]

# nearest rows by which new rows choose between starts
SCOUT_NEIGHBORS = 30
# numbers that are worked on at a time for the residuals
RESIDUAL_ENTRIES = 2**22


@dataclass(frozen=True)
class Predictions(ABC):
    """What is kept for predicting; all tensors in double precision."""

    kind: ClassVar[str]

    @abstractmethod
    def predictor(self, covariance: Covariance, noise: float, latents: Tensor, /) -> Predictor:
        """Return the posterior, for training latents and parts in one frame."""

    def scout(self, covariance: Covariance, noise: float, latents: Tensor, /) -> Predictor | None:  # noqa: ARG002
        """Return a cheaper posterior to try the starts of new rows with; None if there is none."""
        return None

    @abstractmethod
    def residuals(
        self, predictor: Any, latents: Tensor, rows: Tensor, data: Tensor, /
    ) -> tuple[Tensor, Tensor]:
        """Residuals [n, D] of some training rows, each predicted without itself if it can be.

        And the variance [n] of what predicts them: of the decoded function, without noise.
        """

    def mapped(self, function: Any) -> Self:
        """Apply a function to all tensors."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: function(v) for k, v in found.items() if isinstance(v, Tensor)})

    def recentred(self, manifold: Manifold, root: Tensor, /) -> Self:
        """Move points to the frame in which root is the origin."""
        inducing = getattr(self, "inducing", None)
        if inducing is None or not len(inducing):
            return self
        return replace(self, inducing=manifold.recenter(inducing, root))  # type: ignore[call-arg]


@dataclass(frozen=True)
class RowPredictions(Predictions):
    """The exact model predicts from all training rows."""

    kind = "rows"
    data: Tensor  # [N, D]
    missing_variance: Tensor | None = None  # [N, D], of imputed entries
    row_noise: Tensor | None = None  # [N], where rows differ

    def predictor(self, covariance: Covariance, noise: float, latents: Tensor) -> Posterior:
        """``m = k C⁻¹Y``."""
        return exact_posterior(
            self.data,
            latents,
            covariance,
            noise=noise,
            row_noise=self.row_noise,
            missing_variance=self.missing_variance,
        )

    def scout(self, covariance: Covariance, noise: float, latents: Tensor) -> NeighborPosterior:
        """Predict from the nearest rows."""
        return NeighborPosterior(
            covariance,
            noise,
            min(SCOUT_NEIGHBORS, len(self.data)),
            self.data,
            latents,
            inducing=latents[:0],
            smooth_mean=self.data[:0],
            smooth_covariance=self.data.new_zeros(0, 0),
            row_noise=self.row_noise,
            missing_variance=self.missing_variance,
        )

    def residuals(
        self,
        predictor: Posterior,
        latents: Tensor,  # noqa: ARG002
        rows: Tensor,
        data: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Leave one out: C⁻¹Y/diag C⁻¹, of variance 1/diag C⁻¹ with the row's own noise."""
        precision = predictor.inverse.diagonal()[rows]
        own = predictor.noise if self.row_noise is None else self.row_noise[rows]
        variance = (1.0 / precision - own).clamp_min(0.0)
        return (predictor.inverse[rows] @ data) / precision[:, None], variance


@dataclass(frozen=True)
class InducingPredictions(Predictions):
    """The sparse and the Bayesian model predict from inducing points."""

    kind = "inducing"
    inducing: Tensor  # [M, Q+1]
    coefficients: Tensor  # [M, M]
    basis: Tensor  # [M, D]
    inverse: Tensor  # [M, M]

    @classmethod
    def of(
        cls, inducing: Tensor, statistics: Statistics, covariance: Covariance, *, noise: float
    ) -> InducingPredictions:
        """From the sums over the training rows."""
        posterior = collapsed_posterior(inducing, statistics, covariance, noise=noise)
        points = covariance.manifold.project(inducing.double())
        parts = (posterior.coefficients, posterior.basis, posterior.inverse)
        return cls(points, *(part.double() for part in parts))

    def predictor(self, covariance: Covariance, noise: float, latents: Tensor) -> Posterior:  # noqa: ARG002
        """``m = k E``."""
        return Posterior(
            covariance, noise, self.inducing, self.coefficients, self.basis, self.inverse
        )

    def residuals(
        self, predictor: Posterior, latents: Tensor, rows: Tensor, data: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Residuals of training rows; the effect of a row on its own prediction is negligible."""
        parts = []
        for some in torch.split(rows, 4096):
            mean, variance = predictor.predict(latents[some])
            parts.append((data[some] - mean, variance - predictor.noise))
        residual, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return residual, variance


@dataclass(frozen=True)
class NeighborPredictions(Predictions):
    """The nearest-neighbour model predicts from the nearest rows, and from inducing points."""

    kind = "neighbors"
    data: Tensor  # [N, D]
    n_neighbors: int
    inducing: Tensor  # [M, Q+1]
    smooth_mean: Tensor  # [M, D]
    smooth_covariance: Tensor  # [M, M]
    missing_variance: Tensor | None = None
    row_noise: Tensor | None = None

    def predictor(self, covariance: Covariance, noise: float, latents: Tensor) -> NeighborPosterior:
        """``m = bY_n + tE``."""
        return NeighborPosterior(
            covariance,
            noise,
            min(self.n_neighbors, len(self.data)),
            self.data,
            latents,
            self.inducing,
            self.smooth_mean,
            self.smooth_covariance,
            row_noise=self.row_noise,
            missing_variance=self.missing_variance,
        )

    def residuals(
        self, predictor: NeighborPosterior, latents: Tensor, rows: Tensor, data: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Leave one out: each row given its neighbours, without itself."""
        k = min(self.n_neighbors, len(data) - 1)
        size = max(1, RESIDUAL_ENTRIES // predictor.row_entries)
        parts = []
        for some in torch.split(rows, size):
            near = nearest_to(predictor.manifold, latents[some], latents, k + 1)
            # rows at the same point may hide the row itself from its own neighbours
            own = (near == some[:, None]).to(torch.uint8)
            near = near.gather(1, own.argsort(dim=1, stable=True)[:, :k])
            mean, variance = predictor.of(near).predict(latents[some])
            parts.append((data[some] - mean, variance - predictor.noise))
        residual, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return residual, variance


KINDS: dict[str, type[Predictions]] = {
    kind.kind: kind for kind in (RowPredictions, InducingPredictions, NeighborPredictions)
}
