"""How a fit went: curves of numbers."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from hgplvm import _validation as check
from hgplvm.pl._palettes import OKABE_ITO
from hgplvm.pl._sources import history_of
from hgplvm.pl._style import GRID, finished, new_axes, picture, shown

__all__ = ["history", "length_scales"]

# what a fit records at each step, and the axis labels
QUANTITIES = {
    "objective": "objective",
    "gradient_norm": "norm of the gradient",
    "step_size": "length of the step",
    "variance": "variance σ",
    "noise_variance": "noise variance 1/β",
    "length_scale": "length scale κ",
}
LOGARITHMIC = ("gradient_norm", "step_size", "variance", "noise_variance")


@picture
def length_scales(
    adata: Any,
    *,
    key: str = "hgplvm",
    ax: Axes | None = None,
    title: str | None = None,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Evidence of the starts that a fit compared, by scale: it shows how curved the data are.

    The scale is the median distance between the points in curvature radii. A curve that falls from
    left to right means that the data are flat; one that rises, that they branch. Filled dots are
    nearly as good as the best; the first of them, at the smallest scale, was chosen.

    Parameters
    ----------
    adata : AnnData or fitted model
        One whose start was searched: not given as an array, and not random.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
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
    found = history_of("length_scales", adata, key=key)
    if "search_evidence" not in found or not np.any(found["search_chosen"]):
        raise ValueError(
            "The 'adata' of length_scales must be a fitted model whose start was searched, or an "
            f"AnnData object with one. Got {shown(adata)}, which is not fitted or began at random: "
            "fit it with init='auto', 'mds' or 'pca'."
        )
    ax = new_axes(ax, (5.6, 3.8))
    kinds, scales = found["search_start"], found["search_scale"]
    # evidence is a logarithm: what is told is how far behind the best
    behind = found["search_evidence"] - found["search_evidence"].max()
    enough, chosen = found["search_enough"].astype(bool), found["search_chosen"].astype(bool)
    # the kinds that lost may be far below: the one that won is to be read
    depth = -behind[kinds == kinds[chosen][0]].min()
    low = -1.5 * depth - 1e-3
    for kind, colour in zip(dict.fromkeys(kinds.tolist()), OKABE_ITO, strict=False):
        own = kinds == kind
        words = kind if (behind[own] >= low).any() else f"{kind} (below)"
        ax.plot(scales[own], behind[own], "-", color=colour, zorder=1, label=words)
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
    ax.set_ylim(low, 0.2 * depth + 1e-3)
    ax.set_xlabel("scale: median distance at the start")
    ax.set_ylabel("log evidence an entry (best: 0)")
    ax.grid(color=GRID, linewidth=0.5)
    ax.legend(frameon=False)
    if title is not None:
        ax.set_title(title)
    return finished(ax, show, save)


@picture
def history(
    adata: Any,
    quantity: str = "objective",
    *,
    by: str = "step",
    key: str = "hgplvm",
    ax: Axes | None = None,
    title: str | None = None,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Draw the history of a fit, step by step.

    Parameters
    ----------
    adata : AnnData or fitted model
        An object after :func:`hgplvm.tl.hgplvm`, or a model.
    quantity : str, default="objective"
        "objective" (log likelihood or bound), "gradient_norm", "step_size", "variance",
        "noise_variance" or "length_scale".
    by : {"step", "seconds"}, default="step"
        What the horizontal axis shows.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
    ax : Axes, optional
        Where to draw; a new figure by default. Several fits may be drawn into the same axes.
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
    check.check_option("history", "quantity", quantity, tuple(QUANTITIES))
    check.check_option("history", "by", by, ("step", "seconds"))
    found = history_of("history", adata, key=key)
    if quantity not in found or (by == "seconds" and "seconds" not in found):
        raise ValueError(
            f"The 'adata' of history must be a fitted model, or an AnnData object with one. Got "
            f"{shown(adata)}, which is not fitted: call its fit first."
        )
    ax = new_axes(ax, (5.6, 3.8))
    values = np.asarray(found[quantity], dtype=float)
    along = np.arange(len(values)) if by == "step" else np.asarray(found["seconds"], dtype=float)
    if quantity in LOGARITHMIC:
        values = np.where(values > 0, values, np.nan)  # the start has no step
        ax.set_yscale("log")
    ax.plot(along, values, "-", linewidth=1.3)
    if by == "step":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(by)
    ax.set_ylabel(QUANTITIES[quantity])
    ax.grid(color=GRID, linewidth=0.5)
    if title is not None:
        ax.set_title(title)
    return finished(ax, show, save)
