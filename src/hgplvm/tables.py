"""Tables in files: rows of numbers to fit, and columns of results.

A file is read into a :class:`_Source`, which knows where each value stands; :func:`_sorted` then
decides, by one set of rules for all formats, which columns are data, labels or the names of the
rows. Whatever is unclear is an error that says what to do, never a guess.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import itertools
import math
import os
import re
import shlex
import tokenize
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TextIO

import numpy as np

from hgplvm._optional import require
from hgplvm.files import whole

__all__ = ["SUFFIXES", "Table", "read_table", "write_table"]

SUFFIXES = (".csv", ".tsv", ".npy", ".npz", ".parquet")

READABLE = ".csv, .tsv, .csv.gz, .tsv.gz, .npy, .npz, .parquet or .h5ad"
WRITABLE = ".csv, .tsv, .csv.gz, .tsv.gz, .npz or .parquet"

Array = np.ndarray[Any, Any]
Header = tuple[tuple[int, ...], np.dtype[Any]]  # shape and dtype of an array
Place = str | os.PathLike[str]

# what a missing entry may look like, in small letters
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", ".", "-"})
# the same as programs write it, so that most need no second look
AS_WRITTEN = MISSING | {text.upper() for text in MISSING} | {"NaN", "None", "Null", "<NA>"}

# names are compared in small letters, without spaces and _ - .
# integers under these names are labels
CLASSES = frozenset({"label", "labels", "class", "classes", "cluster", "clusters", "target"})
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
categories kind batch batches sample samples stage lineage lineages branch louvain leiden node nodes
parent population condition treatment donor patient subject individual tissue organ region
annotation annotations timepoint phase sex gender phenotype genotype disease diagnosis status
"""
LABELS = CLASSES | set(IDENTIFIERS.split()) | set(WORDS.split())

# in an .npz file
DATA_ARRAYS = ("data", "X", "Y", "x", "embedding")
LABEL_ARRAYS = ("label", "labels", "target", "class", "cluster")
COLUMN_ARRAYS = ("columns", "feature_names")
ROW_ARRAYS = ("rows", "obs_names", "index")

# errors of numpy, zipfile, gzip and pyarrow in a file that is not what its name says
DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    SyntaxError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

COMMA = re.compile(r"[+-]?\d[\d.\s]*,\d+([eE][+-]?\d+)?")
EXACT = 2**53  # integers beyond it are not all floats


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


def read_table(
    path: Place,
    *,
    labels: Sequence[str] = (),
    drop: Sequence[str] = (),
    key: str | None = None,
) -> Table:
    """Read a table of numbers.

    Columns of words at the edges of the table, or under a name such as "cell type", become labels;
    a first column of words that all differ holds the names of the rows.

    Parameters
    ----------
    path : path
        A .csv, .tsv (both also .gz), .npy, .npz or .parquet file.
    labels : sequence of str
        Columns to keep as labels, whatever they hold.
    drop : sequence of str
        Columns to leave out.
    key : str, optional
        Name of the array to read from an .npz file.

    Raises
    ------
    ValueError
        If the file is not such a table; the text says where, and what to do.
    OSError
        If there is no such file, or it may not be read.
    """
    shown = _shown(path)
    with _opened(path, shown) as file:
        suffix, _ = _suffix(path)
        if suffix not in SUFFIXES:
            raise ValueError(f"{shown} is not of a kind that hgplvm reads; give a {READABLE} file.")
        if key is not None and suffix != ".npz":
            raise ValueError(f"{shown} holds one table; leave out --key, which is for .npz files.")
        for name in dict.fromkeys(labels):
            if name in drop:
                text = f"column {name!r} of {shown} is named by both --label and --drop; choose one"
                raise ValueError(f"{text}.")
        return _READERS[suffix](file, _Request(path, labels, drop, key))


