"""Quality of the models on the paper's synthetic data: mean and deviation over seeds.

Distance correlation (trees), and trustworthiness, continuity (k = 3) and Shepard goodness in disk
coordinates, as the paper measures them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

import hgplvm
from hgplvm import metrics
from hgplvm.datasets import make_binary_tree

DATA = {
    "SBT-4": "synthetic_bin_tree_4",
    "SBT-5": "synthetic_bin_tree_5",
    "SBT-6": "synthetic_bin_tree_6",
    "Spiral": "Spiral",
    "Myeloid": "MyeloidProgenitors",
}


Rows = tuple[np.ndarray, np.ndarray | None]  # data, and true distances where they are known


def stored(path: Path) -> Callable[[int], Rows]:
    with np.load(path, allow_pickle=True) as file:
        data, truth = file["data"], None
        if "true_data" in file:
            codes = file["true_data"].astype(float)
            truth = np.abs(codes[:, None] - codes[None]).sum(-1)
    return lambda seed: (data, truth)  # noqa: ARG005


def fresh(depth: int, n_per_node: int) -> Callable[[int], Rows]:
    def draw(seed: int) -> Rows:
        tree = make_binary_tree(depth, n_per_node, random_state=101 + seed)
        return tree.data, tree.tree_distance

    return draw


def scores(model, data: np.ndarray, truth: np.ndarray | None) -> list[float]:
    metric = "poincare" if hasattr(model, "lorentz_") else "euclidean"
    correlation = np.nan
    if truth is not None:
        correlation = metrics.distance_correlation(truth, model.embedding_, metric=metric)
    found = metrics.evaluate(data, model.embedding_, n_neighbors=3)
    return [correlation, *found.values(), model.log_likelihood_]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with the paper's arrays")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--fresh", nargs="+", default=[], help="trees to generate: DEPTH,SAMPLES")
    parser.add_argument("--models", nargs="+", default=["HGPLVM", "SparseHGPLVM", "BayesianHGPLVM"])
    parser.add_argument("--inits", nargs="+", default=["auto"])
    parser.add_argument("--optimizer", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    sources = {f"tree {size}": fresh(*map(int, size.split(","))) for size in options.fresh}
    if options.data_dir is not None:
        for name in options.data:
            sources[name] = stored(options.data_dir / f"{DATA[name]}.npz")
    if not sources:
        parser.error("nothing to measure: name --data-dir or --fresh")

    print(
        f"{'data':<11}{'model':<16}{'init':<6}{'correlation':>15}{'trust':>8}{'contin':>8}"
        f"{'Shepard':>9}{'log likelihood':>16}{'seconds':>9}"
    )
    for (name, load), model, init in product(sources.items(), options.models, options.inits):
        started, rows = time.perf_counter(), []
        for seed in range(options.seeds):
            data, truth = load(seed)
            estimator = getattr(hgplvm, model)(
                init=init, optimizer=options.optimizer, random_state=seed
            )
            rows.append(scores(estimator.fit(data), data, truth))
        seconds = (time.perf_counter() - started) / options.seeds
        mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
        print(
            f"{name:<11}{model:<16}{init:<6}{mean[0]:>8.3f} ± {spread[0]:.3f}"
            f"{mean[1]:>8.4f}{mean[2]:>8.4f}{mean[3]:>9.3f}{mean[4]:>16.0f}{seconds:>9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
