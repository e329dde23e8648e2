"""Text files: what separates the fields, what names the columns, and what their values are."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TextIO

import numpy as np

from hgplvm._tables._errors import mixed, suffix_of
from hgplvm._tables._rules import Table, check_names, find_column, sort_columns
from hgplvm._tables._source import AS_WRITTEN, Request, Source, Text, number_of

__all__ = ["read_text"]


def read_text(file: BinaryIO, request: Request) -> Table:
    """Read a .csv or .tsv file, compressed or not."""
    shown = request.shown
    suffix, compressed = suffix_of(request.path)
    binary = gzip.GzipFile(fileobj=file) if compressed else file
    try:
        with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
            source = _text_source(text, shown, suffix, [*request.labels, *request.drop])
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not text in UTF-8; save it as CSV in UTF-8.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        start = f"{shown} is not a complete gzip file: it was cut short, changed, or is something"
        raise ValueError(f"{start} else; copy or write it anew.") from error
    return sort_columns(source, request.labels, request.drop)


def _text_source(file: TextIO, shown: str, suffix: str, named: list[str]) -> Source:
    opening = _opening(file)
    if not opening:
        raise ValueError(f"{shown} is empty; give a file with one line for each row.")
    if "\0" in opening[-1]:
        raise ValueError(f"{shown} is not a text file; save it as CSV in UTF-8.")
    delimiter = "\t" if suffix == ".tsv" else _delimiter(opening[-1])
    rows = _rows(itertools.chain(opening[-1:], file), len(opening), delimiter, shown)
    head = list(itertools.islice(rows, 2))
    names, index, guessed = _heading([fields for _, fields in head])
    if _is_header(head[0][1]):
        line, _ = head.pop(0)
        if not head:
            raise ValueError(f"{shown} has no rows below its header in line {line}; add them.")
    check_names(shown, names, index)
    columns = {find_column(names, name, shown) for name in named}  # before the work, not after it
    gathered = _Gathered(shown, names, _text_columns(names, columns))
    for line, row in itertools.chain(head, rows):
        gathered.add(line, row)
    return gathered.source(index, guessed)


def _heading(head: list[list[str]]) -> tuple[list[str], int | None, bool]:
    """Names of the columns, which of them names the rows, and whether that is a guess."""
    first = head[0]
    if not _is_header(first):
        return [str(j) for j in range(len(first))], None, False
    names = [name.strip() for name in first]
    if len(head[-1]) == len(names) + 1:  # as R writes it
        return ["", *names], 0, False
    return (names, None, False) if names[0] else (names, 0, True)


def _opening(file: TextIO) -> list[str]:
    """Lines up to the first that is not blank; none in an empty file."""
    lines = []
    for line in file:
        lines.append(line)
        if line.strip(" \r\n"):
            return lines
    return []


def _delimiter(line: str) -> str:
    bare = re.sub(r'"[^"]*("|$)', "", line)  # what stands in quotes separates nothing
    if "," in bare:
        return ","
    return max(";\t", key=bare.count) if ";" in bare or "\t" in bare else ","


def _rows(
    lines: Iterable[str], start: int, delimiter: str, shown: str
) -> Iterator[tuple[int, list[str]]]:
    """Rows of fields, each with the line in which it begins; blank lines are passed over."""
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = start
    try:
        for row in reader:
            if row:
                yield line, row
            line = start + reader.line_num
    except csv.Error:
        text = f"line {line} of {shown} has a quote that is not closed or a field too long"
        raise ValueError(f"{text}; correct it.") from None


def _is_header(row: list[str]) -> bool:
    """Whether the first row names the columns.

    It does where some field is no number, and where it counts the columns as 0, 1, 2, ..., which is
    how pandas and :func:`write_table` write columns without names.
    """
    if any(number_of(text) is None for text in row):
        return True
    counted = row if row[0].strip() else row[1:]
    return len(row) > 1 and counted == [str(j) for j in range(len(counted))]


def _text_columns(names: list[str], named: set[int]) -> set[int]:
    """Columns whose texts are kept even where they are numbers."""
    first = next((j for j in range(len(names)) if j not in named), 0)  # may name the rows
    return {first} | named


class _Gathered:
    """Rows of a text file, gathered one by one into numbers and texts."""

    def __init__(self, shown: str, names: list[str], texts: set[int]) -> None:
        self.shown = shown
        self.names = names
        self.numbers = array("d")
        self.lines: list[int] = []
        self.texts: dict[int, list[str]] = {j: [] for j in texts}

    def add(self, line: int, row: list[str]) -> None:
        width = len(self.names)
        if len(row) != width:
            if len(row) == 1 and not row[0].strip():
                return  # a line of spaces
            self._refuse(line, len(row))
        for j, texts in self.texts.items():
            texts.append(row[j].strip())
            row[j] = "nan"
        try:
            if "_" in "".join(row):
                raise ValueError  # see number_of
            numbers = list(map(float, row))
        except ValueError:
            numbers = self._inspected(line, row)
        self.numbers.fromlist(numbers)
        self.lines.append(line)

    def _refuse(self, line: int, found: int) -> None:
        fields = "field" if found == 1 else "fields"
        raise ValueError(
            f"line {line} of {self.shown} has {found} {fields}, and {len(self.names)} are expected "
            "as in the lines above; correct this line."
        )

    def _inspected(self, line: int, row: list[str]) -> list[float]:
        """Numbers of a row in which some entries are missing or words."""
        numbers = [math.nan if text in AS_WRITTEN else number_of(text) for text in row]
        for j, number in enumerate(numbers):
            if number is None:
                self._begin_texts(j, line, row[j].strip())
        return [math.nan if number is None else number for number in numbers]

    def _begin_texts(self, column: int, line: int, word: str) -> None:
        """Keep a column as texts from its first word on; all entries above must be missing."""
        above = self.numbers[column :: len(self.names)]
        if not all(map(math.isnan, above)):
            raise mixed(self.shown, self.names[column], word, f"line {line}")
        self.texts[column] = [""] * len(above) + [word]

    def source(self, index: int | None, guessed: bool) -> Source:
        texts = {}
        for j, values in self.texts.items():
            numbers = [number_of(value) for value in values]
            word = next((i for i, number in enumerate(numbers) if number is None), None)
            texts[j] = Text(values, np.array(numbers, dtype=np.float64), word)
        return Source(
            shown=self.shown,
            names=self.names,
            numbers=np.asarray(self.numbers).reshape(-1, len(self.names)),
            texts=texts,
            unit="line",
            lines=self.lines,
            index=index,
            guessed=guessed,
        )
