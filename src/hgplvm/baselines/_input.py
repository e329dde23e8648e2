"""What every baseline asks of its data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

__all__ = ["checked_data"]

LARGEST = 1e150


def checked_data(
    estimator: Any, X: Any, *, n_neighbors: int = 1, reset: bool = True
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Dense finite rows, more of them than neighbours; keeps the number and names of columns."""
    data = validate_data(
        estimator, X, dtype=np.float64, order="C", ensure_min_samples=2 if reset else 1, reset=reset
    )
    if len(data) <= n_neighbors:
        raise ValueError(
            f"The 'n_neighbors' parameter of {type(estimator).__name__} must be below n_samples = "
            f"{len(data)}. Got {n_neighbors} instead."
        )
    if (largest := float(np.abs(data).max())) > LARGEST:
        raise ValueError(
            f"The data of {type(estimator).__name__} must stay below {LARGEST:g}, or their squares "
            f"overflow. Got {largest:g}: use a larger unit."
        )
    return np.asarray(data)
