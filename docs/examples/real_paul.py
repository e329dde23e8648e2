"""
Paul's cells: which genes decide between two fates?
===================================================

Mouse bone marrow progenitors (Paul et al. 2015), from raw counts to genes with bands. This page
needs a network the first time, since scanpy downloads the data, and is therefore not run when the
documentation is built; the pictures are what it drew.
"""
# sphinx_gallery_thumbnail_path = "images/paul_trends.png"

# %%
# Counts of 2,730 cells, and the clusters that the authors found. Counts are taken as they are.

import scanpy as sc

import hgplvm as hg

adata = sc.datasets.paul15()
stem = {"paul15_clusters": "7MEP"}  # where erythrocytes and the others part
hg.tl.hgplvm(adata)
print(hg.tl.curvature(adata))

# %%
# .. code-block:: none
#
#    curved by 3.0 standard errors
#
# Lineages from that root: how many there are follows from the density of the cells and from how
# sure their positions are. They are named after the clusters at their ends.

hg.tl.lineages(adata, root=stem, groupby="paul15_clusters")
hg.pl.lineages(adata, root=stem)

# %%
# .. image:: /images/paul_lineages.png
#    :width: 560
#    :alt: Cells on the disk, the skeleton, and its terminal states
#
# Genes that differ between erythrocytes and neutrophils after they part:

table = hg.tl.branch_genes(adata, "2Ery", "16Neu")
up, down = (table[table.difference * sign > 0].gene[:3] for sign in (1, -1))
hg.tl.trends(adata, [*up, *down], lineage=["2Ery", "16Neu"])
hg.pl.trends(adata)

# %%
# .. image:: /images/paul_trends.png
#    :width: 820
#    :alt: Means of six genes along two lineages, with 90% bands
#
# Carbonic anhydrases (Car1, Car2) rise on the way to erythrocytes, myeloperoxidase (Mpo) and
# proteinase 3 (Prtn3) on the way to neutrophils: what a haematologist expects, found without a
# marker, and with an answer to "how sure".
