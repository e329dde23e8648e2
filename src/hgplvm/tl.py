"""Tools for AnnData objects, in the style of scanpy: results are stored in the object.

>>> import hgplvm as hg, scanpy as sc  # doctest: +SKIP
>>> adata = sc.datasets.krumsiek11()  # doctest: +SKIP
>>> hg.tl.hgplvm(adata)  # doctest: +SKIP
>>> hg.tl.pseudotime(adata, root={"cell_type": "progenitor"})  # doctest: +SKIP
>>> hg.pl.poincare(adata, color="hgplvm_pseudotime")  # doctest: +SKIP

Keys of the results, for the default ``key_added="hgplvm"``:

- ``obsm["X_hgplvm"]``: coordinates on the Poincaré ball (``sc.pl.embedding(adata, "hgplvm")``);
- ``obsm["X_hgplvm_lorentz"]``: the same points on the Lorentz model;
- ``obsm["hgplvm_covariance"]``: the posterior covariance matrix of each position, flattened;
- ``obs["hgplvm_std"]``: the same as one number, a standard deviation in curvature radii;
- ``obs["hgplvm_pseudotime"]``, ``obs["hgplvm_pseudotime_std"]``: distance from the root;
- ``obs["hgplvm_off_map"]``: how well the model explains new rows, a p-value (:func:`transform`);
- ``obs["hgplvm_branch"]``, ``obs["hgplvm_position"]``, ``obsm["hgplvm_fates"]``: the likeliest
  branch, the position along it, and the probabilities of the ends (:func:`lineages`);
- ``obs["hgplvm_stability"]``: how well other fits keep a row's distances (:func:`stability`);
- ``uns["hgplvm"]``: parameters, length scale, evidence curve, history, and the fitted model.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._advice import warn_of_depth
from hgplvm._embedding import (
    batches_of,
    covariate_names,
    estimator_of,
    likelihood_of,
    matched,
    placed,
    results_of,
    write_positions,
)
from hgplvm._points import resolve_point
from hgplvm._statements import branch_genes, curvature, lineages, say_if_flat, stability, trends
from hgplvm._typing import Array
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.geometry import lorentz
from hgplvm.manifolds import Hyperbolic, wrapped_normal

__all__ = [
    "branch_genes",
    "curvature",
    "hgplvm",
    "lineages",
    "model",
    "pseudotime",
    "stability",
    "transform",
    "trends",
]

logger = logging.getLogger(__name__)


def hgplvm(
    adata: Any,
    model: str | BaseGPLVM = "auto",
    *,
    use_rep: str | None = None,
    layer: str | None = None,
    mask_var: str | Array | None = "auto",
    normalize: bool | None = None,
    likelihood: str = "auto",
    batch_key: str | None = None,
    covariates: str | Sequence[str] | None = None,
    n_components: int = 2,
    random_state: int | np.random.RandomState | None = 0,
    root: Any = None,
    key_added: str = "hgplvm",
    keep_model: bool = True,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Embed the rows of an AnnData object in hyperbolic space.

    Parameters
    ----------
    adata : AnnData
        Rows to embed, in memory or backed by a file. NaN is a missing entry. Results are set in
        memory; ``adata.write()`` saves them.
    model : {"auto", "exact", "sparse", "bayesian", "vecchia"} or estimator, default="auto"
        Which model: "auto" takes the exact one for up to 1,000 rows and nearest neighbours
        ("vecchia") beyond, as ``hgplvm fit`` does. An estimator, such as ``HGPLVM(max_iter=50)``,
        is copied and fitted, with its own `n_components` and `random_state`.
    use_rep : str, optional
        A key of ``adata.obsm``, such as "X_pca", to fit instead of ``adata.X``.
    layer : str, optional
        A key of ``adata.layers``, to fit instead of ``adata.X``.
    mask_var : str, array of bool, or None, default="auto"
        Which columns of ``X`` or the layer to take: a column of ``adata.var``, or a mask. "auto" is
        ``var["highly_variable"]`` where there is one, else all, or of more than 2,000 genes of
        counts or their logarithms the most variable; None is all.
    normalize : bool, optional
        True turns raw counts into logarithms at the median depth, on a copy, and fits these. By
        default raw counts are recognised and fitted as counts (`likelihood`); logarithms of
        normalised counts are recognised, too, and what the depth does to them is subtracted.
        False takes the numbers as they are.
    likelihood : {"auto", "gaussian", "poisson", "negative-binomial"}, default="auto"
        Likelihood of the rows. "auto" is the negative binomial for raw counts, which are then taken
        as they are, and the Gaussian one for all else. An estimator that was made with a likelihood
        of counts keeps it. Where `normalize` is given, or the estimator has uniform noise, a random
        start or ``optimizer="rgd"``, "auto" is Gaussian.
    batch_key : str, optional
        A column of ``adata.obs`` with the batch (donor, plate, technology) of each cell, which is
        to have no part in the map.
    covariates : str or list of str, optional
        More such columns: words are categories, floating-point numbers continuous.
    n_components : int, default=2
        Dimensions of the latent space.
    random_state : int, RandomState or None, default=0
        Seed, as in scanpy: the same call gives the same embedding.
    root : int, str, dict, array of bool, optional
        What to put at the origin: a row by its index or name, a group such as
        ``{"cell_type": "HSC"}``, or a mask. By default the middle of all rows.
    key_added : str, default="hgplvm"
        Name of the results.
    keep_model : bool, default=True
        Whether to keep the fitted model in ``uns``, to decode points, embed new rows and draw
        fields. The exact and the nearest-neighbour models hold the data that they were fitted to.
    copy : bool, default=False
        Whether to return a copy with the results and leave `adata` alone.
    **parameters
        Further parameters of the estimator, such as ``max_iter=100`` or ``verbose=1``.

    Returns
    -------
    AnnData or None
        With `copy`, the copy; else nothing, and these are set:

        ``obsm["X_hgplvm"]``, ``obsm["X_hgplvm_lorentz"]``
            Positions on the Poincaré ball and on the Lorentz model.
        ``obs["hgplvm_std"]``, ``obsm["hgplvm_covariance"]``
            Posterior uncertainty: the root mean square of the standard deviations along the axes,
            in curvature radii, and the covariances in the transported frames.
        ``uns["hgplvm"]``
            ``params``, ``length_scale``, ``variance``, ``noise_variance``, ``log_likelihood``,
            ``n_iter``, ``stop_reason``, ``history``, with covariates ``covariate_variance`` and
            ``batch_mixing`` (before and after), ``evidence`` (the curve that
            :func:`hgplvm.pl.length_scales` draws), ``noise`` (levels that were scored),
            ``features`` and ``fitted`` (the model file).
    """
    owner = "tl.hgplvm"
    ad.check_anndata(owner, adata, least=2)
    ad.check_writable(owner, adata, copy=copy)
    keys = ad.checked_keys(owner, "key_added", key_added)
    check.check_flag(owner, "keep_model", keep_model)
    check.check_flag(owner, "copy", copy)
    if normalize is not None:
        check.check_flag(owner, "normalize", normalize)
    own = {"n_components": n_components, "random_state": random_state}
    estimator = estimator_of(model, adata.n_obs, {**own, **parameters})
    place = None if root is None else ad.root_rows(owner, "root", adata, root)
    if place is not None:  # what is wrong with it is to be said before a long fit
        check.check_number(owner, "n_components", estimator.n_components, low=1, integer=True)
        origin = lorentz.origin(estimator.n_components)
        resolve_point(owner, "root", place, origin.expand(adata.n_obs, -1))
    names = covariate_names(owner, batch_key, covariates)
    known = ad.covariates_of(owner, adata, names, batch_key)
    likelihood = likelihood_of(owner, likelihood, estimator)
    matrix = ad.read_matrix(
        owner,
        adata,
        use_rep=use_rep,
        layer=layer,
        mask_var=mask_var,
        normalize=normalize,
        likelihood=likelihood,
    )
    estimator.set_params(likelihood=matrix.source.get("likelihood", "gaussian"))
    estimator._columns = matrix.columns
    estimator.fit(matrix.values, covariates=known)
    if place is not None:
        estimator.recenter(place)
    covariance = np.asarray(estimator.posterior_cov_)
    source = dict(matrix.source)
    if "likelihood" in source:  # what expected counts are those of
        total = np.nansum(matrix.values, axis=1) if not issparse(matrix.values) else None
        total = matrix.values.sum(axis=1) if total is None else total
        source["target_sum"] = float(np.median(np.asarray(total, dtype=float)))
    if known is not None:
        source["covariates"] = list(known)
    if batch_key is not None:
        source["batch_key"] = batch_key
    say_if_flat(owner, estimator)
    if (sizes := ad.library_sizes(adata, matrix)) is not None:
        warn_of_depth(owner, estimator.embedding_, sizes)
    found = results_of(estimator, matrix.columns, source, keep_model=keep_model)
    if known is not None:
        found |= batches_of(estimator, matrix.values, known, batch_key)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    write_positions(adata, estimator.embedding_, covariance, keys=keys, uns={keys.uns: found})
    return adata if copy else None


