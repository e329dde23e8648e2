"""The uncertainty of positions, drawn as regions of the disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from torch import Tensor

from hgplvm import _validation as check
from hgplvm.geometry import lorentz, lorentz_to_poincare
from hgplvm.pl._colors import Limits, colors_of
from hgplvm.pl._disk import panel_area
from hgplvm.pl._layout import Place
from hgplvm.pl._palettes import categorical
from hgplvm.pl._points import LEGENDS, draw_points, marker_area, scale_of, set_title
from hgplvm.pl._sources import draw
from hgplvm.pl._style import choice, finished, picture
from hgplvm.pl._view import GRIDS, DiskView, draw_disk

__all__ = ["credible_regions", "uncertainty"]

# corners of a region's outline
CORNERS = 64
# more regions than this cannot be told apart
MOST_REGIONS = 300
# how dark all regions are together, where many lie on each other
SHADE, LEAST_ALPHA = 12.0, 0.04


@picture
def uncertainty(
    adata: Any,
    color: Any = None,
    *,
    level: float = 0.9,
    n_regions: int = MOST_REGIONS,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = "auto",
    groups: str | Sequence[str] | None = None,
    layer: str | None = None,
    use_raw: bool | None = None,
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
    random_state: int = 0,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Axes:
    """Points of the Poincaré disk, each with the region that it is in with a given probability.

    A region is an ellipse in the tangent space at its point, mapped to the disk by the exponential
    map: regions of the same uncertainty look smaller near the boundary.

    Parameters
    ----------
    adata : AnnData or fitted model
        An object after :func:`hgplvm.tl.hgplvm`, or a model, which keep the posterior of each
        latent.
    color : str or array of shape (n,), optional
        As in :func:`hgplvm.pl.poincare`.
    level : float, default=0.9
        Probability that a position is within its region.
    n_regions : int, default=300
        Most regions to draw; of more rows, some are chosen at random.
    key, root, zoom, groups, layer, use_raw
        As in :func:`hgplvm.pl.poincare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette, cmap, vmin, vmax, vcenter, size, title, legend, frameon, grid
        As in :func:`hgplvm.pl.poincare`.
    random_state : int, default=0
        Seed of the choice of regions.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes
    """
    owner = "uncertainty"
    legend = choice(owner, "legend", legend, LEGENDS)
    grid = choice(owner, "grid", grid, GRIDS)
    check.check_flag(owner, "frameon", frameon)
    check.check_number(owner, "level", level, low=0, high=1, closed=False)
    check.check_number(owner, "n_regions", n_regions, low=1, integer=True)
    check.check_number(owner, "random_state", random_state, low=0, integer=True)
    drawn = draw(owner, adata, key=key, root=root)
    if drawn.covariance is None:
        raise ValueError(
            f"uncertainty needs the posterior of each position, which {type(adata).__name__} does "
            "not keep: use a fitted model, or an AnnData object after hgplvm.tl.hgplvm."
        )
    points = drawn.points
    reading: dict[str, Any] = {"layer": layer, "use_raw": use_raw, "groups": groups, "key": key}
    colors = colors_of(owner, adata, color, len(points), palette=palette, **reading)
    limits = Limits(owner, vmin, vmax, vcenter)
    rows = np.arange(len(points))
    if len(rows) > n_regions:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, n_regions, replace=False))
    outlines = credible_regions(drawn.lorentz[rows], drawn.covariance[rows], level)
    corners = lorentz_to_poincare(drawn.seen(outlines.reshape(-1, 3))).numpy()
    faces: Any = categorical(1)[0]
    if colors is not None:
        faces = colors.rgba(*scale_of(owner, colors, palette, cmap, limits))[rows]
    # room for the regions, but for the largest of them
    low, high = np.quantile(corners, [0.02, 0.98], axis=0)
    view = DiskView(owner, points, zoom, np.stack([low, high]))
    place = Place(ax, view.size(panel_area(1)))
    ax = place.ax
    draw_disk(ax, view, grid=grid, frameon=frameon, points=points)
    regions = PolyCollection(
        list(corners.reshape(len(rows), CORNERS, 2)),
        facecolors=faces,
        edgecolors="none",
        alpha=max(min(SHADE / len(rows), 0.2), LEAST_ALPHA),
        zorder=1,
    )
    ax.add_collection(regions)
    draw_points(
        ax,
        points,
        colors,
        owner=owner,
        palette=palette,
        cmap=cmap,
        limits=limits,
        size=0.5 * marker_area(ax, len(points)) if size is None else size,
        legend=legend,
        view=view,
    )
    set_title(ax, title, colors)
    place.settle()
    return finished(ax, show, save)


def credible_regions(mean: Tensor, covariance: Tensor, level: float) -> Tensor:
    """Outlines [n, 64, 3] of the regions that hold a share `level` of wrapped normals.

    ``x = Exp_μ(v)`` with ``v ~ N(0, C)`` in the frame at μ is inside where ``vᵀC⁻¹v ≤ c²``, and in
    two dimensions ``P(χ² ≤ c²) = 1 - exp(-c²/2)``.
    """
    radius = math.sqrt(-2.0 * math.log1p(-level))
    values, axes = torch.linalg.eigh(covariance)
    root = axes * values.clamp_min(0.0).sqrt().unsqueeze(-2)  # C = (V√λ)(V√λ)ᵀ
    angles = torch.arange(CORNERS, dtype=mean.dtype) * (2.0 * math.pi / CORNERS)
    circle = radius * torch.stack([angles.cos(), angles.sin()])  # [2, corners]
    return lorentz.displaced(mean.unsqueeze(1), (root @ circle).mT)
