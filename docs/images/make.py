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

import hgplvm as hg
from hgplvm._demo import draw
from hgplvm.estimators import choose_model
from hgplvm.pl._layout import Panels
from hgplvm.pl._view import DiskView

HERE = Path(__file__).parent
DOTS = 110  # an inch


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(HERE / name, dpi=DOTS)
    plt.close(figure)
    print(f"wrote {HERE / name}")


def tree() -> None:
    """Draw the same tree in two principal components, and on the disk."""
    data = hg.datasets.make_binary_tree(depth=6, random_state=0)
    kind = choose_model("auto", len(data.data))
    model = kind(random_state=0).fit(data.data).recenter(data.target == 0)
    save(draw(data, model.embedding_), "tree.png")


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
    """Draw what there are data for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=Path)
    options = parser.parse_args()
    tree()
    if options.counts is not None:
        paul(options.counts)


if __name__ == "__main__":
    main()
