"""Pictures of embeddings, with matplotlib. Each function takes and returns axes."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Circle

from hgplvm import _validation as check

__all__ = ["length_scales", "poincare"]

# Okabe and Ito's palette: distinguishable with any colour vision
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
GRID = "#d9d9d9"
RASTERISE_FROM = 20_000
# integers with more different values than this are numbers, not names
MOST_CATEGORIES = 30


def poincare(
    embedding: Any,
    color: Any = None,
    *,
    ax: Axes | None = None,
    palette: str | list[str] | None = None,
    size: float | None = None,
    title: str | None = None,
    legend: bool = True,
    grid: bool = True,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Scatter plot on the Poincaré disk.

    The outer circle is the boundary at infinity; the thin circles are at hyperbolic distance
    1, 2, 3, … from the origin.

    Parameters
    ----------
    embedding : fitted hyperbolic model, or array of shape (n, 2)
        What to draw, in ball coordinates.
    color : array of shape (n,), optional
        One value a point. Floats, and integers with more than 30 different values, are drawn on a
        continuous scale with a colour bar; anything else as categories with a legend, missing ones
        in grey.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette : str or list of str, optional
        Name of a matplotlib colour map, or colours: of the categories in sorted order, or along the
        continuous scale. The default is safe for colour-blind readers.
    size : float, optional
        Marker area in points²; by default it shrinks with the number of points.
    title : str, optional
        Title of the axes.
    legend : bool, default=True
        Whether to draw a legend or colour bar.
    grid : bool, default=True
        Whether to draw the circles of equal distance and the rays.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
    """
    points = _disk_points(embedding)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 5.0), layout="constrained")
    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, edgecolor="black", linewidth=1.0, zorder=3))
    if grid:
        _draw_grid(ax)
    style: dict[str, Any] = {
        "s": size if size is not None else float(np.clip(12_000 / len(points), 1.0, 24.0)),
        "linewidths": 0,
        "alpha": 0.85,
        "rasterized": len(points) > RASTERISE_FROM,
        "zorder": 2,
    }
    if color is None:
        ax.scatter(*points.T, color=OKABE_ITO[0], **style)
    else:
        values = check.check_labels("poincare", "color", color, len(points))
        countless = values.dtype.kind in "iu" and len(np.unique(values)) > MOST_CATEGORIES
        if values.dtype.kind == "f" or countless:
            _draw_continuous(ax, points, values, palette, style, legend)
        else:
            _draw_categories(ax, points, values, palette, style, legend)
    ax.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal")
    ax.set_axis_off()
    if title is not None:
        ax.set_title(title)
    return _finished(ax, show, save)


