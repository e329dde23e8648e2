"""The part of the Poincaré disk that a picture shows, and the lines on it.

Circles of the polar grid are at whole steps of hyperbolic distance from the origin, and say so:
they are the scale. Where the boundary of the disk is out of sight, a small disk in a corner shows
which part of the whole is seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle, Rectangle

from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.geometry import klein_to_lorentz, lorentz_to_poincare
from hgplvm.pl._style import GRID, outlined

__all__ = ["GRIDS", "DiskView", "draw_disk"]

GRIDS = ("polar", "geodesic", "none")
# room around the boundary circle
MARGIN = 1.03
# room around points, as a share of their extent, and at least, as a share of the disk
BORDER, LEAST_BORDER = 0.07, 0.002
# points whose rectangle covers this share of that of the disk call for the whole disk, and so does
# a single one
WHOLE = 0.45
# width over height of a view
ASPECTS = (0.62, 1.6)
# distances between circles, and how many there may be
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MOST_CIRCLES = 5
# farthest circle that is drawn: the next ones cannot be told from the boundary
FARTHEST = 4.0
# size of the small disk, as a share of the shorter side
LOCATOR = 0.17


class DiskView:
    """The part of the disk that is seen: a rectangle.

    With a number as `zoom` it is a square around the origin; with "auto" it has room for all
    points, and is the whole disk where these fill it.
    """

    def __init__(self, owner: str, points: Array, zoom: float | str, *more: Array) -> None:
        check.check_number(owner, "zoom", zoom, low=0, closed=False, or_options=("auto",))
        if isinstance(zoom, str):
            self.centre, self.half = _around(np.concatenate([points, *more]))
        else:
            self.centre, self.half = np.zeros(2), np.full(2, MARGIN / float(zoom))

    @property
    def limits(self) -> tuple[float, float, float, float]:
        """Left, right, lower and upper end."""
        low, high = self.centre - self.half, self.centre + self.half
        return float(low[0]), float(high[0]), float(low[1]), float(high[1])

    def size(self, area: float) -> tuple[float, float]:
        """Width and height of axes of this area, in inches."""
        aspect = float(self.half[0] / self.half[1])
        return (area * aspect) ** 0.5, (area / aspect) ** 0.5

    def inside(self, points: Array) -> Array:
        """Whether points [n, 2] are seen."""
        return np.asarray((np.abs(points - self.centre) <= self.half).all(axis=1))

    @property
    def shows_boundary(self) -> bool:
        """Whether some of the boundary circle is seen."""
        return bool(np.hypot(*(np.abs(self.centre) + self.half)) > 1.0)

    @property
    def step(self) -> float:
        """Distance between circles: the least of which there are not too many."""
        reach = np.hypot(*(np.abs(self.centre) + self.half))
        far = min(2.0 * np.arctanh(min(reach, 0.999)), FARTHEST)
        near = np.maximum(np.abs(self.centre) - self.half, 0.0)
        span = max(far - 2.0 * np.arctanh(min(np.hypot(*near), 0.999)), 1e-3)
        return next((step for step in STEPS if span / step <= MOST_CIRCLES), STEPS[-1])


def _around(points: Array) -> tuple[Array, Array]:
    """Centre and half the sides of a rectangle around points."""
    low, high = points.min(axis=0), points.max(axis=0)
    if float(np.prod(high - low)) >= 4.0 * WHOLE or not (high > low).any():
        return np.zeros(2), np.full(2, MARGIN)
    centre = (low + high) / 2.0
    half = (0.5 + BORDER) * (high - low)
    half = np.maximum(half, max(LEAST_BORDER, 0.15 * float(half.max())))
    low_aspect, high_aspect = ASPECTS
    half = np.array([max(half[0], low_aspect * half[1]), max(half[1], half[0] / high_aspect)])
    # no room beyond the disk
    half = np.minimum(half, 2.0 * MARGIN)
    return centre, half


def draw_disk(
    ax: Axes,
    view: DiskView,
    *,
    grid: str = "polar",
    frameon: bool = True,
    points: Array | None = None,
) -> None:
    """Draw boundary, grid and scale, and set the limits; labels keep away from points."""
    left, right, lower, upper = view.limits
    ax.set(xlim=(left, right), ylim=(lower, upper), aspect="equal")
    ax.set_axis_off()
    if not frameon:
        return
    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, edgecolor="black", linewidth=1.0, zorder=3))
    if grid == "polar":
        _draw_polar(ax, view, points)
    elif grid == "geodesic":
        _draw_geodesics(ax)
    if not view.shows_boundary:
        _draw_locator(ax, view, points)


def _draw_polar(ax: Axes, view: DiskView, points: Array | None) -> None:
    step = view.step
    distances = step * np.arange(1, int(np.floor(FARTHEST / step + 1e-9)) + 1)
    radii = np.tanh(distances / 2.0)
    reach = np.hypot(*(np.abs(view.centre) + view.half))
    near = np.hypot(*np.maximum(np.abs(view.centre) - view.half, 0.0))
    seen = (radii <= reach) & (radii >= near)
    for radius in radii[seen]:
        ax.add_patch(Circle((0, 0), radius, fill=False, edgecolor=GRID, linewidth=0.5, zorder=0))
    angles = np.arange(12) * (np.pi / 6)
    ends = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rays = [[0.0 * end, end] for end in ends]
    ax.add_collection(LineCollection(rays, colors=GRID, linewidths=0.5, zorder=0))
    _label_circles(ax, view, distances[seen], radii[seen], points)


def _label_circles(
    ax: Axes, view: DiskView, distances: Array, radii: Array, points: Array | None
) -> None:
    """Write the distance at each circle, along the ray where they are farthest from points."""
    if not len(radii):
        return
    apart = np.diff(np.concatenate([[0.0], radii]))
    roomy = apart > 0.05 * float(view.half.min())
    distances, radii = distances[roomy], radii[roomy]
    best, places = -1.0, np.zeros((0, 2))
    some = np.zeros((0, 2)) if points is None else points[:: -(-len(points) // 2000)]
    for angle in np.deg2rad(np.arange(5.0, 365.0, 15.0)):
        at = radii[:, None] * np.array([np.cos(angle), np.sin(angle)])
        inner = np.abs(at - view.centre) <= 0.94 * view.half
        shown = inner.all(axis=1)
        if not shown.any():
            continue
        gaps = np.full(int(shown.sum()), 2.0)
        if len(some):
            gaps = np.hypot(*(at[shown][:, None] - some[None]).transpose(2, 0, 1)).min(axis=1)
        # as many as possible, and then as far as possible
        score = shown.sum() + min(float(gaps.min()) / float(view.half.min()), 0.2) * len(radii) * 3
        if score > best:
            best, places = float(score), np.where(shown[:, None], at, np.nan)
    for distance, place in zip(distances, places, strict=False):
        if np.isfinite(place).all():
            ax.text(
                float(place[0]),
                float(place[1]),
                f"{distance:g}",
                fontsize=6.5,
                color="#8c8c8c",
                ha="center",
                va="center",
                path_effects=outlined(1.5),
                zorder=1,
                clip_on=True,
            )


def _draw_geodesics(ax: Axes) -> None:
    """Draw geodesics at right angles to each axis: straight in the Klein disk, at ``tanh k``."""
    lines = []
    for at in np.tanh(np.arange(-4, 5)):
        along = np.sqrt(1.0 - at * at) * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 101))
        klein = np.stack([np.full_like(along, at), along], axis=1)
        line = lorentz_to_poincare(klein_to_lorentz(torch.from_numpy(klein))).numpy()
        lines += [line, line[:, ::-1]]
    ax.add_collection(LineCollection(lines, colors=GRID, linewidths=0.5, zorder=0))


def _draw_locator(ax: Axes, view: DiskView, points: Array | None) -> None:
    """Draw the whole disk in the corner with the fewest points, with what is seen of it."""
    wide = LOCATOR * np.minimum(1.0, view.half[::-1] / view.half)
    corners = {(x, y): np.array([x, y]) for y in (0, 1) for x in (0, 1)}
    if points is not None and len(points):
        place = (points - view.centre) / (2.0 * view.half) + 0.5
        crowd = {
            c: int((np.abs(place - at) <= 1.3 * wide).all(axis=1).sum())
            for c, at in corners.items()
        }
        corner = min(crowd, key=lambda c: crowd[c])
    else:
        corner = (0, 0)
    x, y = (0.0 if side == 0 else 1.0 - w for side, w in zip(corner, wide, strict=True))
    small = ax.inset_axes((float(x), float(y), float(wide[0]), float(wide[1])))
    small.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), aspect="equal")
    small.set_axis_off()
    style: dict[str, Any] = {"linewidth": 0.8, "fill": True, "facecolor": "white"}
    small.add_patch(Circle((0.0, 0.0), 1.0, edgecolor="black", **style))
    left, right, lower, upper = view.limits
    window = Rectangle(
        (left, lower),
        right - left,
        upper - lower,
        facecolor="#d9d9d9",
        edgecolor="#7f7f7f",
        linewidth=0.6,
    )
    small.add_patch(window)
    small.set_label("where in the disk")
