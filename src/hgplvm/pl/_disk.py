"""The Poincaré disk and points on it."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.geometry import (
    frechet_mean,
    klein_to_lorentz,
    lorentz_to_poincare,
    poincare_to_lorentz,
)
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import (
    GRID,
    MISSING_COLOR,
    OKABE_ITO,
    Colors,
    color_map,
    colors_of,
    columns_of,
    finished,
    make_room,
    new_axes,
    picture,
)

__all__ = [
    "OKABE_ITO",
    "DiskView",
    "choice",
    "draw_disk",
    "draw_points",
    "name_on_data",
    "poincare",
]

RASTERISE_FROM = 20_000
LEGENDS = ("side", "on data", "none")
GRIDS = ("polar", "geodesic", "none")
# room around the boundary circle
MARGIN = 1.03
# stability below which a row is shaded
UNSTABLE = 0.8
# panels in a row, where several colours are asked for
COLUMNS = 3


@picture
def poincare(
    adata: Any,
    color: Any = None,
    *,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = 1.0,
    layer: str | None = None,
    ax: Axes | None = None,
    palette: str | Sequence[Any] | None = None,
    size: float | None = None,
    title: str | None = None,
    legend: str | bool = "side",
    grid: str | bool = "polar",
    shade: bool = True,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Any:
    """Scatter plot on the Poincaré disk.

    The outer circle is the boundary at infinity; the thin circles are at hyperbolic distance
    1, 2, 3, … from the origin.

    Parameters
    ----------
    adata : AnnData, fitted hyperbolic model, or array of shape (n, 2)
        What to draw; an array holds ball coordinates.
    color : str, list of str, or array of shape (n,), optional
        One value per point, or the name of a column of ``adata.obs`` or of a gene; several names
        give a panel each. Floats, and integers with more than 30 different values, are drawn on a
        continuous scale with a colour bar; anything else as categories with a legend. Missing
        values are grey.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
    root : int, str, dict, array of bool, or array of shape (2,), optional
        What to move to the origin: a row by its index or name, a group of rows such as
        ``{"cell_type": "HSC"}`` or a mask (their Fréchet mean), or a point.
    zoom : float or "auto", default=1.0
        How many times to magnify the picture about the origin; "auto" makes the points fill it.
    layer : str, optional
        For AnnData: the layer that genes are read from, instead of ``raw`` or ``X``.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette : str or sequence of colours, optional
        Name of a matplotlib colour map, or colours: of the categories in order, or along the
        continuous scale. The default is the palette that scanpy keeps in ``uns``, or else one that
        is safe for colour-blind readers.
    size : float, optional
        Marker area in points²; by default it shrinks with the number of points.
    title : str, optional
        Title of the axes; by default the name of the colour.
    legend : {"side", "on data", "none"} or bool, default="side"
        Where the names of the categories stand. True is "side" and False "none"; for numbers,
        whether there is a colour bar.
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
    if _several(adata, color):
        return _panels(
            adata,
            list(color),
            ax=ax,
            show=show,
            save=save,
            title=title,
            key=key,
            root=root,
            zoom=zoom,
            layer=layer,
            palette=palette,
            size=size,
            legend=legend,
            grid=grid,
            shade=shade,
        )
    check.check_flag(owner, "shade", shade)
    drawn = draw(owner, adata, key=key, root=root)
    points = drawn.points
    colors = colors_of(owner, adata, color, len(points), palette=palette, layer=layer)
    view = DiskView(owner, points, zoom)
    own = ax is None
    ax = new_axes(ax, (5.6, 5.0))
    draw_disk(ax, view, grid=grid)
    if shade and ad.is_anndata(adata):
        _shade_unstable(ax, points, adata, ad.checked_keys(owner, "key", key).stability)
    draw_points(
        ax, points, colors, owner=owner, palette=palette, size=size, legend=legend, view=view
    )
    if own:
        make_room([ax], 5.0)
    title = colors.title if title is None and colors is not None else title
    if title is not None:
        ax.set_title(title)
    return finished(ax, show, save)


