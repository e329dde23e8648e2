"""What every objective must satisfy, with every kernel, manifold and noise.

A new kernel or manifold joins the lists in `spaces.py`; a new objective joins `OBJECTIVES` below.
"""

from __future__ import annotations

import math

import pytest
import torch

from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.noise import LearntRowNoise, RowNoise, UniformNoise
from hgplvm.objectives import (
    BayesianObjective,
    ExactObjective,
    Parameters,
    SparseObjective,
    VecchiaObjective,
)
from hgplvm.objectives.responses import Imputation

from .spaces import PAIRS

N, D, Q = 14, 3, 2


def exact(data, covariance, noise, imputation=None, effects=None):
    return ExactObjective(data, covariance, noise, imputation=imputation, effects=effects)


def collapsed(kind, **options):
    def make(data, covariance, noise, imputation=None, effects=None):
        return kind(
            data,
            covariance,
            noise,
            n_inducing=6,
            inducing_update=100,
            generator=torch.Generator().manual_seed(1),
            imputation=imputation,
            effects=effects,
            **options,
        )

    return make


def vecchia(n_inducing):
    def make(data, covariance, noise, imputation=None, effects=None):
        return VecchiaObjective(
            data,
            covariance,
            noise,
            n_neighbors=5,
            neighbor_update=100,
            n_inducing=n_inducing,
            generator=torch.Generator().manual_seed(1),
            imputation=imputation,
            effects=effects,
        )

    return make


OBJECTIVES = {
    "exact": exact,
    "sparse": collapsed(SparseObjective),
    "bayesian": collapsed(BayesianObjective, n_components=Q),
    "vecchia": vecchia(0),
    "vecchia-inducing": vecchia(4),
}


def start(covariance, normal, *, std: bool) -> Parameters:
    latents = covariance.manifold.from_tangent(0.7 * normal(N, Q))
    values = {"variance": 1.3, "length_scale": 0.9, "noise": 0.2}
    values |= {name: 1.2 * value for name, value in covariance.shape.items()}
    logs = {k: torch.tensor(math.log(v), dtype=torch.float64) for k, v in values.items()}
    if std:
        logs["std"] = torch.full((N, Q), math.log(0.1), dtype=torch.float64)
    return Parameters(latents, logs, tuple(logs))


def check_gradient(objective, parameters, normal):
    """Against central differences along random directions, and along each parameter."""
    objective.advance(parameters)  # the first step: standard deviations wait for it
    if hasattr(objective, "draw"):
        objective.draw(parameters)
        # off the rows that they were drawn from: the kernel has a cusp there
        inducing = objective.inducing
        objective.inducing = objective.manifold.displaced(inducing, 0.1 * normal(len(inducing), Q))
    here = objective.evaluate(parameters)
    assert here.finite
    assert math.isclose(here.value, objective.value(parameters), rel_tol=1e-9)
    n = here.gradient.numel()
    n_logs = sum(parameters.logs[k].numel() for k in parameters.free if k != "std")
    directions = [normal(n) for _ in range(3)]
    directions += [torch.eye(n, dtype=torch.float64)[N * Q + i] for i in range(n_logs)]
    step = 1e-5
    for direction in directions:
        ahead, behind = (
            objective.value(parameters.moved(objective.manifold, sign * step * direction))
            for sign in (1.0, -1.0)
        )
        expected = (ahead - behind) / (2.0 * step)
        found = torch.dot(direction, here.gradient).item()
        assert math.isclose(found, expected, rel_tol=2e-5, abs_tol=2e-5 * n**0.5)


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_agree_with_differences(objective, kernel, manifold, normal):
    covariance = CovarianceFunction(manifold, kernel)
    parameters = start(covariance, normal, std=objective == "bayesian")
    made = OBJECTIVES[objective](normal(N, D), covariance, UniformNoise(0.05))
    check_gradient(made, parameters, normal)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("manifold", [Hyperbolic(), Flat()], ids=lambda m: m.name)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_with_noise_that_differs_between_rows(objective, manifold, missing, normal):
    covariance = CovarianceFunction(manifold, Exponential())
    parameters = start(covariance, normal, std=objective == "bayesian")
    data = normal(N, D)
    noise = RowNoise(normal(N).exp(), 0.05)
    imputation = None
    if missing:
        observed = normal(N, D) > -0.5
        imputation = Imputation(data, observed, 0.1 + normal(N).square())
    check_gradient(OBJECTIVES[objective](data, covariance, noise, imputation), parameters, normal)


def learnt_noise(normal):
    inflation = 1.0 + (normal(N) > 1.0).double()
    return LearntRowNoise(
        0.3 * normal(N).exp(), inflation, 4.0 * normal(N).exp(), 5.0 + normal(N).abs()
    )