def write_table(path: Place, columns: dict[str, Array]) -> None:
    """Write columns to a file, as a whole or not at all.

    Parameters
    ----------
    path : path
        A .csv, .tsv (both also .gz), .npz or .parquet file; an existing one is replaced. Text files
        get nine digits of each float, and nothing where it is NaN.
    columns : dict of ndarray [n]
        Numbers or texts by the name of their column.

    Raises
    ------
    ValueError
        If the columns do not make a table, or the file name says no known format.
    OSError
        If the disk does not take it; what was there before stays.
    """
    shown = _shown(path)
    suffix, _ = _suffix(path)
    if suffix not in _WRITERS:
        raise ValueError(f"{shown} is not of a kind that hgplvm writes; name a {WRITABLE} file.")
    arrays = _checked(columns, shown)
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {_shown(folder)} for {shown}; make it first.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{shown} is a folder; name a file in it.")
    with whole(path) as name:
        _WRITERS[suffix](name, arrays, path)


# --- files and what is said about them --------------------------------------------------------


def _shown(path: Place) -> str:
    """Place as it was given, escaped where it would break the line."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


def _suffix(path: Place) -> tuple[str, bool]:
    """End of a file's name, and whether the file is compressed on top of that."""
    name = os.path.basename(os.fspath(path)).lower()
    compressed = name.endswith((".csv.gz", ".tsv.gz"))
    return os.path.splitext(name.removesuffix(".gz") if compressed else name)[1], compressed


def _opened(path: Place, shown: str) -> BinaryIO:
    if os.path.isdir(path):
        raise IsADirectoryError(f"{shown} is a folder; give a file in it.")
    try:
        return open(path, "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no file {shown}; check its name and folder.") from None
    except PermissionError:
        text = f"{shown} may not be read; ask its owner for permission, or read a copy of your own."
        raise PermissionError(text) from None


@contextmanager
def _undamaged(shown: str, kind: str) -> Iterator[None]:
    """Say in one sentence that a file is damaged, whatever the library beneath says."""
    try:
        yield
    except DAMAGE as error:
        text = f"{shown} is not a complete {kind} file: it was cut short, changed, or is something"
        raise ValueError(f"{text} else; copy or write it anew.") from error


