"""The decoder's slopes: which columns change around a point, and paths that stay near the data.

The exponential kernel is rough, so that decoded functions have no derivative at a point. Slopes are
difference quotients over a stated length h: with ``Δ_q f = f(x + h e_q/2) - f(x - h e_q/2)`` along
axis q of the frame, and the joint posterior of f at these points,

    J ≈ E[Δf]/h,    Cov J ≈ Cov[Δf]/h²,    G(x) = E[JᵀJ] = E[J]ᵀE[J] + r Cov J

for r functions of the same covariance. G is the expected pullback metric: long where the decoded
functions change, and where they are not known, away from the data. A path of least length by it
stays near the data. It is found on a graph of points (latents, and points that fill the disk),
whose edges have the length ``√(vᵀGv)`` of the step v in the metric between their ends. Of its
second term what is not known even along the rows is left out, and the rest is scaled such that a
way where nothing is known is twice as long as one along them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm._fitted.engine import Engine
from hgplvm._fitted.rates import RateUnits
from hgplvm._typing import Array
from hgplvm.manifolds._neighbors import nearest_to
from hgplvm.manifolds._tagged import Tagged

__all__ = ["Drivers", "data_geodesic", "drivers_at", "drivers_between"]

# length of a difference quotient, as a share of the median distance between latents
REACH = 0.15
# nodes of the graph: latents, and points that fill the disk; neighbours of each
LATENTS, FILLERS, NEIGHBORS = 500, 1500, 14
# how steep unknown functions are taken to be: a multiple of this quantile of the slopes at the rows
STEEP, DETOUR = 0.9, 2.0
# how far the disk is filled beyond the farthest latent, as a share of its radius
MARGIN = 1.1
# rounds in which a path is smoothed, and its points while it is
SMOOTHED, FINE = 30, 120


@dataclass(frozen=True)
class Drivers:
    """What changes around a point of the map, or from one point to another.

    Attributes
    ----------
    names : array of str [D]
        Columns of the data.
    gradient, std : array [D, Q]
        Change by a unit of hyperbolic length along each axis of the frame, with its standard
        deviation; between two points [D, 1], the whole change. For a likelihood of counts of the
        logarithm of the rate, else in units of the data.
    size : array [D]
        Length of the gradient.
    z : array [D]
        Length of the gradient in standard deviations.
    reach : float
        Length over which the change was taken.
    """

    names: Array
    gradient: Array
    std: Array
    size: Array
    z: Array
    reach: float

    def top(self, n: int = 10) -> list[str]:
        """Names of the columns that change most, in standard deviations."""
        return [str(name) for name in self.names[np.argsort(-self.z, kind="stable")[:n]]]

    def __str__(self) -> str:
        lines = [f"{'column':<20}{'size':>10}{'z':>8}{'direction':>12}"]
        for i in np.argsort(-self.z, kind="stable")[:10]:
            turn = "" if self.gradient.shape[1] != 2 else f"{_angle(self.gradient[i]):.0f}°"
            sign = (
                "" if self.gradient.shape[1] != 1 else ("up" if self.gradient[i, 0] > 0 else "down")
            )
            name = str(self.names[i])[:19]
            lines.append(f"{name:<20}{self.size[i]:>10.3g}{self.z[i]:>8.1f}{turn + sign:>12}")
        return "\n".join(lines)


def _angle(vector: Array) -> float:
    return float(np.degrees(np.arctan2(vector[1], vector[0]))) % 360.0


def reach_of(engine: Engine) -> float:
    """Length of the difference quotients of a model."""
    x = engine.latents
    some = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:500].to(x.device)]
    distance = engine.manifold.pairwise_distance(some)
    pairs = torch.triu_indices(len(some), len(some), 1)
    return REACH * max(float(distance[pairs[0], pairs[1]].median()), 1e-6)


def drivers_at(engine: Engine, point: Tensor, names: Array, reach: float | None = None) -> Drivers:
    """Slopes of all columns at a point of the pose."""
    h = reach_of(engine) if reach is None else reach
    q = engine.manifold.n_components(point)
    axes = 0.5 * h * torch.eye(q).to(point)
    ends = engine.manifold.displaced(point, torch.cat([axes, -axes]))  # [2Q, ·]
    contrast = torch.cat([torch.eye(q), -torch.eye(q)], dim=1).to(point) / h
    return _drivers(engine, names, _moments(engine, ends), contrast, h)


def drivers_between(engine: Engine, start: Tensor, end: Tensor, names: Array) -> Drivers:
    """Return changes of all columns from one point of the pose to another."""
    contrast = torch.tensor([[1.0, -1.0]]).to(start)
    length = float(engine.manifold.distance(start, end))
    return _drivers(engine, names, _moments(engine, torch.stack([end, start])), contrast, length)


def _drivers(
    engine: Engine,
    names: Array,
    moments: tuple[Array, Tensor, Tensor],
    contrast: Tensor,
    reach: float,
) -> Drivers:
    base, functions, covariance = moments
    contrast = contrast.to(covariance)
    gradient = (contrast.cpu().numpy() @ base).T  # [D, Q]
    spread = (contrast @ covariance @ contrast.mT).diagonal().clamp_min(0.0)
    variance = column_variances(engine)[:, None] * spread.cpu().numpy()
    # columns are known by their loadings on the functions, which were estimated
    variance = variance + engine.loading_variances(contrast @ functions).T
    std = np.sqrt(variance)
    z = np.sqrt(np.square(gradient / np.maximum(std, 1e-300)).sum(1))
    return Drivers(names, gradient, std, np.sqrt(np.square(gradient).sum(1)), z, reach)


def column_variances(engine: Engine) -> Array:
    """Variance of each decoded column, where that of the model's functions is 1."""
    units = engine.model.units
    if isinstance(units, RateUnits):
        return np.asarray(units.rates.squares.cpu().numpy(), dtype=float)
    n = engine.model.off_map.axes.shape[0]
    found = np.full(n, units.data**2)
    if units.signal is not None:
        found = np.square(units.signal.axes).sum(1) * np.square(units.signal.scale) * units.data**2
    return np.asarray(found, dtype=float)


