"""Which columns are data, labels and the names of the rows."""

import numpy as np
import pytest

from tests.tables.helpers import NAN, TYPED, read_columns, read_text, refused

# --- names of the rows ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\nx,1,2\ny,3,4\n", ["x", "y"]),  # R
        ("a,b\n1,1,2\n1,3,4\n", ["1", "1"]),  # R
        (",a,b\nx,1,2\ny,3,4\n", ["x", "y"]),  # pandas
        (",a,b\n7,1,2\n08,3,4\n", ["7", "08"]),
        (",a,b\n7,1,2\nNA,3,4\n", ["7", "NA"]),
        ("Unnamed: 0,a,b\n0,1,2\n1,3,4\n", ["0", "1"]),
        ("whatever,a,b\nx,1,2\ny,3,4\n", ["x", "y"]),
        ("barcode,a,b\nAC-1,1,2\nGT-1,3,4\n", ["AC-1", "GT-1"]),
        ("species,a,b\nx,1,2\ny,3,4\n", ["x", "y"]),
        ("Cell ID,a,b\n10,1,2\n11,3,4\n", ["10", "11"]),
    ],
)
def test_the_first_column_may_name_the_rows(text, rows):
    table = read_text(text)
    assert table.rows.tolist() == rows
    assert table.columns == ["a", "b"]
    assert table.data.tolist() == [[1, 2], [3, 4]]
    assert table.labels == {}


@pytest.mark.parametrize(
    "text",
    ["id,a\n1,2\n1,3\n", "id,a\n1.5,2\n2.5,3\n", "height,a\n1,2\n2,3\n", "a,id\n1,2\n2,3\n"],
)
def test_numbers_name_rows_only_where_they_can(text):
    table = read_text(text)
    assert table.rows is None
    assert table.data.shape == (2, 2)


def test_names_of_rows_may_be_kept_as_a_label_or_dropped():
    text = "gene,a\nx,1\ny,2\n"
    table = read_text(text, labels=["gene"])
    assert table.rows is None
    assert table.labels["gene"].tolist() == ["x", "y"]
    table = read_text(text, drop=["gene"])
    assert table.rows is None
    assert table.labels == {}


def test_after_a_dropped_column_the_next_one_is_first():
    table = read_text("n,gene,a\n1,x,1\n2,y,2\n", drop=["n"])
    assert table.rows.tolist() == ["x", "y"]


# --- labels: the same rules in all files ----------------------------------------------------------


def measured(n=4):
    return {"a": np.arange(n) + 0.5, "b": np.arange(n) ** 2.0}


@pytest.mark.parametrize("suffix", TYPED)
@pytest.mark.parametrize("name", ["cell_type", "Cell-Type", "celltype", "Cell.Type", "batch", "ID"])
def test_words_under_a_known_name_are_labels_wherever_they_stand(suffix, name):
    columns = measured()
    columns = {"a": columns["a"], name: np.array(["p", "q", "r", "s"]), "b": columns["b"]}
    table = read_columns(suffix, columns)
    assert table.columns == ["a", "b"]
    assert table.labels[name].tolist() == ["p", "q", "r", "s"]


@pytest.mark.parametrize("suffix", TYPED)
def test_words_at_the_edges_are_labels(suffix):
    words = np.array(["p", "q", "p", ""])
    columns = {"u": words, "v": words, **measured(), "w": words, "x": words}
    table = read_columns(suffix, columns)
    assert list(table.labels) == ["u", "v", "w", "x"]
    assert all(label.tolist() == words.tolist() for label in table.labels.values())
    assert table.columns == ["a", "b"]


@pytest.mark.parametrize("suffix", TYPED)
def test_labels_and_dropped_columns_do_not_end_the_edge(suffix):
    words = np.array(["p", "q", "p", "q"])
    columns = {**measured(), "w": words, "cluster": np.array([1, 1, 2, 2]), "n": np.arange(4)}
    table = read_columns(suffix, columns, drop=["n"])
    assert list(table.labels) == ["w", "cluster"]


