"""The binary tree, against its definition."""

import numpy as np
import pytest

from hgplvm.datasets import make_binary_tree


@pytest.mark.parametrize(("depth", "shape"), [(4, (300, 15)), (5, (620, 31)), (6, (1260, 63))])
def test_sizes_are_those_of_the_paper(depth, shape):
    tree = make_binary_tree(depth, random_state=0)
    assert tree.data.shape == tree.codes.shape == shape
    assert np.bincount(tree.target).tolist() == [20 * 2**level for level in range(depth)]


def test_distances_are_the_numbers_of_edges():
    tree = make_binary_tree(4, n_per_node=1)
    for i in range(15):
        for j in range(15):
            a, b, edges = i, j, 0
            while a != b:  # climb from the deeper node
                a, b = (a, (b - 1) // 2) if b > a else ((a - 1) // 2, b)
                edges += 1
            assert tree.tree_distance[i, j] == edges


def test_bits_are_cosines_and_their_siblings_sines():
    tree = make_binary_tree(5, random_state=1)
    assert (tree.data[:, 0] == 1).all()
    left, right = tree.data[:, 1::2], tree.data[:, 2::2]
    squares = left**2 + right**2
    active = (tree.codes[:, 1::2] + tree.codes[:, 2::2]) == 1
    assert np.allclose(squares[active], 1)
    assert (squares[~active] == 0).all()
    ones = tree.data[:, 1:][tree.codes[:, 1:] == 1]
    assert ones.min() >= np.sqrt(0.5)
    assert ones.mean() == pytest.approx(np.sin(np.pi / 4) / (np.pi / 4), abs=0.01)


def test_seeds():
    a, b, c = (make_binary_tree(3, random_state=seed).data for seed in (0, 0, 1))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize("arguments", [{"depth": 0}, {"depth": 2.5}, {"depth": 3, "n_per_node": 0}])
def test_bad_input(arguments):
    with pytest.raises(ValueError, match="parameter of make_binary_tree must be an int"):
        make_binary_tree(**arguments)
