"""Counts that the fit has not seen, by binomial thinning: how well each method expects them.

Each count y is split into train ~ Binomial(y, 1/2) and test = y - train. A method is fitted to
train and says which rates it expects in each of these cells. They are scaled in each cell to sum to
the test total, since the depth is no method's merit, and are nowhere below 1e-3 of the rates of the
null model, which has the same share of each gene in all cells. Data are `make_cells` at three
depths and, with `--data-dir`, Paul's counts of the 1,000 genes with the highest variance of log1p
counts at the median depth. Cells and genes without a train count are left out. (pbmc68k_reduced is
not here: its raw slot holds logarithms.)

Poisson, NB: log probability of the test counts in nats, mean over cells; NB is the negative
binomial with one dispersion a gene, of maximum likelihood on the train counts given the method's
own rates. Gain P, gain NB: the same less those of the null model. Even P, even NB: these gains once
each gene's rates have been multiplied by what makes its train total right; this takes out that
exponentials of mean logarithms are no means. Low: share of the rates that the floor of 1e-3 holds.
For `make_cells`, rates: correlation of log rates with the true ones; changes: the same less each
gene's mean over cells, for the genes that change along the tree; tree: correlation of embedded with
tree distances.
Seconds are for the fit and its rates.

Truth is the true rates of `make_cells`. PCA reconstructs log1p counts at the median depth and goes
back with expm1, and so do our Gaussian models. Linear scVI is the linear decoder of scvi-tools on
the CPU with its default settings, but for the number of epochs, which are what makes {STEPS} steps:
its own rule, 400 epochs, is made for many cells and leaves it worse than the null model on these.
Its rates are the mean of 25 draws of the posterior.

With `--shallow`, and nothing else: all counts are thinned to a tenth, and each method makes a map
of the whole and one of the tenth, of the same cells. Maps: Pearson correlation of all distances of
both, hyperbolic for ours; ranks: Spearman's; placed: Pearson correlation of the distances on the
whole's map with those of the tenth's cells embedded on it as new ones (ours alone); whole, tenth:
correlation of each with tree distances. UMAP is of 50 principal components of log1p counts at the
median depth.

Every number is a row of `rates.csv` or `shallow.csv` in `--out`. What is there is not computed
again.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.spatial.distance import pdist, squareform
from scipy.special import gammaln, xlogy
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.utils import Bunch
from truth import components, heading

import hgplvm
from hgplvm._log_counts import log_normalised
from hgplvm.datasets import make_cells

DEPTHS: dict[str, dict[str, float]] = {
    "deep": {"depth": 2000, "depth_spread": 0.4},
    "shallow": {"depth": 700, "depth_spread": 0.7},
    "very shallow": {"depth": 200, "depth_spread": 0.7},
}
N_GENES = 1000
MODELS = ("VecchiaHGPLVM", "HGPLVM", "SparseHGPLVM", "BayesianHGPLVM")
LIKELIHOODS = ("gaussian", "poisson", "negative-binomial")
DIMENSIONS = (2, 10)

# share of the null model's rates below which no rate is
FLOOR = 1e-3
# smallest and largest dispersion, and how they are searched: a grid, then finer ones at its best
DISPERSIONS = (1e-4, 1e3)
GRID, ROUNDS = 11, 5
# steps of scVI, cells in each, and draws of its posterior
STEPS, BATCH_SIZE, DRAWS = 8000, 128, 25
TINY = 1e-300

KEY = ("data", "cells", "seed", "method")
SCORES = ("Poisson", "NB", "gain P", "gain NB", "even P", "even NB", "low")
TRUTHS = ("rates", "changes", "tree")
AGREEMENT = ("maps", "ranks", "placed", "whole", "tenth")
SECONDS = "seconds"


class Data(NamedTuple):
    """Counts of cells, with what is known of them if they are simulated."""

    name: str
    counts: sp.csr_matrix
    cells: Bunch | None = None

    def truth(self, rows: np.ndarray) -> np.ndarray | None:
        """Tree distances of some cells, those above the diagonal."""
        if self.cells is None:
            return None
        return squareform(np.asarray(self.cells.tree_distance)[np.ix_(rows, rows)], checks=False)


class Fitted(NamedTuple):
    """What a method says: rates [n, genes], and distances on its map, if it has one."""

    rates: np.ndarray
    distances: np.ndarray | None = None


# counts and a seed to what a method says
Method = Callable[[sp.csr_matrix, int], Fitted]
# counts and a seed to the distances on a map
Map = Callable[[sp.csr_matrix, int], np.ndarray]


# --- data -----------------------------------------------------------------------------------


def simulated(name: str, n_cells: int, seed: int) -> Data:
    cells = make_cells(n_cells, N_GENES, topology="binary", random_state=seed, **DEPTHS[name])
    return Data(name, cells.counts, cells)


def paul(folder: Path, n_cells: int | None) -> Data:
    """Paul's counts of the genes that vary most, of some cells or all."""
    counts = sp.load_npz(folder / "paul" / "paul15_counts_2730x3451.npz").tocsr()
    counts = counts.astype(np.int64)
    variance = log_normalised(counts)[0].toarray().var(axis=0)
    genes = np.sort(np.argsort(-variance, kind="stable")[:N_GENES])
    some = np.sort(np.random.default_rng(0).permutation(counts.shape[0])[:n_cells])
    return Data("paul", counts[some][:, genes])


