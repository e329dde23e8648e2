"""Is there a tree in the data, or would a plane do? One verdict from four questions.

All of them look at a sample of the rows, in the directions of the signal (of counts, at the scores
that a count model begins with), and the first three at the means of groups of similar rows. Each
group gives two means, of disjoint halves of its rows, so that products of one with the other are
free of noise.

1. **Does a plane hold the means?** The share of their variance beyond their best plane, which one
   half finds and both halves judge.
2. **Do distances add up as on a tree?** The four-point condition: of the three sums
   ``d_ij + d_kl, d_ik + d_jl, d_il + d_jk`` the two largest are equal on a tree (Gromov's δ is 0).
   With squared distances, which add up along the branches of a tree, the *defect* is
   ``Σ(largest - middle)/Σ(largest - smallest)`` over quartets of means: 0 on a tree, about 0.38 on
   planes, curved sheets and Gaussian clouds. Noise adds the same to all three sums and cancels. The
   standard error is a jackknife over groups of means. The defect of path lengths along a neighbour
   graph must be small, too.
3. **Is there a hierarchy?** A star of equidistant clusters is a tree as well. Inner edges, as a
   share of the mean squared distance, tell it from one with forks of forks.
4. **Does a curved space predict better?** Latents are found from half of the columns, in curved and
   in flat space by the same starts, and a fifth of the rows predicts the other half of the columns
   of all others, by the Gaussian process over these latents. The *gain* is the difference in log
   density, curved less flat; several splits and all rows are as many witnesses as they are
   independent.

The data are curved where no gate is failed and where the gain (if it is positive) and the defect
together are further from what flat data give than chance explains, at the 5% level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans

from hgplvm._init.candidates import Candidates
from hgplvm._signal import biwhitened
from hgplvm._typing import Array
from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic, Manifold

__all__ = ["ROWS", "UNDECIDED", "Curvature", "judge"]

# rows that are looked at
ROWS = 300
# gates: least share of the means' variance beyond a plane, fewest groups, largest defect of path
# lengths, and least hierarchy: (1 - defect) times inner edges as a share of the mean distance
BEYOND_PLANE, FEWEST_GROUPS, MOST_PATH_DEFECT, LEAST_HIERARCHY = 0.05, 5, 0.10, 0.42
# defect of flat data, its least standard error, and the z score that the verdict asks for
FLAT_DEFECT, LEAST_ERROR, ENOUGH = 0.38, 0.05, 1.7
# groups whose means are taken, how often, quartets, and how far apart their members must be, as a
# share of the median squared distance
MEANS, REPEATS, QUARTETS, NEAR = 24, 8, 3000, 0.25
# groups of the jackknife at most
WITNESSES = 12
# the same for path lengths
PATH_MEANS, PATH_NEIGHBORS, PATH_REPEATS = 48, 5, 3
# the gain: pairs of splits, folds of the rows, sizes of curved starts, length scales in units of
# the size, and shares of noise
SPLITS, FOLDS = 3, 5
SCALES, LENGTHS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0), (1.5, 4.0, 12.0, 50.0)
SHARES = (0.95, 0.9, 0.8, 0.65, 0.5, 0.3, 0.1, 0.03)
# reason where distances alone do not decide
UNDECIDED = "undecided: distances alone do not tell"
# columns up to which they are turned; with fewer than so many there are no halves
TURNED_COLUMNS = 300
FEWEST_COLUMNS, FEWEST_ROWS = 4, 40


@dataclass(frozen=True)
class Curvature:
    """Whether data call for curvature, and the evidence.

    Attributes
    ----------
    curved : bool
        The verdict.
    reason : str
        The same in words.
    z : float
        How far gain and defect together are from those of flat data, in standard errors.
    gain, gain_error : float
        Mean difference of the log density of a held-out entry, curved less flat, in nats, and its
        standard error; NaN where it was not computed.
    gains : array of shape (n_splits,)
        The same for each split.
    defect, defect_error : float
        Defect of the four-point condition (0 on a tree, about 0.38 for flat data), and its standard
        error.
    path_defect : float
        That of path lengths.
    hierarchy : float
        Inner edges as a share of the mean squared distance, less for a larger defect; near 0 for a
        star.
    beyond_plane : float
        Share of the variance of group means that no plane holds.
    n_groups : int
        Distinct groups of rows.
    scale, scale_low, scale_high : float
        Median distance between the latents of the model in curvature radii, with its 90% interval;
        NaN without a model.
    """

    curved: bool
    reason: str
    z: float
    gain: float
    gain_error: float
    gains: Array = field(repr=False)
    defect: float
    defect_error: float
    path_defect: float
    hierarchy: float
    beyond_plane: float
    n_groups: int
    scale: float = math.nan
    scale_low: float = math.nan
    scale_high: float = math.nan

    def __str__(self) -> str:
        lines = [self.reason]
        if math.isfinite(self.gain):
            lines.append(
                f"held-out gain of curvature {self.gain:+.4f} ± {self.gain_error:.4f} nats an entry"
            )
        if math.isfinite(self.defect):
            lines.append(
                f"four-point defect {self.defect:.2f} ± {self.defect_error:.2f} "
                f"(tree 0, flat data about {FLAT_DEFECT:g}), hierarchy {self.hierarchy:.2f}"
            )
        if math.isfinite(self.scale):
            lines.append(
                f"median distance {self.scale:.2f} curvature radii "
                f"({self.scale_low:.2f} to {self.scale_high:.2f})"
            )
        return "\n".join(lines)


def judge(
    rows: Array, scores: Array | None = None, *, seed: int = 0, quick: bool = False
) -> Curvature:
    """Say whether rows call for curvature.

    Parameters
    ----------
    rows : array of shape (n, d)
        Centred rows; of more than ROWS, a sample is looked at. NaN is a missing entry.
    scores : array of shape (m, r), optional
        Rows in the directions of the signal, where these are known, for the first three questions.
    seed : int
        Seed of all choices.
    quick : bool
        Whether to leave out the gain; what is then not decided counts as flat, with this reason.
    """
    random = np.random.RandomState(seed)
    rows = np.asarray(rows, dtype=float)
    rows = rows[random.permutation(len(rows))[:ROWS]]
    rows = rows - _column_means(rows)
    rows = np.nan_to_num(rows)
    rows = rows[:, rows.std(axis=0) > 0]
    gain, gain_error, gains = math.nan, math.nan, np.zeros(0)
    if len(rows) < FEWEST_ROWS or rows.shape[1] < 3:
        what = "rows" if len(rows) < FEWEST_ROWS else "columns"
        return Curvature(
            False,
            f"too few {what} to tell: a plane will do",
            0.0,
            gain=gain,
            gain_error=gain_error,
            gains=gains,
            defect=math.nan,
            defect_error=math.nan,
            path_defect=math.nan,
            hierarchy=math.nan,
            beyond_plane=math.nan,
            n_groups=0,
        )
    rows = rows / np.sqrt(np.square(rows).mean())
    scores = _scores(rows) if scores is None else np.asarray(scores, dtype=float)
    pairs = [_means(scores, MEANS, random) for _ in range(REPEATS)]
    pairs = [pair for pair in pairs if len(pair[0]) >= FEWEST_GROUPS]
    defect = error = edge = path = beyond = math.nan
    n_groups = 0
    if pairs:
        beyond = _beyond_plane(pairs)
        n_groups, witnesses = _groups(pairs)
        defect, error, edge = _four_points(pairs, witnesses, random)
        path = _path_defect(scores, random)
    hierarchy = (1.0 - defect) * edge
    gates = {
        "a plane holds these data": beyond >= BEYOND_PLANE,
        "a plane explains these data as well: they are a few groups": n_groups >= FEWEST_GROUPS,
        "a plane explains these data as well: paths in them do not branch like a tree": (
            path <= MOST_PATH_DEFECT
        ),
        "a plane explains these data as well: their groups form a star, not a hierarchy": (
            hierarchy >= LEAST_HIERARCHY
        ),
    }
    failed = next((words for words, passed in gates.items() if not passed), "")
    # NaN compares false, so that a defect that cannot be computed fails a gate
    by_defect = (FLAT_DEFECT - defect) / max(error, LEAST_ERROR) if math.isfinite(error) else 0.0
    gain_z = 0.0
    if rows.shape[1] >= FEWEST_COLUMNS and not quick:
        gain, gain_error, gains = _gain(rows, seed)
        gain_z = gain / max(gain_error, 1e-300)
    # half of few columns finds rows badly, so that a loss says little
    z = (max(gain_z, 0.0) + by_defect) / math.sqrt(2.0)
    curved = not failed and z >= ENOUGH
    reason = failed or "a plane explains these data as well"
    if curved:
        reason = f"curved by {z:.1f} standard errors"
    elif quick and not failed:
        reason = UNDECIDED
    return Curvature(
        curved,
        reason,
        z,
        gain=gain,
        gain_error=gain_error,
        gains=gains,
        defect=defect,
        defect_error=error,
        path_defect=path,
        hierarchy=hierarchy,
        beyond_plane=beyond,
        n_groups=n_groups,
    )


def _column_means(rows: Array) -> Array:
    """Means of the entries that there are; 0 for a column without any."""
    seen = ~np.isnan(rows)
    return np.asarray(np.where(seen, rows, 0.0).sum(0) / np.maximum(seen.sum(0), 1))


def _scores(rows: Array) -> Array:
    """Rows in the directions of the signal; of clean data in those that are there at all."""
    axes = biwhitened(rows) if min(rows.shape) >= 20 else None
    if axes is not None and axes.shape[1]:
        return np.asarray(rows @ np.linalg.qr(axes)[0])
    _, sizes, turned = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(rows @ turned[: int((sizes > 1e-3 * sizes[0]).sum())].T)


# --- means of groups ------------------------------------------------------------------------


def _means(scores: Array, n_means: int, random: np.random.RandomState) -> tuple[Array, Array]:
    """Two means of each of m groups of similar rows, from disjoint halves of them."""
    n_means = max(min(n_means, len(scores) // 8), FEWEST_GROUPS)
    n_means = min(n_means, len(np.unique(scores, axis=0)))
    kmeans = KMeans(n_means, n_init=1, random_state=random.randint(2**30))
    labels = kmeans.fit(scores).labels_
    first, second = [], []
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        half = len(members) // 2
        if len(members) >= 4:
            first.append(scores[members[:half]].mean(0))
            second.append(scores[members[half:]].mean(0))
    return np.array(first), np.array(second)


def _squared(means: Array) -> Array:
    return np.asarray(np.square(means[:, None] - means[None]).sum(2))


def _crossed(first: Array, second: Array) -> Array:
    """Squared distances from two sets of means whose noise is independent: unbiased."""
    return np.asarray(((first[:, None] - first[None]) * (second[:, None] - second[None])).sum(2))


def _beyond_plane(pairs: list[tuple[Array, Array]]) -> float:
    """Share of the means' variance, without noise, that the plane of the other half misses."""
    shares = []
    for first, second in pairs:
        for a, b in ((first, second), (second, first)):
            u, v = a - a.mean(0), b - b.mean(0)
            axes = np.linalg.svd(u, full_matrices=False)[2]
            along = ((u @ axes.T) * (v @ axes.T)).sum(0)
            shares.append(1.0 - along[:2].sum() / max(along.sum(), 1e-12))
    return float(np.mean(shares))


