"""The data as the objectives see them, where some entries may be missing.

Y enters every objective as YYᵀ, and linearly. A missing entry has a distribution
``q(y_id) = N(μ_id, s_i²)``, and with Ŷ the data in which missing entries are replaced by their
means::

    log p(Y_observed) ≥ E_q[log p(Y)] + H(q),    E_q[YYᵀ] = ŶŶᵀ + diag(u),    u_i = n_i s_i²

for n_i gaps in row i. So an objective needs the filled data, the vector u, and a constant, the
entropy ``H(q) = ½ Σ_i n_i log 2πe s_i²``. The bound holds for any q.

q is found before the fit (:mod:`hgplvm._init.imputation`) and does not change. Updates from the
latents would raise the bound further, but latents and imputed values then reinforce each other: a
row that could be on either of two branches is assigned to one of them, and both the distances and
the decoded entries come out worse than with an imputation from observed entries alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Imputation", "Responses", "rotated_to_rank"]

# rows up to which unseen variance gets a column for each, and columns for more
DIAGONAL_ROWS = 3000
SKETCH = 256


def rotated_to_rank(data: Tensor) -> Tensor:
    """Return R [N, min(N, D)] with ``RRᵀ = YYᵀ``: ``Yᵀ = Q Rᵀ`` for D > N, else Y itself."""
    n_rows, n_columns = data.shape
    if n_columns <= n_rows:
        return data
    return torch.linalg.qr(data.mT, mode="r").R.mT.contiguous()


@dataclass(frozen=True)
class Imputation:
    """The distribution q of the missing entries.

    Attributes
    ----------
    data : Tensor [N, D]
        Ŷ: centred data with the means of q in the gaps.
    observed : Tensor of bool [N, D]
        False where an entry is missing.
    row_variance : Tensor [N]
        s_i².
    variance : Tensor [N, D], optional
        Variance of each missing entry, of which s_i² is the mean; 0 for the others.
    """

    data: Tensor
    observed: Tensor
    row_variance: Tensor
    variance: Tensor | None = None

    @property
    def missing(self) -> Tensor:
        """How many entries of each row are missing: n_i."""
        return (~self.observed).sum(1).to(self.data)

    @property
    def entry_variance(self) -> Tensor:
        """Variance of each entry, 0 for those that are observed: [N, D]."""
        if self.variance is not None:
            return self.variance
        return self.row_variance[:, None] * ~self.observed

    def scaled(self, factor: float) -> Imputation:
        """Go over to units in which numbers are so many times as large."""
        variance = None if self.variance is None else self.variance * factor**2
        row_variance = self.row_variance * factor**2
        return Imputation(self.data * factor, self.observed, row_variance, variance)

    def of_rows(self, rows: Tensor) -> Imputation:
        """Return that of some of the rows."""
        return Imputation(self.data[rows], self.observed[rows], self.row_variance[rows])

    def columns(self) -> Tensor:
        """Return the data with further columns that hold the unseen variance: [N, D + N'].

        Squared distances between rows are then ``‖ŷ_i - ŷ_j‖² + u_i + u_j``, their expectation
        under q: exactly up to some thousand rows, and with random signs in fewer columns beyond.
        """
        n = len(self.data)
        root = self.unseen.sqrt()
        if n <= DIAGONAL_ROWS:
            return torch.cat([self.data, torch.diag(root)], dim=1)
        signs = torch.randn(n, SKETCH, generator=torch.Generator().manual_seed(0)).sign()
        return torch.cat([self.data, root[:, None] * signs.to(self.data) / SKETCH**0.5], dim=1)

    @property
    def unseen(self) -> Tensor:
        """``u_i = n_i s_i²``."""
        return self.missing * self.row_variance

    @property
    def entropy(self) -> float:
        """``H(q)``."""
        logs = torch.log(2.0 * math.pi * math.e * self.row_variance)
        return 0.5 * (self.missing * logs).sum().item()


class Responses:
    """Data for an objective, complete or with what stands for missing entries.

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
        self.data = rotated_to_rank(data)
        self.squares = self.data.square().sum().item()
        self.unseen: Tensor | None = None
        self.entropy = 0.0
        if imputation is not None:
            self.unseen, self.entropy = imputation.unseen, imputation.entropy
            self.squares += self.unseen.sum().item()
            self.n_entries -= int(imputation.missing.sum())
