"""Points on the Poincaré disk."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.pl._colors import Limits, colors_of
from hgplvm.pl._edges import draw_segments, edges_of
from hgplvm.pl._layout import COLUMNS, each_panel, keep_within
from hgplvm.pl._points import LEGENDS, draw_points, marker_area, set_title
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import choice, finished, new_axes, picture
from hgplvm.pl._view import GRIDS, DiskView, draw_disk

__all__ = ["panel_area", "poincare"]

# stability below which a row is shaded
UNSTABLE = 0.8
# area of axes in inches²: of one, and of each of several
ONE, EACH = 21.0, 12.0


@picture
def poincare(
    adata: Any,
    color: Any = None,
    *,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = "auto",
    groups: str | Sequence[str] | None = None,
    layer: str | None = None,
    use_raw: bool | None = None,
    edges: Any = None,
    groupby: Any = None,
    ax: Axes | None = None,
    ncols: int = COLUMNS,
    palette: str | Sequence[Any] | None = None,
    cmap: Any = None,
    vmin: Any = None,
    vmax: Any = None,
    vcenter: Any = None,
    size: float | None = None,
    title: str | Sequence[str] | None = None,
    legend: str | bool = "side",
    frameon: bool = True,
    grid: str | bool = "polar",
    shade: bool = True,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Any:
    """Scatter plot on the Poincaré disk.

    The picture shows the part of the disk that holds the points. The numbers at the thin circles
    are hyperbolic distances from the origin, in curvature radii. The thick circle is the boundary
    at infinity; where it is out of sight, a small disk shows which part of the whole is seen.

    Parameters
    ----------
    adata : AnnData, fitted hyperbolic model, or array of shape (n, 2)
        What to draw; an array holds ball coordinates.
    color : str, list of str, or array of shape (n,), optional
        One value per point, or the name of a column of ``adata.obs`` or of a gene; several names
        give a panel each. Floats, and integers with more than 30 different values, are drawn on a
        continuous scale with a colour bar; anything else as categories with a legend. Missing
        values are grey. A gene is shown in the unit in which the model decodes it
        (:func:`hgplvm.pl.decoder`): counts as those of a cell of median size, on a logarithmic
        scale.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
    root : int, str, dict, array of bool, or array of shape (2,), optional
        What to move to the origin: a row by its index or name, a group of rows such as
        ``{"cell_type": "HSC"}`` or a mask (their Fréchet mean), or a point.
    zoom : "auto" or float, default="auto"
        "auto" shows the part of the disk that holds the points; a number magnifies the disk about
        the origin so many times, and 1 is the whole of it.
    groups : str or list of str, optional
        Categories to show in colour; the others are grey.
    layer : str, optional
        For AnnData: the layer that genes are read from.
    use_raw : bool, optional
        For AnnData: whether genes are read from ``raw``. By default from what the model was fitted
        to, else from ``raw`` where it is there.
    edges : "lineages" or list of pairs, optional
        Lines to draw as geodesics: the skeleton that :func:`hgplvm.tl.lineages` found, pairs of
        row numbers, or with `groupby` pairs of labels.
    groupby : str or array of shape (n,), optional
        Labels that `edges` are pairs of, each at the Fréchet mean of its rows.
    ax : Axes, optional
        Where to draw; a new figure by default.
    ncols : int, default=3
        Panels in a row.
    palette : str or sequence of colours, optional
        Colours of the categories, in order: by default those that scanpy keeps in ``uns``, or else
        its palettes, which are then kept there. ``hgplvm.pl.OKABE_ITO`` is safe for colour-blind
        readers. For numbers as `cmap`.
    cmap : str, Colormap or sequence of colours, optional
        Colour map of numbers.
    vmin, vmax, vcenter : float or str such as "p99", or list of these, optional
        Ends and middle of the scale of numbers, for all panels or one by one; "p99" is the 99th
        percentile.
    size : float, optional
        Marker area in points²; by default it shrinks with the number of points.
    title : str or list of str, optional
        Title of the axes; by default the name of the colour.
    legend : {"side", "on data", "none"} or bool, default="side"
        Where the names of the categories stand. True is "side" and False "none"; for numbers,
        whether there is a colour bar.
    frameon : bool, default=True
        Whether to draw the boundary, the grid and the small disk.
    grid : {"polar", "geodesic", "none"} or bool, default="polar"
        Circles of equal distance and rays from the origin; or geodesics that cross the two axes at
        right angles, at distance 1, 2, 3, … from the origin.
    shade : bool, default=True
        Whether rows whose place other fits do not confirm stand on a grey dot: those below 0.8 in
        ``obs["hgplvm_stability"]``, where :func:`hgplvm.tl.stability` has been run.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes, or list of Axes where several colours are asked for
    """
    owner = "poincare"
    legend = choice(owner, "legend", legend, LEGENDS)
    grid = choice(owner, "grid", grid, GRIDS)
    check.check_flag(owner, "shade", shade)
    check.check_flag(owner, "frameon", frameon)
    drawn = draw(owner, adata, key=key, root=root)
    points = drawn.points
    view = DiskView(owner, points, zoom)
    curves = None if edges is None else edges_of(drawn, edges, groupby, key)
    several = _several(adata, color)
    wanted: list[Any] = list(color) if several else [color]
    titles = _titles(owner, title, wanted, several)
    limits = Limits(owner, vmin, vmax, vcenter)
    reading: dict[str, Any] = {"layer": layer, "use_raw": use_raw, "key": key, "totals": {}}
    reading |= {"groups": groups, "lenient": several}

    def draw_one(here: Axes, number: int) -> None:
        colors = colors_of(owner, adata, wanted[number], len(points), palette=palette, **reading)
        draw_disk(here, view, grid=grid, frameon=frameon, points=points)
        if shade and ad.is_anndata(adata):
            _shade_unstable(here, points, adata, ad.checked_keys(owner, "key", key).stability)
        if curves is not None:
            draw_segments(here, curves)
        draw_points(
            here,
            points,
            colors,
            owner=owner,
            palette=palette,
            cmap=cmap,
            limits=limits.of_panel(number, len(wanted)),
            size=size,
            legend=legend,
            view=view,
        )
        set_title(here, titles[number], colors)

    if ax is not None:
        if several:
            raise ValueError(
                f"{owner} draws a panel for each of the {len(wanted)} colours, so that it takes no "
                "'ax'. Name one colour, or leave it out."
            )
        axes = [new_axes(ax)]
        draw_one(axes[0], 0)
        keep_within(axes[0])
    else:
        axes = each_panel(
            len(wanted), ncols, view.size(panel_area(len(wanted))), draw_one, owner=owner
        )
    finished(axes[0], show, save)
    return axes if several else axes[0]


def panel_area(n_panels: int) -> float:
    """Area of axes in inches²."""
    return ONE if n_panels == 1 else EACH


def _titles(owner: str, title: Any, wanted: list[Any], several: bool) -> list[str | None]:
    """Title of each panel."""
    if title is None or not several:
        return [title] * len(wanted)
    if isinstance(title, str) or len(title) != len(wanted):
        raise ValueError(
            f"The 'title' of {owner} must be a list with an entry for each of the {len(wanted)} "
            f"panels. Got {title!r:.60} instead."
        )
    return list(title)


def _several(data: Any, color: Any) -> bool:
    """Whether the colour is a list of names of an AnnData object, and no list of labels.

    None among them is a panel without colours.
    """
    if not ad.is_anndata(data) or isinstance(color, str) or hasattr(color, "cat"):
        return False
    if not isinstance(color, Sequence | np.ndarray) and type(color).__name__ != "Index":
        return False
    names = list(color)
    if not names or not all(name is None or isinstance(name, str) for name in names):
        return False
    return len(names) != data.n_obs or set(names) <= {None, *data.obs, *data.var_names}


def _shade_unstable(ax: Axes, points: Array, adata: Any, column: str) -> None:
    """Put a grey dot under each row whose place other fits do not confirm."""
    if column not in adata.obs:
        return
    unstable = np.asarray(adata.obs[column], dtype=float) < UNSTABLE
    if unstable.any():
        area = 3.0 * marker_area(ax, len(points))
        style: dict[str, Any] = {"color": "#888888", "alpha": 0.35, "linewidths": 0, "zorder": 1}
        x, y = points[unstable].T
        ax.scatter(x, y, s=area, **style)
