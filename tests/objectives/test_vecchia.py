"""The nearest-neighbour objective against its definition, autograd, differences and the exact."""

import math

import pytest
import torch

from hgplvm.kernels import Exponential
from hgplvm.noise import UniformNoise
from hgplvm.objectives import ExactObjective, Parameters, VecchiaObjective
from hgplvm.objectives.features import InducingFeatures
from tests.gp import NOISE, gram, on
from tests.memory import peak_bytes

FREE = ("variance", "noise", "length_scale")
FLOOR = 0.05


@pytest.fixture(params=[1, 2, 3], ids="Q={}".format)
def q(request):
    return request.param


@pytest.fixture(params=[0, 6], ids="M={}".format)
def m(request):
    return request.param


# (k + 1)² is at most D: products of rows are kept; else rows are gathered
@pytest.fixture(params=[3, 30], ids="D={}".format)
def d(request):
    return request.param


def parameters(latents, free=FREE, **values):
    values = {"variance": 1.3, "noise": 0.4, "length_scale": 1.7, **values}
    logs = {name: latents.new_tensor(math.log(value)) for name, value in values.items()}
    return Parameters(latents, logs, free)


def vecchia(data, manifold, k, m=0, *, p=None, **options):
    seed = torch.Generator().manual_seed(0)
    options = {"neighbor_update": 10, "generator": seed, **options}
    noise = UniformNoise(options.pop("noise_floor", FLOOR))
    objective = VecchiaObjective(data, on(manifold), noise, n_neighbors=k, n_inducing=m, **options)
    if p is not None:
        objective.draw(p)
        # off the rows, where the kernel has its cusps
        rest = 0.1 * torch.randn(m, 1 + p.latents.shape[1], dtype=torch.float64, generator=seed)
        q = p.latents.shape[1] + 1 - manifold.ambient_dim(1)
        objective.inducing = manifold.exp_map(
            objective.inducing, manifold.from_frame(objective.inducing, rest[:, :q])
        )
    return objective


def definition(objective, manifold, data, p, frame, logs):
    """log N(Y | 0, ΦΦᵀ + R), R⁻¹ = (I - B)ᵀF⁻¹(I - B), from dense matrices: differentiable."""
    moved = manifold.exp_map(p.latents, manifold.from_frame(p.latents, frame))
    variance, length_scale = logs["variance"].exp(), logs["length_scale"].exp()

    def kernel(a, b):
        return variance * torch.exp(-manifold.pairwise_distance(a, b) / length_scale)

    eye = torch.eye(len(data), dtype=torch.float64)
    rough = kernel(moved, moved)
    smooth = torch.zeros_like(rough)
    if objective.n_inducing:
        z = objective.inducing
        knm = kernel(moved, z)
        smooth = knm @ torch.linalg.solve(kernel(z, z), knm.mT)
    residual = rough - smooth + (FLOOR + logs["noise"].exp()) * eye
    weights, precisions = [None] * len(data), [None] * len(data)
    for group in objective.groups:
        i = int(group[-1])
        n = group[:-1][group[:-1] != i]  # an early row has fewer neighbours
        b = torch.linalg.solve(residual[n][:, n], residual[n, i])
        row = eye[i].clone()
        weights[i] = row.index_put((n,), -b)
        precisions[i] = 1.0 / (residual[i, i] - residual[i, n] @ b)
    inverse_root = torch.stack(precisions).sqrt()[:, None] * torch.stack(weights)
    covariance = smooth + torch.linalg.inv(inverse_root.mT @ inverse_root)
    law = torch.distributions.MultivariateNormal(
        torch.zeros(len(data), dtype=torch.float64), covariance, validate_args=False
    )
    return law.log_prob(data.mT).sum()


def by_autograd(objective, manifold, data, p, q):
    frame = torch.zeros(len(data), q, dtype=torch.float64, requires_grad=True)
    logs = {name: p.logs[name].clone().requires_grad_() for name in FREE}
    value = definition(objective, manifold, data, p, frame, logs)
    value.backward()
    return value.item(), torch.cat([frame.grad.reshape(-1), *(logs[n].grad[None] for n in FREE)])


# --- value and gradient -----------------------------------------------------------------------


