"""The numbers of a gene, in the unit in which the model decodes it.

A model of counts decodes the expected count of a cell of median size, so the counts of the cells
are shown as if all had that size; one of logarithms decodes these. So a gene on the cells and the
same gene decoded have one unit and one kind of scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._log_counts import log_normalised
from hgplvm._typing import Array

__all__ = ["COUNTS", "Column", "gene", "own_unit", "unit_of_fit"]

COUNTS = "counts in a cell of median size"
LOGARITHMS = "log(1 + counts in a cell of median size)"
# entries of a matrix that are read at a time
BLOCK_ENTRIES = 2**24
# what our own columns of obs are in
RADII = "curvature radii"


@dataclass(frozen=True)
class Column:
    """Values of a column, their unit, and whether they are counts."""

    values: Any = None
    unit: str | None = None
    counts: bool = False


def own_unit(key: str, name: str) -> str | None:
    """Return the unit of a column of obs that a fit has left."""
    keys = ad.Keys(key)
    if name in (keys.pseudotime, keys.position):
        return f"distance from the root, {RADII}"
    if name in (keys.std, keys.pseudotime_std, keys.position_std):
        return f"standard deviation, {RADII}"
    return {keys.off_map: "p-value", keys.stability: "stability (1: the same in all fits)"}.get(
        name
    )


def unit_of_fit(params: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the unit in which a model decodes its columns, and whether these are counts."""
    if str(params.get("likelihood", "gaussian")) != "gaussian":
        return COUNTS, True
    if params.get("normalize"):
        return LOGARITHMS, False
    if "use_rep" in params:
        return f"value in obsm[{str(params['use_rep'])!r}]", False
    return _place(params.get("layer")), False


def _place(layer: Any) -> str:
    return "value in X" if layer is None else f"value in layers[{str(layer)!r}]"


def gene(
    owner: str,
    adata: Any,
    name: str,
    *,
    layer: str | None,
    use_raw: bool | None,
    key: str,
    totals: dict[Any, Array] | None = None,
) -> Column:
    """Read a gene: as the fit saw it, unless a layer or raw is asked for or alone has it.

    `totals` keeps the sizes of libraries for the next gene.
    """
    if use_raw is not None:
        check.check_flag(owner, "use_raw", use_raw)
    if use_raw and layer is not None:
        raise ValueError(f"{owner} reads a gene from a layer or from raw: leave one of them out.")
    if use_raw and adata.raw is None:
        raise ValueError(f"{owner} with use_raw=True finds no adata.raw: leave use_raw out.")
    params = _params_of_fit(adata, key, name) if layer is None and use_raw is None else None
    if params is not None:
        return _as_fitted(owner, adata, name, params, {} if totals is None else totals)
    raw = adata.raw is not None and layer is None and use_raw is not False
    if raw and name in adata.raw.var_names:
        return Column(_values(owner, adata.raw, adata.raw.X, name), "value in raw")
    if name not in adata.var_names or use_raw:
        raise ValueError(
            f"The 'color' of {owner} must be a column of adata.obs, a name of adata."
            f"{'raw.' if use_raw else ''}var_names, or an array. Got {name!r}, which is none; the "
            f"columns are {', '.join(map(repr, adata.obs.columns)) or 'none'}."
        )
    return Column(_values(owner, adata, ad.layer_of(owner, adata, layer), name), _place(layer))


def _params_of_fit(adata: Any, key: str, name: str) -> Mapping[str, Any] | None:
    """Return what a fit was made of, where this gene has a part in it."""
    found = adata.uns.get(ad.checked_keys("pl", "key", key).uns)
    if not isinstance(found, Mapping) or "features" not in found or name not in adata.var_names:
        return None
    params = found.get("params", {})
    layer = params.get("layer")
    there = layer is None or str(layer) in adata.layers
    features = np.asarray(found["features"]).astype(str)
    if "use_rep" in params or not there or name not in features:
        return None
    return {**params, "features": features}


def _as_fitted(
    owner: str, adata: Any, name: str, params: Mapping[str, Any], totals: dict[Any, Array]
) -> Column:
    layer = params.get("layer")
    matrix = ad.layer_of(owner, adata, None if layer is None else str(layer))
    values = _values(owner, adata, matrix, name)
    unit, counts = unit_of_fit(params)
    if not (counts or params.get("normalize")):
        return Column(values, unit)
    if not _may_be_counts(values):
        return Column(values, _place(layer))
    if layer not in totals:
        columns = np.isin(np.asarray(adata.var_names, dtype=str), params["features"])
        totals[layer] = _totals(matrix, columns)
    total = totals[layer]
    # as large as the median cell of the fit, whichever cells are in this object
    target = float(params.get("target_sum", np.median(total)))
    if counts:
        return Column(values * (target / np.maximum(total, 1.0)), unit, True)
    # the gene beside all else, so that each row has its total
    pair = np.stack([np.nan_to_num(values), total - np.nan_to_num(values)], axis=1)
    return Column(log_normalised(pair, target)[0][:, 0], unit)


def _may_be_counts(values: Array) -> bool:
    """Whether numbers may be counts still: an object may have been normalised after its fit."""
    known = values[np.isfinite(values)]
    return bool((known >= 0).all() and (known == np.rint(known)).all())


def _totals(matrix: Any, columns: Array) -> Array:
    """Sum of each row over some columns, a block of rows at a time."""
    weights = columns.astype(float)
    found = np.zeros(matrix.shape[0])
    height = max(1, BLOCK_ENTRIES // max(matrix.shape[1], 1))
    for start in range(0, len(found), height):
        rows = slice(start, start + height)
        some = ad.in_memory(matrix[rows])
        dense = some if hasattr(some, "nnz") else np.nan_to_num(np.asarray(some, dtype=float))
        found[rows] = np.asarray(dense @ weights).ravel()
    return found


def _values(owner: str, holder: Any, matrix: Any, name: str) -> Array:
    """Values of one column of a matrix, by its name."""
    at = holder.var_names.get_loc(name)
    if not isinstance(at, int):
        raise ValueError(
            f"The 'color' of {owner} names {name!r}, which stands more than once in "
            "adata.var_names: run adata.var_names_make_unique() first."
        )
    values = ad.in_memory(matrix[:, [at]])
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    return np.asarray(dense, dtype=float).ravel()