def _moments(engine: Engine, points: Tensor) -> tuple[Array, Tensor, Tensor]:
    """Decode points of the pose; rows, functions, and the covariance of a function between them."""
    hidden = engine.hidden(points.to(engine.device))
    mean, _ = engine.inference().predict(hidden)
    return engine.base(hidden), mean, function_covariance(engine, hidden[None])[0]


def function_covariance(engine: Engine, x: Tensor) -> Tensor:
    """Posterior covariance [n, k, k] of a function among groups of points of the prior's frame."""
    model, positions = engine.model, engine.model.positions
    points = model.latents
    x = engine.manifold.uncenter(x, model.prior_root)
    covariance = positions.covariance
    if isinstance(covariance.manifold, Tagged):  # a mean over batches
        assert engine.covariates is not None
        points = engine.covariates.tagged(points)
        x = covariance.manifold.tagged(x, engine._mean_tags)
    landmarks = points[positions.rows]
    factor = linalg.cholesky(covariance.gram(landmarks, landmarks), shift=positions.noise)
    k = covariance.gram(x, landmarks)  # [n, k, m]
    half = torch.linalg.solve_triangular(factor, k.flatten(0, 1).mT, upper=False).mT
    half = half.view(k.shape)
    return covariance.gram(x, x) - half @ half.mT


# --- paths ----------------------------------------------------------------------------------


def metric(engine: Engine, x: Tensor, reach: float, n_rows: int) -> Tensor:
    """``G`` [n, Q, Q] at points of the prior's frame, in their frames; the first are rows."""
    q = engine.manifold.n_components(x)
    axes = 0.5 * reach * torch.eye(q).to(x)
    ends = engine.manifold.displaced(x.unsqueeze(1), torch.cat([axes, -axes]))  # [n, 2Q, ·]
    contrast = torch.cat([torch.eye(q), -torch.eye(q)], dim=1).to(x) / reach
    squares, spreads = [], []
    for some in torch.split(ends, 256):
        mean, _ = engine.inference().predict(some.flatten(0, 1))
        mean = mean.view(*some.shape[:2], -1)
        slopes = (mean[:, :q] - mean[:, q:]) / reach  # [n, Q, r]
        squares.append(slopes @ slopes.mT)
        spreads.append(contrast @ function_covariance(engine, some) @ contrast.mT)
    square, spread = torch.cat(squares), torch.cat(spreads)
    # Functions change more at the rows than the kernel of the posterior says, which is that of
    # uncertain positions: where they are not known, a way counts as DETOUR times one along rows.
    known = square[:n_rows].diagonal(dim1=1, dim2=2).sum(1).quantile(STEEP)
    # What is not known even along rows, since functions are rough, is no reason to go elsewhere.
    values, axes = torch.linalg.eigh(spread)
    values = (values - values[:n_rows, 0].median()).clamp_min(0.0)
    spread = (axes * values.unsqueeze(1)) @ axes.mT
    unknown = values.mean(1).max()
    return square + max(float(DETOUR**2 * known / unknown.clamp_min(1e-300)), 1.0) * spread