def test_value_and_gradient_are_those_of_the_definition(manifold, q, m, d, normal):
    data, p = normal(18, d), parameters(manifold.from_tangent(normal(18, q)))
    objective = vecchia(data, manifold, 4, m, p=p, chunk_size=5)
    value, gradient = by_autograd(objective, manifold, data, p, q)
    ours = objective.evaluate(p)
    assert ours.value == pytest.approx(value, rel=1e-8)
    assert objective.value(p) == pytest.approx(value, rel=1e-8)
    assert torch.allclose(ours.gradient, gradient, rtol=1e-6, atol=1e-6)


def test_gradient_agrees_with_finite_differences(manifold, m, normal):
    data, p = normal(15, 4), parameters(manifold.from_tangent(normal(15, 2)))
    objective = vecchia(data, manifold, 3, m, p=p)
    gradient = objective.evaluate(p).gradient
    for i in range(len(gradient)):
        step = torch.zeros_like(gradient)
        step[i] = 1e-5
        rise = objective.value(p.moved(manifold, step)) - objective.value(p.moved(manifold, -step))
        assert rise / 2e-5 == pytest.approx(gradient[i].item(), rel=1e-6, abs=1e-6)


def test_all_neighbours_give_the_exact_likelihood(manifold, q, m, d, normal):
    data, p = normal(25, d), parameters(manifold.from_tangent(normal(25, q)))
    ours = vecchia(data, manifold, 24, m, p=p).evaluate(p)
    exact = ExactObjective(data, on(manifold), UniformNoise(FLOOR)).evaluate(p)
    assert ours.value == pytest.approx(exact.value, rel=1e-8)
    assert torch.allclose(ours.gradient, exact.gradient, rtol=1e-8, atol=1e-8)


def drawn_from_the_model(manifold, normal, n=150, d=30, noise=0.02):
    x = manifold.from_tangent(normal(n, 2))
    covariance = gram(Exponential(), manifold, x, x, variance=1.0, length_scale=1.7)
    root = torch.linalg.cholesky(covariance + noise * torch.eye(n))
    return root @ normal(n, d), parameters(x, variance=1.0, noise=noise)


def test_the_likelihood_converges_to_the_exact_one(manifold, normal):
    data, p = drawn_from_the_model(manifold, normal)
    exact = ExactObjective(data, on(manifold), NOISE).value(p)
    losses = [
        abs(vecchia(data, manifold, k, noise_floor=0.0).value(p) - exact) / abs(exact)
        for k in (2, 5, 15, 40)
    ]
    assert losses[0] > 2 * losses[1] > 4 * losses[2] > 8 * losses[3]
    assert losses[2] < 0.005


def test_inducing_points_help_where_noise_hides_single_rows(manifold, normal):
    data, p = drawn_from_the_model(manifold, normal, noise=4.0)
    exact = ExactObjective(data, on(manifold), NOISE).value(p)

    def loss(k, m):
        return abs(vecchia(data, manifold, k, m, noise_floor=0.0).value(p) - exact)

    assert loss(5, 20) < 0.3 * loss(5, 0)
    assert loss(5, 20) < loss(15, 0)


def test_more_columns_than_rows(manifold, normal):
    data, p = normal(10, 60), parameters(manifold.from_tangent(normal(10, 2)))
    objective = vecchia(data, manifold, 4, p=p)
    value, gradient = by_autograd(objective, manifold, data, p, 2)
    ours = objective.evaluate(p)
    assert ours.value == pytest.approx(value, rel=1e-8)
    assert torch.allclose(ours.gradient, gradient, rtol=1e-6, atol=1e-6)


def test_chunks_change_nothing(manifold, m, d, normal):
    data, p = normal(40, d), parameters(manifold.from_tangent(normal(40, 2)))
    whole, parts = (vecchia(data, manifold, 4, m, p=p, chunk_size=c) for c in (None, 7))
    parts.groups, parts.inducing = whole.groups, whole.inducing
    one, many = whole.evaluate(p), parts.evaluate(p)
    assert many.value == pytest.approx(one.value, rel=1e-12)
    assert torch.allclose(many.gradient, one.gradient, rtol=1e-9, atol=1e-9)


