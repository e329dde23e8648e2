"""Synthetic trees."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from hgplvm import _validation as check

__all__ = ["make_binary_tree"]


def make_binary_tree(
    depth: int, n_per_node: int = 20, random_state: int | np.random.RandomState | None = None
) -> Bunch:
    """Noisy samples of the nodes of a binary tree: the paper's synthetic binary tree (SBT).

    A tree of this depth has ``2^depth - 1`` nodes, and as many columns. The code of a node has ones
    at itself and at its ancestors. A sample draws an angle θ ~ U(0, π/4) for each of them but the
    root: the one becomes cos θ and the sibling's zero becomes sin θ.

    Parameters
    ----------
    depth : int
        Levels of the tree, the root's included. The paper uses 4, 5 and 6.
    n_per_node : int, default=20
        Samples a node. Those of the root are identical: it has no sibling.
    random_state : int, RandomState or None, default=None
        Seed of the angles.

    Returns
    -------
    Bunch
        ``data`` (n, 2^depth - 1), ``target`` (n,) the depth of each sample's node with 0 for the
        root, ``node`` (n,) its index in breadth-first order, ``codes`` (n, 2^depth - 1) its binary
        code, ``tree_distance`` (n, n) the Hamming distance of the codes, which is the number of
        edges between the nodes, and ``DESCR``.

    Notes
    -----
    Made from the description in Watanabe et al. (AISTATS 2025), after Nagano et al. (ICML 2019); no
    data are copied, so that the licence is that of this package (MIT).

    Examples
    --------
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=4, random_state=0)
    >>> tree.data.shape
    (300, 15)
    """
    check.check_number("make_binary_tree", "depth", depth, low=1, integer=True)
    check.check_number("make_binary_tree", "n_per_node", n_per_node, low=1, integer=True)
    rng = check_random_state(random_state)
    n_nodes = 2**depth - 1
    node_codes = np.zeros((n_nodes, n_nodes))
    for child in range(n_nodes):
        if child:
            node_codes[child] = node_codes[(child - 1) // 2]
        node_codes[child, child] = 1.0

    node = np.repeat(np.arange(n_nodes), n_per_node)
    codes = node_codes[node]
    angles = rng.uniform(0.0, np.pi / 4.0, size=codes.shape)
    data = codes * np.cos(angles)
    data[:, 0] = codes[:, 0]
    # children stand in pairs (1, 2), (3, 4), …: the sibling of an active bit gets its sine
    sines = codes * np.sin(angles)
    data[:, 1::2] += sines[:, 2::2]
    data[:, 2::2] += sines[:, 1::2]
    ones = node_codes.sum(1)
    distance = ones[:, None] + ones[None, :] - 2.0 * (node_codes @ node_codes.T)  # Hamming
    return Bunch(
        data=data,
        target=np.floor(np.log2(node + 1)).astype(int),
        node=node,
        codes=codes.astype(int),
        tree_distance=distance[np.ix_(node, node)],
        DESCR=f"Noisy binary tree of depth {depth}, {n_per_node} samples a node.",
    )
