"""The base class of all models: parameters, the start, the fit, and the fitted attributes."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from torch import Tensor

from hgplvm import _init as starts
from hgplvm import _validation as check
from hgplvm._advice import warn_of_columns, warn_of_depth
from hgplvm._batches import BatchCovariance, without_batches
from hgplvm._counts import LIKELIHOODS
from hgplvm._covariates import Coded, Covariates
from hgplvm._fitted import FittedCovariates, FittedModel, Predictions, RateUnits, Units
from hgplvm._init.counts import check_counts
from hgplvm._log_counts import CountUnits, LogCountMean
from hgplvm._means import ColumnMeans, Mean
from hgplvm._preparation import root_mean_square, without_rounding
from hgplvm._progress import progress
from hgplvm._start import RATE, Start, choose_kernel, find_start
from hgplvm._stops import StopReason
from hgplvm._threads import one_thread, threads_for_rows
from hgplvm._typing import Array
from hgplvm._validation import Anything, Constraint, Number, Options
from hgplvm.covariance import CovarianceFunction
from hgplvm.estimators.batches import fitted_covariates, warn_of_batches, with_covariates
from hgplvm.estimators.checkpoint import Checkpoint, digest
from hgplvm.estimators.display import ShownModel
from hgplvm.estimators.estimate import warn_if_long
from hgplvm.estimators.forwarding import FittedMethods
from hgplvm.estimators.problems import DTYPES, Problem, Rows, count_problem, gaussian_problem
from hgplvm.fit import FitResult, FitState, fit
from hgplvm.kernels import KERNELS, Kernel
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._flat import LENGTH_SCALE as FLAT_LENGTH_SCALE
from hgplvm.noise import Noise, UniformNoise, row_noise
from hgplvm.objectives import Parameters
from hgplvm.objectives.counts import CountObjective
from hgplvm.optim import LBFGS, Adam, GradientDescent, Optimizer

__all__ = ["BaseGPLVM", "Rows"]

logger = logging.getLogger(__name__)

INITS = ("auto", "paths", "mds", "pca", "random")
NOISES = ("auto", "uniform")
OPTIMIZERS = ("auto", "lbfgs", "adam", "rgd")
# the noise variance stays above this, as a share of the data's variance
NOISE_FLOOR = {"float64": 1e-6, "float32": 1e-4}
# rows whose depths are compared with their places
DEPTH_ROWS = 3000
# kinds of start behind each name
START_KINDS: dict[str, tuple[str, ...]] = {
    "auto": starts.KINDS,
    "paths": ("paths",),
    "mds": ("mds", "mds-denoised"),
    "pca": ("pca",),
}


class BaseGPLVM(ShownModel, FittedMethods):
    """What all models share; the subclasses add their objective, manifold and documentation."""

    _manifold: Manifold
    # name of the kind of model, as in `choose_model`
    _kind: str
    source_: dict[str, Any]
    # whether latents could explain a row's own noise, so that held-out rows must estimate it
    _searches_noise = True
    # whether the objective is a bound in which every row has its share
    _bounded = False
    # whether latents are distributions
    _variational = False
    # what each parameter may be
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_components": Number(low=1, integer=True),
        "kernel": Options((*KERNELS, "auto"), instances=(Kernel,)),
        "likelihood": Options(LIKELIHOODS),
        "length_scale": Number(low=0, closed=False, options=("auto",)),
        "init": Options(INITS, arrays=True),
        "optimizer": Options(OPTIMIZERS),
        "learning_rate": Number(low=0, closed=False, none=True),
        "max_iter": Number(low=1, integer=True),
        "tol": Number(low=0),
        "noise": Options(NOISES),
        "noise_floor": Number(low=0, high=1, options=("auto",)),
        "center": Anything(),  # checked when the number of rows is known
        "device": Anything(),  # checked when it is used
        "dtype": Options(tuple(DTYPES)),
        "random_state": Anything(),  # checked by scikit-learn
        "verbose": Number(low=0, integer=True),
        "checkpoint": Anything(),
        "callback": Anything(),
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
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
        self.n_components = n_components
        self.kernel = kernel
        self.likelihood = likelihood
        self.length_scale = length_scale
        self.init = init
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.noise = noise
        self.noise_floor = noise_floor
        self.center = center
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.callback = callback

    def fit(self, X: object, y: object = None, *, covariates: object = None) -> Self:  # noqa: ARG002
        """Fit the latents of the rows of X.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or tensor of shape (n_samples, n_features)
            The data (the paper's Y). Columns are centred; their scale is left as it is. NaN is a
            missing entry, which the likelihood ignores. With a likelihood of counts, raw counts.
        y : ignored
            Present for scikit-learn.
        covariates : DataFrame, dict, Series or array of shape (n_samples,) or (n_samples, q)
            What is known of the rows and is to have no part in the latents, such as the batch.
            Words, whole numbers and truth values are categories, floating-point numbers are
            continuous.

        Returns
        -------
        self
        """
        before = dict(self.__dict__)
        try:
            with one_thread():
                self._fit(X, covariates)
        except BaseException:  # a fit that fails leaves an earlier one as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def fit_transform(self, X: object, y: object = None, *, covariates: object = None) -> Array:
        """Fit the model and return the embedding, of shape (n_samples, n_components)."""
        self.fit(X, y, covariates=covariates)
        return self.embedding_

    def _fit(self, X: object, covariates: object) -> None:
        self._check_parameters()
        self._forget()
        data = self._read(X, fitting=True)
        n_rows = data.shape[0]
        known = self._coded(covariates, n_rows)
        device = check.check_device(self._name, self.device)
        check.check_row(self._name, "center", self.center, n_rows, ("mean", "none"))
        mean = self._checked(data)
        self._advise(data, device)
        checkpoint = self._open_checkpoint(data, mean, known, device)
        begun = None if checkpoint is None else checkpoint.begin
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if begun is not None:  # whatever was drawn then is drawn again
            seed = begun["seed"]
        generator = torch.Generator().manual_seed(seed)

        # a start sees rows of mean square 1; the paper's descent has an absolute step length, so
        # its fit sees the data in their own units
        with threads_for_rows(n_rows if self._counts else 0):
            problem = self._problem(data, mean, known, seed, device)
        size = problem.size
        start = self._restored_start(begun) or self._searched_start(problem.rows.alone, generator)
        logger.info("%s starts at length scale %.4g", self._name, start.length_scale)
        units = problem.units
        factor = size / units.data
        covariance = self._covariance(start)
        rows = problem.rows.scaled(factor)
        noise = self._noise(rows, start.noise_floor * factor**2)
        parameters = noise.begun(self._parameters(start, covariance, factor**2))
        covariance, parameters = with_covariates(covariance, parameters, rows)
        inner = self._make_objective(rows, covariance, noise, generator)
        objective = inner
        if problem.rates is not None and problem.counts is not None:
            objective = CountObjective(inner, problem.rates, problem.counts)
        optimizer = self._make_optimizer(inner, parameters, self._most_steps(rows))
        if checkpoint is not None:
            checkpoint.begin = {**start.state(), "seed": seed}
        volume = problem.volume(objective.n_entries)
        with threads_for_rows(n_rows):
            result = fit(
                objective,
                parameters,
                optimizer,
                max_iter=self._most_steps(rows),
                tol=self.tol,
                describe=lambda v, p: self._describe(objective, units, volume, v, p),
                callback=self._callback(rows),
                verbose=self.verbose,
                snapshots=checkpoint,
            )
            final, value = self._finish(inner, parameters, result)
            if isinstance(objective, CountObjective):
                value = objective.settle(final)
                rows = replace(rows, data=objective.scores, noise=objective.noise)
                problem = self._settled(problem, objective)
            self._model = self._fitted(inner, final, rows, problem)
            self._model = self._referred(data, problem)
        self._show()
        self.nonnegative_ = _are_nonnegative(data)
        self._advise_of_depth(data)
        self._report(result, start, self._describe(objective, problem.units, volume, value, final))
        self._report_noise(inner, final, problem)
        if problem.covariates is not None and rows.tags is not None:
            bare = rows.bare(final.latents)
            warn_of_batches(self._name, self._manifold, bare, rows.tags, problem.covariates)

    def _advise(self, data: Any, device: torch.device) -> None:
        """Warn of data of which no good map can be made, and of a fit that takes long."""
        names = getattr(self, "feature_names_in_", getattr(self, "_columns", None))
        warn_of_columns(self._name, data, names, self.n_components, counts=self._counts)
        warn_if_long(
            self._name,
            self._kind,
            *data.shape,
            n_components=self.n_components,
            counts=self._counts,
            max_iter=self.max_iter,
            device=device.type,
            verbose=self.verbose > 0,
        )

    def _advise_of_depth(self, data: Any) -> None:
        """Warn where a map of counts, or of their logarithms, shows the depth of the cells."""
        units = self._model.units
        if isinstance(units, RateUnits):
            warn_of_depth(self._name, self.embedding_, np.exp(units.log_sizes), counts=True)
        elif isinstance(units.mean, LogCountMean):
            rows = np.sort(np.random.default_rng(0).permutation(len(data))[:DEPTH_ROWS])
            if (found := CountUnits.of(data[rows])) is not None:
                warn_of_depth(self._name, self.embedding_[rows], 1.0 / found.units)

    def _callback(self, rows: Rows) -> Callable[[FitState], object] | None:
        """Return the user's callback, which sees latents without the tags of batches."""
        given = self.callback
        if given is None or rows.tags is None:
            return given
        return lambda state: given(replace(state, latents=rows.bare(state.latents)))

    def _forget(self) -> None:
        """Drop what an earlier fit left: another one may have fewer attributes."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def _report(self, result: FitResult, start: Start, numbers: dict[str, float]) -> None:
        """Set the attributes that describe the fit."""
        self.log_likelihood_ = numbers["objective"]
        self.variance_ = numbers["variance"]
        self.noise_variance_ = numbers["noise_variance"]
        self.length_scale_ = numbers["length_scale"]
        theta = self._model.covariance.theta
        self.kernel_parameters_ = {k: v for k, v in theta.items() if k != "length_scale"}
        self.history_ = {**result.history, **start.history}
        for name in self.history_.keys() & {"search_scale", "search_length_scale"}:
            self.history_[name] = self._model.units.latent * self.history_[name]
        self.n_iter_ = result.n_iter
        stop = result.stop
        all_steps = stop in (StopReason.MAX_ITER, StopReason.COMPLETE)
        if all_steps and result.max_iter < self.max_iter:
            stop = StopReason.ENOUGH
        self.stop_reason_ = stop.text(n_iter=result.n_iter, max_iter=result.max_iter)
        self.stop_ = stop.name
        logger.info("%s: %s", self._name, self.stop_reason_)

    def _report_noise(self, objective: Any, parameters: Parameters, problem: Problem) -> None:
        """Set the shares of rows and columns that multiply to an entry's noise variance."""
        n_rows, n_columns = problem.shape
        level, units = objective.noise.level(parameters), self._model.units
        own = objective.noise.of_entries(parameters).expand(n_rows).cpu().numpy()
        self.noise_rows_ = (own / level).astype(np.float64)
        self.noise_columns_ = units.noise_columns(level, n_columns)
        self.n_directions_ = n_columns
        if units.signal is not None:
            self.n_directions_ = units.signal.rank
        if isinstance(units, RateUnits):
            self.n_directions_ = units.rates.rank
            if (dispersion := units.rates.likelihood.dispersion) is not None:
                self.dispersion_ = dispersion.cpu().numpy()
        if problem.covariates is not None:
            explained = self._engine().explained() if problem.covariates.parts else {}
            self.covariate_variance_ = {
                name: explained.get(name, 0.0) for name in problem.covariates.names
            }

    # --- steps of fit ---------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        for name, constraint in self._constraints.items():
            constraint.check(self._name, name, getattr(self, name))
        self._check_likelihood()
        check.check_callback(self._name, self.callback)
        if self.checkpoint is not None:
            check.check_path(self._name, "checkpoint", self.checkpoint)
        if self.kernel != "auto":
            kernel = self._kernel()
            kernel.check(self._manifold, self.n_components)
            for name, value in kernel.shape.items():
                check.check_number(repr(kernel), name, value, low=0, closed=False)

    def _kernel(self) -> Kernel:
        """Return the kernel that the parameter names, where it is not left open."""
        return KERNELS[self.kernel] if isinstance(self.kernel, str) else self.kernel

    @property
    def _counts(self) -> bool:
        """Whether the likelihood is one of counts."""
        return self.likelihood != "gaussian"

    def _check_likelihood(self) -> None:
        """Refuse what does not go with a likelihood of counts."""
        wrong = {
            "optimizer='rgd'": self.optimizer == "rgd",
            "init='random'": isinstance(self.init, str) and self.init == "random",
            "noise='uniform'": self.noise == "uniform",
            "a noise_floor": self.noise_floor != "auto",
        }
        if self._counts and (found := [name for name, there in wrong.items() if there]):
            raise ValueError(
                f"{self._name} with likelihood={self.likelihood!r} knows the noise of counts, and "
                f"takes no {found[0]}: leave it out."
            )

    def _coded(self, covariates: object, n_rows: int) -> tuple[Covariates, Coded] | None:
        """Read covariates; None where there are none."""
        if covariates is None:
            return None
        coding = Covariates.of(self._name, covariates, n_rows)
        return coding, coding.coded(self._name, covariates, n_rows)

    def _checked(self, data: Any) -> Mean | None:
        """Refuse data that no fit could begin with; the mean of the others, unless of counts."""
        if self._counts:
            if not issparse(data):
                _check_observed(data)
            check_counts(self._name, data)
            return None
        _check_observed(data)
        mean = self._mean(data)
        centred = without_rounding(data, mean.residuals(data))
        root_mean_square(centred[~np.isnan(centred)])  # refuse squares beyond floating point
        return mean

    def _open_checkpoint(
        self,
        data: Any,
        mean: Mean | None,
        covariates: tuple[Covariates, Coded] | None,
        device: torch.device,
    ) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        path = check.check_path(self._name, "checkpoint", self.checkpoint)
        if issparse(data):
            arrays = [data.data, data.indices, data.indptr]
        else:
            arrays = [data if mean is None else without_rounding(data, mean.residuals(data))]
        if covariates is not None:
            arrays.append(covariates[1].design)
        return Checkpoint(path, self._name, self.get_params(deep=False), digest(*arrays), device)

    def _problem(
        self,
        data: Any,
        mean: Mean | None,
        covariates: tuple[Covariates, Coded] | None,
        seed: int,
        device: torch.device,
    ) -> Problem:
        """Prepare the rows."""
        latent_unit = self._latent_unit()
        if mean is None:
            return count_problem(
                self._name,
                data,
                covariates,
                likelihood=self.likelihood,
                n_components=self.n_components,
                latent_unit=latent_unit,
                seed=seed,
                dtype=self.dtype,
                device=device,
            )
        return gaussian_problem(
            self._name,
            data,
            mean,
            covariates,
            unit=1.0 if self.optimizer == "rgd" else None,
            latent_unit=latent_unit,
            seed=seed,
            uniform=self._noise_is_uniform,
            dtype=self.dtype,
            device=device,
        )

    def _settled(self, problem: Problem, objective: CountObjective) -> Problem:
        """Return the problem with the rates that the fit ended with."""
        assert isinstance(problem.units, RateUnits)
        return replace(problem, units=replace(problem.units, rates=objective.rates.to("cpu")))

    @property
    def _noise_is_uniform(self) -> bool:
        """Whether all rows and columns are taken to have the same noise."""
        paper = isinstance(self.init, str) and self.init == "random"
        given = self.noise == "uniform" or self.noise_floor != "auto"
        return given or paper or self.optimizer == "rgd"

    def _latent_unit(self) -> float:
        """Return the unit of the latents that users see: flat space has none, so κ sets it."""
        if self._manifold.curved or self.length_scale == "auto":
            return 1.0
        return float(self.length_scale) / FLAT_LENGTH_SCALE

    def _restored_start(self, begun: dict[str, Any] | None) -> Start | None:
        return None if begun is None else Start.restored(begun)

    def _searched_start(self, rows: Rows, generator: torch.Generator) -> Start:
        with (
            threads_for_rows(len(rows.data)),
            progress(1, what="search for a start", verbose=self.verbose) as bar,
        ):
            kernel, history = self._chosen_kernel(rows, generator)
            covariance = CovarianceFunction(self._manifold, kernel)
            start = self._start(rows, covariance, generator)
            bar.update()
        return replace(start, history={**start.history, **history})

    def _chosen_kernel(
        self, rows: Rows, generator: torch.Generator
    ) -> tuple[Kernel, dict[str, Array]]:
        """Return the kernel that the parameter names, or the best one on held-out rows."""
        if self.kernel != "auto":
            return self._kernel(), {}
        kernel, history = choose_kernel(
            rows.data,
            self.n_components,
            self._manifold,
            kinds=self._start_kinds(rows) or START_KINDS["auto"],
            scales=self._manifold.start_scales,
            length_scale=self._given_length_scale(),
            generator=generator,
            imputation=rows.imputation,
        )
        logger.info("%s takes the kernel %r", self._name, kernel.name)
        return kernel, history

    def _covariance(self, start: Start) -> CovarianceFunction:
        """Return the covariance of a start, whose history says which kernel was chosen."""
        if self.kernel != "auto":
            return CovarianceFunction(self._manifold, self._kernel())
        return CovarianceFunction(self._manifold, KERNELS[start.kernel])

    def _given_length_scale(self) -> float | None:
        """Return κ of the fit where it is given: flat fits have one of their own."""
        if not self._manifold.curved:
            return FLAT_LENGTH_SCALE
        return None if self.length_scale == "auto" else float(self.length_scale)

    def _start(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        generator: torch.Generator,
        *,
        n_probes: int = 1,
    ) -> Start:
        """Latents, σ, β⁻¹ and κ to start from, and the floor of the noise."""
        smallest = NOISE_FLOOR[self.dtype]
        floor: float | None = smallest
        if self.noise_floor != "auto":
            floor = max(float(self.noise_floor), smallest)
        elif self._searches_noise:
            floor = None
        length_scale = self._given_length_scale()
        if isinstance(self.init, str) and self.init == "random":  # σ and β⁻¹ are the paper's
            latents = starts.random_start(
                rows.data.shape[0],
                self.n_components,
                self._manifold,
                like=rows.data,
                generator=generator,
            )
            return Start(
                latents,
                1.0,
                1.0,
                length_scale or FLAT_LENGTH_SCALE,
                floor or smallest,
                {},
                covariance.kernel.name,
            )
        return find_start(
            rows.data,
            self.n_components,
            covariance,
            kinds=self._start_kinds(rows),
            scales=self._manifold.start_scales,
            length_scale=length_scale,
            noise_floor=floor,
            smallest_floor=smallest,
            row_noise=None if rows.noise is None else rows.noise.start,
            generator=generator,
            given=None if isinstance(self.init, str) else self._given_latents(rows.data),
            n_probes=n_probes,
            imputation=rows.imputation,
        )

    def _start_kinds(self, rows: Rows) -> tuple[str, ...]:
        """Return the kinds of start to compare; none where latents are given."""
        if not isinstance(self.init, str) or self.init == "random":
            return ()
        if self.init == "auto" and rows.noise is not None:
            return START_KINDS["paths"]
        return START_KINDS[self.init]

    def _given_latents(self, data: Tensor) -> Tensor:
        manifold = self._manifold
        array = check.check_init_array(self._name, self.init, (data.shape[0], self.n_components))
        array = array / self._latent_unit()
        check.check_chart(self._name, "init", array, manifold)
        latents = manifold.from_chart(torch.from_numpy(array).to(data))
        radius = torch.linalg.vector_norm(manifold.to_tangent(latents), dim=-1)
        if radius.max() > manifold.latent_radius(data.dtype):  # centred, more rows fit in
            latents = manifold.recenter(latents, manifold.frechet_mean(latents))
        return manifold.inside(latents)

    def _parameters(
        self, start: Start, covariance: CovarianceFunction, square: float
    ) -> Parameters:
        """Turn a start, found for data of mean square 1, into that for data of this square."""
        paper = isinstance(self.init, str) and self.init == "random"
        factor = 1.0 if paper else square
        values = {
            "variance": start.variance * factor,
            "noise": start.noise * factor,
            "length_scale": start.length_scale,
            **covariance.shape,
            **start.shape,
        }
        logs = {name: start.latents.new_tensor(math.log(v)) for name, v in values.items()}
        learns_length_scale = self._manifold.curved and self.length_scale == "auto"
        fixed = () if learns_length_scale else ("length_scale",)
        return Parameters(start.latents, logs, tuple(k for k in logs if k not in fixed))

    def _mean(self, data: Array) -> Mean:
        """Return the mean that is subtracted from the data."""
        return ColumnMeans.of(data)

    def _noise(self, rows: Rows, floor: float) -> Noise:
        """Return the noise of the fit; a uniform one has this least variance."""
        return UniformNoise(floor) if rows.noise is None else rows.noise

    def _make_objective(
        self,
        rows: Rows,
        covariance: CovarianceFunction,
        noise: Noise,
        generator: torch.Generator,
    ) -> Any:
        raise NotImplementedError

    def _predictions(self, objective: Any, parameters: Parameters, rows: Rows) -> Predictions:
        """Return what predictions are made from after the fit."""
        raise NotImplementedError

    def _fitted(
        self, objective: Any, parameters: Parameters, rows: Rows, problem: Problem
    ) -> FittedModel:
        """Return the fitted model."""
        covariance = objective.covariance.at(parameters.values)
        covariates: FittedCovariates | None = None
        if rows.effects is not None and problem.covariates is not None:
            effects = objective.without_effects(parameters, rows.data)
            covariates = fitted_covariates(problem, effects, covariance)
            shift = rows.effects.design @ effects.mean.to(rows.data)
            rows = replace(rows, data=rows.data - shift)
        if isinstance(covariance, BatchCovariance):
            covariance = without_batches(covariance)
        per_row = objective.noise.per_row
        return FittedModel.of(
            covariance,
            rows.bare(parameters.latents),
            self._predictions(objective, parameters, rows),
            noise=objective.noise.level(parameters),
            data=rows.data,
            observed=problem.observed,
            row_noise=objective.noise.of_entries(parameters).double() if per_row else None,
            score_noise=row_noise(objective.noise, parameters),
            beyond=problem.beyond,
            prior=self._prior(parameters, rows),
            center=self.center,
            std=self._std(objective, parameters, rows),
            units=problem.units,
            covariates=covariates,
            digests=problem.digests,
            sample=problem.sample,
            scores=problem.scores,
            free_length_scale="length_scale" in parameters.free,
            single=self.dtype == "float32",
            bound=self._bounded,
            variational=self._variational,
        )

    def _referred(self, data: Any, problem: Problem) -> FittedModel:
        """Return the fitted model with what is beyond it in training rows."""
        chosen = self._model.off_map.rows.numpy()
        coded = None if problem.coded is None else problem.coded.some(chosen)
        off_map = self._engine().referred(data[chosen], coded)
        return replace(self._model, off_map=off_map.mapped(lambda t: t.cpu()), _engines={})

    def _prior(self, parameters: Parameters, rows: Rows) -> tuple[Tensor, float] | None:  # noqa: ARG002
        """Root and scale of the prior of new rows; None takes those of the latents."""
        return None

    def _std(self, objective: Any, parameters: Parameters, rows: Rows) -> Tensor | None:  # noqa: ARG002
        """Return standard deviations of q(x) [N, Q], of models whose latents are distributions."""
        return None

    def _most_steps(self, rows: Rows) -> int:  # noqa: ARG002
        """Return how many steps to make at most."""
        return self.max_iter

    def _make_optimizer(self, objective: Any, parameters: Parameters, n_steps: int) -> Optimizer:
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
            horizon=n_steps,
            smallest_rise=self.tol * objective.n_entries,
        )

    def _first_step(self, objective: Any, parameters: Parameters) -> float:
        """Length of Adam's first step, a share of the median distance between the latents."""
        return RATE * max(starts.median_distance(parameters.latents, objective.manifold), 1e-3)

    def _describe(
        self, objective: Any, units: Units, volume: float, value: float, parameters: Parameters
    ) -> dict[str, float]:
        """Value, which is in units of the data with `volume` added, and parameters in these."""
        values = parameters.values
        length_scale = values["length_scale"]
        if self.length_scale != "auto":
            length_scale = float(self.length_scale)
        shape = {k: v for k, v in values.items() if k.startswith("kernel.")}
        return {
            "objective": value + volume,
            "variance": units.variance(values["variance"]),
            "noise_variance": units.noise_variance(objective.noise.level(parameters)),
            "length_scale": length_scale,
            **shape,
        }

    def _finish(
        self,
        objective: Any,  # noqa: ARG002
        start: Parameters,  # noqa: ARG002
        result: FitResult,
    ) -> tuple[Parameters, float]:
        """Where the fit ended, never below its start, and the value to report."""
        return result.parameters, result.value


def _check_observed(data: Array) -> None:
    """Refuse columns and rows of which nothing is observed."""
    observed = ~np.isnan(data)
    for axis, what in ((0, "column"), (1, "row")):
        empty = np.flatnonzero(~observed.any(axis=axis))
        if empty.size:
            raise ValueError(
                f"The data have no observed value in {what} {_listed(empty)}. "
                f"Drop the {what}{'s' if empty.size > 1 else ''}."
            )


def _are_nonnegative(data: Any) -> bool:
    """Whether no entry is below zero; NaN is a missing one."""
    entries = data.data if issparse(data) else data
    return not entries.size or bool(np.nanmin(entries) >= 0)


def _listed(numbers: Array, most: int = 5) -> str:
    """First few of the numbers, for a sentence."""
    shown = ", ".join(str(n) for n in numbers[:most])
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"
