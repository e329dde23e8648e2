"""Starts that need no distances: at random (the paper's), and from principal components."""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold

__all__ = [
    "median_distance",
    "pca_start",
    "principal_scores",
    "random_start",
    "scaled",
    "subsample",
]

# the paper draws its start from U(-1e-3, 1e-3)
RANDOM_WIDTH = 1e-3
# rows that a median distance is taken over
SAMPLE_ROWS = 200
# distances below this share of the large ones are those of rows that coincide
NEGLIGIBLE = 1e-2


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
    """Principal component scores as tangent vectors at the origin, with this median distance."""
    scores = principal_scores(data, n_components, generator=generator)
    return scaled(scores, manifold, median_distance)


def principal_scores(data: Tensor, n_components: int, *, generator: torch.Generator) -> Tensor:
    """Scores [n, Q] on the leading principal components, of mean square 1.

    A little noise is added, so that no two rows coincide where the data have rank below Q.
    """
    wide = data.double()
    # the eigenvectors of the smaller Gram matrix: scores need not be exact to the last digit
    _, axes = torch.linalg.eigh(wide.mT @ wide)
    k = min(n_components, axes.shape[1])
    scores = wide.new_zeros(wide.shape[0], n_components)
    scores[:, :k] = wide @ axes.flip(1)[:, :k]
    # the sign of an eigenvector is arbitrary: fix it
    largest = scores.gather(0, scores.abs().argmax(0, keepdim=True))
    scores = torch.where(largest < 0, -scores, scores)
    scores = scores / scores.square().mean().sqrt().clamp_min(1e-300)
    noise = torch.randn(scores.shape, generator=generator, dtype=torch.float64).to(scores)
    return (scores + 1e-3 * noise).to(data)


def scaled(tangents: Tensor, manifold: Manifold, distance: float) -> Tensor:
    """Points with tangent vectors proportional to `tangents` [n, Q] at the origin.

    The factor is such that (a sample of) the points has the median distance `distance`; outliers
    are moved inwards to the largest radius of latents.
    """
    sample = subsample(tangents, SAMPLE_ROWS)
    factor = distance / max(_typical(torch.pdist(sample)), 1e-12)
    for _ in range(20):  # distance grows faster than the factor in curved space
        median = median_distance(manifold.from_tangent(factor * sample), manifold)
        if abs(median - distance) <= 1e-3 * distance or median == 0:
            break
        factor *= distance / median
    return manifold.inside(manifold.from_tangent(factor * tangents))


def median_distance(points: Tensor, manifold: Manifold) -> float:
    """Median distance between (a sample of) the points; of different ones, if most coincide."""
    features = manifold.pair_features(subsample(points, SAMPLE_ROWS))
    n = features.shape[0]
    above = torch.triu_indices(n, n, 1, device=points.device)
    squared = manifold.pair_squared_chord(features, features)[above[0], above[1]]
    return _typical(manifold.distance_from_chord(squared))


def _typical(distances: Tensor) -> float:
    """Median of the distances, without those that are next to nothing where these are most."""
    median = distances.median()
    large = torch.quantile(distances, 0.95)
    if median < NEGLIGIBLE * large:
        median = distances[distances >= NEGLIGIBLE * large].median()
    return median.item() if median > 0 else distances.max().item()


def subsample(rows: Tensor, n_rows: int) -> Tensor:
    """Draw some of the rows: the same ones for every array with as many."""
    if rows.shape[0] <= n_rows:
        return rows
    order = torch.randperm(rows.shape[0], generator=torch.Generator().manual_seed(0))
    return rows[order[:n_rows].to(rows.device)]