def test_early_rows_in_many_chunks(manifold, m, d, normal):
    """Rows that lack neighbours may fill more than the first chunk."""
    data, p = normal(18, d), parameters(manifold.from_tangent(normal(18, 2)))
    objective = vecchia(data, manifold, 4, m, p=p, chunk_size=2)
    value, gradient = by_autograd(objective, manifold, data, p, 2)
    ours = objective.evaluate(p)
    assert ours.value == pytest.approx(value, rel=1e-8)
    assert torch.allclose(ours.gradient, gradient, rtol=1e-6, atol=1e-6)


def test_what_is_kept_of_the_data_follows_the_neighbours(manifold, m, d, normal):
    data = normal(20, d)
    here, there = (parameters(manifold.from_tangent(normal(20, 2))) for _ in range(2))
    objective = vecchia(data, manifold, 4, m, p=here)
    objective.evaluate(here)
    objective.draw(there)
    value, _ = by_autograd(objective, manifold, data, there, 2)
    assert objective.value(there) == pytest.approx(value, rel=1e-6)


def test_fixed_parameters_have_no_gradient(manifold, m, normal):
    data, x = normal(20, 3), manifold.from_tangent(normal(20, 2))
    p, fewer = parameters(x), parameters(x, free=("noise",))
    objective = vecchia(data, manifold, 4, m, p=p)
    all_free, one_free = objective.evaluate(p).gradient, objective.evaluate(fewer).gradient
    assert torch.allclose(one_free, torch.cat([all_free[:40], all_free[41:42]]))


# --- trouble ----------------------------------------------------------------------------------


def test_coincident_rows_and_points_far_out_are_finite(manifold, m, normal):
    tangents = normal(30, 2)
    tangents[5:15] = tangents[5]
    tangents[20:] *= 12.0 / tangents[20:].norm(dim=1, keepdim=True)
    data = normal(30, 3)
    p = parameters(manifold.from_tangent(tangents), noise=1e-6)
    evaluation = vecchia(data, manifold, 6, m, noise_floor=0.0).evaluate(p)
    assert evaluation.finite


def test_two_rows(manifold, normal):
    data, p = normal(2, 3), parameters(manifold.from_tangent(normal(2, 2)))
    ours = vecchia(data, manifold, 1).value(p)
    exact = ExactObjective(data, on(manifold), UniformNoise(FLOOR)).value(p)
    assert ours == pytest.approx(exact, rel=1e-10)


def test_single_precision(manifold, m, normal):
    data, x = normal(60, 5), manifold.from_tangent(normal(60, 2))
    p = parameters(x)
    objective = vecchia(data, manifold, 5, m, p=p)
    low = vecchia(data.float(), manifold, 5, m)
    low.groups, low.inducing = objective.groups, objective.inducing.float()
    ours, exact = low.evaluate(parameters(x.float())), objective.evaluate(p)
    assert ours.gradient.dtype == torch.float32
    assert ours.value == pytest.approx(exact.value, rel=1e-4)
    scale = exact.gradient.abs().max()
    assert (ours.gradient.double() - exact.gradient).abs().max() < 1e-3 * scale


# --- the draws ----------------------------------------------------------------------------------


def test_neighbours_are_the_nearest_earlier_rows(manifold, normal):
    x = manifold.from_tangent(normal(50, 2))
    objective = vecchia(normal(50, 3), manifold, 6, p=parameters(x))
    assert sorted(objective.groups[:, -1].tolist()) == list(range(50))  # each row once
    distance = manifold.pairwise_distance(x)
    seen = []
    for group in objective.groups.tolist():
        *neighbours, row = group
        nearest = sorted(seen, key=lambda j, row=row: distance[row, j].item())[:6]
        assert neighbours == nearest + [row] * (6 - len(nearest))
        seen.append(row)


def test_neighbours_follow_the_latents_every_few_steps(manifold, normal):
    data = normal(40, 3)
    objective = vecchia(data, manifold, 4, 3, neighbor_update=3)
    here, there = (parameters(manifold.from_tangent(normal(40, 2))) for _ in range(2))
    objective.evaluate(here)
    groups, order = objective.groups, objective.order
    changes = [objective.advance(there) for _ in range(6)]
    assert changes == [False, False, True, False, False, True]
    assert not torch.equal(objective.groups, groups)
    assert torch.equal(objective.order, order)  # the order stays
    # inducing points are rows of the latents
    assert manifold.pairwise_distance(objective.inducing, there.latents).amin(1).max() == 0