@pytest.mark.parametrize("suffix", TYPED)
@pytest.mark.parametrize("name", ["label", "Labels", "class", "cluster", "target", "leiden"])
@pytest.mark.parametrize("dtype", [int, float])
def test_integers_under_the_name_of_classes_are_labels(suffix, name, dtype):
    table = read_columns(suffix, {"a": np.arange(3.0), name: np.array([3, -1, 10], dtype=dtype)})
    assert table.labels[name].tolist() == ["3", "-1", "10"]
    assert table.columns == ["a"]


@pytest.mark.parametrize("suffix", TYPED)
def test_a_class_may_be_missing(suffix):
    table = read_columns(suffix, {"a": np.arange(3.0), "cluster": np.array([3, NAN, 10])})
    assert table.labels["cluster"].tolist() == ["3", "", "10"]


@pytest.mark.parametrize("suffix", TYPED)
@pytest.mark.parametrize(
    ("name", "values"), [("target", [0.5, 1, 2]), ("batch", [1, 2, 2]), ("stage", [1, 2, 3])]
)
def test_other_numbers_are_data(suffix, name, values):
    table = read_columns(suffix, {"a": np.arange(3.0), name: np.array(values)})
    assert table.columns == ["a", name]
    assert table.data[:, 1].tolist() == values
    assert table.labels == {}


@pytest.mark.parametrize(("suffix", "place"), [(".csv", "line 2"), (".npz", "row 1")])
@pytest.mark.parametrize(
    ("position", "words"),
    [
        (1, ["Paris", "Rome", "Paris"]),  # in the middle
        (2, ["Paris", "Rome", "Oslo"]),  # at the edge, but no grouping
        (2, ["Paris", "Paris", "Paris"]),  # one group
        (0, ["Paris", "Paris", "Paris"]),
    ],
)
def test_other_words_are_refused(suffix, place, position, words):
    columns = [("a", np.arange(3.0)), ("b", np.arange(3.0))]
    columns.insert(position, ("city", np.array(words)))
    sentence = (
        f"column 'city' of t{suffix} holds words ('Paris' in {place}) among columns of numbers; "
        "name it with --label city to keep it as a label, or leave it out with --drop city."
    )
    with refused(sentence):
        read_columns(suffix, dict(columns))
    table = read_columns(suffix, dict(columns), labels=["city"])
    assert table.labels["city"].tolist() == words
    table = read_columns(suffix, dict(columns), drop=["city"])
    assert table.labels == {}
    assert table.columns == ["a", "b"]


@pytest.mark.parametrize("suffix", TYPED)
def test_one_word_under_a_known_name_is_a_label(suffix):
    columns = {"a": np.arange(3.0), "batch": np.array(["x", "x", "x"]), "b": np.arange(3.0)}
    table = read_columns(suffix, columns)
    assert table.labels["batch"].tolist() == ["x", "x", "x"]
    assert table.columns == ["a", "b"]


def test_the_first_word_is_named_after_missing_ones():
    with pytest.raises(
        ValueError, match=r"'my city' of .* \('Rome' in line 4\).*'my city' to keep"
    ):
        read_text("a,my city,b\n1,,2\n1,NA,2\n1,Rome,2\n")


@pytest.mark.parametrize("name", ["b", "a", "cluster", "batch"])
@pytest.mark.parametrize(("values", "line"), [("1 ? 2", 3), ("? 1 2", 2), ("NA ? 2", 3)])
def test_numbers_and_words_in_one_column_are_refused(name, values, line):
    columns = ["a", "c"] if name == "a" else ["a", name, "c"]
    rows = [[value if column == name else "7" for column in columns] for value in values.split()]
    text = "\n".join(map(",".join, [columns, *rows]))
    sentence = (
        f"column {name!r} of t.csv mixes numbers and words ('?' in line {line}); correct this "
        f"value (a missing one stays empty), name the column with --label {name} to keep it as a "
        f"label, or leave it out with --drop {name}."
    )
    with refused(sentence):
        read_text(text)
    table = read_text(text, labels=[name])
    assert table.labels[name].tolist() == [value.replace("NA", "") for value in values.split()]
    assert table.columns == [column for column in columns if column != name]
    assert read_text(text, drop=[name]).labels == {}


