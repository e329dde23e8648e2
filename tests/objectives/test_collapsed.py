"""The collapsed bound, and the sparse and Bayesian objectives over it."""

import math

import pytest
import torch

from hgplvm.kernels import Exponential
from hgplvm.manifolds import wrapped_normal
from hgplvm.noise import UniformNoise
from hgplvm.objectives import (
    BayesianObjective,
    ExactObjective,
    Parameters,
    SparseObjective,
)
from hgplvm.objectives.bound import Statistics, collapsed_bound
from tests.gp import NOISE, gram, on
from tests.memory import peak_bytes

FREE = ("variance", "noise", "length_scale")
QUADRATURES = ["unscented", "gauss-hermite", "monte-carlo"]


@pytest.fixture(params=[1, 2, 3], ids="Q={}".format)
def q(request):
    return request.param


def parameters(latents, std=None):
    values = {"variance": 1.3, "noise": 0.4, "length_scale": 1.7}
    logs = {name: latents.new_tensor(math.log(value)) for name, value in values.items()}
    if std is None:
        return Parameters(latents, logs, FREE)
    return Parameters(latents, {**logs, "std": std.log()}, (*FREE, "std"))


def sparse(data, manifold, inducing, **options):
    options = {"inducing_update": 1, "generator": torch.Generator().manual_seed(0), **options}
    noise = UniformNoise(options.pop("noise_floor", 0.0))
    objective = SparseObjective(data, on(manifold), noise, n_inducing=len(inducing), **options)
    objective.inducing = inducing
    return objective


def bayesian(data, manifold, inducing, q, **options):
    options = {"inducing_update": 1, "generator": torch.Generator().manual_seed(0), **options}
    objective = BayesianObjective(
        data, on(manifold), NOISE, n_components=q, n_inducing=len(inducing), **options
    )
    objective.inducing = inducing
    objective._n_steps = 1  # past the warm-up
    return objective


def problem(manifold, q, normal, n=15, d=4, m=6):
    return normal(n, d), manifold.from_tangent(normal(n, q)), manifold.from_tangent(normal(m, q))


# --- the bound ----------------------------------------------------------------------------------


def dense_bound(kmm, knm, data, beta):
    """log N(Y | 0, Q + β⁻¹I) - β/2 D tr(K - Q), by definition, differentiable."""
    q = knm @ torch.linalg.solve(kmm, knm.mT)
    law = torch.distributions.MultivariateNormal(
        torch.zeros(len(data), dtype=data.dtype), q + torch.eye(len(data)).double() / beta
    )
    return law.log_prob(data.mT).sum(), q


def test_bound_equals_its_definition_and_its_derivatives_those_of_autograd(normal):
    n, d, m = 12, 3, 5
    data, psi1 = normal(n, d), normal(n, m)
    root = normal(m, m)
    kmm = root @ root.mT + torch.eye(m)
    extra = 0.1 * normal(m, m)
    psi2 = psi1.mT @ psi1 + extra @ extra.mT  # as for a Bayesian model: more than Ψ₁ᵀΨ₁
    leaves = [t.clone().requires_grad_() for t in (psi1, psi2, kmm)]
    psi0, beta = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (40.0, 2.5))
    p1, p2, k = leaves
    a = k + beta * p2
    projection = p1.mT @ data
    value = (
        0.5 * n * d * (beta.log() - math.log(2 * math.pi))
        - 0.5 * d * (torch.logdet(a) - torch.logdet(k))
        - 0.5 * beta * data.square().sum()
        + 0.5 * beta**2 * (projection * torch.linalg.solve(a, projection)).sum()
        - 0.5 * beta * d * (psi0 - torch.linalg.solve(k, p2).diagonal().sum())
    )
    value.backward()
    # all statistics hold the precision β
    squares, log_precision = 2.5 * data.square().sum().item(), n * math.log(2.5)
    statistics = Statistics(
        n, d, log_precision, 2.5 * 40.0, 2.5 * psi2, 2.5 * psi1.mT @ data, squares
    )
    ours = collapsed_bound(kmm, statistics)
    assert ours.value == pytest.approx(value.item(), rel=1e-10)
    assert torch.allclose(2.5 * data @ ours.weights.mT, p1.grad, rtol=1e-8, atol=1e-9)
    for mine, leaf in ((2.5 * ours.psi2, p2), (ours.gram, k)):
        symmetric = 0.5 * (leaf.grad + leaf.grad.mT)
        assert torch.allclose(mine, symmetric, rtol=1e-8, atol=1e-9)
    assert 2.5 * ours.psi0 == pytest.approx(psi0.grad.item(), rel=1e-10)
    assert ours.log_precision == pytest.approx(2.5 * beta.grad.item(), rel=1e-8)


