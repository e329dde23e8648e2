"""Poincaré maps: neighbour embedding on the Poincaré ball.

The method of Klimovskaia, Lopez-Paz, Bottou and Nickel, "Poincaré maps for analyzing complex
hierarchies in single-cell data", Nature Communications 11, 2020, written from its description:

1. a k-nearest-neighbour graph, joined into one piece, with weights ``A_ij = exp(-d_ij/(σD))``;
2. relative forest accessibilities ``R = (I + L)⁻¹`` with L the graph's Laplacian: rows sum to 1;
3. ``q_ij ∝ exp(-γ d(p_i, p_j))`` over the embedding, with the hyperbolic distance d;
4. the symmetric Kullback-Leibler divergence ``Σ_ij (log R_ij - log q_ij)(R_ij - q_ij)``, minimised
   by Riemannian stochastic gradient descent.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components, laplacian, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from torch import Tensor

from hgplvm import _validation as check
from hgplvm._progress import progress
from hgplvm._typing import Array
from hgplvm.baselines._shared import EmbedderMixin, checked_data

__all__ = ["PoincareMaps"]

# accessibilities and probabilities below this have no logarithm worth following
SMALLEST = 1e-20
# points stay within this norm: hyperbolic radius 12.2
LARGEST_NORM = 1.0 - 1e-5
# rows of a batch, as a share of all, and at most
BATCH_SHARE, LARGEST_BATCH = 0.1, 512


class PoincareMaps(EmbedderMixin, BaseEstimator):
    """Poincaré maps: a neighbour embedding on the Poincaré ball.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the ball.
    n_neighbors : int, default=15
        Neighbours k in the graph.
    n_pca : int or None, default=None
        Principal components in which distances are taken, as the authors do for measured cells;
        None takes the columns as they are.
    sigma : float, default=1.0
        Scale of the graph's weights, ``exp(-distance/(sigma · n_features))``.
    gamma : float, default=2.0
        Scale of the embedding: points are related as ``exp(-gamma · distance)``.
    learning_rate : float, default=0.1
        Step of the gradient descent for a batch of 16 rows; it grows with the batch.
    max_iter : int, default=1000
        Passes over the data at most.
    tol : float, default=1e-4
        The fit ends when the loss of a pass changes by less.
    random_state : int, RandomState or None, default=None
        Seed of the start and of the order of the rows.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Points of the ball.
    loss_ : float
        Loss of the last pass, a row.
    n_iter_ : int
        Passes that were made.

    Notes
    -----
    Rows that are identical are neighbours at distance 0 and stay joined in the graph.

    Examples
    --------
    >>> from hgplvm.baselines import PoincareMaps
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> PoincareMaps(max_iter=20, random_state=0).fit_transform(tree.data).shape
    (140, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 15,
        n_pca: int | None = None,
        sigma: float = 1.0,
        gamma: float = 2.0,
        learning_rate: float = 0.1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_pca = n_pca
        self.sigma = sigma
        self.gamma = gamma
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Embed the rows of X.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data.
        y : ignored

        Returns
        -------
        self
        """
        self._check()
        data = checked_data(self, X, n_neighbors=self.n_neighbors)
        rng = check_random_state(self.random_state)
        if self.n_pca is not None:
            most = min(self.n_pca, *data.shape)
            data = PCA(most, svd_solver="full").fit_transform(data)
        access = forest_accessibility(neighbor_graph(data, self.n_neighbors, self.sigma))
        start = rng.uniform(-1e-4, 1e-4, size=(len(data), self.n_components))
        points = torch.from_numpy(start)
        target = torch.from_numpy(access)
        log_target = target.clamp_min(SMALLEST).log()
        size = int(np.clip(BATCH_SHARE * len(data), 1, LARGEST_BATCH))
        step = self.learning_rate * size / 16.0
        bar = progress(self.max_iter, what="PoincareMaps", verbose=self.verbose)
        losses: list[float] = []
        while len(losses) < self.max_iter:
            total = 0.0
            for rows in torch.split(torch.from_numpy(rng.permutation(len(data))), size):
                some = rows, target[rows], log_target[rows]
                loss, gradient = divergence(points, *some, self.gamma)
                points = descended(points, gradient, step)
                total += loss * len(rows)
            losses.append(total / len(data))
            bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
            bar.update()
            if len(losses) > 1 and abs(losses[-2] - losses[-1]) < self.tol:
                break
        bar.close()
        self.embedding_ = points.numpy()
        self.loss_ = losses[-1]
        self.n_iter_ = len(losses)
        return self

    def _check(self) -> None:
        owner = type(self).__name__
        for name in ("n_components", "n_neighbors", "max_iter"):
            check.check_number(owner, name, getattr(self, name), low=1, integer=True)
        for name in ("sigma", "gamma", "learning_rate"):
            check.check_number(owner, name, getattr(self, name), low=0, closed=False)
        check.check_number(owner, "tol", self.tol, low=0)
        if self.n_pca is not None:
            check.check_number(owner, "n_pca", self.n_pca, low=1, integer=True)


# --- the graph ------------------------------------------------------------------------------


def neighbor_graph(data: Array, n_neighbors: int, sigma: float) -> Any:
    """Weights ``exp(-d/(σD))`` of the k-nearest-neighbour graph, in one piece: sparse [n, n].

    Two rows are joined where one is among the neighbours of the other. Pieces that remain apart are
    joined by the shortest edges that make them one.
    """
    n = len(data)
    data = data - data.mean(0)  # far from the origin squared distances lose their digits
    distance, column = NearestNeighbors(n_neighbors=n_neighbors).fit(data).kneighbors()
    row = np.repeat(np.arange(n), n_neighbors)
    edges = np.stack([row, column.ravel()])
    length = distance.ravel()
    pieces, of = connected_components(_square(np.ones(len(length)), edges, n), directed=False)
    if pieces > 1:
        bridges, gaps = _bridges(data, of, pieces)
        edges, length = np.hstack([edges, bridges]), np.concatenate([length, gaps])
    weights = _square(np.exp(-length / (sigma * data.shape[1])), edges, n)
    return weights.maximum(weights.T)


def _square(values: Array, edges: Array, n: int) -> Any:
    return sparse.csr_matrix((values, (edges[0], edges[1])), shape=(n, n))


def _bridges(data: Array, piece: Array, pieces: int) -> tuple[Array, Array]:
    """Shortest edges [2, pieces - 1] that join the pieces, and their lengths."""
    gap = np.full((pieces, pieces), np.inf)
    ends = np.zeros((2, pieces, pieces), dtype=int)
    members = [np.flatnonzero(piece == p) for p in range(pieces)]
    for a in range(pieces):
        for b in range(a + 1, pieces):
            between = cdist(data[members[a]], data[members[b]])
            i, j = np.unravel_index(between.argmin(), between.shape)
            gap[a, b] = between[i, j]
            ends[:, a, b] = members[a][i], members[b][j]
    # a spanning tree reads 0 as "no edge", and more than k identical rows can fall into pieces; the
    # tree stays the same when all lengths grow by 1
    tree = minimum_spanning_tree(np.where(np.isfinite(gap), gap + 1.0, 0.0)).tocoo()
    return ends[:, tree.row, tree.col], gap[tree.row, tree.col]


def forest_accessibility(weights: Any) -> Array:
    """Relative forest accessibilities ``R = (I + L)⁻¹`` [n, n]: positive, rows that sum to 1."""
    n = weights.shape[0]
    matrix = torch.from_numpy(np.eye(n) + laplacian(weights).toarray())
    inverse: Array = torch.cholesky_inverse(torch.linalg.cholesky(matrix)).numpy()
    return inverse


# --- the loss -------------------------------------------------------------------------------


def divergence(
    points: Tensor, rows: Tensor, target: Tensor, log_target: Tensor, gamma: float
) -> tuple[float, Tensor]:
    """Symmetric divergence of some rows, a row, and its Euclidean gradient for all points.

    With ``x = 2δ/(αβ)``, ``δ = ‖u - v‖²``, ``α = 1 - ‖u‖²`` and ``β = 1 - ‖v‖²`` the distance is
    ``d = arcosh(1 + x) = log(1 + x + √(x(x+2)))``.
    """
    u = points[rows]
    alpha = 1.0 - u.square().sum(-1, keepdim=True)  # [b, 1]
    beta = 1.0 - points.square().sum(-1)  # [n]
    delta = torch.cdist(u, points, compute_mode="donot_use_mm_for_euclid_dist").square()
    x = 2.0 * delta / (alpha * beta)
    root = (x * (x + 2.0)).sqrt()
    logits = -gamma * torch.log1p(x + root)
    log_q = logits.log_softmax(-1)
    q = log_q.exp()
    ratio = log_target - log_q
    loss = float((ratio * (target - q)).sum() / len(rows))

    # by_logit = q∘(g - ⟨g, q⟩) with g = ∂loss/∂q = -ratio - (target - q)/q
    h = q - target - q * ratio
    by_logit = (h - q * h.sum(-1, keepdim=True)) / len(rows)
    # ∂d/∂x = 1/√(x(x+2)); a pair at distance 0 has no direction
    by_x = torch.where(root > 0, -gamma * by_logit / root, 0.0)
    # x = 2δ/(αβ): ∂x/∂u = (4/(αβ))(u - v) + (2x/α) u, and the same for v with β
    pull = 4.0 * by_x / (alpha * beta)
    growth = 2.0 * by_x * x
    gradient = (pull.sum(0) + growth.sum(0) / beta)[:, None] * points - pull.T @ u
    by_u = (pull.sum(-1, keepdim=True) + growth.sum(-1, keepdim=True) / alpha) * u - pull @ points
    return loss, gradient.index_add_(0, rows, by_u)


def descended(points: Tensor, gradient: Tensor, step: float) -> Tensor:
    """Step of Riemannian gradient descent: the metric of the ball is ``4/(1 - ‖p‖²)²``."""
    metric = (1.0 - points.square().sum(-1, keepdim=True)).square() / 4.0
    moved = points - step * metric * gradient
    norm = moved.norm(dim=-1, keepdim=True)
    return torch.where(norm > LARGEST_NORM, moved * (LARGEST_NORM / norm), moved)
