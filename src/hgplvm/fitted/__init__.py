"""Fitted models: what is kept after a fit, and the operations on it."""

from hgplvm.fitted.model import FittedModel, row_digests
from hgplvm.fitted.predictions import (
    InducingPredictions,
    NeighborPredictions,
    Predictions,
    RowPredictions,
)
from hgplvm.fitted.units import Units

__all__ = [
    "FittedModel",
    "InducingPredictions",
    "NeighborPredictions",
    "Predictions",
    "RowPredictions",
    "Units",
    "row_digests",
]
