"""Pseudotime and branches beside DPT, Palantir and Slingshot, all from the same root.

Three kinds of data. `make_cells`, whose truth is known: eight settings, from raw counts. scanpy's
`krumsiek11`: four runs of 160 steps, of which the second half has reached its fate; 11 genes, taken
as they are. Paul's counts (`--data-dir` with `paul/`): no truth, but an order of clusters that is
known, from the progenitors to the ends of four lineages.

Time: Spearman's correlation of pseudotime with the true time; on krumsiek11 Pearson's with the step
of the simulation, for each run, and their mean; on Paul Spearman's with the order of the clusters
of each lineage, and their mean. Branches: F1 of groups of cells, the harmonic mean of recovery (of
each true branch the largest Jaccard index with a found one) and relevance (the other way round); on
krumsiek11 of the rows that have reached a fate, on Paul of types of cells.

Ours: `tl.hgplvm` with its defaults, `tl.lineages`; pseudotime is the position along the skeleton,
and the branch the likeliest. Peers as in their tutorials, on logarithms of counts at the median
depth: DPT on 50 components and 15 neighbours, told how often cells branch (not at all where it
fails); Palantir with 500 waypoints on 5 diffusion components, cells sorted by its masks of
branches; Slingshot on 10 components and 10 clusters, cells sorted by the curves that they lie on.

    pip install -c constraints.txt '.[anndata,benchmarks]'
    pip install -c constraints.txt --no-deps pyslingshot pcurvepy2
    python benchmarks/quality/pseudotime.py --data-dir DIR
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
import scanpy as sc
from anndata import AnnData
from scipy import sparse
from scipy.stats import pearsonr, spearmanr
from sklearn.cluster import KMeans

import hgplvm as hg
from hgplvm.datasets import load_myeloid_progenitors, make_cells

CELLS, GENES = 600, 800
TOPOLOGIES = ("linear", "bifurcation", "multifurcation", "binary")
PROGRAMMES = ("smooth", "brownian")
COMPONENTS, NEIGHBORS, CLUSTERS, WAYPOINTS = 50, 15, 10, 500
# order of Paul's clusters in four lineages, and types of cells
MYELOID = ("9GMP", "10GMP")
PAUL_ORDER = {
    "erythrocytes": (("7MEP",), ("6Ery",), ("5Ery",), ("4Ery",), ("3Ery",), ("2Ery",), ("1Ery",)),
    "megakaryocytes": (("7MEP",), ("8Mk",)),
    "monocytes": (("7MEP",), MYELOID, ("14Mo", "15Mo")),
    "neutrophils": (("7MEP",), MYELOID, ("16Neu", "17Neu")),
}
PAUL_TYPES = {
    "1Ery 2Ery 3Ery 4Ery 5Ery 6Ery": "Ery",
    "7MEP": "MEP",
    "8Mk": "Mk",
    "9GMP 10GMP": "GMP",
    "12Baso 13Baso": "Baso",
    "14Mo 15Mo": "Mo",
    "16Neu 17Neu": "Neu",
}

Found = tuple[np.ndarray, np.ndarray]  # pseudotime, and the group of each cell


class Task(NamedTuple):
    """Cells, and what is known of them."""

    name: str
    adata: AnnData  # X holds counts, or numbers that are taken as they are
    counts: bool
    root: int
    forks: int  # how often cells branch
    time: Callable[[np.ndarray], float]
    branches: Callable[[np.ndarray], float]


# --- scores ---------------------------------------------------------------------------------


def f1(found: np.ndarray, true: np.ndarray) -> float:
    """Harmonic mean of recovery and relevance of groups."""
    ours = [found == word for word in np.unique(found)]
    theirs = [true == word for word in np.unique(true)]
    table = np.array([[(a & b).sum() / (a | b).sum() for b in theirs] for a in ours])
    return float(2.0 / (1.0 / table.max(0).mean() + 1.0 / table.max(1).mean()))


def simulated(seed: int) -> Iterator[Task]:
    for topology in TOPOLOGIES:
        for programmes in PROGRAMMES:
            data = make_cells(
                CELLS, GENES, topology=topology, programmes=programmes, random_state=seed
            )
            tips = len(data.parent) - len(set(data.parent[data.parent >= 0].tolist()))
            yield Task(
                f"{topology}, {programmes}",
                AnnData(data.counts.astype(np.float32)),
                True,
                int(data.pseudotime.argmin()),
                tips - 1,
                lambda t, d=data: float(spearmanr(t, d.pseudotime).statistic),
                lambda g, d=data: f1(g, d.branch),
            )


def krumsiek() -> Task:
    data = load_myeloid_progenitors()
    late = data.time >= data.time.max() // 2 + 1

    def per_run(t: np.ndarray) -> float:
        runs = [data.lineage == word for word in np.unique(data.lineage)]
        return float(np.mean([pearsonr(t[run], data.time[run]).statistic for run in runs]))

    return Task(
        "krumsiek11",
        AnnData(data.data.astype(np.float32)),
        False,
        0,
        3,
        per_run,
        lambda g: f1(g[late], data.lineage[late]),
    )


def paul(folder: Path) -> Task:
    counts = sparse.load_npz(folder / "paul" / "paul15_counts_2730x3451.npz").tocsr()
    labels = np.load(folder / "paul" / "labels.npy").astype(str)
    types = {name: kind for names, kind in PAUL_TYPES.items() for name in names.split()}
    typed = np.isin(labels, list(types))
    kinds = np.array([types.get(label, "") for label in labels])

    def by_lineage(t: np.ndarray) -> float:
        found = []
        for order in PAUL_ORDER.values():
            stage = np.full(len(labels), -1)
            for number, names in enumerate(order):
                stage[np.isin(labels, names)] = number
            known = stage >= 0
            found.append(spearmanr(t[known], stage[known]).statistic)
        return float(np.mean(found))

    # the progenitor nearest to the middle of its cluster
    adata = AnnData(counts.astype(np.float32))
    scores = prepared(adata, True).obsm["X_pca"]
    members = np.flatnonzero(labels == "7MEP")
    middle = scores[members].mean(0)
    root = members[np.square(scores[members] - middle).sum(1).argmin()]
    return Task("Paul", adata, True, int(root), 4, by_lineage, lambda g: f1(g[typed], kinds[typed]))


# --- methods --------------------------------------------------------------------------------


def ours(model: str, task: Task, seed: int) -> Found:
    adata = task.adata.copy()
    hg.tl.hgplvm(adata, model, random_state=seed)
    hg.tl.lineages(adata, root=task.root)
    return adata.obs["hgplvm_position"].to_numpy(), adata.obs["hgplvm_branch"].astype(
        str
    ).to_numpy()


def distance(model: str, task: Task, seed: int) -> Found:
    """Distance from the root on the map, which knows no branches."""
    adata = task.adata.copy()
    hg.tl.hgplvm(adata, model, random_state=seed)
    hg.tl.pseudotime(adata, root=task.root)
    return adata.obs["hgplvm_pseudotime"].to_numpy(), np.zeros(adata.n_obs)


def prepared(adata: AnnData, counts: bool) -> AnnData:
    found = adata.copy()
    if counts:
        sc.pp.filter_genes(found, min_cells=3)
        sc.pp.normalize_total(found)
        sc.pp.log1p(found)
        if found.n_vars > 2000:
            sc.pp.highly_variable_genes(found, n_top_genes=2000)
    sc.pp.pca(found, n_comps=min(COMPONENTS, found.n_vars - 1))
    return found


def dpt(task: Task, seed: int) -> Found:
    adata = prepared(task.adata, task.counts)
    sc.pp.neighbors(adata, NEIGHBORS, random_state=seed)
    sc.tl.diffmap(adata)
    adata.uns["iroot"] = task.root
    try:
        sc.tl.dpt(adata, n_branchings=task.forks)
    except ValueError:  # it cannot split them so often
        sc.tl.dpt(adata, n_branchings=0)
    time = adata.obs["dpt_pseudotime"].to_numpy()
    finite = np.isfinite(time)
    time = np.where(finite, time, time[finite].max())  # of cells that no path reaches
    known = "dpt_groups" in adata.obs
    groups = adata.obs["dpt_groups"].astype(str).to_numpy() if known else np.zeros(adata.n_obs)
    return time, groups


def palantir(task: Task, seed: int) -> Found:
    import palantir as package

    adata = prepared(task.adata, task.counts)
    adata.obs_names = [f"c{i}" for i in range(adata.n_obs)]
    package.utils.run_diffusion_maps(adata, n_components=5, seed=seed)
    package.utils.determine_multiscale_space(adata)
    start = adata.obs_names[task.root]
    waypoints = min(WAYPOINTS, adata.n_obs)
    found = package.core.run_palantir(adata, start, num_waypoints=waypoints, n_jobs=1, seed=seed)
    masks = package.presults.select_branch_cells(adata)
    return np.asarray(found.pseudotime, dtype=float), sets_of(np.asarray(masks, dtype=bool))


def slingshot(task: Task, seed: int) -> Found:
    import pyslingshot.slingshot as package

    whole = package.mahalanobis
    # a matrix of one number, which numpy 2 does not take for a number
    package.mahalanobis = lambda *parts: float(np.squeeze(whole(*parts)))
    try:
        scores = prepared(task.adata, task.counts).obsm["X_pca"][:, :CLUSTERS].astype(float)
        labels = KMeans(CLUSTERS, n_init=5, random_state=seed).fit_predict(scores)
        found = package.Slingshot(
            scores,
            cluster_labels_onehot=np.eye(CLUSTERS)[labels],
            start_node=int(labels[task.root]),
        )
        found.fit(num_epochs=10)
    finally:
        package.mahalanobis = whole
    weights = np.asarray(found.cell_weights)
    return np.asarray(found.unified_pseudotime), sets_of(weights > 0.5)


def sets_of(masks: np.ndarray) -> np.ndarray:
    """Return groups of cells that belong to the same lineages."""
    return np.array(["".join("01"[int(k)] for k in row) for row in masks])


METHODS: dict[str, Callable[[Task, int], Found]] = {
    "hgplvm, Bayesian": lambda task, seed: ours("bayesian", task, seed),
    "hgplvm, neighbours": lambda task, seed: ours("vecchia", task, seed),
    "hgplvm, distance on the map": lambda task, seed: distance("bayesian", task, seed),
    "DPT": dpt,
    "Palantir": palantir,
    "Slingshot": slingshot,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[640, 641, 642])
    parser.add_argument("--data-dir", type=Path, help="folder that holds paul/")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--sets", nargs="+", default=["cells", "krumsiek11", "paul"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    jobs: list[tuple[Task, int]] = []
    if "cells" in given.sets:
        jobs += [(task, seed) for seed in given.seeds for task in simulated(seed)]
    if "krumsiek11" in given.sets:
        jobs += [(krumsiek(), seed) for seed in given.seeds]
    if "paul" in given.sets and given.data_dir is not None:
        jobs.append((paul(given.data_dir), given.seeds[0]))
    scores: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for task, seed in jobs:
        for method in given.methods:
            try:
                with (
                    contextlib.redirect_stdout(io.StringIO()),
                    contextlib.redirect_stderr(io.StringIO()),
                ):
                    time, groups = METHODS[method](task, seed)
                score = task.time(time), task.branches(groups)
            except Exception as error:  # of peers, each of which has its own
                print(f"{task.name}, {method}: {type(error).__name__}: {error}", flush=True)
                score = (np.nan, np.nan)
            scores[task.name, method].append(score)
            print(
                f"{task.name:<26}{seed:>5}  {method:<28}{score[0]:.3f} {score[1]:.3f}", flush=True
            )
    print(f"\n{'time / F1, means over seeds':<30}" + "".join(f"{m:>30}" for m in given.methods))
    names = list(dict.fromkeys(task.name for task, _ in jobs))
    for name in names:
        cells = [np.nanmean(scores[name, m], axis=0) for m in given.methods]
        print(f"{name:<30}" + "".join(f"{f'{a:.3f} / {b:.3f}':>30}" for a, b in cells))
    simulated_names = [name for name in names if name not in ("krumsiek11", "Paul")]
    if simulated_names:
        cells = [
            np.nanmean([np.nanmean(scores[n, m], axis=0) for n in simulated_names], axis=0)
            for m in given.methods
        ]
        print(
            f"{'make_cells, mean':<30}" + "".join(f"{f'{a:.3f} / {b:.3f}':>30}" for a, b in cells)
        )


if __name__ == "__main__":
    main()
