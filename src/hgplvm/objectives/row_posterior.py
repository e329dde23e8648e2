"""Posterior standard deviations of the latents of the nearest-neighbour model.

Each row's posterior, with all other latents fixed, is approximated by a wrapped normal around its
latent: ``q(x_i)`` with standard deviations s_i in the frame there, which maximise

    E_q[log p(y_i | x_i, the k nearest other rows)] - KL(q ‖ prior).

Sigma points move along one axis of the frame at a time, so that each deviation has an objective of
its own: with ``c = √Q``, weights 1/(2Q) and a prior of scale τ around the same latent::

    (ℓ(x ⊕ c s e_q) + ℓ(x ⊖ c s e_q))/(2Q) + log s - s²/(2τ²)

It is evaluated on a grid of s, since second derivatives are unreliable at the cusps of the kernel;
a parabola through the best three values gives the maximum.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm.manifolds._neighbors import nearest_others
from hgplvm.objectives.parameters import Parameters
from hgplvm.objectives.vecchia import VecchiaObjective

__all__ = ["peak", "row_deviations", "row_log_density"]

# deviations to try, as shares of the prior's scale
GRID = torch.logspace(-4.0, 0.0, 18, dtype=torch.float64)


def row_deviations(
    objective: VecchiaObjective, parameters: Parameters, *, n_neighbors: int, prior_scale: float
) -> Tensor:
    """Find the deviations of all q(x_i), along the axes of the frame at each latent: [N, Q].

    Parameters
    ----------
    objective : VecchiaObjective
        Data, manifold, kernel and noise.
    n_neighbors : int
        k, at most N - 1.
    prior_scale : float
        τ: no deviation comes out larger, nor smaller than a ten thousandth of it.
    """
    x, manifold = parameters.latents, objective.manifold
    neighbors = nearest_others(manifold, x, n_neighbors)
    q = manifold.n_components(x)
    scales = prior_scale * GRID.to(x)
    axes = torch.eye(q, dtype=x.dtype, device=x.device)
    steps = math.sqrt(q) * scales[:, None, None] * torch.cat([axes, -axes])  # [G, 2Q, Q]
    steps = steps.flatten(0, 1)
    entropy = torch.log(scales) - 0.5 * (scales / prior_scale).square()
    numbers = n_neighbors * (len(steps) + n_neighbors + objective.data.shape[1])
    found = []
    every, size = torch.arange(len(x), device=x.device), max(1, objective.entries // numbers)
    for rows in torch.split(every, size):
        nodes = manifold.displaced(x[rows, None], steps)  # [n, G·2Q, Q+1]
        density = row_log_density(objective, parameters, rows, neighbors[rows], nodes)
        both = density.view(len(rows), len(scales), 2, q).sum(2) / (2 * q)  # [n, G, Q]
        found.append(peak(both + entropy[:, None], scales))
    return torch.cat(found)


def row_log_density(
    objective: VecchiaObjective,
    parameters: Parameters,
    rows: Tensor,
    neighbors: Tensor,
    nodes: Tensor,
) -> Tensor:
    """``log p(y_i | x, Y_n)`` of rows [n] at nodes x [n, H, ·] given neighbours [n, k]: [n, H].

    Mean ``Y_nᵀ b`` and variance ``σ + a_i - k_xn b`` with ``b = C_nn⁻¹ k_nx``, and products of rows
    in place of the rows, of which there are more than nodes.
    """
    covariance = objective.covariance.at(parameters.values)
    noise = objective.noise.variances(parameters).expand(len(parameters.latents))  # a
    near = parameters.latents[neighbors]  # [n, k, Q+1]
    cross = covariance.gram(nodes, near)  # [n, H, k]
    factor = linalg.cholesky(covariance.gram(near, near), shift=noise[neighbors])
    b = cross @ torch.cholesky_inverse(factor)  # [n, H, k]
    own = noise[rows, None]
    variance = (covariance.diagonal + own - (cross * b).sum(2)).clamp_min(own)
    data = objective.data[torch.cat([neighbors, rows[:, None]], dim=1)]  # [n, k+1, D]
    v = torch.cat([-b, torch.ones_like(b[:, :, :1])], dim=2)  # y - Y_nᵀ b = Y_gᵀ v
    misfit = ((v @ (data @ data.mT)) * v).sum(2).clamp_min(0.0)
    if objective.responses.unseen is not None:  # what is missing of the row itself
        misfit += objective.responses.unseen[rows, None]
    return -0.5 * (objective.n_columns * torch.log(2.0 * math.pi * variance) + misfit / variance)


def peak(values: Tensor, scales: Tensor) -> Tensor:
    """Where values [n, G, Q] on a geometric grid of scales peak: [n, Q]."""
    best = values.argmax(1).clamp(1, len(scales) - 2)  # [n, Q]
    left, middle, right = (
        values.gather(1, (best + shift).unsqueeze(1)).squeeze(1) for shift in (-1, 0, 1)
    )
    bend = left - 2.0 * middle + right
    offset = torch.where(bend < 0, 0.5 * (left - right) / bend, 0.0).clamp(-1.0, 1.0)
    step = torch.log(scales[1] / scales[0])
    return scales[best] * torch.exp(offset * step)
