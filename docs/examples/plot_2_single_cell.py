"""
Cells beside UMAP, with scanpy
==============================

Blood cells from scanpy's own tutorial data: the map beside UMAP, and what a generative model adds
to it. The data ship with scanpy: 700 cells, normalised and scaled, with the UMAP of the tutorial.
"""
# sphinx_gallery_thumbnail_number = 1

# %%

import warnings

import scanpy as sc

import hgplvm as hg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the loader warns: the file is older than the library
    adata = sc.datasets.pbmc68k_reduced()
adata

# %%
# One call embeds the cells, without any preparation: raw counts are fitted as counts, logarithms
# are corrected for the sequencing depth, and scaled values, as here, are fitted as they are.
# Neither ``sc.pp.pca`` nor ``sc.pp.neighbors`` is needed.

hg.tl.hgplvm(adata)
adata.obsm["X_hgplvm"][:3]

# %%
# Beside UMAP, in the colours that scanpy keeps for the labels:

hg.pl.compare(adata, color="bulk_labels", bases=["hgplvm", "umap"])

# %%
# Both find the same groups: T cells that pass over into cytotoxic T cells and NK cells, and apart
# from them B cells, monocytes and dendritic cells. On the left the numbers at the circles are
# distances from the centre. The warning above is the verdict that a plane would do as well: these
# are kinds of mature cells, with hardly a hierarchy among them.
#
# Names may stand on the data, and genes beside them:

hg.pl.poincare(adata, color=["louvain", "CST3", "NKG7"], legend="on data")

# %%
# Every position is a distribution. The regions hold a cell with 90% probability.

hg.pl.uncertainty(adata, color="bulk_labels")

# %%
# The model decodes any point of the disk, also where there is no cell: the expected level of a
# gene, in the unit of the data ...

hg.pl.decoder(adata, ["CST3", "NKG7"])

# %%
# ... and the standard deviation of an observed one. It is small where there are cells that agree,
# larger among cells that differ, and grows away from all of them.

hg.pl.decoder(adata, "NKG7", what="std")

# %%
# Along the way from one group of cells to others, a panel for each gene:

hg.pl.trajectory(
    adata,
    {"bulk_labels": "CD34+"},
    [{"bulk_labels": "CD14+ Monocyte"}, {"bulk_labels": "CD19+ B"}],
    features=["CST3", "CD79A"],
)

# %%
# scanpy's own plots work, too:

sc.pl.embedding(adata, basis="hgplvm", color="hgplvm_std")

# %%
# Everything is stored in the object and in its file: positions, uncertainty, the history of the
# fit, and the model itself, which :func:`hgplvm.tl.model` returns.

adata.uns["hgplvm"]["length_scale"], adata.uns["hgplvm"]["stop_reason"]

# %%

model = hg.tl.model(adata)
model.sample(2, random_state=0).shape
