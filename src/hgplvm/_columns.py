"""Columns of new rows, brought into the order of those that a model was fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["aligned"]


def aligned(values: Any, columns: Sequence[str], wanted: Sequence[str]) -> tuple[Any, list[str]]:
    """Return rows with the columns that are wanted, in their order, and names of those missing.

    Parameters
    ----------
    values : array or sparse matrix of shape (n, len(columns))
        New rows.
    columns, wanted : sequence of str
        Names of their columns, and of those of the fit.

    Returns
    -------
    values : array or sparse matrix of shape (n, len(wanted))
        NaN, and dense, where a column is missing.
    missing : list of str

    Raises
    ------
    ValueError
        If a name that is wanted stands twice among the columns.
    """
    found = Counter(columns)
    if twice := [name for name in wanted if found[name] > 1]:
        raise ValueError(
            f"columns are matched by name, and {twice[0]!r} stands twice among the new ones: make "
            "the names unique first."
        )
    place = {name: i for i, name in enumerate(columns)}
    at = np.array([place.get(name, -1) for name in wanted])
    chosen = values[:, np.maximum(at, 0)]
    if (at >= 0).all():
        return chosen, []
    dense = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=float)
    missing = [name for name, i in zip(wanted, at, strict=True) if i < 0]
    return np.where(at >= 0, dense, np.nan), missing
