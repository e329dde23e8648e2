"""Tables in files: rows of numbers to fit, and columns of results.

A file is read into a source, which knows where each value stands; :mod:`hgplvm._tables._rules` then
decides, by one set of rules for all formats, which columns are data, labels or the names of the
rows. Whatever is unclear is an error that says what to do, never a guess.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hgplvm._files import whole
from hgplvm._tables._arrays import read_npy, read_npz
from hgplvm._tables._errors import Place, check_there, name_of, open_file, stem_of, suffix_of
from hgplvm._tables._parquet import read_parquet
from hgplvm._tables._rules import Table
from hgplvm._tables._source import Array, Request
from hgplvm._tables._text import read_text
from hgplvm._tables._writing import WRITERS, checked

__all__ = [
    "SUFFIXES",
    "Table",
    "check_there",
    "read_table",
    "stem_of",
    "suffix_of",
    "write_table",
]

READERS = {
    ".csv": read_text,
    ".tsv": read_text,
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
}
SUFFIXES = tuple(READERS)

READABLE = ".csv, .tsv, .csv.gz, .tsv.gz, .npy, .npz, .parquet or .h5ad"
WRITABLE = ".csv, .tsv, .csv.gz, .tsv.gz, .npz or .parquet"


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
    shown = name_of(path)
    with open_file(path) as file:
        suffix, _ = suffix_of(path)
        if suffix not in SUFFIXES:
            raise ValueError(f"{shown} is not of a kind that hgplvm reads; give a {READABLE} file.")
        if key is not None and suffix != ".npz":
            raise ValueError(f"{shown} holds one table; leave out --key, which is for .npz files.")
        for name in dict.fromkeys(labels):
            if name in drop:
                text = f"column {name!r} of {shown} is named by both --label and --drop; choose one"
                raise ValueError(f"{text}.")
        return READERS[suffix](file, Request(path, labels, drop, key))


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
    shown = name_of(path)
    suffix, _ = suffix_of(path)
    if suffix not in WRITERS:
        raise ValueError(f"{shown} is not of a kind that hgplvm writes; name a {WRITABLE} file.")
    arrays = checked(columns, shown)
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {name_of(folder)} for {shown}; make it first.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{shown} is a folder; name a file in it.")
    with whole(path) as name:
        WRITERS[suffix](name, arrays, path)
