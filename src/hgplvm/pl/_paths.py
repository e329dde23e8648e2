"""Decoded features along geodesics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.geometry import distance, geodesic, lorentz_to_poincare
from hgplvm.pl._colors import checked_colors, colors_of
from hgplvm.pl._layout import COLUMNS, Panels
from hgplvm.pl._palettes import OKABE_ITO, categorical
from hgplvm.pl._points import marker_area
from hgplvm.pl._sources import Array, Decoder, Drawn, decoder_of, draw
from hgplvm.pl._style import GRID, finished, new_axes, picture, plain
from hgplvm.pl._view import DiskView, draw_disk

__all__ = ["trajectory"]

# 90% of a normal distribution are within so many standard deviations
BAND = 1.645
# inches of a panel
CURVES = (3.1, 2.2)


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
    ncols: int = COLUMNS,
    palette: Sequence[Any] | None = None,
    title: str | None = None,
    legend: bool = True,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Any:
    """Decode features along geodesics: a panel for each feature, a curve for each path.

    The bands hold about 90% of the values that the model expects to be observed there. The last
    panel shows the paths on the disk.

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
        Where to draw the curves of one feature, without the disk; a new figure by default.
    ncols : int, default=3
        Panels in a row.
    palette : sequence of colours, optional
        Of the paths; by default those that their ends have in ``uns``.
    title : str, optional
        Title of the figure.
    legend : bool, default=True
        Whether to name the paths.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes, or list of Axes where there are several features
        Those of the curves; the disk has axes of its own in the same figure.
    """
    owner = "trajectory"
    check.check_number(owner, "n_points", n_points, low=2, integer=True)
    check.check_number(owner, "ncols", ncols, low=1, integer=True)
    decode = decoder_of(owner, adata, key=key)
    columns = decode.columns(features, "features")
    several = not isinstance(features, str | int | np.integer)
    drawn = draw(owner, adata, key=key)
    begin = drawn.place("start", start)
    ends = list(end) if isinstance(end, list) and not _is_point(end) else [end]
    if not ends:
        raise ValueError("The 'end' of trajectory must name at least one place. Got none.")
    if ax is not None and len(columns) > 1:
        raise ValueError(
            f"{owner} draws a panel for each of {len(columns)} features, so that it takes no 'ax': "
            "name one feature."
        )
    paths = [_geodesic(begin, drawn.place("end", place), n_points) for place in ends]
    names = _distinct([_place_name(place) for place in ends])
    colours = _colours(owner, drawn, ends, palette)
    panels = None
    if ax is None:
        view = DiskView(owner, drawn.points, "auto", _seen(paths))
        wide, high = view.size(1.0)
        fit = min(CURVES[0] / wide, CURVES[1] / high)
        panels = Panels([CURVES] * len(columns) + [(fit * wide, fit * high)], ncols)
        *axes, disk = panels.axes
        _draw_paths(disk, view, drawn, paths, colours)
    else:
        axes = [new_axes(ax)]
    _draw_curves(axes, decode, columns, paths, names, colours)
    if legend and (len(paths) > 1 or ax is None):
        # at the right end of the first row
        at = 0 if panels is None else min(panels.n_columns, len(panels.axes)) - 1
        _draw_legend((axes if panels is None else panels.axes)[at], names, colours)
    if panels is not None:
        panels.pack(title)
    elif title is not None:
        axes[0].set_title(title)
    finished(axes[0], show, save)
    return axes if several else axes[0]


# --- parts ----------------------------------------------------------------------------------


def _draw_curves(
    axes: Sequence[Axes],
    decode: Decoder,
    columns: list[int],
    paths: list[Tensor],
    names: list[str],
    colours: list[Any],
) -> None:
    for path, name, colour in zip(paths, names, colours, strict=True):
        mean, std = decode(lorentz_to_poincare(path).numpy(), columns)
        along = distance(path[0], path).numpy()
        for i, ax in enumerate(axes):
            low, high = mean[:, i] - BAND * std[:, i], mean[:, i] + BAND * std[:, i]
            if decode.nonnegative:  # no value of the data is below zero
                low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
            ax.plot(along, mean[:, i], color=colour, linewidth=1.6, label=plain(name))
            ax.fill_between(along, low, high, color=colour, alpha=0.15, linewidth=0)
    for ax, column in zip(axes, columns, strict=True):
        ax.set_title(plain(decode.names[column]), fontsize="medium")
        ax.set_xlabel("distance from the start", fontsize="small")
        ax.tick_params(labelsize="small")
        ax.grid(color=GRID, linewidth=0.5)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        if decode.nonnegative:
            ax.set_ylim(bottom=0.0)
    axes[0].set_ylabel(decode.unit or "decoded value", fontsize="small")


def _draw_paths(
    ax: Axes,
    view: DiskView,
    drawn: Drawn,
    paths: list[Tensor],
    colours: list[Any],
) -> None:
    """Draw the paths among the rows of the fit."""
    draw_disk(ax, view, points=drawn.points)
    x, y = drawn.points.T
    area = 0.6 * marker_area(ax, len(drawn.points))
    ax.scatter(x, y, s=area, color="#bdbdbd", linewidths=0, rasterized=True, zorder=1)
    for path, colour in zip(paths, colours, strict=True):
        chart = lorentz_to_poincare(path).numpy()
        ax.plot(*chart.T, color=colour, linewidth=1.8, zorder=4)
        ax.plot(*chart[-1], "o", color=colour, markersize=4, zorder=5)
    ax.plot(*chart[0], "o", color="white", markeredgecolor="black", markersize=5, zorder=5)
    ax.set_title("the paths", fontsize="medium")


def _draw_legend(ax: Axes, names: list[str], colours: list[Any]) -> None:
    for name, colour in zip(names, colours, strict=True):
        ax.plot([], [], color=colour, linewidth=2.0, label=plain(name))
    handles, words = ax.get_legend_handles_labels()
    last = dict(zip(words, handles, strict=True))  # each name once
    ax.legend(
        last.values(),
        last.keys(),
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
    )


def _colours(owner: str, drawn: Drawn, ends: list[Any], palette: Any) -> list[Any]:
    """Return a colour for each path: that of its end where it has one."""
    if palette is not None:
        chosen = checked_colors(owner, palette)
        if len(chosen) < len(ends):
            raise ValueError(
                f"The 'palette' of {owner} must have a colour for each of the {len(ends)} paths. "
                f"Got {len(chosen)} instead."
            )
        return chosen[: len(ends)]
    groups = [place for place in ends if isinstance(place, Mapping)]
    columns = {str(next(iter(place))) for place in groups}
    if len(groups) == len(ends) and len(columns) == 1 and ad.is_anndata(drawn.source):
        (column,) = columns
        found = colors_of(owner, drawn.source, column, len(drawn.lorentz))
        if found is not None and not found.continuous:
            table = {str(name): colour for name, colour in found.legend}
            own = [table.get(str(next(iter(place.values())))) for place in groups]
            if None not in own and len({str(c) for c in own}) == len(own):
                return own
    return list(OKABE_ITO[: len(ends)]) if len(ends) <= len(OKABE_ITO) else categorical(len(ends))


def _seen(paths: list[Tensor]) -> Array:
    """All points of paths, on the disk."""
    return np.concatenate([lorentz_to_poincare(path).numpy() for path in paths])


def _geodesic(start: Tensor, end: Tensor, n_points: int) -> Tensor:
    """Return points at equal distances along a geodesic."""
    share = torch.linspace(0.0, 1.0, n_points, dtype=start.dtype)[:, None]
    return geodesic(start, end, share)


def _is_point(value: list[Any]) -> bool:
    """Whether a list is one point of the disk, or one mask, and no list of places."""
    numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in value)
    if len(value) == 2 and numbers and any(isinstance(x, float | np.floating) for x in value):
        return True
    return len(value) > 0 and all(isinstance(x, bool | np.bool_) for x in value)


def _distinct(names: list[str]) -> list[str]:
    """Give names that stand more than once a number each."""
    return [
        name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]


def _place_name(place: Any) -> str:
    """Return a word for the end of a path."""
    if isinstance(place, dict):
        return str(next(iter(place.values())))
    if isinstance(place, str | int | np.integer):
        return f"to {place}"
    array = np.asarray(place)
    return "to a group" if array.dtype == bool else f"to ({array[0]:.2g}, {array[1]:.2g})"
