"""Likelihoods of counts: what a count says about the logarithm of its rate.

A count y of a gene has the mean ``μ = exp η``. Under a negative binomial its variance is
``μ + φμ²``; φ = 0 is Poisson. Up to a term c(y, φ) that η has no part in::

    f(η) = y η - (y + 1/φ) log(1 + φμ)          Poisson:  y η - μ
    f'   = (y - μ)/(1 + φμ)                               y - μ
    -f'' = μ (1 + φy)/(1 + φμ)²                           μ

Where η is only known to be normal with mean m and variance v, the expectations are those of
``u = exp(m + v/2)`` for Poisson counts, and a Gauss-Hermite sum over three nodes otherwise. With
``g = E f'`` and ``w = -E f''``, a count says of η what a normal observation at ``m + g/w`` with the
variance 1/w would say: its *pseudo-observation*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import gammaln
from torch import Tensor

from hgplvm._typing import Array

__all__ = [
    "LIKELIHOODS",
    "CountLikelihood",
    "NegativeBinomial",
    "Poisson",
    "shrunk_dispersions",
]

# logarithms of rates above this are taken for it, so that their exponentials stay numbers
LARGEST_LOG = 40.0
# dispersions that are told from those of other genes
LEAST_DISPERSION, MOST_DISPERSION = 1e-4, 1e4
# rounds in which the common dispersion is found
COMMON_ROUNDS = 5
# nodes and weights of the Gauss-Hermite sum for a standard normal variable
NODES = ((-(3.0**0.5), 1.0 / 6.0), (0.0, 2.0 / 3.0), (3.0**0.5, 1.0 / 6.0))


class CountLikelihood(ABC):
    """Probability of counts [..., G] given the logarithms of their means."""

    name: str

    @abstractmethod
    def expected(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``E f``, g and w for ``η ~ N(m, v)``, elementwise."""

    @abstractmethod
    def slope(self, y: Tensor, eta: Tensor) -> Tensor:
        """Return f', elementwise."""

    @abstractmethod
    def constants(self, y: Array, columns: Array) -> Array:
        """Return ``c(y, φ)`` of counts above zero, of genes with these numbers; c(0, φ) is 0."""

    @abstractmethod
    def count_variance(self, mean: Tensor) -> Tensor:
        """Variance of counts of these means: ``μ + φμ²``."""

    @abstractmethod
    def information(self, mean: Tensor) -> Tensor:
        """Return the expected information of a count about η: ``μ/(1 + φμ)``."""

    @abstractmethod
    def draw(self, mean: Array, random: np.random.RandomState) -> Array:
        """Draw counts of these means."""

    @abstractmethod
    def learnt(self, dispersion: Tensor) -> CountLikelihood:
        """Return the likelihood with these dispersions, where it has any."""

    @property
    def dispersion(self) -> Tensor | None:
        """φ [G]; None for Poisson counts."""
        return None

    def of_genes(self, genes: Any) -> CountLikelihood:  # noqa: ARG002
        """Return the likelihood of some of the genes."""
        return self

    def to(self, like: Tensor) -> CountLikelihood:  # noqa: ARG002
        """Return the likelihood on the device of a tensor, in its precision."""
        return self


