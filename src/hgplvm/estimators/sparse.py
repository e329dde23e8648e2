"""The sparse models: inducing points."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from hgplvm._fitted import InducingPredictions
from hgplvm._typing import Array
from hgplvm._validation import Constraint, Number
from hgplvm.covariance import CovarianceFunction
from hgplvm.estimators.base import BaseGPLVM, Rows
from hgplvm.estimators.documentation import NOISY_STEPS, documented
from hgplvm.fit import FitResult, FitState
from hgplvm.kernels import Kernel
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.noise import Noise
from hgplvm.objectives import CollapsedObjective, Parameters, SparseObjective

__all__ = ["CollapsedGPLVM", "SparseGPLVM", "SparseHGPLVM"]

# the bound that is reported is a mean over this many draws of inducing points
FINAL_DRAWS = 20


class CollapsedGPLVM(BaseGPLVM):
    """The sparse models, and what the Bayesian ones share with them."""

    _kind = "sparse"

    _bounded = True
    _searches_noise = False  # a few inducing points cannot give every row a branch of its own
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **BaseGPLVM._constraints,
        "n_inducing": Number(low=1, integer=True),
        "inducing_update": Number(low=1, integer=True),
        "chunk_size": Number(low=1, integer=True, options=("auto",)),
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_inducing: int = 50,
        inducing_update: int = 5,
        chunk_size: int | Literal["auto"] = "auto",
        kernel: str | Kernel = "exponential",
        likelihood: str = "gaussian",
        length_scale: float | Literal["auto"] = "auto",
        init: str | Array = "auto",
        optimizer: str = "auto",
        learning_rate: float | None = None,
        max_iter: int = 300,
        tol: float = 1e-4,
        noise: str = "auto",
        noise_floor: float | Literal["auto"] = "auto",
        center: str | int = "mean",
        device: str = "auto",
        dtype: str = "float64",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        callback: Callable[[FitState], object] | None = None,
    ) -> None:
        super().__init__(
            n_components,
            kernel=kernel,
            likelihood=likelihood,
            length_scale=length_scale,
            init=init,
            optimizer=optimizer,
            learning_rate=learning_rate,
            max_iter=max_iter,
            tol=tol,
            noise=noise,
            noise_floor=noise_floor,
            center=center,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
            checkpoint=checkpoint,
            callback=callback,
        )
        self.n_inducing = n_inducing
        self.inducing_update = inducing_update
        self.chunk_size = chunk_size

    def _most_steps(self, rows: Rows) -> int:
        """Return how many steps to make: on noisy data latents soon begin to follow the noise."""
        return self.max_iter if rows.noise is None else min(self.max_iter, NOISY_STEPS)

    def _collapsed_options(self, rows: Rows, generator: torch.Generator) -> dict[str, Any]:
        n_rows = rows.data.shape[0]
        if self.n_inducing > n_rows:
            warnings.warn(
                f"n_inducing={self.n_inducing} exceeds the {n_rows} rows of the data, all "
                "of which are now inducing points; the exact model is then as good and faster.",
                UserWarning,
                stacklevel=4,
            )
        return {
            "n_inducing": min(self.n_inducing, n_rows),
            "inducing_update": self.inducing_update,
            "chunk_size": None if self.chunk_size == "auto" else self.chunk_size,
            "generator": generator,
            "imputation": rows.imputation,
            "effects": rows.effects,
        }

    def _make_objective(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        noise: Noise,
        generator: torch.Generator,
    ) -> CollapsedObjective:
        options = self._collapsed_options(rows, generator)
        return SparseObjective(rows.data, covariance, noise, **options)

    def _finish(
        self, objective: CollapsedObjective, start: Parameters, result: FitResult
    ) -> tuple[Parameters, float]:
        """Mean of the bound over fresh draws; the best of them becomes ``inducing_``."""
        first = _draws(objective, start)
        last = _draws(objective, result.parameters)
        final, draws = (result.parameters, last)
        if _mean(first) > _mean(last):  # values under different draws do not compare one by one
            final, draws = (start, first)
        objective.inducing = max(draws, key=itemgetter(0))[1]
        return final, _mean(draws)

    def _predictions(
        self, objective: CollapsedObjective, parameters: Parameters, rows: Rows
    ) -> InducingPredictions:
        return InducingPredictions.of(
            objective.inducing,
            objective.statistics(parameters, rows.data),
            objective.covariance.at(parameters.values),
            noise=objective.noise.level(parameters),
        )


def _draws(objective: CollapsedObjective, parameters: Parameters) -> list[tuple[float, Tensor]]:
    """Values of the bound under fresh draws of the inducing points, with the points."""
    draws = []
    for _ in range(FINAL_DRAWS):
        objective.draw(parameters)
        draws.append((objective.value(parameters), objective.inducing))
    return draws


def _mean(draws: list[tuple[float, Tensor]]) -> float:
    return sum(value for value, _ in draws) / len(draws)


@documented(flat=False, sparse=True)
class SparseHGPLVM(CollapsedGPLVM):
    """Sparse hyperboloid GP-LVM: inducing points, and a cost of O(NM²) per step.

    The latents maximise a lower bound of the marginal likelihood that sees the rows through M
    inducing points. These are redrawn from the latents every few steps, so that the fit maximises
    the mean of the bound over draws.

    {parameters}

    Examples
    --------
    >>> from hgplvm import SparseHGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> model = SparseHGPLVM(n_inducing=20, max_iter=50, random_state=0).fit(tree.data)
    >>> model.inducing_.shape
    (20, 3)
    """

    _manifold = Hyperbolic()


@documented(flat=True, sparse=True)
class SparseGPLVM(CollapsedGPLVM):
    """Sparse GP-LVM in flat space, the baseline of :class:`SparseHGPLVM`.

    {parameters}
    """

    _manifold = Flat()
