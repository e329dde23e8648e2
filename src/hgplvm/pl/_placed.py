"""New rows over those that a map was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.pl._colors import MISSING_COLOR, Colors, Limits, colors_of
from hgplvm.pl._disk import panel_area
from hgplvm.pl._layout import Place
from hgplvm.pl._palettes import categorical
from hgplvm.pl._points import (
    LEGENDS,
    RASTERISE_FROM,
    draw_bar,
    draw_legend,
    marker_area,
    name_on_data,
    scale_of,
    set_title,
)
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import choice, finished, picture
from hgplvm.pl._view import GRIDS, DiskView, draw_disk

__all__ = ["placed"]

# p-value below which a row is drawn as one that does not belong on the map
OFF_MAP = 0.01
# area of a new row's marker beside that of a row of the fit, and their largest in points²
LARGER, LARGEST = 2.2, 45.0
NEW, OLD = "#d62728", "#c9c9c9"


@picture
def placed(
    adata: Any,
    reference: Any,
    color: Any = None,
    *,
    reference_color: Any = None,
    off_map: Any = "auto",
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = "auto",
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
    """Draw new rows over the rows that a map was made of.

    New rows are large dots with a dark edge; crosses are those that the model does not explain.

    Parameters
    ----------
    adata : AnnData, or array of shape (m, 2)
        The new rows: an object after :func:`hgplvm.tl.transform`, or what ``model.transform`` gave.
    reference : AnnData, fitted hyperbolic model, or array of shape (n, 2)
        The rows of the fit.
    color : str or array of shape (m,), optional
        Colour of the new rows, as in :func:`hgplvm.pl.poincare`.
    reference_color : str or array of shape (n,), optional
        Categories of the rows of the fit, which are then drawn in pale colours; by default that of
        `color` where `reference` has such a column, else they are grey.
    off_map : "auto", array of shape (m,), or None, default="auto"
        p-values of the new rows, of which those below 0.01 are crosses; "auto" takes those that
        :func:`hgplvm.tl.transform` left in ``obs``. An array of points has none.
    key, root, zoom
        As in :func:`hgplvm.pl.poincare`; rows of the root are rows of the fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    size : float, optional
        Marker area of the rows of the fit in points²; new rows are about twice as large.
    title : str, optional
        Title of the axes; by default the name of the colour.
    palette, cmap, vmin, vmax, vcenter, legend, frameon, grid
        As in :func:`hgplvm.pl.poincare`.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
    """
    owner = "placed"
    legend = choice(owner, "legend", legend, LEGENDS)
    grid = choice(owner, "grid", grid, GRIDS)
    check.check_flag(owner, "frameon", frameon)
    old = draw(owner, reference, key=key, root=root)
    new = replace(draw(owner, adata, key=key), pose=old.pose)
    strange = _strange(owner, adata, off_map, key, len(new.points))
    shown = colors_of(owner, adata, color, len(new.points), palette=palette, key=key, keep=False)
    if reference_color is None and isinstance(color, str) and ad.is_anndata(reference):
        known = color in reference.obs and shown is not None and not shown.continuous
        reference_color = color if known else None
    behind = colors_of(owner, reference, reference_color, len(old.points), palette=palette, key=key)
    if shown is not None and behind is not None and not (shown.continuous or behind.continuous):
        shown, behind = _alike(shown, behind)

    view = DiskView(owner, old.points, zoom, new.points)
    place = Place(ax, view.size(panel_area(1)))
    ax = place.ax
    draw_disk(ax, view, grid=grid, frameon=frameon, points=old.points)
    area = marker_area(ax, len(old.points), size, owner=owner)
    faces: Any = OLD
    if behind is not None:
        faces = behind.rgba(*scale_of(owner, behind, palette, cmap, None))
    x, y = old.points.T
    ax.scatter(
        x,
        y,
        s=area,
        c=faces,
        alpha=0.35 if behind is not None else 0.7,
        linewidths=0,
        rasterized=len(old.points) > RASTERISE_FROM,
        zorder=1.5,
    )
    limits = Limits(owner, vmin, vmax, vcenter)
    tones = np.array([NEW] * len(new.points), dtype=object)
    if shown is not None:
        scale, norm = scale_of(owner, shown, palette, cmap, limits)
        tones = shown.rgba(scale, norm)
    large = max(min(LARGER * area, LARGEST), area)
    kinds: list[tuple[Array, dict[str, Any]]] = [
        (~strange, {"edgecolors": "black", "linewidths": 0.5, "marker": "o"}),
        (strange, {"linewidths": 1.1, "marker": "x"}),
    ]
    for rows, style in kinds:
        if rows.any():
            x, y = new.points[rows].T
            ax.scatter(x, y, s=large, c=list(tones[rows]), zorder=3, **style)
    if shown is not None and shown.continuous:
        if legend != "none":
            draw_bar(ax, scale, norm, shown.unit)
    elif legend == "on data" and (named := shown or behind) is not None:
        places = new.points if named is shown else old.points
        name_on_data(ax, places, named, view)
    elif legend == "side":
        _draw_key(ax, _named(shown, behind), strange)
    set_title(ax, title, shown)
    place.settle()
    return finished(ax, show, save)


def _strange(owner: str, adata: Any, off_map: Any, key: str, n_points: int) -> Array:
    """Whether the model does not explain each of the new rows."""
    if isinstance(off_map, str):
        check.check_option(owner, "off_map", off_map, ("auto",))
        column = ad.Keys(key).off_map
        there = ad.is_anndata(adata) and column in adata.obs
        off_map = adata.obs[column] if there else None
    if off_map is None:
        return np.zeros(n_points, dtype=bool)
    values = np.asarray(off_map, dtype=float)
    if values.shape != (n_points,):
        raise ValueError(
            f"The 'off_map' of {owner} must have a p-value for each of the {n_points} new rows. "
            f"Got an array of shape {values.shape} instead."
        )
    return np.asarray(values < OFF_MAP)


def _alike(new: Colors, old: Colors) -> tuple[Colors, Colors]:
    """Give a category the same colour in both; those that only one has get other ones."""
    names = list(dict.fromkeys([*map(str, old.names), *map(str, new.names)]))
    table = {str(name): colour for name, colour in zip(old.names, old.colors, strict=True)}
    free = [c for c in categorical(min(2 * len(names) + 2, 102)) if c not in table.values()]
    for name in names:
        if name not in table:
            grey = name == check.MISSING or not free
            table[name] = MISSING_COLOR if grey else free.pop(0)
    return replace(new, colors=[table[str(name)] for name in new.names]), old


def _named(new: Colors | None, old: Colors | None) -> list[tuple[Any, Any]]:
    """Categories of both, each once, with their colours."""
    found: dict[str, tuple[Any, Any]] = {}
    for colors in (old, new):
        for name, colour in [] if colors is None or colors.continuous else colors.legend:
            found.setdefault(str(name), (name, colour))
    return list(found.values())


def _draw_key(ax: Axes, named: list[tuple[Any, Any]], strange: Array) -> None:
    """Say what dots and crosses are, and name the categories."""
    style: dict[str, Any] = {"s": 40.0, "color": "#7f7f7f" if named else NEW}
    if not strange.all():
        ax.scatter([], [], label="new", edgecolors="black", linewidths=0.5, **style)
    if strange.any():
        ax.scatter([], [], label="new, not explained", marker="x", **style)
    if not named:
        ax.scatter([], [], label="of the fit", s=20.0, color=OLD, linewidths=0)
    draw_legend(ax, named)
