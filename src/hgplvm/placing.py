"""Latents of new rows under a fitted model, and how sure they are.

Each row starts at several places, amid and at the training latents at which it is the most likely,
and climbs the log density of what it has observed. All rows and starts move in one batch of Adam in
the metric; after a while the best start of each row goes on alone, with shorter steps. In a
Bayesian model it is a distribution q(x) that goes on, and climbs the row's share in the model's
bound. Rows come in chunks, so that memory does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor

from hgplvm.geometry.neighbors import nearest_others
from hgplvm.objectives import Parameters
from hgplvm.objectives.placement import (
    Landmarks,
    PlacementObjective,
    RowEvaluation,
    VariationalPlacement,
    log_prior,
)
from hgplvm.objectives.predictive import Posterior, Predictor
from hgplvm.objectives.spread import peak
from hgplvm.optim import Adam

__all__ = ["Placer"]

# numbers that are worked on at a time
ENTRIES = {"cpu": 2**23, "cuda": 2**27}
# steps with all starts, with the best of each row, and of a distribution
STEPS = (15, 25, 60)
# first step lengths of the three, as shares of the distance to a landmark's fifth neighbour (of a
# distribution, its deviation if that is larger)
RATES = (0.3, 0.1, 0.1)
# steps between two searches for neighbours, where the posterior is made of them
REDRAW = 5
# deviations to try, as shares of the prior's scale
GRID = torch.logspace(-4.0, 0.5, 24, dtype=torch.float64)

Make = Callable[[Posterior], PlacementObjective | VariationalPlacement]


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
    scout : Predictor, optional
        A cheaper model to try the starts with.
    bound : bool
        Whether rows climb their share in a sparse model's bound, as those of the fit did, in place
        of their log density. Far from all inducing points that density is as wide as the data, and
        rows with more noise than others would flee there.
    std : float, optional
        Deviation that a row's q(x) starts with, for Bayesian models; without it latents are points.
    """

    def __init__(
        self,
        predictor: Predictor,
        landmarks: Landmarks,
        prior_scale: float,
        *,
        scout: Predictor | None = None,
        bound: bool = False,
        std: float | None = None,
    ) -> None:
        self.predictor, self.scout, self.landmarks = predictor, scout or predictor, landmarks
        self.manifold, self.prior_scale = predictor.manifold, prior_scale
        self.bound, self.std = bound, std
        x = landmarks.latents
        last = nearest_others(self.manifold, x, min(5, len(x) - 1))[:, -1]
        spacing = self.manifold.distance(x, x[last]).median().item()
        self.step = min(max(spacing, 1e-4 * prior_scale), prior_scale)
        self._q = self.manifold.to_tangent(x[:1]).shape[1]

    # --- places ---------------------------------------------------------------------------

    def place(self, rows: Tensor, observed: Tensor) -> Parameters:
        """Latents [n, Q+1] of centred rows [n, D], of which entries with a 1 in `observed` count.

        Bayesian models also give the log deviations ``logs["std"]`` [n, Q]. A row that has nothing
        observed goes to the prior.
        """
        width = self.landmarks.starts(rows[:1], observed[:1]).shape[1]
        entries = max(width * self.scout.row_entries, 5 * self.predictor.row_entries)
        size = self._chunk(entries + len(self.landmarks.latents))
        found = [self._place(*part) for part in _together(size, rows, observed)]
        logs = {k: torch.cat([part.logs[k] for part in found]) for k in found[0].logs}
        return Parameters(torch.cat([part.latents for part in found]), logs, found[0].free)

    def _chunk(self, entries: int) -> int:
        kind = "cpu" if self.landmarks.latents.device.type == "cpu" else "cuda"
        return max(1, ENTRIES[kind] // entries)

    def _place(self, rows: Tensor, observed: Tensor) -> Parameters:
        starts = self.landmarks.starts(rows, observed)  # [n, S, Q+1]
        n, s = starts.shape[:2]
        every = torch.arange(n, device=rows.device).repeat_interleave(s)
        tried, density = self._climb(
            self.scout,
            lambda p: self._points(p, rows[every], observed[every]),
            Parameters(starts.flatten(0, 1), {}, ()),
            0,
        )
        best = density.view(n, s).argmax(1)
        x = tried.latents.view(n, s, -1)[torch.arange(n, device=rows.device), best]
        nothing = (observed.sum(1) == 0)[:, None]
        if self.std is None:
            found, _ = self._climb(
                self.predictor,
                lambda p: self._points(p, rows, observed),
                Parameters(x, {}, ()),
                1,
            )
            logs = {}
        else:
            log_std = x.new_full((n, self._q), math.log(self.std))
            found, _ = self._climb(
                self.predictor,
                lambda p: VariationalPlacement(p, rows, observed, prior_scale=self.prior_scale),
                Parameters(x, {"std": log_std}, ("std",)),
                2,
            )
            logs = {"std": found.logs["std"].masked_fill(nothing, math.log(self.prior_scale))}
        origin = self.manifold.origin(self._q, dtype=x.dtype, device=x.device)
        return Parameters(torch.where(nothing, origin, found.latents), logs, found.free)

    def _points(self, posterior: Posterior, rows: Tensor, observed: Tensor) -> PlacementObjective:
        return PlacementObjective(
            posterior, rows, observed, prior_scale=self.prior_scale, bound=self.bound
        )

    def _climb(
        self, predictor: Predictor, make: Make, parameters: Parameters, stage: int
    ) -> tuple[Parameters, Tensor]:
        """Best state that each row came by, and its log density there."""
        length = self.step if stage < 2 else max(self.step, self.std or 0.0)
        optimizer = Adam(RATES[stage] * length, horizon=STEPS[stage])
        objective = make(predictor.near(parameters.latents))
        here = objective.evaluate(parameters)
        best, density = parameters, here.density
        for count in range(STEPS[stage]):
            if count and count % REDRAW == 0:
                posterior = predictor.near(parameters.latents)
                if posterior.local:
                    objective = make(posterior)
                    here = objective.evaluate(parameters)
            step = optimizer.step(objective, parameters, here)
            parameters, here = step.parameters, cast(RowEvaluation, step.evaluation)
            better = here.density > density
            best = _mixed(better, parameters, best)
            density = torch.where(better, here.density, density)
        return best, density

    # --- what is there --------------------------------------------------------------------

    def log_density(self, rows: Tensor, observed: Tensor, x: Tensor) -> Tensor:
        """Log density of each row's observed entries at its own x, without the prior: [n]."""
        return self._log_density(self.predictor, rows, observed, x)

    def _log_density(
        self,
        predictor: Predictor,
        rows: Tensor,
        observed: Tensor,
        x: Tensor,
        *,
        bound: bool = False,
    ) -> Tensor:
        found = []
        for r, o, p in _together(self._chunk(predictor.row_entries), rows, observed, x):
            found.append(PlacementObjective(predictor.near(p), r, o, bound=bound).density(p))
        return torch.cat(found)

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each entry of a row at each x: [n, D] both."""
        parts = torch.split(x, self._chunk(self.predictor.row_entries))
        found = [self.predictor.near(part).predict_entries(part) for part in parts]
        mean, variance = (torch.cat(part) for part in zip(*found, strict=True))
        return mean, variance

    def deviations(self, rows: Tensor, observed: Tensor, x: Tensor) -> Tensor:
        """How sure each place is: deviations along the axes of the frame at x, [n, Q].

        As for the rows of a fit (:mod:`hgplvm.objectives.spread`): sigma points along one axis at a
        time, with the prior where it is. A row without observed entries has the prior's own scale.
        """
        q = self._q
        scales = self.prior_scale * GRID.to(x)
        axes = math.sqrt(q) * torch.eye(q, dtype=x.dtype, device=x.device)
        steps = (scales[:, None, None] * torch.cat([axes, -axes])).flatten(0, 1)  # [G·2Q, Q]
        # entropy of the wrapped normal: log s, and what the exponential map stretches
        entropy = torch.log(scales) + (q - 1) / q * self.manifold.log_stretch(q * scales.square())
        size = self._chunk(len(steps) * self.scout.row_entries)
        found = []
        for row, seen, place in _together(size, rows, observed, x):
            nodes = self.manifold.placed(place.unsqueeze(1), steps).flatten(0, 1)  # [n·G·2Q, Q+1]
            every = torch.arange(len(place), device=x.device).repeat_interleave(len(steps))
            density = self._log_density(
                self.scout, row[every], seen[every], nodes, bound=self.bound
            )
            density += log_prior(self.manifold, nodes, self.prior_scale)
            both = density.view(len(place), len(scales), 2, q).sum(2) / (2 * q)  # [n, G, Q]
            found.append(peak(both + entropy[:, None], scales))
        nothing = (observed.sum(1) == 0)[:, None]
        return torch.cat(found).masked_fill(nothing, self.prior_scale)


def _together(size: int, *arrays: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Chunks of several arrays with as many rows."""
    return zip(*(torch.split(array, size) for array in arrays), strict=True)


def _mixed(which: Tensor, a: Parameters, b: Parameters) -> Parameters:
    """Rows of a where `which` [n], else of b."""
    pick = which[:, None]
    logs = {k: torch.where(pick, a.logs[k], b.logs[k]) for k in a.logs}
    return Parameters(torch.where(pick, a.latents, b.latents), logs, a.free)
