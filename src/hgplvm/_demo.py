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
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from sklearn.decomposition import PCA
from sklearn.utils import Bunch

from hgplvm import metrics, pl
from hgplvm._typing import Array
from hgplvm.datasets import make_binary_tree
from hgplvm.estimators import choose_model
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.pl._layout import Panels

__all__ = ["draw", "run"]

# distance correlation of the paper's hGP-LVM, Table 2 (mean and standard deviation of 10 runs)
PAPER = {4: (0.816, 0.012), 5: (0.909, 0.003), 6: (0.849, 0.004)}
# inches of the two panels, and colours by depth, from the root outwards
PLANE, DISK, COLORS = (4.3, 4.3), (4.9, 4.9), "viridis_r"


def run(depth: int, out: Path, seed: int, *, verbose: int = 1) -> str:
    """Fit a generated tree, write ``embedding.csv`` and ``poincare.png``; return the table."""
    tree = make_binary_tree(depth, random_state=seed)
    started = time.perf_counter()
    kind = choose_model("auto", len(tree.data))
    model = kind(random_state=seed, verbose=verbose).fit(tree.data)
    seconds = time.perf_counter() - started
    model.recenter(tree.target == 0)

    _write(out / "embedding.csv", lambda path: _write_csv(path, model.embedding_, tree))
    _write(out / "poincare.png", lambda path: _draw(path, model, tree))
    return _table(tree, model, seconds)


def _table(tree: Bunch, model: BaseGPLVM, seconds: float) -> str:
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


def _draw(path: Path, model: BaseGPLVM, tree: Bunch) -> None:
    figure = draw(tree, model.embedding_)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw(tree: Bunch, points: Array) -> Any:
    """Draw a tree with its edges: in two principal components, and on the disk with its root at 0.

    The titles say how well distances along the tree are kept, as a correlation.
    """
    edges = np.array([((child - 1) // 2, child) for child in range(1, tree.node.max() + 1)])
    panels = Panels([PLANE, DISK])
    left, right = panels.axes
    flat = PCA(2).fit_transform(tree.data)
    kept = metrics.distance_correlation(tree.tree_distance, flat, metric="euclidean")
    _draw_plane(left, tree, flat, edges)
    left.set_title(f"two principal components\n(tree distances kept: {kept:.2f})", fontsize=11)
    kept = metrics.distance_correlation(tree.tree_distance, points)
    pl.poincare(
        _upright(points),
        tree.target,
        edges=edges.tolist(),
        groupby=tree.node,
        palette=COLORS,
        zoom=1,
        size=11,
        ax=right,
    )
    right.set_title(f"the Poincaré disk\n(tree distances kept: {kept:.2f})", fontsize=11)
    if (legend := right.get_legend()) is not None:
        legend.set_title("depth")
    panels.pack()
    return panels.figure


def _draw_plane(ax: Axes, tree: Bunch, flat: Array, edges: Array) -> None:
    x, y = flat.T
    ax.scatter(x, y, c=tree.target, cmap=COLORS, s=9, linewidths=0, zorder=2)
    nodes = range(tree.node.max() + 1)
    middles = np.array([flat[tree.node == node].mean(axis=0) for node in nodes])
    lines = LineCollection(list(middles[edges]), colors="#404040", linewidths=0.9, zorder=3)
    ax.add_collection(lines)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.set_adjustable("datalim")
    ax.spines[:].set_color("#bbbbbb")


def _upright(points: Array) -> Array:
    """Turn points about the origin so that their middle is above it."""
    x, y = points.mean(axis=0)
    turn = np.pi / 2.0 - np.arctan2(y, x)
    cos, sin = np.cos(turn), np.sin(turn)
    return points @ np.array([[cos, sin], [-sin, cos]])
