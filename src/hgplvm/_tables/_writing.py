"""Columns into files: the same columns make the same file, byte by byte."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zipfile

import numpy as np

from hgplvm._optional import require
from hgplvm._tables._errors import Place, name_of, suffix_of
from hgplvm._tables._source import Array

__all__ = ["WRITERS", "checked"]


def checked(columns: dict[str, Array], shown: str) -> dict[str, Array]:
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
    suffix, compressed = suffix_of(path)
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
    parquet = require(f"Writing {name_of(path)}", "pyarrow.parquet", "parquet")
    pa = require(f"Writing {name_of(path)}", "pyarrow", "parquet")
    table = {key: pa.array(x.tolist() if x.dtype.kind == "U" else x) for key, x in columns.items()}
    parquet.write_table(pa.table(table), name)


WRITERS = {
    ".csv": _write_text,
    ".tsv": _write_text,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
}
