"""The units of a fitted model: those that users see, and those that the model works in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from hgplvm._means import Mean
from hgplvm._typing import Array

__all__ = ["Units"]

# entries of new rows, in units of the data's standard deviation, whose squares can be summed
LARGEST = 1e140


@dataclass(frozen=True)
class Units:
    """Conversion of rows and latents between users and the model.

    Attributes
    ----------
    mean : Mean
        What is subtracted from rows.
    data : float
        The model's numbers times this are residuals in the units of the data.
    latent : float
        The model's distances times this are what users see: flat space has no unit of its own.
    """

    mean: Mean
    data: float = 1.0
    latent: float = 1.0

    def to_model(self, rows: Array) -> tuple[Array, Array]:
        """Rows in the model's units, 0 where an entry is missing, and what is observed."""
        observed = ~np.isnan(rows)
        scaled = np.where(observed, self.mean.residuals(rows) / self.data, 0.0)
        if scaled.size and (largest := float(np.abs(scaled).max())) > LARGEST:
            raise ValueError(
                f"A row of the new data is {largest:.3g} times as far from the training data as "
                "these are spread, whose square is beyond floating point. Check its units."
            )
        return scaled, observed

    def rows(self, values: Tensor) -> Array:
        """Rows in the units of the data."""
        return self.mean.restored(self.data * values.cpu().numpy())

    def std(self, values: Tensor) -> Array:
        """Return standard deviations in the units of the data."""
        return self.data * values.cpu().numpy()

    def variance(self, value: float) -> float:
        """Return a variance in the units of the data."""
        return value * self.data**2

    def log_density(self, value: float, n_entries: float) -> float:
        """Return a log density of so many entries in data units: densities scale by s⁻¹."""
        return value - n_entries * math.log(self.data)
