"""Points that users name: a row, the Fréchet mean of some rows, or coordinates."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm import _validation as check
from hgplvm.manifolds import Hyperbolic, Manifold

__all__ = ["resolve_point"]


def resolve_point(
    owner: str,
    name: str,
    value: object,
    points: Tensor,
    *,
    manifold: Manifold = Hyperbolic(),  # noqa: B008
    at: Callable[[np.ndarray[Any, Any]], Tensor] | None = None,
) -> Tensor:
    """Return the point that a value names.

    Parameters
    ----------
    owner, name : str
        Who asks, and what for: the words of an error.
    value : int, array of bool of shape (n,), or array of shape (Q,)
        A row, a mask of rows whose Fréchet mean it is, or coordinates.
    points : Tensor [n, ·]
        The rows.
    manifold : Manifold
        Where they lie; by default hyperbolic space.
    at : callable, optional
        Turns coordinates [Q] into a point; by default those of the Poincaré ball.
    """
    n, q = len(points), manifold.n_components(points)
    if isinstance(value, Integral) and not isinstance(value, bool) and -n <= int(value) < n:
        return points[int(value)]
    try:
        array = check.as_array(value)
    except (TypeError, ValueError):  # ragged lists
        array = np.empty(0, dtype=object)
    if array.dtype.kind == "b":
        if array.shape != (n,) or not array.any():
            raise ValueError(
                f"The {name!r} of {owner}, as a mask, must have one entry for each of the "
                f"{n} rows, and some of them True. Got shape {array.shape} with "
                f"{int(array.sum())} True instead."
            )
        return manifold.frechet_mean(points[torch.from_numpy(np.array(array))])
    if array.dtype.kind not in "iuf" or array.shape != (q,):
        raise ValueError(
            f"The {name!r} of {owner} must be a row index below {n}, a mask of rows, or a "
            f"point of {q} coordinates. Got {value!r:.60} instead."
        )
    if at is not None:
        return at(array)
    checked = check.check_coordinates(owner, name, array[None], q)
    check.check_chart(owner, name, checked, manifold)
    return manifold.from_chart(torch.from_numpy(checked))[0]