def _groups(pairs: list[tuple[Array, Array]]) -> tuple[int, Array]:
    """Count distinct groups, and sort all means into at most WITNESSES of them."""
    centres = np.concatenate([0.5 * (a + b) for a, b in pairs])
    square = _squared(centres)
    if not (square > 0).any():
        return 1, np.ones(len(centres), dtype=int)
    tree = linkage(squareform(np.sqrt(square), checks=False), "average")
    labels = fcluster(tree, math.sqrt(NEAR * np.median(square[square > 0])), "distance")
    count = len(np.unique(labels))
    return count, labels if count <= WITNESSES else fcluster(tree, WITNESSES, "maxclust")


# --- the four-point condition ---------------------------------------------------------------


def _quartets(n: int, random: np.random.RandomState) -> Array:
    found = np.array(list(combinations(range(n), 4)))
    return found[random.permutation(len(found))[:QUARTETS]]


def _sums(distance: Array, quartets: Array) -> Array:
    """``d_ij + d_kl, d_ik + d_jl, d_il + d_jk`` of each quartet [n, 3]."""
    i, j, k, m = quartets.T
    return np.stack(
        [
            distance[i, j] + distance[k, m],
            distance[i, k] + distance[j, m],
            distance[i, m] + distance[j, k],
        ],
        axis=1,
    )