def test_sparse_value_equals_the_dense_definition(manifold, q, normal):
    data, x, z = problem(manifold, q, normal)
    hyper = {"variance": 1.3, "length_scale": 1.7}
    kmm = gram(Exponential(), manifold, z, z, **hyper)
    knm = gram(Exponential(), manifold, x, z, **hyper)
    value, captured = dense_bound(kmm, knm, data, 2.5)
    missed = 15 * 1.3 - captured.diagonal().sum()
    expected = (value - 0.5 * 2.5 * 4 * missed).item()
    ours = sparse(data, manifold, z).value(parameters(x))
    assert ours == pytest.approx(expected, rel=1e-6)


def test_the_bound_stays_below_the_likelihood_and_meets_it_where_all_rows_induce(
    manifold, q, normal
):
    data, x, z = problem(manifold, q, normal)
    exact = ExactObjective(data, on(manifold), NOISE).value(parameters(x))
    assert sparse(data, manifold, z).value(parameters(x)) < exact
    assert sparse(data, manifold, x).value(parameters(x)) == pytest.approx(exact, abs=1e-6)
    for m in (3, 8, 14):
        assert sparse(data, manifold, x[:m]).value(parameters(x)) < exact


def test_the_bayesian_bound_is_the_sparse_one_less_kl_as_deviations_vanish(manifold, normal):
    data, x, z = problem(manifold, 2, normal)
    std = torch.full((15, 2), 1e-7, dtype=torch.float64)
    objective = bayesian(data, manifold, z, 2)
    p = parameters(x, std)
    kl = wrapped_normal.kl_to_prior(manifold, x, std, 1.0).sum().item()
    expected = sparse(data, manifold, z).value(parameters(x)) - kl
    assert objective.value(p) == pytest.approx(expected, rel=1e-6)


# --- gradients ----------------------------------------------------------------------------------


def finite_differences(objective, p, manifold, size=1e-5):
    numeric = torch.zeros_like(objective.evaluate(p).gradient)
    for i in range(len(numeric)):
        step = torch.zeros_like(numeric)
        step[i] = size
        up, down = (objective.value(p.moved(manifold, s)) for s in (step, -step))
        numeric[i] = (up - down) / (2 * size)
    return numeric


def agree(objective, p, manifold):
    evaluation = objective.evaluate(p)
    assert evaluation.value == pytest.approx(objective.value(p), rel=1e-10)
    numeric = finite_differences(objective, p, manifold)
    error = (evaluation.gradient - numeric).abs().max() / numeric.abs().max()
    assert error < 1e-6


def test_sparse_gradient_agrees_with_finite_differences(manifold, q, normal):
    data, x, z = problem(manifold, q, normal)
    agree(sparse(data, manifold, z, noise_floor=0.1), parameters(x), manifold)


def test_sparse_gradient_agrees_with_autograd(manifold, q, normal):
    data, x, z = problem(manifold, q, normal)
    frame = torch.zeros(15, q, dtype=torch.float64, requires_grad=True)
    logs = [v.clone().requires_grad_() for v in parameters(x).logs.values()]
    variance, noise, length_scale = (v.exp() for v in logs)
    moved = manifold.exp_map(x, manifold.from_frame(x, frame))
    kmm = variance * torch.exp(-manifold.pairwise_distance(z) / length_scale)
    knm = variance * torch.exp(-manifold.pairwise_distance(moved, z) / length_scale)
    value, captured = dense_bound(kmm, knm, data, 1 / noise)
    (value - 0.5 / noise * 4 * (15 * variance - captured.diagonal().sum())).backward()
    expected = torch.cat([frame.grad.reshape(-1), *(v.grad.reshape(1) for v in logs)])
    ours = sparse(data, manifold, z).evaluate(parameters(x)).gradient
    assert (ours - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("quadrature", QUADRATURES)
@pytest.mark.parametrize("kl", ["exact", "paper"])
def test_bayesian_gradient_agrees_with_finite_differences(manifold, q, quadrature, kl, normal):
    data, x, z = problem(manifold, q, normal)
    std = 0.3 * torch.exp(0.3 * normal(15, q))
    objective = bayesian(data, manifold, z, q, quadrature=quadrature, kl=kl, prior_scale=1.3)
    agree(objective, parameters(x, std), manifold)


def test_awkward_latents_give_finite_gradients(manifold, normal):
    data, x, _ = problem(manifold, 2, normal)
    x[3], x[4] = x[5], manifold.origin(2)
    z = x[[3, 5, 4, 4, 0]]  # inducing points on latents, and on each other
    assert sparse(data, manifold, z).evaluate(parameters(x)).finite
    for std in (1e-9, 1.0):
        deviations = torch.full((15, 2), std, dtype=torch.float64)
        assert bayesian(data, manifold, z, 2).evaluate(parameters(x, deviations)).finite


# --- Ψ statistics -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quadrature", "tolerance"), [("unscented", 0.02), ("gauss-hermite", 0.02)]
)
def test_psi_statistics_agree_with_a_million_samples(manifold, quadrature, tolerance, normal):
    data, x, z = problem(manifold, 2, normal, n=1, d=1, m=4)
    std = torch.tensor([[0.15, 0.25]], dtype=torch.float64)
    p = parameters(x, std)
    objective = bayesian(data, manifold, z, 2, quadrature=quadrature)
    rule = objective.statistics(p, objective.data)
    samples = wrapped_normal.sample(
        manifold, x[0], std[0], 1_000_000, generator=torch.Generator().manual_seed(1)
    )
    k = gram(Exponential(), manifold, samples, z, variance=1.3, length_scale=1.7)
    psi2 = k.mT @ k / len(k)
    projection = k.mean(0)[:, None] * data
    beta = 1.0 / p.positive("noise")  # every statistic holds it
    assert (rule.psi2 / beta - psi2).abs().max() <= tolerance * psi2.abs().max()
    assert (rule.projection / beta - projection).abs().max() <= tolerance * projection.abs().max()
    assert rule.psi0 / beta == pytest.approx(1.3)