def data_geodesic(engine: Engine, start: Tensor, end: Tensor, n_points: int) -> Tensor:
    """Points [n, ·] of the pose on a path of least length by the decoder's metric."""
    manifold = engine.manifold
    a, b = (engine.hidden(p.to(engine.device)[None]) for p in (start, end))
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(engine.latents), generator=generator)[:LATENTS]
    latents = engine.latents[chosen.to(engine.device)]
    # points that fill the ball around the prior's centre evenly, by hyperbolic volume in the plane
    tangents = manifold.to_tangent(torch.cat([latents, a, b]))
    radius = MARGIN * float(tangents.norm(dim=1).max())
    q = tangents.shape[1]
    share = torch.rand(FILLERS, generator=generator, dtype=torch.float64)
    lengths = torch.acosh(1.0 + share * (np.cosh(min(radius, 12.0)) - 1.0))
    directions = torch.randn(FILLERS, q, generator=generator, dtype=torch.float64)
    directions = directions / directions.norm(dim=1, keepdim=True)
    fillers = manifold.from_tangent((lengths[:, None] * directions).to(latents))
    nodes = torch.cat([a, b, latents, fillers])
    tensor = metric(engine, nodes, reach_of(engine), 2 + len(latents))
    near = nearest_to(manifold, nodes, nodes, min(NEIGHBORS + 1, len(nodes)))[:, 1:]
    rows = torch.arange(len(nodes), device=nodes.device).repeat_interleave(near.shape[1])
    columns = near.reshape(-1)
    step = manifold.to_frame(nodes[rows], manifold.log_map(nodes[rows], nodes[columns]))
    middle = 0.5 * (tensor[rows] + tensor[columns])
    length = torch.einsum("nq,nqp,np->n", step, middle, step).clamp_min(0.0).sqrt()
    length = length + 1e-9 * step.norm(dim=1) + 1e-15
    graph = coo_matrix(
        (length.cpu().numpy(), (rows.cpu().numpy(), columns.cpu().numpy())),
        shape=(len(nodes), len(nodes)),
    ).tocsr()
    _, before = dijkstra(graph, directed=False, indices=0, return_predecessors=True)
    path = [1]
    while path[-1] != 0 and before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    found = nodes[path[::-1]] if path[-1] == 0 else torch.cat([a, b])
    return engine.shown(_smoothed(engine, found, n_points))


def _smoothed(engine: Engine, path: Tensor, n_points: int) -> Tensor:
    """Path with points at equal distances, its corners rounded; its ends stay."""
    manifold = engine.manifold
    path = _even(engine, path, max(FINE, n_points))
    for _ in range(SMOOTHED):
        three = torch.stack([path[:-2], path[1:-1], path[2:]], dim=1)
        weights = torch.tensor([0.25, 0.5, 0.25]).to(path).expand(len(three), 3)
        path = torch.cat([path[:1], manifold.weighted_mean(three, weights), path[-1:]])
    return _even(engine, path, n_points)


def _even(engine: Engine, path: Tensor, n_points: int) -> Tensor:
    steps = engine.manifold.distance(path[:-1], path[1:])
    along = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    wanted = torch.linspace(0.0, float(along[-1]), n_points).to(along)
    at = torch.searchsorted(along, wanted, right=True).clamp(1, len(path) - 1) - 1
    gap = steps[at].clamp_min(1e-300)
    share = ((wanted - along[at]) / gap).clamp(0.0, 1.0).unsqueeze(1)
    return engine.manifold.geodesic(path[at], path[at + 1], share)