@pytest.mark.parametrize("order", ["random", "max-min"])
def test_reshuffling_gives_a_new_order(manifold, order, normal):
    p = parameters(manifold.from_tangent(normal(40, 2)))
    objective = vecchia(normal(40, 3), manifold, 4, order=order, reshuffle=True, p=p)
    before = objective.order
    objective.draw(p)
    assert not torch.equal(objective.order, before)
    assert sorted(objective.order.tolist()) == list(range(40))


def test_max_min_order_goes_from_coarse_to_fine(manifold, normal):
    p = parameters(manifold.from_tangent(normal(60, 2)))
    objective = vecchia(normal(60, 3), manifold, 4, order="max-min", p=p)
    x = p.latents[objective.order]
    gaps = [manifold.pairwise_distance(x[i : i + 1], x[:i]).min().item() for i in range(1, 60)]
    assert gaps == sorted(gaps, reverse=True)


def test_spacing_is_the_distance_to_the_last_neighbour(manifold, normal):
    p = parameters(manifold.from_tangent(normal(40, 2)))
    objective = vecchia(normal(40, 3), manifold, 4)
    spacing = objective.spacing(p)
    full = objective.groups[4:]  # the first rows have fewer neighbours
    ends = [manifold.distance(p.latents[g[-1]], p.latents[g[-2]]) for g in full]
    assert spacing == pytest.approx(torch.stack(ends).median().item())


def test_memory_does_not_grow_with_the_square_of_the_rows(manifold, m, normal):
    peaks = []
    for n in (1000, 4000):
        data, p = normal(n, 10), parameters(manifold.from_tangent(normal(n, 2)))
        objective = vecchia(data, manifold, 10, m, chunk_size=200)
        objective.draw(p)
        peaks.append(peak_bytes(lambda o=objective, p=p: o.evaluate(p)))
    chunk = 8 * 200 * 11 * (11 + m + 10)
    per_row = 8 * (30 + 4 * m + 2 * 11 * (m > 0))
    assert peaks[0] < 15 * chunk + 1000 * per_row
    assert peaks[1] - peaks[0] < 3000 * per_row


def test_products_never_outgrow_the_data(manifold, normal):
    for n_columns, kept in ((24, False), (25, True)):
        p = parameters(manifold.from_tangent(normal(30, 2)))
        objective = vecchia(normal(30, n_columns), manifold, 4, p=p)
        assert (objective._group_data._products is not None) == kept
    low = vecchia(normal(30, 25).float(), manifold, 4)
    low.draw(parameters(p.latents.float()))
    assert low._group_data._products is None  # squares of residuals would cancel


# --- the features -------------------------------------------------------------------------------


def test_features_hold_what_the_inducing_points_see(manifold, normal):
    x, z = manifold.from_tangent(normal(20, 2)), manifold.from_tangent(normal(5, 2))
    hyper = {"variance": 1.3, "length_scale": 1.7}
    phi = InducingFeatures(on(manifold).at(hyper), x, z, chunk_size=7).values
    knm = gram(Exponential(), manifold, x, z, **hyper)
    kmm = gram(Exponential(), manifold, z, z, **hyper)
    assert torch.allclose(phi @ phi.mT, knm @ torch.linalg.solve(kmm, knm.mT), atol=1e-8)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_the_gpu_agrees(manifold, m, d, normal):
    data, x = normal(300, d), manifold.from_tangent(normal(300, 2))
    p = parameters(x)
    objective = vecchia(data, manifold, 4, m, p=p)
    there = vecchia(data.cuda(), manifold, 4, m)
    there.draw(parameters(x.cuda()))
    there.groups, there.inducing = objective.groups.cuda(), objective.inducing.cuda()
    there._group_data.draw(there.groups, 100)
    ours, exact = there.evaluate(parameters(x.cuda())), objective.evaluate(p)
    assert ours.value == pytest.approx(exact.value, rel=1e-9)
    assert torch.allclose(ours.gradient.cpu(), exact.gradient, rtol=1e-7, atol=1e-7)
