"""``hgplvm demo``: a binary tree, embedded, measured and drawn."""

from __future__ import annotations

import csv
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: works without a display

import numpy as np
from matplotlib import pyplot as plt
from sklearn.decomposition import PCA
from sklearn.utils import Bunch

from hgplvm import metrics, pl
from hgplvm.datasets import make_binary_tree
from hgplvm.estimators import HGPLVM

__all__ = ["run"]

# distance correlation of the paper's hGP-LVM, Table 2 (mean and standard deviation of 10 runs)
PAPER = {4: (0.816, 0.012), 5: (0.909, 0.003), 6: (0.849, 0.004)}


def run(depth: int, out: Path, seed: int, *, verbose: int = 1) -> str:
    """Fit a generated tree, write ``embedding.csv`` and ``poincare.png``; return the table."""
    tree = make_binary_tree(depth, random_state=seed)
    started = time.perf_counter()
    model = HGPLVM(random_state=seed, verbose=verbose).fit(tree.data)
    seconds = time.perf_counter() - started

    _write(out / "embedding.csv", lambda path: _write_csv(path, model.embedding_, tree))
    _write(out / "poincare.png", lambda path: _draw(path, model, tree))
    return _table(tree, model, seconds)


def _table(tree: Bunch, model: HGPLVM, seconds: float) -> str:
    flat = PCA(2).fit_transform(tree.data)
    depth = int(tree.target.max()) + 1
    rows = [
        (
            "hgplvm (this run)",
            f"{metrics.distance_correlation(tree.tree_distance, model.embedding_):.3f}",
            _local(tree, model.embedding_, "poincare"),
        )
    ]
    if depth in PAPER:
        rows.append(("hGP-LVM, the paper", "{:.3f} ± {:.3f}".format(*PAPER[depth]), "-"))
    correlation = metrics.distance_correlation(tree.tree_distance, flat, metric="euclidean")
    rows.append(("PCA", f"{correlation:.3f}", _local(tree, flat, "euclidean")))
    size = f"{len(tree.data)} rows, {tree.data.shape[1]} columns"
    lines = [
        f"Binary tree of depth {depth}: {size}, fitted in {seconds:.1f} s",
        "",
        f"{'':<20}{'tree distances':>16}{'neighbours':>14}",
        *(f"{name:<20}{first:>16}{second:>14}" for name, first, second in rows),
        "",
        "tree distances: correlation of embedded with true distances; neighbours: trustworthiness",
    ]
    return "\n".join(lines)


def _local(tree: Bunch, points: np.ndarray[Any, Any], metric: str) -> str:
    return f"{metrics.trustworthiness(tree.data, points, metric=metric):.3f}"


def _write(path: Path, write: Callable[[Path], None]) -> None:
    """Write to a file beside it, then rename: the file is there whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    scratch = Path(name)
    try:
        write(scratch)
        scratch.chmod(0o644)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _write_csv(path: Path, points: np.ndarray[Any, Any], tree: Bunch) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "y", "node", "depth"])
        for (x, y), node, depth in zip(points, tree.node, tree.target, strict=True):
            writer.writerow([f"{x:.9g}", f"{y:.9g}", node, depth])


def _draw(path: Path, model: HGPLVM, tree: Bunch) -> None:
    figure, ax = plt.subplots(figsize=(5.6, 5.0), layout="constrained")
    title = "A binary tree, coloured by depth"
    pl.poincare(model, tree.target, ax=ax, palette="viridis", title=title, save=path)
    plt.close(figure)
