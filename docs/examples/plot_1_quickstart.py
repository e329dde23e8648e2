"""
A tree, found in fifteen columns
================================

Recover a tree from fifteen columns of noisy data, and draw it on the Poincaré disk.
"""

# %%
# The data: 300 noisy samples of the 15 nodes of a binary tree. The model does not know which row
# belongs to which node, and the order of the columns carries no information.

from hgplvm import HGPLVM, metrics, pl
from hgplvm.datasets import make_binary_tree

tree = make_binary_tree(depth=4, random_state=0)
tree.data.shape

# %%
# Nothing has to be set: start, curvature and noise are found from the data. A seed makes the
# fit repeatable.

model = HGPLVM(random_state=0).fit(tree.data)
model

# %%
# The outer circle is infinitely far away; the thin ones are at distance 1, 2, 3, … from the
# centre. With the root of the tree at the centre, the leaves are farthest out. The lines are the
# edges of the true tree, which the model has not seen.

edges = [((child - 1) // 2, child) for child in range(1, 15)]
pl.poincare(
    model,
    tree.target,
    root=tree.target == 0,
    edges=edges,
    groupby=tree.node,
    palette="viridis_r",
    title="depth in the tree",
)

# %%
# How well are the distances along the tree kept? Their correlation with those on the disk, and with
# those between two principal components:

from sklearn.decomposition import PCA

flat = PCA(2).fit_transform(tree.data)
print("hgplvm", round(metrics.distance_correlation(tree.tree_distance, model.embedding_), 3))
print(
    "PCA   ", round(metrics.distance_correlation(tree.tree_distance, flat, metric="euclidean"), 3)
)

# %%
# It is a generative model, so points can be decoded. What do the columns look like halfway
# between two rows, and with which standard deviation?

halfway = model.geodesic(0, 299, n_points=3)[1:2]
mean, std = model.inverse_transform(halfway, return_std=True)
mean.round(2), std.round(2)

# %%
# New rows are embedded without moving the others:

new = make_binary_tree(depth=4, n_per_node=2, random_state=1)
places = model.transform(new.data)
depth, new_depth = tree.target.astype(str), new.target.astype(str)
pl.placed(places, model, new_depth, reference_color=depth, title="new rows over the old")