def thinned(counts: sp.csr_matrix, share: float, seed: int) -> sp.csr_matrix:
    """Each count kept with this probability."""
    found = counts.copy()
    found.data = np.random.default_rng(seed).binomial(counts.data.astype(np.int64), share)
    found.eliminate_zeros()
    return found


def sums(counts: Any, axis: int) -> np.ndarray:
    return np.asarray(counts.sum(axis=axis), dtype=float).ravel()


# --- methods --------------------------------------------------------------------------------


def installed(package: str, name: str) -> bool:
    """Whether there is a package; says so if there is none."""
    there = find_spec(package) is not None
    if not there:
        print(f"{name}: skipped, {package} is not installed", flush=True)
    return there


def null(counts: sp.csr_matrix, _: int) -> Fitted:
    return Fitted(np.tile(sums(counts, 0), (counts.shape[0], 1)))


def from_logs(logs: np.ndarray) -> np.ndarray:
    """Rates of logarithms; those that are not above zero are left to the floor."""
    return np.expm1(np.maximum(logs, 0.0))


def pca(dimension: int) -> Method:
    def run(counts: sp.csr_matrix, seed: int) -> Fitted:
        model = PCA(dimension, random_state=seed)
        points = model.fit_transform(log_normalised(counts)[0].toarray())
        return Fitted(from_logs(model.inverse_transform(points)), pdist(points))

    return run


def train_scvi(model: Any, n_cells: int, n_steps: int = STEPS) -> Any:
    """Train a model of scvi-tools on the CPU, for a number of steps rather than of epochs."""
    epochs = round(n_steps / max(1, 0.9 * n_cells / BATCH_SIZE))  # a tenth are for validation
    model.train(max_epochs=epochs, accelerator="cpu", devices=1, enable_progress_bar=False)
    return model


def linear_scvi(dimension: int) -> Method:
    def run(counts: sp.csr_matrix, seed: int) -> Fitted:
        import scvi
        from anndata import AnnData

        scvi.settings.seed = seed
        cells = AnnData(counts.astype(np.float32))
        scvi.model.LinearSCVI.setup_anndata(cells)
        model = train_scvi(scvi.model.LinearSCVI(cells, n_latent=dimension), cells.n_obs)
        rates = model.get_normalized_expression(n_samples=DRAWS, return_numpy=True)
        return Fitted(np.asarray(rates, dtype=float), pdist(model.get_latent_representation()))

    return run


def fitted_model(name: str, likelihood: str, counts: sp.csr_matrix, seed: int) -> Any:
    """One of our models: Gaussian ones see logarithms, the others counts."""
    model = getattr(hgplvm, name)(likelihood=likelihood, random_state=seed)
    return model.fit(log_normalised(counts)[0].toarray() if likelihood == "gaussian" else counts)


def ours(name: str, likelihood: str) -> Method:
    def run(counts: sp.csr_matrix, seed: int) -> Fitted:
        model = fitted_model(name, likelihood, counts, seed)
        decoded = np.asarray(model.inverse_transform(model.embedding_), dtype=float)
        rates = from_logs(decoded) if likelihood == "gaussian" else decoded
        return Fitted(rates, squareform(np.asarray(model.distances()), checks=False))

    return run


def our_map(name: str, likelihood: str) -> Map:
    def run(counts: sp.csr_matrix, seed: int) -> np.ndarray:
        model = fitted_model(name, likelihood, counts, seed)
        return squareform(np.asarray(model.distances()), checks=False)

    return run


