"""Covariates of the rows: what users pass, and the numbers that the models see.

A *categorical* covariate (words, whole numbers, truth values) becomes an indicator for each of its
levels, less the level's share of the rows; a *continuous* one (floating-point numbers) is
standardised. So zeros everywhere stand for the mean over the rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from hgplvm import _validation as check
from hgplvm._typing import Array

__all__ = ["Coded", "Covariate", "Covariates", "level", "words_of"]

# with more levels than this share of the rows, a covariate does not group them
MOST_LEVELS = 0.5
# levels that are listed in a sentence
LISTED = 8


@dataclass(frozen=True)
class Coded:
    """Covariates of some rows, as numbers.

    Attributes
    ----------
    design : Array [n, q]
        W: 0 where a level is not known.
    tags : Array [n, T]
        Indicators of the levels of the categorical covariates; 0 where a level is not known.
    fresh : Array [n]
        Whether a row is of no known level of some covariate.
    """

    design: Array
    tags: Array
    fresh: Array

    def some(self, rows: Any) -> Coded:
        """Return some of the rows."""
        return Coded(self.design[rows], self.tags[rows], self.fresh[rows])


@dataclass(frozen=True)
class Covariate:
    """One covariate.

    Attributes
    ----------
    name : str
        Its name.
    levels : tuple of str, optional
        Levels of a categorical one.
    middle : Array
        Shares of the levels; of a continuous one, its mean.
    scale : float
        Standard deviation of a continuous one.
    """

    name: str
    levels: tuple[str, ...] | None
    middle: Array
    scale: float = 1.0

    @property
    def width(self) -> int:
        """Columns in the design."""
        return 1 if self.levels is None else len(self.levels)

    def indicators(self, owner: str, values: Array) -> Array:
        """Return indicators of the levels [n, L]; rows without a level have none."""
        assert self.levels is not None
        place = {name: i for i, name in enumerate(self.levels)}
        found = np.zeros((len(values), len(self.levels)))
        for row, value in enumerate(values):
            if value is None:
                continue
            own = level(value)
            if own is None:
                raise ValueError(
                    f"The covariate {self.name!r} of {owner} has a missing value in row {row}: "
                    "fill it in. For rows of a new batch pass None."
                )
            if own not in place:
                raise ValueError(
                    f"The covariate {self.name!r} of {owner} has the level {own!r} in row {row}, "
                    f"which the fit has not seen; it saw {_listed(self.levels)}. For rows of a new "
                    "batch pass None."
                )
            found[row, place[own]] = 1.0
        return found

    def numbers(self, owner: str, values: Array) -> Array:
        """Standardised numbers [n, 1]."""
        found = _numbers(owner, self.name, values)
        return (found[:, None] - self.middle) / self.scale

    @classmethod
    def of(cls, owner: str, name: str, values: Array) -> Covariate | None:
        """Describe a column; None, with a warning, where it has one level."""
        missing = np.flatnonzero([_is_missing(value) for value in values])
        if missing.size:
            more = f" and {missing.size - 1} more" if missing.size > 1 else ""
            raise ValueError(
                f"The covariate {name!r} of {owner} has a missing value in row {missing[0]}{more}: "
                "fill it in, or leave such rows out."
            )
        if not _is_categorical(values):
            numbers = _numbers(owner, name, values)
            scale = float(numbers.std())
            if not scale > 1e-12 * float(np.abs(numbers).max(initial=1e-300)):
                raise ValueError(
                    f"The covariate {name!r} of {owner} has the same value, {numbers[0]:g}, in all "
                    "rows, so that nothing can be learnt of it: leave it out."
                )
            return cls(name, None, np.array([numbers.mean()]), scale)
        labels = np.array([level(value) for value in values])
        levels, counts = np.unique(labels, return_counts=True)
        if len(levels) == 1:
            warnings.warn(
                f"The covariate {name!r} of {owner} has one level, {str(levels[0])!r}, in all "
                "rows; it is left out.",
                UserWarning,
                stacklevel=2,
            )
            return None
        if len(levels) > MOST_LEVELS * len(labels):
            raise ValueError(
                f"The covariate {name!r} of {owner} has {len(levels)} levels in {len(labels)} "
                "rows, nearly one for each, so that it does not group them: pass a column of "
                "batches or donors (a continuous covariate is one of floating-point numbers)."
            )
        return cls(name, tuple(levels.tolist()), counts / len(labels))


@dataclass(frozen=True)
class Covariates:
    """All covariates of a fit.

    Attributes
    ----------
    parts : tuple of Covariate
        One for each.
    names : tuple of str
        Names of all that were passed, also of those that were left out.
    """

    parts: tuple[Covariate, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, owner: str, value: object, n_rows: int) -> Covariates:
        """Read and check the covariates of a fit."""
        columns = _columns(owner, value, n_rows)
        parts = [Covariate.of(owner, name, column) for name, column in columns.items()]
        return cls(tuple(part for part in parts if part is not None), tuple(columns))

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns in the design of each covariate."""
        return tuple(part.width for part in self.parts)

    @property
    def categorical(self) -> tuple[Covariate, ...]:
        """Those with levels."""
        return tuple(part for part in self.parts if part.levels is not None)

    @property
    def levels(self) -> tuple[int, ...]:
        """Numbers of levels of the categorical ones."""
        return tuple(part.width for part in self.categorical)

    @property
    def mean_tags(self) -> Array:
        """Shares of all levels [T]: the tags of the mean over batches."""
        return np.concatenate([part.middle for part in self.categorical] or [np.zeros(0)])

    def coded(self, owner: str, value: object, n_rows: int, *, partial: bool = False) -> Coded:
        """Turn covariates of rows into numbers.

        Parameters
        ----------
        value : object
            As in a fit. Of a categorical covariate, None is a level that is not known.
        partial : bool
            Whether one value may stand for all rows, and covariates may be left out: these are
            averaged over, as levels that are not known are.
        """
        columns = _columns(owner, value, n_rows, names=self.names, partial=partial)
        design, tags, fresh = [], [], np.zeros(n_rows, dtype=bool)
        for part in self.parts:
            values = columns.get(part.name)
            if values is None:
                design.append(np.zeros((n_rows, part.width)))
                if part.levels is not None:
                    tags.append(np.tile(part.middle, (n_rows, 1)))
                continue
            if part.levels is None:
                design.append(part.numbers(owner, values))
                continue
            found = part.indicators(owner, values)
            known: Array = found.sum(axis=1) > 0
            design.append((found - part.middle) * known[:, None])
            tags.append(found if not partial else np.where(known[:, None], found, part.middle))
            if not partial:
                fresh |= ~known
        empty = np.zeros((n_rows, 0))
        return Coded(
            np.concatenate([empty, *design], axis=1),
            np.concatenate([empty, *tags], axis=1),
            fresh,
        )

    def averaged(self, n_rows: int) -> Coded:
        """Return the mean over all rows of the fit."""
        design = np.zeros((n_rows, sum(self.widths)))
        tags = np.tile(self.mean_tags, (n_rows, 1))
        return Coded(design, tags, np.zeros(n_rows, dtype=bool))


