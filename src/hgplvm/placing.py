"""Latents of new rows under a fitted model, and how sure they are.

Each row starts at several places, amid and at the training latents at which it is the most likely,
and climbs the log density of what it has observed. All rows and starts move in one batch of Adam in
the metric; after a while the best start of each row goes on alone, with shorter steps. Rows come in
chunks, so that memory does not grow with their number.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgplvm.geometry.neighbors import nearest_others
from hgplvm.objectives import Parameters
from hgplvm.objectives.predictive import (
    Landmarks,
    PlacementObjective,
    Predictor,
    log_prior,
)
from hgplvm.objectives.spread import peak
from hgplvm.optim import Adam

__all__ = ["Placer"]

# numbers that are worked on at a time
ENTRIES = {"cpu": 2**23, "cuda": 2**27}
# steps with all starts, and with the best of each row
STEPS = (20, 30)
# first step lengths of the two, as shares of the distance to a landmark's fifth neighbour
RATES = (0.3, 0.1)
# steps between two searches for neighbours, where the posterior is made of them
REDRAW = 5
# deviations to try, as shares of the prior's scale
GRID = torch.logspace(-4.0, 0.5, 24, dtype=torch.float64)


class Placer:
    """Places rows under one fitted model.

    Parameters
    ----------
    predictor : Predictor
        The model.
    landmarks : Landmarks
        Where rows may start.
    prior_scale : float
        Scale of the prior around the origin: where a row without observed entries goes.
    """

    def __init__(self, predictor: Predictor, landmarks: Landmarks, prior_scale: float) -> None:
        self.predictor, self.landmarks = predictor, landmarks
        self.manifold, self.prior_scale = predictor.manifold, prior_scale
        x = landmarks.latents
        last = nearest_others(self.manifold, x, min(5, len(x) - 1))[:, -1]
        spacing = self.manifold.distance(x, x[last]).median().item()
        self.step = min(max(spacing, 1e-4 * prior_scale), prior_scale)

    def place(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Latents [n, Q+1] of centred rows [n, D], of which entries with a 1 in `observed` count.

        A row that has none observed goes to the prior's centre.
        """
        width = self.landmarks.starts(rows[:1], observed[:1]).shape[1]
        size = self._chunk(width * self.predictor.row_entries + len(self.landmarks.latents))
        parts = zip(torch.split(rows, size), torch.split(observed, size), strict=True)
        return torch.cat([self._place(*part) for part in parts])

    def _chunk(self, entries: int) -> int:
        kind = "cpu" if self.landmarks.latents.device.type == "cpu" else "cuda"
        return max(1, ENTRIES[kind] // entries)

    def _place(self, rows: Tensor, observed: Tensor) -> Tensor:
        starts = self.landmarks.starts(rows, observed)  # [n, S, Q+1]
        n, s = starts.shape[:2]
        every = torch.arange(n, device=rows.device).repeat_interleave(s)
        x, density = self._climb(rows[every], observed[every], starts.flatten(0, 1), 0)
        best = density.view(n, s).argmax(1)
        x = x.view(n, s, -1)[torch.arange(n, device=x.device), best]
        x, _ = self._climb(rows, observed, x, 1)
        origin = self.manifold.origin(
            self.manifold.to_tangent(x[:1]).shape[1], dtype=x.dtype, device=x.device
        )
        return torch.where((observed.sum(1) > 0)[:, None], x, origin)

    def _climb(
        self, rows: Tensor, observed: Tensor, x: Tensor, stage: int
    ) -> tuple[Tensor, Tensor]:
        """Best place that each row came by, and its log density there."""
        n_steps = STEPS[stage]
        optimizer = Adam(RATES[stage] * self.step, horizon=n_steps)
        parameters, best, best_density = Parameters(x, {}, ()), x, None
        for first in range(0, n_steps, REDRAW):
            posterior = self.predictor.near(parameters.latents)
            if first == 0 or posterior.local:
                objective = PlacementObjective(
                    posterior, rows, observed, prior_scale=self.prior_scale
                )
                here = objective.evaluate(parameters)
            for _ in range(first, min(first + REDRAW, n_steps)):
                if best_density is None:
                    best_density = here.density
                better = here.density > best_density
                best = torch.where(better[:, None], parameters.latents, best)
                best_density = torch.where(better, here.density, best_density)
                step = optimizer.step(objective, parameters, here)
                parameters, here = step.parameters, step.evaluation
        better = here.density > best_density
        return (
            torch.where(better[:, None], parameters.latents, best),
            torch.where(better, here.density, best_density),
        )

    def log_density(self, rows: Tensor, observed: Tensor, x: Tensor) -> Tensor:
        """Log density of each row's observed entries at its own x, without the prior: [n]."""
        size = self._chunk(self.predictor.row_entries)
        parts = zip(*(torch.split(a, size) for a in (rows, observed, x)), strict=True)
        return torch.cat(
            [PlacementObjective(self.predictor.near(p), r, o).density(p) for r, o, p in parts]
        )

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [n, D] and variance [n] at each x."""
        found = Landmarks.of(self.predictor, x)
        return found.mean, found.variance

    def deviations(self, rows: Tensor, observed: Tensor, x: Tensor) -> Tensor:
        """Standard deviations of the rows' posteriors around x, along the axes of the frame: [n, Q].

        As for the rows of a fit (:mod:`hgplvm.objectives.spread`): sigma points along one axis at a
        time, with the prior where it is. A row without observed entries has the prior's own scale.
        """
        q = self.manifold.to_tangent(x[:1]).shape[1]
        scales = self.prior_scale * GRID.to(x)
        axes = math.sqrt(q) * torch.eye(q, dtype=x.dtype, device=x.device)
        steps = (scales[:, None, None] * torch.cat([axes, -axes])).flatten(0, 1)  # [G·2Q, Q]
        # entropy of the wrapped normal: log s, and what the exponential map stretches
        entropy = torch.log(scales) + (q - 1) / q * self.manifold.log_stretch(q * scales.square())
        size = self._chunk(len(steps) * self.predictor.row_entries)
        found = []
        parts = zip(*(torch.split(a, size) for a in (rows, observed, x)), strict=True)
        for row, seen, place in parts:
            nodes = self.manifold.placed(place.unsqueeze(1), steps)  # [n, G·2Q, Q+1]
            every = torch.arange(len(place), device=x.device).repeat_interleave(len(steps))
            density = self.log_density(row[every], seen[every], nodes.flatten(0, 1))
            density += log_prior(self.manifold, nodes.flatten(0, 1), self.prior_scale)
            both = density.view(len(place), len(scales), 2, q).sum(2) / (2 * q)  # [n, G, Q]
            found.append(peak(both + entropy[:, None], scales))
        return torch.cat(found)
