"""Missing entries: every objective against data with further columns, and against the truth."""

import math

import pytest
import torch

from hgplvm.geometry import lorentz
from hgplvm.kernels import Exponential, gram
from hgplvm.objectives import (
    BayesianObjective,
    ExactObjective,
    Parameters,
    SparseObjective,
    VecchiaObjective,
)
from hgplvm.objectives.responses import Imputation

N, D, Q = 30, 6, 2
MODELS = ["exact", "sparse", "bayesian", "vecchia", "vecchia+inducing"]


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def make(kind, data, manifold, **more):
    options = {"noise_floor": 0.01, **more}
    if kind == "exact":
        return ExactObjective(data, manifold, Exponential(), **options)
    if kind.startswith("vecchia"):
        return VecchiaObjective(
            data,
            manifold,
            Exponential(),
            n_neighbors=5,
            neighbor_update=10,
            n_inducing=6 if "inducing" in kind else 0,
            generator=seeded(),
            **options,
        )
    options |= {"n_inducing": 8, "inducing_update": 5, "generator": seeded()}
    if kind == "sparse":
        return SparseObjective(data, manifold, Exponential(), **options)
    return BayesianObjective(
        data,
        manifold,
        Exponential(),
        n_components=Q,
        quadrature="unscented",
        n_samples=5,
        prior_scale=1.0,
        kl="exact",
        warmup=0,
        **options,
    )


def parameters(manifold, normal, kind):
    logs = {
        name: torch.tensor(math.log(value), dtype=torch.float64)
        for name, value in (("variance", 1.3), ("noise", 0.2), ("length_scale", 1.7))
    }
    if kind == "bayesian":
        logs["std"] = 0.1 * normal(N, Q) - 2.0
    return Parameters(manifold.from_tangent(normal(N, Q)), logs, tuple(logs))


@pytest.fixture
def gappy(manifold, normal):
    data, observed = normal(N, D), normal(N, D) > -0.5
    observed[:4] = True
    imputation = Imputation(data, observed, manifold, Exponential())
    imputation.spread = 0.1 + normal(N).square()
    return imputation


@pytest.mark.parametrize("kind", MODELS)
def test_unseen_variance_acts_like_one_more_column_a_row(kind, manifold, gappy, normal):
    """``YYᵀ + diag(u)`` is ``[Y, diag √u][Y, diag √u]ᵀ``, with D still the number of columns."""
    here = parameters(manifold, normal, kind)
    ours = make(kind, gappy.data, manifold, imputation=gappy)
    wide = torch.cat([gappy.data, torch.diag(gappy.unseen.sqrt())], dim=1)
    theirs = make(kind, wide, manifold)
    theirs.n_columns = theirs.responses.n_columns = D  # the density is that of D columns
    a, b = ours.evaluate(here), theirs.evaluate(here)
    assert a.value == pytest.approx(b.value + gappy.entropy, rel=1e-10)
    assert ours.value(here) == pytest.approx(a.value, rel=1e-12)
    assert torch.allclose(a.gradient, b.gradient, rtol=1e-8, atol=1e-8)


def joint(manifold, x):
    covariance = gram(Exponential(), manifold, x, x, variance=1.3, length_scale=1.7)
    return covariance + 0.21 * torch.eye(len(x), dtype=torch.float64)


def observed_log_likelihood(data, observed, covariance):
    """Every column's own marginal: the exact answer that a bound must not exceed."""
    total = 0.0
    for d in range(data.shape[1]):
        rows = observed[:, d]
        density = torch.distributions.MultivariateNormal(
            torch.zeros(int(rows.sum()), dtype=torch.float64), covariance[rows][:, rows]
        )
        total += density.log_prob(data[rows, d]).item()
    return total


def drawn(manifold, normal):
    here = parameters(manifold, normal, "exact")
    covariance = joint(manifold, here.latents)
    data = torch.linalg.cholesky(covariance) @ normal(N, D)
    observed = normal(N, D) > -0.5
    return here, covariance, data, observed


def test_the_value_is_a_tight_lower_bound_of_what_is_observed(manifold, normal):
    here, covariance, data, observed = drawn(manifold, normal)
    truth = observed_log_likelihood(data, observed, covariance)
    imputation = Imputation(data * observed, observed, manifold, Exponential())
    objective = make("exact", data * observed, manifold, imputation=imputation)
    loose = objective.value(here)
    objective.responses.begin(here, 0.21)
    tight = objective.value(here)
    assert loose < tight <= truth
    assert truth - tight < 0.15 * (truth - loose)
    assert objective.n_entries == int(observed.sum())


def test_gaps_get_their_conditional_means(manifold, normal, monkeypatch):
    """With all others as neighbours: the mean given everything observed in the column."""
    monkeypatch.setattr("hgplvm.objectives.responses.NEIGHBORS", N - 1)
    here, covariance, data, observed = drawn(manifold, normal)
    imputation = Imputation(data * observed, observed, manifold, Exponential())
    imputation.update(here, 0.21, 60)
    for d in range(D):
        rows, gaps = observed[:, d], ~observed[:, d]
        weights = torch.linalg.solve(covariance[rows][:, rows], covariance[rows][:, gaps])
        expected = weights.mT @ data[rows, d]
        inside = expected.clamp(data[rows, d].min(), data[rows, d].max())
        assert torch.allclose(imputation.data[gaps, d], inside, atol=1e-6)
    assert torch.equal(imputation.data[observed], data[observed])
    # the variance of one row given all others
    exact = 1.0 / torch.linalg.inv(covariance).diagonal()
    gappy = imputation.missing > 0
    assert torch.allclose(imputation.spread[gappy], exact[gappy], rtol=1e-8)


@pytest.mark.parametrize("kind", MODELS)
def test_updates_come_with_the_steps_and_are_told(kind, manifold, normal):
    here = parameters(manifold, normal, kind)
    data, observed = normal(N, D), normal(N, D) > -0.5
    imputation = Imputation(data * observed, observed, manifold, Exponential())
    objective = make(kind, data * observed, manifold, imputation=imputation)
    objective.evaluate(here)
    told = [objective.advance(here) for _ in range(10)]
    assert told[-1]
    assert not torch.equal(imputation.data, data * observed)
    fresh = make(kind, imputation.data, manifold, imputation=imputation)
    for name in ("inducing", "groups", "order"):
        if hasattr(objective, name):
            setattr(fresh, name, getattr(objective, name))
    if kind.startswith("vecchia"):
        fresh.regroup()
    assert objective.value(here) == pytest.approx(fresh.value(here), rel=1e-12)


def test_complete_data_are_left_alone(normal):
    data = normal(N, D)
    objective = ExactObjective(data, lorentz, Exponential())
    here = parameters(lorentz, normal, "exact")
    objective.responses.begin(here, 0.2)
    assert not any(objective.advance(here) for _ in range(20))
    assert objective.responses.unseen is None
    assert torch.equal(objective.responses.data, data)
