"""Fits for AnnData objects and files: choose a model, fit it, and store the results."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._anndata import Keys
from hgplvm._columns import aligned
from hgplvm._counts import LIKELIHOODS
from hgplvm._covariates import level
from hgplvm._typing import Array
from hgplvm.estimators import choose_model
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.estimators.choice import MODELS
from hgplvm.geometry import poincare_to_lorentz
from hgplvm.kernels import Kernel
from hgplvm.manifolds import Hyperbolic
from hgplvm.metrics import batch_mixing

__all__ = [
    "batches_of",
    "covariate_names",
    "estimator_of",
    "likelihood_of",
    "matched",
    "placed",
    "results_of",
    "rms_std",
    "write_positions",
]

logger = logging.getLogger(__name__)

# rows of which it is computed how batches are mixed
MIXED_ROWS = 5000


def estimator_of(
    model: object, n_rows: int, parameters: dict[str, Any], *, flat: bool = False
) -> BaseGPLVM:
    """Return the estimator to fit: a copy of the one that is given, or that of a name."""
    if isinstance(model, BaseGPLVM):
        estimator: BaseGPLVM = clone(model)
        own = ("n_components", "random_state")
        parameters = {name: value for name, value in parameters.items() if name not in own}
    else:
        if not isinstance(model, str):
            raise ValueError(
                "The 'model' parameter of tl.hgplvm must be the name of a model, such as "
                f"'bayesian' or 'auto', or an estimator. Got {model!r:.60} instead."
            )
        check.check_option("tl.hgplvm", "model", model, ("auto", *MODELS))
        estimator = choose_model(model, n_rows, flat=flat)()
        if isinstance(most := getattr(estimator, "n_inducing", None), int):
            parameters = {"n_inducing": min(most, n_rows), **parameters}
    kind = type(estimator)
    if not flat and kind._manifold != Hyperbolic():
        raise ValueError(
            f"The 'model' parameter of tl.hgplvm must be hyperbolic. Got {kind.__name__}, which is "
            "not: fit it to adata.X itself and put its embedding_ into adata.obsm."
        )
    if unknown := sorted(parameters.keys() - estimator.get_params().keys()):
        raise TypeError(
            f"tl.hgplvm has no parameter {unknown[0]!r}, nor has {kind.__name__}, whose parameters "
            f"are {', '.join(sorted(estimator.get_params()))}."
        )
    estimator.set_params(**parameters)
    return estimator


def covariate_names(owner: str, batch_key: str | None, covariates: Any) -> list[str]:
    """Names of the columns of obs that are covariates, the batch first."""
    if batch_key is not None and not isinstance(batch_key, str):
        raise ValueError(
            f"The 'batch_key' of {owner} must be the name of a column of adata.obs. Got "
            f"{batch_key!r:.60} instead; several go into 'covariates'."
        )
    if isinstance(covariates, str):
        covariates = [covariates]
    more = [] if covariates is None else list(covariates)
    if not all(isinstance(name, str) for name in more):
        raise ValueError(
            f"The 'covariates' of {owner} must be names of columns of adata.obs. Got "
            f"{more[0]!r:.60} instead."
        )
    names = ([] if batch_key is None else [batch_key]) + more
    return list(dict.fromkeys(names))


def likelihood_of(owner: str, likelihood: object, estimator: BaseGPLVM) -> str:
    """Return the likelihood that is asked for; "auto" where the data are to decide."""
    chosen = check.check_option(owner, "likelihood", likelihood, ("auto", *LIKELIHOODS))
    if chosen != "auto":
        return chosen
    if estimator.likelihood != "gaussian":  # an estimator that says so itself
        return str(estimator.likelihood)
    return "gaussian" if estimator._noise_is_uniform else "auto"


def batches_of(
    estimator: BaseGPLVM, values: Any, covariates: dict[str, Array], batch_key: str | None
) -> dict[str, Any]:
    """Return what a fit says of covariates, for uns."""
    found: dict[str, Any] = {
        "covariate_variance": {k: float(v) for k, v in estimator.covariate_variance_.items()}
    }
    if batch_key is not None and len(set(map(str, covariates[batch_key]))) > 1:
        before, after = batch_mixing_of(estimator, values, covariates[batch_key])
        found["batch_mixing"] = {"before": before, "after": after}
        logger.info("batches are mixed to %.2f after the fit, %.2f before", after, before)
    return found


def batch_mixing_of(estimator: BaseGPLVM, values: Any, batch: Array) -> tuple[float, float]:
    """Mixing of batches in the leading directions of the data, and on the map."""
    chosen = np.sort(np.random.default_rng(0).permutation(values.shape[0])[:MIXED_ROWS])
    own = np.asarray(batch)[chosen].astype(str)
    before = ad.leading_directions(values, chosen)
    return (
        batch_mixing(before, own, metric="euclidean"),
        batch_mixing(np.asarray(estimator.embedding_)[chosen], own),
    )


def matched(owner: str, matrix: ad.Matrix, features: Array) -> Any:
    """Return new rows with the columns of the fit, in its order; NaN where there are none."""
    columns, wanted = matrix.columns.astype(str), features.astype(str)
    if "use_rep" in matrix.source and not set(wanted) <= set(columns):
        if matrix.values.shape[1] != len(features):
            raise ValueError(
                f"{owner} needs the {len(features)} columns of the representation that was fitted. "
                f"Got {matrix.values.shape[1]} instead: project the new rows onto the same axes."
            )
        return matrix.values
    values, missing = aligned(matrix.values, columns.tolist(), wanted.tolist())
    if len(missing) == len(wanted):
        raise ValueError(
            f"{owner} finds none of the {len(wanted)} columns of the fit ({missing[0]!r}, …) "
            "among the new rows: check that both have the same kind of names in var_names."
        )
    if missing:
        words = "%s: %d of %d columns are missing in the new rows"
        logger.warning(words, owner, len(missing), len(wanted))
    return values


def placed(
    fitted: BaseGPLVM, rows: Any, covariates: dict[str, Array], *, new_batches: bool
) -> tuple[Array, Array, Array]:
    """Positions, covariances and p-values of new rows; with `new_batches`, each batch by itself."""
    known = fitted._model.covariates
    if known is None:
        found = fitted.transform(rows, return_cov=True, return_off_map=True)
        return tuple(np.asarray(part) for part in found)  # type: ignore[return-value]
    coding, n_rows = known.coding, rows.shape[0]
    nothing = np.full(n_rows, None, dtype=object)
    covariates = {name: covariates.get(name, nothing) for name in coding.names}
    group = [""] * n_rows
    for part in coding.categorical:
        if not new_batches:
            gaps = [row for row, word in enumerate(covariates[part.name]) if level(word) is None]
            if gaps:
                raise ValueError(
                    f"The covariate {part.name!r} has a missing value in row {gaps[0]}: fill it "
                    "in, or say that these rows are of a new batch (new_batches=True)."
                )
    if new_batches:
        for part in coding.categorical:
            words = np.asarray(covariates[part.name], dtype=object)
            unseen = np.array([level(word) not in (part.levels or ()) for word in words])
            covariates[part.name] = np.where(unseen, nothing, words)
            group = [
                f"{g}|{level(w)}" if new else g
                for g, w, new in zip(group, words, unseen, strict=True)
            ]
    points = np.zeros((n_rows, fitted.embedding_.shape[1]))
    covariance = np.zeros((n_rows, points.shape[1], points.shape[1]))
    off_map = np.zeros(n_rows)
    for name in dict.fromkeys(group):
        at = np.flatnonzero(np.array(group) == name)
        own = {k: v[at] for k, v in covariates.items()}
        try:
            points[at], covariance[at], off_map[at] = fitted.transform(
                rows[at], covariates=own, return_cov=True, return_off_map=True
            )
        except ValueError as error:
            advice = "Rows of a new batch are embedded with new_batches=True."
            raise ValueError(
                str(error).replace("For rows of a new batch pass None.", advice)
            ) from None
    return points, covariance, off_map


def rms_std(covariance: Array) -> Array:
    """Return one number per row [n]: the root mean square of the deviations along the axes."""
    return np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).mean(axis=1))


def results_of(
    estimator: BaseGPLVM, columns: Array, source: dict[str, Any], *, keep_model: bool
) -> dict[str, Any]:
    """Return what goes into uns: nothing but what a file can hold."""
    estimator.source_ = dict(source)
    parameters = estimator.get_params(deep=False)
    kept = {k: _plain(v) for k, v in parameters.items()}
    params = {"model": type(estimator).__name__, **source, **kept}
    steps, evidence, noise = {}, {}, {}
    for name, values in estimator.history_.items():
        if name.startswith("search_"):
            evidence[name.removeprefix("search_")] = values
        elif name.startswith("noise_") and name != "noise_variance":
            noise[name.removeprefix("noise_")] = values
        else:
            steps[name] = values
    found = {
        "params": {name: value for name, value in params.items() if value is not None},
        "length_scale": float(estimator.length_scale_),
        "variance": float(estimator.variance_),
        "noise_variance": float(estimator.noise_variance_),
        "log_likelihood": float(estimator.log_likelihood_),
        "n_iter": int(estimator.n_iter_),
        "stop_reason": estimator.stop_reason_,
        "history": steps,
        "features": np.asarray(columns, dtype=str).astype(object),
    }
    for name, curve in (("evidence", evidence), ("noise", noise)):
        if curve:
            found[name] = {
                k: v.astype(object) if v.dtype.kind == "U" else v for k, v in curve.items()
            }
    if keep_model:
        found["fitted"] = ad.model_bytes(estimator)
    return found


def _plain(value: Any) -> Any:
    """Return a parameter as a file can hold it; None where it cannot."""
    if isinstance(value, np.random.RandomState) or callable(value):
        return None
    if isinstance(value, Kernel):
        return repr(value)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return check.as_array(value) if hasattr(value, "__len__") else str(value)


def write_positions(
    adata: Any,
    embedding: Array,
    covariance: Array,
    *,
    keys: Keys = Keys(),  # noqa: B008
    uns: dict[str, Any] | None = None,
) -> None:
    """Set the positions of rows, and their uncertainty."""
    n, q = embedding.shape
    ad.write(
        adata,
        obsm={
            keys.embedding: embedding,
            keys.lorentz: poincare_to_lorentz(torch.from_numpy(embedding).double()).numpy(),
            keys.covariance: covariance.reshape(n, q * q),
        },
        obs={keys.std: rms_std(covariance)},
        uns=uns or {},
    )
    for name in keys.of_positions:  # that are no more
        if name in adata.obs:
            del adata.obs[name]
    for name in (keys.branches, keys.fates):
        if name in adata.obsm:
            del adata.obsm[name]
