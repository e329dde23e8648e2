"""The noise of the data, as objects that the objectives ask.

The noise of entry (n, d) has the variance ``a_n`` in the units that an objective sees: one number
for all rows, or one for each. An objective asks for the variances and says ``∂F/∂a``; what these
are made of, and what of it is learnt, is the noise's own. (Columns whose noise differs are scaled
before the objective sees them.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from hgplvm.objectives.parameters import Parameters

__all__ = ["Noise", "RowNoise", "UniformNoise", "row_noise"]


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


def row_noise(noise: Noise, parameters: Parameters) -> Tensor | None:
    """Noise variances of the training rows [N], to keep where they differ; None where not."""
    return noise.variances(parameters).double() if noise.per_row else None
