"""A table as its file holds it, before its columns are sorted, and what its values mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hgplvm._tables._errors import Place, name_of
from hgplvm._typing import Array

__all__ = [
    "AS_WRITTEN",
    "Array",
    "Request",
    "Source",
    "Text",
    "is_missing",
    "number_of",
    "spelled",
    "typed",
]

# what a missing entry may look like, in small letters
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", ".", "-"})
# the same as programs write it, so that most need no second look
AS_WRITTEN = MISSING | {text.upper() for text in MISSING} | {"NaN", "None", "Null", "<NA>"}

EXACT = 2**53  # integers beyond it are not all floats


@dataclass(frozen=True)
class Request:
    """What :func:`read_table` was asked for."""

    path: Place
    labels: Sequence[str]
    drop: Sequence[str]
    key: str | None

    @property
    def shown(self) -> str:
        return name_of(self.path)


@dataclass(frozen=True)
class Text:
    """A column that is, or may be, of words."""

    values: list[str]  # as they stand in the file
    numbers: Array  # [n], NaN where a value is missing or a word
    word: int | None  # the first row that holds a word

    @property
    def kind(self) -> str:
        numbers = not np.isnan(self.numbers).all()
        if self.word is None:
            return "numbers" if numbers else "nothing"
        return "mixed" if numbers else "words"

    @property
    def whole(self) -> bool:
        """Whether the numbers are integers."""
        there = self.numbers[~np.isnan(self.numbers)]
        finite = bool(np.isfinite(there).all())
        return self.kind == "numbers" and finite and bool(np.all(there == np.floor(there)))

    @property
    def different(self) -> bool:
        return len(set(self.values)) == len(self.values)

    @property
    def words(self) -> Array:
        """The values with "" where one is missing."""
        return np.array(["" if is_missing(text) else text for text in self.values], dtype=str)

    @property
    def classes(self) -> Array:
        """The integers as texts, with "" where one is missing: 1, 1.0 and 1e0 are one class."""
        return np.array([spelled(number) for number in self.numbers.tolist()], dtype=str)


@dataclass(frozen=True)
class Source:
    """A table before its columns are sorted, with what is needed to say where a value stands."""

    shown: str
    names: list[str]
    numbers: Any  # [n, d], array or csr; NaN in columns of `texts`
    texts: dict[int, Text] = field(default_factory=dict)
    unit: str = "row"
    lines: Sequence[int] | None = None  # [n], as an editor counts them; None: 1, 2, ...
    index: int | None = None  # the column that holds the names of the rows
    guessed: bool = False  # whether `index` is only a guess, from a header without a name

    def place(self, row: int) -> str:
        """Where a row stands in its file."""
        return f"{self.unit} {row + 1 if self.lines is None else self.lines[row]}"

    def text(self, column: int) -> Text:
        """Column as texts, even where it was read as numbers."""
        if column in self.texts:
            return self.texts[column]
        numbers = self.numbers[:, [column]]
        numbers = numbers if isinstance(numbers, np.ndarray) else numbers.toarray()
        return Text(list(map(spelled, numbers[:, 0].tolist())), numbers[:, 0], None)

    def word(self, column: int) -> tuple[str, str]:
        """First word of a column, and where it stands."""
        text = self.texts[column]
        row = text.word or 0
        return text.values[row], self.place(row)

    def kind(self, column: int) -> str:
        return self.texts[column].kind if column in self.texts else "numbers"


def typed(shown: str, columns: dict[str, Array | list[str]], index: str | None = None) -> Source:
    """Table of columns that are known to be numbers (arrays) or words (lists)."""
    lengths = [len(column) for column in columns.values()]
    numbers = np.full((lengths[0], len(lengths)), math.nan)
    texts = {}
    for j, column in enumerate(columns.values()):
        if isinstance(column, list):
            word = next((i for i, text in enumerate(column) if not is_missing(text)), None)
            texts[j] = Text(column, np.full(len(column), math.nan), word)
        else:
            numbers[:, j] = column
            if column.dtype.kind in "iu" and np.any(np.abs(numbers[:, j]) > EXACT):
                texts[j] = Text(list(map(str, column.tolist())), numbers[:, j].copy(), None)
    names = list(columns)
    return Source(shown, names, numbers, texts, index=names.index(index) if index else None)


def is_missing(text: str) -> bool:
    """Whether a field says that there is no value."""
    return text.strip().lower() in MISSING


def number_of(text: str) -> float | None:
    """Value of a field: NaN where it is missing, None where it is a word."""
    if is_missing(text):
        return math.nan
    if "_" in text:  # Python reads 1_000 as a number, nobody else does
        return None
    try:
        return float(text)
    except ValueError:
        return None


def spelled(number: float) -> str:
    """Write a number, a whole one without a point; "" where it is missing."""
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else repr(number)
