"""The data as the objectives see them, where some entries may be missing.

Y enters every objective as YYᵀ, and linearly. Entries that are missing are not seen by the
likelihood: they have a distribution ``q(y_id) = N(μ_id, s_i²)`` of their own, and with Ŷ the data
with means in the gaps::

    log p(Y_observed) ≥ E_q[log p(Y)] + H(q),    E_q[YYᵀ] = ŶŶᵀ + diag(u),    u_i = n_i s_i²

for n_i gaps in row i. So an objective needs the filled data, the vector u, and a constant, the
entropy ``H(q) = ½ Σ_i n_i log 2πe s_i²``. The bound holds for any q. The best q of this form has
the mean and the variance of each missing entry given all other rows; those of a row given its
nearest neighbours in latent space are next to the same, for every model, and cost O(N(k³ + kD)).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hgplvm.geometry import Manifold
from hgplvm.geometry.neighbors import nearest_others
from hgplvm.kernels import Kernel
from hgplvm.objectives.parameters import Parameters
from hgplvm.objectives.predictive import NeighborPosterior

__all__ = ["Imputation", "Responses", "rotated_to_rank"]

# neighbours that speak for a missing entry, and sweeps over all rows at the start and later
NEIGHBORS = 20
FIRST_SWEEPS = 5
SWEEPS = 2
# steps between two updates
UPDATE = 10
# numbers that are worked on at a time
ENTRIES = 2**22


def rotated_to_rank(data: Tensor) -> Tensor:
    """Return R [N, min(N, D)] with ``RRᵀ = YYᵀ``: ``Yᵀ = Q Rᵀ`` for D > N, else Y itself."""
    n_rows, n_columns = data.shape
    if n_columns <= n_rows:
        return data
    return torch.linalg.qr(data.mT, mode="r").R.mT.contiguous()


class Imputation:
    """The distribution q of the missing entries.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data with first guesses in the gaps.
    observed : Tensor of bool [N, D]
        False where an entry is missing.

    Attributes
    ----------
    data : Tensor [N, D]
        Ŷ: the data with the means of q in the gaps.
    spread : Tensor [N]
        s_i².
    """

    def __init__(self, data: Tensor, observed: Tensor, manifold: Manifold, kernel: Kernel) -> None:
        self.data, self.observed = data, observed
        self.missing = (~observed).sum(1).to(data)  # n_i
        self.spread = data.square().mean(1).clamp_min(1e-12)
        self._manifold, self._kernel = manifold, kernel
        # no mean of q leaves the range of its column, whatever the neighbours say
        infinite = torch.full_like(data, torch.inf)
        self._low = torch.where(observed, data, infinite).amin(0)
        self._high = torch.where(observed, data, -infinite).amax(0)

    @property
    def unseen(self) -> Tensor:
        """``u_i = n_i s_i²``."""
        return self.missing * self.spread

    @property
    def entropy(self) -> float:
        """``H(q)``."""
        return 0.5 * (self.missing * torch.log(2.0 * math.pi * math.e * self.spread)).sum().item()

    def update(self, parameters: Parameters, noise: float, n_sweeps: int) -> None:
        """Mean and variance of the gaps given each row's neighbours, in sweeps over all rows."""
        x, n = parameters.latents, len(self.data)
        near = nearest_others(self._manifold, x, min(NEIGHBORS, n - 1))
        rows = torch.nonzero(self.missing).squeeze(1)
        width = near.shape[1]
        size = max(1, ENTRIES // (width * (4 * width + 2 * self.data.shape[1])))
        empty = x[:0]
        for _ in range(n_sweeps):
            model = NeighborPosterior(
                self._manifold,
                self._kernel,
                variance=parameters.positive("variance"),
                length_scale=parameters.positive("length_scale"),
                noise=noise,
                n_neighbors=width,
                data=self.data,
                latents=x,
                inducing=empty,
                smooth_mean=self.data[:0],
                smooth_covariance=empty.new_zeros(0, 0),
            )
            filled, spread = self.data.clone(), self.spread.clone()
            for part in torch.split(rows, size):
                mean, variance = model.of(near[part]).predict(x[part])
                mean = torch.minimum(torch.maximum(mean, self._low), self._high)
                filled[part] = torch.where(self.observed[part], self.data[part], mean)
                spread[part] = variance
            self.data, self.spread = filled, spread


class Responses:
    """Data for an objective: complete, or with an imputation that follows the latents.

    Attributes
    ----------
    data : Tensor [N, min(N, D)]
        Filled data, rotated.
    unseen : Tensor [N] or None
        u; None for complete data.
    entropy : float
        To add to the value.
    squares : float
        ``tr E[YYᵀ]``.
    n_rows, n_columns, n_entries : int
        N, D, and how many entries are observed.
    """

    def __init__(self, data: Tensor, imputation: Imputation | None = None) -> None:
        self.n_rows, self.n_columns = data.shape
        self.n_entries = self.n_rows * self.n_columns
        self.imputation = imputation
        self.unseen: Tensor | None = None
        self.entropy = 0.0
        self.n_steps = 0
        if imputation is not None:
            self.n_entries -= int(imputation.missing.sum())
        self._take(data if imputation is None else imputation.data)

    def advance(self, parameters: Parameters, noise: float) -> bool:
        """Count a step, and update the imputation when it is time: True where data changed."""
        if self.imputation is None:
            return False
        self.n_steps += 1
        due = self.n_steps % UPDATE == 0
        if due:
            self.imputation.update(parameters, noise, SWEEPS)
            self.refresh()
        return due

    def begin(self, parameters: Parameters, noise: float) -> None:
        """Impute for latents that the first guesses did not know."""
        if self.imputation is not None:
            self.imputation.update(parameters, noise, FIRST_SWEEPS)
            self.refresh()

    def refresh(self) -> None:
        """Take over what the imputation has."""
        if self.imputation is not None:
            self._take(self.imputation.data)

    def _take(self, data: Tensor) -> None:
        self.data = rotated_to_rank(data)
        self.squares = self.data.square().sum().item()
        if self.imputation is not None:
            self.unseen = self.imputation.unseen
            self.entropy = self.imputation.entropy
            self.squares += self.unseen.sum().item()

    def state(self) -> dict[str, Any]:
        """Return what changes from step to step."""
        kept = self.imputation
        if kept is None:
            return {}
        return {"data": kept.data, "spread": kept.spread, "n_steps": self.n_steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        if self.imputation is not None:
            self.imputation.data, self.imputation.spread = state["data"], state["spread"]
            self.n_steps = state["n_steps"]
            self.refresh()
