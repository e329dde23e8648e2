"""
Paul's cells: from counts to figures
====================================

Mouse bone marrow progenitors (Paul et al. 2015), from raw counts to the figures of a paper: the
map, a gene, the lineages, and the genes that decide between them. This page needs a network the
first time, since scanpy downloads the data, and is therefore not run when the documentation is
built; pictures and numbers are what it gave (``docs/images/make.py``).
"""
# sphinx_gallery_thumbnail_path = "images/paul_trends.png"

# %%
# Counts of 2,730 cells, and the clusters that the authors found. Counts are taken as they are.

import scanpy as sc

import hgplvm as hg

adata = sc.datasets.paul15()
hg.tl.hgplvm(adata)  # half a minute on two cores
print(hg.tl.curvature(adata))

# %%
# .. code-block:: none
#
#    curved by 2.7 standard errors
#
# So a curved space is called for, and chance is an unlikely reason. The map by cluster, and a gene
# that the model decodes everywhere: myeloperoxidase, in counts of a cell of median size.

hg.pl.poincare(adata, color="paul15_clusters")
hg.pl.decoder(adata, "Mpo")

# %%
# .. image:: /images/cells.png
#    :width: 820
#    :alt: Cells by cluster, and the gene Mpo decoded
#
# The data hold no stem cells. The root is put at cluster 7MEP, the earliest progenitors of
# erythrocytes, which lie near the fork: a place to measure from, not the ancestor of the myeloid
# cells. How many lineages there are follows from the density of the cells and from how sure their
# positions are; they are named after the clusters at their ends. Cells are fainter where their
# branch is less certain.

root = {"paul15_clusters": "7MEP"}
hg.tl.lineages(adata, root=root, groupby="paul15_clusters")
hg.pl.lineages(adata, root=root)

# %%
# .. image:: /images/paul_lineages.png
#    :width: 560
#    :alt: Cells on the disk, the skeleton, and its terminal states
#
# Two ends: monocytes and the other myeloid cells on the left, erythrocytes on the right. Genes that
# differ between them after they part, three that rise towards each:

first, second = adata.obsm["hgplvm_fates"].columns
table = hg.tl.branch_genes(adata, first, second)
up, down = (table[table.difference * sign > 0].gene[:3] for sign in (1, -1))
hg.tl.trends(adata, [*up, *down], lineage=[first, second])
hg.pl.trends(adata)

# %%
# .. image:: /images/paul_trends.png
#    :width: 820
#    :alt: Means of six genes along two lineages, with 90% bands
#
# Myeloperoxidase (Mpo) and proteinase 3 (Prtn3) rise towards monocytes, carbonic anhydrases (Car1,
# Car2) towards erythrocytes: what a haematologist expects, found without a marker, and with an
# answer to "how sure".
