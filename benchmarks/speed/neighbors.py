"""Nearest neighbours in hyperbolic space: a k-d tree in the Poincaré ball against other searches.

All nearest others of each row, for points spread as an embedding is. Ours is exact; beside it all
pairs, scikit-learn's ball tree with the hyperbolic distance as a Python function (on a tenth of the
rows, for it is slow), and pynndescent with the distance compiled, where that is installed: its time
without the compilation, and the share of true neighbours that it finds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn.neighbors import BallTree

from hgplvm._init import pca_start
from hgplvm.datasets import make_branching
from hgplvm.manifolds import Hyperbolic
from hgplvm.manifolds import _neighbors as neighbors


def embedding(n: int) -> torch.Tensor:
    rows = torch.from_numpy(make_branching(n, 20, random_state=0).data)
    generator = torch.Generator().manual_seed(0)
    return pca_start(rows, 2, Hyperbolic(), median_distance=4.0, generator=generator)


def chord(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.arccosh(max(1.0, a[0] * b[0] - a[1:] @ b[1:])))


def pynndescent_search(x: np.ndarray, k: int) -> tuple[float, np.ndarray]:
    import numba
    from pynndescent import NNDescent

    @numba.njit(fastmath=True)
    def hyperbolic(a: np.ndarray, b: np.ndarray) -> float:
        product = a[0] * b[0]
        for q in range(1, a.shape[0]):
            product -= a[q] * b[q]
        return np.arccosh(max(1.0, product))

    for rows in (x[:1000], x):  # the first compiles
        begun = time.perf_counter()
        index = NNDescent(rows, metric=hyperbolic, n_neighbors=k + 1, random_state=0)
        took = time.perf_counter() - begun
    return took, index.neighbor_graph[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--neighbors", type=int, default=15)
    options = parser.parse_args()
    k = options.neighbors
    for n in options.rows:
        x = embedding(n)
        begun = time.perf_counter()
        ours = neighbors.nearest_others(Hyperbolic(), x, k).numpy()
        tree = time.perf_counter() - begun
        print(f"{n} rows, {k} neighbours\n  k-d tree in the ball, exact {tree:>8.2f} s")
        if n <= 20_000:
            neighbors.ALL_PAIRS["cpu"], kept = n, neighbors.ALL_PAIRS["cpu"]
            begun = time.perf_counter()
            pairs = neighbors.nearest_others(Hyperbolic(), x, k).numpy()
            took = time.perf_counter() - begun
            neighbors.ALL_PAIRS["cpu"] = kept
            print(
                f"  all pairs                   {took:>8.2f} s, same: {np.array_equal(ours, pairs)}"
            )
        few = x[: n // 10].numpy()
        begun = time.perf_counter()
        BallTree(few, metric=chord).query(few, k + 1)
        print(f"  ball tree, a tenth of them  {time.perf_counter() - begun:>8.2f} s", flush=True)
        try:
            took, graph = pynndescent_search(x.numpy(), k)
        except ImportError as error:
            print(f"  pynndescent: not installed ({error.name})")
            continue
        found = np.mean([len(set(a) & set(b)) / k for a, b in zip(ours, graph, strict=True)])
        print(f"  pynndescent                 {took:>8.2f} s, finds {found:.4f}", flush=True)


if __name__ == "__main__":
    main()
