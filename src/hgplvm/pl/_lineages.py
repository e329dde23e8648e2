"""Lineages on the disk, and genes along them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.geometry import geodesic, lorentz_to_poincare, poincare_to_lorentz
from hgplvm.pl._disk import (
    GRIDS,
    LEGENDS,
    DiskView,
    choice,
    draw_disk,
    draw_points,
    name_on_data,
    plain,
)
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import (
    GRID,
    OKABE_ITO,
    checked_colors,
    color_map,
    colors_of,
    finished,
    make_room,
    new_axes,
    picture,
    shown,
)

__all__ = ["lineages", "trends"]

# points along a geodesic between two nodes
FINE = 12
# panels in a row
COLUMNS = 3
NEEDED = ("lineage", "gene", "position", "mean", "low", "high")


@picture
def lineages(
    adata: Any,
    color: Any = None,
    *,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = "auto",
    layer: str | None = None,
    ax: Axes | None = None,
    palette: str | Sequence[Any] | None = None,
    size: float | None = None,
    title: str | None = None,
    legend: str | bool = "side",
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
    key, root, layer
        As in :func:`hgplvm.pl.poincare`.
    zoom : float or "auto", default="auto"
        As in :func:`hgplvm.pl.poincare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette, size, title, legend, grid
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
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    tree = ad.results(owner, adata, keys).get("lineages")
    if not isinstance(tree, Mapping) or keys.branches not in adata.obsm:
        raise ValueError(
            f"{owner} needs the lineages: run hgplvm.tl.lineages(adata, root=...) first."
        )
    drawn = draw(owner, adata, key=key, root=root)
    by_branch = color is None
    color = keys.branch if by_branch else color
    colors = colors_of(owner, adata, color, len(drawn.points), palette=palette, layer=layer)
    view = DiskView(owner, drawn.points, zoom)
    own = ax is None
    ax = new_axes(ax, (6.4, 5.2))
    draw_disk(ax, view, grid=grid)
    if size is not None:
        check.check_number(owner, "size", size, low=0)
    if by_branch and colors is not None:
        shares = np.asarray(adata.obsm[keys.branches], dtype=float).max(axis=1)
        faces = colors.rgba(color_map(owner, palette))
        faces[:, 3] = 0.15 + 0.75 * np.clip((shares - 0.4) / 0.6, 0.0, 1.0)
        area = size if size is not None else float(np.clip(12_000 / len(faces), 1.0, 24.0))
        x, y = drawn.points.T
        ax.scatter(x, y, s=area, c=faces, linewidths=0, zorder=2)
        if legend == "side":
            for name, shade in zip(colors.names, colors.colors, strict=True):
                ax.scatter([], [], s=40, color=shade, label=plain(name), linewidths=0)
            ax.set_anchor("W")
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        elif legend == "on data":
            name_on_data(ax, drawn.points, colors, view)
    else:
        draw_points(
            ax,
            drawn.points,
            colors,
            owner=owner,
            palette=palette,
            size=size,
            legend=legend,
            view=view,
        )
    nodes = poincare_to_lorentz(torch.from_numpy(np.array(tree["nodes"], dtype=np.float64)))
    seen = drawn.seen(nodes)
    parent, branch = np.asarray(tree["parent"]), np.asarray(tree["branch"])
    share = torch.linspace(0.0, 1.0, FINE, dtype=torch.float64)[:, None]
    segments = [
        lorentz_to_poincare(geodesic(seen[parent[i]], seen[i], share)).numpy()
        for i in range(1, len(seen))
    ]
    for width, shade in ((4.0, "white"), (1.8, "black")):
        lines = LineCollection(segments, colors=shade, linewidths=width, zorder=4)
        lines.set_capstyle("round")
        ax.add_collection(lines)
    flat = lorentz_to_poincare(seen).numpy()
    ax.scatter(
        flat[0, 0],
        flat[0, 1],
        s=60,
        facecolors="white",
        edgecolors="black",
        linewidths=1.6,
        zorder=5,
    )
    above = set(np.asarray(tree["above"]).tolist())
    for b, name in enumerate(tree["names"]):
        on = np.flatnonzero(branch == b)
        if b in above or not len(on):
            continue
        end = flat[on[-1]]
        ax.scatter(end[0], end[1], s=32, color="black", zorder=5)
        reach = end / max(float(np.linalg.norm(end)), 1e-9)
        side = "left" if reach[0] > 0.3 else "right" if reach[0] < -0.3 else "center"
        if abs(end[0]) > 0.6 * view.reach:  # a name is not to leave the picture
            side = "right" if end[0] > 0 else "left"
        ax.annotate(
            plain(name),
            end,
            xytext=(0.0, 9.0 * np.sign(reach[1])) if reach[1] else (0.0, 9.0),
            textcoords="offset points",
            ha=side,
            va="bottom" if reach[1] >= 0 else "top",
            fontweight="bold",
            fontsize="small",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            zorder=6,
            annotation_clip=False,
        )
    if own:
        make_room([ax], 5.6)
    if title is not None:
        ax.set_title(title)
    return finished(ax, show, save)


@picture
def trends(
    adata: Any,
    genes: str | Sequence[str] | None = None,
    *,
    lineage: str | Sequence[str] | None = None,
    key: str = "hgplvm",
    ax: Axes | None = None,
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
    if ax is not None and len(names) > 1:
        raise ValueError(
            f"{owner} draws a panel for each of {len(names)} genes, so that it takes no 'ax': name "
            "one gene."
        )
    if ax is None:
        across = min(COLUMNS, len(names))
        down = -(-len(names) // across)
        _, grid = plt.subplots(
            down,
            across,
            figsize=(3.9 * across + 0.9, 3.0 * down),
            layout="constrained",
            squeeze=False,
        )
        axes = list(grid.flat[: len(names)])
        for left in grid.flat[len(names) :]:
            left.set_axis_off()
    else:
        axes = [new_axes(ax, (5.0, 3.4))]
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
        at.set_xlabel("distance from the root")
        at.grid(color=GRID, linewidth=0.5)
        at.set_axisbelow(True)
        shown_rows = table[table["gene"] == gene]
        if float(np.min(shown_rows["low"])) >= 0.0:  # bands that know little do not set the scale
            top = min(float(shown_rows["high"].max()), 2.0 * float(shown_rows["mean"].max()))
            at.set_ylim(0.0, 1.05 * top)
    axes[0].set_ylabel("mean")
    if legend and len(tips) > 1:
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
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
