"""The mean of the data, as an object: what is subtracted before a fit and added after decoding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hgplvm._typing import Array

__all__ = ["ColumnMeans", "Mean", "root_mean_squares"]


class Mean(ABC):
    """Expected rows, before anything is known of their latents."""

    @abstractmethod
    def residuals(self, rows: Array, /) -> Array:
        """Rows less their mean; NaN stays where an entry is missing."""

    @abstractmethod
    def restored(self, residuals: Array, /) -> Array:
        """Rows from their residuals: the inverse of :meth:`residuals`."""

    def restored_std(self, residuals: Array, std: Array, /) -> Array:  # noqa: ARG002
        """Return standard deviations of the entries of rows, from those of their residuals."""
        return std

    def log_slopes(self, rows: Array, /) -> Array | float:  # noqa: ARG002
        """``log |∂ residual/∂ entry|``, which a log density of residuals gains as one of rows."""
        return 0.0


@dataclass(frozen=True)
class ColumnMeans(Mean):
    """One mean for each column, and a limit to how far from it a row counts as.

    Attributes
    ----------
    values : Array [D]
        m.
    limit : float
        The largest root mean square of a row's residuals: outliers are pulled in to it.
    """

    values: Array
    limit: float = math.inf

    @classmethod
    def of(cls, rows: Array) -> ColumnMeans:
        """Means of what is observed in each column."""
        return cls(np.nanmean(rows, axis=0))

    def residuals(self, rows: Array) -> Array:
        """``f (y - m)``, where f is 1 but for outliers."""
        apart = rows - self.values
        return apart if self.limit == math.inf else self._factors(apart) * apart

    def log_slopes(self, rows: Array) -> Array | float:
        """``log f``."""
        return 0.0 if self.limit == math.inf else np.log(self._factors(rows - self.values))

    def _factors(self, apart: Array) -> Array:
        """F [n, 1]."""
        size = np.maximum(root_mean_squares(apart), np.finfo(float).tiny)
        factors: Array = np.minimum(1.0, self.limit / size)[:, None]
        return factors

    def restored(self, residuals: Array) -> Array:
        """``r + m``."""
        return residuals + self.values


def root_mean_squares(rows: Array) -> Array:
    """Return those of what is observed in each row [N]; 0 where nothing is."""
    observed = ~np.isnan(rows)
    squares = np.square(np.where(observed, rows, 0.0)).sum(1)
    found: Array = np.sqrt(squares / np.maximum(observed.sum(1), 1))
    return found