def test_monte_carlo_is_right_on_average(manifold, normal):
    data, x, z = problem(manifold, 2, normal, n=2, d=2, m=4)
    p = parameters(x, torch.full((2, 2), 0.3, dtype=torch.float64))
    fine = bayesian(data, manifold, z, 2, quadrature="gauss-hermite")
    fine._zeta, fine._weights = wrapped_normal.gauss_hermite(2, 25, like=data)
    coarse = bayesian(data, manifold, z, 2, quadrature="monte-carlo", n_samples=20_000)
    rough, smooth = (rule.statistics(p, rule.data).psi2 for rule in (coarse, fine))
    assert (rough - smooth).abs().max() < 0.01 * smooth.abs().max()


# --- chunks and memory --------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [1, 7, 100, 1000])
def test_chunks_do_not_change_the_result(manifold, chunk_size, normal):
    data, x, z = problem(manifold, 2, normal, n=120)
    std = 0.3 * torch.exp(0.3 * normal(120, 2))
    pairs = [
        (lambda c: sparse(data, manifold, z, chunk_size=c), parameters(x)),
        (lambda c: bayesian(data, manifold, z, 2, chunk_size=c), parameters(x, std)),
        (
            lambda c: bayesian(data, manifold, z, 2, chunk_size=c, quadrature="monte-carlo"),
            parameters(x, std),
        ),
    ]
    for make, p in pairs:
        whole, part = make(None).evaluate(p), make(chunk_size).evaluate(p)
        assert part.value == pytest.approx(whole.value, rel=1e-10)
        scale = whole.gradient.abs().max()
        assert (part.gradient - whole.gradient).abs().max() <= 1e-10 * scale


@pytest.mark.parametrize("model", ["sparse", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_memory_is_bounded_by_the_chunk(manifold, model, normal):
    """N = 20,000, M = 50, D = 20: a few [chunk·H, M] arrays and a few of the latents' size."""
    n, m, d, chunk = 20_000, 50, 20, 500
    data, x, z = problem(manifold, 2, normal, n=n, d=d, m=m)
    if model == "sparse":
        objective, p, nodes = sparse(data, manifold, z, chunk_size=chunk), parameters(x), 1
    else:
        std = torch.full((n, 2), 0.1, dtype=torch.float64)
        objective = bayesian(data, manifold, z, 2, chunk_size=chunk)
        p, nodes = parameters(x, std), 5
    allowed = 8 * (12 * chunk * nodes * m + 20 * m * m + 6 * m * d + 12 * n * 3)
    assert peak_bytes(lambda: objective.evaluate(p)) < allowed < 8 * n * m * 12


# --- draws --------------------------------------------------------------------------------------


def test_inducing_points_are_latents_and_change_when_it_is_time(manifold, normal):
    data, x, _ = problem(manifold, 2, normal, n=40)
    objective = SparseObjective(
        data,
        on(manifold),
        NOISE,
        n_inducing=5,
        inducing_update=3,
        generator=torch.Generator().manual_seed(0),
    )
    p = parameters(x)
    drawn = []
    for step in range(7):
        assert objective.advance(p) is (step % 3 == 0)
        drawn.append(objective.inducing)
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[2], drawn[3])
    distance = manifold.pairwise_distance(drawn[0], x)
    assert torch.equal(distance.amin(1), torch.zeros(5, dtype=torch.float64))


def test_deviations_rest_during_the_warm_up(normal, manifold):
    data, x, z = problem(manifold, 2, normal)
    p = parameters(x, torch.full((15, 2), 0.3, dtype=torch.float64))
    objective = bayesian(data, manifold, z, 2, warmup=2)
    moving = []
    for _ in range(4):
        objective.advance(p)
        moving.append(bool(objective.evaluate(p).gradient[-30:].abs().max() > 0))
    assert moving == [False, True, True, True]
