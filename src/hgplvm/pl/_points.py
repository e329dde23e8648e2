"""Points on a picture: scatter, legend, colour bar, names."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, FuncNorm, Normalize
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.geometry import frechet_mean, lorentz_to_poincare, poincare_to_lorentz
from hgplvm.pl._colors import MISSING_COLOR, Colors, Limits, color_map
from hgplvm.pl._layout import inches_of
from hgplvm.pl._names import write_names
from hgplvm.pl._palettes import categorical
from hgplvm.pl._style import plain
from hgplvm.pl._view import DiskView

__all__ = [
    "LEGENDS",
    "draw_bar",
    "draw_legend",
    "draw_points",
    "marker_area",
    "name_on_data",
    "scale_of",
    "set_title",
]

RASTERISE_FROM = 20_000
LEGENDS = ("side", "on data", "none")
# names in a column of the legend, and how many names a picture has at most
NAMES_IN_COLUMN, MOST_NAMES = 20, 102
# area of all markers together in points², for axes of AREA inches²; of the smallest and largest
MARKERS, AREA, SMALLEST, LARGEST = 30_000.0, 21.0, 1.0, 30.0
# size of the markers in a legend, in points²
LEGEND_MARKER = 40.0
# inches between axes and colour bar, and its width
BAR_GAP, BAR_WIDTH = 0.12, 0.14


def marker_area(ax: Axes, n_points: int, size: float | None = None, *, owner: str = "") -> float:
    """Area of a marker in points²: as given, or by the number of points and the axes."""
    if size is not None:
        check.check_number(owner, "size", size, low=0)
        return float(size)
    width, height = inches_of(ax)
    share = min(width * height / AREA, 1.5)
    return share * float(np.clip(MARKERS / max(n_points, 1), SMALLEST, LARGEST))


def draw_points(
    ax: Axes,
    points: Array,
    colors: Colors | None,
    *,
    owner: str,
    palette: Any = None,
    cmap: Any = None,
    limits: Limits | None = None,
    size: float | None = None,
    legend: str = "side",
    view: DiskView | None = None,
    hyperbolic: bool = True,
    alpha: float = 0.85,
) -> None:
    """Scatter points with their colours and a legend."""
    style: dict[str, Any] = {
        "s": marker_area(ax, len(points), size, owner=owner),
        "linewidths": 0,
        "alpha": alpha,
        "rasterized": len(points) > RASTERISE_FROM,
        "zorder": 2,
    }
    if colors is None:
        ax.scatter(*points.T, color=categorical(1)[0], **style)
        return
    scale, norm = scale_of(owner, colors, palette, cmap, limits)
    order = _order(colors)
    if colors.continuous:
        known = colors.known[order]
        for rows, tones in (
            (order[~known], {"color": MISSING_COLOR}),
            (order[known], {"c": colors.values[order[known]], "cmap": scale, "norm": norm}),
        ):
            if len(rows):
                x, y = points[rows].T
                ax.scatter(x, y, **tones, **style)
    else:
        x, y = points[order].T
        ax.scatter(x, y, c=colors.rgba(scale)[order], **style)
    if colors.continuous:
        if legend != "none" and colors.known.any():
            draw_bar(ax, scale, norm, colors.unit)
    elif legend == "side":
        draw_legend(ax, colors.legend)
    elif legend == "on data":
        name_on_data(ax, points, colors, view, hyperbolic)


def set_title(ax: Axes, title: str | None, colors: Colors | None) -> None:
    """Set the title that was given, or the name of the colour."""
    if title is not None:
        ax.set_title(title)
    elif colors is not None and colors.title is not None:
        ax.set_title(plain(colors.title))


def scale_of(
    owner: str, colors: Colors, palette: Any, cmap: Any, limits: Limits | None
) -> tuple[Colormap, Normalize]:
    """Colour map and scale of numbers; for categories they do not matter."""
    if not colors.continuous:
        return color_map(owner, None), Normalize(0.0, 1.0)
    chosen = color_map(owner, cmap, name="cmap") if cmap is not None else color_map(owner, palette)
    return chosen, colors.norm(limits or Limits(owner))


def _order(colors: Colors) -> Array:
    """Grey points below; then the largest numbers on top, or categories in no order."""
    known = colors.known
    if colors.continuous:
        key = np.where(known, colors.values, -np.inf)
        return np.asarray(np.argsort(key, kind="stable"))
    shuffled = np.random.default_rng(0).permutation(len(known))
    return np.asarray(shuffled[np.argsort(known[shuffled], kind="stable")])


def draw_legend(ax: Axes, named: list[tuple[Any, Any]]) -> None:
    """Name categories, and what has a label already, beside the axes; of very many, how many."""
    if len(named) > MOST_NAMES:
        named = [(f"{len(named):,} categories", MISSING_COLOR)]
    for name, colour in named:
        ax.scatter([], [], s=LEGEND_MARKER, color=colour, label=plain(name), linewidths=0, zorder=2)
    width, _ = inches_of(ax)
    count = len(ax.get_legend_handles_labels()[1])
    if not count:
        return
    ax.legend(
        loc="center left",
        bbox_to_anchor=(1.0 + 0.08 / width, 0.5),
        frameon=False,
        borderaxespad=0.0,
        handletextpad=0.3,
        ncols=1 + (count - 1) // NAMES_IN_COLUMN,
    )


def draw_bar(ax: Axes, scale: Colormap, norm: Normalize, unit: str | None) -> None:
    """Draw a colour bar beside the axes, with its unit."""
    width, _ = inches_of(ax)
    place = (1.0 + BAR_GAP / width, 0.2, BAR_WIDTH / width, 0.6)
    bar_axes = ax.inset_axes(place)
    figure = ax.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(ScalarMappable(norm, scale), cax=bar_axes)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(labelsize="small", width=0.5)
    if isinstance(norm, FuncNorm):
        bar.ax.yaxis.set_major_locator(FixedLocator(_count_ticks(norm)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if unit is not None:
        bar.set_label(unit, fontsize="small")
    bar.ax.set_label("<colorbar>")


def _count_ticks(norm: Normalize) -> list[float]:
    """Round numbers of counts at similar distances on the scale."""
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 1.0)
    parts = [m * 10.0**k for k in range(-3, 8) for m in (1.0, 2.0, 5.0)]
    found: list[float] = []
    least = (np.log1p(high) - np.log1p(low)) / 7.0
    for value in [0.0, *parts]:
        far = not found or np.log1p(value) - np.log1p(found[-1]) >= least
        if low <= value <= high and far:
            found.append(value)
    return found


def name_on_data(
    ax: Axes,
    points: Array,
    colors: Colors,
    view: DiskView | None,
    hyperbolic: bool = True,
) -> None:
    """Write each category's name where the middle of its points is; of very many, the largest."""
    names, places = [], []
    for name in _largest(colors):
        own = points[colors.values == name]
        if view is not None:
            own = own[view.inside(own)]
        if name == check.MISSING or not len(own):
            continue
        names.append(name)
        places.append(_middle(own, hyperbolic))
    write_names(ax, names, np.array(places).reshape(-1, 2))


def _largest(colors: Colors) -> list[Any]:
    """Categories to name, in their order."""
    named = [name for name, _ in colors.legend]
    if len(named) <= MOST_NAMES:
        return named
    found, counts = np.unique(colors.values, return_counts=True)
    size = dict(zip(found.tolist(), counts.tolist(), strict=True))
    chosen = set(sorted(named, key=lambda name: -size.get(name, 0))[:MOST_NAMES])
    return [name for name in named if name in chosen]


def _middle(points: Array, hyperbolic: bool) -> Array:
    """Return the point nearest to the mean: that itself may lie where there is nothing."""
    if hyperbolic:
        mean = frechet_mean(poincare_to_lorentz(torch.from_numpy(np.array(points))))
        centre = lorentz_to_poincare(mean).numpy()
    else:
        centre = points.mean(axis=0)
    near: Array = points[np.argmin(np.square(points - centre).sum(axis=1))]
    return near
