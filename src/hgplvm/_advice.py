"""What a user should know of the data before, and of the map after, a fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial import KDTree

from hgplvm._typing import Array
from hgplvm.errors import DataWarning

__all__ = ["depth_share", "warn_of_columns", "warn_of_depth"]

# share of all variance in one column beyond which the others have no say
DOMINANT = 0.95
# share of the variance of log library sizes that places explain, beyond which a map shows them
DEPTH_SHARE = 0.9
# neighbours whose sizes predict that of a row, rows that are asked, and the fewest of them
NEIGHBORS, ROWS, FEWEST = 15, 3000, 100
# how deep in the call stack a warning is raised, seen from a user's `fit`
LEVEL = 5


def warn_of_columns(
    owner: str, data: Any, names: Array | None, n_components: int, *, counts: bool = False
) -> None:
    """Warn of data [N, D], dense or sparse, of which no good map can be made.

    One column with all the variance is no trouble for a likelihood of counts.
    """
    n, d = data.shape
    variance = _variances(data)
    total = float(variance.sum())
    if total <= 1e-28:
        _warn(
            f"{owner} was given rows that are all the same: their positions mean nothing. Check "
            "that the right columns were read."
        )
        return
    at = int(variance.argmax())
    if d > 1 and variance[at] > DOMINANT * total and not counts:
        name = f"column {at}" if names is None else f"column {str(names[at])!r}"
        _warn(
            f"{owner}: {name} has {100.0 * variance[at] / total:.4g}% of the variance of all "
            f"{d} columns, so that the map shows little else. Bring columns to comparable units "
            "(divide each by its standard deviation, say), or leave this one out."
        )
    if n_components > min(n - 1, d):
        _warn(
            f"{owner}: n_components={n_components} is more than {n} rows and {d} "
            f"{'column' if d == 1 else 'columns'} can fill, which span {min(n - 1, d)} dimensions "
            "at most: the other axes show noise."
        )


def _variances(data: Any) -> Array:
    """Variances of columns [D], in units of the largest entry."""
    if issparse(data):
        scaled = data.astype(float) / max(_largest(data.data), 1e-300)
        mean = np.asarray(scaled.mean(axis=0)).ravel()
        square = np.asarray(scaled.multiply(scaled).mean(axis=0)).ravel()
        found = np.maximum(square - mean**2, 0.0)
        return np.where(found > 1e-12 * square, found, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns without entries have no variance
        return np.nan_to_num(np.nanvar(data / max(_largest(data), 1e-300), axis=0))


def warn_of_depth(owner: str, points: Array, sizes: Array, *, counts: bool = False) -> None:
    """Warn where the places of rows on a map tell the sizes of their libraries.

    Where the likelihood is one of counts, it knows the depth of each cell already.
    """
    share = depth_share(points, sizes)
    if share <= DEPTH_SHARE:
        return
    advice = (
        "Fit raw counts as they are: their likelihood knows the depth of each cell."
        if not counts
        else "The likelihood knows the depth of each cell, so kinds of cells seem to differ in it: "
        "colour the map by total counts before you trust an axis."
    )
    _warn(
        f"{owner}: places on the map explain {100.0 * share:.0f}% of the variance of log "
        f"library size, so that the map may show sequencing depth. {advice}"
    )


def depth_share(points: Array, sizes: Array) -> float:
    """Share of the variance of log sizes [N] that the rows nearest on the map explain.

    ``1 - Var(s_i - mean of its neighbours' s) (k/(k + 1))/Var s``; 0 where sizes do not vary.
    """
    known = np.isfinite(sizes) & (sizes > 0)
    rows = np.flatnonzero(known)
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:ROWS])
    if len(rows) < FEWEST:
        return 0.0
    logs = np.log(sizes[rows])
    variance = float(logs.var())
    if variance < 1e-6:
        return 0.0
    places = np.asarray(points[rows], dtype=float)
    _, near = KDTree(places).query(places, NEIGHBORS + 1)
    others = np.where(near == np.arange(len(rows))[:, None], -1, near)
    others = np.sort(others, axis=1)[:, 1:]  # without the row itself, or one at its place
    left = logs - logs[others].mean(axis=1)
    return 1.0 - float(left.var()) * NEIGHBORS / (NEIGHBORS + 1) / variance


def _largest(data: Array) -> float:
    found = float(np.nanmax(np.abs(data))) if data.size else 0.0
    return found if np.isfinite(found) else 1.0


def _warn(text: str) -> None:
    warnings.warn(text, DataWarning, stacklevel=LEVEL)
