"""Metric embedding of the distances that the model itself implies (hyperbolic MDS).

By the model ``E‖y_i - y_j‖²/(2D) = σ (1 - exp(-d_ij/κ)) + β⁻¹``: to first order, latent distance
is proportional to the *squared* data distance, less a nugget. The proportion, the *scale*, is the
one thing that flat space does not have: how many curvature radii the data are across.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from hgplvm._init.simple import scaled
from hgplvm._signal import median_marchenko_pastur
from hgplvm.manifolds import Manifold
from hgplvm.objectives import Parameters
from hgplvm.objectives.stress import StressObjective
from hgplvm.optim import LBFGS, Adam

__all__ = [
    "Targets",
    "denoised",
    "embed",
    "place",
    "place_targets",
    "relative_weights",
    "squared_distances",
]

# steps to embed a further row among the anchors, and the first step length as a share of the scale
PLACING_STEPS = 40
PLACING_RATE = 0.1
# share of the variance that noise must have before distances are taken without it
NOISY = 0.5
# entries of a chunk of rows times anchors that are worked on at a time
CHUNK_ENTRIES = 2**21


@dataclass(frozen=True)
class Targets:
    """Latent distances to aim at, for a median of 1: ``t = (‖y_i - y_j‖² - nugget)₊/unit``."""

    nugget: float
    unit: float
    mean: float

    @classmethod
    def of(cls, data: Tensor) -> Self | None:
        """From rows of the data; None where all rows are the same."""
        squared = squared_distances(data)
        n = squared.shape[0]
        nearest = squared.clone().fill_diagonal_(torch.inf).amin(1)
        nugget = nearest.median().item() if n > 2 else 0.0
        above = torch.triu_indices(n, n, 1, device=data.device)
        rest = (squared[above[0], above[1]] - nugget).clamp_min_(0.0)
        unit = rest.median().item()
        if not unit > 0:
            unit = rest.max().item()
        if not unit > 0:
            return None
        return cls(nugget, unit, rest.mean().item() / unit)

    def between(self, a: Tensor, b: Tensor | None = None) -> Tensor:
        """Targets between rows [n, m]; within one set of rows exactly symmetric, 0 with itself."""
        targets = squared_distances(a, b).sub_(self.nugget).clamp_min_(0.0).div_(self.unit)
        return targets.fill_diagonal_(0.0) if b is None else targets

    def weights(self, targets: Tensor) -> Tensor:
        """Weights of the stress, for targets that are as large as these on average."""
        return relative_weights(targets, self.mean)


def relative_weights(targets: Tensor, mean: float) -> Tensor:
    """``1/t²``: relative errors count, down to a tenth of the mean target."""
    return targets.clamp_min(0.1 * mean).pow_(-2.0)


def squared_distances(a: Tensor, b: Tensor | None = None) -> Tensor:
    """Squared distances [n, m] between rows; without b exactly symmetric, 0 on the diagonal."""
    other = a if b is None else b
    squared = a.square().sum(1)[:, None] + other.square().sum(1)[None, :]
    squared.addmm_(a, other.mT, alpha=-2.0).clamp_min_(0.0)
    if b is None:
        squared = (0.5 * (squared + squared.mT)).fill_diagonal_(0.0)
    return squared


def denoised(data: Tensor, n_components: int, sample: Tensor, *, n_columns: int) -> Tensor | None:
    """Scores on the principal components that stand out of noise, where most of the data are noise.

    White noise alone has singular values below ``s (√N + √D)`` (Marchenko and Pastur); its
    deviation s comes from the median singular value. The components are those of the `sample` of
    rows, perhaps rotated to fewer columns than the D = `n_columns` that they stand for, which
    leaves singular values as they are. None where the components leave out less than half of the
    variance: that part may be the smallest branches of a tree, and distances tolerate it.
    """
    n, d = sample.shape[0], n_columns
    _, values, axes = torch.linalg.svd(sample.double(), full_matrices=False)
    long, ratio = max(n, d), min(n, d) / max(n, d)
    noise = values.median().item() / math.sqrt(long * median_marchenko_pastur(ratio))
    rank = int((values > noise * math.sqrt(long) * (1.0 + math.sqrt(ratio))).sum())
    left_out = 1.0 - (values[:rank].square().sum() / values.square().sum()).item()
    if rank < n_components or not left_out > NOISY:
        return None
    return data @ axes[:rank].mT.to(data)


def embed(
    unit: Tensor,
    weights: Tensor,
    scales: Sequence[float],
    n_components: int,
    manifold: Manifold,
    *,
    generator: torch.Generator,
    begin: Tensor | None = None,
    max_iter: int = 60,
    tol: float = 1e-3,
) -> Iterator[Tensor]:
    """Latents at each of the scales (median distances), each starting from the one before.

    From targets [N, N], of median 1, and their weights. The stress ``Σ w (d - scale·t)²`` is
    minimised by L-BFGS in the metric until it falls by less than `tol` of itself in a step. Raising
    the scale step by step avoids the folded embeddings that a large scale gives on its own. Time
    and memory grow with the square of the rows.
    """
    weights = weights.clone().fill_diagonal_(0.0)
    latents = begin
    for scale in scales:
        aims = _aims(unit, scale, manifold)
        if latents is None:
            latents = _classical(aims, n_components, manifold, generator)
        else:
            latents = scaled(manifold.to_tangent(latents), manifold, scale)
        objective = StressObjective(aims, weights, manifold)
        latents = _relax(objective, latents, max_iter, tol)
        yield latents


def _aims(unit: Tensor, scale: float, manifold: Manifold) -> Tensor:
    """Targets at a scale, cut where the latents cannot reach."""
    return (scale * unit).clamp_max_(manifold.diameter(unit.dtype))


def _relax(objective: StressObjective, latents: Tensor, max_iter: int, tol: float) -> Tensor:
    optimizer = LBFGS()
    parameters = Parameters(latents, {}, ())
    here = objective.evaluate(parameters)
    for _ in range(max_iter):
        step = optimizer.step(objective, parameters, here)
        done = step.stop is not None or step.evaluation.value - here.value < -tol * here.value
        parameters, here = step.parameters, step.evaluation
        if done:
            break
    return parameters.latents


def place(
    data: Tensor,
    anchor_data: Tensor,
    anchors: Tensor,
    targets: Targets,
    scale: float,
    manifold: Manifold,
) -> Tensor:
    """Latents of more rows, each by its stress against the anchors alone, in chunks of rows.

    A row starts at the anchor with the smallest target. Memory is O(chunk · anchors).
    """
    size = max(1, CHUNK_ENTRIES // anchors.shape[0])
    placed = []
    for rows in torch.split(data, size):
        unit = targets.between(rows, anchor_data)
        placed.append(place_targets(unit, targets.weights(unit), anchors, scale, manifold))
    return torch.cat(placed)


def place_targets(
    unit: Tensor, weights: Tensor, anchors: Tensor, scale: float, manifold: Manifold
) -> Tensor:
    """Latents of rows with given targets [n, m], of median 1, to the anchors."""
    objective = StressObjective(_aims(unit, scale, manifold), weights, manifold, anchors)
    optimizer = Adam(PLACING_RATE * scale, horizon=PLACING_STEPS)
    parameters = Parameters(anchors[unit.argmin(1)], {}, ())
    here = objective.evaluate(parameters)
    for _ in range(PLACING_STEPS):
        step = optimizer.step(objective, parameters, here)
        parameters, here = step.parameters, step.evaluation
    return parameters.latents


def _classical(
    targets: Tensor, n_components: int, manifold: Manifold, generator: torch.Generator
) -> Tensor:
    """Classical scaling of the targets as tangent vectors, with a little noise."""
    squared = targets.square()
    centred = squared - squared.mean(0) - squared.mean(1, keepdim=True) + squared.mean()
    values, vectors = torch.linalg.eigh(-0.5 * centred)
    values, vectors = values.flip(0)[:n_components], vectors.flip(1)[:, :n_components]
    tangents = targets.new_zeros(targets.shape[0], n_components)
    tangents[:, : vectors.shape[1]] = vectors * values.clamp_min(0.0).sqrt()
    noise = torch.randn(tangents.shape, generator=generator, dtype=torch.float64).to(tangents)
    tangents = tangents + 1e-3 * tangents.std().clamp_min(1e-6) * noise
    # start at half the size: the stress moves points outwards more easily than past each other
    return manifold.inside(manifold.from_tangent(0.5 * tangents))
