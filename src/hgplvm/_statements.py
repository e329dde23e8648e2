"""What can be said of cells after a fit: flat or curved, lineages, trends, drivers, stability.

The functions of :mod:`hgplvm.tl` that ask a fitted embedding in an AnnData object.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from scipy.stats import norm
from sklearn.base import clone

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._curvature import UNDECIDED, Curvature
from hgplvm._embedding import matched
from hgplvm._lineages import Skeleton, find_skeleton, given_skeleton, places, span
from hgplvm._optional import require
from hgplvm._points import resolve_point
from hgplvm._trends import Trend, fit_trend, gather
from hgplvm._typing import Array
from hgplvm.errors import FlatDataWarning
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.geometry import lorentz, lorentz_to_poincare, poincare_to_lorentz

__all__ = [
    "branch_genes",
    "curvature",
    "flat_line",
    "lineages",
    "read_skeleton",
    "say_if_flat",
    "stability",
    "trends",
]

logger = logging.getLogger(__name__)

# membership of a lineage below which a row has no part in its trends
LEAST_SHARE = 0.2
# rows on each side that a comparison of branches needs
FEWEST_ROWS = 10
# genes from which on the difference of most is taken for one of the libraries
FEWEST_GENES = 20
# rows whose distances tell how stable a map is, and share of the rows of a resampled fit
STABLE_ROWS, RESAMPLED = 1000, 0.8


# --- flat or curved -------------------------------------------------------------------------


def curvature(adata: Any, *, key: str = "hgplvm") -> Curvature:
    """Say whether the data call for a curved space, or a plane explains them as well.

    See :meth:`hgplvm.HGPLVM.curvature`.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on.
    key : str, default="hgplvm"
        The `key_added` of the fit.

    Returns
    -------
    Curvature
        Verdict and evidence; they are kept in ``uns["hgplvm"]["curvature"]``, too.
    """
    owner = "tl.curvature"
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    found: Curvature = ad.stored_model(owner, adata, keys).curvature()
    _keep(adata, keys, "curvature", asdict(found))
    return found


def flat_line(estimator: BaseGPLVM) -> str | None:
    """Say in one line that a plane explains the data of a fit as well; None where it may not."""
    found = estimator.curvature(quick=True)
    if found.curved or found.reason == UNDECIDED:
        return None
    return f"{found.reason} (a flat model, or PCA, is as good)"


def say_if_flat(owner: str, estimator: BaseGPLVM) -> None:
    """Warn with that line."""
    if line := flat_line(estimator):
        warnings.warn(f"{owner}: {line}", FlatDataWarning, stacklevel=3)


# --- lineages -------------------------------------------------------------------------------


def lineages(
    adata: Any,
    root: Any = None,
    *,
    edges: Sequence[tuple[Any, Any]] | None = None,
    groupby: str | None = None,
    key: str = "hgplvm",
    random_state: int = 0,
    copy: bool = False,
) -> Any:
    """Find the tree along which cells lie, and where each cell is on it.

    The skeleton is a tree of geodesics along the ridges of the density of the cells; how many
    branches it has follows from the density (:mod:`hgplvm._lineages`). A cell's branch is as
    uncertain as its position: probabilities are shares of draws from its posterior.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on.
    root : as in :func:`hgplvm.tl.pseudotime`, optional
        Where lineages begin. With `edges` it is the root of these.
    edges : list of (str, str), optional
        A skeleton of your own: from each label of `groupby` to the next, such as
        ``[("HSC", "MEP"), ("MEP", "Ery")]``. Each label stands at the Fréchet mean of its cells.
    groupby : str, optional
        A column of ``obs`` with labels: those of `edges`, or by which lineages are named.
    key : str, default="hgplvm"
        The `key_added` of the fit.
    random_state : int, default=0
        Seed of the draws.
    copy : bool, default=False
        Whether to return a copy with the results and leave `adata` alone.

    Returns
    -------
    AnnData or None
        With `copy`, the copy; else nothing, and these are set:

        ``obs["hgplvm_branch"]``
            The likeliest branch of each cell.
        ``obs["hgplvm_position"]``, ``obs["hgplvm_position_std"]``
            Distance from the root along the skeleton, and its standard deviation.
        ``obsm["hgplvm_branches"]``, ``obsm["hgplvm_fates"]``
            Probability of each branch and of each terminal state, by their names. That of a cell
            before a fork is shared out among the states beyond it, by the cells that they have.
        ``uns["hgplvm"]["lineages"]``
            The skeleton: ``nodes`` (ball coordinates), ``parent``, ``time``, ``branch``, ``above``
            and ``names``.
    """
    owner = "tl.lineages"
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    check.check_flag(owner, "copy", copy)
    check.check_number(owner, "random_state", random_state, low=0, integer=True)
    ad.check_embedded(owner, adata, keys)
    points = ad.positions(adata, keys)
    if points.shape[1] != 3:
        raise ValueError(
            f"{owner} finds skeletons in two dimensions, and this embedding has "
            f"{points.shape[1] - 1}: fit with n_components=2."
        )
    if keys.covariance not in adata.obsm:
        raise ValueError(
            f"{owner} finds no uncertainty of the positions in obsm[{keys.covariance!r}]: run "
            "hgplvm.tl.hgplvm again."
        )
    labels = _labels(owner, adata, groupby)
    total = torch.from_numpy(np.array(adata.obsm[keys.covariance], dtype=np.float64))
    total = total.reshape(len(points), 2, 2)
    own = _own_covariances(adata, keys, points)
    own = total if own is None else own
    if edges is not None:
        if labels is None:
            raise ValueError(
                f"{owner} needs the column of the labels in 'edges': pass groupby='cell_type'."
            )
        if root is not None:
            raise ValueError(
                f"{owner} takes the root of 'edges' as the root: leave 'root' out, or the edges."
            )
        skeleton = given_skeleton(owner, points, labels, edges)
    else:
        place = resolve_point(owner, "root", _root(owner, adata, root), points)
        skeleton = find_skeleton(points, place, own, seed=random_state)
    found = places(points, skeleton, own, total, seed=random_state)
    if edges is None and labels is not None:
        skeleton = _named(skeleton, found.branch, found.position, labels)
    names = np.array([_plain(name) for name in skeleton.names], dtype=object)
    pandas = require(owner, "pandas", "anndata")
    tips = skeleton.tips
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    index = adata.obs_names
    ad.write(
        adata,
        obs={
            keys.branch: pandas.Categorical(names[found.branch], categories=list(names)),
            keys.position: found.position,
            keys.position_std: found.std,
        },
        obsm={
            keys.branches: pandas.DataFrame(found.shares, index=index, columns=names),
            keys.fates: pandas.DataFrame(found.fates, index=index, columns=names[tips]),
        },
    )
    _keep(
        adata,
        keys,
        "lineages",
        {
            "nodes": lorentz_to_poincare(skeleton.nodes).numpy(),
            "parent": skeleton.parent,
            "time": skeleton.time,
            "branch": skeleton.branch,
            "above": skeleton.above,
            "names": names,
        },
    )
    logger.info("%s: %d terminal states", owner, len(tips))
    return adata if copy else None


def read_skeleton(owner: str, adata: Any, keys: ad.Keys) -> Skeleton:
    """Return the skeleton that :func:`lineages` left in an object."""
    tree = ad.results(owner, adata, keys).get("lineages")
    if not isinstance(tree, Mapping) or keys.branches not in adata.obsm:
        raise ValueError(
            f"{owner} needs the lineages: run hgplvm.tl.lineages(adata, root=...) first."
        )
    nodes = poincare_to_lorentz(torch.from_numpy(np.array(tree["nodes"], dtype=np.float64)))
    parent, time, branch, above = (
        np.asarray(tree[name]) for name in ("parent", "time", "branch", "above")
    )
    return Skeleton(nodes, parent, time, branch, above, [str(name) for name in tree["names"]])


def _labels(owner: str, adata: Any, groupby: str | None) -> Array | None:
    if groupby is None:
        return None
    if not isinstance(groupby, str) or groupby not in adata.obs:
        known = ", ".join(map(repr, list(adata.obs.columns)[:8]))
        raise ValueError(
            f"The 'groupby' of {owner} must be a column of adata.obs, of which there are {known}. "
            f"Got {groupby!r} instead."
        )
    return np.asarray(adata.obs[groupby].astype(str))


def _root(owner: str, adata: Any, root: Any) -> Any:
    """Return what a root names; by default the one that scanpy keeps."""
    if root is None:
        if "iroot" not in adata.uns:
            raise ValueError(
                f"{owner} needs a root: a row, a group such as {{'cell_type': 'HSC'}}, a mask, "
                "or a point; or set adata.uns['iroot']."
            )
        root = np.asarray(adata.uns["iroot"]).reshape(-1)[0]
    return ad.root_rows(owner, "root", adata, root)


def _own_covariances(adata: Any, keys: ad.Keys, points: torch.Tensor) -> torch.Tensor | None:
    """Return covariances of rows where the map is known; None where the model is not of them."""
    found = adata.uns.get(keys.uns)
    if not isinstance(found, Mapping) or "fitted" not in found:
        return None
    model = ad.stored_model("tl.lineages", adata, keys)._model
    latents = model.pose.points(model.latents)
    if latents.shape != points.shape or float(lorentz.distance(latents, points).max()) > 1e-4:
        return None
    own: torch.Tensor = model.pose.covariances(model.latents, model.positions.own)
    return own


def _named(skeleton: Skeleton, branch: Array, position: Array, labels: Array) -> Skeleton:
    """Name the ends of a skeleton after the labels of the rows there, and stems before them."""
    names = list(skeleton.names)
    labels = np.array([_plain(word) for word in labels])
    seen: dict[str, int] = {}
    for tip in skeleton.tips:
        on = np.flatnonzero(branch == tip)
        if not len(on):
            continue
        outer = on[position[on] >= np.median(position[on])]
        words, counts = np.unique(labels[outer], return_counts=True)
        word = str(words[counts.argmax()])
        seen[word] = seen.get(word, 0) + 1
        names[tip] = word if seen[word] == 1 else f"{word} {seen[word]}"
    stems = [b for b in range(len(names)) if b not in skeleton.tips]
    for number, b in enumerate(stems, 1):
        names[b] = f"stem {number}"
    return Skeleton(
        skeleton.nodes, skeleton.parent, skeleton.time, skeleton.branch, skeleton.above, names
    )


def _plain(word: str) -> str:
    """Return a name that files can hold: a slash would be a folder there."""
    return word.replace("/", "|")


def _keep(adata: Any, keys: ad.Keys, name: str, tree: Any) -> None:
    """Add to what a fit left in uns; trends are those of the lineages that there are."""
    found = dict(adata.uns[keys.uns]) if isinstance(adata.uns.get(keys.uns), Mapping) else {}
    if name == "lineages":
        found.pop("trends", None)
    ad.write(adata, uns={keys.uns: {**found, name: tree}})


# --- trends ---------------------------------------------------------------------------------


def trends(
    adata: Any,
    genes: str | Sequence[str] | None = None,
    *,
    lineage: str | Sequence[str] | None = None,
    n_points: int = 50,
    level: float = 0.9,
    key: str = "hgplvm",
) -> Any:
    """Follow genes along lineages: mean, band and derivative of each.

    The shape that the model decodes along a lineage, and what the cells of the lineage say of it
    (:mod:`hgplvm._trends`).

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.lineages` has worked on.
    genes : str or list of str, optional
        Names of columns that the model was fitted to; by default all.
    lineage : str or list of str, optional
        Terminal states to which lineages lead, as in ``obsm["hgplvm_fates"]``; by default all.
    n_points : int, default=50
        Positions along each lineage.
    level : float, default=0.9
        Probability that a band holds the mean at a position.
    key : str, default="hgplvm"
        The `key_added` of the fit.

    Returns
    -------
    DataFrame
        A row for each lineage, gene and position, with ``lineage``, ``gene``, ``position``,
        ``mean``, ``low`` and ``high`` (for raw counts, of a cell of median size; otherwise in the
        units of the data), and ``slope`` with ``slope_std``, the derivative by the position (for
        raw counts, of the logarithm). With `genes` the table is kept in
        ``uns["hgplvm"]["trends"]``, too, where :func:`hgplvm.pl.trends` finds it.
    """
    owner = "tl.trends"
    data = _LineageData(owner, adata, key)
    check.check_number(owner, "n_points", n_points, low=5, integer=True)
    check.check_number(owner, "level", level, low=0, high=1, closed=False)
    columns = data.columns(genes)
    tables = []
    pandas = require(owner, "pandas", "anndata")
    for name in data.tips(lineage):
        trend = data.trend(name, columns, n_points)
        mean, low, high = trend.band(level)
        parts = {
            "mean": mean,
            "low": low,
            "high": high,
            "slope": trend.slope,
            "slope_std": trend.slope_std,
        }
        table = {
            "lineage": np.repeat(name, mean.size),
            "gene": np.repeat(data.features[columns], n_points),
            "position": np.tile(trend.positions, len(columns)),
            **{word: part.T.ravel() for word, part in parts.items()},
        }
        tables.append(pandas.DataFrame(table))
    found = pandas.concat(tables, ignore_index=True)
    if genes is not None:
        _keep(adata, data.keys, "trends", found)
    return found


def branch_genes(
    adata: Any,
    first: str,
    second: str,
    *,
    genes: Sequence[str] | None = None,
    n_points: int = 30,
    key: str = "hgplvm",
) -> Any:
    """Rank genes that differ between two lineages after the fork at which they part.

    The trends of both are fitted beyond the fork, each to the cells of its own branches. The mean
    difference over the length that both have is compared with its standard error, and p-values
    become false discovery rates by the procedure of Benjamini and Hochberg. Of counts, the median
    difference of all genes is subtracted: where one common gene rises, the shares of all others
    fall.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.lineages` has worked on.
    first : str
        A terminal state, as in ``obsm["hgplvm_fates"]``.
    second : str
        Another one.
    genes : list of str, optional
        Genes to compare; by default all that the model was fitted to.
    n_points : int, default=30
        Positions beyond the fork.
    key : str, default="hgplvm"
        The `key_added` of the fit.

    Returns
    -------
    DataFrame
        A row for each gene, the surest first: ``gene``, ``difference`` (first less second; for raw
        counts of logarithms, so that 0.69 is twice as much), ``std``, ``z``, ``pvalue``, ``fdr``,
        and ``mean_first``, ``mean_second``, the means beyond the fork.
    """
    owner = "tl.branch_genes"
    data = _LineageData(owner, adata, key)
    check.check_number(owner, "n_points", n_points, low=5, integer=True)
    names = data.tips([first, second])
    if names[0] == names[1]:
        raise ValueError(f"{owner} compares two lineages. Got {first!r} twice.")
    columns = data.columns(genes)
    skeleton = data.skeleton
    ways = [skeleton.way(skeleton.names.index(name)) for name in names]
    shared = set(ways[0]) & set(ways[1])
    fork = max((float(skeleton.time[skeleton.end(b)]) for b in shared), default=0.0)
    lengths = [float(skeleton.time[skeleton.end(way[-1])]) - fork for way in ways]
    length = min(lengths)
    found = [
        data.trend(
            name,
            columns,
            n_points,
            branches=[b for b in way if b not in shared],
            begin=fork,
            end=fork + length,
        )
        for name, way in zip(names, ways, strict=True)
    ]
    weights = np.full(n_points, 1.0 / n_points)
    means = [trend.mean.T @ weights for trend in found]
    difference = means[0] - means[1]
    variance = sum(np.einsum("a,gab,b->g", weights, trend.covariance, weights) for trend in found)
    std = np.sqrt(np.maximum(variance, 1e-300))
    if found[0].counts and len(columns) >= FEWEST_GENES:
        # shares add up to one: where a common gene rises, all others fall
        difference = difference - _weighted_median(difference, 1.0 / std)
    z = difference / std
    p = 2.0 * norm.sf(np.abs(z))
    pandas = require(owner, "pandas", "anndata")
    shown = [np.exp(m) if found[0].counts else m for m in means]
    table = pandas.DataFrame(
        {
            "gene": data.features[columns],
            "difference": difference,
            "std": std,
            "z": z,
            "pvalue": p,
            "fdr": false_discovery_rates(p),
            "mean_first": shown[0],
            "mean_second": shown[1],
        }
    )
    order = np.lexsort((-np.abs(z), p))
    return table.iloc[order].reset_index(drop=True)


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(values[order[np.searchsorted(share, 0.5)]])


def false_discovery_rates(p: Array) -> Array:
    """``min_{k ≥ i} p_(k) n/k``: Benjamini and Hochberg's."""
    order = np.argsort(p)
    rates = p[order] * len(p) / np.arange(1, len(p) + 1)
    found = np.empty_like(rates)
    found[order] = np.minimum(np.minimum.accumulate(rates[::-1])[::-1], 1.0)
    return found