def _shade_unstable(ax: Axes, points: Array, adata: Any, column: str) -> None:
    """Put a grey dot under each row whose place other fits do not confirm."""
    if column not in adata.obs:
        return
    unstable = np.asarray(adata.obs[column], dtype=float) < UNSTABLE
    if unstable.any():
        area = float(np.clip(60_000 / len(points), 12.0, 90.0))
        style: dict[str, Any] = {"color": "#888888", "alpha": 0.35, "linewidths": 0, "zorder": 1}
        x, y = points[unstable].T
        ax.scatter(x, y, s=area, **style)


class DiskView:
    """The part of the disk that is seen: a square about the origin."""

    def __init__(self, owner: str, points: Array, zoom: float | str) -> None:
        check.check_number(owner, "zoom", zoom, low=0, closed=False, or_options=("auto",))
        if isinstance(zoom, str):
            self.reach = min(1.1 * float(np.abs(points).max()), MARGIN) or MARGIN
        else:
            self.reach = MARGIN / float(zoom)

    def inside(self, points: Array) -> Array:
        """Whether points [n, 2] are seen."""
        return np.asarray((np.abs(points) <= self.reach).all(axis=1))


def draw_disk(ax: Axes, view: DiskView, *, grid: str = "polar") -> None:
    """Draw the boundary circle and a grid, and set the limits."""
    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, edgecolor="black", linewidth=1.0, zorder=3))
    if grid == "polar":
        _draw_polar(ax)
    elif grid == "geodesic":
        _draw_geodesics(ax)
    ax.set(xlim=(-view.reach, view.reach), ylim=(-view.reach, view.reach), aspect="equal")
    ax.set_axis_off()


def draw_points(
    ax: Axes,
    points: Array,
    colors: Colors | None,
    *,
    owner: str,
    palette: Any = None,
    size: float | None = None,
    legend: str = "side",
    view: DiskView | None = None,
    hyperbolic: bool = True,
) -> None:
    """Scatter points with their colours and a legend."""
    if size is not None:
        check.check_number(owner, "size", size, low=0)
    style: dict[str, Any] = {
        "s": size if size is not None else float(np.clip(12_000 / len(points), 1.0, 24.0)),
        "linewidths": 0,
        "alpha": 0.85,
        "rasterized": len(points) > RASTERISE_FROM,
        "zorder": 2,
    }
    if colors is None:
        ax.scatter(*points.T, color=OKABE_ITO[0], **style)
    elif colors.continuous:
        _draw_continuous(ax, points, colors, color_map(owner, palette), style, legend != "none")
    else:
        _draw_categories(ax, points, colors, style)
        if legend == "side":
            ax.set_anchor("W")  # what room is left is the legend's
            # markers of one size, however small the points
            scale = (40.0 / style["s"]) ** 0.5 if style["s"] else 1.0
            ax.legend(
                loc="center left",
                bbox_to_anchor=(1.0, 0.5),
                frameon=False,
                markerscale=scale,
                ncols=columns_of(colors),
            )
        elif legend == "on data":
            name_on_data(ax, points, colors, view, hyperbolic)


# --- parts ----------------------------------------------------------------------------------


def choice(owner: str, name: str, value: str | bool, options: Sequence[str]) -> str:
    """Turn True into the first option and False into the last."""
    if isinstance(value, bool):
        return options[0] if value else options[-1]
    return check.check_option(owner, name, value, options)


def _several(data: Any, color: Any) -> bool:
    """Whether the colour is a list of names of an AnnData object, and no list of labels."""
    if not ad.is_anndata(data) or not isinstance(color, list | tuple) or not color:
        return False
    named = all(isinstance(name, str) for name in color)
    return named and (len(color) != data.n_obs or set(color) <= {*data.obs, *data.var_names})


