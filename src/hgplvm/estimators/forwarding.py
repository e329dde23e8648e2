"""Methods of a fitted estimator: they check the arguments and call the fitted model."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from hgplvm import _storage as storage
from hgplvm import _validation as check
from hgplvm._covariates import Coded
from hgplvm._curvature import Curvature, judge
from hgplvm._fitted.decoded import Drivers, data_geodesic, drivers_at, drivers_between
from hgplvm._fitted.engine import Engine
from hgplvm._fitted.files import class_name, kernel_tree, model_tree
from hgplvm._fitted.model import FittedModel
from hgplvm._fitted.rates import RateUnits
from hgplvm._init.counts import check_counts
from hgplvm._typing import Array
from hgplvm.kernels import Kernel
from hgplvm.manifolds import Hyperbolic

__all__ = ["ATTRIBUTES", "OPTIONAL", "FittedMethods"]

# fitted attributes that files keep as they are; those that depend on the pose are made anew
ATTRIBUTES = (
    "log_likelihood_",
    "variance_",
    "noise_variance_",
    "noise_rows_",
    "noise_columns_",
    "n_directions_",
    "length_scale_",
    "kernel_parameters_",
    "history_",
    "n_iter_",
    "stop_",
    "stop_reason_",
    "n_features_in_",
)
# and those that only some models have
# (source_ is set where rows come from an AnnData object: its layer, representation, preparation)
OPTIONAL = (
    "feature_names_in_",
    "n_inducing_",
    "covariate_variance_",
    "dispersion_",
    "nonnegative_",
    "source_",
    "_sklearn_output_config",
)


class FittedMethods(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Methods of a fitted estimator; what they need is one :class:`~hgplvm._fitted.FittedModel`."""

    _model: FittedModel
    device: str
    likelihood: str

    def _check_parameters(self) -> None:
        """Refuse parameters with which no fit could begin."""
        raise NotImplementedError

    # --- rows to latents ------------------------------------------------------------------

    @overload
    def transform(
        self,
        X: object,
        *,
        covariates: object = None,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        return_off_map: Literal[False] = False,
    ) -> Array: ...
    @overload
    def transform(
        self,
        X: object,
        *,
        covariates: object = None,
        return_std: bool = False,
        return_cov: bool = False,
        return_off_map: bool = False,
    ) -> Any: ...
    def transform(
        self,
        X: object,
        *,
        covariates: object = None,
        return_std: bool = False,
        return_cov: bool = False,
        return_off_map: bool = False,
    ) -> Any:
        """Find the latents of new rows: those that maximise their posterior density.

        A row that equals one of the training data, entry by entry, keeps the latent that the fit
        gave it, so that ``fit_transform`` and ``fit`` with ``transform`` agree. Every row is
        embedded by itself: it gets the same latent alone as among others, to nine digits (sums are
        taken in another order); rows of a new batch are the exception.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or tensor of shape (n_rows, n_features)
            New rows. Of a row with NaN, the other entries count; a row of NaN alone goes to the
            centre of the prior.
        covariates : as in `fit`, optional
            Covariates of the rows, where the fit had some. None in place of a batch stands for a
            new one: all such rows of a call are taken for one batch, whose shift is estimated from
            them.
        return_std : bool, default=False
            Whether to return the posterior standard deviations, too.
        return_cov : bool, default=False
            Whether to return posterior covariances instead; not together with `return_std`.
        return_off_map : bool, default=False
            Whether to return how well the model explains each row, too.

        Returns
        -------
        embedding : array of shape (n_rows, n_components)
            Coordinates, as in `embedding_`.
        std : array of shape (n_rows, n_components)
            With `return_std`: standard deviations, in the transported frame at each latent, of a
            wrapped normal that approximates its posterior: how uncertain the row is on the map,
            and the map there. A row of NaN alone has the prior's.
        cov : array of shape (n_rows, n_components, n_components)
            With `return_cov`: covariances in that frame.
        off_map : array of shape (n_rows,)
            With `return_off_map`, last: a p-value, the share of training rows that are as unusual
            for the model as this row. Rows that are not of the kind that the model was fitted to,
            such as an unseen cell type, have small ones; their latents mean little.
        """
        engine = self._engine()
        check.check_flag(self._name, "return_std", return_std)
        check.check_flag(self._name, "return_cov", return_cov)
        check.check_flag(self._name, "return_off_map", return_off_map)
        if return_std and return_cov:
            raise ValueError(
                "transform returns standard deviations or covariances, not both: the first are the "
                "roots of the diagonals of the second. Set one of return_std and return_cov."
            )
        found = engine.infer(*self._rows_and_covariates(X, covariates))
        known = found.known >= 0
        embedding = self._model.chart(engine.shown(found.x))
        embedding[known] = self.embedding_[found.known[known]]
        results = [embedding]
        if return_std or return_cov:
            cov = engine.covariances(found)
            cov[known] = self.posterior_cov_[found.known[known]]
            results.append(cov if return_cov else _roots(cov))
        if return_off_map:
            results.append(engine.off_map(found))
        return results[0] if len(results) == 1 else tuple(results)

    def score(self, X: object, y: object = None, *, covariates: object = None) -> float:  # noqa: ARG002
        """Mean log predictive density of rows at their inferred latents.

        Of counts, with a likelihood of counts, it is a log probability.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, in general new ones; NaN where an entry is missing.
        y : ignored
            Present for scikit-learn.
        covariates : as in `transform`, optional
            Covariates of the rows.

        Returns
        -------
        float
            Mean over the rows, in units of the data.
        """
        engine = self._engine()
        return engine.log_density(engine.infer(*self._rows_and_covariates(X, covariates)))

    # --- latents to rows ------------------------------------------------------------------

    @overload
    def inverse_transform(
        self, P: object, return_std: Literal[False] = False, *, covariates: object = None
    ) -> Array: ...
    @overload
    def inverse_transform(
        self, P: object, return_std: Literal[True], *, covariates: object = None
    ) -> tuple[Array, Array]: ...
    def inverse_transform(
        self, P: object, return_std: bool = False, *, covariates: object = None
    ) -> Array | tuple[Array, Array]:
        """Decode points of the latent space into rows.

        Parameters
        ----------
        P : array-like of shape (n_points, n_components)
            Coordinates, as in `embedding_`.
        return_std : bool, default=False
            Whether to return the standard deviation of each entry, too.
        covariates : value, dict, or as in `fit`, optional
            Decode for rows with these covariates: one value for all points, or one for each. What
            is not said is averaged over the training rows.

        Returns
        -------
        mean : array of shape (n_points, n_features)
            Expected row at each point, in units of the data.
        std : array of shape (n_points, n_features)
            With `return_std`: standard deviation of an observed row, noise included: the model's
            own variance at the point, times a factor for each column from the residuals of the
            training rows nearby. With a likelihood of counts, mean and standard deviation are
            those of the counts of a cell of median size.
        """
        engine = self._engine()
        check.check_flag(self._name, "return_std", return_std)
        points = self._model.coordinates(self._name, "P", P).to(engine.device)
        coded = self._coded_rows(covariates, len(points), partial=True)
        mean, std = engine.decode(engine.hidden(points), coded)
        return (mean, std) if return_std else mean

    def sample(self, n: int = 1, random_state: int | np.random.RandomState | None = None) -> Array:
        """Draw new rows from the model.

        A latent is drawn from the posterior of a random training row, and a row from what the model
        predicts there, for the row's own batch. With a likelihood of counts, rows are counts.

        Parameters
        ----------
        n : int, default=1
            Rows to draw.
        random_state : int, RandomState or None, default=None
            Seed.

        Returns
        -------
        array of shape (n, n_features)
        """
        engine = self._engine()
        check.check_number(self._name, "n", n, low=1, integer=True)
        random = check_random_state(random_state)
        rows = random.randint(len(self._model.latents), size=n)
        zeta = random.standard_normal((n, self._model.n_components))
        return engine.sample(rows, zeta, random)

    # --- views ----------------------------------------------------------------------------

    def recenter(self, root: object) -> Self:
        """Move a root to the origin by an isometry, and turn the picture to its canonical pose.

        The model does not change by it: distances, decoded rows and scores stay as they are.

        Parameters
        ----------
        root : int, array of bool of shape (n_samples,), or array of shape (n_components,)
            A row of the training data, the Fréchet mean of some rows, or a point in the coordinates
            of `embedding_`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._model = self._model.recentred(self._model.point(self._name, "root", root))
        self._show()
        return self

    @overload
    def pseudotime(self, root: object = None, return_std: Literal[False] = False) -> Array: ...
    @overload
    def pseudotime(
        self, root: object = None, *, return_std: Literal[True]
    ) -> tuple[Array, Array]: ...
    def pseudotime(
        self, root: object = None, return_std: bool = False
    ) -> Array | tuple[Array, Array]:
        """Distance of each training row from a root.

        Parameters
        ----------
        root : as in `recenter`, default=None
            Where time begins; None is the origin, where `center` or `recenter` put it.
        return_std : bool, default=False
            Whether to return the standard deviation of each distance, too, from the row's own
            posterior.

        Returns
        -------
        time : array of shape (n_samples,)
            Distances, hyperbolic for hyperbolic models.
        std : array of shape (n_samples,)
            With `return_std`. The root is taken as known.
        """
        check_is_fitted(self)
        check.check_flag(self._name, "return_std", return_std)
        point = None if root is None else self._model.point(self._name, "root", root)
        time = self._model.pseudotime(point)
        if not return_std:
            return time
        return time, self._model.pseudotime_std(point)

    def geodesic(
        self, a: object, b: object, n_points: int = 100, *, metric: str = "latent"
    ) -> Array:
        """Points at equal distances along the geodesic between two points.

        `inverse_transform` decodes the rows along it.

        Parameters
        ----------
        a, b : as the root in `recenter`
            Where it begins and ends.
        n_points : int, default=100
            How many, both ends included.
        metric : {"latent", "data"}, default="latent"
            "latent" is the straight way on the map. "data" is the shortest in the decoder's metric,
            with its uncertainty: it is long where decoded rows change and where they are not known,
            so that the path goes around empty regions.

        Returns
        -------
        array of shape (n_points, n_components)
            Coordinates, as in `embedding_`.
        """
        check_is_fitted(self)
        check.check_number(self._name, "n_points", n_points, low=2, integer=True)
        check.check_option(self._name, "metric", metric, ("latent", "data"))
        model = self._model
        start, end = (model.point(self._name, k, v) for k, v in (("a", a), ("b", b)))
        if metric == "latent":
            return model.geodesic(start, end, n_points)
        self._check_hyperbolic("metric='data'")
        first, last = (model.pose.points(point) for point in (start, end))
        return model.chart(data_geodesic(self._engine(), first, last, n_points))

    def drivers(self, at: object, *, reach: float | None = None) -> Drivers:
        """Which columns make the map at a point: how decoded rows change around it.

        Parameters
        ----------
        at : as the root in `recenter`, or a tuple of two of these
            A point, or where a change begins and where it ends.
        reach : float, optional
            Length, in curvature radii, over which the change around a point is taken; by default
            15% of the median distance between the rows.

        Returns
        -------
        Drivers
            ``gradient`` and ``std`` of each column along the axes of the frame, ``size`` and ``z``;
            ``top(10)`` names the columns that change most. Printed, it is a table of these.
        """
        check_is_fitted(self)
        self._check_hyperbolic("drivers")
        if reach is not None:
            check.check_number(self._name, "reach", reach, low=0, closed=False)
        model, engine = self._model, self._engine()
        n = self.n_features_in_
        known = getattr(self, "_columns", [str(i) for i in range(n)])
        names = np.asarray(getattr(self, "feature_names_in_", known), dtype=str)
        if isinstance(at, tuple) and len(at) == 2 and not all(isinstance(v, float) for v in at):
            first, last = (model.pose.points(model.point(self._name, "at", p)) for p in at)
            return drivers_between(engine, first, last, names)
        point = model.pose.points(model.point(self._name, "at", at))
        return drivers_at(engine, point, names, reach)

    def _check_hyperbolic(self, what: str) -> None:
        if not isinstance(self._model.manifold, Hyperbolic):
            raise ValueError(
                f"{what} is for hyperbolic models, and {self._name} is none: fit HGPLVM or another "
                "of these."
            )

    def distances(self, P: object = None) -> Array:
        """All distances between points, hyperbolic for hyperbolic models.

        Parameters
        ----------
        P : array-like of shape (n_points, n_components), default=None
            Coordinates, as in `embedding_`; None takes the training rows.

        Returns
        -------
        array of shape (n_points, n_points)
        """
        check_is_fitted(self)
        points = None if P is None else self._model.coordinates(self._name, "P", P)
        return self._model.distances(points)

    def curvature(self, *, quick: bool = False) -> Curvature:
        """Say whether the data call for a curved space, or a plane explains them as well.

        Of a sample of the training rows (:mod:`hgplvm._curvature`): whether group means lie in a
        plane, whether distances add up as on a tree, whether there is a hierarchy and not a star,
        and whether latents in curved space predict held-out entries of held-out rows better than
        latents in flat space.

        Parameters
        ----------
        quick : bool, default=False
            Whether to leave out the prediction, which takes a few seconds. What distances alone do
            not decide is then said to be undecided, and counts as flat.

        Returns
        -------
        Curvature
            ``curved``, the verdict, ``reason`` in words, and the evidence. Printed, it says all of
            it in a few lines; :func:`hgplvm.pl.curvature` draws it.
        """
        check_is_fitted(self)
        check.check_flag(self._name, "quick", quick)
        model = self._model
        if not isinstance(model.manifold, Hyperbolic):
            raise ValueError(
                f"{self._name} is not hyperbolic, and only a hyperbolic model can say how curved "
                "the data are: fit one, such as HGPLVM, and ask that."
            )
        if model.sample is None:
            raise ValueError(
                f"{self._name} was kept without the sample of rows that tells whether data are "
                "curved: fit it again."
            )
        middle, low, high = model.scale()
        found = judge(model.sample, model.scores, quick=quick)
        return replace(found, scale=middle, scale_low=low, scale_high=high)

    # --- files ----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which :func:`hgplvm.load` reads.

        The file is a safetensors file with a JSON header. It holds no code, and an existing file is
        replaced only when the new one is complete. The exact and the nearest-neighbour models keep
        the training data in it. Not kept are a `callback`, a `checkpoint`, and a `random_state`
        that is not a number. Of a subclass or a kernel of your own only the name is kept: the
        program that loads the file must have imported it.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced.
        """
        check_is_fitted(self)
        target = check.check_path(self._name, "path", path)
        self._check_parameters()  # they may have changed since the fit, and must be loadable
        parameters = self.get_params(deep=False) | {"callback": None, "checkpoint": None}
        parameters["device"] = str(parameters["device"])
        if not isinstance(parameters["random_state"], int | np.integer):
            parameters["random_state"] = None
        if not isinstance(parameters["init"], str):
            parameters["init"] = check.as_array(parameters["init"]).astype(np.float64)
        if isinstance(parameters["kernel"], Kernel):
            parameters["kernel"] = kernel_tree(parameters["kernel"])
        fitted = {name: getattr(self, name) for name in ATTRIBUTES}
        fitted |= {name: getattr(self, name) for name in OPTIONAL if hasattr(self, name)}
        tree = {
            "class": class_name(type(self), "its class"),
            "parameters": parameters,
            "fitted": fitted,
            "model": model_tree(self._model),
        }
        storage.write(target, "model", tree)

    # --- the model behind it --------------------------------------------------------------

    def _engine(self) -> Engine:
        """Return the fitted model on the device that the parameter names."""
        check_is_fitted(self)
        return self._model.engine(check.check_device(self._name, self.device))

    def _rows_and_covariates(self, X: object, covariates: object) -> tuple[Any, Coded | None]:
        """Read new rows, and their covariates as numbers."""
        rows = self._read(X, fitting=False)
        if self._is_of_counts:
            check_counts(self._name, rows)
        return rows, self._coded_rows(covariates, rows.shape[0])

    def _coded_rows(
        self, covariates: object, n_rows: int, *, partial: bool = False
    ) -> Coded | None:
        """Covariates of rows as numbers; None where the fit had none."""
        known = self._model.covariates
        if known is None:
            if covariates is not None and not hasattr(self, "covariate_variance_"):
                raise ValueError(
                    f"{self._name} was fitted without covariates: leave them out, or fit again "
                    "with those of the training rows."
                )
            return None
        if covariates is None:
            if partial:
                return None
            names = ", ".join(repr(name) for name in known.coding.names)
            raise ValueError(
                f"{self._name} was fitted with the covariates {names}: pass those of these rows, "
                "with None where the batch is a new one."
            )
        return known.coding.coded(self._name, covariates, n_rows, partial=partial)

    @property
    def _is_of_counts(self) -> bool:
        """Whether the fitted model is one of counts, whatever the parameter says by now."""
        return isinstance(self._model.units, RateUnits)

    def _show(self) -> None:
        """Set the attributes that depend on the pose."""
        model = self._model
        self.kernel_ = model.covariance.kernel
        self.embedding_ = model.embedding()
        if name := model.manifold.points_attribute:
            setattr(self, name, model.points())
        if (inducing := model.inducing()) is not None:
            self.inducing_ = inducing
        self.posterior_cov_ = model.posterior_cov()
        self.posterior_std_ = _roots(self.posterior_cov_)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def _read(self, X: object, *, fitting: bool) -> Any:
        """Validate rows: float64, NaN where an entry is missing; counts stay sparse."""
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
        of_counts = self.likelihood != "gaussian" if fitting else self._is_of_counts
        if issparse(checked) and of_counts:
            return checked
        rows: Array = checked.toarray() if issparse(checked) else checked
        return rows


def _roots(covariances: Array) -> Array:
    """Roots of the diagonals: [n, Q]."""
    return np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
