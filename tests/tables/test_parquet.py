"""Parquet files, whose types say what is a word."""

import math
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hgplvm import _optional
from hgplvm._tables import read_table, write_table
from hgplvm.errors import MissingPackageError
from tests.tables.helpers import NAN, refused


def arrow(**columns):
    pq.write_table(pa.table(columns), "t.parquet")


def test_types_of_parquet_say_what_is_a_word():
    columns = {
        "whole": pa.array([1, None, 3]),
        "single": pa.array([0.5, None, NAN], pa.float32()),
        "flag": pa.array([True, False, None]),
        "price": pa.array(["1", None, "2"]).cast(pa.decimal128(5, 2)),
        "word": pa.array(["1", "1", "2"]),
        "large": pa.array(["p", "q", "p"], pa.large_string()),
        "kind": pa.array(["p", None, "q"]).dictionary_encode(),
    }
    arrow(**columns)
    table = read_table("t.parquet")
    assert table.columns == ["whole", "single", "flag", "price"]
    expected = [[1, 0.5, 1, 1], [NAN, NAN, 0, NAN], [3, NAN, NAN, 2]]
    assert np.array_equal(table.data, expected, equal_nan=True)
    assert {name: label.tolist() for name, label in table.labels.items()} == {
        "word": ["1", "1", "2"],
        "large": ["p", "q", "p"],
        "kind": ["p", "", "q"],
    }


@pytest.mark.parametrize("name", [None, "cell"])
@pytest.mark.parametrize("index", [["p", "q"], [7, 8]])
def test_the_index_of_pandas_names_the_rows(name, index):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2], "b": [3, 4]}, index=pandas.Index(index, name=name))
    frame.to_parquet("t.parquet")
    table = read_table("t.parquet")
    assert table.rows.tolist() == list(map(str, index))
    assert table.columns == ["a", "b"]
    frame.to_csv("t.csv")
    table = read_table("t.csv")
    assert table.rows.tolist() == list(map(str, index))


def test_the_index_is_known_by_its_name_alone():
    arrow(a=pa.array([1.0, 2]), __index_level_0__=pa.array(["p", "p"]))
    assert read_table("t.parquet").rows.tolist() == ["p", "p"]


def test_an_index_that_only_counts_names_nothing():
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1.0, 2]}).to_parquet("t.parquet")
    assert read_table("t.parquet").rows is None


def test_large_integers_keep_their_digits_as_labels():
    arrow(id=pa.array([2**60, 2**60 + 1]), a=pa.array([1.0, 2.0]))
    table = read_table("t.parquet")
    assert table.rows.tolist() == [str(2**60), str(2**60 + 1)]
    table = read_table("t.parquet", labels=["id"])
    assert table.labels["id"].tolist() == [str(2**60), str(2**60 + 1)]


def test_columns_of_other_types_are_refused():
    arrow(a=pa.array([1.0, 2]), day=pa.array([0, 1], pa.date32()))
    with refused(
        "column 'day' of t.parquet holds values of type date32[day], neither numbers nor words; "
        "name it with --label day to keep it as a label, or leave it out with --drop day."
    ):
        read_table("t.parquet")
    assert read_table("t.parquet", drop=["day"]).columns == ["a"]
    days = read_table("t.parquet", labels=["day"]).labels["day"]
    assert days.tolist() == ["1970-01-01", "1970-01-02"]


def test_parquet_is_checked_as_other_files_are():
    arrow(a=pa.array([1.0, None, math.inf]))
    with pytest.raises(ValueError, match=r"column 'a' of t\.parquet is infinite in row 3;"):
        read_table("t.parquet")
    arrow(a=pa.array([1.0, 2]), b=pa.array([None, None]))
    with pytest.raises(ValueError, match=r"column 'b' of t\.parquet has no value at all;"):
        read_table("t.parquet")
    arrow()
    with refused("t.parquet has no columns; write the table anew."):
        read_table("t.parquet")
    arrow(a=pa.array([], pa.float64()))
    with refused("t.parquet has no rows; give a file with one line for each row."):
        read_table("t.parquet")
    pq.write_table(pa.table([[1.0], [2.0]], names=["a", "a"]), "t.parquet")
    with refused("columns 1 and 2 of t.parquet are both named 'a'; give each its own name."):
        read_table("t.parquet")


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    arrow(a=pa.array([1.0]))

    def missing(name):
        raise ImportError(name="pyarrow")

    monkeypatch.setattr(_optional, "import_module", missing)
    with pytest.raises(MissingPackageError, match=r"^Reading t\.parquet needs .*hgplvm\[parquet\]"):
        read_table("t.parquet")
    with pytest.raises(MissingPackageError, match=r"^Writing u\.parquet needs .*hgplvm\[parquet\]"):
        write_table("u.parquet", {"a": np.ones(1)})
    assert os.listdir() == ["t.parquet"]
