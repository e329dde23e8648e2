"""Trees that others simulate: phate's `gen_dla`, and scanpy's `krumsiek11` and `toggleswitch`.

gen_dla: random walks in 100 dimensions that leave a first one, with much noise; Pearson correlation
of embedded distances with path lengths (the places where branches begin are drawn again from the
seed). krumsiek11 (11 genes, four runs of 160 steps) and toggleswitch (2 genes, two runs of 100):
rank correlation of the distance from the first row with the step, a mean over the runs; noise is
added as further columns, `--noise` for each gene, with the standard deviation of a typical gene.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

import hgplvm
from hgplvm.baselines import PEERS, PoincareMaps

BRANCHES, LENGTH, DIMENSIONS = 6, 100, 100
MODELS = ["HGPLVM", "VecchiaHGPLVM", "SparseHGPLVM", "BayesianHGPLVM"]
RIVALS = ["PCA", "t-SNE", "UMAP", "PHATE", "PaCMAP", "TriMap"]

Score = Callable[[np.ndarray], float]


def dla(seed: int) -> tuple[np.ndarray, Score]:
    """Rows of gen_dla, and the correlation of distances with path lengths."""
    from phate.tree import gen_dla

    rows, _ = gen_dla(DIMENSIONS, BRANCHES, LENGTH, seed=seed)
    # what it draws, in its order
    draws = np.random.RandomState(seed)
    draws.rand(LENGTH, DIMENSIONS)
    starts = [0]
    for _ in range(BRANCHES - 1):
        starts.append(draws.randint(LENGTH))
        draws.rand(LENGTH, DIMENSIONS)
    branch, step = np.divmod(np.arange(BRANCHES * LENGTH), LENGTH)
    # a branch that is not the first is `step + 1` away from its place on the first
    place = np.where(branch == 0, step, np.array(starts)[branch])
    away = np.where(branch == 0, 0, step + 1)
    truth = np.abs(place[:, None] - place) + away[:, None] + away
    same = branch[:, None] == branch
    truth[same] = np.abs(step[:, None] - step)[same]
    pairs = np.triu_indices(len(rows), 1)
    return rows, lambda distance: np.corrcoef(distance[pairs], truth[pairs])[0, 1]


def simulated(name: str, n_runs: int, noise: int, seed: int) -> tuple[np.ndarray, Score]:
    """Rows of a simulation in scanpy with columns of noise, and how they keep the time."""
    import scanpy as sc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        genes = np.asarray(getattr(sc.datasets, name)().X, dtype=float)
    rng = np.random.default_rng(seed)
    more = genes.std(0).mean() * rng.standard_normal((len(genes), noise * genes.shape[1]))
    runs = np.split(np.arange(len(genes)), n_runs)

    def score(distance: np.ndarray) -> float:
        found = [spearmanr(distance[0, run], np.arange(len(run))).statistic for run in runs]
        return float(np.mean(found))

    return np.concatenate([genes, more], axis=1), score


def sets(noise: int, seed: int) -> Iterator[tuple[str, np.ndarray, Score]]:
    yield "gen_dla", *dla(seed)
    for name, n_runs in (("krumsiek11", 4), ("toggleswitch", 2)):
        yield name, *simulated(name, n_runs, 0, seed)
        yield f"{name} + {noise}x noise", *simulated(name, n_runs, noise, seed)


def distances(method: str, rows: np.ndarray, seed: int) -> np.ndarray:
    if method in MODELS:
        model = getattr(hgplvm, method)(random_state=seed).fit(rows)
        return np.asarray(model.distances())
    if method == "Poincaré maps":
        model = PoincareMaps(random_state=seed)
        points = model.fit_transform(rows)
        square = np.square(points).sum(1)
        gap = cdist(points, points, "sqeuclidean")
        return np.arccosh(1.0 + 2.0 * gap / ((1.0 - square)[:, None] * (1.0 - square)))
    points = PEERS[method].embed(rows, seed)
    return cdist(points, points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--noise", type=int, default=20, help="columns of noise for each gene")
    options = parser.parse_args()
    rivals = [name for name in RIVALS if find_spec(PEERS[name].package)]
    methods = [*MODELS, *rivals, "Poincaré maps"]
    found: dict[str, dict[str, list[float]]] = {}
    for seed in options.seeds:
        for name, rows, score in sets(options.noise, seed):
            for method in methods:
                try:
                    value = score(distances(method, rows, seed))
                except Exception as error:  # a method that fails is a line that says so
                    print(f"{name}, {method}: {type(error).__name__}: {error!s:.100}", flush=True)
                    value = np.nan
                found.setdefault(method, {}).setdefault(name, []).append(value)
    names = list(next(iter(found.values())))
    print(f"{'':<18}" + "".join(f"{name:>26}" for name in names))
    for method, values in found.items():
        cells = [f"{np.mean(values[n]):.3f} ± {np.std(values[n]):.3f}" for n in names]
        print(f"{method:<18}" + "".join(f"{cell:>26}" for cell in cells))


if __name__ == "__main__":
    main()
