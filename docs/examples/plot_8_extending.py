"""
Extending: a kernel, a space, a noise model
===========================================

Four choices make a model: the space of the latents, the kernel, the noise, and the objective. Each
is an object behind a small interface, and a new one is one file. This page adds a kernel, a kernel
with a parameter that is learnt, a noise model, and uses a space that is not hyperbolic.
"""

# %%
# A kernel
# --------
# The default kernel is ``σ exp(-d/κ)``. It decays exponentially; we would like one with a heavier
# tail. The average of ``exp(-rt)`` over ``t ~ Exp(1)`` is ``1/(1 + r)``: a mixture of
# exponential kernels of all scales, so it is positive definite wherever they are. A function of
# ``r = d/κ`` is a :class:`~hgplvm.kernels.RatioKernel`, with two methods.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch

from hgplvm import HGPLVM, SphericalGPLVM, metrics, pl
from hgplvm.datasets import make_binary_tree
from hgplvm.kernels import GaussianMixture, RatioKernel


class Rational(RatioKernel):
    """``g(r) = 1/(1 + r)``."""

    def profile(self, r):
        """``g(r)``."""
        return 1.0 / (1.0 + r)

    def slope(self, r, g):  # noqa: ARG002
        """``g'(r) = -g²``."""
        return -g * g


# %%
# Every model takes it as a parameter:

tree = make_binary_tree(depth=4, n_per_node=8, random_state=0)
models = {
    "exponential": HGPLVM(random_state=0).fit(tree.data),
    "rational": HGPLVM(kernel=Rational(), random_state=0).fit(tree.data),
}
for name, model in models.items():
    quality = metrics.distance_correlation(tree.tree_distance, model.embedding_)
    print(f"{name}: correlation {quality:.3f}, log likelihood {model.log_likelihood_:.1f}")

pl.compare(models, tree.target, palette="viridis")

# %%
# Not every function of a distance is a kernel on a curved space: the profile of the Matérn kernel
# is positive definite in flat space only. A kernel that is not positive definite is refused before
# the fit.


class Plain(RatioKernel):
    """The Matérn profile of order 3/2, as it is in flat space."""

    def profile(self, r):
        """``(1 + √3 r) exp(-√3 r)``."""
        return (1 + 3**0.5 * r) * torch.exp(-(3**0.5) * r)

    def slope(self, r, g):  # noqa: ARG002
        """``-3r exp(-√3 r)``."""
        return -3 * r * torch.exp(-(3**0.5) * r)


try:
    HGPLVM(kernel=Plain()).fit(tree.data)
except ValueError as error:
    print(error)

# %%
# A kernel with a parameter that is learnt
# ----------------------------------------
# Smooth kernels on hyperbolic space are mixtures of Gaussians over scales, times a factor that
# depends on the space. A :class:`~hgplvm.kernels.GaussianMixture` writes the mixture M, its slope
# and, for each parameter in `shape`, the derivative by its logarithm.


@dataclass(frozen=True, eq=False, repr=False)
class Student(GaussianMixture):
    """``M(r) = (1 + r²/2a)^-a``, with a learnt."""

    a: float = 1.0

    @property
    def shape(self):
        """Parameters that are learnt, and where they start."""
        return {"a": self.a}

    def mixture(self, r, theta):
        """``M(r)``."""
        return (1.0 + r**2 / (2.0 * theta["a"])).pow(-theta["a"])

    def slope(self, r, m, theta):
        """``M'(r)``."""
        return -r * m / (1.0 + r**2 / (2.0 * theta["a"]))

    def by_shape(self, name, r, m, theta):  # noqa: ARG002
        """``∂M/∂log a``."""
        base = 1.0 + r**2 / (2.0 * theta["a"])
        return m * (0.5 * r**2 / base - theta["a"] * torch.log(base))


smooth = HGPLVM(kernel=Student(2.0), random_state=0).fit(tree.data)
smooth.kernel_parameters_, round(smooth.log_likelihood_, 1)

# %%
# Sums and products of kernels are kernels: ``Student() + Rational()``. The built-in ones go by
# name, from rough to smooth, and ``kernel="auto"`` compares them on held-out rows:

small = make_binary_tree(depth=3, n_per_node=6, random_state=0)
choice = HGPLVM(kernel="auto", max_iter=40, random_state=0).fit(small.data)
dict(zip(choice.history_["kernel_name"], choice.history_["kernel_score"].round(3), strict=True))

# %%
# A space
# -------
# A space is a subclass of :class:`~hgplvm.manifolds.Manifold`; ``manifolds/_sphere.py`` is one,
# from its distance to its coordinates. With it comes a model for data that close upon themselves,
# such as the colours of a wheel. Users see stereographic coordinates: the circle of radius 1 is
# the equator.

angle = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, 200)
wheel = np.stack([np.maximum(np.cos(angle - shift), 0.0) for shift in np.linspace(0, 5.5, 12)], 1)
wheel += 0.05 * np.random.default_rng(1).standard_normal(wheel.shape)
ring = SphericalGPLVM(random_state=0).fit(wheel)

figure, ax = plt.subplots(figsize=(4, 4))
ax.scatter(*ring.embedding_.T, c=angle, cmap="twilight", s=12)
ax.set_aspect("equal")

# %%
# A noise model
# -------------
# Objectives get the noise variance of each row from a :class:`~hgplvm.noise.Noise`, and pass it
# the derivatives by them. Here the noise grows with an exponent of a known depth of each row; the
# exponent is learnt with everything else.

from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.noise import Noise
from hgplvm.objectives import ExactObjective, Parameters
from hgplvm.optim import Adam, climb


@dataclass(frozen=True)
class DepthNoise(Noise):
    """``a_n = noise · depth_n^-exponent``."""

    depth: torch.Tensor
    per_row = True

    def variances(self, p):
        """``a``."""
        return p.logs["noise"].exp() * self.depth ** -p.logs["exponent"].exp()

    def gradients(self, p, by_variances):
        """By the logarithms of both parameters."""
        share = by_variances * self.variances(p)
        by_exponent = -(share * self.depth.log()).sum() * p.logs["exponent"].exp()
        return {"noise": share.sum(), "exponent": by_exponent}

    def level(self, p):
        """Noise of a row of depth 1."""
        return p.positive("noise")

    def of_rows(self, rows):
        """Noise of some of the rows."""
        return DepthNoise(self.depth[rows])


# %%
# Rows whose noise falls with their depth, and the exponent that the fit finds (the truth is 1):

depth = torch.from_numpy(np.random.default_rng(2).uniform(0.2, 5.0, len(tree.data)))
noisy = torch.from_numpy(tree.data - tree.data.mean(0))
noisy = noisy + 0.3 * depth.rsqrt()[:, None] * torch.randn(noisy.shape, dtype=torch.float64)
objective = ExactObjective(
    noisy, CovarianceFunction(Hyperbolic(), Exponential()), DepthNoise(depth)
)
logs = {"variance": 0.0, "length_scale": 1.0, "noise": -1.0, "exponent": -1.0}
start = Parameters(
    torch.from_numpy(models["exponential"].lorentz_),
    {name: torch.tensor(value, dtype=torch.float64) for name, value in logs.items()},
    ("variance", "noise", "exponent"),
)
found = climb(objective, start, Adam(1e-3, horizon=150), 150)
{name: round(found.positive(name), 2) for name in ("noise", "exponent")}
