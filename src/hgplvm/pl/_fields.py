"""Decoded features everywhere on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from hgplvm import _validation as check
from hgplvm.geometry import lorentz_to_poincare, poincare_to_lorentz
from hgplvm.pl._colors import Limits, color_map
from hgplvm.pl._disk import panel_area
from hgplvm.pl._layout import COLUMNS, each_panel, keep_within
from hgplvm.pl._points import draw_bar
from hgplvm.pl._sources import Array, Drawn, decoder_of, draw
from hgplvm.pl._style import choice, finished, new_axes, picture, plain
from hgplvm.pl._view import GRIDS, DiskView, draw_disk

__all__ = ["decoder"]

# corners of the picture are beyond the boundary: they are decoded on a circle just inside it
RIM = 0.999


@picture
def decoder(
    adata: Any,
    feature: str | int | Sequence[str | int],
    *,
    what: str = "mean",
    resolution: int = 121,
    points: bool = True,
    key: str = "hgplvm",
    root: Any = None,
    zoom: float | str = "auto",
    ax: Axes | None = None,
    ncols: int = COLUMNS,
    palette: str | Sequence[Any] | None = None,
    cmap: Any = None,
    vmin: Any = None,
    vmax: Any = None,
    vcenter: Any = None,
    title: str | None = None,
    legend: bool = True,
    frameon: bool = True,
    grid: str | bool = "none",
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> Any:
    """Draw decoded features everywhere on the disk.

    Parameters
    ----------
    adata : AnnData or fitted hyperbolic model
        An object after :func:`hgplvm.tl.hgplvm`, or a model.
    feature : str, int, or list of these
        The column to decode: its name or its number; several give a panel each.
    what : {"mean", "std"}, default="mean"
        The expected value, or the standard deviation of an observed one.
    resolution : int, default=121
        Points along the longer side that are decoded.
    points : bool, default=True
        Whether to draw the rows of the fit as small dots.
    key, root, zoom
        As in :func:`hgplvm.pl.poincare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    ncols : int, default=3
        Panels in a row.
    palette, cmap : str, Colormap or sequence of colours, optional
        Colour map.
    vmin, vmax, vcenter
        As in :func:`hgplvm.pl.poincare`.
    title : str, optional
        Title of the axes; by default the feature's name.
    legend : bool, default=True
        Whether to draw a colour bar.
    frameon : bool, default=True
        Whether to draw the boundary, and a small disk where it is out of sight.
    grid : {"polar", "geodesic", "none"} or bool, default="none"
        As in :func:`hgplvm.pl.poincare`.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    Axes, or list of Axes where several features are asked for
    """
    owner = "decoder"
    check.check_option(owner, "what", what, ("mean", "std"))
    check.check_number(owner, "resolution", resolution, low=2, integer=True)
    grid = choice(owner, "grid", grid, GRIDS)
    check.check_flag(owner, "frameon", frameon)
    decode = decoder_of(owner, adata, key=key)
    several = not (feature is None or isinstance(feature, str | int | np.integer))
    columns = decode.columns(feature)
    if several and (ax is not None or title is not None):
        raise ValueError(
            f"{owner} draws a panel for each of the {len(columns)} features, so that it takes "
            "neither 'ax' nor 'title'. Name one feature, or leave them out."
        )
    drawn = draw(owner, adata, key=key, root=root)
    view = DiskView(owner, drawn.points, zoom)
    seen, shape, extent = _lattice(view, int(resolution))
    mean, std = decode(_stored(drawn, seen), columns)
    fields = mean if what == "mean" else std
    inner = np.linalg.norm(seen, axis=1) < 1.0
    unit = decode.unit
    if what == "std":
        unit = "standard deviation" if unit is None else f"standard deviation, {unit}"
    limits = Limits(owner, vmin, vmax, vcenter)
    scale = color_map(
        owner,
        cmap if cmap is not None else palette,
        "viridis" if what == "mean" else "magma",
        "palette" if cmap is None else "cmap",
    )

    def draw_one(here: Axes, number: int) -> None:
        field = fields[:, number]
        draw_disk(here, view, grid=grid, frameon=frameon, points=drawn.points)
        some = limits.of_panel(number, len(columns))
        norm = some.norm(field[inner], counts=decode.counts)
        image = here.imshow(
            field.reshape(shape),
            extent=extent,
            origin="lower",
            interpolation="bilinear",
            cmap=scale,
            norm=norm,
            zorder=-1,
        )
        image.set_clip_path(Circle((0.0, 0.0), 1.0, transform=here.transData))
        left, right, lower, upper = view.limits
        here.set(xlim=(left, right), ylim=(lower, upper))
        if points:
            size = float(np.clip(3_000 / len(drawn.points), 0.3, 4.0))
            style: dict[str, Any] = {"color": "white", "linewidths": 0, "alpha": 0.7}
            x, y = drawn.points.T
            here.scatter(x, y, s=size, rasterized=True, **style)
        if legend:
            draw_bar(here, scale, norm, unit)
        name = plain(decode.names[columns[number]])
        words = name if what == "mean" else f"{name}, {what}"
        here.set_title(title if title is not None else words)

    if ax is not None:
        axes = [new_axes(ax)]
        draw_one(axes[0], 0)
        keep_within(axes[0])
    else:
        size = view.size(panel_area(len(columns)))
        axes = each_panel(len(columns), ncols, size, draw_one, owner=owner)
    finished(axes[0], show, save)
    return axes if several else axes[0]


# --- parts ----------------------------------------------------------------------------------


def _lattice(
    view: DiskView, resolution: int
) -> tuple[Array, tuple[int, int], tuple[float, float, float, float]]:
    """Points [n, 2] that cover a view evenly, their rows and columns, and what they cover."""
    share = view.half / view.half.max()
    n_x, n_y = (max(2, round(resolution * float(s))) for s in share)
    left, right, lower, upper = view.limits
    x, y = np.linspace(left, right, n_x), np.linspace(lower, upper, n_y)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    dx, dy = (x[1] - x[0]) / 2.0, (y[1] - y[0]) / 2.0
    return points, (n_y, n_x), (left - dx, right + dx, lower - dy, upper + dy)


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
