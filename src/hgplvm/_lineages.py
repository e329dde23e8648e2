"""Skeletons of maps: trees of geodesics along which rows lie, and where rows are on them.

**A skeleton that is found.** Rows make a density on the hyperbolic plane, with a bandwidth three
times that which predicts rows best when each is left out: ridges of a rougher density wiggle.
Points climb to its ridges, moving only across them: each step of mean shift is projected on all but
the widest axis of the density around a point (subspace-constrained mean shift). The ridge is
thinned to nodes half a bandwidth apart, joined by the shortest tree, and side branches are cut, the
least worthy first, until all are long against the bandwidth, reach away from the rest, and hold two
percent of the rows. So the number of branches is a property of the density, not a setting.

**A skeleton that is given** is a tree of labels: its nodes are the Fréchet means of the labelled
rows, and each edge is a branch.

Either is rooted at a point, and rows are projected onto its geodesics. A row is uncertain near a
fork because its position is: branch probabilities are shares of draws from its posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

from hgplvm._typing import Array
from hgplvm.geometry import lorentz
from hgplvm.manifolds import Hyperbolic

__all__ = ["Places", "Skeleton", "find_skeleton", "given_skeleton", "place", "places", "span"]

# bandwidth, in units of that which predicts left-out rows best
WIDER = 3.5
# and least bandwidth, in standard deviations of a position
BLURRED = 0.75
# shortest side branch, and its reach away from the rest, in bandwidths; least share of the rows
SHORTEST, REACH, FEWEST = 2.5, 2.0, 0.02
# the same of the branch on which the root is, as a share
ROOTED = 0.4
# how long what curls up at an end may be, in bandwidths; how far an end goes on, by the rows beyond
CURL, OUTERMOST, FEW_BEYOND = 3.0, 0.9, 5
# forks nearer than this, in bandwidths, are one
MERGED = 2.0
# rows that the density is made of, points that climb, and how far apart nodes are, in bandwidths
ROWS, CLIMBERS, SPACING = 1500, 600, 0.5
# steps of the climb, its accuracy in bandwidths, and the density below which a point is dropped, as
# a share of the median
STEPS, ACCURACY, THIN = 60, 0.02, 0.05
# bandwidths that are tried, as shares of the median distance
BANDWIDTHS = torch.logspace(-2, 0, 21, dtype=torch.float64)
# rounds in which nodes are smoothed
SMOOTHED = 2
# how near a tip or a fork the root must be, in bandwidths, to be taken there
TIP_NEAR, FORK_NEAR = 3.0, 1.2
# draws from the posterior of a row: for branches, and for positions
DRAWS, MOVES = 64, 24

Tree = dict[int, dict[int, float]]  # lengths of edges, by both nodes


@dataclass(frozen=True)
class Skeleton:
    """A rooted tree of geodesics.

    Attributes
    ----------
    nodes : Tensor [k, 3]
        Points of the Lorentz model; the first is the root.
    parent : array of int [k]
        Node before each, -1 for the root.
    time : array [k]
        Length of the way from the root.
    branch : array of int [k]
        Branch of the edge that ends at each node, -1 for the root.
    above : array of int [b]
        Branch before each, -1 where it starts at the root.
    names : list of str
        Names of the branches.
    """

    nodes: Tensor
    parent: Array
    time: Array
    branch: Array
    above: Array
    names: list[str]

    @property
    def tips(self) -> list[int]:
        """Branches that end in a terminal state."""
        inner = set(self.above.tolist())
        return [b for b in range(len(self.above)) if b not in inner]

    def end(self, branch: int) -> int:
        """Last node of a branch; the root where there is a single node."""
        on = np.flatnonzero(self.branch == branch)
        return int(on[-1]) if len(on) else 0

    def start(self, branch: int) -> int:
        """Node at which a branch starts."""
        on = np.flatnonzero(self.branch == branch)
        return int(self.parent[on[0]]) if len(on) else 0

    def way(self, branch: int) -> list[int]:
        """Branches from the root to the end of this one."""
        found = []
        while branch >= 0:
            found.append(branch)
            branch = int(self.above[branch])
        return found[::-1]

    def path(self, branch: int) -> list[int]:
        """Nodes from the root to the end of a branch."""
        found = [self.end(branch)]
        while self.parent[found[-1]] >= 0:
            found.append(int(self.parent[found[-1]]))
        return found[::-1]

    def points(self, branch: int, times: Array) -> Tensor:
        """Points at these distances from the root on the way to the end of a branch: [n, 3]."""
        nodes = self.path(branch)
        ends = self.time[nodes]
        found = []
        for time in np.clip(times, 0.0, ends[-1]):
            i = int(np.clip(np.searchsorted(ends, time, side="right") - 1, 0, len(nodes) - 2))
            if len(nodes) == 1:
                found.append(self.nodes[0])
                continue
            length = ends[i + 1] - ends[i]
            share = torch.tensor([(time - ends[i]) / length if length > 0 else 0.0])
            a, b = self.nodes[nodes[i]], self.nodes[nodes[i + 1]]
            found.append(lorentz.geodesic(a, b, share.to(self.nodes)))
        return torch.stack(found)

    def fates(self, shares: Array) -> Array:
        """Share out what branches have [n, b] among the terminal states beyond them [n, tips].

        In proportion to what the last branches have in all.
        """
        tips = self.tips
        beyond = np.array([[b in self.way(tip) for tip in tips] for b in range(len(self.above))])
        mass = np.array([shares[:, tip].sum() + 1.0 for tip in tips])
        split = beyond * mass
        return np.asarray(shares @ (split / split.sum(1, keepdims=True)))


@dataclass(frozen=True)
class Places:
    """Where rows are on a skeleton.

    Attributes
    ----------
    branch : array of int [n]
        The likeliest branch.
    position, std : array [n]
        Distance from the root along the skeleton, and its standard deviation.
    shares : array [n, b]
        Probability of each branch.
    fates : array [n, tips]
        Probability of each terminal state.
    distance : array [n]
        Distance of the row from the skeleton.
    """

    branch: Array
    position: Array
    std: Array
    shares: Array
    fates: Array
    distance: Array


# --- skeletons ------------------------------------------------------------------------------


def find_skeleton(
    points: Tensor, root: Tensor, own: Tensor | None = None, *, seed: int = 0
) -> Skeleton:
    """Find the tree along which points [n, 3] lie.

    `own` [n, 2, 2] are posterior covariances of the points on the map; without them they are known.
    """
    random = np.random.default_rng(seed)
    rows = torch.from_numpy(np.sort(random.permutation(len(points))[:ROWS]))
    x = points[rows]
    width = WIDER * _bandwidth(x)
    if own is not None and width > 0.0:
        variances = own[rows].diagonal(dim1=1, dim2=2).mean(1)
        width = max(width, BLURRED * float(variances.median().sqrt()))
    if len(x) < 3 or width == 0.0:
        return _assembled(root[None], np.array([-1]), np.zeros(1), np.zeros(1, dtype=int))
    some = torch.from_numpy(np.sort(random.permutation(len(x))[:CLIMBERS]))
    at = _climbed(x[some], x, width)
    mass = torch.exp(-0.5 * (lorentz.pairwise_distance(at, x) / width).square()).sum(1)
    least = torch.clamp(THIN * mass.median(), min=min(2.0, float(mass.max())))
    at = at[mass >= least]
    nodes = at[_covering(at, SPACING * width)]
    tree = _pruned(_shortest_tree(nodes), nodes, x, root, width)
    if len(tree) < 2:
        return _assembled(root[None], np.array([-1]), np.zeros(1), np.zeros(1, dtype=int))
    nodes, tree = _smoothed(nodes, tree)
    nodes, tree = _merged(nodes, tree, MERGED * width)
    return _with_straight_ends(_rooted(nodes, tree, root, width), x, width)


def given_skeleton(
    owner: str, points: Tensor, labels: Array, edges: Sequence[tuple[Any, Any]]
) -> Skeleton:
    """Make the skeleton of an edge list of labels: each edge leads from a label to the next."""
    try:
        pairs = [(str(parent), str(child)) for parent, child in edges]
    except (TypeError, ValueError):
        pairs = []
    into: dict[str, str] = {}
    for parent, child in pairs:
        if child in into or parent == child:
            raise ValueError(
                f"The 'edges' of {owner} must make a tree: {child!r} has several parents, or "
                "itself as one."
            )
        into[child] = parent
    roots = list(dict.fromkeys(parent for parent, _ in pairs if parent not in into))
    order = roots[:1]
    for label in order:  # it grows as it is walked along
        order += [child for parent, child in pairs if parent == label]
    if len(roots) != 1 or len(order) != len(pairs) + 1:
        raise ValueError(
            f"The 'edges' of {owner} must be a list of (parent, child) labels that make one tree "
            f"with one root, such as [('stem', 'left'), ('stem', 'right')]. Got {edges!r:.80}."
        )
    means = []
    for label in order:
        members = np.flatnonzero(labels == label)
        if not len(members):
            known = ", ".join(map(repr, np.unique(labels)[:8].tolist()))
            raise ValueError(
                f"The 'edges' of {owner} name {label!r}, which no row has; there are {known}."
            )
        means.append(lorentz.frechet_mean(points[torch.from_numpy(members)]))
    at = {label: i for i, label in enumerate(order)}
    before = np.array([-1, *(at[into[label]] for label in order[1:])])
    time = np.zeros(len(order))
    for i in range(1, len(order)):
        time[i] = time[before[i]] + float(lorentz.distance(means[before[i]], means[i]))
    found = _assembled(torch.stack(means), before, time, None)
    labels_of = zip(before[1:].tolist(), order[1:], strict=True)
    return replace(found, names=[f"{order[p]} → {label}" for p, label in labels_of])


# --- rows -----------------------------------------------------------------------------------


def place(points: Tensor, skeleton: Skeleton) -> tuple[Array, Array, Array]:
    """Branch, position and distance of the nearest point of the skeleton, for each point."""
    if len(skeleton.nodes) == 1:
        distance = lorentz.distance(skeleton.nodes[0], points).numpy()
        return np.zeros(len(points), dtype=int), np.zeros(len(points)), distance
    ends = np.arange(1, len(skeleton.nodes))
    starts = skeleton.parent[ends]
    a, b = skeleton.nodes[starts], skeleton.nodes[ends]
    along, away = _projected(points, a, b)
    best = away.argmin(1).numpy()
    position = skeleton.time[starts[best]] + along.numpy()[np.arange(len(points)), best]
    return skeleton.branch[ends[best]], position, away.min(1).values.numpy()


def places(
    points: Tensor,
    skeleton: Skeleton,
    own: Tensor,
    total: Tensor,
    *,
    seed: int = 0,
) -> Places:
    """Places of rows, and how sure they are.

    Parameters
    ----------
    points : Tensor [n, 3]
        Rows.
    own, total : Tensor [n, 2, 2]
        Posterior covariances of the rows on the map, which decide between branches, and with the
        uncertainty of the map, which the position along a branch has, too.
    """
    branch, position, distance = place(points, skeleton)
    generator = torch.Generator().manual_seed(seed)
    n_branches = len(skeleton.above)
    shares = np.zeros((len(points), n_branches))
    rows = np.arange(len(points))
    moments = np.zeros((2, len(points)))
    for covariance, n_draws, counts in ((own, DRAWS, True), (total, MOVES, False)):
        root = _root(covariance)
        for _ in range(n_draws):
            z = torch.randn(len(points), 2, generator=generator, dtype=torch.float64)
            moved = lorentz.displaced(points, (root @ z.unsqueeze(2)).squeeze(2))
            where, when, _ = place(moved, skeleton)
            if counts:
                np.add.at(shares, (rows, where), 1.0 / n_draws)
            else:
                moments += np.stack([when - position, np.square(when - position)]) / n_draws
    likeliest = shares.argmax(1)
    # where draws leave the nearest branch level with another, it stays the nearest
    likeliest = np.where(shares[rows, branch] >= shares[rows, likeliest] - 1e-9, branch, likeliest)
    std = np.sqrt(np.maximum(moments[1], 0.0))
    return Places(likeliest, position, std, shares, skeleton.fates(shares), distance)


def span(skeleton: Skeleton, tip: int, n_points: int) -> tuple[Array, Tensor]:
    """Positions and points at equal distances from the root to a terminal state."""
    times = np.linspace(0.0, skeleton.time[skeleton.end(tip)], n_points)
    return times, skeleton.points(tip, times)


# --- density and ridge ----------------------------------------------------------------------


def _bandwidth(x: Tensor) -> float:
    """Width of a kernel by which the others predict each point best; copies do not count."""
    square = lorentz.pairwise_distance(x, x).square()
    if len(x) < 3 or float(square.max()) < 1e-18:
        return 0.0
    same = square <= 1e-10 * square.max()
    widths = square[~same].median().sqrt() * BANDWIDTHS.to(x)
    scores = []
    for width in widths:
        kernel = (-0.5 * square / width**2).masked_fill(same, -math.inf)
        score = torch.logsumexp(kernel, 1).clamp_min(-50.0) - 2.0 * torch.log(width)
        scores.append(score.mean())
    return float(widths[int(torch.stack(scores).argmax())])


def _towards(at: Tensor, x: Tensor) -> Tensor:
    """``Log_at(x)`` in frames at the points: [n, m, 2]."""
    y = (lorentz.boost_to_origin(at) @ x.mT)[:, 1:]  # [n, 2, m]
    length = y.norm(dim=1, keepdim=True)
    return (y * (torch.asinh(length) / length.clamp_min(1e-300))).mT


def _climbed(at: Tensor, x: Tensor, width: float) -> Tensor:
    """Move points onto the ridge of the density of x."""
    at, active = at.clone(), torch.arange(len(at))
    for _ in range(STEPS):
        v = _towards(at[active], x)  # [n, m, 2]
        kernel = torch.softmax(-0.5 * v.square().sum(2) / width**2, dim=1)
        mean = (kernel.unsqueeze(2) * v).sum(1)
        scatter = (kernel.unsqueeze(2) * v).mT @ v - mean.unsqueeze(2) * mean.unsqueeze(1)
        across = torch.linalg.eigh(scatter)[1][:, :, 0]  # the narrow axis
        step = across * (across * mean).sum(1, keepdim=True)
        at[active] = lorentz.displaced(at[active], step)
        active = active[step.norm(dim=1) > ACCURACY * width]
        if not len(active):
            break
    return at


def _covering(x: Tensor, spacing: float) -> list[int]:
    """Points such that all are within a distance of one: farthest first."""
    chosen = [0]
    away = lorentz.distance(x[0], x)
    while float(away.max()) > spacing:
        chosen.append(int(away.argmax()))
        away = torch.minimum(away, lorentz.distance(x[chosen[-1]], x))
    return chosen


# --- trees ----------------------------------------------------------------------------------


def _shortest_tree(nodes: Tensor) -> Tree:
    n = len(nodes)
    tree: Tree = {i: {} for i in range(n)}
    if n > 1:
        distance = lorentz.pairwise_distance(nodes, nodes).numpy()
        edges = minimum_spanning_tree(distance + 1e-12 * (1.0 - np.eye(n))).tocoo()
        for i, j, length in zip(edges.row, edges.col, edges.data, strict=True):
            tree[int(i)][int(j)] = tree[int(j)][int(i)] = float(length)
    return tree


def _leaf_paths(tree: Tree) -> list[tuple[float, list[int]]]:
    """Length and nodes of the way from each leaf to the first fork."""
    found = []
    for leaf in tree:
        if len(tree[leaf]) != 1:
            continue
        path, length = [leaf], 0.0
        while len(path) == 1 or len(tree[path[-1]]) == 2:
            (following,) = (j for j in tree[path[-1]] if len(path) == 1 or j != path[-2])
            length += tree[path[-1]][following]
            path.append(following)
        found.append((length, path))
    return found


def _pruned(tree: Tree, nodes: Tensor, x: Tensor, root: Tensor, width: float) -> Tree:
    """Cut the least worthy side branch until all are long, reach away and hold rows."""
    away = lorentz.pairwise_distance(x, nodes)
    between = lorentz.pairwise_distance(nodes, nodes)
    near_root = lorentz.distance(root, nodes)
    while True:
        paths = _leaf_paths(tree)
        if len(paths) <= 2:
            return tree
        kept = np.array(sorted(tree))
        nearest = kept[away[:, kept].argmin(1).numpy()]
        start = kept[int(near_root[kept].argmin())]
        count = np.bincount(nearest, minlength=len(nodes))
        worths = []
        for length, path in paths:
            rest = [i for i in tree if i not in set(path[:-1])]
            reach = float(between[path[0], rest].min())
            share = count[path[:-1]].sum() / len(x)
            unit = width * (ROOTED if start in path[:-1] else 1.0)
            worths.append(min(length / (SHORTEST * unit), reach / (REACH * unit), share / FEWEST))
        worst = int(np.argmin(worths))
        if worths[worst] >= 1.0:
            return tree
        for i in paths[worst][1][:-1]:
            for j in tree.pop(i):
                if j in tree:
                    tree[j].pop(i)


def _smoothed(nodes: Tensor, tree: Tree) -> tuple[Tensor, Tree]:
    """Move nodes between two others towards the middle of these."""
    weights = torch.tensor([0.5, 0.25, 0.25], dtype=nodes.dtype)
    for _ in range(SMOOTHED):
        moved = nodes.clone()
        for i, near in tree.items():
            if len(near) == 2:
                moved[i] = Hyperbolic().weighted_mean(nodes[[i, *near]], weights)
        nodes = moved
    lengths = {
        i: {j: float(lorentz.distance(nodes[i], nodes[j])) for j in near}
        for i, near in tree.items()
    }
    return nodes, lengths


def _merged(nodes: Tensor, tree: Tree, least: float) -> tuple[Tensor, Tree]:
    """Make one fork of two that are nearer than a length, the nearest first."""
    while True:
        ways = [way for way in _ways_between_forks(tree) if way[0] < least]
        if not ways:
            return nodes, tree
        path = min(ways)[1]
        ends = nodes[[path[0], path[-1]]]
        middle = lorentz.geodesic(ends[0], ends[1], torch.tensor([0.5], dtype=nodes.dtype))
        new, nodes = len(nodes), torch.cat([nodes, middle[None]])
        around = {j for i in path for j in tree[i]} - set(path)
        tree = {
            i: {j: w for j, w in near.items() if j not in path}
            for i, near in tree.items()
            if i not in path
        }
        tree[new] = {}
        for j in around:
            tree[new][j] = tree[j][new] = float(lorentz.distance(nodes[new], nodes[j]))


def _ways_between_forks(tree: Tree) -> list[tuple[float, list[int]]]:
    """Length and nodes of the ways from one fork to another with none between."""
    found = []
    for fork in (i for i in tree if len(tree[i]) > 2):
        for first in tree[fork]:
            path, length = [fork, first], tree[fork][first]
            while len(tree[path[-1]]) == 2:
                (following,) = (j for j in tree[path[-1]] if j != path[-2])
                length += tree[path[-1]][following]
                path.append(following)
            if len(tree[path[-1]]) > 2 and fork < path[-1]:
                found.append((length, path))
    return found


def _rooted(nodes: Tensor, tree: Tree, root: Tensor, width: float) -> Skeleton:
    """Cut the tree at the point nearest to the root; a tip or fork nearby is taken instead."""
    kept = sorted(tree)
    number = {i: k for k, i in enumerate(kept)}
    nodes = nodes[kept]
    tree = {number[i]: {number[j]: w for j, w in near.items()} for i, near in tree.items()}
    edges = [(i, j) for i, near in tree.items() for j in near if i < j]
    a, b = (nodes[[edge[k] for edge in edges]] for k in (0, 1))
    along, away = _projected(root[None], a, b)
    best = int(away[0].argmin())
    i, j = edges[best]
    length, part = tree[i][j], float(along[0, best])
    new = len(nodes)
    share = torch.tensor([part / max(length, 1e-300)], dtype=nodes.dtype)
    cut = {k: dict(near) for k, near in tree.items()}
    del cut[i][j], cut[j][i]
    cut[new] = {i: part, j: length - part}
    cut[i][new], cut[j][new] = part, length - part
    time = _walked(cut, new)[0]
    tips = [(time[k], k) for k in tree if len(tree[k]) == 1 and time[k] < TIP_NEAR * width]
    forks = [(time[k], k) for k in tree if len(tree[k]) > 2 and time[k] < FORK_NEAR * width]
    if tips or forks:
        start = min(tips or forks)[1]
    else:
        start, tree = new, cut
        nodes = torch.cat([nodes, lorentz.geodesic(a[best], b[best], share)[None]])
    times, before, order = _walked(tree, start)
    place_of = {node: k for k, node in enumerate(order)}
    parent = np.array([-1, *(place_of[before[node]] for node in order[1:])])
    degree = np.array([len(tree[node]) for node in order])
    return _assembled(nodes[order], parent, np.array([times[node] for node in order]), degree)


def _with_straight_ends(skeleton: Skeleton, x: Tensor, width: float) -> Skeleton:
    """Cut what curls up at the end of a branch, and go on straight as far as rows do.

    In a broad group of rows at an end the ridge follows the group's longer axis, and it ends before
    the outermost rows.
    """
    for tip in skeleton.tips:
        end = skeleton.end(tip)
        own = np.flatnonzero(skeleton.branch == tip)
        away = lorentz.distance(skeleton.nodes[0], skeleton.nodes[own]).numpy()
        last = skeleton.time[end] - skeleton.time[own] < CURL * width
        far = own[last][int(away[last].argmax())]
        if far != end:
            skeleton = _cut(skeleton, own[own > far])
            end = skeleton.end(tip)
        before = skeleton.path(tip)
        back = skeleton.time[end] - skeleton.time[before] >= width
        start = np.array(before)[back][-1] if back.any() else before[0]
        if start == end:
            continue
        y = lorentz.recenter(x, skeleton.nodes[end])
        came = lorentz.recenter(skeleton.nodes[[start]], skeleton.nodes[end])[0, 1:]
        u = -came / came.norm().clamp_min(1e-300)
        branch, position, _ = place(x, skeleton)
        beyond = (branch == tip) & (position >= skeleton.time[end] - 1e-9)
        along = torch.atanh(((y[:, 1:] @ u) / y[:, 0]).clamp(0.0, 1.0 - 1e-15)).numpy()[beyond]
        if len(along) < FEW_BEYOND:
            continue
        length = float(min(np.quantile(along, OUTERMOST), CURL * width))
        node = lorentz.displaced(skeleton.nodes[end], length * u)
        skeleton = replace(
            skeleton,
            nodes=torch.cat([skeleton.nodes, node[None]]),
            parent=np.append(skeleton.parent, end),
            time=np.append(skeleton.time, skeleton.time[end] + length),
            branch=np.append(skeleton.branch, tip),
        )
    return skeleton


def _cut(skeleton: Skeleton, nodes: Array) -> Skeleton:
    """Leave out the last nodes of a branch."""
    kept = np.setdiff1d(np.arange(len(skeleton.nodes)), nodes)
    number = np.full(len(skeleton.nodes) + 1, -1)  # the last is what the root has before it
    number[kept] = np.arange(len(kept))
    return replace(
        skeleton,
        nodes=skeleton.nodes[torch.from_numpy(kept)],
        parent=number[skeleton.parent[kept]],
        time=skeleton.time[kept],
        branch=skeleton.branch[kept],
    )


def _walked(tree: Tree, start: int) -> tuple[dict[int, float], dict[int, int], list[int]]:
    """Distances from a node, the node before each, and all in the order of a walk."""
    time, before, order = {start: 0.0}, {start: -1}, [start]
    for i in order:  # it grows as it is walked along
        for j in sorted(tree[i]):
            if j not in time:
                time[j], before[j] = time[i] + tree[i][j], i
                order.append(j)
    return time, before, order


def _assembled(nodes: Tensor, parent: Array, time: Array, degree: Array | None) -> Skeleton:
    """Give branches numbers: from the root or a fork to the next; each edge without degrees."""
    branch = np.full(len(nodes), -1)
    above: list[int] = []
    for i in range(1, len(nodes)):
        p = int(parent[i])
        if degree is None or p == 0 or degree[p] > 2:
            branch[i] = len(above)
            above.append(int(branch[p]))
        else:
            branch[i] = branch[p]
    if not above:  # a single node
        above = [-1]
    names = [str(b + 1) for b in range(len(above))]
    return Skeleton(nodes, parent, time, branch, np.array(above), names)


# --- projections ----------------------------------------------------------------------------


def _projected(points: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Way along each geodesic segment to the point nearest to points: it, and the distance [n, k].

    With a at the origin and b in the direction u, ``cosh d = y₀ cosh s - (ỹ·u) sinh s`` at s.
    """
    lengths = lorentz.distance(a, b)
    along, away = [], []
    for start, end, length in zip(a, b, lengths, strict=True):
        y = lorentz.recenter(points, start)
        direction = lorentz.recenter(end[None], start)[0, 1:]
        direction = direction / direction.norm().clamp_min(1e-300)
        s = torch.atanh(((y[:, 1:] @ direction) / y[:, 0]).clamp(-1.0 + 1e-15, 1.0 - 1e-15))
        s = torch.minimum(s.clamp_min(0.0), length)
        nearest = torch.cat([torch.cosh(s)[:, None], torch.sinh(s)[:, None] * direction], dim=1)
        along.append(s)
        away.append(lorentz.distance(nearest, y))
    return torch.stack(along, dim=1), torch.stack(away, dim=1)


def _root(covariance: Tensor) -> Tensor:
    values, axes = torch.linalg.eigh(covariance)
    return axes * values.clamp_min(0.0).sqrt().unsqueeze(-2)
