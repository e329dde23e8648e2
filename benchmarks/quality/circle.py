"""The full circle: place rows that the fit has not seen, decode, fill gaps, tell time.

`heldout`: a fifth of the rows is held out and placed. 5-NN accuracy on the labels of the training
rows against the leave-one-out accuracy of these themselves (and the same difference in the data's
own space, which is what the split alone does); RMSE of the rows decoded from where they were
placed, against the flat model and two principal components; how many entries lie in 90% intervals;
and how far training rows are from home when they are placed again with a millionth of noise.

`missing`: entries are hidden at random. Distance correlation with and without gaps, and RMSE of
what the model says of them, against column means (also fitted upon), nearest rows, and an iterated
projection on two principal components; how many of them lie in 90% intervals.

`pseudotime`: Spearman correlation of the distance from the root with depth (trees) or with the
simulated time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from models import PAPER, Rows, paul, stored
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.impute import KNNImputer
from sklearn.neighbors import KNeighborsClassifier

import hgplvm
from hgplvm import metrics

MODELS = ["HGPLVM", "SparseHGPLVM", "BayesianHGPLVM", "VecchiaHGPLVM"]
HALF_WIDTH = 1.6449  # of a normal's 90% interval
# the simulation's four runs of 160 steps, one after the other
MYELOID_STEPS = 160


def rmse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2)))


def accuracy(train: np.ndarray, labels: np.ndarray, new: np.ndarray, truth: np.ndarray) -> float:
    return float(KNeighborsClassifier(5).fit(train, labels).score(new, truth))


def heldout(rows: Rows, model: str, seed: int, n_columns: int | None) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(rows.data))
    new, old = order[: len(order) // 5], order[len(order) // 5 :]
    data, labels = rows.data[:, :n_columns], rows.labels
    estimator = getattr(hgplvm, model)(random_state=seed).fit(data[old])
    begun = time.perf_counter()
    placed = estimator.transform(data[new])
    seconds = time.perf_counter() - begun
    mean, std = estimator.inverse_transform(placed, return_std=True)
    flat = getattr(hgplvm, model.replace("HGPLVM", "GPLVM"))(random_state=seed).fit(data[old])
    pca = PCA(2).fit(data[old])
    inside = metrics.knn_accuracy(estimator.embedding_, labels[old])
    own = metrics.knn_accuracy(data[old], labels[old])
    jitter = 1e-6 * data.std() * np.random.default_rng(seed).standard_normal(data[old].shape)
    again = estimator.transform(data[old] + jitter)
    both = np.concatenate([estimator.embedding_, again])
    apart = estimator.distances(both)[: len(old), len(old) :]
    outside = accuracy(estimator.embedding_, labels[old], placed, labels[new])
    return {
        "5-NN in": inside,
        "5-NN out": outside,
        "drop": inside - outside,
        "data drop": own - accuracy(data[old], labels[old], data[new], labels[new]),
        "RMSE": rmse(mean, data[new]),
        "flat": rmse(flat.inverse_transform(flat.transform(data[new])), data[new]),
        "PCA": rmse(pca.inverse_transform(pca.transform(data[new])), data[new]),
        "in 90%": float(np.mean(np.abs(data[new] - mean) <= HALF_WIDTH * std)),
        "home": float(np.median(apart.diagonal()) / np.median(apart)),
        "home 95%": float(np.quantile(apart.diagonal(), 0.95) / np.median(apart)),
        "seconds": seconds,
    }


def projected(data: np.ndarray, observed: np.ndarray, n_rounds: int = 100) -> np.ndarray:
    """Fill gaps by two principal components, again and again."""
    filled = np.where(observed, data, np.nanmean(np.where(observed, data, np.nan), axis=0))
    for _ in range(n_rounds):
        pca = PCA(2).fit(filled)
        filled = np.where(observed, data, pca.inverse_transform(pca.transform(filled)))
    return filled


def missing(rows: Rows, model: str, seed: int, share: float) -> dict[str, float]:
    data = rows.data
    observed = np.random.default_rng(1000 + seed).random(data.shape) >= share
    gappy, hidden = np.where(observed, data, np.nan), ~observed
    means = np.where(observed, data, np.nanmean(gappy, axis=0))
    make = getattr(hgplvm, model)
    full, fitted, meant = (make(random_state=seed).fit(x) for x in (data, gappy, means))
    decoded, std = fitted.inverse_transform(fitted.embedding_, return_std=True)
    found: dict[str, float] = {}
    if rows.truth is not None:
        names = {"complete": full, "with gaps": fitted, "means": meant}
        for name, estimator in names.items():
            found[name] = metrics.distance_correlation(rows.truth, estimator.embedding_)
        found["drop"] = found["complete"] - found["with gaps"]
    guesses = {
        "RMSE": decoded,
        "means+fit": meant.inverse_transform(meant.embedding_),
        "column": means,
        "5 nearest": KNNImputer(n_neighbors=5).fit_transform(gappy),
        "PCA": projected(data, observed),
    }
    found |= {name: rmse(guess[hidden], data[hidden]) for name, guess in guesses.items()}
    found["in 90%"] = float(np.mean(np.abs(data - decoded)[hidden] <= HALF_WIDTH * std[hidden]))
    return found


def pseudotime(rows: Rows, model: str, seed: int, name: str) -> dict[str, float]:
    estimator = getattr(hgplvm, model)(random_state=seed).fit(rows.data)
    if name == "Myeloid":
        root, order = 0, np.arange(len(rows.data)) % MYELOID_STEPS
    else:
        root, order = rows.labels == 0, rows.labels
    return {"Spearman": float(spearmanr(estimator.pseudotime(root), order).statistic)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["heldout", "missing", "pseudotime"])
    parser.add_argument("--data-dir", type=Path, required=True, help="the paper's arrays, paul/")
    parser.add_argument("--data", nargs="+", default=["SBT-5", "Myeloid"], help="also Paul")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.3, help="of entries that are missing")
    parser.add_argument("--columns", type=int, help="take the first columns alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data:
        folder = options.data_dir
        load = paul(folder / "paul") if name == "Paul" else stored(folder / f"{PAPER[name]}.npz")
        for model in options.models:
            found = []
            for seed in range(options.seeds):
                if options.part == "heldout":
                    found.append(heldout(load(seed), model, seed, options.columns))
                elif options.part == "missing":
                    found.append(missing(load(seed), model, seed, options.share))
                else:
                    found.append(pseudotime(load(seed), model, seed, name))
            cells = []
            for key in found[0]:
                values = [row[key] for row in found]
                cells.append(f"{key} {np.mean(values):.4f}±{np.std(values):.4f}")
            print(f"{name:<8}{model:<16}" + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