def _value(text: str) -> str:
    """Value of the file in quotes, on one line and not too long."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def _option(flag: str, name: str) -> str:
    """Option as one would type it."""
    return f"{flag} {shlex.quote(name) if name.isprintable() else repr(name)}"


def _advice(name: str, it: str = "it") -> str:
    keep = f"name {it} with {_option('--label', name)} to keep it as a label"
    return f"{keep}, or leave it out with {_option('--drop', name)}."


def _mixed(shown: str, name: str, word: str, place: str) -> ValueError:
    """Error for a column of numbers and words."""
    if COMMA.fullmatch(word):
        return _comma(shown, name, word, place)
    return ValueError(
        f"column {name!r} of {shown} mixes numbers and words ({_value(word)} in {place}); correct "
        f"this value (a missing one stays empty), {_advice(name, 'the column')}"
    )


def _wordy(shown: str, name: str, word: str, place: str) -> ValueError:
    """Error for a column of words that is no label."""
    if COMMA.fullmatch(word):
        return _comma(shown, name, word, place)
    return ValueError(
        f"column {name!r} of {shown} holds words ({_value(word)} in {place}) among columns of "
        f"numbers; {_advice(name)}"
    )


def _comma(shown: str, name: str, word: str, place: str) -> ValueError:
    return ValueError(
        f"column {name!r} of {shown} holds a number with a comma ({_value(word)} in {place}); "
        f"write numbers with a decimal point, {_advice(name, 'the column')}"
    )


@dataclass(frozen=True)
class _Request:
    """What :func:`read_table` was asked for."""

    path: Place
    labels: Sequence[str]
    drop: Sequence[str]
    key: str | None

    @property
    def shown(self) -> str:
        return _shown(self.path)


# --- a table as its file holds it -------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
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
        return np.array(["" if _missing(text) else text for text in self.values], dtype=str)

    @property
    def classes(self) -> Array:
        """The integers as texts, with "" where one is missing: 1, 1.0 and 1e0 are one class."""
        return np.array([_spelled(number) for number in self.numbers.tolist()], dtype=str)


@dataclass(frozen=True)
class _Source:
    """A table before its columns are sorted, with what is needed to say where a value stands."""

    shown: str
    names: list[str]
    numbers: Any  # [n, d], array or csr; NaN in columns of `texts`
    texts: dict[int, _Text] = field(default_factory=dict)
    unit: str = "row"
    lines: Sequence[int] | None = None  # [n], as an editor counts them; None: 1, 2, ...
    index: int | None = None  # the column that holds the names of the rows
    guessed: bool = False  # whether `index` is only a guess, from a header without a name

    def place(self, row: int) -> str:
        return f"{self.unit} {row + 1 if self.lines is None else self.lines[row]}"

    def text(self, column: int) -> _Text:
        """Column as texts, even where it was read as numbers."""
        if column in self.texts:
            return self.texts[column]
        numbers = self.numbers[:, [column]]
        numbers = numbers if isinstance(numbers, np.ndarray) else numbers.toarray()
        return _Text(list(map(_spelled, numbers[:, 0].tolist())), numbers[:, 0], None)

    def word(self, column: int) -> tuple[str, str]:
        """First word of a column, and where it stands."""
        text = self.texts[column]
        row = text.word or 0
        return text.values[row], self.place(row)

    def kind(self, column: int) -> str:
        return self.texts[column].kind if column in self.texts else "numbers"


def _missing(text: str) -> bool:
    return text.strip().lower() in MISSING


def _number(text: str) -> float | None:
    """Value of a field: NaN where it is missing, None where it is a word."""
    if _missing(text):
        return math.nan
    if "_" in text:  # Python reads 1_000 as a number, nobody else does
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _spelled(number: float) -> str:
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else repr(number)


def _plain(name: str) -> str:
    """Name for comparison: cell_type, Cell-Type and "cell type" are one."""
    return re.sub(r"[\s_.\-]+", "", name).lower()


# --- which columns are data, labels and names of rows -----------------------------------------


def _sorted(source: _Source, labels: Sequence[str], drop: Sequence[str]) -> Table:
    """Sort the columns of a table into data, labels and names of the rows."""
    _check_names(source.shown, source.names, source.index)
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


def _check_names(shown: str, names: list[str], index: int | None) -> None:
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


def _found(source: _Source, wanted: Sequence[str]) -> set[int]:
    """Where the columns of these names stand."""
    return {_column(source.names, name, source.shown) for name in wanted}


def _column(names: list[str], name: str, shown: str) -> int:
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


def _index(source: _Source, kept: list[int], chosen: set[int]) -> int | None:
    """Column that holds the names of the rows."""
    if source.index is not None and not source.guessed:
        return source.index if source.index in kept and source.index not in chosen else None
    if not kept or kept[0] in chosen:
        return None
    first = kept[0]
    if first == source.index:
        _check_unnamed(source, source.text(first))
        return first
    known = _plain(source.names[first]) in IDENTIFIERS.split()
    if not known and source.kind(first) != "words":
        return None  # the usual column of numbers: no need to spell it
    text = source.text(first)
    if text.kind == "words" and COMMA.fullmatch(source.word(first)[0]):
        return None  # numbers after all, though not as we read them
    return first if text.different and (text.kind == "words" or text.whole) else None


def _check_unnamed(source: _Source, text: _Text) -> None:
    """Refuse a first column without a name that does not name the rows."""
    start = f"the first column of {source.shown} has no name and does not name the rows"
    advice = "give it a name in the header, or take it out."
    if text.kind == "numbers" and not text.whole:
        raise ValueError(f"{start}, since it holds fractions; {advice}")
    seen: dict[str, int] = {}
    for row, value in enumerate(text.values):
        if value in seen:
            twice = f"{_value(value)} in {source.place(seen[value])} and {source.place(row)}"
            raise ValueError(f"{start}, since they would not all differ ({twice}); {advice}")
        seen[value] = row


def _check_pure(source: _Source, columns: list[int]) -> None:
    for j in columns:
        if source.kind(j) == "mixed":
            raise _mixed(source.shown, source.names[j], *source.word(j))


def _is_class(source: _Source, column: int) -> bool:
    """Whether a column holds the numbers of classes."""
    return _plain(source.names[column]) in CLASSES and source.text(column).whole


def _edges(kept: list[int], data: list[int]) -> set[int]:
    """Columns on the left and on the right of all data."""
    return {j for j in kept if j < data[0] or j > data[-1]}


def _check_words(source: _Source, columns: list[int], edges: set[int]) -> None:
    """Refuse columns of words that are no labels."""
    for j in columns:
        name = source.names[j]
        words = [word for word in source.text(j).words.tolist() if word]
        known = _plain(name) in LABELS
        grouping = j in edges and len(set(words)) < len(words)
        comma = COMMA.fullmatch(words[0]) is not None
        if comma or len(set(words)) < 2 or not (known or grouping):
            raise _wordy(source.shown, name, *source.word(j))


def _numbers(source: _Source, columns: list[int]) -> Any:
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


def _check_finite(source: _Source, names: list[str], numbers: Array) -> None:
    rows, columns = np.nonzero(np.isinf(numbers))
    if rows.size:
        raise _infinite(source, names[columns[0]], int(rows[0]))


def _infinite(source: _Source, name: str, row: int) -> ValueError:
    start = f"column {name!r} of {source.shown} is infinite in {source.place(row)}"
    drop = _option("--drop", name)
    return ValueError(
        f"{start}; correct the value or empty it, or leave the column out with {drop}."
    )


def _check_filled(source: _Source, names: list[str], numbers: Array) -> None:
    empty = [names[j] for j in np.flatnonzero(np.isnan(numbers).all(axis=0))]
    if not empty:
        return
    shown = ", ".join(map(repr, empty[:5])) + (f" and {len(empty) - 5} more" * (len(empty) > 5))
    drop = " ".join(_option("--drop", name) for name in empty[:5])
    drop += " and so on" * (len(empty) > 5)
    one = len(empty) == 1
    start = f"column{'' if one else 's'} {shown} of {source.shown} {'has' if one else 'have'} no"
    raise ValueError(f"{start} value at all; leave {'it' if one else 'them'} out with {drop}.")


# --- text files -------------------------------------------------------------------------------


def _read_text(file: BinaryIO, request: _Request) -> Table:
    shown = request.shown
    suffix, compressed = _suffix(request.path)
    binary = gzip.GzipFile(fileobj=file) if compressed else file
    try:
        with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
            source = _text_source(text, shown, suffix, [*request.labels, *request.drop])
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not text in UTF-8; save it as CSV in UTF-8.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        start = f"{shown} is not a complete gzip file: it was cut short, changed, or is something"
        raise ValueError(f"{start} else; copy or write it anew.") from error
    return _sorted(source, request.labels, request.drop)


def _text_source(file: TextIO, shown: str, suffix: str, named: list[str]) -> _Source:
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
    _check_names(shown, names, index)
    columns = {_column(names, name, shown) for name in named}  # before the work, not after it
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
    if any(_number(text) is None for text in row):
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
                raise ValueError  # see _number
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
        numbers = [math.nan if text in AS_WRITTEN else _number(text) for text in row]
        for j, number in enumerate(numbers):
            if number is None:
                self._begin_texts(j, line, row[j].strip())
        return [math.nan if number is None else number for number in numbers]

    def _begin_texts(self, column: int, line: int, word: str) -> None:
        """Keep a column as texts from its first word on; all entries above must be missing."""
        above = self.numbers[column :: len(self.names)]
        if not all(map(math.isnan, above)):
            raise _mixed(self.shown, self.names[column], word, f"line {line}")
        self.texts[column] = [""] * len(above) + [word]

    def source(self, index: int | None, guessed: bool) -> _Source:
        texts = {}
        for j, values in self.texts.items():
            numbers = [_number(value) for value in values]
            word = next((i for i, number in enumerate(numbers) if number is None), None)
            texts[j] = _Text(values, np.array(numbers, dtype=np.float64), word)
        return _Source(
            shown=self.shown,
            names=self.names,
            numbers=np.asarray(self.numbers).reshape(-1, len(self.names)),
            texts=texts,
            unit="line",
            lines=self.lines,
            index=index,
            guessed=guessed,
        )


# --- arrays -----------------------------------------------------------------------------------


def _read_npy(file: BinaryIO, request: _Request) -> Table:
    shown = request.shown
    with _undamaged(shown, ".npy"):
        shape, dtype = _array_header(file)
        if math.prod(shape) * dtype.itemsize > os.fstat(file.fileno()).st_size:
            raise EOFError  # before numpy asks for the memory
    _check_matrix(shape, dtype, shown)
    file.seek(0)
    with _undamaged(shown, ".npy"):
        numbers = np.lib.format.read_array(file, allow_pickle=False)
    return _sorted(_Source(shown, _counted(shape), _float64(numbers)), request.labels, request.drop)


def _array_header(file: Any) -> Header:
    """Shape and dtype of an array in a file, without its values."""
    version = np.lib.format.read_magic(file)
    first = np.lib.format.read_array_header_1_0
    shape, _, dtype = (first if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    return shape, dtype


def _check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    """Refuse an array that is no table of numbers."""
    if dtype.kind not in "biuf":
        kind = "Python objects" if dtype.hasobject else f"values of type {dtype}"
        raise ValueError(f"{what} holds {kind}, not numbers; write it as an array of float64.")
    if len(shape) != 2:
        dimensions = "1 dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
        text = f"{what} has {dimensions}, not 2; write it as an array of rows and columns."
        raise ValueError(text)


def _float64(numbers: Array) -> Array:
    return np.ascontiguousarray(numbers, dtype=np.float64)


def _counted(shape: tuple[int, ...]) -> list[str]:
    return [str(j) for j in range(shape[1])]


def _typed(shown: str, columns: dict[str, Array | list[str]], index: str | None = None) -> _Source:
    """Table of columns that are known to be numbers (arrays) or words (lists)."""
    lengths = [len(column) for column in columns.values()]
    numbers = np.full((lengths[0], len(lengths)), math.nan)
    texts = {}
    for j, column in enumerate(columns.values()):
        if isinstance(column, list):
            word = next((i for i, text in enumerate(column) if not _missing(text)), None)
            texts[j] = _Text(column, np.full(len(column), math.nan), word)
        else:
            numbers[:, j] = column
            if column.dtype.kind in "iu" and np.any(np.abs(numbers[:, j]) > EXACT):
                texts[j] = _Text(list(map(str, column.tolist())), numbers[:, j].copy(), None)
    names = list(columns)
    return _Source(shown, names, numbers, texts, index=names.index(index) if index else None)


@dataclass(frozen=True)
class _Archive:
    """The arrays in an .npz file."""

    shown: str
    file: Any

    @property
    def names(self) -> list[str]:
        return list(self.file.files)

    def header(self, name: str) -> Header:
        with _undamaged(self.shown, ".npz"), self.file.zip.open(f"{name}.npy") as member:
            return _array_header(member)

    def load(self, name: str) -> Array:
        with _undamaged(self.shown, ".npz"):
            return self.file[name]

    def texts(self, name: str) -> list[str]:
        """Array of words or numbers as texts."""
        _, dtype = self.header(name)
        what = f"array {name!r} of {self.shown}"
        if dtype.kind not in "biufUS":
            kind = "Python objects" if dtype.hasobject else f"values of type {dtype}"
            raise ValueError(f"{what} holds {kind}; write it as an array of texts or integers.")
        values = self.load(name)
        if dtype.kind == "S":
            return [text.decode("utf-8", "replace") for text in values.tolist()]
        if dtype.kind == "U":
            return values.tolist()
        return [
            _spelled(value) if dtype.kind == "f" else str(int(value)) for value in values.tolist()
        ]


def _read_npz(file: BinaryIO, request: _Request) -> Table:
    shown = request.shown
    with _undamaged(shown, ".npz"):
        zipfile.ZipFile(file).close()  # numpy reads other files as well, whatever their name
        file.seek(0)
        archive = _Archive(shown, np.load(file, allow_pickle=False))
    names = archive.names
    if request.key is None and {"format", "shape", "data"} <= set(names):
        return _sorted(_sparse(file, shown), request.labels, request.drop)
    if request.key is not None and request.key not in names:
        choice = " or ".join(map(repr, names))
        raise ValueError(f"{shown} has no array {request.key!r}; choose {choice} with --key.")
    chosen = request.key or _data_array(archive)
    if chosen is None:
        return _sorted(_column_arrays(archive), request.labels, request.drop)
    return _data_with_labels(archive, chosen, request.labels, request.drop)


def _sparse(file: BinaryIO, shown: str) -> _Source:
    from scipy import sparse  # takes a tenth of a second

    file.seek(0)
    with _undamaged(shown, ".npz"):
        numbers = sparse.load_npz(file).tocsr()
        numbers.check_format()
    _check_matrix(numbers.shape, numbers.dtype, shown)
    return _Source(shown, _counted(numbers.shape), numbers.astype(np.float64))


def _data_array(archive: _Archive) -> str | None:
    """Array that is the data; None where the arrays are the columns of a table."""
    names = archive.names
    shapes = {name: archive.header(name)[0] for name in names}
    tables = [name for name in names if len(shapes[name]) == 2]
    known = [name for name in DATA_ARRAYS if name in tables]
    if known or len(tables) == 1:
        return (known or tables)[0]
    if not tables and len(set(shapes.values())) == 1 and len(shapes[names[0]]) == 1:
        return None
    if not tables:
        raise ValueError(
            f"{archive.shown} has no array of rows and columns; write one into it as 'data'."
        )
    raise ValueError(
        f"{archive.shown} has more than one table; choose {' or '.join(map(repr, tables))} with "
        "--key."
    )


def _column_arrays(archive: _Archive) -> _Source:
    """Table from one array for each column, as :func:`write_table` writes it."""
    columns: dict[str, Array | list[str]] = {}
    for name in archive.names:
        number = archive.header(name)[1].kind in "biuf"
        columns[name] = archive.load(name) if number else archive.texts(name)
    return _typed(archive.shown, columns)


def _data_with_labels(
    archive: _Archive, chosen: str, labels: Sequence[str], drop: Sequence[str]
) -> Table:
    """Table from one array of data and what the other arrays say about it."""
    shape, dtype = archive.header(chosen)
    _check_matrix(shape, dtype, f"array {chosen!r} of {archive.shown}")
    others = {name: archive.header(name) for name in archive.names if name != chosen}
    columns = _words_of(archive, others, COLUMN_ARRAYS, shape[1]) or _counted(shape)
    for name in (*labels, *drop):
        if name not in columns:
            _column([*others, *columns], name, archive.shown)  # says what there is
    asked = [name for name in labels if name not in columns]
    found = {name: _label_array(archive, name, shape[0]) for name in asked}
    for name in LABEL_ARRAYS:
        if name in others and name not in (*found, *drop) and _fits(others[name], shape[0]):
            found[name] = _label_array(archive, name, shape[0])
    rows = {name: other for name, other in others.items() if name not in (*found, *drop)}
    index = _words_of(archive, rows, ROW_ARRAYS, shape[0])
    source = _Source(archive.shown, columns, _float64(archive.load(chosen)))
    table = _sorted(
        source,
        [name for name in labels if name in columns],
        [name for name in drop if name in columns],
    )
    return Table(
        data=table.data,
        columns=table.columns,
        labels=table.labels | found,
        rows=table.rows if index is None else np.array(index, dtype=str),
    )


def _fits(header: Header, length: int) -> bool:
    """Whether an array can hold one word or class for each row."""
    shape, dtype = header
    return shape == (length,) and dtype.kind in "biuUS"


def _words_of(
    archive: _Archive, others: dict[str, Header], names: Sequence[str], length: int
) -> list[str] | None:
    """Names of columns or rows, from the first array that can hold them."""
    for name in names:
        if name in others and _fits(others[name], length):
            return archive.texts(name)
    return None


def _label_array(archive: _Archive, name: str, length: int) -> Array:
    """Array of labels, one for each row."""
    shape, _ = archive.header(name)
    if shape != (length,):
        raise ValueError(
            f"array {name!r} of {archive.shown} has shape {shape}, and a label needs one entry for "
            f"each of the {length} rows; leave it out."
        )
    texts = archive.texts(name)
    return np.array(["" if _missing(text) else text for text in texts], dtype=str)


# --- parquet ----------------------------------------------------------------------------------


def _read_parquet(file: BinaryIO, request: _Request) -> Table:
    shown = request.shown
    parquet = require(f"Reading {shown}", "pyarrow.parquet", "parquet")
    with _undamaged(shown, ".parquet"):
        table = parquet.ParquetFile(file).read()
    names = table.column_names
    if not names:
        raise ValueError(f"{shown} has no columns; write the table anew.")
    _check_names(shown, names, None)
    columns: dict[str, Array | list[str]] = {}
    for name, column in zip(names, table.columns, strict=True):
        if name in request.drop:
            columns[name] = np.full(len(column), math.nan)
        elif name in request.labels:
            columns[name] = _arrow_texts(column)
        else:
            columns[name] = _arrow_column(column, name, shown)
    return _sorted(_typed(shown, columns, _arrow_index(table.schema)), request.labels, request.drop)


def _arrow_index(schema: Any) -> str | None:
    """Column into which pandas wrote the index, if there is one."""
    written = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in ("__index_level_0__", *written) if name in schema.names]
    return names[0] if len(set(names)) == 1 else None


def _arrow_column(column: Any, name: str, shown: str) -> Array | list[str]:
    """Column as numbers or words."""
    pa = require(f"Reading {shown}", "pyarrow", "parquet")
    of = pa.types
    kind = column.type
    if of.is_dictionary(kind) or of.is_string(kind) or of.is_large_string(kind):
        return _arrow_texts(column)
    if of.is_integer(kind) and not column.null_count:
        return np.asarray(column.to_numpy())
    if any(test(kind) for test in (of.is_integer, of.is_floating, of.is_boolean, of.is_null)):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    if of.is_decimal(kind):
        return np.array([math.nan if x is None else float(x) for x in column.to_pylist()])
    raise ValueError(
        f"column {name!r} of {shown} holds values of type {kind}, neither numbers nor words; "
        f"{_advice(name)}"
    )


def _arrow_texts(column: Any) -> list[str]:
    values = column.to_pylist()
    return [_spelled(x) if isinstance(x, float) else "" if x is None else str(x) for x in values]


# --- writing ----------------------------------------------------------------------------------


def _checked(columns: dict[str, Array], shown: str) -> dict[str, Array]:
    """Columns of numbers and of texts, of one length."""
    if not columns:
        raise ValueError(f"{shown} would have no columns; give at least one.")
    arrays = {name: _checked_column(name, values, shown) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    first, n = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != n:
            text = f"columns {first!r} and {name!r} of {shown} have {n} and {length} entries"
            raise ValueError(f"{text}; give columns of one length.")
    return arrays


def _checked_column(name: str, values: Array, shown: str) -> Array:
    column = np.asarray(values)
    what = f"column {name!r} of {shown}"
    if not name.strip():
        raise ValueError(f"a column of {shown} has no name; give it one.")
    if column.ndim != 1:
        raise ValueError(f"{what} has {column.ndim} dimensions; give one entry for each row.")
    if column.dtype.kind == "O" and all(isinstance(x, str | None) for x in column.tolist()):
        return np.array(["" if x is None else x for x in column.tolist()], dtype=str)
    if column.dtype.kind not in "biufU":
        raise ValueError(f"{what} holds values of type {column.dtype}; give numbers or texts.")
    return column


def _write_text(name: str, columns: dict[str, Array], path: Place) -> None:
    suffix, compressed = _suffix(path)
    fields = [_fields(column) for column in columns.values()]
    # csv quotes what holds the end of a line, but an old Mac's only from Python 3.13 on
    odd = any("\r" in text for texts in (columns, *fields) for text in texts)
    with open(name, "wb") as raw:
        # no name and no time: the same table makes the same file
        binary = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if compressed else raw
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        with text:
            writer = csv.writer(
                text,
                delimiter="\t" if suffix == ".tsv" else ",",
                lineterminator="\n",
                quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
            )
            writer.writerow(columns)
            writer.writerows(zip(*fields, strict=True))


def _fields(column: Array) -> list[str]:
    """Texts for the lines of a text file."""
    if column.dtype.kind == "f":
        return ["" if math.isnan(x) else f"{x:.9g}" for x in column.tolist()]
    if column.dtype.kind == "b":
        return ["1" if x else "0" for x in column.tolist()]
    return list(map(str, column.tolist()))


def _write_npz(name: str, columns: dict[str, Array], _path: Place) -> None:
    # np.savez has parameters of its own, whose names no column could have
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for column, values in columns.items():
            member = zipfile.ZipInfo(f"{column}.npy")  # of 1980: the same table, the same file
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, values, allow_pickle=False)


def _write_parquet(name: str, columns: dict[str, Array], path: Place) -> None:
    parquet = require(f"Writing {_shown(path)}", "pyarrow.parquet", "parquet")
    pa = require(f"Writing {_shown(path)}", "pyarrow", "parquet")
    table = {key: pa.array(x.tolist() if x.dtype.kind == "U" else x) for key, x in columns.items()}
    parquet.write_table(pa.table(table), name)


_READERS = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
}
_WRITERS = {
    ".csv": _write_text,
    ".tsv": _write_text,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
}
