"""Large trees: correlation of embedded distances with those of the tree, and time.

`make_branching` with many rows; correlation over fixed random pairs, in hyperbolic distance for
hyperbolic models. Peers that are not installed are rows that say so.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from scipy.stats import spearmanr

import hgplvm
from hgplvm.baselines import PEERS
from hgplvm.datasets import make_branching
from hgplvm.geometry import lorentz

OURS = {
    "VecchiaHGPLVM": {"n_neighbors": 15},
    "SparseHGPLVM": {"n_inducing": 200},
    "VecchiaGPLVM": {"n_neighbors": 15},
}
PAIRS = 500_000


def distances(embedding: np.ndarray, hyperbolic: bool, pairs: np.ndarray) -> np.ndarray:
    first, second = embedding[pairs[0]], embedding[pairs[1]]
    if not hyperbolic:
        return np.linalg.norm(first - second, axis=1)
    points = (lorentz.from_chart(torch.from_numpy(p)) for p in (first, second))
    return lorentz.distance(*points).numpy()


def run(name: str, data: np.ndarray, seed: int) -> tuple[np.ndarray, bool, str]:
    if name not in OURS:
        return PEERS[name].embed(data, seed), False, ""
    model = getattr(hgplvm, name)(random_state=seed, **OURS[name]).fit(data)
    start = f"{model.n_iter_} steps of {np.diff(model.history_['seconds']).mean():.2f} s"
    return model.embedding_, hasattr(model, "lorentz_"), start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=1)
    systems = [*OURS, *PEERS]
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=systems,
        default=["VecchiaHGPLVM", "SparseHGPLVM", "PCA", "UMAP", "PaCMAP"],
    )
    options = parser.parse_args()
    print(f"{'system':<15}{'seed':>5}{'Pearson':>9}{'Spearman':>10}{'seconds':>9}")
    for seed in range(options.seeds):
        tree = make_branching(
            options.rows, depth=options.depth, noise=options.noise, random_state=seed
        )
        pairs = np.random.default_rng(0).integers(options.rows, size=(2, PAIRS))
        truth = tree.tree_distance[pairs[0], pairs[1]]
        for name in options.systems:
            begun = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    embedding, hyperbolic, note = run(name, tree.data, seed)
            except ImportError as error:
                print(f"{name:<15}  not installed: {error.name}")
                continue
            took = time.perf_counter() - begun
            found = distances(np.asarray(embedding, dtype=float), hyperbolic, pairs)
            print(
                f"{name:<15}{seed:>5}{np.corrcoef(truth, found)[0, 1]:>9.4f}"
                f"{spearmanr(truth, found).statistic:>10.4f}{took:>9.1f}  {note}",
                flush=True,
            )


if __name__ == "__main__":
    main()
