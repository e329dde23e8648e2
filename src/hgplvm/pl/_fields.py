"""Decoded features: fields over the disk, and curves along geodesics."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colorbar import make_axes
from matplotlib.patches import Circle
from torch import Tensor

from hgplvm import _validation as check
from hgplvm.geometry import distance, geodesic, lorentz_to_poincare, poincare_to_lorentz
from hgplvm.pl._disk import GRIDS, DiskView, choice, draw_disk
from hgplvm.pl._sources import Array, Drawn, decoder_of, draw
from hgplvm.pl._style import (
    GRID,
    OKABE_ITO,
    checked_colors,
    color_map,
    finished,
    new_axes,
    picture,
    shown,
)

__all__ = ["decoder", "trajectory"]

# corners of the picture are beyond the boundary: they are decoded on a circle just inside it
RIM = 0.999
LINES = ("-", "--", ":", "-.")
# 90% of a normal distribution are within so many standard deviations
BAND = 1.645


@picture
def decoder(
    adata: Any,
    feature: str | int,
    *,
    what: str = "mean",
    resolution: int = 121,
    points: bool = True,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = 1.0,
    ax: Axes | None = None,
    palette: str | Sequence[Any] | None = None,
    title: str | None = None,
    legend: bool = True,
    grid: str | bool = "none",
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Draw one decoded feature everywhere on the disk.

    Parameters
    ----------
    adata : AnnData or fitted hyperbolic model
        An object after :func:`hgplvm.tl.hgplvm`, or a model.
    feature : str or int
        The column to decode: its name or its number.
    what : {"mean", "std"}, default="mean"
        The expected value, or the standard deviation of an observed one.
    resolution : int, default=121
        Points along each side that are decoded.
    points : bool, default=True
        Whether to draw the rows of the fit as small dots.
    key, root, zoom
        As in :func:`hgplvm.pl.poincare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette : str or sequence of colours, optional
        Colour map.
    title : str, optional
        Title of the axes; by default the feature's name.
    legend : bool, default=True
        Whether to draw a colour bar.
    grid : {"polar", "geodesic", "none"} or bool, default="none"
        As in :func:`hgplvm.pl.poincare`.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
    """
    owner = "decoder"
    check.check_option(owner, "what", what, ("mean", "std"))
    check.check_number(owner, "resolution", resolution, low=2, integer=True)
    grid = choice(owner, "grid", grid, GRIDS)
    decode = decoder_of(owner, adata, key=key)
    column = decode.column(feature)
    drawn = draw(owner, adata, key=key, root=root)
    view = DiskView(owner, drawn.points, zoom)
    side = np.linspace(-view.reach, view.reach, resolution)
    seen = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    mean, std = decode(_stored(drawn, seen), [column])
    field = (mean if what == "mean" else std).reshape(resolution, resolution)
    ax = new_axes(ax, (5.6, 5.0))
    draw_disk(ax, view, grid=grid)
    half = (side[1] - side[0]) / 2.0
    low, high = side[0] - half, side[-1] + half
    image = ax.imshow(
        field,
        extent=(low, high, low, high),
        origin="lower",
        interpolation="bilinear",
        cmap=color_map(owner, palette, "viridis" if what == "mean" else "magma"),
        zorder=-1,
    )
    image.set_clip_path(Circle((0.0, 0.0), 1.0, transform=ax.transData))
    draw_limits = (-view.reach, view.reach)
    ax.set(xlim=draw_limits, ylim=draw_limits)
    if points:
        size = float(np.clip(3_000 / len(drawn.points), 0.3, 4.0))
        style: dict[str, Any] = {"color": "white", "linewidths": 0, "alpha": 0.7}
        x, y = drawn.points.T
        ax.scatter(x, y, s=size, rasterized=True, **style)
    if legend:
        ax.figure.colorbar(image, ax=ax, shrink=0.7)
    name = decode.names[column]
    ax.set_title(title if title is not None else name if what == "mean" else f"{name}, {what}")
    return finished(ax, show, save)


