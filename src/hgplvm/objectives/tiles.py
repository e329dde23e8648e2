"""Tiles of a matrix of pairs, small enough that what is computed from one stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch

__all__ = ["tile_size", "tiles"]


def tile_size(device: torch.device) -> tuple[int, int]:
    """Rows and columns of a tile: a cache's worth on a processor, plenty on a GPU."""
    return (256, 1024) if device.type == "cpu" else (8192, 8192)


def tiles(
    n_rows: int, n_columns: int | None, size: tuple[int, int]
) -> Iterator[tuple[slice, slice]]:
    """Tiles that cover a matrix; without `n_columns` the lower triangle of a square one."""
    height, width = size
    for top in range(0, n_rows, height):
        bottom = min(top + height, n_rows)
        end = bottom if n_columns is None else n_columns
        for left in range(0, end, width):
            yield slice(top, bottom), slice(left, min(left + width, end))
