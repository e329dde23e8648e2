"""Nearest rows, of all or of those that come before, on any manifold and for any number of rows.

Up to a few thousand rows all pairs are compared, and beyond where a space has no search
coordinates. Where it has, a k-d tree is asked in them: geodesic balls lie in Euclidean balls there,
perhaps off centre (:meth:`Manifold.search_ball`), so a Euclidean search around that centre finds
everything in the ball, and the answer is exact. For earlier rows blocks that double are taken, each
with a tree of the rows up to its end: at least half are earlier ones.
"""

from __future__ import annotations

import torch
from scipy.spatial import KDTree
from torch import Tensor

from hgplvm._threads import usable_threads
from hgplvm.manifolds._base import Manifold

__all__ = ["ORDERS", "max_min_order", "nearest_earlier", "nearest_others", "nearest_to"]

ORDERS = ("random", "max-min")

# rows of which all pairs are compared: beyond, a tree is faster
ALL_PAIRS = {"cpu": 4096, "cuda": 2**17}
# pairs that are compared at a time
PAIRS = {"cpu": 2**20, "cuda": 2**26}


def max_min_order(manifold: Manifold, x: Tensor) -> Tensor:
    """Order the rows of x [n, ·] coarse to fine: each next is the farthest from those before it.

    The first row stays first. Of more rows than all pairs can be compared of, those up to that
    number are ordered and the others follow as they are.
    """
    n = min(x.shape[0], ALL_PAIRS["cpu"])
    features = manifold.pair_features(x[:n])
    order = torch.arange(x.shape[0], device=x.device)
    nearest = features.new_full((n,), torch.inf)
    row = order[0]
    for place in range(n):
        order[place] = row
        gaps = manifold.pair_squared_chord(features[row : row + 1], features).squeeze(0)
        nearest = torch.minimum(nearest, gaps)
        nearest[row] = -1.0  # taken
        row = nearest.argmax()
    return order


def nearest_earlier(manifold: Manifold, x: Tensor, k: int) -> Tensor:
    """Positions of the k nearest rows before each row of x [n, ·], nearest first: [n, k].

    Where a row has fewer than k before it, its own position fills the places that are left.
    """
    features = manifold.pair_features(x)
    found = torch.arange(x.shape[0], device=x.device)[:, None].repeat(1, k)
    end = min(x.shape[0], _all_pairs(manifold, x, k))
    _compare_all(manifold, features[:end], found[:end], "earlier")
    if end < x.shape[0]:
        search = _TreeSearch(manifold, x.cpu(), x.cpu(), k, "earlier")
        while end < x.shape[0]:
            start, end = end, min(2 * end, x.shape[0])
            found[start:end] = search.rows(start, end, end).to(x.device)
    return found


def nearest_others(manifold: Manifold, x: Tensor, k: int) -> Tensor:
    """Positions of the k < n nearest other rows of each row of x [n, ·], nearest first: [n, k]."""
    return _nearest(manifold, x, x, k, "others")


def nearest_to(manifold: Manifold, queries: Tensor, x: Tensor, k: int) -> Tensor:
    """Positions of the k <= n rows of x [n, ·] nearest to each query, nearest first: [m, k]."""
    return _nearest(manifold, queries, x, k, "all")


def _nearest(manifold: Manifold, queries: Tensor, x: Tensor, k: int, which: str) -> Tensor:
    n = x.shape[0]
    if n > _all_pairs(manifold, x, k):
        search = _TreeSearch(manifold, queries.cpu(), x.cpu(), k, which)
        return search.rows(0, queries.shape[0], n).to(x.device)
    found = torch.zeros(queries.shape[0], k, dtype=torch.long, device=x.device)
    features = manifold.pair_features(queries)
    _compare_all(manifold, features, found, which, manifold.pair_features(x))
    return found


def _all_pairs(manifold: Manifold, x: Tensor, k: int) -> int:
    """Rows up to which all pairs are compared."""
    if manifold.search_coordinates(x[:1]) is None:
        return len(x)
    return max(ALL_PAIRS[_kind(x)], 4 * k)


