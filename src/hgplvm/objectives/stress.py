"""Weighted stress of a metric embedding: ``-Σ w (d - t)²`` over pairs, to be maximised."""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.tiles import tile_size, tiles

__all__ = ["StressObjective"]


class StressObjective:
    """Negative stress of latents against target distances, with its closed-form gradient.

    Parameters
    ----------
    targets : Tensor [n, n] or [n, m]
        Target distances t, of the latents from each other or from the anchors.
    weights : Tensor
        Weights w, of the same shape.
    anchors : Tensor [m, Q+1], optional
        Points that stay. Without them each pair of latents counts once.
    """

    stochastic = False

    def __init__(
        self, targets: Tensor, weights: Tensor, manifold: Manifold, anchors: Tensor | None = None
    ) -> None:
        self.targets = targets
        self.weights = weights
        self.manifold = manifold
        self.anchors = anchors
        self.n_entries = targets.numel()
        self.tile = tile_size(targets.device)

    def advance(self, parameters: Parameters) -> bool:  # noqa: ARG002
        """Nothing is drawn."""
        return False

    def value(self, parameters: Parameters) -> float:
        """Negative stress."""
        return self.evaluate(parameters).value

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Negative stress and gradient: ``∂F/∂d = -2w (d - t)``."""
        manifold, x = self.manifold, parameters.latents
        within = self.anchors is None
        z = x if self.anchors is None else self.anchors
        f, g = manifold.pair_features(x), manifold.pair_features(z)
        gradient = x.new_zeros(x.shape[0], manifold.n_components(x))
        value = x.new_zeros(())
        for rows, columns in tiles(x.shape[0], None if within else z.shape[0], self.tile):
            squared = manifold.pair_squared_chord(f[rows], g[columns])
            gap = manifold.distance_from_chord(squared).sub_(self.targets[rows, columns])
            pull = self.weights[rows, columns] * gap
            if within and rows.start < columns.stop:  # on the diagonal: pairs i > j alone
                pull.tril_(rows.start - columns.start - 1)
            value -= torch.vdot(pull.view(-1), gap.view(-1))
            by_distance = pull.mul_(-2.0)
            if not within:
                gradient[rows] += manifold.distance_gradient(
                    x[rows], z[columns], by_distance, squared
                )
                continue
            at_rows, at_columns = manifold.distance_gradients(
                x[rows], x[columns], by_distance, squared
            )
            gradient[rows] += at_rows
            gradient[columns] += at_columns
        return Evaluation(value.item(), gradient.reshape(-1))
