"""Figures of our own: axes of the size that was asked for, and no more room than they need.

Axes are drawn first, with their legends, colour bars and titles outside. What these take on each
side is then measured, and the figure is made as large as all of it: panels are aligned, gaps are as
narrow as can be, and no legend lies on data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.pl._style import new_axes

__all__ = ["COLUMNS", "Panels", "Place", "each_panel", "inches_of", "keep_within"]

# inches between panels, and around all of them
GAP, MARGIN = 0.25, 0.08
# inches beyond their sides that axes may have, and the least share that is left of them
EDGE, LEAST_SHARE = 0.05, 0.35
# figures are multiples of so many inches
DOTS = 0.02
# panels in a row by default
COLUMNS = 3


class Panels:
    """Axes in rows, each of its own size in inches.

    Parameters
    ----------
    sizes : list of (float, float)
        Width and height of each.
    n_columns : int
        Panels in a row.
    """

    def __init__(self, sizes: Sequence[tuple[float, float]], n_columns: int = COLUMNS) -> None:
        self.n_columns = max(1, min(n_columns, len(sizes)))
        self.sizes = [(float(w), float(h)) for w, h in sizes]
        self.figure = plt.figure(figsize=(12.0, 12.0))
        self.axes = [self.figure.add_axes((0.0, 0.0, w / 12.0, h / 12.0)) for w, h in self.sizes]

    def pack(self, suptitle: str | None = None) -> None:
        """Give every panel its place, and the figure its size."""
        figure = self.figure
        top = 0.0
        if suptitle is not None:
            text = figure.suptitle(suptitle, y=0.99, va="top")
            top = text.get_window_extent().height / figure.dpi + GAP
        over = np.array([_overhang(ax) for ax in self.axes])  # [n, left, bottom, right, top]
        columns = np.arange(len(self.axes)) % self.n_columns
        rows = np.arange(len(self.axes)) // self.n_columns
        wide, high = np.array(self.sizes).T
        left, right = (_largest(over[:, i], columns) for i in (0, 2))
        below, above = (_largest(over[:, i], rows) for i in (1, 3))
        widths = left + _largest(wide, columns) + right
        heights = below + _largest(high, rows) + above
        starts = MARGIN + np.concatenate([[0.0], np.cumsum(widths + GAP)[:-1]])
        ends = MARGIN + top + np.cumsum(heights + GAP) - GAP  # from the top
        # whole dots at the usual resolutions
        wanted = np.array([starts[-1] + widths[-1] + MARGIN, ends[-1] + MARGIN])
        size = np.ceil(wanted / DOTS - 1e-6) * DOTS
        figure.set_size_inches(float(size[0]), float(size[1]))
        for ax, column, row, (w, h) in zip(self.axes, columns, rows, self.sizes, strict=True):
            x = starts[column] + left[column]
            y = size[1] - ends[row] + below[row]
            ax.set_position((x / size[0], y / size[1], w / size[0], h / size[1]))
        if suptitle is not None:
            text.set_y(1.0 - MARGIN / size[1])
            text.set_x(0.5)
            needed = text.get_window_extent().width / figure.dpi + 2.0 * MARGIN
            if needed > size[0]:
                self._widen(needed)

    def _widen(self, width: float) -> None:
        """Widen the figure; panels keep their sizes and stay on the left."""
        before = self.figure.get_figwidth()
        width = float(np.ceil(width / DOTS) * DOTS)
        self.figure.set_figwidth(width)
        for ax in self.axes:
            box = ax.get_position(original=True)
            ax.set_position(
                (box.x0 * before / width, box.y0, box.width * before / width, box.height)
            )


class Place:
    """Axes for one picture: those that were given, or those of a figure of its own size."""

    def __init__(self, ax: Axes | None, size: tuple[float, float]) -> None:
        self.panels = Panels([size]) if ax is None else None
        self.ax = new_axes(ax) if self.panels is None else self.panels.axes[0]

    def settle(self) -> None:
        """Make room for what stands beside the axes."""
        if self.panels is not None:
            self.panels.pack()
        else:
            keep_within(self.ax)


def each_panel(
    n_panels: int,
    ncols: Any,
    size: tuple[float, float],
    draw: Callable[[Axes, int], None],
    *,
    owner: str,
) -> list[Axes]:
    """Draw panels of one size, side by side."""
    check.check_number(owner, "ncols", ncols, low=1, integer=True)
    panels = Panels([size] * n_panels, int(ncols))
    for number, ax in enumerate(panels.axes):
        draw(ax, number)
    panels.pack()
    return panels.axes


def keep_within(ax: Axes) -> None:
    """Shrink axes that were given so that legend and colour bar stay in their part of the figure.

    Figures with a layout engine do this by themselves.
    """
    figure = ax.get_figure(root=True)
    if figure is None or figure.get_layout_engine() is not None:
        return
    _, _, over, _ = _overhang(ax)
    box = ax.get_position(original=True)
    width = float(figure.get_figwidth()) * box.width
    if over <= EDGE or width <= 0.0:
        return
    share = max(1.0 - over / width, LEAST_SHARE)
    ax.set_position((box.x0, box.y0, share * box.width, box.height))
    ax.set_anchor("W")


def inches_of(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in inches."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_window_extent()
    return max(box.width / figure.dpi, 0.1), max(box.height / figure.dpi, 0.1)


def _largest(values: Array, groups: Array) -> Array:
    """Largest value of each group."""
    return np.array([values[groups == group].max() for group in np.unique(groups)])


def _overhang(ax: Axes) -> tuple[float, float, float, float]:
    """Inches of what lies outside of axes on the left, below, on the right and above."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    inner: Bbox = ax.get_window_extent()
    outer: Bbox | None = ax.get_tightbbox()
    if outer is None:
        return (0.0, 0.0, 0.0, 0.0)
    sides = (
        inner.x0 - outer.x0,
        inner.y0 - outer.y0,
        outer.x1 - inner.x1,
        outer.y1 - inner.y1,
    )
    found = [max(side, 0.0) / figure.dpi for side in sides]
    return (found[0], found[1], found[2], found[3])
