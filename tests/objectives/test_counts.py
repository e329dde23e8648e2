"""The bound of counts: against integrals, and its gradient against differences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from hgplvm._counts import CountRows, NegativeBinomial, Poisson, RateModel
from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.noise import KnownRowNoise
from hgplvm.objectives import (
    BayesianObjective,
    ExactObjective,
    Parameters,
    SparseObjective,
    VecchiaObjective,
)
from hgplvm.objectives.counts import CountObjective

COVARIANCE = CovarianceFunction(Hyperbolic(), Exponential())


def problem(n, g, r, normal, likelihood="poisson"):
    """Cells with counts, rates, and parameters."""
    law = Poisson() if likelihood == "poisson" else NegativeBinomial(0.3 + 0.0 * normal(g))
    model = RateModel(1.0 + 0.3 * normal(g), 0.5 * normal(g, r), law)
    latents = Hyperbolic().from_tangent(0.6 * normal(n, 2))
    rates = model.log_rates_of(torch.zeros(n).double(), normal(n, r), None).exp().numpy()
    counts = law.draw(rates, np.random.RandomState(1)).astype(float)
    rows = CountRows(counts, torch.zeros(n).double())
    logs = {
        name: torch.tensor(math.log(value), dtype=torch.float64)
        for name, value in {"variance": 0.8, "length_scale": 1.1}.items()
    }
    return model, rows, Parameters(latents, logs, tuple(logs))


def inner_of(kind, scores, noise):
    generator = torch.Generator().manual_seed(0)
    n = len(scores)
    if kind == "exact":
        return ExactObjective(scores, COVARIANCE, noise)
    if kind == "vecchia":
        return VecchiaObjective(
            scores, COVARIANCE, noise, n_neighbors=n - 1, neighbor_update=1000, generator=generator
        )
    options = {"n_inducing": n, "inducing_update": 1000, "generator": generator}
    if kind == "bayesian":
        return BayesianObjective(scores, COVARIANCE, noise, n_components=2, **options)
    return SparseObjective(scores, COVARIANCE, noise, **options)


def objective_of(kind, model, rows):
    zero = torch.zeros(len(rows), model.rank, dtype=torch.float64)
    found = model.expectation(rows, zero, zero[:, 0] + 0.5)
    inner = inner_of(kind, found.scores, KnownRowNoise(found.noise))
    return CountObjective(inner, model, rows)


def settled(objective, parameters, model, n=60):
    """Renew pseudo-observations until they stay; shares and dispersions are held."""
    for _ in range(n):
        objective.renew(parameters)
        objective.rates = model
    return objective.value(parameters)


def log_probability(model, rows, parameters):
    """``log ∫ p(y | s) p(s) ds`` for two cells with one score each, on a grid."""
    at = COVARIANCE.at(parameters.values)
    factor = torch.linalg.cholesky(at.gram(parameters.latents, parameters.latents))
    grid = torch.linspace(-6.0, 6.0, 401, dtype=torch.float64)
    zeta = torch.cartesian_prod(grid, grid)
    scores = zeta @ factor.mT
    total = -0.5 * zeta.square().sum(1) - math.log(2 * math.pi) + 2 * math.log(grid[1] - grid[0])
    for n in range(2):
        one = rows.of_rows(torch.full((len(zeta),), n))
        none = torch.zeros(len(zeta)).double()
        total = total + model.expectation(one, scores[:, n : n + 1], none).log_prob
    return float(torch.logsumexp(total, 0)) + model.constant(rows.counts)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_the_bound_is_below_the_log_probability_and_close(likelihood, normal):
    model, rows, parameters = problem(2, 5, 1, normal, likelihood)
    exact = log_probability(model, rows, parameters)
    bound = settled(objective_of("exact", model, rows), parameters, model)
    assert bound <= exact + 1e-3  # sums over three nodes
    assert exact - bound < 0.05


@pytest.mark.parametrize("kind", ["sparse", "vecchia"])
def test_models_that_see_all_rows_have_the_exact_bound(kind, normal):
    model, rows, parameters = problem(8, 10, 2, normal)
    exact = settled(objective_of("exact", model, rows), parameters, model)
    found = settled(objective_of(kind, model, rows), parameters, model)
    assert math.isclose(found, exact, rel_tol=1e-4)


@pytest.mark.parametrize("kind", ["exact", "sparse", "vecchia"])
def test_the_gradient_is_that_of_the_best_bound(kind, normal):
    """Pseudo-observations are held in the gradient, and found anew in the differences."""
    model, rows, parameters = problem(6, 8, 1, normal)
    objective = objective_of(kind, model, rows)
    if kind == "sparse":  # off the latents: the kernel has a cusp there
        objective.inner.draw(parameters)
        inducing = objective.inner.inducing
        objective.inner.inducing = Hyperbolic().displaced(inducing, 0.1 * normal(6, 2))
    settled(objective, parameters, model, 200)
    gradient = objective.evaluate(parameters).gradient
    for _ in range(3):
        direction = normal(len(gradient))
        step = 1e-3
        values = []
        for sign in (1.0, -1.0):
            moved = parameters.moved(Hyperbolic(), sign * step * direction)
            other = objective_of(kind, model, rows)
            if kind == "sparse":  # inducing points are held in the gradient
                other.inner.inducing = objective.inner.inducing
            if kind == "vecchia":
                other.inner.restore(objective.inner.state())
            values.append(settled(other, moved, model, 200))
        expected = (values[0] - values[1]) / (2 * step)
        assert math.isclose(float(direction @ gradient), expected, rel_tol=0.02, abs_tol=0.02)


def test_the_bayesian_bound_averages_over_the_latents(normal):
    model, rows, parameters = problem(6, 8, 2, normal)
    std = torch.full((6, 2), -20.0, dtype=torch.float64)
    logs = {**parameters.logs, "std": std}
    narrow = replace(parameters, logs=logs, free=(*parameters.free, "std"))
    objective = objective_of("bayesian", model, rows)
    points = settled(objective_of("sparse", model, rows), parameters, model)
    objective.inner.draw(narrow)
    value = settled(objective, narrow, model) + objective.inner._divergence(narrow)
    assert math.isclose(value, points, rel_tol=1e-3)
    means, variances = objective.inner.marginals(narrow)
    wide = replace(narrow, logs={**logs, "std": std + 19.0})
    assert (objective.inner.marginals(wide)[1] > variances).all()
    assert means.shape == (6, 2)


def test_renewals_come_less_and_less_often(normal):
    model, rows, parameters = problem(5, 6, 1, normal)
    objective = objective_of("exact", model, rows)
    at = [step for step in range(1, 100) if objective.advance(parameters)]
    assert at == [5, 10, 20, 40, 80]


def test_a_state_that_is_restored_goes_on_the_same(normal):
    model, rows, parameters = problem(5, 6, 1, normal, "negative-binomial")
    first = objective_of("exact", model, rows)
    for _ in range(12):
        first.advance(parameters)
    state = first.state()
    second = objective_of("exact", model, rows)
    second.restore(state)
    for objective in (first, second):
        for _ in range(9):
            objective.advance(parameters)
    assert first.value(parameters) == second.value(parameters)
    assert torch.equal(first.rates.log_share, second.rates.log_share)


def test_shares_and_dispersions_are_learnt(normal):
    model, rows, parameters = problem(60, 20, 2, normal, "negative-binomial")
    off = replace(model, log_share=model.log_share + 1.0)
    objective = objective_of("exact", off, rows)
    before = objective.value(parameters)
    for _ in range(15):
        objective.renew(parameters)
    assert objective.value(parameters) > before + 10.0
    mean, variance = objective.inner.marginals(parameters)
    spread = variance[:, None] * objective.rates.squares
    expected = torch.exp(objective.rates.log_rates(rows, slice(None), mean) + 0.5 * spread)
    # genes in which cells vary much count less in a large cell, so that sums agree on average
    ratio = expected.sum(0).numpy() / rows.counts.sum(0)
    assert abs(np.log(ratio).mean()) < 0.05
    assert ratio.min() > 0.5
    assert ratio.max() < 2.0
