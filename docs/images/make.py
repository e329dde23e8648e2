"""Draw the pictures of the README and of the front page: python docs/images/make.py --counts FILE.

FILE has the counts of Paul et al. (2015), with the clusters in ``obs["paul15_clusters"]``, as
``sc.datasets.paul15().write(FILE)`` makes it. Without it, the tree alone is drawn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection

import hgplvm as hg
from hgplvm.pl._layout import Panels
from hgplvm.pl._view import DiskView

HERE = Path(__file__).parent
DOTS = 110  # an inch


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(HERE / name, dpi=DOTS)
    plt.close(figure)
    print(f"wrote {HERE / name}")


def tree() -> None:
    """The same tree in two principal components, and on the disk."""
    from sklearn.decomposition import PCA

    data = hg.datasets.make_binary_tree(depth=6, random_state=0)
    model = hg.HGPLVM(random_state=0).fit(data.data).recenter(data.target == 0)
    edges = [((child - 1) // 2, child) for child in range(1, data.node.max() + 1)]
    points = upright(model.embedding_)
    flat = PCA(2).fit_transform(data.data)
    panels = Panels([(4.3, 4.3), (4.9, 4.9)])
    left, right = panels.axes
    left.scatter(*flat.T, c=data.target, cmap="viridis_r", s=9, linewidths=0, zorder=2)
    middles = np.array(
        [flat[data.node == node].mean(axis=0) for node in range(data.node.max() + 1)]
    )
    lines = LineCollection(middles[np.array(edges)], colors="#404040", linewidths=0.9, zorder=3)
    left.add_collection(lines)
    left.set(xticks=[], yticks=[], aspect="equal")
    left.set_adjustable("datalim")
    left.spines[:].set_color("#bbbbbb")
    correlation = hg.metrics.distance_correlation
    kept = correlation(data.tree_distance, flat, metric="euclidean")
    left.set_title(f"two principal components\n(tree distances kept: {kept:.2f})", fontsize=11)
    hg.pl.poincare(
        points,
        data.target,
        edges=edges,
        groupby=data.node,
        palette="viridis_r",
        zoom=1,
        size=11,
        ax=right,
        title="",
    )
    kept = correlation(data.tree_distance, points)
    right.set_title(f"the Poincaré disk\n(tree distances kept: {kept:.2f})", fontsize=11)
    right.get_legend().set_title("depth")
    panels.pack()
    save(panels.figure, "tree.png")


def upright(points: np.ndarray) -> np.ndarray:
    """Turn points about the origin so that most of them are above it."""
    x, y = points.mean(axis=0)
    turn = np.pi / 2.0 - np.arctan2(y, x)
    return points @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])


def paul(counts: Path) -> None:
    """Paul's cells from raw counts, a decoded gene, and the tree that was found in them."""
    import anndata

    adata = anndata.read_h5ad(counts)
    hg.tl.hgplvm(adata)
    root = {"paul15_clusters": "7MEP"}
    hg.tl.lineages(adata, root=root, groupby="paul15_clusters")
    two(adata, "paul15_clusters", "Mpo", "cells.png")
    save(hg.pl.lineages(adata, root=root).figure, "paul_lineages.png")
    ends = ["2Ery", "16Neu"]
    if not set(ends) <= set(adata.obsm["hgplvm_fates"].columns):
        ends = list(adata.obsm["hgplvm_fates"].columns[[0, -1]])
    print("ends:", list(adata.obsm["hgplvm_fates"].columns), "compared:", ends)
    table = hg.tl.branch_genes(adata, *ends)
    up, down = (table[table.difference * sign > 0].gene[:3] for sign in (1, -1))
    hg.tl.trends(adata, [*up, *down], lineage=ends)
    save(hg.pl.trends(adata)[0].figure, "paul_trends.png")


def two(adata, color: str, gene: str, name: str) -> None:
    """Cells with a legend, and a decoded gene."""
    view = DiskView("make", np.asarray(adata.obsm["X_hgplvm"]), "auto")
    panels = Panels([view.size(13.0)] * 2)
    first, second = panels.axes
    hg.pl.poincare(adata, color, ax=first, title="cells of mouse bone marrow, by cluster")
    hg.pl.decoder(adata, gene, ax=second, title=f"the gene {gene}, decoded everywhere")
    panels.pack()
    save(panels.figure, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=Path)
    options = parser.parse_args()
    tree()
    if options.counts is not None:
        paul(options.counts)


if __name__ == "__main__":
    main()
