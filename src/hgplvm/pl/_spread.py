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
from hgplvm.pl._disk import GRIDS, LEGENDS, DiskView, choice, draw_disk, draw_points
from hgplvm.pl._sources import draw
from hgplvm.pl._style import OKABE_ITO, color_map, colors_of, finished, make_room, new_axes, picture

__all__ = ["credible_regions", "uncertainty"]

# corners of a region's outline
CORNERS = 64
# more regions than this cannot be told apart
MOST_REGIONS = 1000


@picture
def uncertainty(
    adata: Any,
    color: Any = None,
    *,
    level: float = 0.9,
    n_regions: int = MOST_REGIONS,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = 1.0,
    layer: str | None = None,
    ax: Axes | None = None,
    palette: str | Sequence[Any] | None = None,
    title: str | None = None,
    legend: str | bool = "side",
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
    n_regions : int, default=1000
        Most regions to draw; of more rows, some are chosen at random.
    key, root, zoom, layer
        As in :func:`hgplvm.pl.poincare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    palette, title, legend, grid
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
    colors = colors_of(owner, adata, color, len(points), palette=palette, layer=layer)
    rows = np.arange(len(points))
    if len(rows) > n_regions:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, n_regions, replace=False))
    outlines = credible_regions(drawn.lorentz[rows], drawn.covariance[rows], level)
    corners = lorentz_to_poincare(drawn.seen(outlines.reshape(-1, 3))).numpy()
    faces: Any = OKABE_ITO[0] if colors is None else colors.rgba(color_map(owner, palette))[rows]
    view = DiskView(owner, points, zoom)
    own = ax is None
    ax = new_axes(ax, (5.6, 5.0))
    draw_disk(ax, view, grid=grid)
    ax.add_collection(
        PolyCollection(
            list(corners.reshape(len(rows), CORNERS, 2)),
            facecolors=faces,
            edgecolors="none",
            alpha=0.2,
            zorder=1,
        )
    )
    size = float(np.clip(6_000 / len(points), 0.5, 8.0))
    draw_points(
        ax, points, colors, owner=owner, palette=palette, size=size, legend=legend, view=view
    )
    if own:
        make_room([ax], 5.0)
    title = colors.title if title is None and colors is not None else title
    if title is not None:
        ax.set_title(title)
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
