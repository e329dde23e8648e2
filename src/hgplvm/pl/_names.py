"""Names on a picture that keep clear of each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from hgplvm._typing import Array
from hgplvm.pl._style import outlined, plain

__all__ = ["apart", "write_names"]

# rounds in which overlapping boxes are pushed apart
ROUNDS = 400
# how strongly a box is drawn back to its place in a round
PULL = 0.02
# pixels between boxes, at 100 dots an inch
PADDING = 2.0
# pixels between a place and the name beside it, at 100 dots an inch
CLEAR = 5.0
# a line leads to the place of a name that had to move by more than this many of its heights
LED = 1.1


def apart(places: Array, sizes: Array, bounds: Array) -> Array:
    """Centres [n, 2] of boxes that overlap as little as possible, near their places.

    Parameters
    ----------
    places : array [n, 2]
        Where the boxes want to be centred.
    sizes : array [n, 2]
        Width and height.
    bounds : array [2, 2]
        Lower left and upper right corner of the room for them.
    """
    half = sizes / 2.0
    low, high = bounds[0] + half, bounds[1] - half
    low, high = np.minimum(low, high), np.maximum(low, high)
    # boxes at one place part in directions of their own
    angles = 2.399963 * np.arange(len(places))
    centres = places + 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for round_ in range(ROUNDS):
        gap = centres[:, None] - centres[None]  # [n, n, 2]
        room = half[:, None] + half[None]
        over = room - np.abs(gap)
        touching: Array = np.asarray((over > 0).all(axis=2))
        np.fill_diagonal(touching, False)
        pull = PULL * (1.0 - round_ / ROUNDS)
        if not touching.any() and round_ > ROUNDS // 2:
            break
        # along the axis on which less is needed, half of it each
        across = over[..., 0] / room[..., 0] > over[..., 1] / room[..., 1]
        push = np.zeros_like(gap)
        sign = np.where(gap >= 0, 1.0, -1.0)
        sign = np.where(gap == 0, np.sign(np.subtract.outer(angles, angles))[..., None], sign)
        push[..., 1] = np.where(touching & across, sign[..., 1] * over[..., 1], 0.0)
        push[..., 0] = np.where(touching & ~across, sign[..., 0] * over[..., 0], 0.0)
        centres = centres + 0.5 * push.sum(axis=1) + pull * (places - centres)
        centres = np.clip(centres, low, high)
    return np.asarray(centres)


def write_names(
    ax: Axes,
    names: Sequence[object],
    places: Array,
    *,
    beside: Array | None = None,
    size: float | str = "small",
) -> None:
    """Write names at places [n, 2] of the data; a line leads from one that had to move.

    With `beside` [n, 2] they stand beside their places, in these directions.
    """
    figure = ax.get_figure(root=True)
    if not len(names) or figure is None:
        return
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # axes get their size
    texts = []
    for number, name in enumerate(names):
        texts.append(
            ax.text(
                float(places[number, 0]),
                float(places[number, 1]),
                plain(name),
                ha="center",
                va="center",
                fontsize=size,
                fontweight="bold",
                path_effects=outlined(),
                zorder=7,
            )
        )
    ax.autoscale_view()  # limits as they will be drawn
    ax.apply_aspect()
    boxes = [text.get_window_extent() for text in texts]
    pad = PADDING * figure.dpi / 100.0
    sizes = np.array([[box.width, box.height] for box in boxes]) + pad
    pixels = ax.transData.transform(places)
    wanted = pixels
    if beside is not None:
        reach = 0.5 * sizes + CLEAR * figure.dpi / 100.0
        share = np.abs(beside) / np.maximum(np.linalg.norm(beside, axis=1, keepdims=True), 1e-12)
        far = (reach / np.maximum(share, 1e-3)).min(axis=1, keepdims=True)
        wanted = pixels + far * np.sign(beside) * share
    frame = ax.get_window_extent()
    bounds = np.array([[frame.x0, frame.y0], [frame.x1, frame.y1]])
    found = apart(wanted, sizes, bounds)
    back = ax.transData.inverted()
    for text, place, near, at, box in zip(texts, pixels, wanted, found, sizes, strict=True):
        x, y = back.transform(at)
        text.set_position((float(x), float(y)))
        if np.hypot(*(at - near)) > LED * box[1]:
            start, end = back.transform(at), back.transform(place)
            line = ax.plot(
                [start[0], end[0]], [start[1], end[1]], color="black", linewidth=0.6, zorder=6
            )[0]
            line.set_path_effects(outlined(1.8))
