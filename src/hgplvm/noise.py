"""The noise of the data, as objects that the objectives ask.

The noise of entry (n, d) has the variance ``a_n`` in the units that an objective sees: one number
for all rows, or one for each. An objective asks for the variances and says ``∂F/∂a``; what these
are made of, and what of it is learnt, is the noise's own. (Columns whose noise differs are scaled
before the objective sees them.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from hgplvm.objectives.parameters import Parameters

__all__ = ["KnownRowNoise", "LearntRowNoise", "Noise", "RowNoise", "UniformNoise", "row_noise"]


class Noise(ABC):
    """Noise variances of the rows, and the way back to the parameters behind them."""

    #: whether rows differ, so that :meth:`variances` has an entry for each
    per_row: bool
    #: least noise variance of a new row
    floor: float = 0.0

    @abstractmethod
    def variances(self, parameters: Parameters, /) -> Tensor:
        """Noise variance of the rows: [] or, where rows differ, [N]."""

    @abstractmethod
    def gradients(self, parameters: Parameters, by_variances: Tensor, /) -> dict[str, Tensor]:
        """Gradients by the noise's log parameters, by name, from ``∂F/∂a`` (of that shape)."""

    @abstractmethod
    def level(self, parameters: Parameters, /) -> float:
        """Noise variance of a row of which nothing is known: what new rows are taken to have."""

    @abstractmethod
    def of_rows(self, rows: Tensor, /) -> Noise:
        """Noise of some of the rows."""

    def of_entries(self, parameters: Parameters, /) -> Tensor:
        """Noise variance of the rows' entries, where those that an objective sees have more."""
        return self.variances(parameters)

    #: entries of the data that say something about the noise, but that no objective sees
    n_beyond: float = 0.0

    def begun(self, parameters: Parameters, /) -> Parameters:
        """Return parameters of a start with those of this noise in the place of ``log noise``."""
        return parameters

    def evidence(self, parameters: Parameters, /) -> float:  # noqa: ARG002
        """Log density of the entries beyond those that an objective sees; objectives add it."""
        return 0.0


@dataclass(frozen=True)
class UniformNoise(Noise):
    """One variance for all entries: ``β⁻¹ = floor + exp(log noise)``.

    Attributes
    ----------
    floor : float
        Least variance, in the units of the objective.
    """

    floor: float = 0.0
    per_row = False

    def variances(self, parameters: Parameters) -> Tensor:
        """``β⁻¹``."""
        return parameters.logs["noise"].exp() + self.floor

    def gradients(self, parameters: Parameters, by_variances: Tensor) -> dict[str, Tensor]:
        """``∂F/∂log noise = noise ∂F/∂β⁻¹``."""
        return {"noise": parameters.logs["noise"].exp() * by_variances}

    def level(self, parameters: Parameters) -> float:
        """``β⁻¹``."""
        return float(self.variances(parameters))

    def of_rows(self, rows: Tensor) -> UniformNoise:  # noqa: ARG002
        """All rows are alike."""
        return self


@dataclass(frozen=True)
class RowNoise(Noise):
    """Rows that differ by known factors: ``a_n = β⁻¹ w_n``.

    Attributes
    ----------
    factors : Tensor [N]
        w, positive; new rows are taken to have 1.
    floor : float
        Least β⁻¹.
    """

    factors: Tensor
    floor: float = 0.0
    per_row = True

    def _base(self) -> UniformNoise:
        return UniformNoise(self.floor)

    def variances(self, parameters: Parameters) -> Tensor:
        """``β⁻¹ w``."""
        return self._base().variances(parameters) * self.factors

    def gradients(self, parameters: Parameters, by_variances: Tensor) -> dict[str, Tensor]:
        """``∂F/∂log noise = noise Σ w_n ∂F/∂a_n``."""
        return self._base().gradients(parameters, (by_variances * self.factors).sum())

    def level(self, parameters: Parameters) -> float:
        """``β⁻¹``."""
        return self._base().level(parameters)

    def of_rows(self, rows: Tensor) -> RowNoise:
        """Factors of some of the rows."""
        return RowNoise(self.factors[rows], self.floor)


