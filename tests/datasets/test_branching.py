"""The branching process, against its definition."""

import numpy as np
import pytest

from hgplvm import metrics
from hgplvm.datasets import make_branching


def walk(tree, i, j):
    """Distance by climbing branch by branch from the deeper of two rows."""
    (a, s), (b, t), total = (tree.target[i], tree.time[i]), (tree.target[j], tree.time[j]), 0.0
    while a != b:
        if a < b:
            (a, s), (b, t) = (b, t), (a, s)
        start = np.floor(np.log2(a + 1))  # branches are 1 long
        total, a, s = total + s - start, tree.parent[a], start
    return total + abs(s - t)


def test_distances_are_those_along_the_branches():
    tree = make_branching(60, depth=4, random_state=0)
    matrix = np.asarray(tree.tree_distance)
    assert matrix.shape == tree.tree_distance.shape == (60, 60)
    for i in range(60):
        for j in range(60):
            assert matrix[i, j] == pytest.approx(walk(tree, i, j))


def test_distances_are_indexed_like_the_matrix():
    distance = make_branching(30, depth=3, random_state=1).tree_distance
    matrix = np.asarray(distance)
    i, j = np.array([3, 4, 9]), np.array([0, 29, 7])
    for index in ((2, 5), (i, j), (slice(None), j), (i, slice(2, 9)), np.ix_(i, j), 4, slice(3)):
        assert np.array_equal(distance[index], matrix[index])
    with pytest.raises(IndexError):
        distance[30, 0]


def test_any_size_is_possible_without_the_matrix():
    tree = make_branching(200_000, n_features=2, random_state=0)
    assert tree.tree_distance[:3, -3:].shape == (3, 3)


def test_squared_distances_are_proportional_to_tree_distances():
    tree = make_branching(400, n_features=4000, depth=4, noise=0.5, random_state=0)
    squared = ((tree.data[:200, None] - tree.data[None, 200:]) ** 2).mean(-1)
    slope, nugget = np.polyfit(tree.tree_distance[:200, 200:].ravel(), squared.ravel(), 1)
    assert slope == pytest.approx(1.0, abs=0.05)
    assert nugget == pytest.approx(2 * 0.5**2, abs=0.1)


def test_rows_of_a_branch_make_one_path():
    tree = make_branching(3000, n_features=3, depth=2, noise=0.0, random_state=0)
    rows = np.flatnonzero(tree.target == 1)
    rows = rows[np.argsort(tree.time[rows])]
    steps = np.diff(tree.data[rows], axis=0) / np.sqrt(np.diff(tree.time[rows]))[:, None]
    assert steps.std() == pytest.approx(1.0, abs=0.05)
    # and the path begins where its parent ended
    parent = np.flatnonzero(tree.target == 0)
    end = parent[np.argmax(tree.time[parent])]
    assert np.abs(tree.data[rows[0]] - tree.data[end]).max() < 0.3


def test_chunks_make_the_same_process(monkeypatch):
    whole = make_branching(500, n_features=3, depth=2, noise=0.0, random_state=0).data
    monkeypatch.setattr("hgplvm.datasets._branching.CHUNK_ENTRIES", 30)
    assert np.allclose(make_branching(500, 3, depth=2, noise=0.0, random_state=0).data, whole)


def test_metrics_take_the_distances():
    tree = make_branching(50, depth=2, random_state=0)
    flat = np.random.default_rng(0).normal(size=(50, 2))
    value = metrics.distance_correlation(tree.tree_distance, flat, metric="euclidean")
    matrix = np.asarray(tree.tree_distance)
    assert value == metrics.distance_correlation(matrix, flat, metric="euclidean")


def test_seeds():
    a, b, c = (make_branching(20, random_state=seed).data for seed in (0, 0, 1))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize("name", ["n_samples", "n_features", "depth"])
@pytest.mark.parametrize("value", [0, 2.5])
def test_bad_input(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of make_branching must be"):
        make_branching(**{"n_samples": 10, name: value})


def test_deep_trees_take_no_matrix_of_branches():
    tree = make_branching(50, 2, depth=14, random_state=0)
    for i, j in ((0, 1), (5, 40), (7, 7)):
        assert tree.tree_distance[i, j] == pytest.approx(walk(tree, i, j))
    with pytest.raises(ValueError, match=r"'depth' .* \[1, 21\)"):
        make_branching(10, depth=40)


def test_there_is_no_array_to_share():
    distance = make_branching(5, 2, depth=2, random_state=0).tree_distance
    with pytest.raises(ValueError, match="no array to share"):
        np.array(distance, copy=False)


def test_negative_noise():
    with pytest.raises(ValueError, match="The 'noise' parameter of make_branching must be"):
        make_branching(10, noise=-1.0)
