"""What the paper says: its settings, its tables, its claims.

Watanabe, Maeda, Ogawa, Haseyama: Hyperboloid GPLVM for Discovering Continuous Hierarchies via
Nonparametric Estimation. AISTATS 2025.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "DEPTHS",
    "INDUCING",
    "KAPPA",
    "KAPPAS",
    "PRIOR_KAPPA",
    "TABLE_1",
    "TABLE_2",
    "Figure",
    "verdict",
]

DEPTHS = (4, 5, 6)
# length scale of every fit of the paper's, and those that it compares
KAPPA = 100.0
KAPPAS = (10.0, 30.0, 100.0)
# length scale of the samples from the prior
PRIOR_KAPPA = 5.0
# inducing points
INDUCING = {"Spiral": 30, "Myeloid": 50, "Paul": 50}


@dataclass(frozen=True)
class Figure:
    """A mean and its standard deviation, as printed: three digits."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.std:.3f}"


# rows and columns of the binary trees, by depth
TABLE_1 = {4: (300, 15), 5: (620, 31), 6: (1260, 63)}

# distance correlation on the binary trees: mean and standard deviation of 10 runs
TABLE_2 = {
    "hGP-LVM": {4: Figure(0.816, 0.012), 5: Figure(0.909, 0.003), 6: Figure(0.849, 0.004)},
    "GP-LVM": {4: Figure(0.782, 0.000), 5: Figure(0.746, 0.000), 6: Figure(0.717, 0.000)},
    "IsoHVAE": {4: Figure(0.890, 0.022), 5: Figure(0.867, 0.025), 6: Figure(0.815, 0.031)},
    "RotHVAE": {4: Figure(0.896, 0.027), 5: Figure(0.872, 0.019), 6: Figure(0.823, 0.024)},
}

# what three printed digits can hide
ROUNDING = 0.0005


def verdict(paper: Figure, measured: float) -> str:
    """Say whether a mean lies within two standard deviations of the paper's, or by how much not.

    A deviation that is printed as 0 is at most what its digits hide.
    """
    margin = 2.0 * max(paper.std, ROUNDING)
    difference = measured - paper.mean
    if abs(difference) <= margin:
        return "within 2 sd"
    return f"{'above' if difference > 0 else 'below'} by {abs(difference):.3f}"