def _nearest_pair(distance: Array, quartets: Array) -> Array:
    """Least distance between two members of each quartet."""
    pairs = [distance[quartets[:, a], quartets[:, b]] for a, b in combinations(range(4), 2)]
    return np.asarray(np.min(pairs, axis=0))


def _four_points(
    pairs: list[tuple[Array, Array]], witnesses: Array, random: np.random.RandomState
) -> tuple[float, float, float]:
    """Defect, its jackknife standard error, and inner edges as a share of the mean distance.

    One half says which sum is the largest, the other how large.
    """
    parts, at = [], 0
    for first, second in pairs:
        n = len(first)
        own = witnesses[at : at + n]
        at += n
        quartets, crossed = _quartets(n, random), _crossed(first, second)
        apart = NEAR * np.median(crossed[np.triu_indices(n, 1)])
        kept = _nearest_pair(crossed, quartets) >= apart
        gaps = []
        for a, b in ((first, second), (second, first)):
            order = _sums(_squared(a), quartets).argsort(1)
            sums = np.take_along_axis(_sums(_squared(b), quartets), order, 1)
            gaps.append((sums[:, 2] - sums[:, 1], sums[:, 2] - sums[:, 0]))
        upper, whole = np.mean(gaps, axis=0)
        mean = _sums(crossed, quartets).sum(1) / 6.0
        parts.append(np.column_stack([upper, whole, mean, own[quartets]])[kept])
    table = np.concatenate(parts)

    def ratios(rows: Array) -> tuple[float, float]:
        if len(rows) <= 20:
            return math.nan, math.nan
        upper, whole, mean = rows[:, :3].sum(0)
        return float(upper / whole), float((whole - 0.5 * upper) / mean)

    defect, edge = ratios(table)
    names = np.unique(witnesses)
    left = np.array([ratios(table[(table[:, 3:] != name).all(1)])[0] for name in names])
    error = math.sqrt((len(left) - 1) / len(left) * float(np.square(left - left.mean()).sum()))
    return defect, error, edge


