"""Parquet files, whose types say what is a number and what is a word."""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np

from hgplvm._optional import require
from hgplvm._tables._errors import advice, undamaged
from hgplvm._tables._rules import Table, check_names, sort_columns
from hgplvm._tables._source import Array, Request, spelled, typed

__all__ = ["read_parquet"]


def read_parquet(file: BinaryIO, request: Request) -> Table:
    """Read a .parquet file; an index of pandas names the rows."""
    shown = request.shown
    parquet = require(f"Reading {shown}", "pyarrow.parquet", "parquet")
    with undamaged(shown, ".parquet"):
        table = parquet.ParquetFile(file).read()
    names = table.column_names
    if not names:
        raise ValueError(f"{shown} has no columns; write the table anew.")
    check_names(shown, names, None)
    columns: dict[str, Array | list[str]] = {}
    for name, column in zip(names, table.columns, strict=True):
        if name in request.drop:
            columns[name] = np.full(len(column), math.nan)
        elif name in request.labels:
            columns[name] = _arrow_texts(column)
        else:
            columns[name] = _arrow_column(column, name, shown)
    return sort_columns(
        typed(shown, columns, _arrow_index(table.schema)), request.labels, request.drop
    )


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
        f"{advice(name)}"
    )


def _arrow_texts(column: Any) -> list[str]:
    values = column.to_pylist()
    return [spelled(x) if isinstance(x, float) else "" if x is None else str(x) for x in values]
