"""The exact models."""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.estimators.base import BaseGPLVM
from hgplvm.estimators.documentation import documented
from hgplvm.estimators.fitted import neighbor_posterior
from hgplvm.geometry import euclidean, lorentz
from hgplvm.objectives import ExactObjective, Parameters
from hgplvm.objectives.predictive import NeighborPosterior, Posterior, exact_posterior
from hgplvm.objectives.responses import Imputation

__all__ = ["GPLVM", "HGPLVM"]


# nearest rows by which new rows choose between starts
SCOUT_NEIGHBORS = 30


class _ExactGPLVM(BaseGPLVM):
    """What the two exact models share."""

    def _make_objective(
        self,
        data: Tensor,
        noise_floor: float,
        generator: torch.Generator,  # noqa: ARG002
        imputation: Imputation | None = None,
    ) -> ExactObjective:
        return ExactObjective(
            data, self._manifold, self.kernel, noise_floor=noise_floor, imputation=imputation
        )

    def _keep_model(
        self,
        objective: ExactObjective,  # noqa: ARG002
        parameters: Parameters,  # noqa: ARG002
        data: Tensor,
    ) -> dict[str, Tensor]:
        return {"data": data.double()}

    def _predictors(self, kept: dict[str, Tensor]) -> tuple[Posterior, NeighborPosterior]:
        scout = neighbor_posterior(self._manifold, self.kernel, kept, SCOUT_NEIGHBORS)
        logs = {name: kept[name].log() for name in ("variance", "length_scale")}
        posterior = exact_posterior(
            kept["data"],
            Parameters(kept["latents"], logs, ()),
            self._manifold,
            self.kernel,
            noise=kept["noise"].item(),
            doubt=scout.doubt,
        )
        return posterior, scout

    def _residuals(
        self,
        predictor: Posterior,
        kept: dict[str, Tensor],  # noqa: ARG002
        rows: Tensor,
        data: Tensor,
    ) -> Tensor:
        """Leave one out: ``z = C⁻¹Y/√diag C⁻¹`` (the residual is C⁻¹Y/diag, of variance 1/diag)."""
        spread = predictor.inverse.diagonal()[rows].sqrt()
        return (predictor.inverse[rows] @ data) / spread[:, None]


@documented(flat=False)
class HGPLVM(_ExactGPLVM):
    """Exact hyperboloid GP-LVM: an embedding into hyperbolic space.

    Each column of the data is a Gaussian process over latent positions in hyperbolic space, with
    the geodesic exponential kernel ``k(x, z) = σ exp(-d(x, z)/κ)`` and noise β⁻¹; the positions
    maximise the marginal likelihood. The cost is O(N³) a step: for up to a few thousand rows.

    {parameters}

    References
    ----------
    Watanabe, Maeda, Ogawa, Haseyama: Hyperboloid GPLVM for Discovering Continuous Hierarchies via
    Nonparametric Estimation. AISTATS 2025.

    Examples
    --------
    >>> from hgplvm import HGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> model = HGPLVM(random_state=0).fit(tree.data)
    >>> model.embedding_.shape
    (140, 2)
    """

    _manifold = lorentz


@documented(flat=True)
class GPLVM(_ExactGPLVM):
    """Exact GP-LVM in flat space, the baseline of :class:`HGPLVM`.

    The same model with Euclidean distance: ``k(x, z) = σ exp(-‖x - z‖/κ)``.

    {parameters}

    Examples
    --------
    >>> from hgplvm import GPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> GPLVM(random_state=0).fit_transform(tree.data).shape
    (140, 2)
    """

    _manifold = euclidean
