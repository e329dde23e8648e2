"""Batches: simulated cells of three batches with other cells and shifts as large as the signal.

Each setting is simulated twice with the same cells, without and with shifts of the genes'
logarithms in each batch (`--effects`, their standard deviations; the signal's is 1). Methods are
given raw counts and the batch of each cell: our models with `batch_key` and, to show what is at
stake, without; Harmony on 50 principal components and UMAP, also with softer clusters (σ = .3),
since it ends after one round of its own on such cells; scVI and UMAP. Peers are set as their
tutorials say: log1p at the median depth, and scVI with 10 latent dimensions for as many epochs as
{STEPS} steps take.

Tree: correlation of embedded with tree distances (hyperbolic for ours). Plain: the same of the
model for the cells without shifts. Ceiling: the same for cells that all have the genes of one
batch, mean over the batches: shifts change which genes are expressed, and with it what counts can
tell. Batch and bio: aggregate scores of scib-metrics for the removal of batches and the
conservation of branches, of the plane of each map (ours: tangent coordinates at the centre).
Mixing: `metrics.batch_mixing`, relative to chance.

With `--new`, and nothing else: one batch is left out of the fit, and its cells are embedded as a
new batch. Tree: correlation over all cells.

Every number is a row of `batches.csv` or `new.csv` in `--out`. What is there is not computed again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from anndata import AnnData
from sklearn.utils import Bunch
from thinning import BATCH_SIZE, STEPS, Results, attempt, quiet, sums
from truth import components

import hgplvm
from hgplvm.datasets import _counts, make_cells
from hgplvm.metrics import batch_mixing, distance_correlation

SETTINGS: dict[str, dict[str, Any]] = {
    "binary": {"topology": "binary", "depth": 2000, "depth_spread": 0.4},
    "bifurcation": {"topology": "bifurcation", "depth": 1000, "depth_spread": 0.7},
    "multifurcation": {"topology": "multifurcation", "depth": 2000, "depth_spread": 0.4},
    "brownian": {"topology": "binary", "programmes": "brownian", "depth": 1000},
}
MODELS = ("bayesian", "exact", "sparse", "vecchia")
LIKELIHOODS = ("negative-binomial", "gaussian")
N_BATCHES = 3

KEY = ("setting", "effect", "cells", "seed", "method")
METRICS = ("tree", "plain", "ceiling", "batch", "bio", "mixing", "seconds")

# cells to points, and whether these are on the Poincaré disk
Method = Callable[[AnnData, int], tuple[np.ndarray, bool]]


# --- data -----------------------------------------------------------------------------------


def draw(name: str, effect: float, n_cells: int, seed: int) -> Bunch:
    return make_cells(
        n_cells,
        800,
        n_batches=N_BATCHES,
        batch_effect=effect,
        random_state=seed,
        **SETTINGS[name],
    )


def of_one_batch(name: str, effect: float, n_cells: int, seed: int, batch: int) -> Bunch:
    """Simulate the same cells, all with the genes of one batch."""
    kind = _counts.CellRates

    class OneBatch(kind):
        def __init__(self, weights: np.ndarray, programmes: np.ndarray, **parts: Any) -> None:
            own = np.full_like(parts.pop("batch"), batch)
            super().__init__(weights, programmes, batch=own, **parts)

    _counts.CellRates = OneBatch
    try:
        return draw(name, effect, n_cells, seed)
    finally:
        _counts.CellRates = kind


def object_of(cells: Bunch) -> AnnData:
    adata = AnnData(sp.csr_matrix(cells.counts, dtype=np.float32))
    adata.obs["batch"] = np.array(list("abc"))[cells.batch]
    adata.obs["branch"] = cells.branch.astype(str)
    return adata[:, np.flatnonzero(sums(adata.X, 0))].copy()


# --- methods --------------------------------------------------------------------------------


def ours(model: str, likelihood: str, *, told: bool) -> Method:
    def run(adata: AnnData, seed: int) -> tuple[np.ndarray, bool]:
        found = adata.copy()
        hgplvm.tl.hgplvm(
            found,
            model,
            batch_key="batch" if told else None,
            likelihood=likelihood,
            random_state=seed,
        )
        return found.obsm["X_hgplvm"], True

    return run


def umap(data: np.ndarray, seed: int) -> np.ndarray:
    import umap as package

    return package.UMAP(n_neighbors=15, min_dist=0.5, random_state=seed, n_jobs=1).fit_transform(
        data
    )


def plain(adata: AnnData, seed: int) -> tuple[np.ndarray, bool]:
    return umap(components(adata.X, seed), seed), False


def harmony(sigma: float) -> Method:
    def run(adata: AnnData, seed: int) -> tuple[np.ndarray, bool]:
        import harmonypy

        data = components(adata.X, seed)
        found = harmonypy.run_harmony(data, adata.obs, "batch", sigma=sigma, random_state=seed)
        corrected = np.asarray(found.Z_corr)
        return umap(corrected if corrected.shape == data.shape else corrected.T, seed), False

    return run


def scvi(adata: AnnData, seed: int) -> tuple[np.ndarray, bool]:
    import scvi as package

    package.settings.seed = seed
    cells = adata.copy()
    package.model.SCVI.setup_anndata(cells, batch_key="batch")
    model = package.model.SCVI(cells, n_latent=10, n_layers=2, gene_likelihood="nb")
    epochs = min(400, round(STEPS / max(1, cells.n_obs / BATCH_SIZE)))
    model.train(
        max_epochs=epochs,
        accelerator="cpu",
        batch_size=BATCH_SIZE,
        enable_progress_bar=False,
        logger=False,
    )
    return umap(model.get_latent_representation(), seed), False


def methods(options: argparse.Namespace) -> dict[str, Method]:
    found: dict[str, Method] = {}
    for model in options.models:
        for likelihood in options.likelihoods:
            found[f"{model} {likelihood}"] = ours(model, likelihood, told=True)
    for model in options.models[:1]:
        found[f"{model}, batch not told"] = ours(model, "negative-binomial", told=False)
    if options.peers:
        for package, name, run in (
            ("umap", "UMAP, batch not told", plain),
            ("harmonypy", "Harmony + UMAP", harmony(0.1)),
            ("harmonypy", "Harmony, σ .3 + UMAP", harmony(0.3)),
            ("scvi", "scVI + UMAP", scvi),
        ):
            if find_spec(package) is None:
                print(f"{name}: skipped, {package} is not installed", flush=True)
            else:
                found[name] = run
    return found


# --- scores ---------------------------------------------------------------------------------


def tangent(points: np.ndarray) -> np.ndarray:
    """Coordinates of points of the disk in the tangent plane at its centre."""
    radius = np.linalg.norm(points, axis=1, keepdims=True)
    return points * (2.0 * np.arctanh(radius) / np.maximum(radius, 1e-12))


def scib(adata: AnnData, points: np.ndarray) -> dict[str, float]:
    """Aggregate scores of scib-metrics."""
    if find_spec("scib_metrics") is None:
        return {}
    from scib_metrics.benchmark import Benchmarker

    found = adata.copy()
    found.obsm["map"] = points.astype(np.float32)
    found.obsm["X_pca"] = components(adata.X, 0)
    scorer = Benchmarker(
        found,
        batch_key="batch",
        label_key="branch",
        embedding_obsm_keys=["map"],
        n_jobs=1,
        progress_bar=False,
    )
    scorer.benchmark()
    table = scorer.get_results(min_max_scale=False)
    return {
        "batch": float(table.loc["map", "Batch correction"]),
        "bio": float(table.loc["map", "Bio conservation"]),
    }


def correlation(cells: Bunch, points: np.ndarray, *, disk: bool) -> float:
    metric = "poincare" if disk else "euclidean"
    return distance_correlation(cells.tree_distance, points, metric=metric)


def score(
    method: Method, name: str, effect: float, options: argparse.Namespace, seed: int, *, told: bool
) -> dict[str, float]:
    cells = draw(name, effect, options.cells, seed)
    adata = object_of(cells)
    begun = time.perf_counter()
    points, disk = method(adata, seed)
    row = {"seconds": time.perf_counter() - begun, "tree": correlation(cells, points, disk=disk)}
    row["mixing"] = batch_mixing(
        points, adata.obs["batch"], metric="poincare" if disk else "euclidean"
    )
    if told:  # cells of one batch, and cells without shifts
        alone = draw(name, 0.0, options.cells, seed)
        row["plain"] = correlation(alone, method(object_of(alone), seed)[0], disk=disk)
        each = [of_one_batch(name, effect, options.cells, seed, b) for b in range(N_BATCHES)]
        found = [correlation(one, method(object_of(one), seed)[0], disk=disk) for one in each]
        row["ceiling"] = float(np.mean(found))
    return row | scib(adata, tangent(points) if disk else points)


def score_new(
    model: str, likelihood: str, name: str, effect: float, n_cells: int, seed: int
) -> dict[str, float]:
    """Leave one batch out of the fit, and embed its cells."""
    cells = draw(name, effect, n_cells, seed)
    adata = object_of(cells)
    apart = adata.obs["batch"].to_numpy() == "c"
    known, new = adata[~apart].copy(), adata[apart].copy()
    begun = time.perf_counter()
    hgplvm.tl.hgplvm(known, model, batch_key="batch", likelihood=likelihood, random_state=seed)
    hgplvm.tl.transform(new, known, new_batches=True)
    points = np.zeros((adata.n_obs, 2))
    points[~apart], points[apart] = known.obsm["X_hgplvm"], new.obsm["X_hgplvm"]
    return {
        "seconds": time.perf_counter() - begun,
        "tree": correlation(cells, points, disk=True),
        "mixing": batch_mixing(points, adata.obs["batch"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--report", action="store_true", help="only print what is in --out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[70, 71, 72])
    parser.add_argument("--effects", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--cells", type=int, default=600)
    parser.add_argument("--settings", nargs="+", default=[*SETTINGS], choices=[*SETTINGS])
    parser.add_argument("--models", nargs="*", default=[*MODELS], choices=MODELS)
    parser.add_argument("--likelihoods", nargs="+", default=[*LIKELIHOODS], choices=LIKELIHOODS)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--new", action="store_true", help="a batch that the fit has not seen")
    options = parser.parse_args()
    quiet()
    warnings.simplefilter("ignore")
    results = Results(options.out / ("new.csv" if options.new else "batches.csv"), KEY, METRICS)
    todo = [
        (name, effect, options.cells, seed)
        for seed in options.seeds
        for name in options.settings
        for effect in options.effects
    ]
    for identity in [] if options.report else todo:
        name, effect, n_cells, seed = identity
        if options.new:
            for model in options.models:
                for likelihood in options.likelihoods:
                    key = (*identity, f"{model} {likelihood}")
                    if key not in results.finished:
                        run = lambda: score_new(model, likelihood, name, effect, n_cells, seed)  # noqa: B023, E731
                        attempt(results, key, run)
            continue
        for method, call in methods(options).items():
            if (*identity, method) not in results.finished:
                told = "not told" not in method and "UMAP" not in method
                run = lambda: score(call, name, effect, options, seed, told=told)  # noqa: B023, E731
                attempt(results, (*identity, method), run)
    results.table(["setting", "effect", "cells"])
    results.table(["effect", "cells"])


if __name__ == "__main__":
    main()