def _path_defect(scores: Array, random: np.random.RandomState) -> float:
    """Compute the defect of path lengths of squared distances along a neighbour graph of means."""
    upper = whole = 0.0
    for _ in range(PATH_REPEATS):
        first, second = _means(scores, PATH_MEANS, random)
        n = len(first)
        if n <= FEWEST_GROUPS:
            return math.nan
        distance = _squared(0.5 * (first + second))
        edges = np.maximum(_crossed(first, second), 1e-3 * np.median(distance))
        near = np.argsort(distance, axis=1)[:, 1 : PATH_NEIGHBORS + 1]
        graph = np.zeros((n, n))
        rows = np.repeat(np.arange(n), near.shape[1])
        graph[rows, near.ravel()] = edges[rows, near.ravel()]
        tree = minimum_spanning_tree(edges).toarray()
        graph = np.maximum(np.maximum(graph, graph.T), np.maximum(tree, tree.T))
        paths = dijkstra(graph, directed=False)
        paths = np.where(np.isfinite(paths), paths, paths[np.isfinite(paths)].max())
        quartets = _quartets(n, random)
        apart = NEAR * np.median(paths)
        sums = np.sort(_sums(paths, quartets), axis=1)[_nearest_pair(paths, quartets) >= apart]
        upper += float((sums[:, 2] - sums[:, 1]).sum())
        whole += float((sums[:, 2] - sums[:, 0]).sum())
    return upper / whole if whole > 0 else math.nan


# --- the gain -------------------------------------------------------------------------------