@dataclass(frozen=True)
class KnownRowNoise(Noise):
    """Rows whose noise is known: nothing is learnt.

    Attributes
    ----------
    first : Tensor [N]
        a, from the start to the end of a fit.
    """

    first: Tensor
    per_row = True

    @property
    def start(self) -> Tensor:
        """What it is all the time."""
        return self.first

    def begun(self, parameters: Parameters) -> Parameters:
        """Leave ``log noise`` out."""
        logs = {name: log for name, log in parameters.logs.items() if name != "noise"}
        return replace(
            parameters, logs=logs, free=tuple(n for n in parameters.free if n != "noise")
        )

    def variances(self, parameters: Parameters) -> Tensor:  # noqa: ARG002
        """Return what is known."""
        return self.first

    def gradients(self, parameters: Parameters, by_variances: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Nothing has one."""
        return {}

    def level(self, parameters: Parameters) -> float:  # noqa: ARG002
        """Harmonic mean of a: the noise of a row with the mean information."""
        return float(1.0 / (1.0 / self.first).mean())

    def of_rows(self, rows: Tensor) -> KnownRowNoise:
        """Noise of some of the rows."""
        return KnownRowNoise(self.first[rows])

    def scaled(self, factor: float) -> KnownRowNoise:
        """Noise of rows that are so many times as large."""
        return KnownRowNoise(factor**2 * self.first)


@dataclass(frozen=True)
class LearntRowNoise(Noise):
    """Rows whose noise is learnt, also from entries beyond the signal: ``a_n = w_n exp(log ν_n)``.

    The objective sees the rows in the directions of the signal (:mod:`hgplvm._signal`). Beyond
    these a row has k_n more entries with the sum of squares q_n, pure noise of variance ν_n::

        E = -½ Σ_n (k_n log 2πν_n + q_n/ν_n),    ∂E/∂log ν_n = ½ (q_n/ν_n - k_n)

    Attributes
    ----------
    first : Tensor [N]
        ν at the start of the fit.
    inflation : Tensor [N]
        w: 1, and more for rows with missing entries.
    squares, counts : Tensor [N]
        q and k.
    """

    first: Tensor
    inflation: Tensor
    squares: Tensor
    counts: Tensor
    per_row = True

    @property
    def start(self) -> Tensor:
        """``w ν`` at the start of the fit."""
        return self.first * self.inflation

    @property
    def n_beyond(self) -> float:  # type: ignore[override]
        """``Σ k_n``."""
        return float(self.counts.sum())

    def begun(self, parameters: Parameters) -> Parameters:
        """Put ``log ν`` in the place of ``log noise``."""
        logs = {name: log for name, log in parameters.logs.items() if name != "noise"}
        logs["row_noise"] = self.first.log()
        free = (*(name for name in parameters.free if name != "noise"), "row_noise")
        return replace(parameters, logs=logs, free=free)

    def variances(self, parameters: Parameters) -> Tensor:
        """``w ν``."""
        return self.inflation * parameters.logs["row_noise"].exp()

    def of_entries(self, parameters: Parameters) -> Tensor:
        """ν."""
        return parameters.logs["row_noise"].exp()

    def gradients(self, parameters: Parameters, by_variances: Tensor) -> dict[str, Tensor]:
        """``∂F/∂log ν_n = a_n ∂F/∂a_n + ½ (q_n/ν_n - k_n)``."""
        own = parameters.logs["row_noise"].exp()
        beyond = 0.5 * (self.squares / own - self.counts)
        return {"row_noise": self.inflation * own * by_variances + beyond}

    def level(self, parameters: Parameters) -> float:
        """Mean of ν."""
        return float(parameters.logs["row_noise"].exp().mean())

    def of_rows(self, rows: Tensor) -> LearntRowNoise:
        """Noise of some of the rows."""
        parts = (self.first, self.inflation, self.squares, self.counts)
        return LearntRowNoise(*(part[rows] for part in parts))

    def scaled(self, factor: float) -> LearntRowNoise:
        """Noise of rows that are so many times as large."""
        square = factor**2
        return replace(self, first=square * self.first, squares=square * self.squares)

    def evidence(self, parameters: Parameters) -> float:
        """E."""
        log = parameters.logs["row_noise"]
        terms = self.counts * (math.log(2.0 * math.pi) + log) + self.squares * torch.exp(-log)
        return -0.5 * float(terms.sum())


def row_noise(noise: Noise, parameters: Parameters) -> Tensor | None:
    """Noise variances of the training rows [N], to keep where they differ; None where not."""
    return noise.variances(parameters).double() if noise.per_row else None
