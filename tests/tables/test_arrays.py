"""Arrays and archives of arrays."""

import math
import os

import numpy as np
import pytest
from scipy import sparse

from hgplvm._tables import read_table
from tests.tables.helpers import DATA, NAN, refused

# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, ">f8"])
def test_an_array_is_read(dtype):
    array = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    np.save("t.npy", np.asfortranarray(array))
    table = read_table("t.npy")
    assert table.data.dtype == np.dtype(np.float64)
    assert table.data.flags.c_contiguous
    assert table.data.tolist() == array.tolist()
    assert table.columns == ["0", "1"]
    assert table.rows is None


def test_columns_of_an_array_go_by_number():
    np.save("t.npy", np.array([[1.0, 5, 0.5], [2, 6, NAN]]))
    table = read_table("t.npy", labels=["1"], drop=["0"])
    assert table.columns == ["2"]
    assert table.labels["1"].tolist() == ["5", "6"]
    assert np.array_equal(table.data, [[0.5], [NAN]], equal_nan=True)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3), "t.npy has 1 dimension, not 2; write it as an array of rows and columns."),
        (
            np.zeros((1, 2, 3)),
            "t.npy has 3 dimensions, not 2; write it as an array of rows and columns.",
        ),
        (
            np.array([["x", None]], dtype=object),
            "t.npy holds Python objects, not numbers; write it as an array of float64.",
        ),
        (
            np.array([["x", "y"]]),
            "t.npy holds values of type <U1, not numbers; write it as an array of float64.",
        ),
        (
            np.zeros((2, 2), dtype=complex),
            "t.npy holds values of type complex128, not numbers; write it as an array of float64.",
        ),
        (np.zeros((0, 2)), "t.npy has no rows; give a file with one line for each row."),
        (
            np.array([[1, NAN], [3, NAN]]),
            "column '1' of t.npy has no value at all; leave it out with --drop 1.",
        ),
    ],
)
def test_other_arrays_are_refused(array, sentence):
    np.save("t.npy", array)
    with refused(sentence):
        read_table("t.npy")


def test_arrays_are_checked_as_other_tables_are():
    np.save("t.npy", np.zeros((2, 0)))
    with pytest.raises(ValueError, match=r"^t\.npy has no column of numbers left;"):
        read_table("t.npy")
    np.save("t.npy", np.array([[1, 2], [3, -math.inf]]))
    with pytest.raises(ValueError, match=r"^column '1' of t\.npy is infinite in row 2;"):
        read_table("t.npy")


def test_an_array_larger_than_its_file_is_damaged(tmp_path):
    np.save("t.npy", np.zeros((1000, 2)))
    whole = (tmp_path / "t.npy").read_bytes()
    (tmp_path / "t.npy").write_bytes(whole.replace(b"(1000, 2), }       ", b"(1000000, 2000000)}"))
    with pytest.raises(ValueError, match=r"^t\.npy is not a complete \.npy file"):
        read_table("t.npy")


def test_pickled_objects_are_never_loaded():
    class Trap:
        def __reduce__(self):
            return os.mkdir, ("sprung",)

    np.save("t.npy", np.array([[Trap()]], dtype=object))
    np.savez("t.npz", data=np.ones((1, 1)), label=np.array([Trap()], dtype=object))
    with pytest.raises(ValueError, match="Python objects"):
        read_table("t.npy")
    assert read_table("t.npz").labels == {}
    with refused(
        "array 'label' of t.npz holds Python objects; write it as an array of texts or integers."
    ):
        read_table("t.npz", labels=["label"])
    assert not os.path.exists("sprung")


# --- archives of arrays ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "key"),
    [
        ({"other": -DATA, "data": DATA, "X": -DATA}, None),
        ({"Y": -DATA, "X": DATA}, None),
        ({"x": -DATA, "Y": DATA}, None),
        ({"embedding": -DATA, "x": DATA}, None),
        ({"other": -DATA, "embedding": DATA}, None),
        ({"data": DATA[0], "other": DATA}, None),
        ({"only": DATA, "words": np.array(["p", "q"])}, None),
        ({"data": -DATA, "other": DATA}, "other"),
    ],
)
def test_the_data_is_found_in_an_archive(arrays, key):
    np.savez("t.npz", **arrays)
    table = read_table("t.npz", key=key)
    assert table.data.tolist() == DATA.tolist()
    assert table.columns == ["0", "1"]
    assert table.labels == {}