def test_an_underscore_makes_a_word():
    with pytest.raises(ValueError, match=r"column 'b' of t\.csv mixes .*'1_000' in line 3"):
        read_text("a,b\n1,2\n1,1_000\n")


@pytest.mark.parametrize(
    "text",
    ["a;b\n1,5;2\n1,5;3\n", "a;b\n1;2\n2;1,5\n", "a;b\n1,5;2\n2,5;2\n", "a;b\n1,5;2,5\n2,5;3,5\n"],
)
def test_a_decimal_comma_is_no_label(text):
    with pytest.raises(
        ValueError,
        match=r"column '.' of t\.csv holds a number with a comma \('1,5' in line .\); write "
        r"numbers with a decimal point, name the column with",
    ):
        read_text(text)


def test_a_long_word_is_shortened():
    with pytest.raises(ValueError, match=r"\('x{37}\.\.\.' in line 2\)"):
        read_text(f"a,b,c\n1,{'x' * 1000},2\n1,y,2\n")


def test_an_error_stays_on_one_line():
    with pytest.raises(ValueError, match="holds words") as caught:
        read_text('a,"b\nb",c\n1,"x\ny",2\n1,z,2\n')
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", TYPED)
def test_named_columns_are_labels_whatever_they_hold(suffix):
    columns = {**measured(3), "day": np.array([3, 1, 2]), "dose": np.array([0.5, NAN, 1.5])}
    table = read_columns(suffix, columns, labels=["dose", "day", "day"])
    assert table.columns == ["a", "b"]
    assert list(table.labels) == ["day", "dose"]
    assert table.labels["day"].tolist() == ["3", "1", "2"]
    assert table.labels["dose"].tolist() == ["0.5", "", "1.5"]


def test_labels_stand_in_the_order_of_the_file():
    table = read_text("batch,a,z\nx,1,p\ny,2,q\nx,3,r\n", labels=["z"])
    assert list(table.labels) == ["batch", "z"]


def test_named_texts_are_kept_as_they_are():
    table = read_text("a,plate\n1,007\n2,1e3\n", labels=["plate"])
    assert table.labels["plate"].tolist() == ["007", "1e3"]


@pytest.mark.parametrize("suffix", TYPED)
@pytest.mark.parametrize("option", ["labels", "drop"])
def test_a_column_that_is_not_there_is_refused(suffix, option):
    columns = {"batch": np.array(["x", "y", "x", "y"]), **measured()}
    with refused(f"t{suffix} has no column 'btach'; did you mean 'batch'?"):
        read_columns(suffix, columns, **{option: ["btach"]})
    with refused(f"t{suffix} has no column 'city'; its columns are 'batch', 'a', 'b'."):
        read_columns(suffix, columns, **{option: ["city"]})


def test_a_wrong_name_is_said_before_the_words_are():
    with pytest.raises(ValueError, match=r"no column 'town'; did you mean 'towns'\?"):
        read_text("a,towns\n1,2\n1,x\n", labels=["town"])


def test_many_columns_are_not_all_listed():
    with pytest.raises(ValueError, match=r"its columns are '0', '1', '2', '3', '4', \.\.\.\.$"):
        read_text("1,2,3,4,5,6\n", drop=["city"])


def test_a_column_is_not_both_kept_and_dropped():
    with refused("column 'a' of t.csv is named by both --label and --drop; choose one."):
        read_text("a,b\n1,2\n", labels=["a"], drop=["a"])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a,b\nx,p\ny,p\nz,q\n", {}),
        ("a,b\n1,p\n2,p\n", {"drop": ["a"], "labels": ["b"]}),
        ("a,label\nx,1\ny,2\n", {}),
    ],
)
def test_a_table_without_numbers_is_refused(text, options):
    with refused(
        "t.csv has no column of numbers left; give a table with one column for each thing that was "
        "measured."
    ):
        read_text(text, **options)
