"""How good an embedding is: distances, neighbourhoods, labels.

`P` holds latent coordinates, one row each. With ``metric="poincare"`` they are points of the
Poincaré ball and distances are hyperbolic; with ``metric="euclidean"`` they are taken as they are.
Neighbours are found in blocks of rows; distances of all pairs are held only where a
correlation needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist, pdist
from scipy.stats import rankdata

from hgplvm import _validation as check
from hgplvm.geometry import lorentz

__all__ = [
    "continuity",
    "distance_correlation",
    "evaluate",
    "knn_accuracy",
    "shepard_goodness",
    "trustworthiness",
]

Array = np.ndarray[Any, np.dtype[Any]]
METRICS = ("poincare", "euclidean")


def distance_correlation(tree_distance: Array, P: Array, *, metric: str = "poincare") -> float:
    """Pearson correlation of given distances with those of an embedding.

    This is what the paper calls distance correlation (it is not Székely's statistic).

    Parameters
    ----------
    tree_distance : array of shape (n, n)
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
    truth = check.check_points("distance_correlation", "tree_distance", tree_distance, min_rows=2)
    if truth.shape != (len(P), len(P)):
        raise ValueError(
            f"The 'tree_distance' of distance_correlation must have shape {(len(P), len(P))}, one "
            f"row and column for each embedded point. Got {truth.shape} instead."
        )
    return _pearson(_pairs(lambda rows: truth[rows].copy(), len(P)), _embedded(P, metric))


def shepard_goodness(Y: Array, P: Array, *, metric: str = "euclidean") -> float:
    """Spearman correlation of data distances with embedded distances: global structure.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data, compared by Euclidean distance.
    P : array of shape (n, n_components)
        Embedding.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points; the paper uses disk coordinates.
    """
    Y, P = _data_and_points("shepard_goodness", Y, P, metric)
    return _pearson(rankdata(pdist(Y)), rankdata(_embedded(P, metric)))


def trustworthiness(
    Y: Array, P: Array, *, n_neighbors: int = 5, metric: str = "euclidean"
) -> float:
    """Whether neighbours in the embedding are neighbours in the data, from 0 to 1.

    ``T = 1 - 2/(nk(2n-3k-1)) Σ_i Σ_{j ∈ N_k^P(i)} max(0, rank_Y(i, j) - k)``.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data, compared by Euclidean distance.
    P : array of shape (n, n_components)
        Embedding.
    n_neighbors : int, default=5
        Neighbours k, below n/2.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    """
    Y, P = _data_and_points("trustworthiness", Y, P, metric)
    k = _check_neighbors("trustworthiness", n_neighbors, len(P))
    penalty = 0
    for rows in _blocks(len(P)):
        penalty += _rank_penalty(cdist(Y[rows], Y), _distances(P[rows], P, metric), rows, k)
    return _neighbourhood_score(penalty, len(P), k)


def continuity(Y: Array, P: Array, *, n_neighbors: int = 5, metric: str = "euclidean") -> float:
    """Whether neighbours in the data stay neighbours in the embedding, from 0 to 1.

    Trustworthiness with the roles of data and embedding exchanged.

    Parameters
    ----------
    Y : array of shape (n, n_features)
        Data, compared by Euclidean distance.
    P : array of shape (n, n_components)
        Embedding.
    n_neighbors : int, default=5
        Neighbours k, below n/2.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    """
    Y, P = _data_and_points("continuity", Y, P, metric)
    k = _check_neighbors("continuity", n_neighbors, len(P))
    penalty = 0
    for rows in _blocks(len(P)):
        penalty += _rank_penalty(_distances(P[rows], P, metric), cdist(Y[rows], Y), rows, k)
    return _neighbourhood_score(penalty, len(P), k)


def knn_accuracy(
    P: Array, labels: Array, *, n_neighbors: int = 5, metric: str = "euclidean"
) -> float:
    """Leave-one-out accuracy of the k nearest embedded neighbours' majority label.

    Parameters
    ----------
    P : array of shape (n, n_components)
        Embedding.
    labels : array of shape (n,)
        One label a row. Ties go to the label that sorts first, as in scikit-learn.
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
        distance = _without_self(_distances(P[rows], P, metric), rows)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
        votes = np.zeros((len(nearest), len(names)), dtype=int)
        np.add.at(votes, (np.arange(len(nearest))[:, None], codes[nearest]), 1)
        correct += int((votes.argmax(axis=1) == codes[rows]).sum())
    return correct / len(P)


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
        One label a row.
    metric : {"poincare", "euclidean"}, default="euclidean"
        Distance between embedded points.
    n_neighbors : int, default=5
        Neighbours.

    Returns
    -------
    dict of str to float
    """
    near = {"n_neighbors": n_neighbors, "metric": metric}
    scores = {
        "trustworthiness": trustworthiness(Y, P, **near),  # type: ignore[arg-type]
        "continuity": continuity(Y, P, **near),  # type: ignore[arg-type]
        "shepard_goodness": shepard_goodness(Y, P, metric=metric),
    }
    if labels is not None:
        scores["knn_accuracy"] = knn_accuracy(P, labels, **near)  # type: ignore[arg-type]
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
    return points


def _data_and_points(owner: str, Y: object, P: object, metric: str) -> tuple[Array, Array]:
    points = _points(owner, P, metric)
    data = check.check_points(owner, "Y", Y, min_rows=2)
    if len(data) != len(points):
        raise ValueError(
            f"The 'Y' and 'P' of {owner} must have one row for each other. "
            f"Got {len(data)} and {len(points)} rows instead."
        )
    return data, points


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


def _pairs(block: Callable[[slice], Array], n: int) -> Array:
    """Entries i < j of a matrix that comes in blocks of rows."""
    parts = []
    for rows in _blocks(n):
        above = np.arange(n)[None, :] > np.arange(rows.start, rows.stop)[:, None]
        parts.append(block(rows)[above])
    return np.concatenate(parts)


def _embedded(P: Array, metric: str) -> Array:
    """Distances of all pairs i < j of embedded points."""
    return _pairs(lambda rows: _distances(P[rows], P, metric), len(P))


def _blocks(n: int) -> Iterator[slice]:
    """Blocks of rows that keep an [rows, n] array near 16 million entries."""
    height = max(1, 16_000_000 // n)
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))


def _without_self(distance: Array, rows: slice) -> Array:
    distance[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
    return distance


def _rank_penalty(ranking: Array, choosing: Array, rows: slice, k: int) -> int:
    """``Σ_i Σ_j max(0, rank(i, j) - k)`` over the neighbours j of i that `choosing` chooses."""
    order = np.argsort(_without_self(ranking, rows), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
    nearest = np.argsort(_without_self(choosing, rows), axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(ranks, nearest, axis=1)
    return int(np.maximum(chosen - k, 0).sum())


def _neighbourhood_score(penalty: int, n: int, k: int) -> float:
    return 1.0 - penalty * (2.0 / (n * k * (2.0 * n - 3.0 * k - 1.0)))


def _pearson(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm > 0 else 0.0
