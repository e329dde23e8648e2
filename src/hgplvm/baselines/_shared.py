"""What the baselines share: what they ask of their data, and what they give back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import validate_data

__all__ = ["EmbedderMixin", "checked_data"]

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


class EmbedderMixin(TransformerMixin):
    """Estimators whose ``fit`` leaves the points of the ball in ``embedding_``."""

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Fit to the rows of X and return their points of the ball.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data.
        y : ignored

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        return self.fit(X, y).embedding_
