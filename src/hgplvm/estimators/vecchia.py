"""The nearest-neighbour models: exact quality at linear cost."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import numpy as np
import torch

from hgplvm._fitted import NeighborPredictions
from hgplvm._inference import Landmarks
from hgplvm._progress import progress
from hgplvm._start import Start
from hgplvm._typing import Array
from hgplvm._validation import Constraint, Flag, Number, Options
from hgplvm.covariance import CovarianceFunction
from hgplvm.estimators.base import BaseGPLVM, Rows
from hgplvm.estimators.documentation import documented
from hgplvm.fit import FitResult, FitState
from hgplvm.kernels import Kernel
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.manifolds._neighbors import ORDERS
from hgplvm.noise import Noise, row_noise
from hgplvm.objectives import Parameters, VecchiaObjective
from hgplvm.objectives.predictive import exact_posterior
from hgplvm.optim import Adam, climb

__all__ = ["VecchiaGPLVM", "VecchiaHGPLVM"]

logger = logging.getLogger(__name__)

# where noise is at least this share of the variance, neighbours alone carry too little information,
# and this many inducing points model the smooth part
NOISY = 0.5
INDUCING = 50
# more rows than FEW are fitted in two levels, the first with so many of them
FEW_ROWS = 4096
COARSE_ROWS = 3000
# samples that the scale of their start is chosen on
COARSE_PROBES = 4
# longest first step of a fit, as a share of the distance to the last of a row's neighbours: longer
# ones would mix rows with their neighbours before the likelihood can tell them apart
SPACING = 0.1


class _VecchiaGPLVM(BaseGPLVM):
    """What the two nearest-neighbour models share."""

    _kind = "vecchia"

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **BaseGPLVM._constraints,
        "n_neighbors": Number(low=1, integer=True),
        "n_inducing": Number(low=0, integer=True, options=("auto",)),
        "neighbor_update": Number(low=1, integer=True),
        "order": Options(ORDERS),
        "reshuffle": Flag(),
        "chunk_size": Number(low=1, integer=True, options=("auto",)),
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 20,
        n_inducing: int | Literal["auto"] = "auto",
        neighbor_update: int = 10,
        order: str = "random",
        reshuffle: bool = False,
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
        self.n_neighbors = n_neighbors
        self.n_inducing = n_inducing
        self.neighbor_update = neighbor_update
        self.order = order
        self.reshuffle = reshuffle
        self.chunk_size = chunk_size

    def _start(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        generator: torch.Generator,
        *,
        n_probes: int = 1,
    ) -> Start:
        """Coarse to fine: of many rows, some are fitted first, and the others start between them.

        With many rows, neighbours are close and steps are short, so that errors in the large-scale
        shape would not be corrected.
        """
        n_rows = rows.data.shape[0]
        searched = isinstance(self.init, str) and self.init != "random"
        if not searched or n_rows <= FEW_ROWS:
            return super()._start(rows, covariance, generator, n_probes=n_probes)
        chosen = torch.randperm(n_rows, generator=generator)[:COARSE_ROWS].to(rows.data.device)
        sample = rows.some(chosen)
        start = super()._start(sample, covariance, generator, n_probes=COARSE_PROBES)
        n_inducing = INDUCING if self.n_inducing == "auto" else int(self.n_inducing)
        n_inducing = min(n_inducing, len(chosen))
        noise = self._noise(sample, start.noise_floor)
        objective = self._objective(sample, covariance, noise, generator, n_inducing)
        parameters = noise.begun(self._parameters(start, covariance, 1.0))
        optimizer = Adam(
            self._first_step(objective, parameters),
            horizon=self.max_iter,
            smallest_rise=self.tol * objective.n_entries,
        )
        logger.info("fitting %d of the %d rows first", len(chosen), n_rows)
        with progress(self.max_iter, what=f"first {len(chosen)} rows", verbose=self.verbose) as bar:
            parameters = climb(
                objective, parameters, optimizer, self.max_iter, after=lambda: bar.update()
            )
        posterior = exact_posterior(
            sample.data,
            parameters.latents,
            covariance.at(parameters.values),
            noise=noise.level(parameters),
            row_noise=row_noise(noise, parameters),
        )
        landmarks = Landmarks.of(posterior, parameters.latents)
        own = None if rows.noise is None else rows.noise.start
        latents = self._manifold.inside(landmarks.posterior_means(rows.data, own))
        latents[chosen] = parameters.latents
        return Start(
            latents,
            parameters.positive("variance"),
            parameters.positive("noise") if rows.noise is None else noise.level(parameters),
            parameters.positive("length_scale"),
            start.noise_floor,
            start.history,
            start.kernel,
            {name: parameters.positive(name) for name in covariance.shape},
        )

    def _make_objective(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        noise: Noise,
        generator: torch.Generator,
    ) -> VecchiaObjective:
        n_rows = rows.data.shape[0]
        if self.n_neighbors >= n_rows:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is not below the {n_rows} rows of the data, so "
                f"each row has all {n_rows - 1} others; the exact model is then the same and "
                "faster.",
                UserWarning,
                stacklevel=3,
            )
        n_inducing = self.n_inducing
        if n_inducing == "auto":
            least = noise.floor if rows.noise is None else rows.noise.first.mean().item()
            noisy = least > (NOISY - 1e-6) * rows.data.square().mean().item()
            n_inducing = INDUCING if noisy else 0
        self.n_inducing_ = min(int(n_inducing), n_rows)
        return self._objective(rows, covariance, noise, generator, self.n_inducing_)

    def _objective(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        noise: Noise,
        generator: torch.Generator,
        n_inducing: int,
    ) -> VecchiaObjective:
        return VecchiaObjective(
            rows.data,
            covariance,
            noise,
            n_neighbors=min(self.n_neighbors, rows.data.shape[0] - 1),
            n_inducing=n_inducing,
            neighbor_update=self.neighbor_update,
            order=self.order,
            reshuffle=self.reshuffle,
            generator=generator,
            chunk_size=None if self.chunk_size == "auto" else self.chunk_size,
            imputation=rows.imputation,
            effects=rows.effects,
        )

    def _first_step(self, objective: VecchiaObjective, parameters: Parameters) -> float:
        """Return a step of at most a share of the distance to the neighbours."""
        spacing = objective.spacing(parameters)
        step = super()._first_step(objective, parameters)
        return min(step, SPACING * spacing) if spacing > 0 else step

    def _finish(
        self, objective: VecchiaObjective, start: Parameters, result: FitResult
    ) -> tuple[Parameters, float]:
        """Compare start and end, each with the neighbours that it has itself."""
        objective.draw(start)
        first = objective.value(start)
        objective.draw(result.parameters)
        last = objective.value(result.parameters)
        return (result.parameters, last) if last >= first else (start, first)

    def _predictions(
        self, objective: VecchiaObjective, parameters: Parameters, rows: Rows
    ) -> NeighborPredictions:
        """Keep data and the smooth part."""
        mean, covariance = objective.smooth_part(parameters, rows.data)
        return NeighborPredictions(
            rows.data.double(),
            self.n_neighbors,
            objective.inducing.double(),
            mean.double(),
            covariance.double(),
            rows.missing_variance,
            row_noise(objective.noise, parameters),
        )


@documented(flat=False, vecchia=True)
class VecchiaHGPLVM(_VecchiaGPLVM):
    """Nearest-neighbour hyperboloid GP-LVM: the quality of :class:`HGPLVM` at linear cost.

    Each row is conditioned on the k nearest, in latent space, of the rows before it in a random
    order (Vecchia's approximation of the likelihood). The exponential kernel is nearly Markov along
    a tree, so this loses almost nothing, and keeps detail that inducing points lose. The cost is
    O(N (k³ + kD)) per step and memory is linear in N: for thousands to millions of rows. Of more
    than 4,096 rows, 3,000 are fitted first, and the others start between them, by their likelihood.

    {parameters}

    Examples
    --------
    >>> from hgplvm import VecchiaHGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> VecchiaHGPLVM(n_neighbors=10, random_state=0).fit_transform(tree.data).shape
    (140, 2)
    """

    _manifold = Hyperbolic()


@documented(flat=True, vecchia=True)
class VecchiaGPLVM(_VecchiaGPLVM):
    """Nearest-neighbour GP-LVM in flat space, the baseline of :class:`VecchiaHGPLVM`.

    {parameters}
    """

    _manifold = Flat()
