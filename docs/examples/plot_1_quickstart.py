"""
Quick start
===========

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
# centre. Moving the root of the tree to the centre turns radius into depth. It changes the
# picture, not the model.

pl.poincare(model, tree.target, root=tree.target == 0, palette="viridis", title="depth in the tree")

# %%
# How well are the distances along the tree preserved? The correlation for this embedding, and for
# two principal components:

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

new = make_binary_tree(depth=4, random_state=1)
placed, std = model.transform(new.data[:5], return_std=True)
placed.round(3), std.round(3)
