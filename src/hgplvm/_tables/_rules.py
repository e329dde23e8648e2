"""Which columns of a table are data, labels or the names of the rows: one set of rules for all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hgplvm._tables._errors import COMMA, mixed, option, quoted, wordy
from hgplvm._tables._source import Array, Source, Text

__all__ = ["CLASSES", "Table", "check_names", "find_column", "plain_name", "sort_columns"]

# names are compared in small letters, without spaces and _ - .
# integers under these names are labels
CLASSES = frozenset(
    {"label", "labels", "class", "classes", "cluster", "clusters", "target", "leiden", "louvain"}
)
# words or integers in a first column of this name are the names of the rows, if all differ;
# pandas calls an index "Unnamed: 0" that it read as a column
IDENTIFIERS = """
id ids index name names row rows rowid rowname rownames cell cells cellid cellname cellnames barcode
barcodes cellbarcode cellbarcodes obsname obsnames sampleid samplename unnamed:0 gene genes geneid
genename
"""
# words under these names are labels
WORDS = """
targets group groups type types subtype subtypes celltype celltypes cellsubtype cellsubtypes
subclass superclass subcluster species genus family phylum kingdom taxon clade strain category
categories kind batch batches sample samples stage lineage lineages branch node nodes
parent population condition treatment donor patient subject individual tissue organ region
annotation annotations timepoint phase sex gender phenotype genotype disease diagnosis status
"""
LABELS = CLASSES | set(IDENTIFIERS.split()) | set(WORDS.split())


@dataclass(frozen=True, eq=False)
class Table:
    """A table that was read.

    Attributes
    ----------
    data : ndarray [n, d] or sparse csr [n, d]
        The numbers, float64, with NaN where an entry is missing.
    columns : list of str
        Names of the columns of `data`.
    labels : dict of ndarray [n]
        Columns of words by their name; "" where a word is missing.
    rows : ndarray [n] or None
        Names of the rows, where the file has them.
    """

    data: Array
    columns: list[str]
    labels: dict[str, Array]
    rows: Array | None


def sort_columns(source: Source, labels: Sequence[str], drop: Sequence[str]) -> Table:
    """Sort the columns of a table into data, labels and names of the rows."""
    check_names(source.shown, source.names, source.index)
    if source.numbers.shape[0] == 0:
        raise ValueError(f"{source.shown} has no rows; give a file with one line for each row.")
    dropped = _found(source, drop)
    kept = [j for j in range(len(source.names)) if j not in dropped]
    chosen = _found(source, labels)
    index = _index(source, kept, chosen)
    rest = [j for j in kept if j not in chosen and j != index]
    _check_pure(source, rest)
    classes = {j for j in rest if _is_class(source, j)}
    words = [j for j in rest if source.kind(j) == "words"]
    _check_commas(source, words)
    data = [j for j in rest if j not in classes and j not in words]
    if not data:
        text = f"{source.shown} has no column of numbers left"
        raise ValueError(f"{text}; give a table with one column for each thing that was measured.")
    _check_words(source, words, _edges(kept, data))
    found = {j: source.text(j).words for j in (*chosen, *words)}
    found |= {j: source.text(j).classes for j in classes}
    return Table(
        data=_numbers(source, data),
        columns=[source.names[j] for j in data],
        labels={source.names[j]: found[j] for j in sorted(found)},
        rows=None if index is None else np.array(source.text(index).values, dtype=str),
    )


def check_names(shown: str, names: list[str], index: int | None) -> None:
    """Refuse columns that no name tells apart."""
    seen: dict[str, int] = {}
    for j, name in enumerate(names):
        if j == index:
            continue
        if not name:
            text = f"column {j + 1} of {shown} has no name"
            raise ValueError(f"{text}; give it one in the header, or take it out.")
        if name in seen:
            text = f"columns {seen[name] + 1} and {j + 1} of {shown} are both named {name!r}"
            raise ValueError(f"{text}; give each its own name.")
        seen[name] = j


def _found(source: Source, wanted: Sequence[str]) -> set[int]:
    """Where the columns of these names stand."""
    return {find_column(source.names, name, source.shown) for name in wanted}


def find_column(names: list[str], name: str, shown: str) -> int:
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        text = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        first = [repr(other) for other in names if other][:5]
        more = ", ..." if len(names) > 5 else ""
        text = f"its columns are {', '.join(first)}{more}."
    raise ValueError(f"{shown} has no column {name!r}; {text}")


def _index(source: Source, kept: list[int], chosen: set[int]) -> int | None:
    """Column that holds the names of the rows."""
    if source.index is not None and not source.guessed:
        return source.index if source.index in kept and source.index not in chosen else None
    if not kept or kept[0] in chosen:
        return None
    first = kept[0]
    if first == source.index:
        _check_unnamed(source, source.text(first))
        return first
    known = plain_name(source.names[first]) in IDENTIFIERS.split()
    if not known and source.kind(first) != "words":
        return None  # the usual column of numbers: no need to spell it
    text = source.text(first)
    if text.kind == "words" and COMMA.fullmatch(source.word(first)[0]):
        return None  # numbers after all, though not as we read them
    return first if text.different and (text.kind == "words" or text.whole) else None


def _check_unnamed(source: Source, text: Text) -> None:
    """Refuse a first column without a name that does not name the rows."""
    start = f"the first column of {source.shown} has no name and does not name the rows"
    advice = "give it a name in the header, or take it out."
    if text.kind == "numbers" and not text.whole:
        raise ValueError(f"{start}, since it holds fractions; {advice}")
    seen: dict[str, int] = {}
    for row, value in enumerate(text.values):
        if value in seen:
            twice = f"{quoted(value)} in {source.place(seen[value])} and {source.place(row)}"
            raise ValueError(f"{start}, since they would not all differ ({twice}); {advice}")
        seen[value] = row


def _check_pure(source: Source, columns: list[int]) -> None:
    for j in columns:
        if source.kind(j) == "mixed":
            raise mixed(source.shown, source.names[j], *source.word(j))


def _check_commas(source: Source, words: list[int]) -> None:
    """Refuse numbers that we read as words, even where they are all that there is."""
    for j in words:
        word, place = source.word(j)
        if COMMA.fullmatch(word):
            raise wordy(source.shown, source.names[j], word, place)


def _is_class(source: Source, column: int) -> bool:
    """Whether a column holds the numbers of classes."""
    return plain_name(source.names[column]) in CLASSES and source.text(column).whole


def _edges(kept: list[int], data: list[int]) -> set[int]:
    """Columns on the left and on the right of all data."""
    return {j for j in kept if j < data[0] or j > data[-1]}


def _check_words(source: Source, columns: list[int], edges: set[int]) -> None:
    """Refuse columns of words that are no labels."""
    for j in columns:
        name = source.names[j]
        words = [word for word in source.text(j).words.tolist() if word]
        known = plain_name(name) in LABELS  # even of one word: a single batch is common
        grouping = j in edges and 1 < len(set(words)) < len(words)
        if not (known or grouping):
            raise wordy(source.shown, name, *source.word(j))


def _numbers(source: Source, columns: list[int]) -> Any:
    """Columns of data, checked value by value."""
    numbers = source.numbers
    for j in columns:
        if j in source.texts:
            numbers[:, j] = source.texts[j].numbers
    numbers = numbers if len(columns) == numbers.shape[1] else numbers[:, columns]
    names = [source.names[j] for j in columns]
    if isinstance(numbers, np.ndarray):
        _check_finite(source, names, numbers)
        _check_filled(source, names, numbers)
        return numbers
    stored = numbers.tocoo()
    bad = np.isinf(stored.data)
    if bad.any():
        raise _infinite(source, names[stored.col[bad][0]], int(stored.row[bad][0]))
    return numbers


def _check_finite(source: Source, names: list[str], numbers: Array) -> None:
    rows, columns = np.nonzero(np.isinf(numbers))
    if rows.size:
        raise _infinite(source, names[columns[0]], int(rows[0]))


def _infinite(source: Source, name: str, row: int) -> ValueError:
    start = f"column {name!r} of {source.shown} is infinite in {source.place(row)}"
    drop = option("--drop", name)
    return ValueError(
        f"{start}; correct the value or empty it, or leave the column out with {drop}."
    )


def _check_filled(source: Source, names: list[str], numbers: Array) -> None:
    empty = [names[j] for j in np.flatnonzero(np.isnan(numbers).all(axis=0))]
    if not empty:
        return
    shown = ", ".join(map(repr, empty[:5])) + (f" and {len(empty) - 5} more" * (len(empty) > 5))
    drop = " ".join(option("--drop", name) for name in empty[:5])
    drop += " and so on" * (len(empty) > 5)
    one = len(empty) == 1
    start = f"column{'' if one else 's'} {shown} of {source.shown} {'has' if one else 'have'} no"
    raise ValueError(f"{start} value at all; leave {'it' if one else 'them'} out with {drop}.")


def plain_name(name: str) -> str:
    """Name for comparison: cell_type, Cell-Type and "cell type" are one."""
    return re.sub(r"[\s_.\-]+", "", name).lower()
