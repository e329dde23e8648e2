"""Weighted stress of a metric embedding: ``-Σ_{i<j} w_ij (d_ij - t_ij)²``, to be maximised."""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.geometry import Manifold
from hgplvm.kernels import cusp_division
from hgplvm.objectives.parameters import Evaluation, Parameters

__all__ = ["StressObjective"]


class StressObjective:
    """Negative stress of latents against target distances, with its closed-form gradient.

    Parameters
    ----------
    targets : Tensor [n, n]
        Target distances t.
    weights : Tensor [n, n]
        Weights w.
    """

    stochastic = False

    def __init__(self, targets: Tensor, weights: Tensor, manifold: Manifold) -> None:
        self.targets = targets
        self.weights = weights
        self.manifold = manifold
        self.n_entries = targets.numel()

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def value(self, parameters: Parameters) -> float:
        """Negative stress."""
        return self.evaluate(parameters).value

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Negative stress and gradient: ``grad_i d_ij = -(x_j - c_ij x_i)/sinh d_ij``."""
        manifold, x = self.manifold, parameters.latents
        features = manifold.pair_features(x)
        squared = manifold.pair_squared_chord(features, features)
        gap = manifold.distance_from_chord(squared).sub_(self.targets)
        pull = self.weights * gap
        value = -0.5 * torch.dot(pull.view(-1), gap.view(-1)).item()
        directions = cusp_division(pull.mul_(2.0), manifold.sinh_from_chord(squared))
        gradient = manifold.direction_sums(x, x, directions, squared)
        return Evaluation(value, gradient.reshape(-1))
