"""How good an embedding is: distances, neighbourhoods, labels.

`P` holds latent coordinates, one row each. With ``metric="poincare"`` they are points of the
Poincaré ball and distances are hyperbolic; with ``metric="euclidean"`` they are taken as they are.
Everything runs over blocks of rows, so that memory does not grow with the square of their number;
only the ranks of Shepard goodness are held for all pairs while there are few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.metrics.pairwise import nan_euclidean_distances

from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.datasets import TreeDistance
from hgplvm.geometry import lorentz

__all__ = [
    "batch_mixing",
    "continuity",
    "distance_correlation",
    "evaluate",
    "knn_accuracy",
    "reconstruction_error",
    "shepard_goodness",
    "trustworthiness",
]


def __dir__() -> list[str]:
    return sorted(__all__)


METRICS = ("poincare", "euclidean")

# entries of a block of distances, 32 MiB
BLOCK_ENTRIES = 2**22
# up to this many pairs (4,500 rows) ranks are those of the sorted distances
SORTED_PAIRS = 10_000_000
# above, those of the leading 22 bits of a float32: distances within .006% of each other tie
RANK_SHIFT, RANK_BINS = 9, 2**22


def distance_correlation(
    tree_distance: Array | TreeDistance, P: Array, *, metric: str = "poincare"
) -> float:
    """Pearson correlation of given distances with those of an embedding.

    This is what the paper calls distance correlation (it is not Székely's statistic).

    Parameters
    ----------
    tree_distance : array of shape (n, n), or TreeDistance
        True distances, for instance ``make_binary_tree(...).tree_distance``.
    P : array of shape (n, n_components)
        Embedding.
    metric : {"poincare", "euclidean"}, default="poincare"
        Distance between embedded points.

    Returns
    -------
    float
        Correlation over all pairs, 0 where one side is constant.
    """
    P = _points("distance_correlation", P, metric)
    truth = tree_distance
    if not isinstance(truth, TreeDistance):
        truth = check.check_points("distance_correlation", "tree_distance", truth, min_rows=2)
        truth = _unit_free(truth)
    if truth.shape != (len(P), len(P)):
        raise ValueError(
            f"The 'tree_distance' of distance_correlation must have shape {(len(P), len(P))}, one "
            f"row and column for each embedded point. Got {truth.shape} instead."
        )
    moments = Moments()
    for rows in _blocks(len(P)):
        above = _above(rows, len(P))
        moments = moments.and_of(truth[rows][above], _distances(P[rows], P, metric)[above])
    return moments.correlation


def shepard_goodness(Y: Array, P: Array, *, metric: str = "euclidean") -> float:
    """Spearman correlation of data distances with embedded distances: global structure.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data, compared by Euclidean distance; NaN is a missing entry, and rows are
        compared by the columns that both have.
    P : array of shape (n, n_components)
        Embedding.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points; the paper uses disk coordinates.

    Returns
    -------
    float
        Correlation over all pairs, 0 where one side is constant. Above 4,500 rows distances that
        differ by less than .006% count as equal.
    """
    Y, P = _data_and_points("shepard_goodness", Y, P, metric)
    return _spearman(
        lambda rows: _data_distances(Y[rows], Y),
        lambda rows: _distances(P[rows], P, metric),
        len(P),
    )


def trustworthiness(
    Y: Array, P: Array, *, n_neighbors: int = 5, metric: str = "euclidean"
) -> float:
    """Whether neighbours in the embedding are neighbours in the data, from 0 to 1.

    ``T = 1 - 2/(nk(2n-3k-1)) Σ_i Σ_{j ∈ N_k^P(i)} max(0, rank_Y(i, j) - k)``.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data, compared by Euclidean distance; NaN is a missing entry, and rows are
        compared by the columns that both have.
    P : array of shape (n, n_components)
        Embedding.
    n_neighbors : int, default=5
        Neighbours k, below n/2. Of rows at equal distance the first ones are nearer.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    """
    return _neighborhoods("trustworthiness", Y, P, n_neighbors, metric).trustworthiness


def continuity(Y: Array, P: Array, *, n_neighbors: int = 5, metric: str = "euclidean") -> float:
    """Whether neighbours in the data stay neighbours in the embedding, from 0 to 1.

    Trustworthiness with the roles of data and embedding exchanged.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data, compared by Euclidean distance; NaN is a missing entry, and rows are
        compared by the columns that both have.
    P : array of shape (n, n_components)
        Embedding.
    n_neighbors : int, default=5
        Neighbours k, below n/2. Of rows at equal distance the first ones are nearer.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    """
    return _neighborhoods("continuity", Y, P, n_neighbors, metric).continuity


def knn_accuracy(
    P: Array, labels: Array, *, n_neighbors: int = 5, metric: str = "euclidean"
) -> float:
    """Leave-one-out accuracy of the k nearest embedded neighbours' majority label.

    Parameters
    ----------
    P : array of shape (n, n_components)
        Embedding.
    labels : array of shape (n,)
        One label per row. Ties go to the label that sorts first, as in scikit-learn.
    n_neighbors : int, default=5
        Neighbours k, below n.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    """
    P = _points("knn_accuracy", P, metric)
    names, codes = np.unique(
        check.check_labels("knn_accuracy", "labels", labels, len(P)), return_inverse=True
    )
    check.check_number("knn_accuracy", "n_neighbors", n_neighbors, low=1, integer=True)
    if n_neighbors >= len(P):
        raise ValueError(
            f"The 'n_neighbors' parameter of knn_accuracy must be below n_samples = {len(P)}. "
            f"Got {n_neighbors} instead."
        )
    k = n_neighbors
    correct = 0
    for rows in _blocks(len(P)):
        nearest = _nearest(_without_self(_distances(P[rows], P, metric), rows), k)
        votes = np.zeros((len(nearest), len(names)), dtype=int)
        np.add.at(votes, (np.arange(len(nearest))[:, None], codes[nearest]), 1)
        correct += int((votes.argmax(axis=1) == codes[rows]).sum())
    return correct / len(P)


def batch_mixing(
    P: Array, batch: Array, *, n_neighbors: int = 30, metric: str = "poincare"
) -> float:
    """How well batches are mixed: neighbours from other batches, relative to chance.

    Parameters
    ----------
    P : array of shape (n, n_components)
        Embedding.
    batch : array of shape (n,)
        Batch of each row.
    n_neighbors : int, default=30
        Neighbours of a row that are looked at; at most n - 1.
    metric : {"poincare", "euclidean"}, default="poincare"
        Distance between embedded points.

    Returns
    -------
    float
        Mean share of a row's neighbours that are of other batches than its own, over the share of
        such pairs among all: 0 where batches are apart, 1 where they are mixed at random. Batches
        with different cells cannot reach 1.
    """
    P = _points("batch_mixing", P, metric)
    _, own = np.unique(
        check.check_labels("batch_mixing", "batch", batch, len(P)), return_inverse=True
    )
    check.check_number("batch_mixing", "n_neighbors", n_neighbors, low=1, integer=True)
    n, k = len(P), min(int(n_neighbors), len(P) - 1)
    shares = np.bincount(own) / n
    chance = (1.0 - np.square(shares).sum()) * n / (n - 1)
    if not chance > 0:
        raise ValueError("The 'batch' of batch_mixing must have two batches or more, and has one.")
    others = 0.0
    for rows in _blocks(n):
        near = _nearest(_without_self(_distances(P[rows], P, metric), rows), k)
        others += float((own[near] != own[rows, None]).sum())
    return float(others / (n * k) / chance)


def reconstruction_error(Y: Array, reconstruction: Array) -> float:
    """Root mean squared difference between data and their reconstruction.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data. Entries that are NaN are missing, and left out.
    reconstruction : array of shape (n, n_features)
        Decoded data, for instance ``model.inverse_transform(model.embedding_)``.

    Returns
    -------
    float
        In the units of the data.
    """
    found = check.check_points("reconstruction_error", "reconstruction", reconstruction)
    data = check.check_points("reconstruction_error", "Y", Y, allow_nan=True)
    if data.shape != found.shape:
        raise ValueError(
            "The 'Y' and 'reconstruction' of reconstruction_error must have the same shape. "
            f"Got {data.shape} and {found.shape} instead."
        )
    there = ~np.isnan(data)
    if not there.any():
        raise ValueError("The 'Y' of reconstruction_error has no entry that is not missing.")
    # squares of huge numbers overflow
    size = max(float(np.abs(data[there]).max()), float(np.abs(found[there]).max())) or 1.0
    return size * float(np.sqrt(np.mean((data[there] / size - found[there] / size) ** 2)))


def evaluate(
    Y: Array,
    P: Array,
    labels: Array | None = None,
    *,
    metric: str = "euclidean",
    n_neighbors: int = 5,
) -> dict[str, float]:
    """Trustworthiness, continuity, Shepard goodness and, with labels, k-NN accuracy.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data.
    P : array of shape (n, n_components)
        Embedding.
    labels : array of shape (n,), optional
        One label per row.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    n_neighbors : int, default=5
        Neighbours.

    Returns
    -------
    dict of str to float
    """
    near = _neighborhoods("evaluate", Y, P, n_neighbors, metric)
    scores = {
        "trustworthiness": near.trustworthiness,
        "continuity": near.continuity,
        "shepard_goodness": shepard_goodness(Y, P, metric=metric),
    }
    if labels is not None:
        scores["knn_accuracy"] = knn_accuracy(P, labels, n_neighbors=n_neighbors, metric=metric)
    return scores


# --- parts ----------------------------------------------------------------------------------


def _points(owner: str, P: object, metric: str) -> Array:
    check.check_option(owner, "metric", metric, METRICS)
    points = check.check_points(owner, "P", P, min_rows=2)
    if metric == "poincare" and (radius := np.linalg.norm(points, axis=1).max()) >= 1.0:
        raise ValueError(
            f"The 'P' of {owner} must hold Poincaré ball coordinates, of norm below 1; a row has "
            f"norm {radius:.4g}. Use metric='euclidean' for a flat embedding."
        )
    return points if metric == "poincare" else _unit_free(points)


def _unit_free(values: Array) -> Array:
    """Values over a power of two near the largest: nothing here depends on their unit.

    Squares of huge and of tiny numbers would leave the range of floats; a power of two changes no
    digit, so that equal distances stay equal.
    """
    return np.ldexp(values, -np.frexp(np.nanmax(np.abs(values)))[1])


def _data_and_points(owner: str, Y: object, P: object, metric: str) -> tuple[Array, Array]:
    points = _points(owner, P, metric)
    data = check.check_points(owner, "Y", Y, min_rows=2, allow_nan=True)
    if len(data) != len(points):
        raise ValueError(
            f"The 'Y' and 'P' of {owner} must have one row for each other. "
            f"Got {len(data)} and {len(points)} rows instead."
        )
    missing = np.isnan(data)
    if missing.all(axis=1).any():
        raise ValueError(
            f"Row {int(missing.all(axis=1).argmax())} of the 'Y' of {owner} has no entry that is "
            "not missing: leave it out."
        )
    if missing.any():  # sums of squares are to lose no digits to an offset
        data = data - np.nan_to_num(np.nanmean(np.where(missing.all(axis=0), 0.0, data), axis=0))
    return _unit_free(data), points


def _data_distances(a: Array, b: Array) -> Array:
    """Euclidean distances of rows; where entries are missing, of the others, scaled up.

    ``d² = D/|S| Σ_S (a - b)²`` over the columns S that both rows have.
    """
    if not (np.isnan(a).any() or np.isnan(b).any()):
        return cdist(a, b)
    found = nan_euclidean_distances(a, b)
    if np.isnan(found).any():
        raise ValueError(
            "Some rows of 'Y' have no column in common that is not missing, so that there is no "
            "distance between them: leave out rows or columns with few entries."
        )
    return np.asarray(found)


def _check_neighbors(owner: str, n_neighbors: int, n: int) -> int:
    check.check_number(owner, "n_neighbors", n_neighbors, low=1, integer=True)
    if n_neighbors >= n / 2:
        raise ValueError(
            f"The 'n_neighbors' parameter of {owner} must be below n_samples / 2 = {n / 2:g}. "
            f"Got {n_neighbors} instead."
        )
    return n_neighbors


def _distances(a: Array, b: Array, metric: str) -> Array:
    if metric == "euclidean":
        return cdist(a, b)
    x, y = (
        lorentz.pair_features(lorentz.from_chart(torch.from_numpy(np.ascontiguousarray(p))))
        for p in (a, b)
    )
    return lorentz.distance_from_chord(lorentz.pair_squared_chord(x, y)).numpy()


def _blocks(n: int) -> Iterator[slice]:
    """Blocks of rows that keep an [rows, n] array near `BLOCK_ENTRIES`."""
    height = max(1, BLOCK_ENTRIES // n)
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))


def _above(rows: slice, n: int) -> Array:
    """Which entries (i, j) of a block of rows have i < j: each pair once."""
    return np.arange(n)[None, :] > np.arange(rows.start, rows.stop)[:, None]


def _without_self(distance: Array, rows: slice) -> Array:
    distance[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
    return distance


# --- neighbourhoods -------------------------------------------------------------------------


class _Neighborhoods(NamedTuple):
    trustworthiness: float
    continuity: float


def _neighborhoods(owner: str, Y: Array, P: Array, n_neighbors: int, metric: str) -> _Neighborhoods:
    Y, P = _data_and_points(owner, Y, P, metric)
    n, k = len(P), _check_neighbors(owner, n_neighbors, len(P))
    intruding = missing = 0
    for rows in _blocks(n):
        data = _without_self(_data_distances(Y[rows], Y), rows)
        embedded = _without_self(_distances(P[rows], P, metric), rows)
        intruding += _rank_penalty(data, _nearest(embedded, k), k)
        missing += _rank_penalty(embedded, _nearest(data, k), k)
    unit = 2.0 / (n * k * (2.0 * n - 3.0 * k - 1.0))
    return _Neighborhoods(1.0 - intruding * unit, 1.0 - missing * unit)


def _nearest(distance: Array, k: int) -> Array:
    """Columns of the k smallest entries of each row [rows, k]; of equal ones the first."""
    last = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    chosen = distance < last
    tied = distance == last
    room = k - chosen.sum(axis=1, keepdims=True)
    chosen |= tied & (np.cumsum(tied, axis=1) <= room)
    return np.nonzero(chosen)[1].reshape(-1, k)


def _rank_penalty(distance: Array, chosen: Array, k: int) -> int:
    """``Σ_i Σ_j max(0, rank(i, j) - k)`` over the columns j that were chosen for each row i."""
    penalty = 0
    column = np.arange(distance.shape[1])[None, :]
    for j in chosen.T[:, :, None]:  # one neighbour of every row at a time: [rows, 1]
        own = np.take_along_axis(distance, j, axis=1)
        rank = 1 + (distance < own).sum(axis=1) + ((distance == own) & (column < j)).sum(axis=1)
        penalty += int(np.maximum(rank - k, 0).sum())
    return penalty


# --- correlations ---------------------------------------------------------------------------


class Moments(NamedTuple):
    """Count, means and centred second moments of pairs of numbers that come in parts."""

    n: int = 0
    mean_a: float = 0.0
    mean_b: float = 0.0
    aa: float = 0.0
    bb: float = 0.0
    ab: float = 0.0

    def and_of(self, a: Array, b: Array) -> Moments:
        """Moments of these and further pairs (Chan, Golub and LeVeque)."""
        if len(a) == 0:
            return self
        mean_a, mean_b = float(a.mean()), float(b.mean())
        a, b = a - mean_a, b - mean_b
        n = self.n + len(a)
        step_a, step_b = mean_a - self.mean_a, mean_b - self.mean_b
        weight = self.n * len(a) / n
        return Moments(
            n,
            self.mean_a + step_a * len(a) / n,
            self.mean_b + step_b * len(a) / n,
            self.aa + float(a @ a) + weight * step_a * step_a,
            self.bb + float(b @ b) + weight * step_b * step_b,
            self.ab + float(a @ b) + weight * step_a * step_b,
        )

    @property
    def correlation(self) -> float:
        """Pearson's coefficient; 0 where one side is constant."""
        rounding = self.n * (10.0 * np.finfo(float).eps) ** 2
        if self.aa <= rounding * self.mean_a**2 or self.bb <= rounding * self.mean_b**2:
            return 0.0  # constant but for rounding
        scale = float(np.sqrt(self.aa) * np.sqrt(self.bb))
        return float(np.clip(self.ab / scale, -1.0, 1.0)) if scale > 0 else 0.0


def _spearman(first: Callable[[slice], Array], second: Callable[[slice], Array], n: int) -> float:
    """Correlation of ranks over the pairs i < j of two matrices that come in blocks of rows."""

    def parts() -> Iterator[tuple[Array, Array]]:
        for rows in _blocks(n):
            above = _above(rows, n)
            yield first(rows)[above], second(rows)[above]

    if n * (n - 1) // 2 <= SORTED_PAIRS:
        a, b = (rankdata(np.concatenate(side)) for side in zip(*parts(), strict=True))
        return Moments().and_of(a, b).correlation
    counts = np.zeros((2, RANK_BINS), dtype=np.int64)
    for pair in parts():
        for count, values in zip(counts, pair, strict=True):
            count += np.bincount(_leading_bits(values), minlength=RANK_BINS)
    # the mean rank of those in a bin, as ties have in the exact ranks
    ranks = np.cumsum(counts, axis=1) - 0.5 * (counts - 1)
    moments = Moments()
    for a, b in parts():
        moments = moments.and_of(ranks[0][_leading_bits(a)], ranks[1][_leading_bits(b)])
    return moments.correlation


def _leading_bits(values: Array) -> Array:
    """Whole numbers in the order of the distances: floats of one sign are ordered as their bits."""
    return values.astype(np.float32).view(np.uint32) >> RANK_SHIFT