# --- reading ------------------------------------------------------------------------------------


def _columns(
    owner: str,
    value: object,
    n_rows: int,
    *,
    names: tuple[str, ...] | None = None,
    partial: bool = False,
) -> dict[str, Array]:
    """Columns by name, from whatever holds them; names are those of a fit, if there was one."""
    found: dict[str, Any]
    if hasattr(value, "columns"):  # a DataFrame
        found = {str(name): value[name] for name in value.columns}  # type: ignore[index]
    elif isinstance(value, Mapping):
        found = {str(name): column for name, column in value.items()}
    elif hasattr(value, "to_numpy") and getattr(value, "name", None) is not None:  # a Series
        found = {str(value.name): value}  # type: ignore[attr-defined]
    elif partial and _is_scalar(value):
        found = _unnamed([value], names)
    else:
        array = _as_objects(value)
        if array.ndim not in (1, 2):
            raise ValueError(
                f"The covariates of {owner} must be a column, or a table with a column for each. "
                f"Got an array of {array.ndim} dimensions instead."
            )
        found = _unnamed([array] if array.ndim == 1 else list(array.T), names)
    columns = {}
    for name, column in found.items():
        if partial and _is_scalar(column):
            column = [column] * n_rows
        array = _as_objects(column)
        if array.ndim != 1 or len(array) != n_rows:
            raise ValueError(
                f"The covariate {name!r} of {owner} must have one entry for each of the {n_rows} "
                f"rows. Got shape {array.shape} instead."
            )
        columns[name] = array
    if names is not None:
        if len(found) == len(names) == 1:  # the name of a single one does not matter
            return dict(zip(names, columns.values(), strict=True))
        if unknown := [name for name in columns if name not in names]:
            raise ValueError(
                f"{owner} was fitted with the covariates {_listed(names)}. Got {unknown[0]!r} "
                "instead."
            )
        if not partial and (lacking := [name for name in names if name not in columns]):
            raise ValueError(f"{owner} needs the covariate {lacking[0]!r}, as its fit had it.")
    return columns


