"""Files that are not there, or not what they seem; and what the package costs to import."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from hgplvm._tables import (
    _rules,
    _source,
    check_there,
    read_table,
    stem_of,
    suffix_of,
    write_table,
)
from tests.tables.helpers import refused, text_file

# --- files that are not there, or not what they seem ----------------------------------------------


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with refused("there is no file gone.csv; check its name and folder.", FileNotFoundError):
        read_table("gone.csv")
    text_file("1,2")
    with refused("there is no file t.csv/x.csv; check its name and folder.", FileNotFoundError):
        read_table("t.csv/x.csv")
    place = tmp_path / "gone.npy"
    with refused(f"there is no file {place}; check its name and folder.", FileNotFoundError):
        read_table(place)


def test_a_folder_is_said_to_be_one():
    os.mkdir("d.csv")
    with refused("d.csv is a folder; give a file in it.", IsADirectoryError):
        read_table("d.csv")


def test_a_file_that_may_not_be_read_is_refused(monkeypatch):
    def deny(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)
    sentence = "t.csv may not be read; ask its owner for permission, or read a copy of your own."
    with refused(sentence, PermissionError):
        read_table("t.csv")


@pytest.mark.parametrize("name", ["t.xlsx", "t", ".csv", "t.gz", "t.npy.gz", "t.csv.zip"])
def test_other_files_are_refused(name):
    text_file("1,2\n", name)
    with refused(
        f"{name} is not of a kind that hgplvm reads; give a .csv, .tsv, .csv.gz, .tsv.gz, .npy, "
        ".npz, .parquet or .h5ad file."
    ):
        read_table(name)


@pytest.mark.parametrize(
    ("path", "kind", "stem"),
    [
        ("in/GSM1.a.csv", (".csv", False), "GSM1.a"),
        ("GSM1.a.CSV.gz", (".csv", True), "GSM1.a"),
        ("a.parquet.gz", (".gz", False), "a.parquet"),
        ("a", ("", False), "a"),
    ],
)
def test_only_the_end_of_a_name_says_the_kind(path, kind, stem):
    assert suffix_of(path) == kind
    assert stem_of(path) == stem


def test_what_is_no_file_is_said_before_it_is_read():
    with refused("there is no file gone.csv; check its name and folder.", FileNotFoundError):
        check_there("gone.csv")
    with refused(". is a folder; give a file in it.", IsADirectoryError):
        check_there(".")
    text_file("1,2\n")
    check_there("t.csv")


def test_a_key_is_for_archives_only():
    text_file("1,2\n")
    with refused("t.csv holds one table; leave out --key, which is for .npz files."):
        read_table("t.csv", key="data")


def test_an_odd_path_stays_on_one_line():
    with pytest.raises(FileNotFoundError, match=r"^there is no file 'a\\nb\.csv'; check"):
        read_table("a\nb.csv")


def damaged(whole):
    """Files as they come from a broken disk or a wrong name."""
    yield from (whole[:length] for length in (0, 1, 5, len(whole) // 2, len(whole) - 1))
    yield from (b"a,b\n1,2\n", b"\x00" * 50, b"PK\x03\x04" + b"\x00" * 30)
    random = np.random.default_rng(0)
    for _ in range(40):
        broken = bytearray(whole)
        for place in random.integers(0, len(whole), size=20):
            broken[place] = random.integers(256)
        yield bytes(broken)


@pytest.mark.parametrize("suffix", ["npy", "npz", "parquet", "csv.gz", "sparse.npz"])
@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional header")
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, suffix):
    place = tmp_path / f"t.{suffix}"
    data = np.random.default_rng(0).standard_normal((40, 3))
    if suffix == "npy":
        np.save(place, data)
    elif suffix == "npz":
        np.savez(place, data=data, label=np.arange(40))
    elif suffix == "sparse.npz":
        sparse.save_npz(place, sparse.csr_array(data))
    else:
        write_table(place, {"a": data[:, 0], "b": data[:, 1]})
    kind = "gzip" if suffix == "csv.gz" else f".{suffix.split('.')[-1]}"
    said = [_said(place, broken) for broken in damaged(place.read_bytes())]
    assert not any("\n" in text for text in said)
    start = (
        f"{place} is not a complete {kind} file: it was cut short, changed, or is something else"
    )
    assert sum(text.startswith(start) for text in said) > 10
    assert not any(text == "" for text in said[:8])


def _said(place, content):
    """What is said of a file with this content; nothing where the damage does not show."""
    place.write_bytes(content)
    try:
        read_table(place)
    except (ValueError, MemoryError) as error:
        return str(error)
    return ""


# --- what the module costs ------------------------------------------------------------------------


def test_the_module_brings_no_large_package():
    packages = ["torch", "sklearn", "scipy", "matplotlib", "pandas", "anndata", "pyarrow"]
    code = f"import sys, hgplvm._tables; sys.exit(str([p for p in {packages} if p in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr.strip() == "[]"


def test_every_known_name_is_plain():
    assert all(_rules.plain_name(name) == name for name in _rules.LABELS)
    assert all(text == text.strip().lower() for text in _source.MISSING)
