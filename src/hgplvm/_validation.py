"""One place that validates what users pass in, and one phrasing of the errors.

Errors follow scikit-learn: the parameter, its owner, what is allowed, and what was given.
Estimators declare what their parameters may be as a dict of constraints.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

if TYPE_CHECKING:
    from hgplvm.manifolds import Manifold

__all__ = [
    "Anything",
    "Constraint",
    "Flag",
    "Number",
    "Options",
    "as_array",
    "check_callback",
    "check_chart",
    "check_coordinates",
    "check_device",
    "check_flag",
    "check_init_array",
    "check_labels",
    "check_number",
    "check_option",
    "check_path",
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
    high: float = math.inf,
    closed: bool = True,
    integer: bool = False,
    or_options: Sequence[str] = (),
) -> None:
    """Reject value unless it is a number from `low` to below `high`, or one of `or_options`."""
    if isinstance(value, str) and value in or_options:
        return
    kind = "an int" if integer else "a finite float"
    allowed = f"{kind} in the range {'[' if closed else '('}{low:g}, {high:g})"
    if or_options:
        allowed += f" or {_listing(or_options)}"
    of_kind = isinstance(value, Integral if integer else Real) and not isinstance(value, bool)
    try:
        number = float(value) if of_kind else math.nan  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and low <= number < high) or (number == low and not closed):
        raise _reject(owner, name, allowed, value)


class Constraint(Protocol):
    """What a parameter may be."""

    def check(self, owner: str, name: str, value: object, /) -> None:
        """Reject a value that it may not be."""


@dataclass(frozen=True)
class Number:
    """A number from `low` to below `high`, one of the options, or None where that is allowed."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True
    integer: bool = False
    options: tuple[str, ...] = ()
    none: bool = False

    def check(self, owner: str, name: str, value: object) -> None:
        """Reject anything else."""
        if value is None and self.none:
            return
        check_number(
            owner,
            name,
            value,
            low=self.low,
            high=self.high,
            closed=self.closed,
            integer=self.integer,
            or_options=self.options,
        )


@dataclass(frozen=True)
class Options:
    """One of some texts, an instance of some classes, or an array where that is allowed."""

    options: tuple[str, ...]
    instances: tuple[type, ...] = ()
    arrays: bool = False

    def check(self, owner: str, name: str, value: object) -> None:
        """Reject anything else."""
        if isinstance(value, self.instances) or (
            self.arrays and not isinstance(value, str) and hasattr(value, "__len__")
        ):
            return
        if isinstance(value, str) and value in self.options:
            return
        others = [f"a {kind.__name__} object" for kind in self.instances]
        others += ["an array"] if self.arrays else []
        raise _reject(owner, name, " or ".join([_listing(self.options), *others]), value)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, owner: str, name: str, value: object) -> None:
        """Reject anything else."""
        check_flag(owner, name, value)


@dataclass(frozen=True)
class Anything:
    """A parameter that is checked elsewhere, when more is known."""

    def check(self, owner: str, name: str, value: object) -> None:
        """Accept it."""


def check_device(owner: str, value: object) -> torch.device:
    """Resolve a device name; "auto" is a GPU where there is one."""
    if not isinstance(value, str | torch.device):
        raise _reject(owner, "device", "'auto', 'cpu', 'cuda' or another torch device", value)
    if value == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(value)
    except RuntimeError:
        raise _reject(
            owner, "device", "'auto', 'cpu', 'cuda' or another torch device", value
        ) from None
    try:
        torch.zeros(1, dtype=torch.float64, device=device).cpu()
    except (AssertionError, NotImplementedError, RuntimeError, TypeError):
        allowed = "one that torch can use for float64 on this machine, or 'auto'"
        if device.type == "cuda" and not torch.cuda.is_available():
            allowed += "; torch sees no GPU here"
        raise _reject(owner, "device", allowed, value) from None
    return device


def check_flag(owner: str, name: str, value: object) -> None:
    """Reject value unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise _reject(owner, name, "True or False", value)


def check_callback(owner: str, value: object) -> None:
    """Reject value unless it is None or can be called."""
    if value is not None and not callable(value):
        raise _reject(owner, "callback", "None or a function of the state of the fit", value)


def check_path(owner: str, name: str, value: object) -> Path:
    """Return value as the path of a file, old or new, in a folder that exists."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise _reject(owner, name, "the path of a file", value)
    path = Path(os.fsdecode(value))
    if path.is_dir():
        raise ValueError(f"The {name!r} of {owner} must be a file, and {str(path)!r} is a folder.")
    if not path.parent.is_dir():
        raise ValueError(
            f"The {name!r} of {owner} is to go into the folder {str(path.parent)!r}, which does "
            "not exist. Make it first."
        )
    return path


