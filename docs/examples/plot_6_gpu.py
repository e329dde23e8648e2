"""
Using a GPU
===========

Every model runs on a GPU where torch finds one. The output below is from the machine that built
this page.
"""

# %%
# ``device="auto"``, the default, takes a GPU if there is one. ``"cpu"``, ``"cuda"``,
# ``"cuda:1"`` choose one; the command line has ``--device``.

import time

import torch

from hgplvm import VecchiaHGPLVM, metrics, pl
from hgplvm.datasets import make_branching

devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
devices

# %%
# The nearest-neighbour model is the one for many rows: its cost is linear in them, and its
# algebra is batched, which suits a GPU.

tree = make_branching(2000, n_features=30, random_state=0)
for device in devices:
    started = time.perf_counter()
    model = VecchiaHGPLVM(device=device, random_state=0, max_iter=100).fit(tree.data)
    quality = metrics.distance_correlation(tree.tree_distance[:, :], model.embedding_)
    print(f"{device}: {time.perf_counter() - started:.1f} s, correlation {quality:.3f}")

# %%
# The map, by the depth of the rows in the tree:

pl.poincare(model, tree.target, title="2,000 rows")

# %%
# Notes:
#
# - Results are NumPy arrays, and a saved model is independent of the device: fit on a GPU, embed
#   new rows on a laptop.
# - ``dtype="float32"`` halves the memory. float64 is the default since the geometry needs its
#   precision far from the centre; on data-centre GPUs it costs little.
# - ``chunk_size`` bounds the memory of a step; "auto" chooses it by the device.
# - The search for a start is done on the same device.
# - The same seed gives the same start everywhere, but sums are taken in another order on a GPU, so
#   that two devices differ in the last digits, and after many steps a little more.
