"""Targets that follow the data: lengths of paths along a neighbour graph of averaged rows.

The model says that squared distances add up along a tree, and so do the lengths of paths over a
graph of nearest rows. Along a smooth curve they do, too, where squared distances grow faster and
where expression saturates they stop growing. Three things make paths follow the branches:

- noisy rows are averaged with their nearest rows first, weighted by their inverse noise variances;
- an edge counts in units of the spacing of the rows around its ends, which makes dense and sparse
  stretches of a branch alike, whatever the speed at which the data change there;
- parts of the graph that are not connected are joined by the shortest edge between them.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, shortest_path
from torch import Tensor

from hgplvm._init.mds import squared_distances
from hgplvm._typing import Array

__all__ = ["averaged", "nearest", "path_lengths", "path_targets"]

# neighbours of a row in the graph
GRAPH_NEIGHBORS = 15
# rows that are averaged, as a multiple of √N, and within bounds
AVERAGED, FEWEST, MOST = 1.3, 10, 80
# spacing: distance to this multiple of √N-th nearest row; and the power with which it counts
SPACING, EVENNESS = 3.0, 0.75
# numbers that are worked on at a time
CHUNK_ENTRIES = 2**22


def nearest(rows: Tensor, others: Tensor, count: int) -> Tensor:
    """Find the indices [n, count] of the nearest others of each row, in chunks of rows."""
    size = max(1, CHUNK_ENTRIES // len(others))
    parts = torch.split(rows, size)
    return torch.cat(
        [squared_distances(part, others).topk(count, largest=False).indices for part in parts]
    )


def averaged(rows: Tensor, others: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Average rows [n, r] with the nearest others [N, r] (themselves among these).

    Returns
    -------
    means : Tensor [n, r]
        Means, weighted by the inverse of the others' noise variances [N].
    noise : Tensor [n]
        Noise variances of the means.
    """
    count = min(max(FEWEST, min(MOST, round(AVERAGED * math.sqrt(len(others))))), len(others))
    near = nearest(rows, others, count)
    weights = 1.0 / noise[near]  # [n, count]
    total = weights.sum(1)
    means = (others[near] * weights[..., None]).sum(1) / total[:, None]
    return means, 1.0 / total


def path_targets(rows: Tensor) -> Tensor | None:
    """Path lengths between rows [n, n], in units of their median; None where all coincide."""
    lengths = torch.from_numpy(path_lengths(rows.double().cpu().numpy())).to(rows)
    n = len(lengths)
    above = torch.triu_indices(n, n, 1, device=lengths.device)
    values = lengths[above[0], above[1]]
    unit = values.median() if values.numel() else values.new_zeros(())
    unit = unit if unit > 0 else values.max() if values.numel() else unit
    return lengths / unit if unit > 0 else None


def path_lengths(rows: Array, n_neighbors: int = GRAPH_NEIGHBORS) -> Array:
    """Lengths [n, n] of the shortest paths over the graph of nearest rows, symmetric.

    With the spacing s of the rows, the edge between i and j has the length
    ``‖y_i - y_j‖/√(s_i s_j)^EVENNESS``.
    """
    n, tensor = len(rows), torch.from_numpy(rows)
    near = nearest(tensor, tensor, min(n_neighbors + 1, n)).numpy()
    start = np.repeat(np.arange(n), near.shape[1])
    edges = np.stack([start, near.ravel()])
    edges = np.concatenate([edges, _bridges(rows, edges)], axis=1)
    first, second = edges[:, edges[0] != edges[1]]
    lengths = np.sqrt(np.square(rows[first] - rows[second]).sum(1))
    spacing = _spacing(tensor)
    lengths /= (spacing[first] * spacing[second]) ** (0.5 * EVENNESS)
    if not lengths.any():
        return np.zeros((n, n))
    # a stored zero is no edge to scipy, and rows may coincide
    lengths = np.maximum(lengths, 1e-12 * lengths.max())
    graph = csr_array((lengths, (first, second)), shape=(n, n))
    found: Array = shortest_path(graph.maximum(graph.T), directed=False)
    return np.minimum(found, found.T)


def _spacing(rows: Tensor) -> Array:
    """Distance [n] to the (SPACING √n)-th nearest row."""
    count = min(len(rows), round(SPACING * math.sqrt(len(rows))))
    parts = torch.split(rows, max(1, CHUNK_ENTRIES // len(rows)))
    squares = [squared_distances(part, rows).kthvalue(count, dim=1).values for part in parts]
    spacing: Array = torch.cat(squares).sqrt().numpy()
    # rows that coincide have none of their own
    return np.maximum(spacing, 1e-6 * spacing.max()) if spacing.any() else np.ones_like(spacing)


def _bridges(rows: Array, edges: Array) -> Array:
    """Edges [2, b] that join the parts of a graph, the nearest part to the first one each time."""
    n = len(rows)
    graph = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))
    count, part = connected_components(graph, directed=False)
    found = []
    while count > 1:
        inside = np.flatnonzero(part == part[0])
        outside = np.flatnonzero(part != part[0])
        a, b = torch.from_numpy(rows[inside]), torch.from_numpy(rows[outside])
        near = nearest(b, a, 1)[:, 0]
        closest = int((b - a[near]).square().sum(1).argmin())
        found.append((inside[int(near[closest])], outside[closest]))
        part[part == part[outside[closest]]] = part[0]
        count -= 1
    return np.array(found, dtype=int).reshape(-1, 2).T
