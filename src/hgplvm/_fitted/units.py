"""The units of a fitted model: those that users see, and those that the model works in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hgplvm._means import Mean
from hgplvm._signal import Signal
from hgplvm._typing import Array

__all__ = ["ModelRows", "Units"]

# entries of new rows, in units of the data's standard deviation, whose squares can be summed
LARGEST = 1e140


@dataclass(frozen=True)
class ModelRows:
    """Rows as the model sees them.

    Attributes
    ----------
    values, observed : Array [n, r]
        Rows, 0 where an entry is missing, and what is observed.
    noise : Array [n], optional
        Noise variances of the rows, where the model knows that rows differ.
    beyond : Array [n]
        Log densities, in units of the data, that a density in the model's units leaves out.
    squares, counts : Array [n], optional
        Sum of squares of the entries beyond the signal, and how many these are.
    """

    values: Array
    observed: Array
    noise: Array | None
    beyond: Array
    squares: Array | None = None
    counts: Array | None = None


@dataclass(frozen=True)
class Units:
    """Conversion of rows and latents between users and the model.

    Attributes
    ----------
    mean : Mean
        What is subtracted from rows.
    data : float
        The model's numbers times this are residuals in the units of the data (with a signal: of
        its scores).
    latent : float
        The model's distances times this are what users see: flat space has no unit of its own.
    signal : Signal, optional
        The directions that the model sees, of noisy data.
    effects : Array [q, D], optional
        What covariates do to residuals, before the model sees them.
    """

    mean: Mean
    data: float = 1.0
    latent: float = 1.0
    signal: Signal | None = None
    effects: Array | None = None

    def to_model(self, rows: Array, shift: Array | float = 0.0) -> ModelRows:
        """Rows in the model's units; `shift` is what covariates do to their residuals."""
        observed: Array = ~np.isnan(rows)
        residuals = self.mean.residuals(rows) - shift
        scaled = np.where(observed, residuals / self.data, 0.0)
        if scaled.size and (largest := float(np.abs(scaled).max())) > LARGEST:
            raise ValueError(
                f"A row of the new data is {largest:.3g} times as far from the training data as "
                "these are spread, whose square is beyond floating point. Check its units."
            )
        if self.signal is None:
            beyond = self._log_slopes(rows, observed) - observed.sum(1) * math.log(self.data)
            return ModelRows(scaled, observed, None, beyond)
        scores = self.signal.scores(residuals)
        # q and k entries of variance ν, then the units: scores s/data, and columns y/√b
        nu = scores.noise
        beyond = -0.5 * (scores.counts * np.log(2.0 * math.pi * nu) + scores.squares / nu)
        beyond += scores.log_volume - self.signal.rank * math.log(self.data)
        beyond += self._log_slopes(rows, observed) - observed @ np.log(self.signal.scale)
        known: Array = np.any(observed, axis=1)  # a row of which nothing is known has the density 1
        seen = np.repeat(known[:, None], self.signal.rank, axis=1)
        noise = scores.inflation * nu / self.data**2
        return ModelRows(
            scores.values / self.data,
            seen,
            noise,
            np.where(known, beyond, 0.0),
            scores.squares,
            scores.counts,
        )

    def _log_slopes(self, rows: Array, observed: Array) -> Array:
        """Sum over the observed entries of each row of the logarithms of the mean's slopes [n]."""
        slopes = np.where(observed, self.mean.log_slopes(rows), 0.0)
        return np.asarray(slopes.sum(1))

    def shift(self, design: Array) -> Array | float:
        """Return what covariates [n, q] do to residuals [n, D]."""
        return 0.0 if self.effects is None else np.asarray(design @ self.effects)

    def residuals(self, mean: Tensor) -> Array:
        """Residuals [n, D] from what the model decodes [n, r]."""
        found: Array = self.data * mean.cpu().numpy()
        return found if self.signal is None else self.signal.restored(found)

    def rows(self, mean: Tensor, std: Tensor, shift: Array | float = 0.0) -> tuple[Array, Array]:
        """Rows, and standard deviations of their entries, in the units of the data.

        From decoded means [n, r], standard deviations before the columns' units [n, D], and what
        covariates do to residuals.
        """
        residuals, spread = self.residuals(mean) + shift, self.data * std.cpu().numpy()
        if self.signal is not None:
            spread = spread * self.signal.scale
        return self.mean.restored(residuals), self.mean.restored_std(residuals, spread)

    def variances(self, spread: Tensor, noise: float) -> Tensor:
        """Variance of each entry of a row, before its column's units [n, D].

        From the variances of the decoded functions [n, r], without noise, and that of the noise.
        """
        if self.signal is None:
            return spread + noise
        return spread @ self._loadings(spread).square() + noise

    def deviations(self, residuals: Tensor, beyond: Tensor | None) -> Tensor:
        """Residuals of each entry, before its column's units [n, D], from those in the model's.

        Parameters
        ----------
        residuals : Tensor [n, r]
            What the model leaves unexplained.
        beyond : Tensor [n, D], optional
            The scaled rows beyond the signal, where there is one.
        """
        if self.signal is None or beyond is None:
            return residuals
        return residuals @ self._loadings(residuals) + beyond / self.data

    def _loadings(self, like: Tensor) -> Tensor:
        """Vᵀ [r, D]."""
        assert self.signal is not None
        return torch.from_numpy(self.signal.axes.T.copy()).to(like)

    def variance(self, value: float) -> float:
        """Variance of the decoded functions in the units of the data, a mean over the columns."""
        found = value * self.data**2
        if self.signal is not None:
            found *= float((np.square(self.signal.axes).sum(1) * self.signal.scale**2).mean())
        return found

    def noise_variance(self, level: float) -> float:
        """Noise variance in the units of the data, a mean over the columns."""
        return float(self.noise_columns(level, 1).mean())

    def noise_columns(self, level: float, n_columns: int) -> Array:
        """Noise variance of each column in a typical row, in the units of the data."""
        found = np.full(n_columns, level * self.data**2)
        return found if self.signal is None else found[:1] * self.signal.scale**2

    def log_volume(self, rows: Array, n_entries: float) -> float:
        """Return what turns a log density in the model's units into one in data units.

        Of these rows; densities scale by s⁻¹, and the model sees so many of the rows' entries.
        """
        observed = ~np.isnan(rows)
        found = float(self._log_slopes(rows, observed).sum()) - n_entries * math.log(self.data)
        if self.signal is not None:
            found -= float(observed.sum(0) @ np.log(self.signal.scale))
        return found
