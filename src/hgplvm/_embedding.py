"""Fits for AnnData objects and files: choose a model, fit it, and store the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._anndata import Keys
from hgplvm._typing import Array
from hgplvm.estimators import choose_model
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.estimators.choice import MODELS
from hgplvm.geometry import poincare_to_lorentz
from hgplvm.kernels import Kernel
from hgplvm.manifolds import Hyperbolic

__all__ = ["estimator_of", "posterior", "results_of", "rms_std", "write_positions"]

# rows whose uncertainty is computed at a time
CHUNK = 20_000


def estimator_of(model: object, n_rows: int, parameters: dict[str, Any]) -> BaseGPLVM:
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
        estimator = choose_model(model, n_rows)()
        if isinstance(most := getattr(estimator, "n_inducing", None), int):
            parameters = {"n_inducing": min(most, n_rows), **parameters}
    kind = type(estimator)
    if kind._manifold != Hyperbolic():
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


def posterior(estimator: BaseGPLVM, values: Any) -> Array:
    """Return covariances [n, Q, Q] of the rows of a fit, for every model."""
    if hasattr(estimator, "posterior_cov_"):
        return np.asarray(estimator.posterior_cov_)
    rows = range(0, values.shape[0], CHUNK)
    found = [estimator.transform(values[at : at + CHUNK], return_cov=True)[1] for at in rows]
    return np.concatenate(found)


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
    for name in (keys.pseudotime, keys.pseudotime_std):  # of positions that are no more
        if name in adata.obs:
            del adata.obs[name]
