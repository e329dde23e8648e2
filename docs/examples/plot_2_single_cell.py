"""
Single cells
============

Embed the cells of an AnnData object on the disk, in the style of scanpy. The data ship with scanpy:
700 blood cells, with 765 genes that are already normalised and scaled.
"""

# %%

import warnings

import scanpy as sc

import hgplvm as hg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the loader warns: the file is older than the library
    adata = sc.datasets.pbmc68k_reduced()
adata

# %%
# One call embeds the cells. The Bayesian model is the default; ``model="vecchia"`` is the one
# for many cells. Raw counts would be taken as they are, with a negative binomial likelihood.

hg.tl.hgplvm(adata)
adata.obsm["X_hgplvm"][:3]

# %%
# Colours are columns of ``obs`` or genes; palettes that scanpy has stored are used.

hg.pl.poincare(adata, color="bulk_labels")

# %%
# Several at once, as in scanpy:

hg.pl.poincare(adata, color=["louvain", "CST3", "NKG7"], legend="on data")

# %%
# Every position is a distribution. The regions hold a cell with 90% probability; each is an
# ellipse in the tangent space at its cell, seen through the metric of the disk.

hg.pl.uncertainty(adata, color="bulk_labels")

# %%
# The model decodes any point of the disk, also where there is no cell: the expected level of a
# gene, and the standard deviation of an observed one.

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
# The embedding beside another one of the same cells; scanpy's own plots work, too:

hg.pl.compare(adata, color="bulk_labels", bases=["hgplvm", "umap"])

# %%

sc.pl.embedding(adata, basis="hgplvm", color="hgplvm_std")

# %%
# Everything is stored in the object and in its file: positions, uncertainty, the history of the
# fit, and the model itself, which :func:`hgplvm.tl.model` returns.

adata.uns["hgplvm"]["length_scale"], adata.uns["hgplvm"]["stop_reason"]

# %%

model = hg.tl.model(adata)
model.sample(2, random_state=0).shape
