"""One place that validates what users pass in, and one phrasing of the errors.

Errors follow scikit-learn: the parameter, its owner, what is allowed, and what was given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

__all__ = [
    "check_device",
    "check_init_array",
    "check_labels",
    "check_number",
    "check_option",
    "check_points",
    "check_row",
]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def _reject(owner: str, name: str, allowed: str, value: object) -> ValueError:
    return ValueError(
        f"The {name!r} parameter of {owner} must be {allowed}. Got {value!r} instead."
    )


def _listing(words: Sequence[str]) -> str:
    return f"one of {', '.join(repr(word) for word in words)}"


def check_option(owner: str, name: str, value: object, options: Sequence[str]) -> str:
    """Return value where it is one of the options."""
    if not (isinstance(value, str) and value in options):
        raise _reject(owner, name, _listing(options), value)
    return value


def check_number(
    owner: str,
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    closed: bool = True,
    integer: bool = False,
    or_options: Sequence[str] = (),
) -> None:
    """Reject value unless it is a finite number from `low` on, or one of `or_options`."""
    if isinstance(value, str) and value in or_options:
        return
    kind = "an int" if integer else "a finite float"
    allowed = f"{kind} in the range {'[' if closed else '('}{low:g}, inf)"
    if or_options:
        allowed += f" or {_listing(or_options)}"
    of_kind = isinstance(value, Integral if integer else Real) and not isinstance(value, bool)
    if not of_kind or not math.isfinite(number := float(value)):  # type: ignore[arg-type]
        raise _reject(owner, name, allowed, value)
    if number < low or (number == low and not closed):
        raise _reject(owner, name, allowed, value)


def check_device(owner: str, value: object) -> torch.device:
    """Resolve a device name; "auto" is a GPU where there is one."""
    if value == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(value)  # type: ignore[call-overload]
    except (RuntimeError, TypeError, ValueError):
        raise _reject(
            owner, "device", "'auto', 'cpu', 'cuda' or another torch device", value
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise _reject(
            owner, "device", "'auto' or 'cpu' on this machine, where torch sees no GPU", value
        )
    return device


def check_row(owner: str, name: str, value: object, n_rows: int, options: Sequence[str]) -> None:
    """Reject value unless it is one of the options or a row index."""
    if isinstance(value, str) and value in options:
        return
    index = isinstance(value, Integral) and not isinstance(value, bool)
    if not index or not -n_rows <= int(value) < n_rows:  # type: ignore[call-overload]
        allowed = f"{_listing(options)} or a row index below {n_rows}"
        raise _reject(owner, name, allowed, value)


def check_init_array(
    owner: str, value: object, shape: tuple[int, int], *, inside_ball: bool
) -> FloatArray:
    """Return an array of starting coordinates of the right shape, finite and inside the ball."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise _reject(owner, "init", "an array of numbers or the name of a start", value) from None
    if array.shape != shape:
        raise ValueError(
            f"The 'init' parameter of {owner} must have shape (n_samples, n_components) = {shape}. "
            f"Got an array of shape {array.shape} instead."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"The 'init' parameter of {owner} must be finite. Got NaN or infinity.")
    if inside_ball and (radius := np.linalg.norm(array, axis=1).max()) >= 1.0:
        raise ValueError(
            f"The 'init' parameter of {owner} must hold Poincaré ball coordinates, of norm below "
            f"1. Got a row of norm {radius:.4g} instead."
        )
    return array


def check_points(owner: str, name: str, value: object, *, min_rows: int = 1) -> FloatArray:
    """Return a finite 2-D array of numbers."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"The {name!r} of {owner} must be an array of numbers.") from None
    if array.ndim != 2 or array.shape[0] < min_rows or array.shape[1] < 1:
        raise ValueError(
            f"The {name!r} of {owner} must be a 2-D array with at least {min_rows} rows and one "
            f"column. Got an array of shape {array.shape} instead."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"The {name!r} of {owner} must be finite. Got NaN or infinity.")
    return array


def check_labels(owner: str, value: object, n_rows: int) -> np.ndarray[Any, Any]:
    """Return one label a row."""
    labels = np.asarray(value)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"The 'labels' of {owner} must be a 1-D array with one label for each of the {n_rows} "
            f"rows. Got an array of shape {labels.shape} instead."
        )
    return labels
