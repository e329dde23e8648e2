"""The Bayesian models: each latent is a distribution."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from hgplvm import _init as starts
from hgplvm._start import Start
from hgplvm._typing import Array
from hgplvm._validation import Constraint, Number, Options
from hgplvm.covariance import CovarianceFunction
from hgplvm.estimators.base import Rows
from hgplvm.estimators.documentation import documented
from hgplvm.estimators.sparse import CollapsedGPLVM
from hgplvm.fit import FitState
from hgplvm.kernels import Kernel
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.noise import Noise
from hgplvm.objectives import BayesianObjective, CollapsedObjective, Parameters

__all__ = ["BayesianGPLVM", "BayesianHGPLVM"]

# standard deviation of q(x) at the start of a Bayesian fit, in units of the median distance
START_STD = 0.03
QUADRATURES = ("unscented", "gauss-hermite", "monte-carlo")


class _BayesianGPLVM(CollapsedGPLVM):
    """What the two Bayesian models share."""

    _kind = "bayesian"

    _variational = True
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **CollapsedGPLVM._constraints,
        "quadrature": Options(QUADRATURES),
        "n_samples": Number(low=1, integer=True),
        "prior_scale": Number(low=0, closed=False),
        "kl": Options(("exact", "paper")),
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        quadrature: str = "unscented",
        n_samples: int = 5,
        prior_scale: float = 1.0,
        kl: str = "exact",
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
            n_inducing=n_inducing,
            inducing_update=inducing_update,
            chunk_size=chunk_size,
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
        self.quadrature = quadrature
        self.n_samples = n_samples
        self.prior_scale = prior_scale
        self.kl = kl

    def _make_objective(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        noise: Noise,
        generator: torch.Generator,
    ) -> CollapsedObjective:
        return BayesianObjective(
            rows.data,
            covariance,
            noise,
            n_components=self.n_components,
            quadrature=self.quadrature,
            n_samples=self.n_samples,
            prior_scale=float(self.prior_scale),
            kl=self.kl,
            warmup=self._most_steps(rows) // 3,
            **self._collapsed_options(rows, generator),
        )

    def _parameters(
        self, start: Start, covariance: CovarianceFunction, square: float
    ) -> Parameters:
        points = super()._parameters(start, covariance, square)
        distance = starts.median_distance(start.latents, self._manifold)
        std = start.latents.new_full(
            (len(start.latents), self.n_components), math.log(START_STD * max(distance, 1e-3))
        )
        return Parameters(points.latents, {**points.logs, "std": std}, (*points.free, "std"))

    def _prior(self, parameters: Parameters, rows: Rows) -> tuple[Tensor, float]:  # noqa: ARG002
        """Return the prior that the model itself has."""
        origin = self._manifold.origin(self.n_components, device=parameters.latents.device)
        return origin, float(self.prior_scale)

    def _std(self, objective: Any, parameters: Parameters, rows: Rows) -> Tensor:  # noqa: ARG002
        """Return the standard deviations of q(x)."""
        return parameters.logs["std"].exp()


@documented(flat=False, sparse=True, bayesian=True)
class BayesianHGPLVM(_BayesianGPLVM):
    """Bayesian hyperboloid GP-LVM: each latent is a distribution.

    ``q(x_i)`` is a wrapped normal with its own mean and standard deviations; the fit maximises the
    evidence lower bound. For the first third of the steps the standard deviations are fixed.

    {parameters}

    Examples
    --------
    >>> from hgplvm import BayesianHGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> model = BayesianHGPLVM(n_inducing=20, max_iter=50, random_state=0).fit(tree.data)
    >>> model.posterior_std_.shape
    (140, 2)
    """

    _manifold = Hyperbolic()


@documented(flat=True, sparse=True, bayesian=True)
class BayesianGPLVM(_BayesianGPLVM):
    """Bayesian GP-LVM in flat space, the baseline of :class:`BayesianHGPLVM`.

    {parameters}
    """

    _manifold = Flat()