def _panels(
    adata: Any, names: list[str], *, ax: Any, show: Any, save: Any, title: Any, **options: Any
) -> list[Axes]:
    if ax is not None or title is not None:
        raise ValueError(
            f"poincare draws a panel for each of the {len(names)} colours, so that it takes "
            "neither 'ax' nor 'title'. Name one colour, or leave them out."
        )
    n_columns = min(COLUMNS, len(names))
    n_rows = -(-len(names) // n_columns)
    figure, grid = plt.subplots(
        n_rows,
        n_columns,
        figsize=(5.2 * n_columns, 4.4 * n_rows),
        layout="constrained",
        squeeze=False,
    )
    try:
        places = grid.flat[: len(names)]
        axes = [
            poincare(adata, name, ax=at, **options) for name, at in zip(names, places, strict=True)
        ]
    except BaseException:
        plt.close(figure)
        raise
    for left in grid.flat[len(names) :]:
        left.set_axis_off()
    make_room(axes, 4.4, columns=n_columns)
    finished(axes[0], show, save)
    return axes


def _draw_polar(ax: Axes) -> None:
    for radius in range(1, 5):
        ax.add_patch(
            Circle((0, 0), np.tanh(radius / 2), fill=False, edgecolor=GRID, linewidth=0.5, zorder=0)
        )
    angles = np.arange(12) * (np.pi / 6)
    ends = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rays = [[0.0 * end, end] for end in ends]
    ax.add_collection(LineCollection(rays, colors=GRID, linewidths=0.5, zorder=0))


def _draw_geodesics(ax: Axes) -> None:
    """Draw geodesics at right angles to each axis: straight in the Klein disk, at ``tanh k``."""
    lines = []
    for at in np.tanh(np.arange(-4, 5)):
        along = np.sqrt(1.0 - at * at) * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 101))
        klein = np.stack([np.full_like(along, at), along], axis=1)
        line = lorentz_to_poincare(klein_to_lorentz(torch.from_numpy(klein))).numpy()
        lines += [line, line[:, ::-1]]
    ax.add_collection(LineCollection(lines, colors=GRID, linewidths=0.5, zorder=0))


def _draw_continuous(
    ax: Axes, points: Array, colors: Colors, scale: Any, style: dict[str, Any], bar: bool
) -> None:
    known = np.isfinite(colors.values)
    if not known.all():
        ax.scatter(*points[~known].T, color=MISSING_COLOR, **style)
    at = np.flatnonzero(known)
    at = at[np.argsort(colors.values[at], kind="stable")]  # the largest on top
    x, y = points[at].T
    artist = ax.scatter(x, y, c=colors.values[at], cmap=scale, **style)
    if bar and len(at):
        ax.figure.colorbar(artist, ax=ax, shrink=0.7)


def _draw_categories(ax: Axes, points: Array, colors: Colors, style: dict[str, Any]) -> None:
    for name, colour in zip(colors.names, colors.colors, strict=True):
        ax.scatter(*points[colors.values == name].T, color=colour, label=plain(name), **style)


def plain(name: object) -> str:
    """Return a name that matplotlib shows as it is: no formula, and no sign to leave it out."""
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def name_on_data(
    ax: Axes,
    points: Array,
    colors: Colors,
    view: DiskView | None,
    hyperbolic: bool = True,
) -> None:
    """Write each category's name where the middle of its points is."""
    outline = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for name in colors.names:
        own = points[colors.values == name]
        if view is not None:
            own = own[view.inside(own)]
        if name == check.MISSING or not len(own):
            continue
        if hyperbolic:
            middle = frechet_mean(poincare_to_lorentz(torch.from_numpy(own)))
            at = lorentz_to_poincare(middle).numpy()
        else:
            at = own.mean(axis=0)
        ax.text(
            float(at[0]),
            float(at[1]),
            plain(name),
            ha="center",
            va="center",
            fontsize="small",
            fontweight="bold",
            path_effects=outline,
            zorder=4,
        )
