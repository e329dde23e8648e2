"""Covariates in every objective: batches in the covariance, and linear effects."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from hgplvm._batches import BatchFunction
from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential, Matern32
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.manifolds._tagged import Tagged
from hgplvm.noise import RowNoise, UniformNoise
from hgplvm.objectives import ExactObjective, SparseObjective, VecchiaObjective
from hgplvm.objectives.effects import LinearEffects
from hgplvm.objectives.responses import Imputation

from .test_objectives import OBJECTIVES, D, N, check_gradient, start

BASES = pytest.mark.parametrize("base", [Hyperbolic(), Flat()], ids=lambda m: m.name)


def indicators(n_levels):
    return torch.eye(n_levels, dtype=torch.float64)[torch.arange(N) % n_levels]


def tags():
    """Three batches, and two donors."""
    donor = (torch.arange(N) > N // 2).long()
    return torch.cat([indicators(3), torch.eye(2, dtype=torch.float64)[donor]], dim=1)


def design(normal):
    batch = indicators(3)
    return torch.cat([batch - batch.mean(0), normal(N, 1)], dim=1)


def with_covariates(base, normal, *, std=False, kernel=None):
    """Covariance, effects and parameters of a small problem with all kinds of covariates."""
    space = Tagged(base, 5)
    covariance = BatchFunction(space, kernel or Exponential(), (3, 2))
    effects = LinearEffects(design(normal), (3, 1))
    parameters = start(CovarianceFunction(base, kernel or Exponential()), normal, std=std)
    logs = dict(parameters.logs)
    more = {**covariance.shape, "effect.0": 0.7, "effect.1": 0.4}
    logs |= {k: torch.tensor(math.log(v), dtype=torch.float64) for k, v in more.items()}
    latents = space.tagged(parameters.latents, tags())
    free = (*(k for k in logs if k != "std"), *(["std"] if std else []))
    return covariance, effects, replace(parameters, latents=latents, logs=logs, free=free)


def written_out(covariance, effects, parameters, noise):
    """``σ ρ∘R + Σ_c γ_c W_c W_cᵀ + A``, by its definition."""
    values, x = parameters.values, covariance.manifold.bare(parameters.latents)
    matrix = CovarianceFunction(covariance.manifold.base, covariance.kernel).at(values).gram(x, x)
    for place, part in enumerate((tags()[:, :3], tags()[:, 3:])):
        odds = values[f"batch_odds.{place}"]
        share = odds / (1.0 + odds)
        matrix = matrix * (1.0 - share + share * (part @ part.mT))
    w = effects.design
    linear = values["effect.0"] * w[:, :3] @ w[:, :3].mT
    linear += values["effect.1"] * w[:, 3:] @ w[:, 3:].mT
    return matrix, linear, torch.diag(noise.variances(parameters).expand(N))


@BASES
@pytest.mark.parametrize("per_row", [False, True], ids=["uniform", "rows"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_agree_with_differences(objective, base, per_row, normal):
    covariance, effects, parameters = with_covariates(base, normal, std=objective == "bayesian")
    noise = RowNoise(normal(N).exp(), 0.05) if per_row else UniformNoise(0.05)
    made = OBJECTIVES[objective](normal(N, D), covariance, noise, effects=effects)
    check_gradient(made, parameters, normal)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_with_missing_entries_and_a_smooth_kernel(objective, normal):
    covariance, effects, parameters = with_covariates(
        Hyperbolic(), normal, std=objective == "bayesian", kernel=Matern32()
    )
    data = normal(N, D)
    imputation = Imputation(data, normal(N, D) > -0.5, 0.1 + normal(N).square())
    made = OBJECTIVES[objective](data, covariance, UniformNoise(0.05), imputation, effects)
    check_gradient(made, parameters, normal)


@BASES
def test_the_exact_value_is_the_density_of_a_normal(base, normal):
    covariance, effects, parameters = with_covariates(base, normal)
    noise, data = RowNoise(normal(N).exp()), normal(N, D)
    matrix = sum(written_out(covariance, effects, parameters, noise))
    law = torch.distributions.MultivariateNormal(torch.zeros(N).double(), matrix)
    found = ExactObjective(data, covariance, noise, effects=effects).value(parameters)
    assert math.isclose(found, law.log_prob(data.mT).sum().item(), rel_tol=1e-10)


@pytest.mark.parametrize("n_inducing", [0, 4])
def test_neighbours_that_are_all_rows_make_the_exact_likelihood(n_inducing, normal):
    covariance, effects, parameters = with_covariates(Hyperbolic(), normal)
    noise, data = RowNoise(normal(N).exp()), normal(N, D)
    exact = ExactObjective(data, covariance, noise, effects=effects)
    near = VecchiaObjective(
        data,
        covariance,
        noise,
        n_neighbors=N - 1,
        n_inducing=n_inducing,
        neighbor_update=1,
        generator=torch.Generator().manual_seed(0),
        effects=effects,
    )
    a, b = exact.evaluate(parameters), near.evaluate(parameters)
    assert math.isclose(a.value, b.value, rel_tol=1e-8)
    if not n_inducing:  # inducing points are held fixed in the gradient
        assert torch.allclose(a.gradient, b.gradient, rtol=1e-5, atol=1e-6)


def posteriors(covariance, effects, parameters, noise, data):
    """Mean and covariance of rows without noise, and of β, by conditioning written out."""
    matrix, linear, diagonal = written_out(covariance, effects, parameters, noise)
    whole = torch.linalg.inv(matrix + linear + diagonal)
    signal = matrix + linear
    values, w = parameters.values, effects.design
    gamma = torch.diag(torch.tensor([values["effect.0"]] * 3 + [values["effect.1"]]).double())
    cross = gamma @ w.mT
    return (
        signal @ whole @ data,
        (signal - signal @ whole @ signal).diagonal(),
        cross @ whole @ data,
        gamma - cross @ whole @ cross.mT,
    )


def all_rows(kind, data, covariance, noise, effects):
    """Objectives that are the exact one, since they see all rows."""
    if kind == "exact":
        return ExactObjective(data, covariance, noise, effects=effects)
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "effects": effects}
    if kind == "sparse":
        return SparseObjective(data, covariance, noise, n_inducing=N, inducing_update=1, **options)
    return VecchiaObjective(
        data, covariance, noise, n_neighbors=N - 1, neighbor_update=1, **options
    )


@pytest.mark.parametrize("kind", ["exact", "sparse", "vecchia"])
def test_posteriors_of_rows_and_effects(kind, normal):
    covariance, effects, parameters = with_covariates(Hyperbolic(), normal)
    noise, data = RowNoise(normal(N).exp()), normal(N, D)
    objective = all_rows(kind, data, covariance, noise, effects)
    objective.value(parameters)
    mean, variance, beta, beta_covariance = posteriors(covariance, effects, parameters, noise, data)
    found = objective.effects_posterior(parameters, data)
    assert torch.allclose(found.mean, beta, atol=1e-5)
    assert torch.allclose(found.covariance, beta_covariance, atol=1e-5)
    rows, spread = objective.marginals(parameters)
    assert torch.allclose(rows, mean, atol=1e-5)
    if kind == "vecchia":  # effects at their means: what they add to the variance is missing
        assert (spread <= variance + 1e-6).all()
    else:
        assert torch.allclose(spread, variance, atol=1e-5)


def test_rows_without_their_effects_predict_the_same_function(normal):
    """``K (K + A)⁻¹ (Y - Wβ̂) = K C⁻¹ Y``."""
    covariance, effects, parameters = with_covariates(Hyperbolic(), normal)
    noise, data = RowNoise(normal(N).exp()), normal(N, D)
    matrix, linear, diagonal = written_out(covariance, effects, parameters, noise)
    objective = ExactObjective(data, covariance, noise, effects=effects)
    objective.without_effects(parameters, data)
    found = objective.marginals(parameters)[0]
    expected = matrix @ torch.linalg.inv(matrix + linear + diagonal) @ data
    assert torch.allclose(found, expected, atol=1e-9)


def test_functions_of_batches_have_their_mean(normal):
    """Tags that are shares stand for the mean of the batches' functions."""
    covariance, _, parameters = with_covariates(Hyperbolic(), normal)
    at = covariance.at(parameters.values)
    space, x = covariance.manifold, parameters.latents
    z = space.bare(x[:4])
    each = [at.gram(space.tagged(z, tag), x) for tag in tags()[[0, 1, 2]]]
    mean = tags()[[0, 1, 2]].mean(0)
    # all three are of one donor, so that the factor of the donors is the same
    assert torch.allclose(at.gram(space.tagged(z, mean), x), sum(each) / 3.0)
    own = at.gram(space.tagged(z, mean), space.tagged(z, mean)).diagonal()
    assert torch.allclose(own, torch.full_like(own, at.at_tags(mean)))
