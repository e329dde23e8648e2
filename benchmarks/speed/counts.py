"""Fits to sparse counts of many cells: seconds and peak memory, beside PCA of their logarithms.

Cells come from `make_cells` with three batches. Memory is the peak of the process, which holds
Python, torch and the counts themselves; on a GPU the device's peak stands beside it. PCA is
scikit-learn's, of logarithms at the median depth that stay sparse, 50 components.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import torch
from scipy import sparse
from sklearn.decomposition import PCA

import hgplvm
from hgplvm._log_counts import log_normalised
from hgplvm.datasets import make_cells
from hgplvm.metrics import distance_correlation

SCORED = 3000


def peak() -> float:
    """Peak memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=2000)
    parser.add_argument("--models", nargs="+", default=["SparseHGPLVM"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batches", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--pca", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    cells = make_cells(options.cells, options.genes, depth=1000, n_batches=3, random_state=0)
    counts = sparse.csr_matrix(cells.counts)
    print(f"{counts.nnz / counts.shape[0]:.0f} genes a cell; {peak():.2f} GB before", flush=True)
    for name in options.models:
        model = getattr(hgplvm, name)(
            likelihood="negative-binomial", device=options.device, random_state=0
        )
        begun = time.perf_counter()
        model.fit(counts, covariates=cells.batch if options.batches else None)
        took = time.perf_counter() - begun
        some = np.random.default_rng(0).permutation(options.cells)[:SCORED]
        truth = cells.tree_distance[some[:, None], some]
        tree = distance_correlation(truth, model.embedding_[some])
        there = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
        memory = f"peak {peak():.2f} GB, device {there:.2f} GB"
        print(f"{name:<18}{took:8.1f} s  {memory}  tree {tree:.3f}", flush=True)
    if options.pca:
        begun = time.perf_counter()
        PCA(50, svd_solver="arpack", random_state=0).fit(log_normalised(counts)[0])
        print(f"{'PCA':<18}{time.perf_counter() - begun:8.1f} s  peak {peak():.2f} GB")


if __name__ == "__main__":
    main()
