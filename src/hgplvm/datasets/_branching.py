"""Branching processes of any size whose tree is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from hgplvm import _validation as check
from hgplvm._typing import Array

__all__ = ["TreeDistance", "make_branching"]

# numbers that are drawn at a time
CHUNK_ENTRIES = 2**22


class TreeDistance:
    """Distances along a tree between rows, computed for the pairs that are asked for.

    It stands for the (n, n) matrix and is indexed like one: ``tree_distance[i, j]`` with integers,
    slices or arrays that broadcast against each other; ``numpy.asarray`` makes the whole matrix.

    Parameters
    ----------
    time : array (n,)
        Distance of each row from the root.
    branch : array (n,)
        The branch that it lies on.
    parting : array (n_branches, n_branches) or None, default=None
        Distance from the root at which the paths to two branches part: the end of the last branch
        that they share. None is a binary tree in breadth-first order whose branches are 1 long.
    """

    def __init__(self, time: Array, branch: Array, parting: Array | None = None) -> None:
        self._time, self._branch, self._parting = time, branch, parting

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return len(self._time), len(self._time)

    def __getitem__(self, index: Any) -> Array:
        # the views hold n numbers each, and numpy does the indexing
        rows = np.broadcast_to(np.arange(len(self._time))[:, None], self.shape)[index]
        columns = np.broadcast_to(np.arange(len(self._time)), self.shape)[index]
        first, second = self._time[rows], self._time[columns]
        pair = self._branch[rows], self._branch[columns]
        parting = _parting(*pair) if self._parting is None else self._parting[pair]
        return np.asarray(first + second - 2.0 * np.minimum(np.minimum(first, second), parting))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("Tree distances are computed, so that there is no array to share.")
        return self[:].astype(dtype or float, copy=False)


def make_branching(
    n_samples: int,
    n_features: int = 50,
    *,
    depth: int = 5,
    noise: float = 0.5,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Rows along the branches of a binary tree that grows by Brownian motion, with noise.

    Each of the ``2^depth - 1`` branches has length 1. Along it every feature moves as a Brownian
    motion of variance 1 a unit, starting where the parent branch ended, so that the expected
    squared distance of two rows is `n_features` times their distance along the tree. Rows lie at
    random places on random branches.

    Parameters
    ----------
    n_samples : int
        Rows; a million take some seconds.
    n_features : int, default=50
        Columns.
    depth : int, default=5
        Branches on the way from the root to a tip, at most 20.
    noise : float, default=0.5
        Standard deviation of the noise on every entry.
    random_state : int, RandomState or None, default=None
        Seed of everything.

    Returns
    -------
    Bunch
        ``data`` (n, n_features), ``target`` (n,) the branch of each row in breadth-first order,
        ``time`` (n,) its distance from the root, ``parent`` (2^depth - 1,) the parent of each
        branch, -1 for the first, ``tree_distance`` a :class:`TreeDistance`, which is indexed like
        the (n, n) matrix but never holds it, and ``DESCR``.

    Notes
    -----
    Made here, for sizes at which real data have no tree that is known; licence MIT.

    Examples
    --------
    >>> from hgplvm.datasets import make_branching
    >>> tree = make_branching(1000, depth=3, random_state=0)
    >>> tree.data.shape
    (1000, 50)
    >>> bool(tree.tree_distance[3, 3] == 0)
    True
    """
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        check.check_number("make_branching", name, value, low=1, integer=True)
    check.check_number("make_branching", "depth", depth, low=1, high=21, integer=True)
    check.check_number("make_branching", "noise", noise, low=0)
    rng = check_random_state(random_state)
    n_branches = 2**depth - 1
    branch = rng.randint(n_branches, size=n_samples)
    place = rng.uniform(size=n_samples)
    order = np.lexsort((place, branch))  # along each branch in turn
    starts = np.searchsorted(branch[order], np.arange(n_branches + 1))

    size = max(1, CHUNK_ENTRIES // n_features)
    data = np.empty((n_samples, n_features))
    ends = np.zeros((n_branches, n_features))
    for b in range(n_branches):
        rows = order[starts[b] : starts[b + 1]]
        steps = np.diff(place[rows], prepend=0.0, append=1.0)
        here = ends[(b - 1) // 2] if b else np.zeros(n_features)
        for first in range(0, len(steps), size):
            part = steps[first : first + size, None]
            path = here + np.cumsum(np.sqrt(part) * rng.standard_normal((len(part), n_features)), 0)
            here = path[-1]
            inside = rows[first : first + size]  # the last step has no row: it is the branch's end
            data[inside] = path[: len(inside)]
        ends[b] = here
    for first in range(0, n_samples, size):
        part = data[first : first + size]
        part += noise * rng.standard_normal(part.shape)

    level = np.floor(np.log2(np.arange(n_branches) + 1))
    time = level[branch] + place
    return Bunch(
        data=data,
        target=branch,
        time=time,
        parent=(np.arange(n_branches) - 1) // 2,
        tree_distance=TreeDistance(time, branch),
        DESCR=f"Brownian motion along a binary tree of depth {depth}, with noise {noise:g}.",
    )


def _parting(first: Array, second: Array) -> Array:
    """End of the last branch that the paths to two branches share, as distance from the root.

    In breadth-first order from 1 a parent is half of its child: dropping bits climbs the tree.
    """
    first, second = first + 1, second + 1
    gap = _bits(first) - _bits(second)
    first, second = first >> np.maximum(gap, 0), second >> np.maximum(-gap, 0)
    return np.asarray(_bits(first) - _bits(first ^ second))


def _bits(number: Array) -> Array:
    """Bits that a number takes: 0 for 0."""
    return np.frexp(number)[1]
