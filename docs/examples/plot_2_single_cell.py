"""
Single cells
============

From an AnnData object to a disk, in scanpy's habit. The data ship with scanpy: 700 blood cells,
with 765 genes that are normalised and scaled already.
"""

# %%

import warnings

import scanpy as sc

import hgplvm as hg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the loader: the file is older than the library
    adata = sc.datasets.pbmc68k_reduced()
adata

# %%
# One call embeds the cells. The Bayesian model is the default; ``model="vecchia"`` is the one
# for many cells. Raw counts are refused with advice (or ``normalize=True`` prepares them).

hg.tl.hgplvm(adata)
adata.obsm["X_hgplvm"][:3]

# %%
# Colours are columns of ``obs`` or genes, and scanpy's palettes are used where there are some.

hg.pl.poincare(adata, color="bulk_labels")

# %%
# Several at once, as in scanpy:

hg.pl.poincare(adata, color=["louvain", "CST3", "NKG7"], legend="on data")

# %%
# Every position is a distribution. The regions hold a cell with 90% probability; each is an
# ellipse in the tangent space at its cell, seen through the metric of the disk.

hg.pl.uncertainty(adata, color="bulk_labels")

# %%
# The model decodes any place of the disk, also where no cell is: the expected level of a gene,
# and how far an observed one may be from it.

hg.pl.decoder(adata, "CST3")

# %%

hg.pl.decoder(adata, "CST3", what="std")

# %%
# Along the way from one group of cells to others:

hg.pl.trajectory(
    adata,
    {"bulk_labels": "CD34+"},
    [{"bulk_labels": "CD14+ Monocyte"}, {"bulk_labels": "CD19+ B"}],
    features=["CST3", "CD79A"],
)

# %%
# Beside other embeddings of the same cells, and scanpy's own plots work as they are:

hg.pl.compare(adata, color="bulk_labels", bases=["hgplvm", "umap"])

# %%

sc.pl.embedding(adata, basis="hgplvm", color="hgplvm_std")

# %%
# Everything is in the object and survives its file: positions, uncertainty, how the fit went,
# and the model itself, which :func:`hgplvm.tl.model` returns.

adata.uns["hgplvm"]["length_scale"], adata.uns["hgplvm"]["stop_reason"]

# %%

model = hg.tl.model(adata)
model.sample(2, random_state=0).shape