@pytest.mark.parametrize(
    ("arrays", "key", "sentence"),
    [
        ({"p": DATA, "q": DATA}, None, "has more than one table; choose 'p' or 'q' with --key."),
        ({"p": DATA, "q": DATA}, "r", "has no array 'r'; choose 'p' or 'q' with --key."),
        (
            {"p": DATA[0], "q": DATA[:, 0]},
            None,
            "has no array of rows and columns; write one into it as 'data'.",
        ),
        ({}, None, "has no array of rows and columns; write one into it as 'data'."),
    ],
)
def test_an_archive_without_a_clear_table_is_refused(arrays, key, sentence):
    np.savez("t.npz", **arrays)
    with refused(f"t.npz {sentence}"):
        read_table("t.npz", key=key)


def test_an_array_in_an_archive_is_checked():
    np.savez("t.npz", data=DATA, p=DATA[0])
    with refused(
        "array 'p' of t.npz has 1 dimension, not 2; write it as an array of rows and columns."
    ):
        read_table("t.npz", key="p")


@pytest.mark.parametrize("name", ["label", "labels", "target", "class", "cluster", "louvain"])
@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (np.array(["p", "", "NA"]), ["p", "", ""]),
        (np.array([b"p", b"q", b"r"]), ["p", "q", "r"]),
        (np.array([2, 1, 2]), ["2", "1", "2"]),
        (np.array([True, False, True]), ["1", "0", "1"]),
    ],
)
def test_labels_stand_beside_the_data(name, values, texts):
    np.savez("t.npz", data=DATA, **{name: values})
    assert read_table("t.npz").labels[name].tolist() == texts
    assert read_table("t.npz", drop=[name]).labels == {}


def test_words_beside_the_data_are_labels_under_any_name():
    names = {"rows": np.array(["p", "q", "r"]), "columns": np.array(["a", "b"])}
    np.savez("t.npz", data=DATA, city=np.array(["Rome", "Oslo", "Rome"]), **names)
    table = read_table("t.npz")
    assert {name: label.tolist() for name, label in table.labels.items()} == {
        "city": ["Rome", "Oslo", "Rome"]
    }
    assert table.rows.tolist() == ["p", "q", "r"]


def test_arrays_that_are_no_labels_are_passed_over():
    other = {"target": np.arange(3) / 2, "label": np.arange(2), "other": np.arange(3)}
    np.savez("t.npz", data=DATA, **other)
    assert read_table("t.npz").labels == {}
    table = read_table("t.npz", labels=["other", "target"])
    assert table.labels["other"].tolist() == ["0", "1", "2"]
    assert table.labels["target"].tolist() == ["0", "0.5", "1"]
    with refused(
        "array 'label' of t.npz has shape (2,), and a label needs one entry for each of the 3 "
        "rows; leave it out."
    ):
        read_table("t.npz", labels=["label"])
    with refused("t.npz has no column 'othr'; did you mean 'other'?"):
        read_table("t.npz", labels=["othr"])


@pytest.mark.parametrize("columns", ["columns", "feature_names"])
@pytest.mark.parametrize("rows", ["rows", "obs_names", "index"])
def test_names_stand_beside_the_data(columns, rows):
    names = {columns: np.array(["a", "b"]), rows: np.array(["p", "q", "r"])}
    np.savez("t.npz", data=DATA, **names)
    table = read_table("t.npz")
    assert table.columns == ["a", "b"]
    assert table.rows.tolist() == ["p", "q", "r"]
    table = read_table("t.npz", labels=["b", rows])
    assert table.columns == ["a"]
    assert table.rows is None
    assert table.labels["b"].tolist() == ["1", "3", "5"]
    assert table.labels[rows].tolist() == ["p", "q", "r"]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_sparse_matrix_is_read_as_csr(kind, dtype):
    dense = np.array([[0, 2, 0], [1, 0, 0]], dtype=dtype)
    sparse.save_npz("t.npz", sparse.coo_array(dense).asformat(kind))
    table = read_table("t.npz")
    assert table.data.format == "csr"
    assert table.data.dtype == np.float64
    assert table.data.toarray().tolist() == dense.tolist()
    assert table.columns == ["0", "1", "2"]
    table = read_table("t.npz", drop=["0"], labels=["1"])
    assert table.data.toarray().tolist() == [[0], [0]]
    assert table.labels["1"].tolist() == ["2", "0"]


def test_an_infinite_entry_of_a_sparse_matrix_is_refused():
    sparse.save_npz("t.npz", sparse.csr_array([[0, 1, 0], [0, 0, math.inf]]))
    with pytest.raises(ValueError, match=r"column '2' of t\.npz is infinite in row 2;"):
        read_table("t.npz")


def test_a_sparse_matrix_with_entries_outside_is_damaged():
    arrays = {"indices": [0, 9], "indptr": [0, 1, 2], "data": [1.0, 2.0], "shape": [2, 3]}
    np.savez("t.npz", format=np.array(b"csr"), **arrays)
    with pytest.raises(ValueError, match=r"^t\.npz is not a complete \.npz file"):
        read_table("t.npz")
