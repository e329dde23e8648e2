"""Quality of the models, with their defaults or any start, beside peers that are installed.

Distance correlation (trees; hyperbolic distances for hyperbolic models), trustworthiness and
continuity (k = 3), Shepard goodness and leave-one-out 5-nearest-neighbour accuracy on the labels,
these four in disk coordinates as the paper measures them; mean ± standard deviation over seeds.
`agree` is the correlation of pairwise distances between the embeddings of two seeds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import hgplvm
from hgplvm import metrics
from hgplvm.baselines import PEERS
from hgplvm.datasets import make_binary_tree

PAPER = {
    "SBT-4": "synthetic_bin_tree_4",
    "SBT-5": "synthetic_bin_tree_5",
    "SBT-6": "synthetic_bin_tree_6",
    "Spiral": "Spiral",
    "Myeloid": "MyeloidProgenitors",
}
MODELS = ["HGPLVM", "SparseHGPLVM", "BayesianHGPLVM"]
# all pairs of more rows than this take too long to rank at every seed
SHEPARD_ROWS = 1500


class Rows(NamedTuple):
    """A data set."""

    data: np.ndarray
    labels: np.ndarray
    truth: np.ndarray | None = None  # true distances where they are known


Load = Callable[[int], Rows]


def stored(path: Path) -> Load:
    with np.load(path, allow_pickle=True) as file:
        truth = None
        if "true_data" in file:
            codes = file["true_data"].astype(float)
            truth = np.abs(codes[:, None] - codes[None]).sum(-1)
        rows = Rows(file["data"].astype(float), file["label"], truth)
    return lambda seed: rows  # noqa: ARG005


def paul(folder: Path) -> Load:
    with np.load(folder / "paul15_zheng17_999hvg.npz") as file:
        data = file["X"].astype(float)
    rows = Rows(data, np.load(folder / "labels.npy", allow_pickle=True))
    return lambda seed: rows  # noqa: ARG005


def fresh(size: str) -> Load:
    def draw(seed: int) -> Rows:
        tree = make_binary_tree(*map(int, size.split(",")), random_state=101 + seed)
        return Rows(tree.data, tree.target, tree.tree_distance)

    return draw


def packaged(name: str) -> Load:
    """Load data that ship with scikit-learn."""
    data, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name in ("wine", "breast_cancer"):  # columns in units of their own
        data = StandardScaler().fit_transform(data)
    rows = Rows(data[:1200].astype(float), labels[:1200])
    return lambda seed: rows  # noqa: ARG005


def branching(n_noise: int) -> Load:
    """Brownian motion along a tree in 40 dimensions, with noise."""

    def draw(seed: int) -> Rows:
        rng = np.random.default_rng(seed)
        ends, rows, labels = [np.zeros(40)], [], []
        for _ in range(5):
            grown = []
            for start in [end for end in ends for _ in range(2)]:
                path = start + np.cumsum(0.3 * rng.standard_normal((12, 40)), axis=0)
                rows.append(path + 0.5 * rng.standard_normal(path.shape))
                labels.append(np.full(12, len(labels)))
                grown.append(path[-1])
            ends = grown
        data = np.concatenate(rows)
        return Rows(
            np.hstack([data, rng.standard_normal((len(data), n_noise))]), np.concatenate(labels)
        )

    return draw


def ours(model: str, init: str, optimizer: str) -> Callable[[np.ndarray, int], tuple]:
    def run(data: np.ndarray, seed: int) -> tuple[np.ndarray, str, float]:
        begun = time.perf_counter()
        estimator = getattr(hgplvm, model)(init=init, optimizer=optimizer, random_state=seed)
        estimator.fit(data)
        start = time.perf_counter() - begun - estimator.history_["seconds"][-1]
        metric = "poincare" if hasattr(estimator, "lorentz_") else "euclidean"
        return estimator.embedding_, metric, start

    return run


def theirs(name: str) -> Callable[[np.ndarray, int], tuple]:
    return lambda data, seed: (PEERS[name].embed(data, seed), "euclidean", np.nan)


def scores(rows: Rows, embedding: np.ndarray, metric: str) -> list[float]:
    correlation = np.nan
    if rows.truth is not None:
        correlation = metrics.distance_correlation(rows.truth, embedding, metric=metric)
    some = np.random.default_rng(0).permutation(len(embedding))[:SHEPARD_ROWS]
    return [
        correlation,
        metrics.trustworthiness(rows.data, embedding, n_neighbors=3),
        metrics.continuity(rows.data, embedding, n_neighbors=3),
        metrics.shepard_goodness(rows.data[some], embedding[some]),
        metrics.knn_accuracy(embedding, rows.labels),
    ]


def agreement(runs: list[tuple[np.ndarray, str]]) -> float:
    """Mean correlation, over pairs of runs, of their pairwise distances."""
    distances = []
    for embedding, metric in runs:
        points = hgplvm.geometry.poincare_to_lorentz(torch_of(embedding))
        pairs = np.triu_indices(len(embedding), 1)
        distances.append(
            hgplvm.geometry.pairwise_distance(points).numpy()[pairs]
            if metric == "poincare"
            else pdist(embedding)
        )
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in combinations(distances, 2)]))


def torch_of(array: np.ndarray):
    import torch

    return torch.from_numpy(np.asarray(array, dtype=float))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with the paper's arrays, and paul/")
    parser.add_argument("--data", nargs="+", default=[*PAPER], choices=[*PAPER, "Paul"])
    parser.add_argument("--fresh", nargs="+", default=[], help="trees to generate: DEPTH,SAMPLES")
    parser.add_argument(
        "--other", action="store_true", help="also data that no default was made for"
    )
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--inits", nargs="+", default=["auto"])
    parser.add_argument("--optimizer", default="auto")
    parser.add_argument("--peers", nargs="*", help="all of them, or these", choices=[*PEERS])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    sources: dict[str, Load] = {f"tree {size}": fresh(size) for size in options.fresh}
    if options.data_dir is not None:
        for name in options.data:
            path = options.data_dir
            sources[name] = (
                paul(path / "paul") if name == "Paul" else stored(path / f"{PAPER[name]}.npz")
            )
    if options.other:
        sources |= {name: packaged(name) for name in ("iris", "wine", "breast_cancer", "digits")}
        sources |= {"branching": branching(0), "noisy branching": branching(400)}
    if not sources:
        parser.error("nothing to measure: name --data-dir, --fresh or --other")
    systems = {
        model if init == "auto" else f"{model} {init}": ours(model, init, options.optimizer)
        for model in options.models
        for init in options.inits
    }
    peers = [*PEERS] if options.peers == [] else options.peers or []
    systems |= {name: theirs(name) for name in peers}

    print(
        f"{'data':<17}{'system':<17}{'correlation':>12}{'trust':>15}{'contin':>15}{'Shepard':>13}"
        f"{'5-NN':>13}{'agree':>7}{'seconds':>9}{'start':>7}"
    )
    for name, load in sources.items():
        for system, run in systems.items():
            print(f"{name:<17}{system:<17}" + measure(load, run, options.seeds), flush=True)


def measure(load: Load, run: Callable, n_seeds: int) -> str:
    found, runs, seconds, starts = [], [], [], []
    for seed in range(n_seeds):
        rows = load(seed)
        begun = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                embedding, metric, start = run(rows.data, seed)
        except ImportError as error:
            return f"  not installed: {error.name}"
        except Exception as error:  # a peer that fails is a row that says so
            return f"  failed: {type(error).__name__}"
        seconds.append(time.perf_counter() - begun)
        starts.append(start)
        if not np.isfinite(embedding).all():
            return "  not finite"
        found.append(scores(rows, embedding, metric))
        runs.append((embedding, metric))
    mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
    same = load(0).data is load(1).data
    cells = [f"{'-':>12}" if np.isnan(mean[0]) else f"{mean[0]:>6.3f}±{spread[0]:.3f}"]
    cells += [f"{mean[i]:>9.4f}±{spread[i]:.3f}" for i in (1, 2)]
    cells += [f"{mean[i]:>7.3f}±{spread[i]:.3f}" for i in (3, 4)]
    cells.append(f"{agreement(runs):>7.3f}" if same and n_seeds > 1 else f"{'-':>7}")
    cells.append(f"{np.mean(seconds):>9.1f}{np.mean(starts):>7.1f}")
    return "".join(cells)


if __name__ == "__main__":
    main()
