"""Edges of a tree as geodesics: found lineages, pairs of rows, or pairs of labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.geometry import frechet_mean, geodesic, lorentz_to_poincare, poincare_to_lorentz
from hgplvm.pl._sources import Drawn
from hgplvm.pl._style import shown

__all__ = ["draw_segments", "edges_of", "skeleton_nodes"]

# points along a geodesic
FINE = 24
LINEAGES = "lineages"


def edges_of(drawn: Drawn, edges: Any, groupby: Any, key: str) -> list[Array]:
    """Curves [FINE, 2] of edges, as they are seen."""
    if isinstance(edges, str):
        check.check_option(drawn.owner, "edges", edges, (LINEAGES,))
        nodes, parent = skeleton_nodes(drawn, key)
        starts = torch.from_numpy(parent[1:].astype(np.int64))
        return _curves(nodes[starts], nodes[1:])
    pairs = _pairs(drawn.owner, edges)
    if groupby is None:
        return _between_rows(drawn, pairs)
    labels = _labels(drawn, groupby)
    middles = {}
    for name in dict.fromkeys(str(end) for pair in pairs for end in pair):
        own = np.flatnonzero(labels == name)
        if not len(own):
            known = ", ".join(map(repr, np.unique(labels)[:8].tolist()))
            raise ValueError(
                f"The 'edges' of {drawn.owner} name {name!r}, which no row has; there are {known}."
            )
        middles[name] = frechet_mean(drawn.lorentz[torch.from_numpy(own)])
    start, end = (torch.stack([middles[str(pair[i])] for pair in pairs]) for i in (0, 1))
    return _curves(drawn.seen(start), drawn.seen(end))


def skeleton_nodes(drawn: Drawn, key: str) -> tuple[Tensor, Array]:
    """Nodes of the skeleton that tl.lineages found, as seen, and the parent of each."""
    if not ad.is_anndata(drawn.source):
        raise ValueError(
            f"The 'edges' of {drawn.owner}, as 'lineages', go with an AnnData object after "
            "hgplvm.tl.lineages; else they are pairs of rows, or of labels with 'groupby'."
        )
    keys = ad.checked_keys(drawn.owner, "key", key)
    tree = ad.results(drawn.owner, drawn.source, keys).get("lineages")
    if not isinstance(tree, Mapping):
        raise ValueError(
            f"{drawn.owner} needs the lineages: run hgplvm.tl.lineages(adata, root=...) first."
        )
    nodes = poincare_to_lorentz(torch.from_numpy(np.array(tree["nodes"], dtype=np.float64)))
    return drawn.seen(nodes), np.asarray(tree["parent"])


def draw_segments(ax: Axes, curves: list[Array], *, width: float = 1.2, color: Any = None) -> None:
    """Draw curves with a white outline."""
    shade = "#404040" if color is None else color
    for wide, own in ((2.2 * width, "white"), (width, shade)):
        lines = LineCollection(curves, colors=own, linewidths=wide, zorder=4)
        lines.set_capstyle("round")
        ax.add_collection(lines)


def _curves(start: Tensor, end: Tensor) -> list[Array]:
    """Geodesics between points of the Lorentz model, on the disk."""
    share = torch.linspace(0.0, 1.0, FINE, dtype=torch.float64)[:, None]
    return [
        lorentz_to_poincare(geodesic(a, b, share)).numpy() for a, b in zip(start, end, strict=True)
    ]


def _pairs(owner: str, edges: Any) -> list[tuple[Any, Any]]:
    try:
        pairs = [tuple(edge) for edge in edges]
    except TypeError:
        pairs = [()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"The 'edges' of {owner} must be 'lineages', or a list of pairs: of rows, or of labels "
            f"with 'groupby'. Got {shown(edges)} instead."
        )
    return [(pair[0], pair[1]) for pair in pairs]


def _between_rows(drawn: Drawn, pairs: list[tuple[Any, Any]]) -> list[Array]:
    rows = np.array(pairs, dtype=object)
    whole = all(
        isinstance(end, int | np.integer) and not isinstance(end, bool) for end in rows.ravel()
    )
    if not whole:
        raise ValueError(
            f"The 'edges' of {drawn.owner} are pairs of row numbers; for pairs of labels say with "
            f"'groupby' which rows have them. Got {shown(pairs[0])}."
        )
    found = rows.astype(np.int64)
    n = len(drawn.lorentz)
    wrong = found[(found < -n) | (found >= n)]
    if len(wrong):
        raise ValueError(
            f"The 'edges' of {drawn.owner} name row {int(wrong[0])}, and there are {n} rows."
        )
    seen = drawn.seen(drawn.lorentz)
    return _curves(*(seen[torch.from_numpy(np.ascontiguousarray(found[:, i]))] for i in (0, 1)))


def _labels(drawn: Drawn, groupby: Any) -> Array:
    values = groupby
    if isinstance(groupby, str):
        if not ad.is_anndata(drawn.source) or groupby not in drawn.source.obs:
            raise ValueError(
                f"The 'groupby' of {drawn.owner} must be a column of adata.obs, or an array with a "
                f"label for each row. Got {groupby!r} instead."
            )
        values = drawn.source.obs[groupby].astype(str).to_numpy()
    found = check.check_labels(drawn.owner, "groupby", values, len(drawn.lorentz))
    return found.astype(str)