def _gain(rows: Array, seed: int) -> tuple[float, float, Array]:
    """Mean gain of an entry, its standard error, and the gain of each split."""
    random = np.random.RandomState(seed)
    n, d = rows.shape
    gains = []
    for split in range(SPLITS):
        turned = _turned(rows, random)
        halves = turned[:, : d // 2], turned[:, d // 2 :]
        for seen, hidden in (halves, halves[::-1]):
            starts = list(_starts(seen, seed + split))
            hidden = hidden / np.sqrt(np.square(hidden).mean())
            gain = np.zeros(n)
            for known in np.array_split(random.permutation(n), FOLDS):
                others = np.setdiff1d(np.arange(n), known)
                density = _densities(starts, hidden, known, others)
                gain[others] += (density["curved"] - density["flat"]) / (FOLDS - 1)
            gains.append(gain)
    table = np.array(gains)
    by_split, by_row = table.mean(1), table.mean(0)
    error = math.sqrt(by_split.var(ddof=1) / len(table) + by_row.var() / n)
    return float(table.mean()), error, by_split


def _turned(rows: Array, random: np.random.RandomState) -> Array:
    """Rows in randomly turned columns: halves of the columns of codes would know different nodes.

    Many columns are put into another order instead.
    """
    d = rows.shape[1]
    if d > TURNED_COLUMNS:
        return rows[:, random.permutation(d)]
    return np.asarray(rows @ np.linalg.qr(random.standard_normal((d, d)))[0])


def _starts(seen: Array, seed: int) -> Iterator[tuple[str, Array]]:
    """Correlations [n, n] at starts in curved and in flat space."""
    scores = _scores(seen)
    data = torch.from_numpy(scores / np.sqrt(np.square(scores).mean()))
    spaces: tuple[tuple[str, Manifold, tuple[float, ...]], ...] = (
        ("curved", Hyperbolic(), SCALES),
        ("flat", Flat(), (1.0,)),
    )
    for name, manifold, scales in spaces:
        covariance = CovarianceFunction(manifold, Exponential())
        candidates = Candidates(
            data,
            2,
            covariance,
            kinds=("pca", "mds"),
            scales=scales,
            length_scale=None,
            n_columns=data.shape[1],
            generator=torch.Generator().manual_seed(seed),
        )
        for scale, latents in candidates.probes():
            distance = manifold.pairwise_distance(latents)
            for length in LENGTHS:
                values = {"variance": 1.0, "length_scale": length * scale}
                yield name, covariance.at(values).correlation(distance).numpy()


def _densities(
    starts: list[tuple[str, Array]], hidden: Array, known: Array, others: Array
) -> dict[str, Array]:
    """Log density of the other rows' entries under each space's likeliest start, by row."""
    mean = hidden[known].mean(0)
    best: dict[str, tuple[float, Array]] = {}
    for name, correlation in starts:
        fit = _likeliest(hidden[known] - mean, correlation[np.ix_(known, known)])
        value, variance, noise, values, vectors, projected = fit
        if name not in best or value > best[name][0]:
            cross = variance * correlation[np.ix_(others, known)] @ vectors
            predicted = cross @ (projected / values[:, None]) + mean
            spread = variance + noise - (np.square(cross) / values).sum(1)
            spread = np.maximum(spread, 1e-3 * noise + 1e-12)
            misfit = np.square(hidden[others] - predicted).mean(1)
            best[name] = (value, -0.5 * (misfit / spread + np.log(spread)))
    return {name: found[1] for name, found in best.items()}


def _likeliest(data: Array, correlation: Array) -> tuple[float, float, float, Array, Array, Array]:
    """Profile likelihood over the share of noise; value, σ, β⁻¹, and C in its eigenvectors."""
    square = float(np.square(data).mean())
    values, vectors = np.linalg.eigh(correlation)
    projected = vectors.T @ data
    squares = np.square(projected).sum(1)
    best: tuple[float, float, float, Array] | None = None
    for share in SHARES:
        variance = square * (1.0 - share) / max(1.0 - correlation.mean(), 1e-6)
        noise = max(square * share, 1e-300)
        spread = variance * np.maximum(values, 0.0) + noise
        value = -0.5 * float(np.log(spread).mean() + (squares / spread).sum() / data.size)
        if best is None or value > best[0]:
            best = (value, variance, noise, spread)
    assert best is not None
    return (*best, vectors, projected)
