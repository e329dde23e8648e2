"""Text files: separators, headers, missing entries, and lines that cannot be read."""

import gzip

import numpy as np
import pytest

from hgplvm._tables import read_table
from tests.tables.helpers import NAN, read_text, refused, text_file

# --- text: what separates, and what names the columns ---------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a,b\n1,2\n3,4\n", "t.csv"),
        ("a;b\n1;2\n3;4\n", "t.csv"),
        ("a\tb\n1\t2\n3\t4\n", "t.csv"),
        ("a\tb\n1\t2\n3\t4\n", "t.tsv"),
        ("a\tb\n1\t2\n3\t4\n", "T.TSV"),
        ('"a";"b"\n"1";"2"\n3;4', "t.csv"),
        ("a,b\r\n1,2\r\n3,4\r\n", "t.csv"),
        ("a,b\r1,2\r3,4\r", "t.csv"),
        ("\ufeffa,b\n1,2\n3,4\n", "t.csv"),
        ("\n  \na,b\n1,2\n\n3,4\n\n   \n\n", "t.csv"),
        ("a , b\n 1 , 2\n 3, 4 \n", "t.csv"),
        ('a, "b"\n1, "2"\n3,4\n', "t.csv"),
        ("a,b\n+1.0,2e0\n.3e1,4.\n", "t.csv"),
    ],
)
def test_text_files_of_all_habits_are_read(text, name):
    table = read_table(text_file(text, name))
    assert table.columns == ["a", "b"]
    assert table.data.dtype == np.float64
    assert table.data.tolist() == [[1, 2], [3, 4]]
    assert table.labels == {}
    assert table.rows is None


def test_what_stands_in_quotes_separates_nothing():
    table = read_text('"x, y";"z\tu"\n1;2\n')
    assert table.columns == ["x, y", "z\tu"]


def test_a_compressed_file_is_read():
    with gzip.open("t.csv.gz", "wt") as file:
        file.write("a,b\n1,2\n")
    assert read_table("t.csv.gz").data.tolist() == [[1, 2]]


def test_floats_come_bit_by_bit(tmp_path):
    data = np.random.default_rng(0).standard_normal((20, 3)) * 1e-7
    text = "\n".join(",".join(map(repr, row)) for row in data.tolist())
    assert read_text(f"a,b,c\n{text}\n").data.tobytes() == data.tobytes()


def test_without_a_header_columns_are_counted():
    table = read_text("1.5,2\nNA,4\n")
    assert table.columns == ["0", "1"]
    assert np.array_equal(table.data, [[1.5, 2], [NAN, 4]], equal_nan=True)


def test_one_row_is_enough():
    assert read_text("1,2").data.tolist() == [[1, 2]]
    assert read_text("a\n1").data.tolist() == [[1]]


@pytest.mark.parametrize(
    ("text", "data", "rows"),
    [
        ("0,1,2\n7,8,9\n", [[7, 8, 9]], None),
        (",0,1\n0,7,8\n1,9,9\n", [[7, 8], [9, 9]], ["0", "1"]),
        ("0,1,3\n7,8,9\n", [[0, 1, 3], [7, 8, 9]], None),
        ("0\n1\n", [[0], [1]], None),
    ],
)
def test_a_first_row_that_counts_from_zero_is_a_header(text, data, rows):
    table = read_text(text)
    assert table.data.tolist() == data
    assert table.columns == [str(j) for j in range(len(data[0]))]
    assert (table.rows is None) if rows is None else (table.rows.tolist() == rows)


# --- text: missing entries ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    ["", " ", "NA", "NA ", "na", "N/A", "NaN", "nan", "NULL", "null", "None", ".", "-", '""'],
)
def test_missing_entries_are_nan(entry):
    table = read_text(f"a,b,kind\n{entry},1,x\n2,{entry},{entry}\n3,4,y\n")
    assert np.array_equal(table.data, [[NAN, 1], [2, NAN], [3, 4]], equal_nan=True)
    assert table.labels["kind"].tolist() == ["x", "", "y"]


def test_a_lone_missing_entry_is_no_blank_line():
    table = read_text('a\n1\n""\n\n2\n')
    assert np.array_equal(table.data, [[1], [NAN], [2]], equal_nan=True)


