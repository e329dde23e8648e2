"""The mean of the data, as an object: what is subtracted before a fit and added after decoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hgplvm._typing import Array

__all__ = ["ColumnMeans", "Mean"]


class Mean(ABC):
    """Expected rows, before anything is known of their latents."""

    @abstractmethod
    def residuals(self, rows: Array, /) -> Array:
        """Rows less their mean; NaN stays where an entry is missing."""

    @abstractmethod
    def restored(self, residuals: Array, /) -> Array:
        """Rows from their residuals: the inverse of :meth:`residuals`."""


@dataclass(frozen=True)
class ColumnMeans(Mean):
    """One mean for each column."""

    values: Array  # [D]

    @classmethod
    def of(cls, rows: Array) -> ColumnMeans:
        """Means of what is observed in each column."""
        return cls(np.nanmean(rows, axis=0))

    def residuals(self, rows: Array) -> Array:
        """``y - m``."""
        return rows - self.values

    def restored(self, residuals: Array) -> Array:
        """``r + m``."""
        return residuals + self.values
