"""The wrapped normal distribution on hyperbolic (or flat) space, with diagonal covariance.

``x = Exp_μ(u)``, ``u = PT_{o→μ}(0, v)``, ``v = s∘ζ``, ``ζ ~ N(0, I)``: v holds the coordinates of
``Log_μ(x)`` in the transported frame at μ. Means are points [..., Q+1], standard deviations s are
[..., Q]. In flat space it is the normal distribution.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hgplvm.manifolds._base import Manifold

__all__ = [
    "distance_moments",
    "entropy",
    "gauss_hermite",
    "kl_to_prior",
    "log_prob",
    "monte_carlo",
    "points",
    "pull_back",
    "sample",
    "unscented",
]

LOG_2PI = math.log(2.0 * math.pi)
# deviations within which a distribution sees the kink of the distance from a point; nodes for it
NEAR = 5.0
MANY_NODES = {1: 161, 2: 41}  # by dimension
# quasi-random points for expectations in more than two dimensions
QUASI_RANDOM = 1024
# rows times nodes that are worked on at a time
AT_ONCE = 2**16


def points(manifold: Manifold, mean: Tensor, std: Tensor, zeta: Tensor) -> Tensor:
    """Points ``Exp_μ(PT(s∘ζ))`` for standard coordinates ζ [..., Q]; everything broadcasts."""
    return manifold.displaced(mean, std * zeta)


def sample(
    manifold: Manifold, mean: Tensor, std: Tensor, n: int, *, generator: torch.Generator
) -> Tensor:
    """Draw n points for each mean: [n, ..., Q+1]."""
    zeta = torch.randn(n, *std.shape, generator=generator, dtype=torch.float64)
    return points(manifold, mean, std, zeta.to(std))


def log_prob(manifold: Manifold, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """``log N(v | 0, diag s²) - (Q-1) log(sinh‖v‖/‖v‖)``.

    The second term is the volume that the exponential map stretches; flat space has none. (The
    paper prints its inverse.)
    """
    v = manifold.to_frame(mean, manifold.log_map(mean, x))
    q = v.shape[-1]
    quadratic = (v / std).square().sum(-1) + 2.0 * std.log().sum(-1) + q * LOG_2PI
    return -0.5 * quadratic - (q - 1) * manifold.log_stretch(v.square().sum(-1))


def distance_moments(
    manifold: Manifold, target: Tensor, mean: Tensor, covariance: Tensor, *, order: int = 7
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [n] of the distance of ``x ~ WN(μ, C)`` from a point.

    Parameters
    ----------
    target : Tensor [Q+1]
        The point that distances are taken from.
    mean, covariance : Tensor [n, Q+1], [n, Q, Q]
        μ, and C in the transported frames at μ.
    order : int
        Gauss-Hermite nodes along each axis of C, where the target is some deviations away; more are
        taken where it is near, and quasi-random points with three dimensions or more.
    """
    values, axes = torch.linalg.eigh(covariance)  # C = (V√λ)(V√λ)ᵀ, also where it is singular
    root = axes * values.clamp_min(0.0).sqrt().unsqueeze(-2)
    q = covariance.shape[-1]

    def moments(rows: Tensor, zeta: Tensor, weights: Tensor) -> None:
        first, second = torch.zeros_like(mean[rows, 0]), torch.zeros_like(mean[rows, 0])
        size = max(1, AT_ONCE // len(rows))
        parts = zip(torch.split(zeta, size), torch.split(weights, size), strict=True)
        for some, share in parts:
            v = some @ root[rows].mT  # [n, nodes, Q]
            there = manifold.distance(target, manifold.displaced(mean[rows].unsqueeze(1), v))
            first += there @ share
            second += there.square() @ share
        found[0, rows] = first
        found[1, rows] = (second - first.square()).clamp_min(0.0).sqrt()

    found = mean.new_zeros(2, len(mean))
    everywhere = torch.arange(len(mean), device=mean.device)
    if q > 2:  # a grid would have order^Q nodes
        moments(everywhere, *quasi_random(q, like=mean))
        return found[0], found[1]
    moments(everywhere, *gauss_hermite(q, order, like=mean))
    # the distance has a kink at the target, across which few nodes do not see enough
    reach = NEAR * values.amax(-1).clamp_min(0.0).sqrt()
    near = torch.nonzero(manifold.distance(target, mean) < reach).squeeze(1)
    if len(near):
        moments(near, *gauss_hermite(q, MANY_NODES[q], like=mean))
    return found[0], found[1]


def entropy(manifold: Manifold, std: Tensor, *, order: int = 15) -> Tensor:
    """``Σ log s + Q/2 log 2πe + (Q-1) E log(sinh‖v‖/‖v‖)``; the mean does not matter.

    A formula for Q = 1 and for flat space; otherwise the expectation is a Gauss-Hermite sum.
    """
    q = std.shape[-1]
    zeta, weights = gauss_hermite(q, order, like=std)
    radius = (std.unsqueeze(-2) * zeta).square().sum(-1)  # [..., H]
    stretch = (manifold.log_stretch(radius) * weights).sum(-1)
    return std.log().sum(-1) + 0.5 * q * (LOG_2PI + 1.0) + (q - 1) * stretch


def kl_to_prior(
    manifold: Manifold, mean: Tensor, std: Tensor, prior_scale: float, *, order: int = 15
) -> Tensor:
    """KL divergence to the wrapped normal at the origin with scale τ, by Gauss-Hermite nodes."""
    zeta, weights = gauss_hermite(std.shape[-1], order, like=std)
    nodes = points(manifold, mean.unsqueeze(-2), std.unsqueeze(-2), zeta)  # [..., H, Q+1]
    return kl_from_nodes(manifold, nodes, std, zeta, weights, prior_scale)


def kl_from_nodes(
    manifold: Manifold,
    nodes: Tensor,
    std: Tensor,
    zeta: Tensor,
    weights: Tensor,
    prior_scale: float,
) -> Tensor:
    """KL divergence from nodes [..., H, Q+1], averaged with their weights [H].

    ``KL = Q log τ - Σ log s - Q/2 + E[r²]/2τ² + (Q-1) E[log(sinh r/r) - log(sinh‖v‖/‖v‖)]`` with
    ``r = d(o, x)``: the prior is evaluated where x is, so the value grows with the mean's radius.
    """
    q = std.shape[-1]
    squares = manifold.squared_radius(nodes)  # r², [..., H]
    lengths = (std.unsqueeze(-2) * zeta).square().sum(-1)  # ‖v‖²
    stretch = manifold.log_stretch(squares) - manifold.log_stretch(lengths)
    mean = ((squares / (2.0 * prior_scale**2) + (q - 1) * stretch) * weights).sum(-1)
    return mean - std.log().sum(-1) + q * (math.log(prior_scale) - 0.5)


def kl_gradient(
    manifold: Manifold, nodes: Tensor, std: Tensor, zeta: Tensor, prior_scale: float
) -> tuple[Tensor, Tensor]:
    """Gradients of the integrand of the KL divergence at each node.

    Returns
    -------
    by_node : Tensor [..., H, Q]
        With respect to x, in the frame at x: ``[1/τ² + (Q-1)(r coth r - 1)/r²] Log_o(x)``, which
        points along the ray.
    by_v : Tensor [..., H, Q]
        With respect to v = s∘ζ, where x stays: ``-(Q-1)(r coth r - 1)/r² v`` with r = ‖v‖.
    """
    q = std.shape[-1]
    v = std.unsqueeze(-2) * zeta
    radial = manifold.log_stretch_slope(manifold.squared_radius(nodes)).unsqueeze(-1)
    by_node = (1.0 / prior_scale**2 + (q - 1) * radial) * manifold.to_tangent(nodes)
    slope = manifold.log_stretch_slope(v.square().sum(-1)).unsqueeze(-1)
    return by_node, -(q - 1) * slope * v


def pull_back(
    manifold: Manifold,
    mean: Tensor,
    std: Tensor,
    nodes: Tensor,
    frame: Tensor,
    zeta: Tensor,
    weights: Tensor,
    prior_scale: float,
    *,
    kl: str = "exact",
) -> tuple[Tensor, Tensor]:
    """Gradient of ``E_q[F(x)] - KL(q ‖ prior)`` with respect to q's mean and log deviations.

    Parameters
    ----------
    mean, std : Tensor [n, Q+1], [n, Q]
        q.
    nodes : Tensor [n, H, Q+1]
        Points with standard coordinates ζ [H, Q] or [n, H, Q].
    frame : Tensor [n, H, Q]
        Gradient of F at each node, in the frame there, times the node's weight.
    kl : {"exact", "paper"}
        The divergence, or the paper's.

    Returns
    -------
    by_mean, by_log_std : Tensor [n, Q]
        The first in the frame at the mean.
    """
    v, w = std.unsqueeze(-2) * zeta, weights[:, None]
    around = mean.unsqueeze(-2)
    if kl == "paper":
        by_mean, by_v = manifold.displaced_gradient(around, v, frame)
        by_log_std = (by_v * v).sum(-2) + 1.0 - (std / prior_scale).square()
    else:
        at_node, at_v = kl_gradient(manifold, nodes, std, zeta, prior_scale)
        by_mean, by_v = manifold.displaced_gradient(around, v, frame - w * at_node)
        by_log_std = ((by_v - w * at_v) * v).sum(-2) + 1.0
    return by_mean.sum(-2), by_log_std


def kl_of_the_paper(std: Tensor, prior_scale: float) -> Tensor:
    """Evaluate the KL divergence as the paper does: the prior at v instead of at x.

    ``KL = Q log τ - Σ log s - Q/2 + Σ s²/2τ²``: blind to the mean.
    """
    q = std.shape[-1]
    spread = std.square().sum(-1) / (2.0 * prior_scale**2)
    return spread - std.log().sum(-1) + q * (math.log(prior_scale) - 0.5)


# --- nodes and weights for expectations over ζ ~ N(0, I) ----------------------------------------


def unscented(n_components: int, *, like: Tensor) -> tuple[Tensor, Tensor]:
    """2Q + 1 points [H, Q] and weights [H] that match the first three moments of N(0, I).

    The origin and ``±√(Q+λ)`` on each axis, with ``λ = max(3 - Q, 1)``: positive weights for every
    Q, and the fourth moments along the axes as well for Q = 1 and 2.
    """
    q = n_components
    spread = q + max(3 - q, 1)
    axes = math.sqrt(spread) * torch.eye(q, dtype=torch.float64)
    zeta = torch.cat([torch.zeros(1, q, dtype=torch.float64), axes, -axes])
    weights = torch.full((2 * q + 1,), 0.5 / spread, dtype=torch.float64)
    weights[0] = 1.0 - q / spread
    return zeta.to(like), weights.to(like)


def gauss_hermite(n_components: int, order: int, *, like: Tensor) -> tuple[Tensor, Tensor]:
    """Tensor product of Gauss-Hermite rules: order^Q points [H, Q] and weights [H]."""
    points, masses = np.polynomial.hermite_e.hermegauss(order)
    line = torch.from_numpy(points)
    mass = torch.from_numpy(masses / masses.sum())
    grids = torch.meshgrid(*([line] * n_components), indexing="ij")
    mass_grids = torch.meshgrid(*([mass] * n_components), indexing="ij")
    zeta = torch.stack([grid.reshape(-1) for grid in grids], dim=-1)
    weights = torch.stack([grid.reshape(-1) for grid in mass_grids]).prod(0)
    return zeta.to(like), weights.to(like)


def quasi_random(n_components: int, *, like: Tensor) -> tuple[Tensor, Tensor]:
    """Draw normal quantiles [H, Q] of points that fill the cube evenly (Sobol), equal weights."""
    engine = torch.quasirandom.SobolEngine(  # type: ignore[no-untyped-call]
        n_components, scramble=True, seed=0
    )
    shares = engine.draw(QUASI_RANDOM, dtype=torch.float64).clamp(1e-9, 1.0 - 1e-9)
    weights = torch.full((len(shares),), 1.0 / len(shares), dtype=torch.float64)
    return torch.special.ndtri(shares).to(like), weights.to(like)


def monte_carlo(
    shape: tuple[int, ...], *, like: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Independent draws ζ [..., H, Q] with equal weights [H]."""
    zeta = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return zeta.to(like), torch.full((shape[-2],), 1.0 / shape[-2]).to(like)