def length_scales(
    model: Any,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Evidence of the starts that a fit compared, by scale: it tells how curved the data are.

    The scale is the median distance between the points in curvature radii. A curve that falls from
    the left says that the data are flat at heart; one that rises, that they branch. Filled dots are
    as good as the best; the first of them, in the smallest scale, was chosen.

    Parameters
    ----------
    model : fitted model
        One whose start was searched: not given as an array, and not random.
    ax : Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title of the axes.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
    """
    history = getattr(model, "history_", None)
    if not isinstance(history, dict) or "search_evidence" not in history:
        raise ValueError(
            "The 'model' of length_scales must be a fitted model whose start was searched. Got "
            f"{model!r}, which is not fitted or began at random: fit it with init='auto', 'mds' or "
            "'pca'."
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    kinds, scales = history["search_start"], history["search_scale"]
    # evidence is a logarithm: what is told is how far behind the best
    behind = history["search_evidence"] - history["search_evidence"].max()
    enough, chosen = history["search_enough"], history["search_chosen"]
    for kind, colour in zip(dict.fromkeys(kinds.tolist()), OKABE_ITO, strict=False):
        own = kinds == kind
        ax.plot(scales[own], behind[own], "-", color=colour, zorder=1, label=kind)
        face = np.where(enough[own], colour, "white")
        ax.scatter(scales[own], behind[own], s=30, c=face, edgecolors=colour, zorder=2)
    ax.scatter(
        scales[chosen],
        behind[chosen],
        s=170,
        c="none",
        edgecolors="black",
        zorder=3,
        label="chosen",
    )
    # the kinds that lost may be far below: the one that won is to be read
    depth = -behind[kinds == kinds[chosen][0]].min()
    ax.set_ylim(-1.5 * depth - 1e-3, 0.2 * depth + 1e-3)
    ax.set_xlabel("scale: median distance at the start")
    ax.set_ylabel("evidence an entry, less the best")
    ax.grid(color=GRID, linewidth=0.5)
    ax.legend(frameon=False)
    if title is not None:
        ax.set_title(title)
    return _finished(ax, show, save)


def _finished(ax: Axes, show: bool | None, save: str | PathLike[str] | None) -> Axes:
    if save is not None and (figure := ax.get_figure(root=True)) is not None:
        figure.savefig(save, dpi=150)
    if show:
        plt.show()
    return ax


def _disk_points(embedding: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    if hasattr(embedding, "get_params") and not hasattr(embedding, "lorentz_"):
        raise ValueError(
            f"The 'embedding' of poincare must be a fitted hyperbolic model or an array. Got "
            f"{embedding!r}, which is flat or not fitted: call its fit first, or scatter its "
            "embedding_ in the plane."
        )
    coordinates = getattr(embedding, "embedding_", embedding)
    points = check.check_points("poincare", "embedding", coordinates)
    if points.shape[1] != 2:
        raise ValueError(
            "The 'embedding' of poincare must have 2 columns, the coordinates on the disk. "
            f"Got {points.shape[1]} instead; fit with n_components=2, or pass two of the columns."
        )
    if (radius := np.linalg.norm(points, axis=1).max()) >= 1.0:
        raise ValueError(
            f"The 'embedding' of poincare must lie inside the unit disk; a point has radius "
            f"{radius:.4g}. Flat embeddings have no picture on the disk."
        )
    return points


def _draw_grid(ax: Axes) -> None:
    for radius in range(1, 5):
        ax.add_patch(
            Circle((0, 0), np.tanh(radius / 2), fill=False, edgecolor=GRID, linewidth=0.5, zorder=0)
        )
    angles = np.arange(12) * (np.pi / 6)
    ends = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rays = [[0.0 * end, end] for end in ends]
    ax.add_collection(LineCollection(rays, colors=GRID, linewidths=0.5, zorder=0))


def _draw_continuous(
    ax: Axes, points: Any, values: Any, palette: Any, style: dict[str, Any], legend: bool
) -> None:
    if isinstance(palette, list | tuple):
        palette = LinearSegmentedColormap.from_list("palette", list(palette))
    x, y = points.T
    artist = ax.scatter(x, y, c=values, cmap=palette or "viridis", **style)
    if legend:
        ax.figure.colorbar(artist, ax=ax, shrink=0.7)


def _draw_categories(
    ax: Axes, points: Any, values: Any, palette: Any, style: dict[str, Any], legend: bool
) -> None:
    names = [name for name in np.unique(values) if name != check.MISSING]
    colours = _category_colors(len(names), palette)
    if len(names) < len(np.unique(values)):
        names, colours = [*names, check.MISSING], [*colours, "#bbbbbb"]
    for name, colour in zip(names, colours, strict=True):
        ax.scatter(*points[values == name].T, color=colour, label=str(name), **style)
    if legend:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=1.5)


def _category_colors(n: int, palette: Any) -> list[Any]:
    if isinstance(palette, list | tuple):
        if len(palette) < n:
            raise ValueError(
                f"The 'palette' of poincare must have a colour for each of the {n} categories. "
                f"Got {len(palette)} instead."
            )
        return list(palette[:n])
    if palette is None and n <= len(OKABE_ITO):
        return list(OKABE_ITO[:n])
    return list(colormaps[palette or "turbo"](np.linspace(0.05, 0.95, n)))
