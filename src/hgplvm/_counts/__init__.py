"""Counts: their likelihoods, and their rates as functions of a few scores of each cell."""

from hgplvm._counts.likelihoods import LIKELIHOODS, CountLikelihood, NegativeBinomial, Poisson
from hgplvm._counts.rates import CountRows, Expectation, RateModel

__all__ = [
    "LIKELIHOODS",
    "CountLikelihood",
    "CountRows",
    "Expectation",
    "NegativeBinomial",
    "Poisson",
    "RateModel",
]
