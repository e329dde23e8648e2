"""Trees of branches, against walks along their edges."""

import numpy as np
import pytest

from hgplvm.datasets._topology import TOPOLOGIES, read_topology

NAMED = [("a", "b", 2.0), ("b", "c"), ("c", "d", 0.5), ("c", "e"), ("a", "f", 3)]


def ancestors(tree, b):
    path = [b]
    while tree.parent[path[-1]] >= 0:
        path.append(tree.parent[path[-1]])
    return path


@pytest.mark.parametrize("topology", [*TOPOLOGIES, NAMED, NAMED[::-1]])
def test_branches_start_and_part_where_the_paths_to_them_do(topology):
    tree = read_topology("me", topology)
    for a in range(len(tree.edges)):
        assert tree.start[a] == sum(tree.length[b] for b in ancestors(tree, a)[1:])
        for c in range(len(tree.edges)):
            shared = set(ancestors(tree, a)) & set(ancestors(tree, c))
            assert tree.parting[a, c] == sum(tree.length[b] for b in shared)


@pytest.mark.parametrize(
    ("name", "tips"), [("linear", 1), ("bifurcation", 2), ("multifurcation", 4), ("binary", 4)]
)
def test_names(name, tips):
    tree = read_topology("me", name)
    assert len(set(range(len(tree.edges))) - set(tree.parent.tolist())) == tips
    assert set(tree.length) == {1.0}


def test_edges_may_be_rows_of_an_array():
    tree = read_topology("me", np.array([[0, 1], [1, 2], [1, 3]]))
    assert tree.edges == read_topology("me", "bifurcation").edges


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("star", r"The 'topology' parameter of me must be one of 'linear', .* Got 'star'"),
        (3, r"or a list of edges .* Got 3 instead"),
        ([], r"or a list of edges .* Got \[\] instead"),
        ([(0, 1), 2], r"or a list of edges .* Got 2 instead"),
        ([(0, 1, 1.0, 2)], r"or a list of edges .* Got \(0, 1, 1.0, 2\) instead"),
        ([(0, [1])], r"or a list of edges .* Got \(0, \[1\]\) instead"),
        ([(0, 1, 0.0)], r"lengths .* must be positive finite numbers. Got 0.0 instead"),
        ([(0, 1, np.inf)], r"lengths .* Got inf instead"),
        ([(0, 1, np.nan)], r"lengths .* Got nan instead"),
        ([(0, 1, "long")], r"lengths .* Got 'long' instead"),
        ([(0, 1, True)], r"lengths .* Got True instead"),
        ([(0, 2), (0, 1), (1, 2)], r"The node 2 .* must have one parent"),
        ([(0, 1), (2, 3)], r"must have one root, .* Got 2 of them"),
        ([(0, 1), (1, 0)], r"must have one root, .* Got 0 of them"),
        ([(0, 1), (2, 3), (3, 2)], r"without cycles: 2 of its edges cannot be reached"),
    ],
)
def test_what_is_no_tree(topology, message):
    with pytest.raises(ValueError, match=message):
        read_topology("me", topology)
