"""Posterior standard deviations of rows, against the exact likelihood and integrals over it."""

import math

import pytest
import torch

from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.objectives import ExactObjective, Parameters, VecchiaObjective
from hgplvm.objectives.row_posterior import row_deviations, row_log_density
from tests.gp import NOISE, gram, on

HYPERBOLIC = Hyperbolic()
FLAT = Flat()


def parameters(latents, noise=0.1):
    values = {"variance": 1.0, "noise": noise, "length_scale": 2.0}
    logs = {name: latents.new_tensor(math.log(value)) for name, value in values.items()}
    return Parameters(latents, logs, ())


def drawn(manifold, normal, n=40, d=10, q=2, noise=0.1):
    """Latents and data that the model itself has drawn."""
    x = manifold.from_tangent(normal(n, q))
    covariance = gram(Exponential(), manifold, x, x, variance=1.0, length_scale=2.0)
    root = torch.linalg.cholesky(covariance + noise * torch.eye(n))
    return root @ normal(n, d), parameters(x, noise)


def vecchia(data, manifold):
    options = {"n_neighbors": 5, "neighbor_update": 1, "generator": torch.Generator()}
    return VecchiaObjective(data, on(manifold), NOISE, **options)


def deviations(data, manifold, p, k, prior_scale=1.0):
    objective = vecchia(data, manifold)
    return row_deviations(objective, p, n_neighbors=k, prior_scale=prior_scale)


def moved(p, row, point):
    latents = p.latents.clone()
    latents[row] = point
    return Parameters(latents, p.logs, p.free)


def test_the_density_is_that_of_the_exact_model_given_all_others(manifold, normal):
    data, p = drawn(manifold, normal, n=12)
    objective = vecchia(data, manifold)
    rows = torch.tensor([2, 7])
    others = torch.stack([torch.tensor([j for j in range(12) if j != i]) for i in (2, 7)])
    nodes = manifold.from_tangent(normal(2, 5, 2))
    ours = row_log_density(objective, p, rows, others, nodes)
    exact = ExactObjective(data, on(manifold), NOISE)
    for i, row in enumerate((2, 7)):
        without = ExactObjective(data[others[i]], on(manifold), NOISE)
        rest = without.value(Parameters(p.latents[others[i]], p.logs, ()))
        for h in range(5):
            joint = exact.value(moved(p, row, nodes[i, h]))
            assert ours[i, h].item() == pytest.approx(joint - rest, rel=1e-8)


@pytest.mark.parametrize("q", [1, 2, 3], ids="Q={}".format)
def test_deviations_maximise_their_objective(manifold, q, normal):
    """Against a fine search with the exact likelihood."""
    data, p = drawn(manifold, normal, n=25, q=q)
    ours = deviations(data, manifold, p, 24)
    exact = ExactObjective(data, on(manifold), NOISE)
    scales = torch.logspace(-4, 0, 400, dtype=torch.float64)
    for row in (0, 11):
        for axis in range(q):
            scores = []
            for s in scales:
                step = torch.zeros(q, dtype=torch.float64)
                step[axis] = math.sqrt(q) * s
                ends = (manifold.displaced(p.latents[row], sign * step) for sign in (-1, 1))
                fit = sum(exact.value(moved(p, row, end)) for end in ends) / (2 * q)
                scores.append(fit + s.log().item() - 0.5 * s.item() ** 2)
            best = scales[int(torch.tensor(scores).argmax())].item()
            assert ours[row, axis].item() == pytest.approx(best, rel=0.25)


@pytest.mark.parametrize("manifold", [HYPERBOLIC, FLAT], ids=["hyperbolic", "flat"])
def test_deviations_are_near_those_of_the_posterior(manifold, normal):
    """Against the posterior of each row on a fine grid, the others where they are."""
    data, p = drawn(manifold, normal, n=40, d=20, noise=0.5)
    ours = deviations(data, manifold, p, 39)
    exact = ExactObjective(data, on(manifold), NOISE)
    axis = torch.linspace(-1.5, 1.5, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    ratios = []
    for row in range(8):
        nodes = manifold.displaced(p.latents[row], grid)
        logs = torch.tensor([exact.value(moved(p, row, node)) for node in nodes]).double()
        weights = torch.softmax(logs - 0.5 * grid.square().sum(1), 0)
        mean = weights @ grid
        std = (weights @ (grid - mean).square()).sqrt()
        ratios.append((ours[row] / std).log().mean().item())
    assert abs(sum(ratios) / len(ratios)) < math.log(1.5)


def test_more_columns_make_latents_surer(manifold, normal):
    medians = []
    for d in (3, 300):
        data, p = drawn(manifold, normal, n=60, d=d)
        medians.append(deviations(data, manifold, p, 10).median())
    assert medians[1] < 0.5 * medians[0]


def test_rows_that_say_nothing_keep_the_prior(manifold, normal):
    data, p = drawn(manifold, normal, n=30, noise=0.1)
    p = parameters(p.latents, noise=1e6)
    ours = deviations(data, manifold, p, 10, prior_scale=0.7)
    assert torch.allclose(ours, torch.full_like(ours, 0.7), rtol=0.05)


def test_coincident_rows_have_finite_deviations(manifold, normal):
    x = manifold.from_tangent(normal(5, 2)).repeat(6, 1)
    p = parameters(x, noise=1e-6)
    ours = deviations(normal(30, 4), manifold, p, 7)
    assert torch.isfinite(ours).all()
    assert (ours > 0).all()


def test_chunks_change_nothing(manifold, normal, monkeypatch):
    data, p = drawn(manifold, normal)
    whole = deviations(data, manifold, p, 6)
    monkeypatch.setattr("hgplvm.objectives.vecchia.CACHED_ENTRIES", 3000)
    assert torch.allclose(deviations(data, manifold, p, 6), whole)
