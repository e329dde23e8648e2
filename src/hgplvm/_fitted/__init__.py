"""Fitted models: what is kept after a fit, and the operations on it."""

from hgplvm._fitted.covariates import FittedCovariates
from hgplvm._fitted.model import FittedModel, row_digests
from hgplvm._fitted.predictions import (
    InducingPredictions,
    NeighborPredictions,
    Predictions,
    RowPredictions,
)
from hgplvm._fitted.rates import RateUnits
from hgplvm._fitted.units import Units

__all__ = [
    "FittedCovariates",
    "FittedModel",
    "InducingPredictions",
    "NeighborPredictions",
    "Predictions",
    "RateUnits",
    "RowPredictions",
    "Units",
    "row_digests",
]
