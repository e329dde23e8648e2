"""Arrays in files: one in .npy, several in .npz, sparse matrices of scipy."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from hgplvm._tables._errors import undamaged
from hgplvm._tables._rules import CLASSES, Table, find_column, plain_name, sort_columns
from hgplvm._tables._source import Array, Request, Source, is_missing, spelled, typed

__all__ = ["read_npy", "read_npz"]

Header = tuple[tuple[int, ...], np.dtype[Any]]  # shape and dtype of an array

# names of arrays in an .npz file
DATA_ARRAYS = ("data", "X", "Y", "x", "embedding")
COLUMN_ARRAYS = ("columns", "feature_names")
ROW_ARRAYS = ("rows", "obs_names", "index")


def read_npy(file: BinaryIO, request: Request) -> Table:
    """Read an .npy file, whose columns go by their numbers."""
    shown = request.shown
    with undamaged(shown, ".npy"):
        shape, dtype = _array_header(file)
        if math.prod(shape) * dtype.itemsize > os.fstat(file.fileno()).st_size:
            raise EOFError  # before numpy asks for the memory
    _check_matrix(shape, dtype, shown)
    file.seek(0)
    with undamaged(shown, ".npy"):
        numbers = np.lib.format.read_array(file, allow_pickle=False)
    return sort_columns(
        Source(shown, _counted(shape), _float64(numbers)), request.labels, request.drop
    )


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


@dataclass(frozen=True)
class _Archive:
    """The arrays in an .npz file."""

    shown: str
    file: Any

    @property
    def names(self) -> list[str]:
        return list(self.file.files)

    def header(self, name: str) -> Header:
        with undamaged(self.shown, ".npz"), self.file.zip.open(f"{name}.npy") as member:
            return _array_header(member)

    def load(self, name: str) -> Array:
        with undamaged(self.shown, ".npz"):
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
            spelled(value) if dtype.kind == "f" else str(int(value)) for value in values.tolist()
        ]


def read_npz(file: BinaryIO, request: Request) -> Table:
    """Read an .npz file: a sparse matrix, columns, or data with labels and names beside it."""
    shown = request.shown
    with undamaged(shown, ".npz"):
        zipfile.ZipFile(file).close()  # numpy reads other files as well, whatever their name
        file.seek(0)
        archive = _Archive(shown, np.load(file, allow_pickle=False))
    names = archive.names
    if request.key is None and {"format", "shape", "data"} <= set(names):
        return sort_columns(_sparse(file, shown), request.labels, request.drop)
    if request.key is not None and request.key not in names:
        choice = " or ".join(map(repr, names))
        raise ValueError(f"{shown} has no array {request.key!r}; choose {choice} with --key.")
    chosen = request.key or _data_array(archive)
    if chosen is None:
        return sort_columns(_column_arrays(archive), request.labels, request.drop)
    return _data_with_labels(archive, chosen, request.labels, request.drop)


def _sparse(file: BinaryIO, shown: str) -> Source:
    from scipy import sparse  # takes a tenth of a second

    file.seek(0)
    with undamaged(shown, ".npz"):
        numbers = sparse.load_npz(file).tocsr()
        numbers.check_format()
    _check_matrix(numbers.shape, numbers.dtype, shown)
    return Source(shown, _counted(numbers.shape), numbers.astype(np.float64))


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


def _column_arrays(archive: _Archive) -> Source:
    """Table from one array for each column, as :func:`write_table` writes it."""
    columns: dict[str, Array | list[str]] = {}
    for name in archive.names:
        number = archive.header(name)[1].kind in "biuf"
        columns[name] = archive.load(name) if number else archive.texts(name)
    return typed(archive.shown, columns)


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
            find_column([*others, *columns], name, archive.shown)  # says what there is
    asked = [name for name in labels if name not in columns]
    found = {name: _label_array(archive, name, shape[0]) for name in asked}
    for name, other in others.items():
        if name not in (*found, *drop) and _is_label(name, other, shape[0]):
            found[name] = _label_array(archive, name, shape[0])
    rows = {name: other for name, other in others.items() if name not in (*found, *drop)}
    index = _words_of(archive, rows, ROW_ARRAYS, shape[0])
    source = Source(archive.shown, columns, _float64(archive.load(chosen)))
    table = sort_columns(
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


def _is_label(name: str, header: Header, length: int) -> bool:
    """Whether an array beside the data holds labels: words, or integers of a known name."""
    if name in (*COLUMN_ARRAYS, *ROW_ARRAYS) or not _fits(header, length):
        return False
    return header[1].kind in "US" or plain_name(name) in CLASSES


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
    return np.array(["" if is_missing(text) else text for text in texts], dtype=str)
