"""Data: generated, or the authors' arrays."""

import sys

import numpy as np
import pytest

from hgplvm._reproduce import sources
from hgplvm._reproduce.sources import Source, UnavailableError
from hgplvm.datasets import make_binary_tree


@pytest.fixture
def authors(tmp_path):
    """Arrays in the authors' layout."""
    tree = make_binary_tree(3, n_per_node=2, random_state=1)
    label = np.where(tree.target == 0, 0, tree.target + 1).astype(float)
    np.savez(
        tmp_path / "synthetic_bin_tree_3.npz", data=tree.data, label=label, true_data=tree.codes
    )
    np.savez(tmp_path / "Spiral.npz", data=np.ones((8, 3)), label=np.arange(8.0))
    stages = np.repeat(["root", "branchMo", "monocyte", "erythrocyt"], 2)
    np.savez(tmp_path / "MyeloidProgenitors.npz", data=np.ones((8, 3)), label=stages)
    return tmp_path, tree


def test_generated_trees_have_their_depth_as_label():
    rows = Source().load("SBT-3")
    assert set(rows.labels) == {1, 2, 3}
    assert np.array_equal(rows.truth, make_binary_tree(3, random_state=0).tree_distance)


def test_the_authors_arrays_are_taken_where_they_are(authors):
    folder, tree = authors
    rows = Source(folder).load("SBT-3")
    assert np.array_equal(rows.data, tree.data)
    assert np.array_equal(rows.truth, tree.tree_distance)
    assert np.array_equal(rows.labels, tree.target + 1)
    assert Source(folder).load("Spiral").data.shape == (8, 3)
    assert list(Source(folder).load("Myeloid").labels[::2]) == ["root", "to Mo", "Mo", "Ery"]


def test_what_the_folder_has_not_is_generated(authors):
    assert len(Source(authors[0]).load("SBT-2").data) == 60


def test_stages_have_the_same_names_from_both_sources(authors):
    known = set(Source().load("Myeloid").labels)
    assert set(Source(authors[0]).load("Myeloid").labels) <= known


def test_fewer_rows_keep_their_distances():
    whole, some = Source().load("SBT-3"), Source(most_rows=20).load("SBT-3")
    assert some.data.shape == (20, 7)
    rows = [int(np.flatnonzero((whole.data == row).all(1))[0]) for row in some.data]
    assert np.array_equal(some.truth, whole.truth[np.ix_(rows, rows)])


def test_other_data_have_another_digest():
    assert Source().load("SBT-3").digest != Source(most_rows=20).load("SBT-3").digest
    assert Source().load("SBT-3").digest == Source().load("SBT-3").digest


def test_data_that_are_not_to_be_had(monkeypatch, tmp_path):
    import scanpy

    def refused():
        raise OSError("no network")

    monkeypatch.setattr(scanpy.datasets, "paul15", refused)
    with pytest.raises(UnavailableError, match=r"no network.*--data-dir"):
        Source(tmp_path).load("Paul")
    monkeypatch.setitem(sys.modules, "scanpy", None)
    with pytest.raises(UnavailableError, match="scanpy"):
        Source(tmp_path).load("Myeloid")


def test_the_digest_sees_the_true_distances(authors):
    folder, tree = authors
    before = Source(folder).load("SBT-3").digest
    other = folder / "other"
    other.mkdir()
    codes = tree.codes.copy()
    codes[0] = 1
    np.savez(other / "synthetic_bin_tree_3.npz", data=tree.data, true_data=codes)
    assert Source(other).load("SBT-3").digest != before


@pytest.mark.parametrize(
    "contents",
    [
        {"data": np.ones((20, 3))},
        {"data": np.full((20, 3), np.nan), "label": np.ones(20)},
        {"data": np.ones((20, 3)), "label": np.ones(4)},
        None,
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path, contents):
    if contents is None:
        (tmp_path / "Spiral.npz").write_bytes(b"PK\x03\x04 cut short")
    else:
        np.savez(tmp_path / "Spiral.npz", **contents)
    with pytest.raises(UnavailableError, match="The file for Spiral in the data folder"):
        Source(tmp_path).load("Spiral")


def test_a_download_that_failed_is_not_tried_again(monkeypatch, tmp_path):
    tries = []

    def refused(path):
        tries.append(path)
        raise OSError("no network")

    monkeypatch.setattr(sources.datasets, "load_paul15", refused)
    for _ in range(3):
        with pytest.raises(UnavailableError, match="no network"):
            Source(tmp_path / "a").load("Paul")
    assert len(tries) == 1


def test_unknown_names():
    with pytest.raises(ValueError, match="no data called 'Iris'"):
        Source().load("Iris")
