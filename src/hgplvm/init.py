"""Where a fit starts: at random (the paper's start), from principal components, from distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgplvm.errors import NotPositiveDefiniteError
from hgplvm.geometry import Manifold
from hgplvm.kernels import Exponential
from hgplvm.objectives import ExactObjective, Parameters, inside
from hgplvm.objectives.parameters import LATENT_RADIUS
from hgplvm.objectives.stress import StressObjective
from hgplvm.optim import LBFGS

__all__ = ["evidence", "mds_start", "pca_start", "random_start", "scaled", "variogram"]

# the paper draws its start from U(-1e-3, 1e-3)
RANDOM_WIDTH = 1e-3


def random_start(
    n_rows: int, n_components: int, manifold: Manifold, *, like: Tensor, generator: torch.Generator
) -> Tensor:
    """Latents ``x̃ ~ U(-10⁻³, 10⁻³)``, as in the paper."""
    uniform = torch.rand(n_rows, n_components, generator=generator, dtype=torch.float64)
    return manifold.from_tangent(((2.0 * uniform - 1.0) * RANDOM_WIDTH).to(like))


def pca_start(
    data: Tensor,
    n_components: int,
    manifold: Manifold,
    *,
    median_distance: float,
    generator: torch.Generator,
) -> Tensor:
    """Principal component scores as tangent vectors at the origin, with this median distance.

    Directions that the data do not have (rank below Q) get a little noise, so that no two rows
    coincide for want of a dimension.
    """
    n_rows = data.shape[0]
    scores = torch.zeros(n_rows, n_components, dtype=torch.float64)
    left, values, _ = torch.linalg.svd(data.cpu().double(), full_matrices=False)
    k = min(n_components, values.numel())
    scores[:, :k] = left[:, :k] * values[:k]
    # the sign of a singular vector is the library's whim: fix it
    largest = scores.gather(0, scores.abs().argmax(0, keepdim=True))
    scores = torch.where(largest < 0, -scores, scores)
    scores = scores / scores.square().mean().sqrt().clamp_min(1e-300)
    noise = torch.randn(n_rows, n_components, generator=generator, dtype=torch.float64)
    return scaled((scores + 1e-3 * noise).to(data), manifold, median_distance)


def scaled(tangents: Tensor, manifold: Manifold, median_distance: float) -> Tensor:
    """Points with tangent vectors proportional to `tangents` [n, Q] at the origin.

    The factor makes the median distance between (a sample of) the points what is asked for;
    outliers stop at the radius that latents may have.
    """
    sample = tangents[:: max(1, tangents.shape[0] // 500)]
    spread = torch.pdist(sample).median().clamp_min(1e-12)
    factor = median_distance / spread.item()
    for _ in range(20):  # distance grows faster than the factor in curved space
        points = manifold.from_tangent(factor * sample)
        n = points.shape[0]
        above = torch.triu_indices(n, n, 1, device=points.device)
        median = manifold.pairwise_distance(points)[above[0], above[1]].median().item()
        if abs(median - median_distance) <= 1e-3 * median_distance or median == 0:
            break
        factor *= median_distance / median
    return inside(manifold, manifold.from_tangent(factor * tangents))


def variogram(
    data: Tensor, latents: Tensor, manifold: Manifold, length_scale: float, *, n_columns: int
) -> tuple[float, float]:
    """Variance σ and noise β⁻¹ that fit the squared data distances.

    The model says ``E‖y_i - y_j‖²/(2D) = σ (1 - exp(-d_ij/κ)) + β⁻¹``: a straight line, fitted by
    least squares on (a sample of) the pairs and kept positive. `data` may have been rotated to
    fewer columns than the D = `n_columns` that they stand for.
    """
    stride = -(-data.shape[0] // 1000)
    rows, points = data[::stride], latents[::stride]
    n = rows.shape[0]
    above = torch.triu_indices(n, n, 1, device=data.device)
    target = torch.pdist(rows).square() / (2.0 * n_columns)
    distances = manifold.pairwise_distance(points)[above[0], above[1]]
    rise = 1.0 - torch.exp(-distances / length_scale)
    centred = rise - rise.mean()
    power = centred.square().mean().item()
    mean = target.mean().item()
    slope = (centred * target).mean().item() / power if power > 0 else 0.0
    noise = mean - slope * rise.mean().item()
    # a noise of 1% to 95% of the whole leaves the fit something to do on either side
    noise = min(max(noise, 0.01 * mean), 0.95 * mean)
    variance = (mean - noise) / max(rise.mean().item(), 1e-12)
    return max(variance, 1e-6), max(noise, 1e-6)


def evidence(data: Tensor, parameters: Parameters, manifold: Manifold, noise_floor: float) -> float:
    """Log likelihood, under the exact model, of (a sample of) the data at a start."""
    stride = -(-data.shape[0] // 1000)
    objective = ExactObjective(data[::stride], manifold, Exponential(), noise_floor=noise_floor)
    try:
        return objective.value(
            Parameters(parameters.latents[::stride], parameters.logs, parameters.free)
        )
    except NotPositiveDefiniteError:
        return -math.inf


def mds_start(
    data: Tensor,
    n_components: int,
    manifold: Manifold,
    *,
    median_distance: float,
    generator: torch.Generator,
    max_iter: int = 200,
) -> Tensor:
    """Metric embedding of the distances that the model itself implies.

    The model says ``E‖y_i - y_j‖²/(2D) = σ (1 - exp(-d_ij/κ)) + β⁻¹``: to first order, latent
    distance is proportional to the *squared* data distance, less a nugget. These targets, scaled to
    the median asked for, are embedded by minimising the stress with weights ``1/t``. Memory and
    time grow with N².
    """
    targets = _squared_distances(data)
    n = targets.shape[0]
    off = ~torch.eye(n, dtype=torch.bool, device=data.device)
    nearest = targets.masked_fill(~off, torch.inf).amin(1)
    targets = (targets - nearest.median()).clamp_min(0.0).masked_fill_(~off, 0.0)
    middle = targets[off].median() if n > 2 else targets.max()
    if not middle > 0:
        middle = targets.max()
    if not middle > 0:  # all rows are the same
        return pca_start(
            data,
            n_components,
            manifold,
            median_distance=median_distance,
            generator=generator,
        )
    targets = targets * (median_distance / middle)
    weights = 1.0 / targets.clamp_min(0.1 * targets.mean().item())
    weights.fill_diagonal_(0.0)
    # ends of a line search far out say nothing: targets beyond the latents' reach are cut
    targets.clamp_max_(2.0 * LATENT_RADIUS[data.dtype])

    begin = _classical(targets, n_components, manifold, generator)
    objective = StressObjective(targets, weights, manifold)
    optimizer = LBFGS()
    parameters = Parameters(begin, {}, ())
    here = objective.evaluate(parameters)
    for _ in range(max_iter):
        step = optimizer.step(objective, parameters, here)
        done = step.stalled is not None or step.evaluation.value - here.value < -1e-4 * here.value
        parameters, here = step.parameters, step.evaluation
        if done:
            break
    return parameters.latents


def _squared_distances(data: Tensor) -> Tensor:
    """All squared distances [n, n], exactly symmetric and 0 on the diagonal."""
    norms = data.square().sum(1)
    squared = norms[:, None] + norms[None, :] - 2.0 * (data @ data.mT)
    squared = 0.5 * (squared + squared.mT)
    return squared.clamp_min_(0.0).fill_diagonal_(0.0)


def _classical(
    targets: Tensor, n_components: int, manifold: Manifold, generator: torch.Generator
) -> Tensor:
    """Classical scaling of the targets as tangent vectors, with a little noise."""
    squared = targets.square()
    centred = squared - squared.mean(0) - squared.mean(1, keepdim=True) + squared.mean()
    values, vectors = torch.linalg.eigh(-0.5 * centred)
    values, vectors = values.flip(0)[:n_components], vectors.flip(1)[:, :n_components]
    tangents = vectors * values.clamp_min(0.0).sqrt()
    noise = torch.randn(tangents.shape, generator=generator, dtype=torch.float64).to(tangents)
    tangents = tangents + 1e-3 * tangents.std().clamp_min(1e-6) * noise
    # half way in: the stress pushes out, which is easier than to pull through
    return inside(manifold, manifold.from_tangent(0.5 * tangents))
