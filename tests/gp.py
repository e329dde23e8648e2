"""Short names for the parts of a Gaussian process, as many tests use them."""

from __future__ import annotations

from torch import Tensor

from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential, Kernel
from hgplvm.manifolds import Manifold
from hgplvm.noise import UniformNoise
from hgplvm.objectives import Parameters, predictive

NOISE = UniformNoise()


def on(manifold: Manifold, kernel: Kernel | None = None) -> CovarianceFunction:
    """Return the covariance of a kernel, by default the exponential one, on a manifold."""
    return CovarianceFunction(manifold, kernel or Exponential())


def gram(kernel: Kernel, manifold: Manifold, x: Tensor, z: Tensor, **values: float) -> Tensor:
    """Gram matrix for given values of the parameters."""
    return on(manifold, kernel).at(values).gram(x, z)


def exact_posterior(
    data: Tensor, parameters: Parameters, covariance: CovarianceFunction, **options
) -> predictive.Posterior:
    """Predictions of the exact model at the parameters of a fit."""
    at = covariance.at(parameters.values)
    return predictive.exact_posterior(data, parameters.latents, at, **options)
