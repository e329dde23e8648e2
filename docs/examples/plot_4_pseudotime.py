"""
Pseudotime with uncertainty
===========================

The distance from a root orders cells along their branches, and the posterior of each position
gives the uncertainty of that order.
"""

# %%

import warnings

import numpy as np
import scanpy as sc
from matplotlib import pyplot as plt
from scipy.stats import spearmanr

import hgplvm as hg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # cells are named by time steps, which repeat
    cells = sc.datasets.krumsiek11()
cells.obs_names_make_unique()
time = np.arange(cells.n_obs) % 160  # the step of the simulation, which the model does not see

hg.tl.hgplvm(cells)

# %%
# A root is a row, its name, a group such as ``{"cell_type": "progenitor"}``, a mask, or
# a point of the disk. Here it is the first cell, where the simulation begins.

hg.tl.pseudotime(cells, root=0)
hg.pl.poincare(cells, color=["hgplvm_pseudotime", "cell_type"], root=0)

# %%
# Against the steps of the simulation, with two standard deviations:

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
fates = np.repeat(["Mo", "Ery", "Mk", "Neu"], 160)
for fate, colour in zip(np.unique(fates), hg.pl.OKABE_ITO, strict=False):
    own = fates == fate
    mean = cells.obs["hgplvm_pseudotime"].to_numpy()[own]
    std = cells.obs["hgplvm_pseudotime_std"].to_numpy()[own]
    ax.plot(time[own], mean, color=colour, label=fate)
    ax.fill_between(time[own], mean - 2 * std, mean + 2 * std, color=colour, alpha=0.2, linewidth=0)
ax.set(xlabel="step of the simulation", ylabel="pseudotime")
ax.legend(frameon=False)

# %%
# Rank correlation along each branch, up to the step at which the fate is reached:

for fate in np.unique(fates):
    own = (fates == fate) & (time < 80)
    rank = spearmanr(time[own], cells.obs["hgplvm_pseudotime"][own]).statistic
    print(f"{fate:<4} {rank:.3f}")

# %%
# Decoded along the geodesics from the root to two of the fates, with the genes that decide
# between them: a panel for each gene, a curve for each fate.

hg.pl.trajectory(cells, 0, [{"cell_type": "Ery"}, {"cell_type": "Mo"}], features=["Gata1", "Pu.1"])
