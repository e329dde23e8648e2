"""The units of a model of counts: rates of genes as functions of the scores that it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hgplvm._counts import RateModel
from hgplvm._fitted.units import Units
from hgplvm._typing import Array

__all__ = ["RateUnits"]


@dataclass(frozen=True)
class RateUnits(Units):
    """Conversion between counts and the scores that the model sees.

    Attributes
    ----------
    rates : RateModel
        Rates as functions of scores.
    log_sizes : Array [N]
        Logarithms of the sizes of the training cells' libraries.
    """

    rates: RateModel = None  # type: ignore[assignment]
    log_sizes: Array = None  # type: ignore[assignment]

    def variance(self, value: float) -> float:
        """Variance of logarithms of rates, a mean over the genes."""
        return value * float(self.rates.squares.mean())

    def noise_variance(self, level: float) -> float:
        """Return what a typical cell's counts leave open of logarithms of rates, a mean."""
        return self.variance(level)

    def noise_columns(self, level: float, n_columns: int) -> Array:
        """Return the same for each gene."""
        found: Array = level * self.rates.squares.cpu().numpy()
        return found[:n_columns]

    def log_volume(self, rows: Any, n_entries: float) -> float:  # noqa: ARG002
        """Log probabilities of counts have no unit."""
        return 0.0

    def variances(self, spread: Tensor, noise: float) -> Tensor:
        """As the model has them: scores are not decoded here."""
        return spread + noise

    def deviations(self, residuals: Tensor, beyond: Tensor | None) -> Tensor:  # noqa: ARG002
        """As the model has them."""
        return residuals
