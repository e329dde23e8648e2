"""The nearest-neighbour models: exact quality at linear cost."""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hgplvm import _validation as check
from hgplvm.estimators.base import Array, BaseGPLVM
from hgplvm.estimators.documentation import documented
from hgplvm.estimators.fitted import neighbor_posterior
from hgplvm.fit import FitResult, FitState
from hgplvm.geometry import euclidean, lorentz
from hgplvm.geometry.neighbors import ORDERS, nearest_to
from hgplvm.objectives import Parameters, VecchiaObjective, inside
from hgplvm.objectives.placement import Landmarks
from hgplvm.objectives.predictive import NeighborPosterior, exact_posterior
from hgplvm.objectives.responses import Imputation
from hgplvm.objectives.spread import row_deviations
from hgplvm.optim import Adam, climb
from hgplvm.progress import progress
from hgplvm.start import Begin

__all__ = ["VecchiaGPLVM", "VecchiaHGPLVM"]

logger = logging.getLogger(__name__)

# where noise is at least this share of the variance, neighbours alone say too little, and this many
# inducing points carry the smooth part
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
# numbers that are worked on at a time for the residuals
RESIDUAL_ENTRIES = 2**22


class _VecchiaGPLVM(BaseGPLVM):
    """What the two nearest-neighbour models share."""

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
        length_scale: float | Literal["auto"] = "auto",
        init: str | Array = "auto",
        optimizer: str = "auto",
        learning_rate: float | None = None,
        max_iter: int = 300,
        tol: float = 1e-4,
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
            length_scale=length_scale,
            init=init,
            optimizer=optimizer,
            learning_rate=learning_rate,
            max_iter=max_iter,
            tol=tol,
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_neighbors", "neighbor_update"):
            check.check_number(self._name, name, getattr(self, name), low=1, integer=True)
        for name, low in (("n_inducing", 0), ("chunk_size", 1)):
            check.check_number(
                self._name, name, getattr(self, name), low=low, integer=True, or_options=("auto",)
            )
        check.check_option(self._name, "order", self.order, ORDERS)
        check.check_flag(self._name, "reshuffle", self.reshuffle)

    def _begin(
        self,
        data: Tensor,
        generator: torch.Generator,
        *,
        n_probes: int = 1,
        imputation: Imputation | None = None,
    ) -> Begin:
        """Coarse to fine: of many rows, some are fitted first and the others placed amid them.

        Among many rows neighbours are near and steps are short, so that what is wrong with the
        large shape would stay so.
        """
        searched = isinstance(self.init, str) and self.init != "random"
        if not searched or data.shape[0] <= FEW_ROWS:
            return super()._begin(data, generator, n_probes=n_probes, imputation=imputation)
        rows = torch.randperm(data.shape[0], generator=generator)[:COARSE_ROWS].to(data.device)
        sample = data[rows]
        some = None if imputation is None else imputation.of_rows(rows)
        begin = super()._begin(sample, generator, n_probes=COARSE_PROBES, imputation=some)
        n_inducing = INDUCING if self.n_inducing == "auto" else int(self.n_inducing)
        objective = self._objective(sample, begin.noise_floor, generator, n_inducing, some)
        parameters = self._parameters(begin, 1.0)
        optimizer = Adam(
            self._first_step(objective, parameters),
            horizon=self.max_iter,
            smallest_rise=self.tol * objective.n_entries,
        )
        logger.info("fitting %d of the %d rows first", len(sample), len(data))
        with progress(self.max_iter, what=f"first {len(sample)} rows", verbose=self.verbose) as bar:
            parameters = climb(
                objective, parameters, optimizer, self.max_iter, after=lambda: bar.update()
            )
        noise = objective.noise_variance(parameters)
        posterior = exact_posterior(sample, parameters, self._manifold, self.kernel, noise=noise)
        landmarks = Landmarks.of(posterior, parameters.latents)
        latents = inside(self._manifold, landmarks.among(data))
        latents[rows] = parameters.latents
        return Begin(
            latents,
            parameters.positive("variance"),
            parameters.positive("noise"),
            parameters.positive("length_scale"),
            begin.noise_floor,
            begin.history,
        )

    def _make_objective(
        self,
        data: Tensor,
        noise_floor: float,
        generator: torch.Generator,
        imputation: Imputation | None = None,
    ) -> VecchiaObjective:
        n_rows = data.shape[0]
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
            noisy = noise_floor > (NOISY - 1e-6) * data.square().mean().item()
            n_inducing = INDUCING if noisy else 0
        self.n_inducing_ = min(int(n_inducing), n_rows)
        return self._objective(data, noise_floor, generator, self.n_inducing_, imputation)

    def _objective(
        self,
        data: Tensor,
        noise_floor: float,
        generator: torch.Generator,
        n_inducing: int,
        imputation: Imputation | None = None,
    ) -> VecchiaObjective:
        return VecchiaObjective(
            data,
            self._manifold,
            self.kernel,
            n_neighbors=min(self.n_neighbors, data.shape[0] - 1),
            n_inducing=n_inducing,
            neighbor_update=self.neighbor_update,
            order=self.order,
            reshuffle=self.reshuffle,
            generator=generator,
            chunk_size=None if self.chunk_size == "auto" else self.chunk_size,
            noise_floor=noise_floor,
            imputation=imputation,
        )

    def _first_step(self, objective: VecchiaObjective, parameters: Parameters) -> float:
        """No longer than a share of the way to the neighbours: among many rows they are near."""
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

    def _keep_model(
        self, objective: VecchiaObjective, parameters: Parameters, data: Tensor
    ) -> dict[str, Tensor]:
        """Keep data and the smooth part, and how sure each latent is."""
        manifold, x = self._manifold, parameters.latents
        root = manifold.frechet_mean(x)
        square = manifold.distance(root, x).square().mean().item() / self.n_components
        scale = max(math.sqrt(square), 1e-6)
        # where single neighbours say little, as many more as there are inducing points
        n_neighbors = min(self.n_neighbors + self.n_inducing_, len(x) - 1)
        deviations = row_deviations(
            objective, parameters, n_neighbors=n_neighbors, prior_scale=scale
        )
        mean, covariance = objective.smooth_part(parameters, data)
        kept = {
            "data": data,
            "inducing": objective.inducing,
            "smooth_mean": mean,
            "smooth_covariance": covariance,
            "n_neighbors": x.new_tensor(float(self.n_neighbors)),
            "std": deviations,
            "prior_root": root,
            "prior_scale": x.new_tensor(scale),
        }
        return {name: tensor.double() for name, tensor in kept.items()}

    def _predictors(self, kept: dict[str, Tensor]) -> tuple[NeighborPosterior, None]:
        return neighbor_posterior(self._manifold, self.kernel, kept, int(kept["n_neighbors"])), None

    def _residuals(
        self, predictor: NeighborPosterior, kept: dict[str, Tensor], rows: Tensor, data: Tensor
    ) -> Tensor:
        """Leave one out: each row given its neighbours, without itself."""
        x, k = kept["latents"], min(self.n_neighbors, len(data) - 1)
        size = max(1, RESIDUAL_ENTRIES // predictor.row_entries)
        parts = []
        for some in torch.split(rows, size):
            near = nearest_to(self._manifold, x[some], x, k + 1)
            # rows at the same place may hide the row itself from its own neighbours
            own = (near == some[:, None]).to(torch.uint8)
            near = near.gather(1, own.argsort(dim=1, stable=True)[:, :k])
            mean, variance = predictor.of(near).predict(x[some])
            parts.append((data[some] - mean) / variance.sqrt()[:, None])
        return torch.cat(parts)


@documented(flat=False, vecchia=True)
class VecchiaHGPLVM(_VecchiaGPLVM):
    """Nearest-neighbour hyperboloid GP-LVM: the quality of :class:`HGPLVM` at linear cost.

    Each row is conditioned on the k nearest, in latent space, of the rows before it in a random
    order (Vecchia's approximation of the likelihood). The exponential kernel is nearly Markov along
    a tree, so this loses next to nothing where inducing points blur. The cost is
    O(N (k³ + kD)) a step and memory is linear in N: for thousands to millions of rows. Of more than
    4,096 rows, 3,000 are fitted first, and the others placed amid them by their likelihood.

    {parameters}

    Examples
    --------
    >>> from hgplvm import VecchiaHGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> VecchiaHGPLVM(n_neighbors=10, random_state=0).fit_transform(tree.data).shape
    (140, 2)
    """

    _manifold = lorentz


@documented(flat=True, vecchia=True)
class VecchiaGPLVM(_VecchiaGPLVM):
    """Nearest-neighbour GP-LVM in flat space, the baseline of :class:`VecchiaHGPLVM`.

    {parameters}
    """

    _manifold = euclidean