class _LineageData:
    """Rows of an object, the model behind its embedding, and its lineages."""

    def __init__(self, owner: str, adata: Any, key: str) -> None:
        ad.check_anndata(owner, adata)
        self.owner, self.adata = owner, adata
        self.keys = ad.checked_keys(owner, "key", key)
        self.skeleton = read_skeleton(owner, adata, self.keys)
        self.model = ad.stored_model(owner, adata, self.keys)
        self.found = ad.results(owner, adata, self.keys)
        self.features = np.asarray(self.found["features"], dtype=object).astype(str)
        self._rows: Any = None

    def columns(self, genes: str | Sequence[str] | None) -> Array:
        """Numbers of the columns of genes."""
        if genes is None:
            return np.arange(len(self.features))
        wanted = [genes] if isinstance(genes, str) else list(genes)
        place = {name: i for i, name in enumerate(self.features)}
        unknown = [gene for gene in wanted if gene not in place]
        if unknown or not wanted:
            what = f"{unknown[0]!r} is not one of them" if unknown else "got none"
            few = ", ".join(map(repr, self.features[:5].tolist()))
            raise ValueError(
                f"The 'genes' of {self.owner} must be among the {len(self.features)} columns that "
                f"the model was fitted to ({few}, …); {what}."
            )
        return np.array([place[gene] for gene in wanted])

    def tips(self, lineage: str | Sequence[str] | None) -> list[str]:
        """Names of terminal states."""
        known = [self.skeleton.names[tip] for tip in self.skeleton.tips]
        if lineage is None:
            return known
        wanted = [lineage] if isinstance(lineage, str) else list(lineage)
        for name in wanted:
            if name not in known:
                raise ValueError(
                    f"{self.owner} finds no lineage {name!r}; there are "
                    f"{', '.join(map(repr, known))}."
                )
        return wanted

    @property
    def rows(self) -> Any:
        """Rows that the model was fitted to, in its columns."""
        if self._rows is None:
            params = self.found.get("params", {})
            matrix = ad.read_matrix(
                self.owner,
                self.adata,
                use_rep=params.get("use_rep"),
                layer=params.get("layer"),
                mask_var=None,
                normalize=None if params.get("normalize") is None else bool(params["normalize"]),
                fitted=params,
            )
            values = matched(self.owner, matrix, self.features)
            self._rows = values.tocsr() if issparse(values) else np.asarray(values, dtype=float)
        return self._rows

    def trend(
        self,
        name: str,
        columns: Array,
        n_points: int,
        *,
        branches: Sequence[int] | None = None,
        begin: float = 0.0,
        end: float | None = None,
    ) -> Trend:
        """Trends of columns on the way to a terminal state, of some of its branches."""
        keys, skeleton, obs = self.keys, self.skeleton, self.adata.obs
        tip = skeleton.names.index(name)
        if branches is None:
            weights = np.asarray(self.adata.obsm[keys.fates][name], dtype=float)
        else:
            shares = np.asarray(self.adata.obsm[keys.branches], dtype=float)
            weights = shares[:, list(branches)].sum(1)
        weights = np.where(weights >= LEAST_SHARE, weights, 0.0)
        if weights.sum() < FEWEST_ROWS:
            raise ValueError(
                f"{self.owner} finds {weights.sum():.0f} rows on the lineage {name!r}"
                f"{'' if branches is None else ' beyond the fork'}, too few for a trend."
            )
        times, points = span(skeleton, tip, n_points)
        if end is not None:
            times = np.linspace(begin, end, n_points)
            points = skeleton.points(tip, times)
        engine = self.model._engine()
        base = engine.base(engine.hidden(points.to(engine.device)))[:, columns]
        position = np.asarray(obs[keys.position], dtype=float)
        if end is not None:
            weights = np.where(position <= end + 1e-9, weights, 0.0)
        std = np.asarray(obs[keys.position_std], dtype=float)
        coded = self._coded()
        options: dict[str, Any] = {"shifts": engine.shifts(coded, columns)}
        if self.model.likelihood != "gaussian":
            rates = self.model._model.units.rates
            counts = rates.rows(self.rows, None if rates.effects is None else _design(coded))
            phi = rates.likelihood.dispersion
            options["sizes"] = np.exp(counts.log_sizes.numpy())
            options["dispersion"] = None if phi is None else phi.numpy()[columns]
        rows = self.rows[:, columns]
        return fit_trend(gather(times, base, rows, position, weights, std, **options))

    def _coded(self) -> Any:
        """Covariates of the rows, as the model codes them."""
        known = self.model._model.covariates
        if known is None:
            return None
        names = list(known.coding.names)
        batch_key = self.found.get("params", {}).get("batch_key")
        columns = ad.covariates_of(self.owner, self.adata, names, batch_key)
        return known.coding.coded(self.owner, columns, self.adata.n_obs)


