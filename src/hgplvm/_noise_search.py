"""Estimate the noise level from held-out rows.

Latents are free enough to explain a row's own noise: they give every row a branch of its own, the
noise estimate falls to zero, and the likelihood of the training data keeps rising. Held-out rows
reveal this. The latent of each is inferred from most of its entries, and the others are predicted;
the noise level under which these are the most likely is used in the fit.

The levels are tried from above, each fit starting where the one before ended, so that the whole
search is one fit of a few hundred rows whose noise is lowered step by step. The same score compares
kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm._inference import Landmarks, climb_rows
from hgplvm._init import Profile, median_distance
from hgplvm.covariance import CovarianceFunction
from hgplvm.noise import UniformNoise
from hgplvm.objectives import ExactObjective, Parameters
from hgplvm.objectives.new_rows import NewRows
from hgplvm.objectives.predictive import Posterior, exact_posterior
from hgplvm.optim import Adam, climb

__all__ = ["NoiseSearch", "search_noise"]

# noise levels as shares of the data's variance; below the last, scores measure the error of the
# inferred latents rather than the noise
LEVELS = (0.9, 0.8, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3)
# the share of rows that is held out, and the share of their entries that is to be predicted
HELD_OUT = 0.2
HIDDEN = 0.25
# steps per level, for the latents and for the held-out rows
STEPS = 10
# the search ends when this many levels in a row are worse than the best
PATIENCE = 3


@dataclass(frozen=True)
class NoiseSearch:
    """Levels that were tried (shares of the variance), and the mean score of a hidden entry."""

    levels: tuple[float, ...]
    scores: tuple[float, ...]
    row_scores: tuple[Tensor, ...] = ()  # the same for each held-out row alone

    @property
    def floor(self) -> float:
        """The level with the highest score; 0 where that is the last, and the noise is free."""
        best = self.levels[int(np.argmax(self.scores))]
        return 0.0 if best == LEVELS[-1] else best

    @property
    def best_rows(self) -> Tensor:
        """Scores of the held-out rows at the best level."""
        return self.row_scores[int(np.argmax(self.scores))]

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns for the history, one entry per level."""
        return {"noise_level": np.array(self.levels), "noise_score": np.array(self.scores)}


def search_noise(
    data: Tensor,
    latents: Tensor,
    profile: Profile,
    covariance: CovarianceFunction,
    *,
    rate: float,
    generator: torch.Generator,
    seen: Tensor | None = None,
) -> NoiseSearch:
    """Score noise levels on held-out rows, from latents that a start gave to all rows.

    Parameters
    ----------
    data : Tensor [n, D]
        A sample of the centred data, of mean square about 1, in their own columns: D > 1.
    latents : Tensor [n, Q+1]
        Where their fit would start.
    profile : Profile
        Variance and length scale that go with them.
    rate : float
        First step length of the fits, as a share of the latents' median distance.
    seen : Tensor of bool [n, D], optional
        False for entries that are missing and were imputed: these are not scored.
    """
    order = torch.randperm(data.shape[0], generator=generator).to(data.device)
    n_held = max(1, int(HELD_OUT * order.numel()))
    held, kept = order[:n_held], order[n_held:]
    rows = data[held]
    observed = _mask(rows.shape, generator).to(data)
    hidden = 1.0 - observed
    if seen is not None:
        observed, hidden = observed * seen[held], hidden * seen[held]
    step = rate * median_distance(latents[kept], covariance.manifold)
    values = {"variance": profile.variance, "length_scale": profile.length_scale}
    logs = {
        name: data.new_tensor(math.log(value))
        for name, value in {**values, **covariance.shape}.items()
    }
    objective = ExactObjective(data[kept], covariance, UniformNoise())
    parameters = Parameters(latents[kept], logs, ("variance",))
    found: Tensor | None = None  # latents of the held-out rows
    levels, scores, row_scores = [], [], []
    for level in LEVELS:
        logs = {**parameters.logs, "noise": data.new_tensor(math.log(level))}
        parameters = Parameters(parameters.latents, logs, ("variance",))
        optimizer = Adam(step, horizon=STEPS)
        parameters = climb(objective, parameters, optimizer, STEPS)
        posterior = exact_posterior(
            data[kept], parameters.latents, covariance.at(parameters.values), noise=level
        )
        found = _infer(posterior, rows, observed, found, step)
        density = posterior.log_density(rows, found, hidden)
        levels.append(level)
        scores.append((density.sum() / hidden.sum().clamp_min(1.0)).item())
        row_scores.append(density / hidden.sum(1).clamp_min(1.0))
        if len(scores) - 1 - int(np.argmax(scores)) >= PATIENCE:
            break
    return NoiseSearch(tuple(levels), tuple(scores), tuple(row_scores))


def _mask(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """1 for entries to infer the latent from, 0 for those to predict; each row has both."""
    n, d = shape
    n_hidden = min(max(1, round(HIDDEN * d)), d - 1)
    order = torch.rand(n, d, generator=generator).argsort(1)
    return (order >= n_hidden).double()


def _infer(
    posterior: Posterior, rows: Tensor, observed: Tensor, before: Tensor | None, step: float
) -> Tensor:
    """Latents of rows: from where they were, or from the best training latent if that is better."""
    start = Landmarks.of(posterior, posterior.points).nearest(rows, observed)
    if before is not None:
        here = posterior.log_density(rows, before, observed)
        there = posterior.log_density(rows, start, observed)
        start = torch.where((here > there)[:, None], before, start)
    found, _ = climb_rows(
        posterior,
        lambda p: NewRows(p, rows, observed),
        Parameters(start, {}, ()),
        rate=step,
        n_steps=STEPS,
    )
    return found.latents
