"""Lineages on the disk, and genes along them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.geometry import lorentz_to_poincare
from hgplvm.pl._colors import Limits, checked_colors, colors_of
from hgplvm.pl._disk import panel_area
from hgplvm.pl._edges import draw_segments, edges_of, skeleton_nodes
from hgplvm.pl._layout import COLUMNS, Panels, Place
from hgplvm.pl._names import write_names
from hgplvm.pl._palettes import OKABE_ITO, categorical
from hgplvm.pl._points import (
    LEGENDS,
    draw_legend,
    draw_points,
    marker_area,
    name_on_data,
    scale_of,
)
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import GRID, choice, finished, new_axes, picture, plain, shown
from hgplvm.pl._view import GRIDS, DiskView, draw_disk

__all__ = ["lineages", "trends"]

# room beyond the ends for their names, as a share of the skeleton's extent
ROOM = 0.1
# inches of a panel of curves
CURVES = (3.3, 2.3)
NEEDED = ("lineage", "gene", "position", "mean", "low", "high")


@picture
def lineages(
    adata: Any,
    color: Any = None,
    *,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = "auto",
    groups: str | Sequence[str] | None = None,
    layer: str | None = None,
    use_raw: bool | None = None,
    ax: Axes | None = None,
    palette: str | Sequence[Any] | None = None,
    cmap: Any = None,
    vmin: Any = None,
    vmax: Any = None,
    vcenter: Any = None,
    size: float | None = None,
    title: str | None = None,
    legend: str | bool = "side",
    frameon: bool = True,
    grid: str | bool = "polar",
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Draw the skeleton that :func:`hgplvm.tl.lineages` found, over the cells.

    Lines are geodesics; the ring is the root, and dots with names are the terminal states. Cells
    are coloured by their likeliest branch, and fainter where it is less likely.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.lineages` has worked on.
    color : str or array of shape (n,), optional
        As in :func:`hgplvm.pl.poincare`; by default the branch.
    key, root, zoom, groups, layer, use_raw
        As in :func:`hgplvm.pl.poincare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette, cmap, vmin, vmax, vcenter, size, title, legend, frameon, grid
        As in :func:`hgplvm.pl.poincare`.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
    """
    owner = "pl.lineages"
    legend = choice(owner, "legend", legend, LEGENDS)
    grid = choice(owner, "grid", grid, GRIDS)
    check.check_flag(owner, "frameon", frameon)
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    tree = ad.results(owner, adata, keys).get("lineages")
    if not isinstance(tree, Mapping) or keys.branches not in adata.obsm:
        raise ValueError(
            f"{owner} needs the lineages: run hgplvm.tl.lineages(adata, root=...) first."
        )
    drawn = draw(owner, adata, key=key, root=root)
    curves = edges_of(drawn, "lineages", None, key)
    nodes = lorentz_to_poincare(skeleton_nodes(drawn, key)[0]).numpy()
    by_branch = color is None
    reading: dict[str, Any] = {"layer": layer, "use_raw": use_raw, "groups": groups, "key": key}
    colors = colors_of(
        owner,
        adata,
        keys.branch if by_branch else color,
        len(drawn.points),
        palette=palette,
        **reading,
    )
    view = DiskView(owner, drawn.points, zoom, _beyond(nodes, ROOM))
    place = Place(ax, view.size(panel_area(1)))
    ax = place.ax
    draw_disk(ax, view, grid=grid, frameon=frameon, points=drawn.points)
    style: dict[str, Any] = {"owner": owner, "palette": palette, "legend": legend, "view": view}
    if by_branch and colors is not None:
        faces = colors.rgba(*scale_of(owner, colors, palette, None, None))
        shares = np.asarray(adata.obsm[keys.branches], dtype=float).max(axis=1)
        faces[:, 3] = 0.15 + 0.75 * np.clip((shares - 0.4) / 0.6, 0.0, 1.0)
        area = marker_area(ax, len(faces), size, owner=owner)
        x, y = drawn.points.T
        ax.scatter(x, y, s=area, c=faces, linewidths=0, zorder=2)
        if legend == "side":
            draw_legend(ax, colors.legend)
        elif legend == "on data":
            name_on_data(ax, drawn.points, colors, view)
    else:
        limits = Limits(owner, vmin, vmax, vcenter)
        draw_points(ax, drawn.points, colors, size=size, cmap=cmap, limits=limits, **style)
    draw_segments(ax, curves, width=1.8, color="black")
    _draw_ends(ax, nodes, tree)
    if title is not None:
        ax.set_title(title)
    place.settle()
    return finished(ax, show, save)


def _draw_ends(ax: Axes, nodes: Array, tree: Mapping[str, Any]) -> None:
    """Draw the root as a ring, and terminal states as dots with their names."""
    style: dict[str, Any] = {"edgecolors": "black", "linewidths": 1.6, "zorder": 5}
    ax.scatter(nodes[0, 0], nodes[0, 1], s=60, facecolors="white", **style)
    branch = np.asarray(tree["branch"])
    above = set(np.asarray(tree["above"]).tolist())
    names, places = [], []
    for b, name in enumerate(tree["names"]):
        on = np.flatnonzero(branch == b)
        if b in above or not len(on):
            continue
        end = nodes[on[-1]]
        ax.scatter(end[0], end[1], s=32, color="black", zorder=5)
        names.append(name)
        places.append(end)
    ends = np.array(places).reshape(-1, 2)
    write_names(ax, names, ends, beside=ends - nodes[0])


