"""
Statements, and how sure they are
=================================

A map is where questions begin: is there a tree at all, which cells are committed to which fate,
which genes make the difference, and how sure is each answer?
"""
# sphinx_gallery_thumbnail_number = 2

# %%
# Simulated cells on a binary tree with four ends, as raw counts. Where it begins is known.

import anndata as ad
import numpy as np

import hgplvm as hg
from hgplvm.datasets import make_cells

cells = make_cells(600, 400, topology="binary", depth=1500, random_state=1)
adata = ad.AnnData(cells.counts.astype(np.float32))
adata.obs["type"] = [f"type {b}" for b in cells.branch]
root = int(cells.pseudotime.argmin())
hg.tl.hgplvm(adata, root=root)

# %%
# **Is there a tree?** A plane may do as well, and then the verdict says so. It comes from four
# tests: whether a plane holds the data, distances add up as on a tree, there is a hierarchy, and a
# curved space predicts held-out entries better.

verdict = hg.tl.curvature(adata)
print(verdict)
hg.pl.curvature(adata)

# %%
# **Which lineages?** The skeleton follows the ridges of the density of the cells. How many branches
# it has is not a setting, and nothing smaller than the uncertainty of positions is taken for one.

hg.tl.lineages(adata, root=root, groupby="type")
hg.pl.lineages(adata)

# %%
# **How sure is a cell's fate?** Its branch is as uncertain as its position. From root to ends:

fates = adata.obsm["hgplvm_fates"]
position = adata.obs["hgplvm_position"].to_numpy()
for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.0)):
    span = np.quantile(position, [low, high])
    some = fates[(position >= span[0]) & (position <= span[1])]
    print(f"{low:.0%} to {high:.0%}: largest probability {some.max(axis=1).mean():.2f} on average")

# %%
# **Which genes?** Those that differ between two lineages after their fork, with false discovery
# rates; and the course of the first of them, with bands that hold the mean with 90% probability.

first, second = fates.columns[:2]
table = hg.tl.branch_genes(adata, first, second)
print((table.fdr < 0.05).sum(), "genes differ")
table.head()

# %%

hg.tl.trends(adata, list(table.gene[:3]), lineage=[first, second])
hg.pl.trends(adata)

# %%
# **What makes the map** at a place? The genes whose decoded values change most around it, in
# standard deviations.

model = hg.tl.model(adata)
print(model.drivers(int(np.argmax(position))))

# %%
# **Would it come out again?** Fits with another seed and to resampled cells; 1 is full agreement of
# distances. ``pl.poincare`` puts a grey dot under cells below 0.8.

hg.tl.stability(adata, n_seeds=1, bootstrap=2)
print(adata.uns["hgplvm"]["stability"])

# %%
# **Does a new cell belong on the map?** Cells whose genes are shuffled do not: the p-value says so.

rng = np.random.default_rng(0)
counts = cells.counts[:20].toarray()
strange = np.stack([row[rng.permutation(len(row))] for row in counts])
for name, rows in (("cells of the fit", counts), ("shuffled genes", strange)):
    p = model.transform(rows, return_off_map=True)[1]
    print(f"{name}: median p = {np.median(p):.3f}")