def placed(method: str, whole: sp.csr_matrix, tenth: sp.csr_matrix, seed: int) -> float:
    """Agreement of cells on the map of the whole with those of the tenth embedded on it."""
    name, likelihood = method.split(" ")
    model = fitted_model(name, likelihood, whole, seed)
    new = tenth
    if likelihood == "gaussian":  # logarithms in the unit of the fit
        new = log_normalised(tenth, log_normalised(whole)[1])[0].toarray()
    there = model.distances(model.transform(new))
    return correlation(
        squareform(np.asarray(model.distances()), checks=False), squareform(there, checks=False)
    )


def umap(data: np.ndarray, seed: int) -> np.ndarray:
    """UMAP as scanpy sets it."""
    import umap as package

    model = package.UMAP(n_neighbors=15, min_dist=0.5, random_state=seed, n_jobs=1)
    return model.fit_transform(data)


def named(models: list[str], likelihoods: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names of our models in tables, of their classes, and likelihoods."""
    for model in models:
        for likelihood in likelihoods:
            yield f"{model} {likelihood}", model, likelihood


def methods(options: argparse.Namespace) -> dict[str, Method]:
    found: dict[str, Method] = {"null": null}
    if options.peers:
        found |= {f"PCA {dimension}": pca(dimension) for dimension in DIMENSIONS}
        if installed("scvi", "linear scVI"):
            found |= {
                f"linear scVI {dimension}": linear_scvi(dimension) for dimension in DIMENSIONS
            }
    own = named(options.models, options.likelihoods)
    return found | {name: ours(model, likelihood) for name, model, likelihood in own}


def maps(options: argparse.Namespace) -> dict[str, Map]:
    found: dict[str, Map] = {}
    if options.peers and installed("umap", "UMAP"):
        found["UMAP"] = lambda counts, seed: pdist(umap(components(counts, seed), seed))
    own = named(options.models, options.likelihoods)
    return found | {name: our_map(model, likelihood) for name, model, likelihood in own}


# --- scores ---------------------------------------------------------------------------------


def shares(rates: np.ndarray, average: np.ndarray) -> np.ndarray:
    """Shares of the genes in each cell, none below the floor."""
    found = rates / np.maximum(rates.sum(axis=1, keepdims=True), TINY)
    found = np.maximum(found, FLOOR * average)
    return found / found.sum(axis=1, keepdims=True)


def low(rates: np.ndarray, average: np.ndarray) -> float:
    """Share of the rates that the floor holds."""
    found = rates / np.maximum(rates.sum(axis=1, keepdims=True), TINY)
    return float(np.mean(found < FLOOR * average))


def poisson(counts: np.ndarray, mean: np.ndarray) -> float:
    """Mean over cells of the log probability."""
    return float((xlogy(counts, mean) - mean - gammaln(counts + 1.0)).sum(axis=1).mean())


def negative_binomial(counts: np.ndarray, mean: np.ndarray, dispersion: np.ndarray) -> np.ndarray:
    """Log probability of each gene [genes]; counts of mean μ have variance μ + φ μ²."""
    shape = 1.0 / dispersion  # r = 1/φ
    spread = mean * dispersion
    # log Γ(y + r)/Γ(r) y! + y log φμ - (y + r) log(1 + φμ), of which most counts are 0
    found = xlogy(counts, spread) - (counts + shape) * np.log1p(spread)
    rows, genes = np.nonzero(counts)
    above = counts[rows, genes]
    found[rows, genes] += gammaln(above + shape[genes]) - gammaln(shape[genes])
    found[rows, genes] -= gammaln(above + 1.0)
    return found.sum(axis=0)


def dispersions(counts: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Dispersion φ of each gene, of maximum likelihood given the means."""
    least, most = (np.full(counts.shape[1], np.log(end)) for end in DISPERSIONS)
    genes = np.arange(counts.shape[1])
    for _ in range(ROUNDS):
        grid = np.linspace(least, most, GRID)
        values = [negative_binomial(counts, mean, np.exp(logs)) for logs in grid]
        best = np.argmax(values, axis=0)
        least = grid[np.maximum(best - 1, 0), genes]
        most = grid[np.minimum(best + 1, GRID - 1), genes]
    return np.exp(grid[best, genes])


def log_probabilities(
    train: np.ndarray, test: np.ndarray, found: np.ndarray
) -> tuple[float, float]:
    """Poisson and negative binomial log probability of test counts, given shares of the genes."""
    mean = found * test.sum(axis=1, keepdims=True)
    phi = dispersions(train, found * train.sum(axis=1, keepdims=True))
    return poisson(test, mean), float(negative_binomial(test, mean, phi).sum() / len(test))


def evened(found: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Shares times what makes the train total of each gene right."""
    expected = (found * train.sum(axis=1, keepdims=True)).sum(axis=0)
    return found * (train.sum(axis=0) / expected)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's coefficient; NaN where one side is constant."""
    a, b = a.ravel() - a.mean(), b.ravel() - b.mean()
    size = np.sqrt(a @ a) * np.sqrt(b @ b)
    constant = min(np.abs(a).max(), np.abs(b).max()) < 1e-9
    return float("nan") if constant else float(a @ b / size)


class Halves:
    """Train and test counts of the same cells, and how rates are scored on them."""

    def __init__(self, data: Data, seed: int) -> None:
        train = thinned(data.counts, 0.5, seed)
        self.data = data
        self.rows, self.genes = np.flatnonzero(sums(train, 1)), np.flatnonzero(sums(train, 0))
        self.train = train[self.rows][:, self.genes]
        self.dense = self.train.toarray().astype(float)
        self.test = data.counts[self.rows][:, self.genes].toarray() - self.dense
        self.average = self.dense.sum(axis=0) / self.dense.sum()
        self.null = log_probabilities(self.dense, self.test, shares(self.dense * 0, self.average))

    def true_rates(self) -> np.ndarray:
        """Shares of the genes that the cells were simulated with."""
        return np.asarray(self.data.cells.rates)[np.ix_(self.rows, self.genes)]

    def scores(self, fitted: Fitted) -> dict[str, float]:
        """All numbers of a method."""
        found = shares(fitted.rates, self.average)
        plain = log_probabilities(self.dense, self.test, found)
        even = shares(evened(found, self.dense), self.average)
        gains = np.subtract([plain, log_probabilities(self.dense, self.test, even)], self.null)
        numbers = [*plain, *gains.ravel(), low(fitted.rates, self.average)]
        return dict(zip(SCORES, numbers, strict=True)) | self.truths(found, fitted.distances)

    def truths(self, found: np.ndarray, distances: np.ndarray | None) -> dict[str, float]:
        """Return what simulated cells tell."""
        if self.data.cells is None:
            return {}
        logs, truth = np.log(found), np.log(np.maximum(self.true_rates(), TINY))
        own = self.data.cells.informative[self.genes]
        changes = [(part - part.mean(axis=0))[:, own] for part in (logs, truth)]
        numbers = {"rates": correlation(logs, truth), "changes": correlation(*changes)}
        if distances is None:
            return numbers
        return numbers | {"tree": correlation(distances, self.data.truth(self.rows))}


# --- the run --------------------------------------------------------------------------------


class Results:
    """Rows of a CSV file, each with a key of its own."""

    def __init__(self, path: Path, key: tuple[str, ...], metrics: tuple[str, ...]) -> None:
        self.path, self.key, self.metrics = path, key, metrics
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(",".join((*key, *metrics)) + "\n", encoding="utf-8")
        self.finished = set(self.read()[[*key]].itertuples(index=False, name=None))

    def read(self) -> pd.DataFrame:
        """Return what is there."""
        return pd.read_csv(self.path)

    def add(self, row: dict[str, Any]) -> None:
        """Keep the numbers of a run."""
        values = {metric: f"{row.get(metric, np.nan):.6g}" for metric in self.metrics}
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, (*self.key, *self.metrics))
            writer.writerow({**{name: row[name] for name in self.key}, **values})

    def table(self, groups: list[str]) -> None:
        """Print means over seeds: a block of methods for each of the groups."""
        for names, rows in self.read().groupby(groups, sort=False):
            seeds = " ".join(map(str, sorted(rows["seed"].unique())))
            title = ", ".join(f"{value} {name}" for value, name in zip(names, groups, strict=True))
            print(f"\n{title}, seeds {seeds}")
            print(f"{'method':<34}{'runs':>5}" + heading(self.metrics))
            means = rows.groupby("method", sort=False)[[*self.metrics]].mean()
            runs = rows["method"].value_counts()
            for method, values in means.iterrows():
                print(f"{method:<34}{runs[method]:>5}" + figures(values))


def figures(values: Any) -> str:
    """Numbers in columns; large ones have fewer digits, and what is not there is a dash."""

    def text(value: float) -> str:
        if np.isnan(value):
            return "-"
        return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"

    return "".join(f"{text(value):>10}" for value in values)


def attempt(results: Results, key: tuple[Any, ...], run: Callable[[], dict[str, float]]) -> None:
    """Run a method, print its numbers and keep them; one that fails is a line that says so."""
    start = f"{key[0]!s:<18}{key[-2]:>5}  {key[-1]:<34}"
    try:
        row = run()
    except Exception as error:
        print(f"{start}  failed: {type(error).__name__}: {error!s:.120}", flush=True)
        return
    print(start + figures(row.get(metric, np.nan) for metric in results.metrics), flush=True)
    results.add({**dict(zip(results.key, key, strict=True)), **row})


def draws(options: argparse.Namespace) -> Iterator[tuple[Data, int]]:
    """All data with the first seed come first."""
    for seed in options.seeds:
        for name in options.depths:
            yield simulated(name, options.cells, seed), seed
        if options.data_dir is not None:
            yield paul(options.data_dir, options.cells if options.quick else None), seed


def score_rates(options: argparse.Namespace, results: Results) -> None:
    for data, seed in draws(options):
        runs = methods(options)
        identity = (data.name, data.counts.shape[0], seed)
        if data.cells is not None:
            runs = {"truth": lambda *_: Fitted(halves.true_rates()), **runs}  # noqa: B023
        todo = [name for name in runs if (*identity, name) not in results.finished]
        if not todo:
            continue
        halves = Halves(data, seed)
        for name in todo:

            def run(method: Method = runs[name], halves: Halves = halves) -> dict[str, float]:
                begun = time.perf_counter()
                fitted = method(halves.train, seed)  # noqa: B023
                took = time.perf_counter() - begun
                return halves.scores(fitted) | {SECONDS: took}

            attempt(results, (*identity, name), run)


def agreement(data: Data, name: str, method: Map, seed: int) -> dict[str, float]:
    """Compare maps of the whole and of a tenth of the counts."""
    tenth = thinned(data.counts, 0.1, seed)
    rows = np.flatnonzero(sums(tenth, 1))
    begun = time.perf_counter()
    found = [
        method(counts[rows][:, np.flatnonzero(sums(counts[rows], 0))], seed)
        for counts in (data.counts, tenth)
    ]
    row = {SECONDS: time.perf_counter() - begun, "maps": correlation(*found)}
    row["ranks"] = float(spearmanr(*found).statistic)
    if name.split(" ")[0] in MODELS:
        genes = np.flatnonzero(sums(data.counts[rows], 0))
        row["placed"] = placed(name, *(c[rows][:, genes] for c in (data.counts, tenth)), seed)
    truth = data.truth(rows)
    if truth is None:
        return row
    return row | {"whole": correlation(found[0], truth), "tenth": correlation(found[1], truth)}


def compare_maps(options: argparse.Namespace, results: Results) -> None:
    runs = maps(options)
    for data, seed in draws(options):
        identity = (data.name, data.counts.shape[0], seed)
        for name, method in runs.items():
            if (*identity, name) not in results.finished:
                run = lambda: agreement(data, name, method, seed)  # noqa: B023, E731
                attempt(results, (*identity, name), run)


# --- options --------------------------------------------------------------------------------


def quiet() -> None:
    """Keep what packages say of themselves off the table, and their threads to those allowed."""
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric", "lightning", "scvi", "jax"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # before packages that compile are imported
    if "OMP_NUM_THREADS" in os.environ:
        os.environ.setdefault("NUMBA_NUM_THREADS", os.environ["OMP_NUM_THREADS"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--report", action="store_true", help="only print what is in --out")
    parser.add_argument("--data-dir", type=Path, help="folder of `paul`")
    parser.add_argument("--seeds", type=int, nargs="+", default=[40, 41, 42])
    parser.add_argument("--cells", type=int, default=600, help="of simulations")
    parser.add_argument("--depths", nargs="*", default=[*DEPTHS], choices=[*DEPTHS])
    parser.add_argument("--models", nargs="*", default=[*MODELS], choices=MODELS)
    parser.add_argument("--likelihoods", nargs="+", default=[*LIKELIHOODS], choices=LIKELIHOODS)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--quick", action="store_true", help="300 cells, the first seed")
    parser.add_argument("--shallow", action="store_true", help="maps of a tenth of the counts")
    options = parser.parse_args()
    quiet()
    if options.quick:
        options.cells, options.seeds = 300, options.seeds[:1]
    name, metrics = ("shallow", AGREEMENT) if options.shallow else ("rates", (*SCORES, *TRUTHS))
    results = Results(options.out / f"{name}.csv", KEY, (*metrics, SECONDS))
    if not options.report:
        print(f"{'data':<18}{'seed':>5}  {'method':<34}" + heading(results.metrics), flush=True)
        (compare_maps if options.shallow else score_rates)(options, results)
    results.table(["data", "cells"])


if __name__ == "__main__":
    main()