def check_row(owner: str, name: str, value: object, n_rows: int, options: Sequence[str]) -> None:
    """Reject value unless it is one of the options or a row index."""
    if isinstance(value, str) and value in options:
        return
    index = isinstance(value, Integral) and not isinstance(value, bool)
    if not index or not -n_rows <= int(value) < n_rows:  # type: ignore[call-overload]
        allowed = f"{_listing(options)} or a row index below {n_rows}"
        raise _reject(owner, name, allowed, value)


def as_array(value: object) -> np.ndarray[Any, Any]:
    """NumPy array of an array-like or a tensor, dense and on the CPU."""
    if isinstance(value, torch.Tensor):
        dense = value.detach().cpu()
        dense = dense.to_dense() if dense.layout != torch.strided else dense
        return dense.double().numpy() if dense.is_floating_point() else dense.numpy()
    return np.asarray(value)


def _numbers(what: str, value: object) -> FloatArray:
    """Return a copy as float64: writable, in C order, real."""
    try:
        array = as_array(value)
        if array.dtype.kind == "c":
            raise TypeError
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be an array of real numbers. Got {value!r:.60}.") from None


def check_chart(owner: str, name: str, array: FloatArray, manifold: Manifold) -> None:
    """Reject coordinates where a manifold has no points."""
    if error := manifold.chart_error(array):
        raise ValueError(f"The {name!r} of {owner} {error}")


def check_init_array(owner: str, value: object, shape: tuple[int, int]) -> FloatArray:
    """Return an array of starting coordinates: right shape, finite, distinct."""
    what = f"The 'init' parameter of {owner}"
    array = _numbers(what, value)
    if array.shape != shape:
        raise ValueError(
            f"{what} must have shape (n_samples, n_components) = {shape}. "
            f"Got an array of shape {array.shape} instead."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite. Got NaN or infinity.")
    if (array == array[0]).all():
        raise ValueError(
            f"{what} must have rows that differ: latents that all coincide have no direction to "
            "move in. Got the same row everywhere."
        )
    return array


def check_points(
    owner: str, name: str, value: object, *, min_rows: int = 1, allow_nan: bool = False
) -> FloatArray:
    """Return a finite 2-D array of numbers."""
    what = f"The {name!r} of {owner}"
    array = _numbers(what, value)
    if array.ndim != 2 or array.shape[0] < min_rows or array.shape[1] < 1:
        raise ValueError(
            f"{what} must be a 2-D array with at least {min_rows} rows and one column. "
            f"Got an array of shape {array.shape} instead."
        )
    if allow_nan and np.isinf(array).any():
        raise ValueError(f"{what} must be finite, or NaN where missing. Got infinity.")
    if not allow_nan and not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite. Got NaN or infinity.")
    return array


def check_coordinates(owner: str, name: str, value: object, n_components: int) -> FloatArray:
    """Return points of the latent space [n, Q], in the coordinates that users see."""
    array = check_points(owner, name, value)
    if array.shape[1] != n_components:
        raise ValueError(
            f"The {name!r} of {owner} must have n_components = {n_components} columns. "
            f"Got an array of shape {array.shape} instead."
        )
    return array


def check_labels(owner: str, name: str, value: object, n_rows: int) -> np.ndarray[Any, Any]:
    """Return one label a row; missing ones (None, NaN among words) as the word "missing"."""
    labels = as_array(value)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"The {name!r} of {owner} must be a 1-D array with one entry for each of the {n_rows} "
            f"rows. Got an array of shape {labels.shape} instead."
        )
    if labels.dtype.kind == "O":
        labels = np.array([MISSING if _is_missing(v) else str(v) for v in labels])
    return labels


MISSING = "missing"


def _is_missing(value: object) -> bool:
    # pandas' NA has no truth value
    missing = type(value).__name__ in ("NAType", "NaTType")
    return missing or value is None or bool(value != value)