@pytest.mark.parametrize("entry", ["inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("column", ["a", "b", "cluster"])
def test_an_infinite_entry_is_refused(entry, column):
    sentence = (
        f"column {column!r} of t.csv is infinite in line 4; correct the value or empty it, or "
        f"leave the column out with --drop {column}."
    )
    row = ",".join(entry if name == column else "3" for name in ["a", "b", "cluster"])
    text = f"a,b,cluster\n1,2,0\n\n{row}\n"
    with refused(sentence):
        read_text(text)
    assert read_text(text, drop=[column]).data.shape[0] == 2


def test_empty_columns_are_refused():
    with refused("column 'b' of t.csv has no value at all; leave it out with --drop b."):
        read_text("a,b,c\n1,,2\n3,NA,4\n")
    with refused(
        "columns 'a', 'my b' of t.csv have no value at all; leave them out with --drop a "
        "--drop 'my b'."
    ):
        read_text("a,my b,c\n,,2\n,NA,4\n")
    with pytest.raises(ValueError, match=r"'e' and 2 more of t\.csv .* --drop e and so on\.$"):
        read_text("a,b,c,d,e,f,g,h\n,,,,,,,1\n")
    assert read_text("a,b,c\n1,,2\n", drop=["b"]).columns == ["a", "c"]


# --- text: lines that cannot be read --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a,b\n1,2\n\n3\n", 4, "1 field"),
        ("a,b\n1,2\n3,4,5\n", 3, "3 fields"),
        ("a,b\n1,2,3,4\n", 2, "4 fields"),
        ("1,2\n3,4,5\n", 2, "3 fields"),
        ('a,"b\nc"\n1,2\n3\n', 4, "1 field"),
    ],
)
def test_a_line_of_another_length_is_refused(text, line, found):
    with refused(
        f"line {line} of t.csv has {found}, and 2 are expected as in the lines above; correct this "
        "line."
    ):
        read_text(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'a,kind\n1,x\n2,"y\n3,x\n',
            "line 3 of t.csv has a quote that is not closed or a field too long; correct it.",
        ),
        ("", "t.csv is empty; give a file with one line for each row."),
        ("\n \r\n\n", "t.csv is empty; give a file with one line for each row."),
        ("\ufeff", "t.csv is empty; give a file with one line for each row."),
        ("\na,b\n", "t.csv has no rows below its header in line 2; add them."),
        ("a,b\n  \n", "t.csv has no rows; give a file with one line for each row."),
        ("a\0b,c\n1,2\n", "t.csv is not a text file; save it as CSV in UTF-8."),
    ],
)
def test_lines_that_are_no_table_are_refused(text, sentence):
    with refused(sentence):
        read_text(text)


@pytest.mark.parametrize(
    "binary", ["größe,b\n1,2\n".encode("latin-1"), "a,b\n1,2".encode("utf-16")]
)
def test_a_file_that_is_not_utf8_is_refused(tmp_path, binary):
    (tmp_path / "t.csv").write_bytes(binary)
    with refused("t.csv is not text in UTF-8; save it as CSV in UTF-8."):
        read_table("t.csv")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b,a\n1,2,3\n", "columns 1 and 3 of t.csv are both named 'a'; give each its own name."),
        (
            "a,,b\n1,2,3\n",
            "column 2 of t.csv has no name; give it one in the header, or take it out.",
        ),
        (
            ",a,\n1,2,3\n",
            "column 3 of t.csv has no name; give it one in the header, or take it out.",
        ),
    ],
)
def test_columns_without_a_name_of_their_own_are_refused(text, sentence):
    with refused(sentence):
        read_text(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",a\nx,2\ny,3\nx,4\n", "they would not all differ ('x' in line 2 and line 4)"),
        (",a\n0.5,2\n1.5,3\n", "it holds fractions"),
    ],
)
def test_a_first_column_without_a_name_must_name_the_rows(text, reason):
    with refused(
        f"the first column of t.csv has no name and does not name the rows, since {reason}; give "
        "it a name in the header, or take it out."
    ):
        read_text(text)
