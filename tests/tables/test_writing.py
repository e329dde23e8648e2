"""Columns that are written, and tables that come back."""

import os
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hgplvm._tables import read_table, write_table
from tests.tables.helpers import DATA, NAN, WRITTEN, refused

# --- writing --------------------------------------------------------------------------------------


COLUMNS = {
    "cell": np.array(["c1", "c2", 'c"3"', "c,4\t;"]),
    "x": np.array([0.1, -1.5e-300, NAN, 12345.678]),
    "file": np.array([1, -2, 3, 2**40]),
    "flag": np.array([True, False, True, True]),
    "single": np.array([0.1, 2, NAN, 4], dtype=np.float32),
    "cell type": np.array(["β cell", "", "two\nlines", "β cell"], dtype=object),
    "cluster": np.array([1, 2, 1, 2]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_was_written_is_read(name):
    write_table(name, COLUMNS)
    table = read_table(name)
    assert table.rows.tolist() == COLUMNS["cell"].tolist()
    assert table.columns == ["x", "file", "flag", "single"]
    expected = np.column_stack([COLUMNS[column] for column in table.columns])
    np.testing.assert_allclose(table.data, expected, rtol=1e-8, atol=0)
    assert table.labels["cell type"].tolist() == COLUMNS["cell type"].tolist()
    assert table.labels["cluster"].tolist() == ["1", "2", "1", "2"]
    assert list(table.labels) == ["cell type", "cluster"]


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_table_makes_the_same_file(tmp_path, monkeypatch, name):
    write_table(name, COLUMNS)
    first = (tmp_path / name).read_bytes()
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_table(name, COLUMNS)
    assert (tmp_path / name).read_bytes() == first
    assert os.listdir() == [name]


def test_a_text_file_looks_as_one_would_write_it(tmp_path):
    write_table("t.csv", {name: values[:3] for name, values in COLUMNS.items()})
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == (
        "cell,x,file,flag,single,cell type,cluster\n"
        "c1,0.1,1,1,0.100000001,β cell,1\n"
        "c2,-1.5e-300,-2,0,2,,2\n"
        '"c""3""",,3,1,,"two\nlines",1\n'
    )
    write_table("t.tsv", {"a": np.array([1, 2]), "b": np.array(["x y", "p\tq"])})
    assert (tmp_path / "t.tsv").read_text() == 'a\tb\n1\tx y\n2\t"p\tq"\n'


def test_columns_without_names_come_back_as_such():
    np.save("t.npy", DATA)
    table = read_table("t.npy")
    write_table("t.csv", dict(zip(table.columns, table.data.T, strict=True)))
    assert read_table("t.csv").columns == ["0", "1"]
    assert read_table("t.csv").data.tolist() == DATA.tolist()


def test_archives_hold_the_columns_under_their_names():
    write_table("t.npz", COLUMNS)
    with np.load("t.npz") as arrays:
        assert arrays.files == list(COLUMNS)
        assert all(arrays[name].tolist() == COLUMNS[name].tolist() for name in ["cell", "file"])
        assert arrays["single"].dtype == np.float32
    with zipfile.ZipFile("t.npz") as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "t.csv would have no columns; give at least one."),
        (
            {"a": np.zeros(2), "b": np.zeros(3)},
            "columns 'a' and 'b' of t.csv have 2 and 3 entries; give columns of one length.",
        ),
        (
            {"a": np.zeros((2, 2))},
            "column 'a' of t.csv has 2 dimensions; give one entry for each row.",
        ),
        ({" ": np.zeros(2)}, "a column of t.csv has no name; give it one."),
        (
            {"a": np.zeros(2, dtype=complex)},
            "column 'a' of t.csv holds values of type complex128; give numbers or texts.",
        ),
        (
            {"a": np.array([1, "x"], dtype=object)},
            "column 'a' of t.csv holds values of type object; give numbers or texts.",
        ),
    ],
)
def test_columns_that_make_no_table_are_refused(columns, sentence):
    with refused(sentence):
        write_table("t.csv", columns)
    assert os.listdir() == []


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.npy", "t.npz.gz", "t.h5ad"])
def test_other_files_are_not_written(name):
    with refused(
        f"{name} is not of a kind that hgplvm writes; name a .csv, .tsv, .csv.gz, .tsv.gz, .npz or "
        ".parquet file."
    ):
        write_table(name, {"a": np.zeros(2)})


def test_a_file_needs_a_folder_and_is_none():
    with refused("there is no folder out for out/t.csv; make it first.", FileNotFoundError):
        write_table("out/t.csv", {"a": np.zeros(2)})
    os.mkdir("d.csv")
    with refused("d.csv is a folder; name a file in it.", IsADirectoryError):
        write_table("d.csv", {"a": np.zeros(2)})


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch, name):
    write_table(name, {"a": np.zeros(2)})
    before = (tmp_path / name).read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_table(name, {"a": np.ones(2)})
    assert (tmp_path / name).read_bytes() == before
    assert os.listdir() == [name]


# --- any table, there and back --------------------------------------------------------------------


NUMBERS = st.floats(allow_infinity=False) | st.just(NAN)
# words that are no numbers and not missing, with all that could confuse a reader
LETTERS = st.text(st.sampled_from("ab \"',;\t\n\r\\#é_"), max_size=4)
SOME_WORDS = LETTERS.map(lambda text: f"w{text}w")


@st.composite
def any_table(draw):
    n, d = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    columns = {}
    rows = draw(st.lists(SOME_WORDS, min_size=n, max_size=n, unique=True) | st.none())
    if rows:
        columns["cell"] = np.array(rows)
    for j in range(d):
        values = draw(st.lists(NUMBERS, min_size=n - 1, max_size=n - 1))
        columns[f"{draw(SOME_WORDS)}{j}"] = np.array([draw(st.just(1.5)), *values])
    groups = draw(st.lists(SOME_WORDS | st.just(""), min_size=n - 2, max_size=n - 2))
    columns["group"] = np.array(["left", "right", *groups])
    return columns


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns=any_table())
def test_any_table_comes_back(name, columns):
    write_table(name, columns)
    table = read_table(name)
    numbers = [column for column, values in columns.items() if values.dtype.kind == "f"]
    assert table.columns == numbers
    expected = np.column_stack([columns[column] for column in numbers])
    np.testing.assert_allclose(table.data, expected, rtol=1e-8, atol=0)
    assert list(table.labels) == ["group"]
    assert table.labels["group"].tolist() == columns["group"].tolist()
    if "cell" in columns:
        assert table.rows.tolist() == columns["cell"].tolist()
    else:
        assert table.rows is None
