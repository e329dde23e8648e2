"""How well `transform` flags cells of a type that the model has not seen.

One cell type is left out of the fit, and a tenth of the other cells. Both are embedded, and the
p-values of `transform(..., return_off_map=True)` are compared: the area under the curve (AUC) of
telling unseen types from held-out cells, and the share of held-out cells with p below .05 and .2,
which should be .05 and .2. Paul's counts (`--data-dir` with `paul/`), by lineage, and scanpy's
pbmc68k_reduced, by label and by groups of labels that are hard to tell apart.

    python benchmarks/quality/off_map.py --data-dir DIR
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from hgplvm import BayesianHGPLVM, VecchiaHGPLVM
from hgplvm._anndata import _most_variable
from hgplvm._log_counts import log_normalised

MODELS = {"Bayesian": BayesianHGPLVM, "neighbours": VecchiaHGPLVM}
PAUL = {
    "erythrocytes": ("1Ery", "2Ery", "3Ery", "4Ery", "5Ery", "6Ery"),
    "MEP": ("7MEP",),
    "megakaryocytes": ("8Mk",),
    "GMP": ("9GMP", "10GMP"),
    "dendritic cells": ("11DC",),
    "basophils": ("12Baso", "13Baso"),
    "monocytes": ("14Mo", "15Mo"),
    "neutrophils": ("16Neu", "17Neu"),
    "lymphocytes": ("19Lymph",),
}


def paul(folder: Path) -> tuple[Any, np.ndarray, dict[str, tuple[str, ...]], str]:
    counts = sparse.load_npz(folder / "paul" / "paul15_counts_2730x3451.npz").tocsr().astype(float)
    labels = np.load(folder / "paul" / "labels.npy").astype(str)
    kept = _most_variable(log_normalised(counts)[0], None, choose=True)
    return counts[:, np.flatnonzero(kept)], labels, PAUL, "negative-binomial"


def pbmc() -> tuple[Any, np.ndarray, dict[str, tuple[str, ...]], str]:
    import scanpy

    cells = scanpy.datasets.pbmc68k_reduced()
    labels = cells.obs["bulk_labels"].astype(str).to_numpy()
    names, counts = np.unique(labels, return_counts=True)
    groups = {name: (name,) for name, n in zip(names, counts, strict=True) if n > 12}
    groups["all T cells"] = tuple(n for n in names if n.startswith(("CD4+", "CD8+")))
    groups["all myeloid cells"] = ("Dendritic", "CD14+ Monocyte")
    return cells.raw.X.toarray().astype(float), labels, groups, "gaussian"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data-dir", type=Path, help="folder that holds paul/")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sources = {"pbmc68k": pbmc}
    if given.data_dir is not None:
        sources["paul"] = lambda: paul(given.data_dir)
    for source, read in sources.items():
        rows, labels, groups, likelihood = read()
        for model in given.models:
            print(f"\n{source}, {model}: AUC; held-out cells with p < .05, p < .2; unseen p < .05")
            for group, members in groups.items():
                random = np.random.RandomState(given.seed)
                unseen = np.isin(labels, members)
                seen = random.permutation(np.flatnonzero(~unseen))
                n = max(60, len(seen) // 10)
                fitted = MODELS[model](random_state=given.seed, likelihood=likelihood)
                fitted.fit(rows[seen[n:]])
                held = fitted.transform(rows[seen[:n]], return_off_map=True)[1]
                new = fitted.transform(rows[np.flatnonzero(unseen)], return_off_map=True)[1]
                truth = np.r_[np.zeros(len(held)), np.ones(len(new))]
                auc = roc_auc_score(truth, -np.r_[held, new])
                print(
                    f"{group:<30} {unseen.sum():>5}  {auc:.3f}   {np.mean(held < 0.05):.3f} "
                    f"{np.mean(held < 0.2):.3f}   {np.mean(new < 0.05):.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
