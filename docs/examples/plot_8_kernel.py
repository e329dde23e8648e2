"""
Extending with a new kernel
===========================

A kernel is a profile g of the distance and its derivative; everything else (gradients, starts,
placing, decoding) follows. A new one is ten lines.
"""

# %%
# The models' kernel is ``k(x, z) = σ exp(-d/κ)``. It forgets exponentially; we would like one
# with a longer memory. The average of ``exp(-rt)`` over ``t ~ Exp(1)`` is ``1/(1 + r)``: a
# mixture of exponential kernels of all scales, so it is positive definite wherever they are, on
# hyperbolic space too. (Not every function of a distance is: the Gaussian of a geodesic
# distance is not.)

import torch

from hgplvm import HGPLVM, metrics, pl
from hgplvm.datasets import make_binary_tree


class Rational:
    """``g(r) = 1/(1 + r)``."""

    def profile(self, r):
        """``g(r)``."""
        return 1.0 / (1.0 + r)

    def slope(self, r, g):  # noqa: ARG002
        """``g'(r) = -g²``."""
        return -g * g


# %%
# A model with it is a subclass with another `kernel`:


class RationalHGPLVM(HGPLVM):
    """The exact model with long memory."""

    kernel = Rational()


# %%
# The derivative is worth a check against autograd, as for all formulas in this project:

r = torch.linspace(0.1, 5.0, 50, dtype=torch.float64, requires_grad=True)
g = Rational().profile(r)
(slope,) = torch.autograd.grad(g.sum(), r)
(slope - Rational().slope(r, g)).abs().max().item()

# %%
# Both models on the same tree:

tree = make_binary_tree(depth=4, random_state=0)
models = {
    "exponential": HGPLVM(random_state=0).fit(tree.data),
    "rational": RationalHGPLVM(random_state=0).fit(tree.data),
}
for name, model in models.items():
    quality = metrics.distance_correlation(tree.tree_distance, model.embedding_)
    print(f"{name}: correlation {quality:.3f}, log likelihood {model.log_likelihood_:.1f}")

# %%

pl.compare(models, tree.target, palette="viridis")

# %%
# It decodes and places new rows, too:

model = models["rational"]
new = make_binary_tree(depth=4, random_state=1).data[:3]
model.inverse_transform(model.transform(new)).round(1)