@picture
def trajectory(
    adata: Any,
    start: Any,
    end: Any,
    *,
    features: str | int | Sequence[str | int],
    n_points: int = 100,
    key: str = "hgplvm",
    ax: Axes | None = None,
    palette: Sequence[Any] | None = None,
    title: str | None = None,
    legend: bool = True,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Decode features along geodesics, with the paths on a small disk beside the curves.

    The bands hold about 90% of the values that the model expects to be observed there.

    Parameters
    ----------
    adata : AnnData or fitted hyperbolic model
        An object after :func:`hgplvm.tl.hgplvm`, or a model.
    start : int, str, dict, array of bool, or array of shape (2,)
        Where the paths begin, as the root in :func:`hgplvm.pl.poincare`.
    end : as `start`, or a list of such
        Where they end; for several, a path to each.
    features : str, int, or list of these
        Columns to decode: their names or numbers.
    n_points : int, default=100
        Points along each path.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
    ax : Axes, optional
        Where to draw the curves; a new figure by default.
    palette : sequence of colours, optional
        Of the features; of the paths where there is one feature.
    title : str, optional
        Title of the axes.
    legend : bool, default=True
        Whether to draw a legend.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
        Those of the curves; the disk has axes of its own in the same figure.
    """
    owner = "trajectory"
    check.check_number(owner, "n_points", n_points, low=2, integer=True)
    decode = decoder_of(owner, adata, key=key)
    if not isinstance(features, str | int | np.integer | Sequence | np.ndarray):
        raise ValueError(
            "The 'features' of trajectory must be the name or number of a column, or a list of "
            f"these. Got {shown(features)} instead."
        )
    wanted = [features] if isinstance(features, str | int | np.integer) else list(features)
    columns = [decode.column(feature) for feature in wanted]
    if not columns:
        raise ValueError("The 'features' of trajectory must name at least one column. Got none.")
    drawn = draw(owner, adata, key=key)
    begin = drawn.place("start", start)
    ends = list(end) if isinstance(end, list) and not _is_point(end) else [end]
    if not ends:
        raise ValueError("The 'end' of trajectory must name at least one place. Got none.")
    paths = [_geodesic(begin, drawn.place("end", place), n_points) for place in ends]
    by_path = len(columns) == 1 and len(paths) > 1
    colours = list(OKABE_ITO) if palette is None else checked_colors(owner, palette)
    if len(colours) < (len(paths) if by_path else len(columns)):
        raise ValueError(
            f"The 'palette' of trajectory must have a colour for each of the "
            f"{len(paths) if by_path else len(columns)} curves. Got {len(colours)} instead."
        )
    ax = new_axes(ax, (7.6, 4.0))
    # room for the disk is taken from the curves, as for a colour bar
    disk, _ = make_axes(ax, location="right", fraction=0.32, shrink=1.0, aspect=1.0, pad=0.03)
    draw_disk(disk, DiskView(owner, drawn.points, 1.0))
    size = float(np.clip(2_000 / len(drawn.points), 0.2, 4.0))
    x, y = drawn.points.T
    disk.scatter(x, y, s=size, color="#999999", linewidths=0, rasterized=True)
    for number, (path, place) in enumerate(zip(paths, ends, strict=True)):
        chart = lorentz_to_poincare(path).numpy()
        mean, std = decode(chart, columns)
        along = distance(path[0], path).numpy()
        style = "-" if by_path else LINES[number % len(LINES)]
        colour = colours[number] if by_path else "black"
        disk.plot(*chart.T, style, color=colour, linewidth=1.5, zorder=4)
        disk.plot(*chart[-1], "o", color=colour, markersize=3, zorder=4)
        for i, column in enumerate(columns):
            shade = colours[number] if by_path else colours[i]
            name = _place_name(place) if by_path else decode.names[column]
            if number and not by_path:
                name = "_nolegend_"
            _draw_band(ax, along, mean[:, i], std[:, i], style=style, color=shade, label=name)
    ax.set_xlabel("distance from the start")
    ax.set_ylabel(decode.names[columns[0]] if len(columns) == 1 else "decoded value")
    ax.grid(color=GRID, linewidth=0.5)
    if not by_path and len(paths) > 1:  # what the kinds of line stand for
        for number, place in enumerate(ends):
            style = LINES[number % len(LINES)]
            ax.plot([], [], style, color="black", label=_place_name(place))
    if legend:
        ax.legend(frameon=False)
    if title is not None:
        ax.set_title(title)
    return finished(ax, show, save)


# --- parts ----------------------------------------------------------------------------------


def _stored(drawn: Drawn, seen: Array) -> Array:
    """Return points of the picture in the model's own coordinates; corners go to the rim."""
    radius = np.linalg.norm(seen, axis=1, keepdims=True)
    inside = np.where(radius > RIM, seen * (RIM / np.maximum(radius, RIM)), seen)
    if drawn.pose is None:
        return inside
    moved = lorentz_to_poincare(drawn.pose.back(poincare_to_lorentz(torch.from_numpy(inside))))
    found = moved.numpy()
    radius = np.linalg.norm(found, axis=1, keepdims=True)
    most = 1.0 - 1e-12  # rounding may put the rim of a far root on the boundary
    return np.where(radius > most, found * (most / np.maximum(radius, most)), found)


def _geodesic(start: Tensor, end: Tensor, n_points: int) -> Tensor:
    """Return points at equal distances along a geodesic."""
    share = torch.linspace(0.0, 1.0, n_points, dtype=start.dtype)[:, None]
    return geodesic(start, end, share)


def _draw_band(
    ax: Axes, along: Array, mean: Array, std: Array, *, style: str, color: Any, label: str
) -> None:
    """Draw a curve in the band that holds 90% of what may be observed: ``m ± 1.645 s``."""
    ax.plot(along, mean, style, color=color, label=label)
    low, high = mean - BAND * std, mean + BAND * std
    ax.fill_between(along, low, high, color=color, alpha=0.15, linewidth=0)


def _is_point(value: list[Any]) -> bool:
    """Whether a list is one point of the disk, or one mask, and no list of places."""
    numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in value)
    if len(value) == 2 and numbers and any(isinstance(x, float | np.floating) for x in value):
        return True
    return len(value) > 0 and all(isinstance(x, bool | np.bool_) for x in value)


def _place_name(place: Any) -> str:
    """Return a word for the end of a path."""
    if isinstance(place, dict):
        return str(next(iter(place.values())))
    if isinstance(place, str | int | np.integer):
        return f"to {place}"
    array = np.asarray(place)
    return "to a group" if array.dtype == bool else f"to ({array[0]:.2g}, {array[1]:.2g})"
