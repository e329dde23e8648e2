"""Parts of pictures that the figures share: panels, zooms, error bars, colours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from hgplvm import _files as files
from hgplvm import pl
from hgplvm._reproduce.runs import Result
from hgplvm._typing import Array

__all__ = [
    "PAUL_COLORS",
    "annotate",
    "colors_of",
    "error_bars",
    "legend_of",
    "panel",
    "save",
    "scatter",
    "zoomed",
]

# Tol's muted scheme, safe for colour-blind readers
MUTED = [
    "#332288",
    "#88CCEE",
    "#44AA99",
    "#117733",
    "#999933",
    "#DDCC77",
    "#CC6677",
    "#882255",
    "#AA4499",
    "#555555",
]
# a family of colours for each lineage of Paul's cells, from progenitors (light) to mature (dark)
PAUL_COLORS = {
    "7MEP": "#F4A6C8",
    **{f"{i}Ery": colormaps["YlOrRd"](1.0 - 0.15 * (i - 1)) for i in range(6, 0, -1)},
    "8Mk": "#8C8C00",
    **{"9GMP": "#BDBDBD", "10GMP": "#737373"},
    **{"12Baso": "#6BAED6", "13Baso": "#08519C"},
    **{"14Mo": "#66C2A4", "15Mo": "#006D2C"},
    **{"16Neu": "#BCA0DC", "17Neu": "#54278F"},
    "18Eos": "#00C5CD",
    "11DC": "#000000",
    "19Lymph": "#7F4B1E",
}
# points that reach further out than this are drawn on the whole disk; share of a side that the disk
# in the corner takes
FILLED, INSET = 0.7, 0.22
# width of a letter and height of a line of small print, in shares of the axes
LETTER, LINE = 0.0095, 0.035
# light on the way, dark at the fate
MYELOID_COLORS = {
    "root": "#000000",
    **{"to Mo": "#A6CBE8", "Mo": "#0072B2", "to Ery": "#F3B58F", "Ery": "#D55E00"},
    **{"to Mk": "#E4BAD2", "Mk": "#B0457F", "to Neu": "#93D4BE", "Neu": "#007A57"},
}


def colors_of(data: str, labels: Array) -> dict[Any, Any]:
    """Colour of each label, in the order of the legend."""
    present = list(dict.fromkeys(labels.tolist()))
    if data == "Paul" and set(present) <= set(PAUL_COLORS):
        return {name: colour for name, colour in PAUL_COLORS.items() if name in present}
    if data == "Myeloid" and set(present) <= set(MYELOID_COLORS):
        return {name: colour for name, colour in MYELOID_COLORS.items() if name in present}
    names = sorted(present)
    if data.startswith("SBT"):
        ramp = colormaps["viridis"](np.linspace(0.0, 0.92, len(names)))
        return dict(zip(names, ramp, strict=True))
    return {name: MUTED[i % len(MUTED)] for i, name in enumerate(names)}


def panel(
    ax: Axes, result: Result | None, labels: Array, colors: dict[Any, Any], title: str
) -> None:
    """One embedding: on the disk where it is hyperbolic, in the plane where it is flat."""
    ax.set_title(title, fontsize=10)
    if result is None or result.points is None:
        ax.text(0.5, 0.5, "no result", ha="center", va="center", transform=ax.transAxes)
        ax.set_axis_off()
        return
    if result.metric == "poincare":
        _disk(ax, result.points, labels, colors, size=_size(len(labels)))
        return
    scatter(ax, result.points, labels, colors, _size(len(labels)))
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])


def zoomed(
    ax: Axes, result: Result | None, labels: Array, colors: dict[Any, Any], title: str
) -> None:
    """Draw the points as large as they fit, with the whole disk in the upper left corner.

    Points that fill the disk are drawn on all of it.
    """
    panel(ax, result, labels, colors, title)
    if result is None or result.points is None or result.metric != "poincare":
        return
    if np.linalg.norm(result.points, axis=1).max() > FILLED:
        return
    low, high = result.points.min(0), result.points.max(0)
    middle, reach = (low + high) / 2, max(0.52 * float((high - low).max()), 1e-6)
    # the points keep to the lower right, the disk has the corner
    room = 2.0 * reach * INSET / (1.0 - INSET)
    ax.set(xlim=(middle[0] - reach - room, middle[0] + reach))
    ax.set(ylim=(middle[1] - reach, middle[1] + reach + room))
    ax.set_axis_on()
    ax.set(xticks=[], yticks=[])
    inset = ax.inset_axes((0.01, 0.99 - 1.25 * INSET, 1.25 * INSET, 1.25 * INSET))
    inset.add_patch(Circle((0.0, 0.0), 1.0, facecolor="white", edgecolor="none", zorder=-1))
    _disk(inset, result.points, labels, colors, size=1.0)


def _disk(ax: Axes, points: Array, labels: Array, colors: dict[Any, Any], *, size: float) -> None:
    pl.poincare(points, ax=ax, size=0.0, zoom=1)
    scatter(ax, points, labels, colors, size)


def scatter(ax: Axes, points: Array, labels: Array, colors: dict[Any, Any], size: float) -> None:
    """Dots in the colour of their label."""
    x, y = points.T
    each = [colors[label] for label in labels.tolist()]
    ax.scatter(x, y, c=each, s=size, linewidths=0, zorder=2)


def _size(n: int) -> float:
    return float(np.clip(9000.0 / n, 2.5, 16.0))


def legend_of(figure: Figure, colors: dict[Any, Any], title: str, **where: Any) -> None:
    """Draw one legend for all panels."""
    dots = [
        Line2D([], [], marker="o", linestyle="", markersize=6, color=colour, label=str(name))
        for name, colour in colors.items()
    ]
    figure.legend(handles=dots, title=title, frameon=False, fontsize=9, **where)


def annotate(ax: Axes, places: dict[str, tuple[float, float]]) -> None:
    """Name points, each name beside its point and clear of the names before it.

    Call it when the limits of the axes are set.
    """
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    taken: list[tuple[float, float, float]] = []  # left, right and height, in shares of the axes
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        left, height = (x - x0) / (x1 - x0) + 0.015, (y - y0) / (y1 - y0) + 0.012
        width = LETTER * len(name)
        left = min(left, 0.99 - width)
        while any(left < b and a < left + width and abs(height - h) < LINE for a, b, h in taken):
            height += 0.005
        taken.append((left, left + width, height))
        ax.text(left, height, name, fontsize=8, transform=ax.transAxes)


def error_bars(ax: Axes, names: Sequence[str], values: Sequence[Array], title: str) -> None:
    """Mean and standard deviation of each system, one below the other."""
    for place, (name, found) in enumerate(zip(names, values, strict=True)):
        if len(found):
            colour = "#D55E00" if "defaults" in name else "#0072B2"
            ax.errorbar(found.mean(), place, xerr=found.std(), fmt="o", color=colour, capsize=3)
        else:
            # at the left edge, wherever that will be
            ax.text(0.02, place, "no result", transform=ax.get_yaxis_transform(), va="center")
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_title(title, fontsize=10)
    ax.tick_params(axis="x", labelsize=8)
    ax.grid(axis="x", color="#d9d9d9", linewidth=0.5)


def save(figure: Figure, folder: Path, stem: str) -> None:
    """Write a figure as PNG and SVG, each as a whole."""
    for suffix in (".png", ".svg"):
        with files.whole(folder / f"{stem}{suffix}") as name:
            figure.savefig(name, format=suffix[1:], dpi=150)