@dataclass(frozen=True)
class Poisson(CountLikelihood):
    """Counts whose variance is their mean."""

    name = "poisson"

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``y m - u``, ``y - u`` and u."""
        u = _exponential(mean + 0.5 * variance)
        return y * mean - u, y - u, u

    def slope(self, y: Tensor, eta: Tensor) -> Tensor:
        """``y - μ``."""
        return y - _exponential(eta)

    def constants(self, y: Array, columns: Array) -> Array:  # noqa: ARG002
        """``-log y!``."""
        return np.asarray(-gammaln(y + 1.0))

    def count_variance(self, mean: Tensor) -> Tensor:
        """``μ``."""
        return mean

    def information(self, mean: Tensor) -> Tensor:
        """``μ``."""
        return mean

    def draw(self, mean: Array, random: np.random.RandomState) -> Array:
        """``y ~ Poisson(μ)``."""
        return np.asarray(random.poisson(mean))

    def learnt(self, dispersion: Tensor) -> Poisson:  # noqa: ARG002
        """Nothing is learnt."""
        return self


@dataclass(frozen=True)
class NegativeBinomial(CountLikelihood):
    """Counts of variance ``μ + φμ²`` with a dispersion φ for each gene.

    Attributes
    ----------
    phi : Tensor [G]
        φ, positive.
    """

    phi: Tensor
    name = "negative-binomial"

    @property
    def dispersion(self) -> Tensor:
        """φ [G]."""
        return self.phi

    def of_genes(self, genes: Any) -> NegativeBinomial:
        """Dispersions of some of the genes."""
        return NegativeBinomial(self.phi[genes])

    def to(self, like: Tensor) -> NegativeBinomial:
        """Return the same elsewhere."""
        return NegativeBinomial(self.phi.to(like))

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take sums over three nodes."""
        if variance.numel() == 1 and not variance.any():  # at a point
            return self._at(y, mean.clamp_max(LARGEST_LOG))
        value, g, w = (torch.zeros_like(mean) for _ in range(3))
        spread = variance.sqrt()
        for node, weight in NODES:
            parts = self._at(y, (mean + node * spread).clamp_max(LARGEST_LOG))
            for total, part in zip((value, g, w), parts, strict=True):
                total.add_(part, alpha=weight)
        return value, g, w

    def _at(self, y: Tensor, eta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return f and its derivatives, the second less its sign."""
        mu = torch.exp(eta)
        raised = 1.0 + self.phi * mu
        slope = (y - mu) / raised
        # (y - μ)/(1 + φμ) = y - μ (1 + φy)/(1 + φμ)
        bend = (y - slope) / raised
        value = y * eta - (y + 1.0 / self.phi) * torch.log(raised)
        return value, slope, bend

    def slope(self, y: Tensor, eta: Tensor) -> Tensor:
        """``(y - μ)/(1 + φμ)``."""
        mu = _exponential(eta)
        return (y - mu) / (1.0 + self.phi * mu)

    def constants(self, y: Array, columns: Array) -> Array:
        """``log Γ(y + 1/φ) - log Γ(1/φ) + y log φ - log y!``."""
        phi = self.phi.cpu().numpy()[columns]
        shape = 1.0 / phi
        return np.asarray(gammaln(y + shape) - gammaln(shape) + y * np.log(phi) - gammaln(y + 1.0))

    def count_variance(self, mean: Tensor) -> Tensor:
        """``μ + φμ²``."""
        return mean + self.phi * mean.square()

    def information(self, mean: Tensor) -> Tensor:
        """``μ/(1 + φμ)``."""
        return mean / (1.0 + self.phi * mean)

    def draw(self, mean: Array, random: np.random.RandomState) -> Array:
        """``λ ~ Gamma(1/φ, φμ)``, ``y ~ Poisson(λ)``."""
        shape = 1.0 / self.phi.cpu().numpy()
        return np.asarray(random.poisson(mean * random.standard_gamma(shape, mean.shape) / shape))

    def learnt(self, dispersion: Tensor) -> NegativeBinomial:
        """Return the likelihood with these dispersions, within bounds."""
        return NegativeBinomial(dispersion.clamp(LEAST_DISPERSION, MOST_DISPERSION))


def shrunk_dispersions(excess: Tensor, squares: Tensor) -> Tensor:
    """Dispersions φ [G] from moments, those of rare genes drawn to that of all.

    Parameters
    ----------
    excess : Tensor [G]
        ``Σ_n (y - μ)² - μ``, whose expectation is ``φ Σ_n μ²``.
    squares : Tensor [G]
        ``Σ_n μ²``. For Poisson counts the excess has a variance of about twice that, so that φ̂ has
        ``2/Σμ²``: dispersions are taken to scatter around the common one by its own size, and each
        estimate counts by its variance.
    """
    squares = squares.clamp_min(1e-300)
    common = (excess.sum() / squares.sum()).clamp_min(LEAST_DISPERSION)
    for _ in range(COMMON_ROUNDS):  # genes with many counts are not to decide alone
        weights = 1.0 / (common.square() + (2.0 + 4.0 * common) / squares)
        common = ((weights * excess / squares).sum() / weights.sum()).clamp_min(LEAST_DISPERSION)
    share = common.square() / (common.square() + (2.0 + 4.0 * common) / squares)
    return (common + share * (excess / squares - common)).clamp_min(0.0)


def _exponential(log: Tensor) -> Tensor:
    return torch.exp(log.clamp_max(LARGEST_LOG))


LIKELIHOODS = ("gaussian", Poisson.name, NegativeBinomial.name)
