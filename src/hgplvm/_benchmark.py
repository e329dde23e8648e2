"""``hgplvm benchmark``: our models and installed peers on the same tree, in the same run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from hgplvm import metrics
from hgplvm._optional import require
from hgplvm._typing import Array
from hgplvm.baselines import PEERS
from hgplvm.datasets import make_branching
from hgplvm.estimators import choose_model
from hgplvm.estimators.choice import EXACT_ROWS

__all__ = ["choose", "run"]

MODELS = ("exact", "sparse", "bayesian", "vecchia")
# peers that are left out beyond so many rows, unless they are named
LARGEST = {"t-SNE": 20_000, "GPy GPLVM": 500, "GPy SparseGPLVM": 2_000, "GPy BayesianGPLVM": 1_000}
# rows between which distances are compared
COMPARED = 1500


def choose(names: list[str] | None, n_rows: int) -> list[str]:
    """Return the methods to run: those that are named, or all that fit the size and are there."""
    known = {name.lower(): name for name in (*MODELS, *PEERS)}
    if names:
        if unknown := [name for name in names if name.lower() not in known]:
            raise ValueError(
                f"there is no method {unknown[0]!r}; choose from {', '.join(known.values())}."
            )
        return list(dict.fromkeys(known[name.lower()] for name in names))
    models = [name for name in MODELS if name != "exact" or n_rows <= EXACT_ROWS]
    peers = [
        name
        for name, peer in PEERS.items()
        if n_rows <= LARGEST.get(name, n_rows) and find_spec(peer.package) is not None
    ]
    return models + peers


def run(methods: list[str], n_rows: int, n_columns: int, seed: int) -> Iterator[str]:
    """Yield a table line by line: seconds, times the first method, and how good the result is."""
    tree = make_branching(n_rows, n_features=n_columns, random_state=seed)
    rng = np.random.default_rng(seed)
    some = rng.choice(n_rows, min(n_rows, COMPARED), replace=False)
    truth = np.asarray(tree.tree_distance[some[:, None], some[None]])
    yield f"{n_rows} rows, {n_columns} columns"
    yield f"{'':<20}{'seconds':>10}{'ratio':>9}{'tree distances':>17}"
    first = None
    for name in methods:
        if name in PEERS:  # what it takes to import is not what it takes to embed
            require(name, PEERS[name].package, "peers")
        started = time.perf_counter()
        try:
            points, metric = _embedded(name, tree.data, seed)
        except (ArithmeticError, ImportError, MemoryError, RuntimeError, ValueError) as error:
            yield f"{name:<20}  failed: {' '.join(str(error).split())}"
            continue
        seconds = time.perf_counter() - started
        first = first or seconds
        quality = metrics.distance_correlation(truth, points[some], metric=metric)
        yield f"{name:<20}{seconds:>10.2f}{seconds / first:>9.3g}{quality:>17.3f}"
    yield "ratio: seconds by those of the first method that ran; tree distances: their correlation"


def _embedded(name: str, data: Array, seed: int) -> tuple[Array, str]:
    if name in PEERS:
        return PEERS[name].embed(data, seed), "euclidean"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = choose_model(name, len(data))(random_state=seed, verbose=1).fit(data)
    return model.embedding_, "poincare"
