"""The paper's hGP-LVM procedure on its binary trees, and our defaults beside it.

Paper mode is the paper's start, its Riemannian gradient descent, a length scale of 100, and its
stop rule: the fit ends when the negative log likelihood falls below 100.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from hgplvm import HGPLVM
from hgplvm.datasets import make_binary_tree
from hgplvm.fit import FitState
from hgplvm.metrics import distance_correlation

PAPER = {4: (0.816, 0.012), 5: (0.909, 0.003), 6: (0.849, 0.004)}


def below_100(state: FitState) -> bool:
    return -state.objective < 100


def paper_mode(seed: int) -> HGPLVM:
    return HGPLVM(
        init="random",
        optimizer="rgd",
        length_scale=100,
        max_iter=1500,
        tol=0,
        random_state=seed,
        callback=below_100,
    )


def load(depth: int, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if folder is None:
        tree = make_binary_tree(depth, random_state=0)
        return tree.data, tree.tree_distance
    with np.load(folder / f"synthetic_bin_tree_{depth}.npz", allow_pickle=True) as file:
        codes = file["true_data"].astype(float)
        return file["data"], np.abs(codes[:, None] - codes[None]).sum(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with the paper's arrays")
    parser.add_argument("--depths", type=int, nargs="+", default=[4])
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()

    source = options.data_dir or "generated trees (pass --data-dir for the paper's own)"
    print(f"distance correlation, {options.seeds} seeds, {source}")
    print(f"{'depth':>5}{'the paper':>16}{'paper mode':>16}{'defaults':>16}{'PCA':>8}{'s/fit':>14}")
    for depth in options.depths:
        data, truth = load(depth, options.data_dir)
        cells, spent = [], []
        for make in (paper_mode, lambda seed: HGPLVM(random_state=seed)):
            started = time.perf_counter()
            scores = [
                distance_correlation(truth, make(seed).fit(data).embedding_)
                for seed in range(options.seeds)
            ]
            spent.append((time.perf_counter() - started) / options.seeds)
            cells.append(f"{np.mean(scores):.3f} ± {np.std(scores):.3f}")
        pca = distance_correlation(truth, PCA(2).fit_transform(data), metric="euclidean")
        paper = "{:.3f} ± {:.3f}".format(*PAPER[depth]) if depth in PAPER else "-"
        print(
            f"{depth:>5}{paper:>16}{cells[0]:>16}{cells[1]:>16}{pca:>8.3f}"
            f"{spent[0]:>8.1f},{spent[1]:>5.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