def model(adata: Any, *, key: str = "hgplvm") -> BaseGPLVM:
    """Return the fitted model of an embedding, to decode, sample, score and embed rows.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on, also one that was read from a file.
    key : str, default="hgplvm"
        The `key_added` of that call.

    Returns
    -------
    estimator
        Its columns are ``adata.uns[key]["features"]``.
    """
    ad.check_anndata("tl.model", adata)
    keys = ad.checked_keys("tl.model", "key", key)
    found: BaseGPLVM = ad.stored_model("tl.model", adata, keys)
    features = ad.results("tl.model", adata, keys).get("features")
    if features is not None:  # what drivers are named after; rows are still arrays without names
        found._columns = np.asarray(features).astype(str)
    return found


def transform(
    adata: Any,
    reference: Any,
    *,
    layer: str | None = None,
    use_rep: str | None = None,
    new_batches: bool = False,
    key: str = "hgplvm",
    copy: bool = False,
) -> Any:
    """Embed new rows with a model that was fitted to others.

    Columns are matched by name; those that the new rows lack count as missing. Counts are
    normalised if those of the fit were, by their sum over the columns that the new rows have.

    Parameters
    ----------
    adata : AnnData
        The new rows.
    reference : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on.
    layer : str, optional
        A key of ``adata.layers``; by default the layer that was fitted in `reference`.
    use_rep : str, optional
        A key of ``adata.obsm``; by default the representation that was fitted in `reference`. New
        rows must have been projected onto the same axes.
    new_batches : bool, default=False
        Whether a batch that the fit has not seen is a new one, whose shift is estimated from its
        cells; by default such a batch is an error.
    key : str, default="hgplvm"
        Name of the results, in both objects.
    copy : bool, default=False
        Whether to return a copy with the results and leave `adata` alone.

    Returns
    -------
    AnnData or None
        With `copy`, the copy; else nothing, and positions and uncertainty are set as by
        :func:`hgplvm.tl.hgplvm`, and ``obs["hgplvm_off_map"]``: a p-value that is small for cells
        that the model does not explain, such as those of an unseen type.
    """
    owner = "tl.transform"
    for thing in (adata, reference):
        ad.check_anndata(owner, thing)
    keys = ad.checked_keys(owner, "key", key)
    check.check_flag(owner, "copy", copy)
    found = ad.results(owner, reference, keys)
    fitted = ad.stored_model(owner, reference, keys)
    params = found.get("params", {})
    if "features" not in found:
        raise ValueError(
            f"{owner} needs the names of the columns in reference.uns[{keys.uns!r}], which another "
            "version may have left out: run hgplvm.tl.hgplvm(reference) again."
        )
    use_rep = params.get("use_rep") if use_rep is None else use_rep
    layer = params.get("layer") if layer is None and use_rep is None else layer
    matrix = ad.read_matrix(
        owner,
        adata,
        use_rep=use_rep,
        layer=layer,
        mask_var=None,
        # where the fit was told, as then; else raw counts are recognised here, too
        normalize=None if params.get("normalize") is None else bool(params["normalize"]),
        fitted=params,
    )
    features = np.asarray(found["features"], dtype=object)
    rows = matched(owner, matrix, features)
    check.check_flag(owner, "new_batches", new_batches)
    known = fitted._model.covariates
    names = [] if known is None else list(known.coding.names)
    lacks = [] if known is None or not new_batches else [p.name for p in known.coding.categorical]
    there = [name for name in names if name in adata.obs or name not in lacks]
    covariates = ad.covariates_of(owner, adata, there) or {}
    embedding, covariance, off_map = placed(fitted, rows, covariates, new_batches=new_batches)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    uns = {keys.uns: _copied(found)}
    write_positions(adata, np.asarray(embedding), covariance, keys=keys, uns=uns)
    ad.write(adata, obs={keys.off_map: off_map})
    return adata if copy else None