def _design(coded: Any) -> torch.Tensor | None:
    return None if coded is None else torch.from_numpy(coded.design)


# --- stability ------------------------------------------------------------------------------


def stability(
    adata: Any,
    *,
    n_seeds: int = 3,
    bootstrap: int = 3,
    key: str = "hgplvm",
    random_state: int = 0,
    copy: bool = False,
) -> Any:
    """Fit again with other seeds and to resampled rows, and see what of the map stays.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on.
    n_seeds : int, default=3
        Fits of the same rows with other seeds.
    bootstrap : int, default=3
        Fits of 80% of the rows, drawn at random.
    key : str, default="hgplvm"
        The `key_added` of the fit.
    random_state : int, default=0
        Seed of the seeds and of the draws.
    copy : bool, default=False
        Whether to return a copy with the results and leave `adata` alone.

    Returns
    -------
    AnnData or None
        With `copy`, the copy; else nothing, and these are set:

        ``obs["hgplvm_stability"]``
            For each cell the correlation of its distances from others with those of the other
            fits, a mean over these: 1 where its place does not change. :func:`hgplvm.pl.poincare`
            shades cells below 0.8.
        ``uns["hgplvm"]["stability"]``
            ``seeds`` and ``bootstrap``: correlation of all distances, for each fit.
    """
    owner = "tl.stability"
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    check.check_number(owner, "n_seeds", n_seeds, low=0, integer=True)
    check.check_number(owner, "bootstrap", bootstrap, low=0, integer=True)
    check.check_number(owner, "random_state", random_state, low=0, integer=True)
    check.check_flag(owner, "copy", copy)
    if n_seeds + bootstrap == 0:
        raise ValueError(f"{owner} needs other fits: set n_seeds or bootstrap above 0.")
    model = ad.stored_model(owner, adata, keys)
    found = ad.results(owner, adata, keys)
    params = found.get("params", {})
    matrix = ad.read_matrix(
        owner,
        adata,
        use_rep=params.get("use_rep"),
        layer=params.get("layer"),
        mask_var=None,
        normalize=None if params.get("normalize") is None else bool(params["normalize"]),
        fitted=params,
    )
    rows = matched(owner, matrix, np.asarray(found["features"], dtype=object))
    known = model._model.covariates
    covariates = None
    if known is not None:
        names = list(known.coding.names)
        covariates = ad.covariates_of(owner, adata, names, params.get("batch_key"))
    points = ad.positions(adata, keys)
    random = np.random.RandomState(random_state)
    n = adata.n_obs
    whole = [(np.arange(n), random.randint(2**31 - 1)) for _ in range(n_seeds)]
    few = max(2, round(RESAMPLED * n))
    parts = [
        (np.sort(random.permutation(n)[:few]), random.randint(2**31 - 1)) for _ in range(bootstrap)
    ]
    judges = np.sort(random.permutation(n)[:STABLE_ROWS])
    total, count = np.zeros(n), np.zeros(n)
    scores: list[float] = []
    for chosen, seed in whole + parts:
        again = clone(model).set_params(random_state=seed, checkpoint=None, callback=None)
        own = None if covariates is None else {k: v[chosen] for k, v in covariates.items()}
        again.fit(rows[chosen], covariates=own)
        latents = torch.from_numpy(np.asarray(again.lorentz_, dtype=np.float64))
        by_row, overall = _agreement(points[chosen], latents, np.isin(chosen, judges))
        total[chosen] += by_row
        count[chosen] += 1.0
        scores.append(overall)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    by_row = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
    ad.write(adata, obs={keys.stability: by_row})
    kept = {"seeds": np.array(scores[:n_seeds]), "bootstrap": np.array(scores[n_seeds:])}
    _keep(adata, keys, "stability", kept)
    return adata if copy else None


def _agreement(first: torch.Tensor, second: torch.Tensor, judges: Array) -> tuple[Array, float]:
    """Correlation of the distances from some rows, for each row and over all."""
    some = torch.from_numpy(np.flatnonzero(judges))
    if len(some) < 3:
        return np.ones(len(first)), 1.0
    a, b = (lorentz.pairwise_distance(x, x[some]).numpy() for x in (first, second))
    x, y = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    size = np.sqrt(np.square(x).sum(1) * np.square(y).sum(1))
    by_row = np.where(size > 0, (x * y).sum(1) / np.maximum(size, 1e-300), 1.0)
    spread = float(a.std() * b.std())
    overall = float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread > 0 else 1.0
    return by_row, overall
