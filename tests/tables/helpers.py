"""Files to read, and the one way to expect a refusal."""

import math
import re

import numpy as np
import pytest

from hgplvm._tables import read_table, write_table

NAN = math.nan
DATA = np.arange(6.0).reshape(3, 2)
TYPED = [".csv", ".npz", ".parquet"]
WRITTEN = ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.npz", "t.parquet"]


def text_file(text, name="t.csv"):
    with open(name, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return name


def read_text(text, **options):
    return read_table(text_file(text), **options)


def read_columns(suffix, columns, **options):
    """Read a table of these columns from a text or a typed file."""
    write_table(f"t{suffix}", columns)
    return read_table(f"t{suffix}", **options)


def refused(sentence, kind=ValueError):
    """Expect an error of exactly this one sentence."""
    assert "\n" not in sentence
    return pytest.raises(kind, match=f"^{re.escape(sentence)}$")
