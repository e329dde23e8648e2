"""A model after its fit: what is kept of it, and what can be done with it."""

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
