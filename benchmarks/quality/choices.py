"""The simulations on which parameters were chosen: none of them is reported elsewhere.

`make_cells` on other trees, depths and numbers of genes than `truth.py` has, with seed 100; and
four simulations of other kinds, whose depth may follow the tree and whose squared distances are no
tree metric: independent levels of the genes at the nodes; bumps over a layout of the tree in the
plane; multiplicative steps along branches; smooth random programmes with random loadings.
Correlation of embedded with tree distances: mean and least over the settings of each kind, and
t-SNE of 50 principal components beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import pdist, squareform
from sklearn.decomposition import PCA
from sklearn.manifold import MDS, TSNE

import hgplvm
from hgplvm.datasets import make_cells

CELLS = 600
TREES = {
    "line": [(0, 1), (1, 2)],
    "fork": [(0, 1), (1, 2), (1, 3)],
    "multi": [(0, 1), (1, 2), (1, 3), (1, 4)],
    "five": [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)],
    "seven": [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)],
}
OTHER_TREES = {
    "line": [("a", "b", 1.0), ("b", "c", 1.5)],
    "fork": [("a", "b", 1.5), ("b", "c", 1.0), ("b", "d", 0.7)],
    "star": [("a", "b"), ("a", "c"), ("a", "d")],
    "six": [("r", "a", 0.7), ("a", "b"), ("a", "c", 0.6), ("c", "d"), ("c", "e", 1.3), ("a", "f")],
    "deep": ["ra", "ab", "ac", "bd", "be", "cf", "cg", "gh", "gi"],
}
PROFILES = (
    {"depth": 1500, "depth_spread": 0.5},
    {"depth": 500, "depth_spread": 0.6},
    {"depth": 900, "depth_spread": 0.5, "depth_trend": -0.5, "signal": 0.8, "dropout": 0.1},
)
N_GENES = 606
STEPS = 50


class Places:
    """Cells at random places of a tree whose branches have random lengths."""

    def __init__(self, edges: list[tuple[int, int]], rng: np.random.Generator) -> None:
        self.edges, self.n_nodes = edges, len(edges) + 1
        self.start, self.end = np.array(edges).T
        self.length = rng.uniform(0.7, 1.4, len(edges))
        self.branch = rng.choice(len(edges), CELLS, p=self.length / self.length.sum())
        self.step = rng.random(CELLS)
        # a node between every cell and the ends of its branch
        cells = self.n_nodes + np.arange(CELLS)
        whole = self.length[self.branch]
        graph = coo_array(
            (
                np.r_[self.length, self.step * whole, (1 - self.step) * whole],
                (
                    np.r_[self.start, cells, cells],
                    np.r_[self.end, self.start[self.branch], self.end[self.branch]],
                ),
            ),
            shape=(self.n_nodes + CELLS,) * 2,
        )
        self.distance = shortest_path(graph.tocsr(), directed=False)[self.n_nodes :, self.n_nodes :]
        same = self.branch[:, None] == self.branch
        apart = np.abs(self.step[:, None] - self.step) * whole
        self.distance[same] = apart[same]

    def between(self, values: np.ndarray) -> np.ndarray:
        """Values at the cells, linear between those at the nodes."""
        step = self.step[:, None]
        return values[self.start[self.branch]] * (1 - step) + values[self.end[self.branch]] * step


def nodes(places: Places, base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    size = 1.2 * (rng.random(N_GENES) < 0.35)
    return base * np.exp(places.between(size * rng.standard_normal((places.n_nodes, N_GENES))))


def bumps(places: Places, base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    edges = np.ones(len(places.edges)), (places.start, places.end)
    apart = shortest_path(coo_array(edges, shape=(places.n_nodes,) * 2).tocsr(), directed=False)
    layout = MDS(dissimilarity="precomputed", random_state=0, n_init=1).fit_transform(apart)
    spots = places.between(layout / np.abs(layout).max()) + 0.02 * rng.standard_normal((CELLS, 2))
    centres = spots[rng.choice(CELLS, N_GENES)] + 0.15 * rng.standard_normal((N_GENES, 2))
    width = rng.uniform(0.15, 0.5, N_GENES)
    gap = np.square(spots[:, None] - centres).sum(-1)
    height = 0.15 + 2.0 * np.exp(-0.5 * gap / width**2)
    return base * np.where(rng.random(N_GENES) < 0.5, height, 0.6)


def steps(places: Places, base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    logs = np.zeros((places.n_nodes, N_GENES))
    for parent, child in places.edges:
        change = rng.normal(0.4, 0.6, N_GENES) * rng.choice([-1, 1], N_GENES)
        logs[child] = logs[parent] + (rng.random(N_GENES) < 0.2) * change
    found = base * places.between(np.exp(logs))
    return found / found.sum(1, keepdims=True)


def programmes(places: Places, base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    count = 4 * len(places.edges) + 4
    loadings = (rng.random((count, N_GENES)) < 0.15) * rng.normal(0, 0.4, (count, N_GENES))
    ends = {0: rng.standard_normal(count)}
    walks = np.empty((len(places.edges), STEPS + 1, count))
    for i, (parent, child) in enumerate(places.edges):
        moves = rng.standard_normal((STEPS, count))
        smooth = np.stack([np.convolve(m, np.ones(15) / 15, "same") for m in moves.T], axis=1)
        walk = 0.25 * np.sqrt(places.length[i]) * np.cumsum(smooth, axis=0)
        walks[i] = ends[parent] + np.concatenate([np.zeros((1, count)), walk])
        ends[child] = walks[i, -1]
    at = walks[places.branch, (places.step * STEPS).astype(int)]
    return base * np.exp(at @ loadings)


KINDS = {"nodes": nodes, "bumps": bumps, "steps": steps, "programmes": programmes}


def others(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for kind, simulate in KINDS.items():
        for i, edges in enumerate(TREES.values()):
            rng = np.random.default_rng((seed, i))
            places = Places(edges, rng)
            rates = simulate(places, np.exp(1.2 * rng.standard_normal(N_GENES)), rng)
            depth = (700, 1500, 3000)[i % 3] * np.exp(
                (0.3, 0.5)[i % 2] * rng.standard_normal(CELLS)
            )
            mean = rates / rates.sum(1).mean() * depth[:, None]
            phi = 0.3 * np.exp(0.5 * rng.standard_normal(N_GENES))
            counts = rng.poisson(mean * rng.gamma(1.0 / phi, phi, mean.shape))
            yield kind, counts, places.distance


def cells(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for i, edges in enumerate(OTHER_TREES.values()):
        for j, kind in enumerate(("smooth", "brownian")):
            for k, profile in enumerate(PROFILES):
                found = make_cells(
                    CELLS,
                    (700, 1500)[(i + j + k) % 2],
                    topology=[tuple(edge) for edge in edges],
                    programmes=kind,
                    random_state=seed,
                    **profile,
                )
                yield "make_cells", found.counts.toarray(), np.asarray(found.tree_distance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--models", nargs="+", default=["HGPLVM", "BayesianHGPLVM"])
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for source in (cells, others):
        for kind, counts, truth in source(options.seed):
            total = counts.sum(1, keepdims=True)
            rows = np.log1p(counts[:, counts.any(0)] * np.median(total) / np.maximum(total, 1))
            pairs = squareform(truth, checks=False)
            for name in options.models:
                model = getattr(hgplvm, name)(random_state=0).fit(rows)
                embedded = squareform(np.asarray(model.distances()), checks=False)
                value = np.corrcoef(embedded, pairs)[0, 1]
                found.setdefault(name, {}).setdefault(kind, []).append(value)
            scores = PCA(50, random_state=0).fit_transform(rows)
            value = np.corrcoef(pdist(TSNE(random_state=0).fit_transform(scores)), pairs)[0, 1]
            found.setdefault("t-SNE", {}).setdefault(kind, []).append(value)
    kinds = list(next(iter(found.values())))
    print(f"{'':<18}" + "".join(f"{kind:>16}" for kind in kinds))
    for name, values in found.items():
        text = [f"{np.mean(values[kind]):.3f} ({np.min(values[kind]):.2f})" for kind in kinds]
        print(f"{name:<18}" + "".join(f"{one:>16}" for one in text))


if __name__ == "__main__":
    main()
