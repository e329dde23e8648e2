"""Columns of new rows in the order of a fit."""

import numpy as np
import pytest
from scipy import sparse

from hgplvm._columns import aligned

ROWS = np.arange(12.0).reshape(3, 4)
NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_array])
def test_columns_are_matched_by_name(kind):
    found, missing = aligned(kind(ROWS), NAMES, ["d", "a"])
    dense = found.toarray() if sparse.issparse(found) else found
    assert np.array_equal(dense, ROWS[:, [3, 0]])
    assert sparse.issparse(found) == (kind is not np.asarray)
    assert missing == []


def test_a_name_that_stands_twice_matches_nothing():
    names = ["a", "g3", "c", "g3"]
    found, _ = aligned(ROWS, names, ["c", "a"])  # where it is not wanted, it does no harm
    assert np.array_equal(found, ROWS[:, [2, 0]])
    with pytest.raises(ValueError, match="'g3' stands twice among the new ones: make the names"):
        aligned(ROWS, names, ["a", "g3"])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_columns_that_are_not_there_are_missing_entries(kind):
    found, missing = aligned(kind(ROWS), NAMES, ["x", "b", "y"])
    assert missing == ["x", "y"]
    assert np.array_equal(found[:, 1], ROWS[:, 1])
    assert np.isnan(found[:, [0, 2]]).all()
