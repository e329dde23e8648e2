"""Covariates in a fit: their parameters, what is known of them after it, and a warning.

Where a batch has a region of the map to itself, its rows may be a branch of their own, or rows of
another branch that the batch has shifted: the data fit both.
"""

from __future__ import annotations

import logging
import math

import torch
from torch import Tensor

from hgplvm._batches import BatchCovariance, BatchFunction
from hgplvm._covariates import Covariates
from hgplvm._fitted import FittedCovariates
from hgplvm.covariance import Covariance, CovarianceFunction
from hgplvm.estimators.problems import Problem, Rows
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_to
from hgplvm.objectives import Parameters
from hgplvm.objectives.effects import EffectsPosterior

__all__ = ["fitted_covariates", "rows_alone", "warn_of_batches", "with_covariates"]

logger = logging.getLogger(__name__)

# variance of the effects of covariates at the start of a fit, as a share of the data's
EFFECT_VARIANCE = 0.05
# rows that are looked at, and neighbours of each
QUERIES, NEIGHBORS = 3000, 50
# of few rows, neighbours are at most one in so many
SHARE_OF_ROWS = 12
# rows of other batches that are expected among the neighbours before none is a sign, and the share
# of them below which a row is alone
EXPECTED, SHARE = 5.0, 0.1
# a batch that is alone with fewer rows, or a smaller share of its rows, is not worth a warning
FEWEST, LEAST = 20, 0.05


def with_covariates(
    covariance: CovarianceFunction, parameters: Parameters, rows: Rows
) -> tuple[CovarianceFunction, Parameters]:
    """Add what covariates have in the covariance, and their parameters."""
    logs, free = dict(parameters.logs), parameters.free
    if rows.tags is not None:
        space = rows.space(covariance.manifold)
        covariance = BatchFunction(space, covariance.kernel, rows.levels)
        own = [name for name in covariance.shape if name not in logs]
        for name in own:
            logs[name] = rows.data.new_tensor(math.log(covariance.shape[name]))
        free = (*free, *own)
    if rows.effects is not None:
        variance = EFFECT_VARIANCE * rows.data.square().mean().clamp_min(1e-12)
        logs |= dict.fromkeys(rows.effects.names, variance.log())
        free = (*free, *rows.effects.names)
    return covariance, Parameters(rows.tagged(parameters.latents), logs, free)


def fitted_covariates(
    problem: Problem, effects: EffectsPosterior, covariance: Covariance
) -> FittedCovariates:
    """Return what is known of the covariates after a fit."""
    assert problem.covariates is not None
    assert problem.coded is not None
    design = torch.from_numpy(problem.coded.design)
    return FittedCovariates(
        problem.covariates,
        torch.from_numpy(problem.coded.tags),
        design.mT @ design / len(design),
        covariance.shares if isinstance(covariance, BatchCovariance) else (),
        effects.mean.double(),
        effects.covariance.double(),
    )


def rows_alone(manifold: Manifold, latents: Tensor, tags: Tensor) -> tuple[Tensor, Tensor]:
    """Find rows whose neighbours are nearly all of their own batch, and far more than by chance.

    Parameters
    ----------
    tags : Tensor [N, L]
        Indicators of the batches.

    Returns
    -------
    alone : Tensor of bool [n]
    rows : Tensor [n]
        Which rows were looked at.
    """
    n = len(latents)
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:QUERIES]
    chosen = chosen.to(latents.device)
    k = min(NEIGHBORS, max(FEWEST, n // SHARE_OF_ROWS), n - 1)
    near = nearest_to(manifold, latents[chosen], latents, k + 1)
    same = (tags[near] * tags[chosen, None]).sum((1, 2)) - 1.0  # the row itself is among them
    expected = k * (1.0 - tags.mean(0))[tags[chosen].argmax(1)]
    others = k - same
    return (expected >= EXPECTED) & (others <= SHARE * expected), chosen


def warn_of_batches(
    owner: str, manifold: Manifold, latents: Tensor, tags: Tensor, covariates: Covariates
) -> None:
    """Say which batches hold a region of the map alone."""
    start = 0
    for part in covariates.categorical:
        own = tags[:, start : start + part.width]
        start += part.width
        alone, rows = rows_alone(manifold, latents, own)
        members = own[rows].argmax(1)
        for place, name in enumerate(part.levels or ()):
            mine = members == place
            count, total = int((alone & mine).sum()), int(mine.sum())
            if count >= FEWEST and count >= LEAST * total:
                logger.warning(
                    "%s: %.0f%% of the rows of %s %r have hardly a row of another one near them; "
                    "whether they are a branch of their own or shifted by their %s cannot be told "
                    "from these data",
                    owner,
                    100.0 * count / total,
                    part.name,
                    name,
                    part.name,
                )