@pytest.mark.parametrize("manifold", [Hyperbolic(), Flat()], ids=lambda m: m.name)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_with_noise_that_is_learnt_for_each_row(objective, manifold, normal):
    covariance = CovarianceFunction(manifold, Exponential())
    noise = learnt_noise(normal)
    parameters = noise.begun(start(covariance, normal, std=objective == "bayesian"))
    assert "noise" not in parameters.logs
    assert parameters.logs["row_noise"].shape == (N,)
    check_gradient(OBJECTIVES[objective](normal(N, D), covariance, noise), parameters, normal)


def test_learnt_noise_is_that_of_the_entries_beyond_the_signal_too(normal):
    """The objective of the scores is the log density of whole rows, written out."""
    covariance, n_columns = CovarianceFunction(Hyperbolic(), Exponential()), 7
    rows = normal(N, n_columns)
    axes = torch.linalg.qr(normal(n_columns, D)).Q
    scores = rows @ axes
    squares = (rows - scores @ axes.mT).square().sum(1)
    counts = torch.full((N,), float(n_columns - D), dtype=torch.float64)
    noise = LearntRowNoise(0.3 * normal(N).exp(), torch.ones(N).double(), squares, counts)
    parameters = noise.begun(start(covariance, normal, std=False))
    own = noise.variances(parameters).diag()
    gram = covariance.at(parameters.values).gram(parameters.latents, parameters.latents)
    # entries (n, d) of all rows at once: Σ_r K v_r v_rᵀ + A I
    whole = torch.kron(gram, axes @ axes.mT) + torch.kron(own, torch.eye(n_columns).double())
    expected = torch.distributions.MultivariateNormal(torch.zeros(len(whole)).double(), whole)
    found = exact(scores, covariance, noise)
    assert math.isclose(found.value(parameters), expected.log_prob(rows.flatten()), rel_tol=1e-9)
    assert found.n_entries == N * n_columns


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_factors_are_uniform_noise(objective, normal):
    covariance = CovarianceFunction(Hyperbolic(), Exponential())
    parameters = start(covariance, normal, std=objective == "bayesian")
    data = normal(N, D)
    found = [
        OBJECTIVES[objective](data, covariance, noise).evaluate(parameters)
        for noise in (UniformNoise(0.05), RowNoise(torch.ones(N, dtype=torch.float64), 0.05))
    ]
    assert math.isclose(found[0].value, found[1].value, rel_tol=1e-12)
    assert torch.allclose(found[0].gradient, found[1].gradient, rtol=1e-9, atol=1e-9)


def brute_force(data, parameters, covariance, noise):
    """Log density of the columns, written out."""
    x = parameters.latents
    at = covariance.at(parameters.values)
    d = covariance.manifold.pairwise_distance(x)
    matrix = at.variance * at.correlation(d) + torch.diag(noise.variances(parameters).expand(N))
    normal = torch.distributions.MultivariateNormal(torch.zeros(N).double(), matrix)
    return normal.log_prob(data.mT).sum().item()


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_the_exact_value_is_the_density_of_a_normal(kernel, manifold, normal):
    covariance = CovarianceFunction(manifold, kernel)
    parameters = start(covariance, normal, std=False)
    data, noise = normal(N, D), RowNoise(normal(N).exp())
    value = ExactObjective(data, covariance, noise).value(parameters)
    assert math.isclose(value, brute_force(data, parameters, covariance, noise), rel_tol=1e-10)


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_neighbours_that_are_all_rows_make_the_exact_likelihood(kernel, manifold, normal):
    covariance = CovarianceFunction(manifold, kernel)
    parameters = start(covariance, normal, std=False)
    data, noise = normal(N, D), RowNoise(normal(N).exp())
    found = VecchiaObjective(
        data,
        covariance,
        noise,
        n_neighbors=N - 1,
        neighbor_update=1,
        generator=torch.Generator().manual_seed(0),
    ).evaluate(parameters)
    expected = ExactObjective(data, covariance, noise).evaluate(parameters)
    assert math.isclose(found.value, expected.value, rel_tol=1e-9)
    assert torch.allclose(found.gradient, expected.gradient, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_inducing_points_that_are_all_rows_make_the_exact_likelihood(kernel, manifold, normal):
    covariance = CovarianceFunction(manifold, kernel)
    parameters = start(covariance, normal, std=False)
    data, noise = normal(N, D), RowNoise(normal(N).exp())
    bound = SparseObjective(
        data,
        covariance,
        noise,
        n_inducing=N,
        inducing_update=1,
        generator=torch.Generator().manual_seed(0),
    ).value(parameters)
    exact_value = ExactObjective(data, covariance, noise).value(parameters)
    assert bound <= exact_value + 1e-6
    assert math.isclose(bound, exact_value, rel_tol=1e-4)
