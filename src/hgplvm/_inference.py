"""Latents of new rows under a fitted model, and their posterior standard deviations.

Each row starts at several points, at and between the training latents at which it is the most
likely, and climbs the log density of its observed entries. All rows and starts move in one batch of
Riemannian Adam; after some steps only the best start of each row is continued, with shorter steps.
In a Bayesian model the row then gets a distribution q(x), which maximises the row's share in the
model's bound. Rows are processed in chunks, so that memory does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_others
from hgplvm.objectives import Parameters
from hgplvm.objectives.new_rows import NewRows, NewRowsBound, RowEvaluation
from hgplvm.objectives.predictive import Posterior, Predictor, log_bound, log_normal
from hgplvm.optim import Adam

__all__ = ["Landmarks", "RowInference", "climb_rows"]

# numbers that are worked on at a time
ENTRIES = {"cpu": 2**23, "cuda": 2**27}
# steps with all starts, with the best of each row, and of a distribution
STEPS = (15, 25, 60)
# first step lengths of the three, as shares of the distance to a landmark's fifth neighbour (of a
# distribution, its standard deviation if that is larger)
RATES = (0.3, 0.1, 0.1)
# steps between two searches for neighbours, where the posterior is made of them
REDRAW = 5

# landmarks that a row may start between, starts of a row, and numbers that are worked on at a time
LIKELIEST = 10
LANDMARK_STARTS = 3
LANDMARK_ENTRIES = 2**21

Make = Callable[[Posterior], NewRows | NewRowsBound]


@dataclass(frozen=True)
class Landmarks:
    """Points with what the model predicts there: where new rows may begin.

    Attributes
    ----------
    latents : Tensor [C, Q+1]
        The points, some or all of the training latents.
    mean, variance : Tensor [C, D], [C]
        Predictions there.
    noise : float, optional
        β⁻¹, where rows are judged by their share in a sparse model's bound.
    level : float
        Noise variance that the predictions include.
    """

    manifold: Manifold
    latents: Tensor
    mean: Tensor
    variance: Tensor
    noise: float | None = None
    level: float = 0.0

    @classmethod
    def of(cls, predictor: Predictor, latents: Tensor, *, noise: float | None = None) -> Landmarks:
        """Predict at the latents, in chunks."""
        size = max(1, LANDMARK_ENTRIES // predictor.row_entries)
        parts = [predictor.near(x).predict(x) for x in torch.split(latents, size)]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return cls(predictor.manifold, latents, mean, variance, noise, predictor.noise)

    @cached_property
    def spacing(self) -> float:
        """Median distance to a landmark's fifth neighbour."""
        x = self.latents
        last = nearest_others(self.manifold, x, min(5, len(x) - 1))[:, -1]
        return float(self.manifold.distance(x, x[last]).median())

    def log_density(self, rows: Tensor, observed: Tensor, noise: Tensor | None = None) -> Tensor:
        """Log density of each row's observed entries at each landmark: [n, C].

        With noise variances [n] of the rows in the place of those of the landmarks' predictions.
        """
        seen = rows * observed
        misfit = seen.square().sum(1)[:, None] + observed @ self.mean.square().mT
        misfit = misfit.addmm_(seen, self.mean.mT, alpha=-2.0).clamp_min_(0.0)
        count = observed.sum(1)[:, None]
        variance = self.variance
        if noise is not None:
            variance = variance + (noise[:, None] - self.level)
        if self.noise is None:
            return log_normal(count, misfit, variance)
        own = self.noise if noise is None else noise[:, None]
        return log_bound(count, misfit, variance, own)

    def nearest(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Landmark at which each row is the most likely."""
        return self.latents[self.log_density(rows, observed).argmax(1)]

    def posterior_means(self, rows: Tensor, noise: Tensor | None = None) -> Tensor:
        """Posterior means of the latents of complete rows [n, D] over the landmarks: [n, Q+1]."""
        found = []
        for part, own in _together(max(1, LANDMARK_ENTRIES // len(self.latents)), rows, noise):
            density = self.log_density(part, torch.ones_like(part), own)
            found.append(self._posterior_mean(density)[0])
        return torch.cat(found)

    def starts(self, rows: Tensor, observed: Tensor, noise: Tensor | None = None) -> Tensor:
        """Where to begin with each row: [n, S, Q+1].

        At the mean of the likeliest landmarks, at the likeliest, and at those of the likeliest few
        that lie the farthest from it and from each other.
        """
        middle, points = self._posterior_mean(self.log_density(rows, observed, noise))
        every = torch.arange(len(rows), device=rows.device)
        found, apart = [middle], torch.full_like(points[..., 0], torch.inf)
        pick = torch.zeros_like(every)  # the likeliest stands first
        for _ in range(min(LANDMARK_STARTS, points.shape[1])):
            found.append(points[every, pick])
            apart = torch.minimum(apart, self.manifold.distance(points, found[-1].unsqueeze(1)))
            pick = apart.argmax(1)
        return torch.stack(found, dim=1)

    def _posterior_mean(self, density: Tensor) -> tuple[Tensor, Tensor]:
        """Mean of the likeliest few landmarks with their densities as weights; and the few.

        It is the posterior mean under a prior on the landmarks alone. Where one of them has all the
        weight, weights are evened out until the third has some, so that no two rows coincide; and
        those far from the likeliest, perhaps on another branch, get none.
        """
        best, which = density.topk(min(LIKELIEST, len(self.latents)), dim=1)
        gaps = best[:, :1] - best  # rising from 0
        weights = torch.exp(-gaps / gaps[:, min(2, gaps.shape[1] - 1), None].clamp_min(1.0))
        points = self.latents[which]  # [n, few, Q+1]
        apart = self.manifold.distance(points, points[:, :1])
        weights *= torch.exp(-apart / apart.median(1, keepdim=True).values.clamp_min(1e-12))
        return self.manifold.weighted_mean(points, weights), points


class RowInference:
    """Finds the latents of new rows under one fitted model.

    Parameters
    ----------
    predictor : Predictor
        The model.
    landmarks : Landmarks
        Where rows may start.
    prior_scale : float
        Scale of the prior at the origin. A row without observed entries goes to the origin.
    scout : Predictor, optional
        A cheaper model to try the starts with.
    bound : bool
        Whether rows climb their share in a sparse model's bound, as those of the fit did, in place
        of their log density. Far from all inducing points that density is as wide as the data, and
        rows with more noise than others would end there.
    std : float, optional
        Standard deviation that a row's q(x) starts with, for Bayesian models; without it latents
        are points.
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
        self._q = self.manifold.n_components(landmarks.latents)

    @property
    def step(self) -> float:
        """Unit of the step lengths: the spacing of the landmarks, within bounds."""
        return min(max(self.landmarks.spacing, 1e-4 * self.prior_scale), self.prior_scale)

    # --- latents --------------------------------------------------------------------------

    def infer(self, rows: Tensor, observed: Tensor, noise: Tensor | None = None) -> Parameters:
        """Latents [n, Q+1] of centred rows [n, D], of which entries with a 1 in `observed` count.

        `noise` [n] are the rows' noise variances, where they differ. Bayesian models also give the
        log standard deviations ``logs["std"]`` [n, Q]. A row that has nothing observed gets the
        prior.
        """
        width = self.landmarks.starts(rows[:1], observed[:1]).shape[1]
        entries = max(width * self.scout.row_entries, 5 * self.predictor.row_entries)
        size = self._chunk(entries + len(self.landmarks.latents))
        found = [self._infer(*part) for part in _together(size, rows, observed, noise)]
        logs = {k: torch.cat([part.logs[k] for part in found]) for k in found[0].logs}
        return Parameters(torch.cat([part.latents for part in found]), logs, found[0].free)

    def _chunk(self, entries: int) -> int:
        kind = "cpu" if self.landmarks.latents.device.type == "cpu" else "cuda"
        return max(1, ENTRIES[kind] // entries)

    def _infer(self, rows: Tensor, observed: Tensor, noise: Tensor | None) -> Parameters:
        starts = self.landmarks.starts(rows, observed, noise)  # [n, S, Q+1]
        n, s = starts.shape[:2]
        every = torch.arange(n, device=rows.device).repeat_interleave(s)
        tried, density = self._climb(
            self.scout,
            lambda p: self._points(p, rows[every], observed[every], _some(noise, every)),
            Parameters(starts.flatten(0, 1), {}, ()),
            0,
        )
        best = density.view(n, s).argmax(1)
        x = tried.latents.view(n, s, -1)[torch.arange(n, device=rows.device), best]
        nothing = (observed.sum(1) == 0)[:, None]
        if self.std is None:
            found, _ = self._climb(
                self.predictor,
                lambda p: self._points(p, rows, observed, noise),
                Parameters(x, {}, ()),
                1,
            )
            logs = {}
        else:
            log_std = x.new_full((n, self._q), math.log(self.std))
            found, _ = self._climb(
                self.predictor,
                lambda p: NewRowsBound(
                    p, rows, observed, prior_scale=self.prior_scale, noise=noise
                ),
                Parameters(x, {"std": log_std}, ("std",)),
                2,
            )
            logs = {"std": found.logs["std"].masked_fill(nothing, math.log(self.prior_scale))}
        origin = self.manifold.origin(self._q, dtype=x.dtype, device=x.device)
        return Parameters(torch.where(nothing, origin, found.latents), logs, found.free)

    def _points(
        self, posterior: Posterior, rows: Tensor, observed: Tensor, noise: Tensor | None
    ) -> NewRows:
        return NewRows(
            posterior,
            rows,
            observed,
            prior_scale=self.prior_scale,
            bound=self.bound,
            noise=noise,
        )

    def _climb(
        self, predictor: Predictor, make: Make, parameters: Parameters, stage: int
    ) -> tuple[Parameters, Tensor]:
        length = self.step if stage < 2 else max(self.step, self.std or 0.0)
        return climb_rows(
            predictor, make, parameters, rate=RATES[stage] * length, n_steps=STEPS[stage]
        )

    # --- densities, predictions, standard deviations --------------------------------------

    def log_density(
        self, rows: Tensor, observed: Tensor, x: Tensor, noise: Tensor | None = None
    ) -> Tensor:
        """Log density of each row's observed entries at its own x, without the prior: [n]."""
        return self._log_density(self.predictor, rows, observed, x, noise)

    def _log_density(
        self,
        predictor: Predictor,
        rows: Tensor,
        observed: Tensor,
        x: Tensor,
        noise: Tensor | None,
        *,
        bound: bool = False,
    ) -> Tensor:
        found = []
        size = self._chunk(predictor.row_entries)
        for r, o, p, a in _together(size, rows, observed, x, noise):
            found.append(NewRows(predictor.near(p), r, o, bound=bound, noise=a).density(p))
        return torch.cat(found)

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each entry of a row at each x: [n, D] both."""
        return self._predicted(x, self.predictor.near, self.predictor.row_entries)

    def decode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same as smooth functions of x."""
        return self._predicted(x, self.predictor.smooth, 9 * self.predictor.row_entries)

    def _predicted(
        self, x: Tensor, posterior: Callable[[Tensor], Posterior], row_entries: int
    ) -> tuple[Tensor, Tensor]:
        parts = torch.split(x, self._chunk(row_entries))
        found = [posterior(part).predict_entries(part) for part in parts]
        mean, variance = (torch.cat(part) for part in zip(*found, strict=True))
        return mean, variance


def climb_rows(
    predictor: Predictor, make: Make, parameters: Parameters, *, rate: float, n_steps: int
) -> tuple[Parameters, Tensor]:
    """Maximise the density of every row: return the best state of each, and its density there.

    Parameters
    ----------
    predictor : Predictor
        The model; where its posterior is local, it follows the rows as they move.
    make : callable
        Makes the objective of the rows from a posterior.
    parameters : Parameters
        Where the rows start.
    rate : float
        First step length.
    """
    optimizer = Adam(rate, horizon=n_steps)
    objective = make(predictor.near(parameters.latents))
    here = objective.evaluate(parameters)
    best, density = parameters, here.density
    for count in range(n_steps):
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


def _together(size: int, first: Tensor, *others: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Chunks of several arrays with as many rows; None stays None."""
    for start in range(0, len(first), size):
        rows = slice(start, start + size)
        yield (first[rows], *(None if array is None else array[rows] for array in others))


def _some(array: Tensor | None, rows: Tensor) -> Tensor | None:
    """Return some of the rows, if there is an array at all."""
    return None if array is None else array[rows]


def _mixed(which: Tensor, a: Parameters, b: Parameters) -> Parameters:
    """Rows of a where `which` [n], else of b."""
    pick = which[:, None]
    logs = {k: torch.where(pick, a.logs[k], b.logs[k]) for k in a.logs}
    return Parameters(torch.where(pick, a.latents, b.latents), logs, a.free)
