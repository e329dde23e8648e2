"""Missing entries: every objective against data with further columns, and against the truth."""

import math

import pytest
import torch

from hgplvm.kernels import Exponential
from hgplvm.noise import UniformNoise
from hgplvm.objectives import (
    BayesianObjective,
    ExactObjective,
    Parameters,
    SparseObjective,
    VecchiaObjective,
)
from hgplvm.objectives.responses import Imputation
from tests.gp import gram, on

N, D, Q = 30, 6, 2
MODELS = ["exact", "sparse", "bayesian", "vecchia", "vecchia+inducing"]


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def make(kind, data, manifold, **more):
    options, noise = dict(more), UniformNoise(0.01)
    if kind == "exact":
        return ExactObjective(data, on(manifold), noise, **options)
    if kind.startswith("vecchia"):
        return VecchiaObjective(
            data,
            on(manifold),
            noise,
            n_neighbors=5,
            neighbor_update=10,
            n_inducing=6 if "inducing" in kind else 0,
            generator=seeded(),
            **options,
        )
    options |= {"n_inducing": 8, "inducing_update": 5, "generator": seeded()}
    if kind == "sparse":
        return SparseObjective(data, on(manifold), noise, **options)
    return BayesianObjective(
        data,
        on(manifold),
        noise,
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
def gappy(normal):
    data, observed = normal(N, D), normal(N, D) > -0.5
    observed[:4] = True
    return Imputation(data, observed, 0.1 + normal(N).square())


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


def best(data, observed, covariance):
    """Means given all that is observed, and the variance of each row given all others."""
    filled = data * observed
    for d in range(D):
        rows, gaps = observed[:, d], ~observed[:, d]
        weights = torch.linalg.solve(covariance[rows][:, rows], covariance[rows][:, gaps])
        filled[gaps, d] = weights.mT @ data[rows, d]
    return Imputation(filled, observed, 1.0 / torch.linalg.inv(covariance).diagonal())


def test_the_value_is_a_lower_bound_of_what_is_observed(manifold, normal):
    here, covariance, data, observed = drawn(manifold, normal)
    truth = observed_log_likelihood(data, observed, covariance)
    poor = Imputation(data * observed, observed, torch.ones(N).double())
    good = best(data, observed, covariance)
    loose, tight = (
        make("exact", guess.data, manifold, imputation=guess).value(here) for guess in (poor, good)
    )
    assert loose < tight <= truth
    assert truth - tight < 0.15 * (truth - loose)


def test_the_bound_is_highest_at_the_conditional_means_and_variances(manifold, normal):
    here, covariance, data, observed = drawn(manifold, normal)
    good = best(data, observed, covariance)
    top = make("exact", good.data, manifold, imputation=good).value(here)
    for change in (-0.05, 0.05):
        moved = torch.where(observed, good.data, good.data + change)
        for other in (
            Imputation(moved, observed, good.row_variance),
            Imputation(good.data, observed, good.row_variance * (1.0 + change)),
        ):
            assert make("exact", other.data, manifold, imputation=other).value(here) < top


def test_only_what_is_observed_counts_as_an_entry(manifold, gappy):
    for kind in MODELS:
        objective = make(kind, gappy.data, manifold, imputation=gappy)
        assert objective.n_entries == int(gappy.observed.sum())


def test_further_columns_hold_the_expected_distances(gappy, monkeypatch):
    expected = torch.cdist(gappy.data, gappy.data).square()
    expected += gappy.unseen[:, None] + gappy.unseen
    expected.fill_diagonal_(0.0)
    exact = torch.cdist(gappy.columns(), gappy.columns()).square()
    assert torch.allclose(exact, expected, atol=1e-9)
    monkeypatch.setattr("hgplvm.objectives.responses.DIAGONAL_ROWS", N - 1)
    monkeypatch.setattr("hgplvm.objectives.responses.SKETCH", 4096)
    near = torch.cdist(gappy.columns(), gappy.columns()).square()
    assert near.shape == expected.shape
    assert (near - expected).abs().max() < 0.1 * expected.max()


def test_units_and_rows(gappy):
    twice = gappy.scaled(2.0)
    assert torch.allclose(twice.unseen, 4.0 * gappy.unseen)
    assert torch.allclose(twice.columns(), 2.0 * gappy.columns())
    rows = torch.tensor([5, 2])
    assert torch.equal(gappy.of_rows(rows).unseen, gappy.unseen[rows])
