"""The exact models."""

from __future__ import annotations

import torch

from hgplvm._fitted import RowPredictions
from hgplvm.covariance import CovarianceFunction
from hgplvm.estimators.base import BaseGPLVM, Rows
from hgplvm.estimators.documentation import documented
from hgplvm.manifolds import Flat, Hyperbolic, Sphere
from hgplvm.noise import Noise, row_noise
from hgplvm.objectives import ExactObjective, Parameters

__all__ = ["GPLVM", "HGPLVM", "SphericalGPLVM"]


class _ExactGPLVM(BaseGPLVM):
    """What the exact models share."""

    _kind = "exact"

    def _make_objective(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        noise: Noise,
        generator: torch.Generator,  # noqa: ARG002
    ) -> ExactObjective:
        return ExactObjective(
            rows.data, covariance, noise, imputation=rows.imputation, effects=rows.effects
        )

    def _predictions(
        self, objective: ExactObjective, parameters: Parameters, rows: Rows
    ) -> RowPredictions:
        return RowPredictions(
            rows.data.double(), rows.missing_variance, row_noise(objective.noise, parameters)
        )


@documented(flat=False)
class HGPLVM(_ExactGPLVM):
    """Exact hyperboloid GP-LVM: an embedding into hyperbolic space.

    Each column of the data is a Gaussian process over latent positions in hyperbolic space, with
    the geodesic exponential kernel ``k(x, z) = σ exp(-d(x, z)/κ)`` and noise β⁻¹; the positions
    maximise the marginal likelihood. The cost is O(N³) per step: for up to a few thousand rows.

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

    _manifold = Hyperbolic()


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

    _manifold = Flat()


@documented(space="sphere")
class SphericalGPLVM(_ExactGPLVM):
    """Exact GP-LVM on the sphere, for periodic data.

    The same model with the distance of the unit sphere; the kernel must be one that is positive
    definite there (``"exponential"``, or your own).

    {parameters}

    Examples
    --------
    >>> from hgplvm import SphericalGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> SphericalGPLVM(random_state=0).fit_transform(tree.data).shape
    (140, 2)
    """

    _manifold = Sphere()
