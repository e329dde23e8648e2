"""How much of the data is noise, by what rows that the fit has not seen have to say.

Latents are free enough to explain a row's own noise: they put every row on a twig of its own, the
noise estimate falls to nothing, and the likelihood of the data in hand rises all the way. Rows that
were held out are not fooled. Each is placed by most of its entries and asked for the others; the
noise level under which these are the most likely is the one to fit with.

The levels are tried from above, each fit starting where the one before ended, so that the whole
search is one fit of a few hundred rows that cools down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm.geometry import Manifold
from hgplvm.init import Profile, median_distance
from hgplvm.kernels import Kernel
from hgplvm.objectives import ExactObjective, Parameters
from hgplvm.objectives.placement import Landmarks, PlacementObjective
from hgplvm.objectives.predictive import Posterior, exact_posterior
from hgplvm.optim import Adam, climb

__all__ = ["NoiseSearch", "search_noise"]

# noise levels as shares of the data's variance; below the last, scores tell how well rows were
# placed rather than how noisy they are
LEVELS = (0.9, 0.8, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3)
# the share of rows that is held out, and the share of their entries that is to be predicted
HELD_OUT = 0.2
HIDDEN = 0.25
# steps a level, for the latents and for the held-out rows
STEPS = 10
# the search ends when this many levels in a row are worse than the best
PATIENCE = 3


@dataclass(frozen=True)
class NoiseSearch:
    """Levels that were tried (shares of the variance), and the mean score of a hidden entry."""

    levels: tuple[float, ...]
    scores: tuple[float, ...]

    @property
    def floor(self) -> float:
        """The level with the highest score; 0 where that is the last, and the noise is free."""
        best = self.levels[int(np.argmax(self.scores))]
        return 0.0 if best == LEVELS[-1] else best

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns for the history, one entry a level."""
        return {"noise_level": np.array(self.levels), "noise_score": np.array(self.scores)}


def search_noise(
    data: Tensor,
    latents: Tensor,
    profile: Profile,
    manifold: Manifold,
    kernel: Kernel,
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
        False for entries that are missing, and filled with guesses: none is asked for.
    """
    order = torch.randperm(data.shape[0], generator=generator).to(data.device)
    n_held = max(1, int(HELD_OUT * order.numel()))
    held, kept = order[:n_held], order[n_held:]
    rows = data[held]
    observed = _mask(rows.shape, generator).to(data)
    hidden = 1.0 - observed
    if seen is not None:
        observed, hidden = observed * seen[held], hidden * seen[held]
    step = rate * median_distance(latents[kept], manifold)
    logs = {
        name: data.new_tensor(math.log(value))
        for name, value in (("variance", profile.variance), ("length_scale", profile.length_scale))
    }
    objective = ExactObjective(data[kept], manifold, kernel)
    parameters = Parameters(latents[kept], logs, ("variance",))
    places: Tensor | None = None
    levels, scores = [], []
    for level in LEVELS:
        logs = {**parameters.logs, "noise": data.new_tensor(math.log(level))}
        parameters = Parameters(parameters.latents, logs, ("variance",))
        optimizer = Adam(step, horizon=STEPS)
        parameters = climb(objective, parameters, optimizer, STEPS)
        posterior = exact_posterior(data[kept], parameters, manifold, kernel, noise=level)
        places = _place(posterior, rows, observed, places, step)
        density = posterior.log_density(rows, places, hidden)
        levels.append(level)
        scores.append((density.sum() / hidden.sum().clamp_min(1.0)).item())
        if len(scores) - 1 - int(np.argmax(scores)) >= PATIENCE:
            break
    return NoiseSearch(tuple(levels), tuple(scores))


def _mask(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """1 for entries to place a row by, 0 for those to predict: at least one of each in a row."""
    n, d = shape
    n_hidden = min(max(1, round(HIDDEN * d)), d - 1)
    order = torch.rand(n, d, generator=generator).argsort(1)
    return (order >= n_hidden).double()


def _place(
    posterior: Posterior, rows: Tensor, observed: Tensor, before: Tensor | None, step: float
) -> Tensor:
    """Latents of rows: from where they were, or from the best training latent if that is better."""
    start = Landmarks.of(posterior, posterior.points).nearest(rows, observed)
    if before is not None:
        here = posterior.log_density(rows, before, observed)
        there = posterior.log_density(rows, start, observed)
        start = torch.where((here > there)[:, None], before, start)
    objective = PlacementObjective(posterior, rows, observed)
    parameters = Parameters(start, {}, ())
    optimizer = Adam(step, horizon=STEPS)
    return climb(objective, parameters, optimizer, STEPS).latents