def _kind(x: Tensor) -> str:
    return "cpu" if x.device.type == "cpu" else "cuda"


def _compare_all(
    manifold: Manifold,
    features: Tensor,
    found: Tensor,
    which: str,
    targets: Tensor | None = None,
) -> None:
    """Fill `found` by comparing all pairs, in chunks of rows."""
    targets = features if targets is None else targets
    n, k = targets.shape[0], found.shape[1]
    size = max(1, PAIRS[_kind(features)] // n)
    for start in range(0, features.shape[0], size):
        end = min(start + size, features.shape[0])
        squared = manifold.pair_squared_chord(
            features[start:end], targets[: end if which == "earlier" else n]
        )
        if which != "all":
            barred = torch.full_like(squared, torch.inf).triu_(start)  # itself and later ones
            squared += barred if which == "earlier" else barred.tril_(start)
        nearest, columns = squared.topk(min(k, squared.shape[1]), dim=1, largest=False)
        mine = found[start:end, : columns.shape[1]]
        mine.copy_(torch.where(nearest < torch.inf, columns, mine))


def _coordinates(manifold: Manifold, x: Tensor) -> Tensor:
    found = manifold.search_coordinates(x)
    assert found is not None  # all pairs are compared where there are none
    return found


class _TreeSearch:
    """Exact nearest rows from Euclidean searches in the search coordinates.

    Of all rows of x, of the others (where the queries are the rows themselves), or of the earlier
    ones.
    """

    def __init__(self, manifold: Manifold, queries: Tensor, x: Tensor, k: int, which: str) -> None:
        self._manifold, self._queries, self._k, self._which = manifold, queries, k, which
        self._query_features, self._features = map(manifold.pair_features, (queries, x))
        self._query_chart, self._chart = (_coordinates(manifold, part) for part in (queries, x))

    def rows(self, start: int, end: int, n: int) -> Tensor:
        """Neighbours of the queries from start to end among the first n rows: [·, k]."""
        tree = KDTree(self._chart[:n].numpy())
        rows = torch.arange(start, end)
        return self._search(tree, rows, self._query_chart[rows], 3 * self._k)

    def _search(self, tree: KDTree, rows: Tensor, centre: Tensor, count: int) -> Tensor:
        """Widen the search of each row until it covers the ball that its neighbours lie in."""
        count = min(count, tree.n)
        size = max(1, PAIRS["cpu"] // count)
        parts = zip(torch.split(rows, size), torch.split(centre, size), strict=True)
        return torch.cat([self._search_part(tree, *part, count) for part in parts])

    def _search_part(self, tree: KDTree, rows: Tensor, centre: Tensor, count: int) -> Tensor:
        distances, found = tree.query(centre.numpy(), count, workers=usable_threads())
        radius, columns = torch.from_numpy(distances[:, -1]), torch.from_numpy(found)
        nearest, which = self._squared(rows, columns).topk(self._k, largest=False)
        result = columns.gather(1, which)
        ball, ball_radius = self._manifold.search_ball(
            self._queries[rows], self._manifold.distance_from_chord(nearest[:, -1])
        )
        reach = torch.linalg.vector_norm(ball - centre, dim=1) + ball_radius
        missing = nearest[:, -1] == torch.inf
        wider = (missing | ~(reach <= radius)) & (count < tree.n)
        if wider.any():
            centre = torch.where(missing[:, None], centre, ball)[wider]
            result[wider] = self._search(tree, rows[wider], centre, 2 * count)
        return result

    def _squared(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Squared chords to candidates [n, count]; ∞ for those that do not count."""
        f, g = self._query_features[rows].unsqueeze(1), self._features[columns]
        squared = self._manifold.pair_squared_chord(f, g).squeeze(1)
        if self._which == "all":
            return squared
        own = rows[:, None]
        barred = columns >= own if self._which == "earlier" else columns == own
        return squared.masked_fill_(barred, torch.inf)