def pseudotime(adata: Any, root: Any = None, *, key: str = "hgplvm", copy: bool = False) -> Any:
    """Order rows by their hyperbolic distance from a root, with its uncertainty.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on.
    root : int, str, dict, array of bool or array of shape (n_components,), optional
        Where time begins: a row by its index or name, a group such as ``{"cell_type": "HSC"}`` or a
        mask (their Fréchet mean), or a point of the ball. By default ``adata.uns["iroot"]``, which
        scanpy uses, too.
    key : str, default="hgplvm"
        The `key_added` of the fit.
    copy : bool, default=False
        Whether to return a copy with the results and leave `adata` alone.

    Returns
    -------
    AnnData or None
        With `copy`, the copy; else nothing, and these are set:

        ``obs["hgplvm_pseudotime"]``
            Distance from the root, in curvature radii.
        ``obs["hgplvm_pseudotime_std"]``
            Its standard deviation, from the posterior of each row; the root is taken as known.
    """
    owner = "tl.pseudotime"
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    check.check_flag(owner, "copy", copy)
    ad.check_embedded(owner, adata, keys)
    if root is None:
        if "iroot" not in adata.uns:
            raise ValueError(
                "tl.pseudotime needs a root: a row, a group such as {'cell_type': 'HSC'}, a mask, "
                "or a point; or set adata.uns['iroot']."
            )
        root = np.asarray(adata.uns["iroot"]).reshape(-1)[0]
    points = ad.positions(adata, keys)
    place = resolve_point(owner, "root", ad.root_rows(owner, "root", adata, root), points)
    time = lorentz.distance(place, points).numpy()
    obs = {keys.pseudotime: time}
    if keys.covariance in adata.obsm:
        q = points.shape[1] - 1
        covariance = np.array(adata.obsm[keys.covariance], dtype=np.float64).reshape(-1, q, q)
        _, std = wrapped_normal.distance_moments(
            Hyperbolic(), place, points, torch.from_numpy(covariance)
        )
        obs[keys.pseudotime_std] = std.numpy()
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    ad.write(adata, obs=obs)
    return adata if copy else None


def __dir__() -> list[str]:
    return sorted(__all__)


# --- parts ----------------------------------------------------------------------------------


def _copied(tree: Any) -> Any:
    """Return a copy of nested dicts; arrays are nowhere changed in place."""
    return {k: _copied(v) for k, v in tree.items()} if isinstance(tree, Mapping) else tree
