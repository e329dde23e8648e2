"""What all models share: input, start, fit, and the attributes that a fit leaves."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor

from hgplvm import _validation as check
from hgplvm import init as starts
from hgplvm._threads import one_thread, threads_for_rows
from hgplvm.estimators.checkpoint import Checkpoint, digest
from hgplvm.estimators.display import ShownModel
from hgplvm.estimators.fitted import FittedModel, row_digests
from hgplvm.estimators.keeping import KeptModel
from hgplvm.estimators.views import ViewedModel
from hgplvm.fit import FitResult, FitState, fit
from hgplvm.geometry import Manifold, lorentz
from hgplvm.init.gaps import fill_gaps
from hgplvm.kernels import Exponential, Kernel
from hgplvm.objectives import Parameters, inside
from hgplvm.objectives.responses import Imputation
from hgplvm.optim import LBFGS, Adam, GradientDescent, Optimizer
from hgplvm.progress import progress
from hgplvm.start import RATE, Begin, find_start

__all__ = ["Array", "BaseGPLVM"]

logger = logging.getLogger(__name__)

Array = np.ndarray[Any, np.dtype[Any]]

INITS = ("auto", "mds", "pca", "random")
OPTIMIZERS = ("auto", "lbfgs", "adam", "rgd")
DTYPES = {"float64": torch.float64, "float32": torch.float32}
# the noise variance stays above this, as a share of the data's variance
NOISE_FLOOR = {"float64": 1e-6, "float32": 1e-4}
# length scale of the flat models, and of starts that do not come with one
FLAT_LENGTH_SCALE = 3.0
# kinds of start behind each name
START_KINDS = {"auto": starts.KINDS, "mds": ("mds", "mds-denoised"), "pca": ("pca",)}
# least variance of a missing entry, as a share of the data's
SMALLEST_SPREAD = 1e-9
# flat space has no scale of its own: these are multiples of its length scale
FLAT_SCALES = tuple(FLAT_LENGTH_SCALE / factor for factor in (50.0, 12.0, 4.0, 1.5))


class BaseGPLVM(FittedModel, ViewedModel, KeptModel, ShownModel, BaseEstimator):
    """What all models share; the subclasses add their objective, manifold and documentation."""

    _manifold: Manifold
    source_: dict[str, Any]
    # a subclass with another one is a model of its own
    kernel: Kernel = Exponential()
    # whether latents could explain a row's own noise, so that rows must be held out to tell it
    _searches_noise = True

    def __init__(
        self,
        n_components: int = 2,
        *,
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
        self.n_components = n_components
        self.length_scale = length_scale
        self.init = init
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.noise_floor = noise_floor
        self.center = center
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.callback = callback

    def fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002
        """Fit the latents of the rows of X.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or tensor of shape (n_samples, n_features)
            The data (the paper's Y). Columns are centred; their scale is left as it is. NaN is an
            entry that is missing: the likelihood does not see it.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        self
        """
        before = dict(self.__dict__)
        try:
            for name in ("_kept", "_made"):  # of an earlier fit
                self.__dict__.pop(name, None)
            with one_thread():
                self._fit(X)
        except BaseException:  # what was there before is still whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: object) -> None:
        self._check_parameters()
        rows = self._read(X, fitting=True)
        digests = row_digests(rows)
        columns, data, observed = _centred(rows)
        check.check_row(self._name, "center", self.center, data.shape[0], ("mean", "none"))
        device = check.check_device(self._name, self.device)
        checkpoint = self._open_checkpoint(data, device)
        begun = None if checkpoint is None else checkpoint.begin
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if begun is not None:  # whatever was drawn then is drawn again
            seed = begun["seed"]
        generator = torch.Generator().manual_seed(seed)

        # the paper's descent has an absolute step length, so it sees the data in their own units
        unit = _root_mean_square(data if observed is None else data[observed])
        self._scale = 1.0 if self.optimizer == "rgd" else unit
        filled, imputation = data / unit, None
        if observed is not None:
            guess = fill_gaps(filled, seed)
            filled = guess.data
        scaled = torch.from_numpy(filled).to(device, DTYPES[self.dtype])
        if observed is not None:
            imputation = Imputation(
                scaled,
                torch.from_numpy(observed).to(device),
                torch.from_numpy(guess.spread).to(scaled).clamp_min(SMALLEST_SPREAD),
                torch.from_numpy(guess.variance).to(scaled),
            )
        if begun is not None:
            begin = Begin.restored(begun)
        else:
            with progress(1, what="search for a start", verbose=self.verbose) as bar:
                begin = self._begin(scaled, generator, imputation=imputation)
                bar.update()
        logger.info("%s starts at length scale %.4g", self._name, begin.length_scale)
        parameters = self._parameters(begin, (unit / self._scale) ** 2)
        if unit != self._scale:
            scaled = scaled * unit
            imputation = None if imputation is None else imputation.scaled(unit)
        floor = begin.noise_floor * (unit / self._scale) ** 2
        objective = self._make_objective(scaled, floor, generator, imputation)
        optimizer = self._make_optimizer(objective, parameters)
        if checkpoint is not None:
            checkpoint.begin = {**begin.state(), "seed": seed}
        with threads_for_rows(len(scaled)):
            result = fit(
                objective,
                parameters,
                optimizer,
                max_iter=self.max_iter,
                tol=self.tol,
                describe=lambda value, parameters: self._describe(objective, value, parameters),
                callback=self.callback,
                verbose=self.verbose,
                snapshots=checkpoint,
            )
            final, value = self._finish(objective, parameters, result)
        numbers = self._describe(objective, value, final)
        self._keep(objective, final, scaled, columns, digests)
        self.log_likelihood_ = numbers["objective"]
        self.variance_ = numbers["variance"]
        self.noise_variance_ = numbers["noise_variance"]
        self.length_scale_ = numbers["length_scale"]
        self.history_ = {**result.history, **begin.history}
        for name in self.history_.keys() & {"search_scale", "search_length_scale"}:
            self.history_[name] = self._unit * self.history_[name]
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.stop_reason
        logger.info("%s: %s", self._name, self.stop_reason_)

    def fit_transform(self, X: object, y: object = None) -> Array:
        """Fit the model and return the embedding, of shape (n_samples, n_components)."""
        self.fit(X, y)
        return self.embedding_

    # --- steps of fit ---------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        name = self._name
        check.check_number(name, "n_components", self.n_components, low=1, integer=True)
        check.check_number(
            name, "length_scale", self.length_scale, low=0, closed=False, or_options=("auto",)
        )
        if isinstance(self.init, str) or not hasattr(self.init, "__len__"):
            check.check_option(name, "init", self.init, INITS)
        check.check_option(name, "optimizer", self.optimizer, OPTIMIZERS)
        if self.learning_rate is not None:
            check.check_number(name, "learning_rate", self.learning_rate, low=0, closed=False)
        check.check_number(name, "max_iter", self.max_iter, low=1, integer=True)
        check.check_number(name, "tol", self.tol, low=0)
        check.check_number(
            name, "noise_floor", self.noise_floor, low=0, high=1, or_options=("auto",)
        )
        check.check_option(name, "dtype", self.dtype, tuple(DTYPES))
        check.check_number(name, "verbose", self.verbose, low=0, integer=True)
        check.check_callback(name, self.callback)
        if self.checkpoint is not None:
            check.check_path(name, "checkpoint", self.checkpoint)

    def _read(self, X: object, *, fitting: bool) -> Array:
        """Validate rows: float64, NaN where an entry is missing."""
        if isinstance(X, Tensor):
            X = check.as_array(X)
        checked = validate_data(
            self,
            X,
            reset=fitting,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_min_samples=2 if fitting else 1,
            ensure_all_finite="allow-nan",
        )
        return checked.toarray() if issparse(checked) else checked

    def _open_checkpoint(self, data: Array, device: torch.device) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        path = check.check_path(self._name, "checkpoint", self.checkpoint)
        return Checkpoint(path, self._name, self.get_params(deep=False), digest(data), device)

    def _begin(
        self,
        data: Tensor,
        generator: torch.Generator,
        *,
        n_probes: int = 1,
        imputation: Imputation | None = None,
    ) -> Begin:
        """Latents, σ, β⁻¹ and κ to start from, and the floor of the noise."""
        manifold, q = self._manifold, self.n_components
        smallest = NOISE_FLOOR[self.dtype]
        floor: float | None = smallest
        if self.noise_floor != "auto":
            floor = max(float(self.noise_floor), smallest)
        elif self._searches_noise:
            floor = None
        given = manifold is lorentz and self.length_scale != "auto"
        length_scale = float(self.length_scale) if given else None
        if isinstance(self.init, str) and self.init == "random":  # σ and β⁻¹ are the paper's
            latents = starts.random_start(
                data.shape[0], q, manifold, like=data, generator=generator
            )
            return Begin(
                latents, 1.0, 1.0, length_scale or FLAT_LENGTH_SCALE, floor or smallest, {}
            )
        return find_start(
            data,
            q,
            manifold,
            self.kernel,
            kinds=START_KINDS.get(self.init, ()) if isinstance(self.init, str) else (),
            scales=starts.SCALES if manifold is lorentz else FLAT_SCALES,
            length_scale=length_scale if manifold is lorentz else FLAT_LENGTH_SCALE,
            noise_floor=floor,
            smallest_floor=smallest,
            generator=generator,
            given=None if isinstance(self.init, str) else self._given_latents(data),
            n_probes=n_probes,
            imputation=imputation,
        )

    def _given_latents(self, data: Tensor) -> Tensor:
        manifold = self._manifold
        array = check.check_init_array(
            self._name,
            self.init,
            (data.shape[0], self.n_components),
            inside_ball=manifold is lorentz,
        )
        latents = manifold.from_chart(torch.from_numpy(array / self._unit).to(data))
        if not torch.equal(inside(manifold, latents), latents):  # centred, more rows fit in
            latents = manifold.recenter(latents, manifold.frechet_mean(latents))
        return inside(manifold, latents)

    def _parameters(self, begin: Begin, square: float) -> Parameters:
        """Turn a start, found for data of mean square 1, into that for data of this square."""
        paper = isinstance(self.init, str) and self.init == "random"
        factor = 1.0 if paper else square
        positive = {
            "variance": begin.variance * factor,
            "noise": begin.noise * factor,
            "length_scale": begin.length_scale,
        }
        logs = {name: begin.latents.new_tensor(math.log(v)) for name, v in positive.items()}
        learns_length_scale = self._manifold is lorentz and self.length_scale == "auto"
        free = ("variance", "noise", "length_scale")[: 3 if learns_length_scale else 2]
        return Parameters(begin.latents, logs, free)

    @property
    def _unit(self) -> float:
        """Unit of the latents that users see: flat space has none of its own, so κ sets it."""
        if "_kept" in self.__dict__:
            return float(self._kept["unit"])
        if self._manifold is lorentz or self.length_scale == "auto":
            return 1.0
        return float(self.length_scale) / FLAT_LENGTH_SCALE

    def _make_objective(
        self,
        data: Tensor,
        noise_floor: float,
        generator: torch.Generator,
        imputation: Imputation | None = None,
    ) -> Any:
        raise NotImplementedError

    def _make_optimizer(self, objective: Any, parameters: Parameters) -> Optimizer:
        if self.optimizer == "lbfgs":
            return LBFGS()
        if self.optimizer == "rgd":
            return GradientDescent(self.learning_rate or GradientDescent.learning_rate)
        if self.learning_rate is not None:
            rates = (float(self.learning_rate), 3.0 * self.learning_rate)
        elif isinstance(self.init, str) and self.init == "random":
            rates = (Adam.learning_rate, Adam.log_rate)
        else:
            rates = (self._first_step(objective, parameters), Adam.log_rate)
        return Adam(
            rates[0],
            log_rate=rates[1],
            horizon=self.max_iter,
            smallest_rise=self.tol * objective.n_entries,
        )

    def _first_step(self, objective: Any, parameters: Parameters) -> float:  # noqa: ARG002
        """Length of Adam's first step, in proportion to the latents' spread."""
        return RATE * max(starts.median_distance(parameters.latents, self._manifold), 1e-3)

    def _describe(self, objective: Any, value: float, parameters: Parameters) -> dict[str, float]:
        """Value and parameters in units of the data: densities scale by s⁻¹, variances by s²."""
        return {
            "objective": value - objective.n_entries * math.log(self._scale),
            "variance": parameters.positive("variance") * self._scale**2,
            "noise_variance": objective.noise_variance(parameters) * self._scale**2,
            "length_scale": self._reported_length_scale(parameters),
        }

    def _reported_length_scale(self, parameters: Parameters) -> float:
        if self.length_scale != "auto":
            return float(self.length_scale)
        return parameters.positive("length_scale")

    def _finish(
        self,
        objective: Any,  # noqa: ARG002
        start: Parameters,  # noqa: ARG002
        result: FitResult,
    ) -> tuple[Parameters, float]:
        """Where the fit ended, never below its start, and the value to report."""
        return result.parameters, result.value


def _centred(data: Array) -> tuple[Array, Array, Array | None]:
    """Means of the columns; centred columns; and what is observed, if not all is."""
    observed = ~np.isnan(data)
    if observed.all():
        columns = data.mean(axis=0)
        return columns, _without_rounding(data, columns), None
    for axis, what in ((0, "column"), (1, "row")):
        empty = np.flatnonzero(~observed.any(axis=axis))
        if empty.size:
            raise ValueError(
                f"The data have no observed value in {what} {_listed(empty)}. "
                f"Drop the {what}{'s' if empty.size > 1 else ''}."
            )
    columns = np.nanmean(data, axis=0)
    return columns, _without_rounding(data, columns), observed


def _without_rounding(data: Array, columns: Array) -> Array:
    """Centre columns; those that vary by no more than rounding are constant."""
    centred = data - columns
    rounding = 8.0 * np.finfo(float).eps * np.nanmax(np.abs(data), axis=0)
    return np.where(np.nanmax(np.abs(centred), axis=0) <= rounding, 0.0 * centred, centred)


def _listed(numbers: Array, most: int = 5) -> str:
    """First few of the numbers, for a sentence."""
    shown = ", ".join(str(n) for n in numbers[:most])
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"


def _root_mean_square(data: Array) -> float:
    """Scale of centred data, 1 where they are constant."""
    largest = float(np.abs(data).max())
    if largest == 0.0:
        return 1.0
    scale = largest * float(np.sqrt(np.mean((data / largest) ** 2)))
    if not 1e-140 < scale < 1e140:
        raise ValueError(
            f"The data vary on a scale of {scale:.3g}, whose square is beyond floating point. "
            "Rescale them to a unit in which numbers are of ordinary size."
        )
    return scale
