"""
Choosing the curvature
======================

How curved should the space be? The model compares starts at several scales by their evidence
before it fits; the evidence curve shows whether the data branch.
"""

# %%
# A tree, and a cloud without any structure, of the same size:

import numpy as np
from matplotlib import pyplot as plt

from hgplvm import HGPLVM, pl
from hgplvm.datasets import make_binary_tree

tree = make_binary_tree(depth=5, random_state=0)
rng = np.random.default_rng(0)
plane = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 15))
plane += 0.1 * rng.normal(size=plane.shape)

branched = HGPLVM(random_state=0).fit(tree.data)
flat = HGPLVM(random_state=0).fit(plane)

# %%
# The scale is the median distance between points, in curvature radii. For the tree the curve
# rises to the right: there is no room for it in a flat space. For the plane it falls.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
pl.length_scales(branched, ax=axes[0], title="a tree")
pl.length_scales(flat, ax=axes[1], title="a plane")

# %%
# Pictures of both. The plane stays near the centre, where the disk is almost flat.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
pl.poincare(branched, tree.target, ax=axes[0], palette="viridis", legend=False, title="a tree")
pl.poincare(flat, ax=axes[1], title="a plane")

# %%
# The length scale κ can be fixed, too. It is in units of the curvature radius: what matters is the
# extent of the data in units of κ and in curvature radii. Scores of held-out rows compare settings
# on any data, with scikit-learn's own tools:

from sklearn.model_selection import GridSearchCV

search = GridSearchCV(
    HGPLVM(random_state=0, max_iter=60), {"length_scale": [0.5, 2.0, 8.0, "auto"]}, cv=2
)
search.fit(make_binary_tree(depth=4, random_state=0).data)
for setting, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print(setting["length_scale"], round(score, 2))