def _unnamed(columns: list[Any], names: tuple[str, ...] | None) -> dict[str, Any]:
    """Name columns as those of the fit, or by their number."""
    if names is None or len(names) != len(columns):
        many = len(columns) > 1
        names = tuple(f"covariate_{i + 1}" if many else "covariate" for i in range(len(columns)))
    return dict(zip(names, columns, strict=True))


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | Real | np.generic)


def _as_objects(value: Any) -> Array:
    """Return an array; words, and columns with gaps, are objects."""
    if hasattr(value, "detach"):  # a tensor
        value = check.as_array(value)
    if hasattr(value, "to_numpy"):
        if str(getattr(value, "dtype", "")) == "category":  # whatever the categories are
            return words_of(value)
        value = value.to_numpy()
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US":  # a list of words and numbers would be words alone
            array = np.asarray(value, dtype=object)
    except ValueError:  # ragged
        array = np.asarray(value, dtype=object)
    return array


def _is_missing(value: object) -> bool:
    if value is None or value is getattr(np, "NaT", None):
        return True
    if isinstance(value, Real):
        return math.isnan(float(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _is_categorical(values: Array) -> bool:
    """Whether a column holds anything but floating-point numbers."""
    if values.dtype.kind == "f":
        return False
    if values.dtype.kind != "O":
        return True
    return not all(isinstance(v, float | np.floating) for v in values)


def words_of(values: Any) -> Array:
    """Levels of a column as words, whatever it holds; None where one is missing."""
    found = np.empty(len(values), dtype=object)
    found[:] = [level(value) for value in np.asarray(values, dtype=object)]
    return found


def level(value: object) -> str | None:
    """Text of a level; None where it is missing."""
    if _is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Real) and float(value).is_integer():
        return str(int(float(value)))
    return str(value)


def _numbers(owner: str, name: str, values: Array) -> Array:
    try:
        found = values.astype(np.float64)
    except (TypeError, ValueError):
        found = np.array([np.nan])
    if not np.isfinite(found).all():
        bad = values[~np.isfinite(found)][0] if len(found) == len(values) else values[0]
        raise ValueError(
            f"The covariate {name!r} of {owner} is continuous, so that it must have a finite "
            f"number in each row. Got {bad!r} instead."
        )
    return found


def _listed(words: tuple[str, ...]) -> str:
    shown = ", ".join(repr(word) for word in words[:LISTED])
    return shown + (f" and {len(words) - LISTED} more" if len(words) > LISTED else "")
