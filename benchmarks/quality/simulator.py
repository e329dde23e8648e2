"""Counts of `make_cells` with its defaults beside those of Paul et al. (2015).

Of Paul's genes as many are drawn as are simulated, several times. Zeros: share of entries without
counts. Sizes: median, and standard deviation of the logarithm, of the counts of a cell. Means: the
same over genes, for their mean counts in a cell of median size. φ: median over genes with a mean of
.05 and more of the dispersion, by moments of counts at equal size: variance = μ + φ μ².
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hgplvm.datasets import make_cells


def statistics(counts: np.ndarray) -> dict[str, float]:
    size = counts.sum(1)
    counts = counts[size > 0]
    size = size[size > 0]
    exposure = size / np.median(size)
    mean = counts.sum(0) / exposure.sum()
    seen = mean > 0
    # of y with mean w μ and variance w μ + φ w² μ²: Σ ((y - w μ)² - w μ) = φ μ² Σ w²
    expected = exposure[:, None] * mean
    excess = (np.square(counts - expected) - expected).sum(0)
    common = mean >= 0.05
    phi = excess[common] / (np.square(mean[common]) * np.square(exposure).sum())
    return {
        "zeros": float((counts == 0).mean()),
        "size": float(np.median(size)),
        "sd log size": float(np.log(size).std()),
        "mean": float(np.median(mean[seen])),
        "sd log mean": float(np.log(mean[seen]).std()),
        "φ": float(np.median(phi)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder `paul`")
    parser.add_argument("--genes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    paul = sp.load_npz(options.data_dir / "paul15_counts_2730x3451.npz").toarray().astype(float)
    rows: dict[str, list[dict[str, float]]] = {"Paul": [], "make_cells": []}
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(paul.shape[1])[: options.genes]
        rows["Paul"].append(statistics(paul[:, chosen]))
        cells = make_cells(len(paul), options.genes, random_state=seed)
        rows["make_cells"].append(statistics(cells.counts.toarray().astype(float)))
    names = list(rows["Paul"][0])
    print(f"{'':<12}" + "".join(f"{name:>18}" for name in names))
    for source, found in rows.items():
        cells = [[one[name] for one in found] for name in names]
        text = [f"{np.mean(values):.3g} ± {np.std(values):.2g}" for values in cells]
        print(f"{source:<12}" + "".join(f"{cell:>18}" for cell in text))


if __name__ == "__main__":
    main()
