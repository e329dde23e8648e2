"""
Batches and counts
==================

Cells from three donors, as raw counts. Each donor shifts the genes in its own way, and holds
the branches in other proportions. The map is to show the tree, not the donors.
"""
# sphinx_gallery_thumbnail_number = 2

# %%
# Simulated cells whose tree is known. The donors' shifts are about as large as what happens along
# the tree.

import anndata as ad
import numpy as np

import hgplvm as hg
from hgplvm.datasets import make_cells
from hgplvm.metrics import distance_correlation

cells = make_cells(600, 400, n_batches=3, batch_effect=0.7, depth=1500, random_state=0)
adata = ad.AnnData(cells.counts.astype(np.float32))
adata.obs["donor"] = np.array(["A", "B", "C"])[cells.batch]
adata.obs["branch"] = [f"branch {b}" for b in cells.branch]
known, new = adata[cells.batch != 2].copy(), adata[cells.batch == 2].copy()

# %%
# Raw counts are taken as they are, with a negative binomial likelihood. Without
# ``batch_key``, the map shows the donors:

hg.tl.hgplvm(known, key_added="plain")
hg.pl.poincare(known, key="plain", color=["donor", "branch"])

# %%
# With ``batch_key`` the donors have no part in the positions. In the model a donor is one more
# kernel: it shifts each gene, and a part of each gene's course along the tree is its own.

hg.tl.hgplvm(known, batch_key="donor", root={"branch": "branch 0"})
hg.pl.batches(known)

# %%

hg.pl.poincare(known, color=["donor", "branch"])

# %%
# How much of the signal's variance is due to the donors, how well they are mixed, and how far
# the map keeps the distances along the true tree, with and without ``batch_key``:

truth = np.asarray(cells.tree_distance[:, :])[np.ix_(cells.batch != 2, cells.batch != 2)]
print(known.uns["hgplvm"]["covariate_variance"], known.uns["hgplvm"]["batch_mixing"])
for key in ("X_plain", "X_hgplvm"):
    print(key, round(distance_correlation(truth, known.obsm[key]), 3))

# %%
# A point is decoded for one donor, or averaged over them. Of counts, decoded rows are expected
# counts of a cell of median size.

model = hg.tl.model(known)
centre = [[0.0, 0.0]]
gene = int(np.argmax(np.asarray(known.X.mean(axis=0))))
for donor in ("A", "B"):
    print(donor, model.inverse_transform(centre, covariates=donor)[0, gene].round(1))
print("both", model.inverse_transform(centre)[0, gene].round(1))

# %%
# Cells of a third donor come later. Its shift is estimated from its cells, in turn with their
# positions. Pale dots are the cells of the fit, strong ones those of the third donor.

hg.tl.transform(new, known, new_batches=True)
hg.pl.placed(new, known, color="branch")

# %%
# Samples are counts, of cells like those of the fit, and ``score`` is a log probability of counts.

drawn = model.sample(3, random_state=0)
drawn[:, :8]

# %%
# With arrays it is ``HGPLVM(likelihood="negative-binomial").fit(counts, covariates=batch)``, and
# with files ``hgplvm fit cells.h5ad --batch donor``. What no model can do is to tell a branch that
# only one batch holds from the effect of that batch: a fit says where that is so.
