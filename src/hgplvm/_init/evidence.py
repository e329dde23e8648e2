"""How well latents explain the data before any fit: variogram and profile likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm._init.mds import squared_distances
from hgplvm._init.simple import subsample
from hgplvm.covariance import CovarianceFunction
from hgplvm.errors import NotPositiveDefiniteError

__all__ = ["Profile", "profile_evidence", "variogram"]


# rows whose pairs a variogram is fitted to
VARIOGRAM_ROWS = 1000


@dataclass(frozen=True)
class Profile:
    """Best positive parameters for given latents, and their log likelihood per entry."""

    evidence: float
    variance: float
    noise: float
    length_scale: float


def profile_evidence(
    data: Tensor,
    latents: Tensor,
    covariance: CovarianceFunction,
    length_scales: Sequence[float],
    *,
    noise_share: float,
    n_columns: int,
) -> Profile:
    """Highest log likelihood of centred data given latents, over some length scales.

    With R the kernel's correlations, centred columns have a mean square of ``σ (1 - mean R) + β⁻¹``
    under the model; for a share of it that is noise, σ follows, and one Cholesky factorisation
    gives the likelihood. `data` may have been rotated to fewer columns than the D = `n_columns`
    that they stand for.
    """
    n = data.shape[0]
    square = max(data.square().sum().item() / (n * n_columns), 1e-12)
    noise = noise_share * square
    distance = covariance.manifold.pairwise_distance(latents)
    best = Profile(-math.inf, square, noise, length_scales[0])
    for length_scale in length_scales:
        at = covariance.at({"variance": 1.0, "length_scale": length_scale})
        correlation = at.correlation(distance)
        variance = (square - noise) / max(1.0 - correlation.mean().item(), 1e-6)
        try:
            factor = linalg.cholesky(variance * correlation, shift=noise)
        except NotPositiveDefiniteError:
            continue
        half = torch.linalg.solve_triangular(factor, data, upper=False)
        log_det = linalg.log_det_from_cholesky(factor).item()
        misfit = half.square().sum().item() / (n * n_columns)
        evidence = -0.5 * (math.log(2.0 * math.pi) + log_det / n + misfit)
        if evidence > best.evidence:
            best = Profile(evidence, variance, noise, length_scale)
    return best


def variogram(
    data: Tensor,
    latents: Tensor,
    covariance: CovarianceFunction,
    length_scale: float,
    *,
    n_columns: int,
    noise_floor: float = 0.0,
    noise: float | None = None,
) -> tuple[float, float]:
    """Variance σ and noise β⁻¹ that fit the squared data distances.

    Under the model ``E‖y_i - y_j‖²/(2D) = σ (1 - ρ(d_ij)) + β⁻¹``: a straight line, fitted by
    least squares on (a sample of) the pairs and kept above the floor. Where β⁻¹ is known, as
    `noise`, σ follows from the mean of the pairs. `data` may have been rotated
    to fewer columns than the D = `n_columns` that they stand for.
    """
    rows, points = subsample(data, VARIOGRAM_ROWS), subsample(latents, VARIOGRAM_ROWS)
    n = rows.shape[0]
    above = torch.triu_indices(n, n, 1, device=data.device)
    target = squared_distances(rows)[above[0], above[1]] / (2.0 * n_columns)
    distances = covariance.manifold.pairwise_distance(points)[above[0], above[1]]
    at = covariance.at({"variance": 1.0, "length_scale": length_scale})
    rise = 1.0 - at.correlation(distances)
    centred = rise - rise.mean()
    power = centred.square().mean().item()
    mean = target.mean().item()
    slope = (centred * target).mean().item() / power if power > 0 else 0.0
    noise = mean - slope * rise.mean().item() if noise is None else noise
    # a noise of 1% to 95% of the whole leaves the fit something to do on either side
    noise = min(max(noise, 0.01 * mean, noise_floor), 0.95 * mean)
    variance = (mean - noise) / max(rise.mean().item(), 1e-12)
    return max(variance, 1e-6), max(noise, 1e-6)
