"""Simulated cells whose tree is known: our models beside peers, each from raw counts.

30 settings of `make_cells`: five trees, two kinds of programmes, three profiles of noise, with 1000
and 500 genes in turn. Our models are given counts; peers are given what their tutorials recommend:
counts per cell at the median depth, log1p and 50 principal components (PHATE: square roots of
counts at the median depth). The seed of a simulation is the seed of the methods, too.

Pearson and Spearman: correlation of embedded distances with tree distances, hyperbolic for our
models and Poincaré maps. 5-NN: leave-one-out accuracy of the branch. Time: rank correlation of the
distance from the root cell with pseudotime, its sign aside. Depth: rank correlation of a cell's
mean distance to the others with its library size, less the same for tree distances; 0 is best, and
the mean of its size stands beside its mean. Seconds are for counts to points, after a first call on
a few cells that compiles what is compiled.

Every number is a row of a CSV file in `--out`. What is there is not computed again: a run can be
stopped and started, and several processes can share the work (`--shard 1/2` and `--shard 2/2`).
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Bunch

import hgplvm
from hgplvm import geometry
from hgplvm.baselines import PEERS, Peer, PoincareMaps
from hgplvm.datasets import make_cells

FIVE = [("r", "a"), ("a", "b"), ("a", "c"), ("c", "d"), ("c", "e")]
TOPOLOGIES: dict[str, Any] = {
    "linear": "linear",
    "bifurcation": "bifurcation",
    "multifurcation": "multifurcation",
    "binary": "binary",
    "five": FIVE,
}
PROGRAMMES = ("smooth", "brownian")
PROFILES: dict[str, dict[str, float]] = {
    "deep": {"depth": 2000, "depth_spread": 0.4},
    "shallow": {"depth": 700, "depth_spread": 0.7},
    "tied": {
        "depth": 1200,
        "depth_spread": 0.5,
        "depth_trend": 0.5,
        "dropout": 0.1,
        "signal": 0.8,
    },
}
GENES = (1000, 500)

MODELS = {
    "exact": "HGPLVM",
    "vecchia": "VecchiaHGPLVM",
    "sparse": "SparseHGPLVM",
    "bayesian": "BayesianHGPLVM",
}
STARTS = ("paths", "mds", "pca", "auto")
N_PCS = 50
WARM_CELLS = 150
# starts whose correlations are nearer than this are as good as each other
SAME = 0.001

METRICS = ("Pearson", "Spearman", "5-NN", "time", "depth", "seconds")
KEY = ("setting", "cells", "seed", "method")
COLUMNS = (*KEY, "genes", *METRICS)

COLOURS = {
    "HGPLVM": ("#0072b2", "o"),
    "VecchiaHGPLVM": ("#d55e00", "o"),
    "SparseHGPLVM": ("#009e73", "o"),
    "BayesianHGPLVM": ("#cc79a7", "o"),
    "PCA": ("#000000", "|"),
    "t-SNE": ("#56b4e9", "^"),
    "UMAP": ("#e69f00", "v"),
    "PHATE": ("#8c564b", "D"),
    "PaCMAP": ("#7f7f7f", "s"),
    "TriMap": ("#bcbd22", "P"),
    "Poincaré maps": ("#6a3d9a", "X"),
}

# counts and a seed to points, and whether they are points of the Lorentz model
Run = Callable[[sparse.csr_matrix, int], tuple[np.ndarray, bool]]


# --- settings -------------------------------------------------------------------------------


class Setting(NamedTuple):
    """One way to simulate cells."""

    name: str
    n_genes: int
    parameters: dict[str, Any]

    def draw(self, n_cells: int, seed: int) -> Bunch:
        """Simulate its cells."""
        return make_cells(n_cells, self.n_genes, random_state=seed, **self.parameters)


def grid() -> list[Setting]:
    """Return the 30 settings, in an order that does not change."""
    return [
        Setting(
            f"{tree}-{programmes}-{profile}",
            GENES[(i + j + k) % 2],
            {"topology": TOPOLOGIES[tree], "programmes": programmes, **PROFILES[profile]},
        )
        for i, tree in enumerate(TOPOLOGIES)
        for j, programmes in enumerate(PROGRAMMES)
        for k, profile in enumerate(PROFILES)
    ]


# --- methods --------------------------------------------------------------------------------


def ours(model: Callable[[int], Any]) -> Run:
    """Fit raw counts in an AnnData object with the model that there is for a seed."""

    def run(counts: sparse.csr_matrix, seed: int) -> tuple[np.ndarray, bool]:
        from anndata import AnnData

        adata = AnnData(counts.copy())
        hgplvm.tl.hgplvm(adata, model=model(seed), random_state=seed, keep_model=False)
        return np.asarray(adata.obsm["X_hgplvm_lorentz"], dtype=float), True

    return run


def theirs(peer: Peer, prepare: Callable[[sparse.csr_matrix, int], np.ndarray]) -> Run:
    """Prepare counts for a peer, and keep what it prints to itself."""

    def run(counts: sparse.csr_matrix, seed: int) -> tuple[np.ndarray, bool]:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return peer.embed(prepare(counts, seed), seed), False

    return run


def poincare_maps(counts: sparse.csr_matrix, seed: int) -> tuple[np.ndarray, bool]:
    ball = PoincareMaps(random_state=seed).fit_transform(components(counts, seed))
    return geometry.poincare_to_lorentz(torch.from_numpy(ball)).numpy(), True


def at_median_depth(counts: sparse.csr_matrix) -> np.ndarray:
    total = np.asarray(counts.sum(axis=1), dtype=float)
    return counts.toarray() * (np.median(total) / np.maximum(total, 1.0))


def components(counts: sparse.csr_matrix, seed: int) -> np.ndarray:
    """Principal components of log counts."""
    data = np.log1p(at_median_depth(counts))
    return PCA(min(N_PCS, *data.shape), random_state=seed).fit_transform(data)


def roots(counts: sparse.csr_matrix, _: int) -> np.ndarray:
    return np.sqrt(at_median_depth(counts))


def peers() -> dict[str, Run]:
    """Return the peers that are installed, and say which are not."""
    # as scanpy sets it
    umap = Peer(
        "UMAP",
        "umap",
        lambda data, seed, package: package.UMAP(
            n_neighbors=15, min_dist=0.5, random_state=seed, n_jobs=1
        ).fit_transform(data),
    )
    first = Peer("PCA", "sklearn", lambda data, *_: data[:, :2])
    plan = [
        (first, components),
        (PEERS["t-SNE"], components),
        (umap, components),
        (PEERS["PHATE"], roots),
        (PEERS["PaCMAP"], components),
        (PEERS["TriMap"], components),
    ]
    runs: dict[str, Run] = {}
    for peer, prepare in plan:
        if find_spec(peer.package) is None:
            print(f"{peer.name}: skipped, {peer.package} is not installed", flush=True)
        else:
            runs[peer.name] = theirs(peer, prepare)
    return runs | {"Poincaré maps": poincare_maps}


def methods(options: argparse.Namespace) -> dict[str, Run]:
    """Return what is to be run, by name."""
    if options.starts:
        return {
            f"start {init}": ours(
                lambda seed, init=init: hgplvm.HGPLVM(init=init, random_state=seed)
            )
            for init in STARTS
        }
    runs: dict[str, Run] = {
        MODELS[model]: ours(lambda _, model=model: model)
        for model in options.models
        if model != "none"
    }
    return runs | (peers() if options.peers else {})


# --- measures -------------------------------------------------------------------------------


def scores(cells: Bunch, points: np.ndarray, hyperbolic: bool) -> dict[str, float]:
    truth = np.asarray(cells.tree_distance)
    if hyperbolic:
        found = geometry.pairwise_distance(torch.from_numpy(points)).numpy().copy()
        np.fill_diagonal(found, 0.0)
    else:
        found = cdist(points, points)
    if not np.isfinite(found).all():
        raise ArithmeticError("distances that are not finite")
    pairs = np.triu_indices(len(truth), 1)
    root = int(np.argmin(cells.pseudotime))
    neighbours = KNeighborsClassifier(5, metric="precomputed").fit(found, cells.branch)
    depth = [spearmanr(d.mean(axis=1), cells.library_size).statistic for d in (found, truth)]
    return {
        "Pearson": np.corrcoef(truth[pairs], found[pairs])[0, 1],
        "Spearman": spearmanr(truth[pairs], found[pairs]).statistic,
        "5-NN": np.mean(neighbours.predict(None) == cells.branch),  # None leaves each row out
        "time": abs(spearmanr(found[root], cells.pseudotime).statistic),
        "depth": depth[0] - depth[1],
    }


# --- the run --------------------------------------------------------------------------------


def read(folder: Path) -> pd.DataFrame:
    """Return all rows of all parts."""
    parts = [pd.read_csv(path) for path in sorted(folder.glob("results*.csv"))]
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(parts, ignore_index=True).drop_duplicates([*KEY], keep="last")


def append(path: Path, row: dict[str, Any]) -> None:
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, COLUMNS).writerow(row)


def work(options: argparse.Namespace, settings: list[Setting]) -> None:
    """Run what is not in the folder yet."""
    part, n_parts = options.shard or (1, 1)
    path = options.out / (f"results-{part}.csv" if options.shard else "results.csv")
    options.out.mkdir(parents=True, exist_ok=True)
    found = read(options.out)
    finished = set(found[[*KEY]].itertuples(index=False, name=None))
    runs = methods(options)
    # all settings with the first seed come first; parts do not depend on what is finished
    jobs = [(setting, seed) for seed in options.seeds for setting in settings][part - 1 :: n_parts]
    warm: set[str] = set()
    n_failed = 0
    print(f"{'setting':<32}{'seed':>5}  {'method':<16}" + heading(METRICS), flush=True)
    for setting, seed in jobs:
        key = (setting.name, options.cells, seed)
        todo = [name for name in runs if (*key, name) not in finished]
        if not todo:
            continue
        cells = setting.draw(options.cells, seed)
        for name in todo:
            start = f"{setting.name:<32}{seed:>5}  {name:<16}"
            try:
                if name not in warm:
                    runs[name](cells.counts[:WARM_CELLS], seed)
                    warm.add(name)
                begun = time.perf_counter()
                points, hyperbolic = runs[name](cells.counts, seed)
                took = time.perf_counter() - begun
                row = {**scores(cells, points, hyperbolic), "seconds": took}
            except Exception as error:  # a method that fails is a line that says so
                n_failed += 1
                print(f"{start}  failed: {type(error).__name__}: {error!s:.120}", flush=True)
                continue
            print(start + numbers(row[metric] for metric in METRICS), flush=True)
            values = {metric: f"{row[metric]:.6g}" for metric in METRICS}
            identity = dict(zip(KEY, (*key, name), strict=True))
            append(path, {**identity, "genes": setting.n_genes, **values})
    if n_failed:
        print(f"{n_failed} failed: they are not in the files, and the next run tries them again")


# --- the report -----------------------------------------------------------------------------


def heading(names: Iterable[str]) -> str:
    return "".join(f"{name:>10}" for name in names)


def numbers(values: Iterable[float]) -> str:
    return "".join(f"{value:>10.3f}" for value in values)


def report(folder: Path) -> None:
    """Print what is in the folder, and draw it."""
    found = read(folder)
    if found.empty:
        print(f"no results in {folder}")
    for n_cells, rows in found.groupby("cells"):
        print(f"\n{n_cells} cells, {rows['setting'].nunique()} settings, seeds ", end="")
        print(*sorted(rows["seed"].unique()))
        starts = rows["method"].str.startswith("start ")
        if not starts.all():
            table(rows[~starts])
            against_peers(rows[~starts])
            picture = folder / f"truth-{n_cells}.png"
            draw(rows[~starts], picture)
            print(f"\n{picture}")
        if starts.any():
            compare_starts(rows[starts])


def table(rows: pd.DataFrame) -> None:
    """Means over settings of means over seeds."""
    names = [name for name in COLOURS if name in set(rows["method"])]
    rows = rows.assign(size=rows["depth"].abs())
    metrics = [*METRICS[:-1], "size", METRICS[-1]]
    by_setting = rows.groupby(["method", "setting"])[metrics].mean()
    print(f"{'method':<16}{'settings':>9}{'runs':>6}" + heading([*METRICS[:-1], "|depth|"]), end="")
    print(heading(METRICS[-1:]))
    runs = rows["method"].value_counts()
    for name in names:
        own = by_setting.loc[name]
        print(f"{name:<16}{len(own):>9}{runs[name]:>6}" + numbers(own.mean()[metrics]))
    if runs.nunique() > 1:
        print("These are not the same runs for all methods: compare the differences below.")


def against_peers(rows: pd.DataFrame) -> None:
    """Each of our models less the best peer of each setting, over the runs that both have."""
    mine = [name for name in MODELS.values() if name in set(rows["method"])]
    others = rows[~rows["method"].isin(MODELS.values())]
    if not mine or others.empty:
        return
    for metric in ("Pearson", "Spearman"):
        print(f"\n{metric}, less the best peer of each setting (means over seeds first)")
        print(f"{'model':<16}{'mean':>9}{'least':>9}  {'where':<32}{'ahead':>9}  best peers")
        for name in mine:
            own = rows[rows["method"] == name].set_index(["setting", "seed"])[metric]
            theirs = others.pivot_table(index=["setting", "seed"], columns="method", values=metric)
            # runs that this model and every peer have
            theirs = theirs.dropna()
            shared = own.index.intersection(theirs.index)
            if shared.empty:
                print(f"{name:<16}  no run that all peers have, too")
                continue
            means = theirs.loc[shared].groupby(level="setting").mean()
            gap = own.loc[shared].groupby(level="setting").mean() - means.max(axis=1)
            best = means.idxmax(axis=1).value_counts()
            ahead = f"{(gap > 0).sum()}/{len(gap)}"
            print(
                f"{name:<16}{gap.mean():>9.3f}{gap.min():>9.3f}  {gap.idxmin():<32}{ahead:>9}  "
                + ", ".join(f"{peer} {count}" for peer, count in best.items())
            )


def compare_starts(rows: pd.DataFrame) -> None:
    """Exact model: each start, and where the default stands among them."""
    runs = rows.pivot_table(index=["setting", "seed"], columns="method", values="Pearson").dropna()
    runs = runs.rename(columns=lambda name: name.removeprefix("start "))
    named = [init for init in STARTS if init != "auto" and init in runs]
    print(f"\nStarts of the exact model, {len(runs)} runs that all of them have")
    if runs.empty or "auto" not in runs or not named:
        return
    seconds = rows.groupby("method")["seconds"].mean()
    settings = runs.groupby(level="setting").mean()
    print(f"{'start':<8}{'Pearson':>10}{'least':>10}  {'where':<32}{'seconds':>9}")
    for init in (*named, "auto"):
        own = settings[init]
        took = seconds[f"start {init}"]
        print(f"{init:<8}{numbers([own.mean(), own.min()])}  {own.idxmin():<32}{took:>9.1f}")
    for label, values in (("settings", settings), ("runs", runs)):
        better = values[named].gt(values["auto"] + SAME, axis=0).sum(axis=1)
        short = (values[named].max(axis=1) - values["auto"]).clip(lower=0.0)
        print(
            f"{label}: no start is better than the default by {SAME:g} in {(better == 0).sum()} of "
            f"{len(values)}, one is in {(better == 1).sum()}, more in {(better > 1).sum()}; it is "
            f"behind the best by {short.mean():.3f} on average, {short.max():.3f} at most"
        )


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Tree correlation: a row of dots a setting, a colour a method."""
    from matplotlib.figure import Figure

    order = [setting.name for setting in grid() if setting.name in set(rows["setting"])]
    means = rows.groupby(["method", "setting"])["Pearson"].mean()
    figure = Figure(figsize=(9.0, 1.6 + 0.27 * len(order)), layout="constrained")
    axes = figure.add_subplot()
    names = [name for name in COLOURS if name in set(rows["method"])]
    for name in reversed(names):  # ours above the peers
        colour, marker = COLOURS[name]
        mine = name in MODELS.values()
        own = means.loc[name].reindex(order)
        axes.scatter(
            own,
            np.arange(len(order)),
            s=46 if mine else 30,
            c=colour,
            marker=marker,
            edgecolors="white" if mine else None,
            linewidths=0.6 if mine else 1.6 if marker == "|" else 0.0,
            alpha=1.0 if mine else 0.8,
            label=name,
            zorder=3 if mine else 2,
        )
    trees = [name.split("-")[0] for name in order]
    for i in range(1, len(order)):
        if trees[i] != trees[i - 1]:
            axes.axhline(i - 0.5, color="0.6", linewidth=0.8)
    axes.set_yticks(np.arange(len(order)), [name.replace("-", " ") for name in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("Pearson correlation of embedded distances with tree distances")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="outside upper center", ncols=4, frameon=False, fontsize=9
    )
    figure.savefig(path, dpi=150)


# --- options --------------------------------------------------------------------------------


def shard(text: str) -> tuple[int, int]:
    """Read i/n."""
    part, _, n_parts = text.partition("/")
    if not (part.isdigit() and n_parts.isdigit() and 1 <= int(part) <= int(n_parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not i/n with i from 1 to n")
    return int(part), int(n_parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--report", action="store_true", help="only print what is in --out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[30, 31, 32], help="of simulations")
    parser.add_argument("--cells", type=int, default=600)
    parser.add_argument(
        "--settings", nargs="+", default=[""], help="those whose names contain any of these"
    )
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS, "none"])
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--quick", action="store_true", help="six settings, the first seed")
    parser.add_argument("--shard", type=shard, metavar="i/n", help="the i-th of n parts, from 1")
    parser.add_argument(
        "--starts", action="store_true", help="the starts of the exact model, and nothing else"
    )
    options = parser.parse_args()
    if not options.report:
        # before packages that compile are imported: their threads are those of the others
        if "OMP_NUM_THREADS" in os.environ:
            os.environ.setdefault("NUMBA_NUM_THREADS", os.environ["OMP_NUM_THREADS"])
        settings = grid()
        if options.quick:  # each tree, both programmes, each profile
            settings, options.seeds = settings[::5], options.seeds[:1]
        settings = [s for s in settings if any(part in s.name for part in options.settings)]
        if not settings:
            parser.error(f"no setting has any of {options.settings} in its name")
        work(options, settings)
    report(options.out)


if __name__ == "__main__":
    main()
