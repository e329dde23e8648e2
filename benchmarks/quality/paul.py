"""Paul et al. (2015): clusters and sequencing depth, from counts, components and the paper's array.

5-NN: leave-one-out accuracy of the 19 clusters, in disk coordinates as the paper measures it.
Depth: R² of log total counts on the coordinates within clusters of 60 cells and more. Shepard: rank
correlation of the distances of a sample of cells in the disk and over all genes of the paper's
array. Peers: UMAP by scanpy's route (counts per 10,000, log1p, 2,000 variable genes, 50 components,
15 neighbours), and t-SNE of the same components.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from anndata import AnnData

import hgplvm
from hgplvm import metrics

MODELS = ["bayesian", "exact", "sparse", "vecchia"]
LARGE_CLUSTER = 60
SHEPARD_CELLS = 1000


def depth_effect(points: np.ndarray, labels: np.ndarray, total: np.ndarray) -> float:
    """R² of log total counts on coordinates and constants of their own for each large cluster."""
    left = whole = 0.0
    for cluster in np.unique(labels):
        own = labels == cluster
        if own.sum() < LARGE_CLUSTER:
            continue
        depth = np.log(total[own])
        design = np.c_[np.ones(own.sum()), points[own]]
        fitted = design @ np.linalg.lstsq(design, depth, rcond=None)[0]
        left += np.square(depth - fitted).sum()
        whole += np.square(depth - depth.mean()).sum()
    return 1.0 - left / whole


def components(cells: AnnData) -> AnnData:
    """50 principal components, as scanpy's tutorial makes them."""
    import scanpy as sc

    found = cells.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sc.pp.normalize_total(found, target_sum=1e4)
        sc.pp.log1p(found)
        sc.pp.highly_variable_genes(found, n_top_genes=2000)
        sc.pp.pca(found, n_comps=50, random_state=0)
    return found


def peers(cells: AnnData, seed: int) -> dict[str, Callable[[], np.ndarray]]:
    import scanpy as sc
    from sklearn.manifold import TSNE

    def umap() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sc.pp.neighbors(cells, random_state=seed)
            sc.tl.umap(cells, random_state=seed)
        return cells.obsm["X_umap"]

    return {
        "UMAP": umap,
        "t-SNE": lambda: TSNE(random_state=seed).fit_transform(cells.obsm["X_pca"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder `paul`")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=[*MODELS, "none"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()

    folder = options.data_dir
    counts = sp.load_npz(folder / "paul15_counts_2730x3451.npz").tocsr().astype(np.float32)
    labels = np.load(folder / "labels.npy", allow_pickle=True)
    with np.load(folder / "paul15_zheng17_999hvg.npz") as file:
        array = file["X"].astype(float)
    total = np.asarray(counts.sum(1)).ravel()
    some = np.random.default_rng(0).permutation(len(labels))[:SHEPARD_CELLS]
    raw = AnnData(counts)
    with_components = components(raw)
    inputs = {
        "counts": (raw, {}),
        "X_pca": (with_components, {"use_rep": "X_pca"}),
        "paper's array": (AnnData(array), {"use_rep": "X"}),
    }

    def show(data: str, method: str, seed: int, points: np.ndarray, seconds: float) -> None:
        numbers = [
            metrics.knn_accuracy(points, labels),
            depth_effect(points, labels, total),
            metrics.shepard_goodness(array[some], points[some]),
        ]
        text = "".join(f"{number:>10.3f}" for number in numbers)
        print(f"{data:<15}{method:<12}{seed:>5}{text}{seconds:>10.1f}", flush=True)

    print(f"{'data':<15}{'method':<12}{'seed':>5}{'5-NN':>10}{'depth':>10}{'Shepard':>10}", end="")
    print(f"{'seconds':>10}")
    for seed in range(options.seeds):
        for data, (cells, source) in inputs.items():
            for model in options.models:
                if model == "none":
                    continue
                begun = time.perf_counter()
                hgplvm.tl.hgplvm(cells, model, random_state=seed, keep_model=False, **source)
                seconds = time.perf_counter() - begun
                show(data, model, seed, np.asarray(cells.obsm["X_hgplvm"]), seconds)
        if options.peers:
            for name, run in peers(with_components, seed).items():
                begun = time.perf_counter()
                points = run()
                show("X_pca", name, seed, points, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