def _beyond(nodes: Array, share: float) -> Array:
    """Points beyond nodes [n, 2] as seen from the root, by a share of the whole picture."""
    apart = nodes - nodes[0]
    reach = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)
    return np.asarray(nodes + share * float(np.ptp(nodes, axis=0).max()) * reach)


@picture
def trends(
    adata: Any,
    genes: str | Sequence[str] | None = None,
    *,
    lineage: str | Sequence[str] | None = None,
    key: str = "hgplvm",
    ax: Axes | None = None,
    ncols: int = COLUMNS,
    palette: Sequence[Any] | None = None,
    legend: bool = True,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> list[Axes]:
    """Draw genes along lineages: a panel for each gene, a line with its band for each lineage.

    Parameters
    ----------
    adata : AnnData or DataFrame
        An object in which :func:`hgplvm.tl.trends` has left its table, or the table.
    genes : str or list of str, optional
        Which of the table's genes; by default all.
    lineage : str or list of str, optional
        Which of its lineages; by default all.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
    ax : Axes, optional
        Where to draw, for one gene; a new figure by default.
    ncols : int, default=3
        Panels in a row.
    palette : sequence of colours, optional
        Of the lineages.
    legend : bool, default=True
        Whether to name the lineages.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    list of Axes
    """
    owner = "pl.trends"
    check.check_flag(owner, "legend", legend)
    table = adata
    if ad.is_anndata(adata):
        keys = ad.checked_keys(owner, "key", key)
        table = ad.results(owner, adata, keys).get("trends")
        if table is None:
            raise ValueError(
                f"{owner} finds no trends in adata: run hgplvm.tl.trends(adata, genes) first."
            )
    if not all(name in getattr(table, "columns", ()) for name in NEEDED):
        raise ValueError(
            f"The 'adata' of {owner} must be an AnnData object, or what hgplvm.tl.trends returned. "
            f"Got {shown(table)} instead."
        )
    names = _among(owner, "genes", genes, table["gene"])
    tips = _among(owner, "lineage", lineage, table["lineage"])
    colours = list(OKABE_ITO) if palette is None else checked_colors(owner, palette)
    if palette is None and len(tips) > len(colours):
        colours = categorical(len(tips))
    check.check_number(owner, "ncols", ncols, low=1, integer=True)
    if ax is not None and len(names) > 1:
        raise ValueError(
            f"{owner} draws a panel for each of {len(names)} genes, so that it takes no 'ax': name "
            "one gene."
        )
    panels = Panels([CURVES] * len(names), int(ncols)) if ax is None else None
    axes = [new_axes(ax)] if panels is None else panels.axes
    for at, gene in zip(axes, names, strict=True):
        for number, tip in enumerate(tips):
            own = table[(table["gene"] == gene) & (table["lineage"] == tip)]
            if not len(own):
                continue
            along = np.asarray(own["position"], dtype=float)
            mean, low, high = (np.asarray(own[c], dtype=float) for c in ("mean", "low", "high"))
            shade = colours[number % len(colours)]
            at.fill_between(along, low, high, color=shade, alpha=0.2, linewidth=0)
            at.plot(along, mean, color=shade, linewidth=1.6, label=plain(tip))
        at.set_title(plain(gene), fontsize="medium")
        at.set_xlabel("distance from the root", fontsize="small")
        at.tick_params(labelsize="small")
        at.spines[["top", "right"]].set_visible(False)
        at.grid(color=GRID, linewidth=0.5)
        at.set_axisbelow(True)
        shown_rows = table[table["gene"] == gene]
        if float(np.min(shown_rows["low"])) >= 0.0:  # bands that know little do not set the scale
            top = min(float(shown_rows["high"].max()), 2.0 * float(shown_rows["mean"].max()))
            at.set_ylim(0.0, 1.05 * top)
    axes[0].set_ylabel("mean")
    if legend and len(tips) > 1:
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    if panels is not None:
        panels.pack()
    finished(axes[0], show, save)
    return axes


def _among(owner: str, name: str, wanted: Any, column: Any) -> list[str]:
    """Values of a column in the order in which they appear, or those that are wanted."""
    known: Array = np.asarray(column).astype(str)
    known = known[np.sort(np.unique(known, return_index=True)[1])]
    if wanted is None:
        return [str(word) for word in known]
    chosen = [wanted] if isinstance(wanted, str) else list(wanted)
    if not chosen:
        raise ValueError(f"The {name!r} of {owner} must name one or more. Got {wanted!r} instead.")
    for word in chosen:
        if word not in known:
            few = ", ".join(map(repr, known[:8].tolist()))
            raise ValueError(f"The {name!r} of {owner} name {word!r}, and the table has {few}.")
    return [str(word) for word in chosen]
