"""
Flat or curved?
===============

How curved should the space be, and does it have to be curved at all? Three answers: a verdict in
words, the evidence of starts at several sizes, and scores of held-out rows.
"""
# sphinx_gallery_thumbnail_number = 2

# %%
# A tree, and a plane with noise, of the same size:

import numpy as np
from matplotlib import pyplot as plt

from hgplvm import HGPLVM, pl
from hgplvm.datasets import make_binary_tree

tree = make_binary_tree(depth=5, n_per_node=10, random_state=0)
rng = np.random.default_rng(0)
places = rng.normal(size=(310, 2))
plane = places @ rng.normal(size=(2, 15)) + 0.1 * rng.normal(size=(310, 15))

branched = HGPLVM(random_state=0).fit(tree.data)
flat = HGPLVM(random_state=0).fit(plane)

# %%
# The verdict in words, with how sure it is. It comes from four tests: does a plane hold the data,
# do distances add up as on a tree, is there a hierarchy, and does a curved space predict held-out
# entries better?

for name, model in (("tree", branched), ("plane", flat)):
    print(f"{name}: {model.curvature().reason}")

# %%
# Before a fit, starts of several sizes are compared by their *evidence*: how probable the data are,
# on a logarithmic scale. The size is the median distance between rows in curvature radii. For the
# tree the curve rises to the right: the larger the map, the more room curvature gives it. For the
# plane it falls: any curvature is too much.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
pl.length_scales(branched, ax=axes[0], title="a tree")
pl.length_scales(flat, ax=axes[1], title="a plane")

# %%
# So the tree is drawn larger: most of its rows are near the rim. The plane is drawn as small as the
# comparison goes, and even so it is slightly distorted: one should draw it in a plane.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
pl.poincare(branched, tree.target, ax=axes[0], zoom=1, palette="viridis", legend=False)
pl.poincare(flat, places[:, 0], ax=axes[1], zoom=1, legend=False)
for ax, model, name in zip(axes, (branched, flat), ("a tree", "a plane"), strict=True):
    distance = np.median(model.distances())
    ax.set_title(f"{name}: median distance {distance:.1f}")

# %%
# The length scale κ can be fixed, too: it is the distance over which the data change. Scores of
# held-out rows compare settings on any data, with scikit-learn's own tools; higher is better:

from sklearn.model_selection import GridSearchCV

search = GridSearchCV(
    HGPLVM(random_state=0, max_iter=40), {"length_scale": [0.5, 2.0, 8.0, "auto"]}, cv=2
)
search.fit(make_binary_tree(depth=4, n_per_node=8, random_state=0).data)
for setting, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print(setting["length_scale"], round(score, 2))
