"""
Embedding new cells
===================

A model is fitted once; cells that are measured later are embedded with it.
"""

# %%
# Simulated progenitors that become four cell types; every fourth cell is held out.

import warnings

import numpy as np
import scanpy as sc

import hgplvm as hg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # cells are named by time steps, which repeat
    cells = sc.datasets.krumsiek11()
cells.obs_names_make_unique()
cells.obs["step"] = np.arange(cells.n_obs) % 160
held = np.arange(cells.n_obs) % 4 == 3
reference, new = cells[~held].copy(), cells[held].copy()

hg.tl.hgplvm(reference, root={"cell_type": "progenitor"})

# %%
# The position of a new cell is inferred from the genes that were measured. Columns are matched by
# name, so genes may be in another order, and missing ones are ignored.

hg.tl.transform(new, reference)

# %%
# Pale dots are the reference cells, strong ones the new cells. Crosses, if any, are new cells that
# the model does not explain at a level of 1%.

hg.pl.placed(new, reference, color="cell_type")

# %%
# Held-out cells lie beside the steps of the simulation before and after them:

from hgplvm.metrics import knn_accuracy

both = np.concatenate([reference.obsm["X_hgplvm"], new.obsm["X_hgplvm"]])
types = np.concatenate([reference.obs["cell_type"], new.obs["cell_type"]])
knn_accuracy(both, types, metric="poincare")

# %%
# Half of the genes are enough for most cells; the posterior standard deviation is larger.

some = new[:, ::2].copy()
hg.tl.transform(some, reference)
for name, placed in (("all genes", new), ("every second gene", some)):
    moved = np.linalg.norm(placed.obsm["X_hgplvm"] - new.obsm["X_hgplvm"], axis=1)
    spread = placed.obs["hgplvm_std"].median()
    print(f"{name}: median std {spread:.4f}, median move {np.median(moved):.4f}")

# %%
# The same with arrays: ``model.transform(rows, return_std=True)``; and with files: ``hgplvm
# transform cells-hgplvm.hgplvm new-cells.csv``.
