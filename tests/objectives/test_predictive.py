"""Predictions of all models, and the objectives of new rows."""

import dataclasses
import math

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from hgplvm._inference import Landmarks
from hgplvm.fit import fit
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic, wrapped_normal
from hgplvm.objectives import BayesianObjective, Parameters, SparseObjective, VecchiaObjective
from hgplvm.objectives.new_rows import NewRows, NewRowsBound, log_prior
from hgplvm.objectives.predictive import NeighborPosterior, collapsed_posterior
from hgplvm.optim import Adam
from tests.gp import NOISE, exact_posterior, gram, on

HYPERBOLIC = Hyperbolic()
FLAT = Flat()


def parameters(latents, variance=1.3, length_scale=1.7):
    values = {"variance": variance, "length_scale": length_scale}
    logs = {name: latents.new_tensor(math.log(value)) for name, value in values.items()}
    return Parameters(latents, logs, ())


def landmarks(posterior):
    return Landmarks.of(posterior, posterior.points)


@pytest.fixture
def posterior(manifold, normal):
    x = manifold.from_tangent(normal(25, 2))
    return exact_posterior(normal(25, 6), parameters(x), on(manifold), noise=0.3)


def test_predictions_agree_with_scikit_learn(normal):
    x, data, new = normal(25, 2), normal(25, 6), normal(8, 2)
    kernel = ConstantKernel(1.3, "fixed") * Matern(1.7, "fixed", nu=0.5)
    theirs = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None).fit(x, data)
    mean, std = theirs.predict(new, return_std=True)
    ours = exact_posterior(data, parameters(x), on(FLAT), noise=0.3).predict(new)
    assert torch.allclose(ours[0], torch.from_numpy(mean), atol=1e-10)
    assert torch.allclose(ours[1], torch.from_numpy(std[:, 0] ** 2) + 0.3, atol=1e-10)


def test_predictions_are_conditionals_of_the_joint_normal(manifold, normal):
    x, data = manifold.from_tangent(normal(9, 2)), normal(9, 3)
    model = exact_posterior(data[:6], parameters(x[:6]), on(manifold), noise=0.3)
    joint = gram(Exponential(), manifold, x, x, variance=1.3, length_scale=1.7)
    joint = joint + 0.3 * torch.eye(9)
    weights = joint[6:, :6] @ torch.linalg.inv(joint[:6, :6])
    mean, variance = model.predict(x[6:])
    assert torch.allclose(mean, weights @ data[:6], atol=1e-10)
    assert torch.allclose(
        variance, joint.diagonal()[6:] - (weights * joint[6:, :6]).sum(1), atol=1e-10
    )


def test_far_away_is_the_prior_and_nothing_is_surer_than_the_noise(posterior):
    far = HYPERBOLIC.from_tangent(torch.tensor([[11.0, 0.0]], dtype=torch.float64))
    if posterior.manifold == FLAT:
        far = torch.tensor([[1e3, 0.0]], dtype=torch.float64)
    mean, variance = posterior.predict(far)
    assert mean.abs().max() < 0.02
    assert variance.item() == pytest.approx(1.6, rel=0.01)
    assert (posterior.predict(posterior.points)[1] >= 0.3).all()


def test_the_gradient_agrees_with_autograd(posterior, normal):
    manifold, rows = posterior.manifold, normal(5, 6)
    observed = (normal(5, 6) > -0.5).double()
    x = manifold.from_tangent(normal(5, 2))
    frame = torch.zeros(5, 2, dtype=torch.float64, requires_grad=True)
    moved = manifold.exp_map(x, manifold.from_frame(x, frame))
    cross = 1.3 * torch.exp(-manifold.pairwise_distance(moved, posterior.points) / 1.7)
    variance = 1.6 - (cross @ posterior.inverse * cross).sum(1)
    normal_ = torch.distributions.Normal(
        cross @ posterior.inverse @ posterior.basis, variance.sqrt()[:, None]
    )
    density = (normal_.log_prob(rows) * observed).sum()
    density.backward()
    objective = NewRows(posterior, rows, observed)
    evaluation = objective.evaluate(Parameters(x, {}, ()))
    assert evaluation.value == pytest.approx(density.item())
    assert objective.value(Parameters(x, {}, ())) == pytest.approx(density.item())
    assert torch.allclose(evaluation.gradient, frame.grad.reshape(-1), rtol=1e-8)
    assert not objective.advance(Parameters(x, {}, ()))


def test_what_is_not_observed_does_not_count(posterior, normal):
    x, rows = Parameters(posterior.manifold.from_tangent(normal(5, 2)), {}, ()), normal(5, 6)
    observed = torch.ones(5, 6, dtype=torch.float64)
    observed[:, 4:] = 0.0
    other = rows.clone()
    other[:, 4:] = 1e6
    a, b = (NewRows(posterior, r, observed).evaluate(x) for r in (rows, other))
    assert a.value == b.value
    assert torch.equal(a.gradient, b.gradient)


def test_nearest_is_the_training_latent_with_the_highest_density(posterior, normal):
    rows, observed = normal(4, 6), (normal(4, 6) > -0.5).double()
    found = landmarks(posterior).nearest(rows, observed)
    for i in range(4):
        density = posterior.log_density(
            rows[i].expand(25, -1), posterior.points, observed[i].expand(25, -1)
        )
        assert torch.equal(found[i], posterior.points[density.argmax()])


def test_landmarks_judge_by_the_bound_where_rows_do(posterior, normal):
    rows, observed = normal(4, 6), (normal(4, 6) > -0.5).double()
    found = Landmarks.of(posterior, posterior.points, noise=0.3).log_density(rows, observed)
    for j in (0, 7):
        at = posterior.points[j].expand(4, -1)
        expected = NewRows(posterior, rows, observed, bound=True).density(at)
        assert torch.allclose(found[:, j], expected)


def test_rows_drawn_from_the_model_are_found_where_they_came_from(normal):
    x = HYPERBOLIC.from_tangent(1.5 * normal(120, 2))
    covariance = gram(Exponential(), HYPERBOLIC, x, x, variance=1.0, length_scale=20.0)
    data = torch.linalg.cholesky(covariance + 1e-4 * torch.eye(120)) @ normal(120, 400)
    model = exact_posterior(data[:100], parameters(x[:100], 1.0, 20.0), on(HYPERBOLIC), noise=1e-4)
    observed = torch.ones(20, 400, dtype=torch.float64)
    start = Parameters(landmarks(model).nearest(data[100:], observed), {}, ())
    objective = NewRows(model, data[100:], observed)
    found = fit(objective, start, Adam(0.05, horizon=100), max_iter=100, tol=0).parameters
    here, there = (
        model.log_density(data[100:], places, observed) for places in (start.latents, found.latents)
    )
    assert (there > here).all()
    before, after = (
        HYPERBOLIC.distance(places, x[100:]).median() for places in (start.latents, found.latents)
    )
    assert after < 0.5 * before


def drawn_at(manifold, x, new, normal, noise, d=60):
    """Data of training rows and of new rows, drawn together from the model."""
    both = torch.cat([x, new])
    covariance = gram(Exponential(), manifold, both, both, variance=1.3, length_scale=1.7)
    data = torch.linalg.cholesky(covariance + noise * torch.eye(len(both))) @ normal(len(both), d)
    return data[: len(x)], data[len(x) :]


@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_rows_are_found_between_those_that_they_are_like(manifold, noise, normal):
    x, new = manifold.from_tangent(normal(300, 2)), manifold.from_tangent(0.7 * normal(40, 2))
    data, rows = drawn_at(manifold, x, new, normal, noise)
    posterior = exact_posterior(data, parameters(x), on(manifold), noise=noise)
    placed = landmarks(posterior).posterior_means(rows)
    ours = manifold.distance(placed, new)
    nearest = manifold.distance(landmarks(posterior).nearest(rows, torch.ones_like(rows)), new)
    assert ours.median() < 0.5 * manifold.pairwise_distance(x, new).median()
    assert ours.mean() <= 1.02 * nearest.mean()  # a mean is no worse than the likeliest alone
    assert torch.allclose(manifold.project(placed), placed)


def test_rows_that_differ_do_not_coincide(manifold, normal):
    """With next to no noise one training row takes all the weight, but never all of it."""
    x = manifold.from_tangent(normal(50, 2))
    new = manifold.from_tangent(normal(30, 2))
    data, rows = drawn_at(manifold, x, new, normal, 1e-4)
    posterior = exact_posterior(data, parameters(x), on(manifold), noise=1e-6)
    placed = landmarks(posterior).posterior_means(rows)
    apart = manifold.pairwise_distance(placed).fill_diagonal_(torch.inf)
    assert apart.min() > 1e-6
    assert manifold.pairwise_distance(placed, x).min() > 1e-6


def test_chunks_change_nothing(manifold, posterior, normal, monkeypatch):
    rows = normal(30, 6)
    whole = landmarks(posterior).posterior_means(rows)
    monkeypatch.setattr("hgplvm._inference.LANDMARK_ENTRIES", 100)
    assert torch.allclose(landmarks(posterior).posterior_means(rows), whole)


def test_very_few_landmarks(manifold, normal):
    x = manifold.from_tangent(normal(2, 2))
    posterior = exact_posterior(normal(2, 3), parameters(x), on(manifold), noise=0.3)
    assert torch.isfinite(landmarks(posterior).posterior_means(normal(5, 3))).all()


# --- one form for all models ----------------------------------------------------------------


def full(latents, noise=0.3, **more):
    start = parameters(latents)
    logs = {**start.logs, "noise": latents.new_tensor(math.log(noise)), **more}
    return Parameters(latents, logs, tuple(logs))


def drawing(m):
    return {"n_inducing": m, "inducing_update": 5, "generator": torch.Generator().manual_seed(0)}


def test_the_sparse_posterior_is_that_of_its_approximate_model(manifold, normal):
    """The function values at the inducing points, given data whose prior is Q, by brute force."""
    x, data, new = manifold.from_tangent(normal(30, 2)), normal(30, 4), normal(6, 2)
    here, new = full(x), manifold.from_tangent(new)
    objective = SparseObjective(data, on(manifold), NOISE, **drawing(7))
    objective.draw(here)
    z = objective.inducing
    model = collapsed_posterior(
        z, objective.statistics(here, data), on(manifold).at(here.values), noise=0.3
    )
    scales = {"variance": 1.3, "length_scale": 1.7}
    kzz, kzx, kzn = (gram(Exponential(), manifold, z, b, **scales) for b in (z, x, new))
    # q(u) maximises the bound: precision K⁻¹ + βK⁻¹K_zx K_xz K⁻¹
    inverse = torch.linalg.inv(kzz)
    covariance = torch.linalg.inv(inverse + inverse @ kzx @ kzx.mT @ inverse / 0.3)
    u = covariance @ inverse @ kzx @ data / 0.3
    weights = kzn.mT @ inverse
    mean, variance = model.predict(new)
    assert torch.allclose(mean, weights @ u, atol=1e-6)
    expected = 1.3 + 0.3 - (weights * kzn.mT).sum(1) + (weights @ covariance * weights).sum(1)
    assert torch.allclose(variance, expected, atol=1e-6)


def test_with_all_rows_inducing_the_sparse_posterior_is_the_exact_one(manifold, normal):
    x, data = manifold.from_tangent(normal(20, 2)), normal(20, 4)
    here, new = full(x), manifold.from_tangent(normal(6, 2))
    objective = SparseObjective(data, on(manifold), NOISE, **drawing(20))
    objective.draw(here)
    statistics = objective.statistics(here, data)
    sparse = collapsed_posterior(
        objective.inducing, statistics, on(manifold).at(here.values), noise=0.3
    )
    exact = exact_posterior(data, here, on(manifold), noise=0.3)
    for ours, theirs in zip(sparse.predict(new), exact.predict(new), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def neighbors(data, here, manifold, k, inducing=None, mean=None, covariance=None):
    none = here.latents[:0]
    return NeighborPosterior(
        on(manifold).at(here.values),
        noise=0.3,
        n_neighbors=k,
        data=data,
        latents=here.latents,
        inducing=none if inducing is None else inducing,
        smooth_mean=data[:0] if mean is None else mean,
        smooth_covariance=data.new_zeros(0, 0) if covariance is None else covariance,
    )


@pytest.mark.parametrize("m", [0, 6])
def test_with_all_rows_as_neighbours_the_local_posterior_is_the_exact_one(manifold, m, normal):
    x, data = manifold.from_tangent(normal(20, 2)), normal(20, 4)
    here, new = full(x), manifold.from_tangent(normal(6, 2))
    options = {"n_neighbors": 19, "neighbor_update": 10, "n_inducing": m}
    objective = VecchiaObjective(
        data, on(manifold), NOISE, generator=torch.Generator().manual_seed(0), **options
    )
    objective.draw(here)
    mean, covariance = objective.smooth_part(here, data)
    local = neighbors(data, here, manifold, 20, objective.inducing, mean, covariance).near(new)
    exact = exact_posterior(data, here, on(manifold), noise=0.3)
    for ours, theirs in zip(local.predict(new), exact.predict(new), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_the_smooth_part_is_in_the_columns_of_the_data(manifold, normal):
    """With more columns than rows the objective works on rotated data."""
    x, data = manifold.from_tangent(normal(12, 2)), normal(12, 40)
    here, generator = full(x), torch.Generator().manual_seed(0)
    objective = VecchiaObjective(
        data,
        on(manifold),
        NOISE,
        n_neighbors=11,
        neighbor_update=10,
        n_inducing=4,
        generator=generator,
    )
    objective.draw(here)
    mean, covariance = objective.smooth_part(here, data)
    local = neighbors(data, here, manifold, 12, objective.inducing, mean, covariance).near(x)
    exact = exact_posterior(data, here, on(manifold), noise=0.3)
    assert torch.allclose(local.predict(x)[0], exact.predict(x)[0], atol=1e-6)


@pytest.mark.parametrize("m", [0, 5])
@pytest.mark.parametrize("bound", [False, True])
def test_gradients_of_local_posteriors_agree_with_differences(manifold, m, bound, normal):
    x, data, rows = manifold.from_tangent(normal(25, 2)), normal(25, 6), normal(5, 6)
    here, at = full(x), manifold.from_tangent(normal(5, 2))
    observed = (normal(5, 6) > -0.5).double()
    mean, covariance = normal(m, 6), torch.eye(m, dtype=torch.float64) / 3
    local = neighbors(data, here, manifold, 8, x[:m], mean, covariance).near(at)
    objective = NewRows(local, rows, observed, prior_scale=1.4, bound=bound)
    evaluation = objective.evaluate(Parameters(at, {}, ()))
    assert evaluation.value == pytest.approx(objective.value(Parameters(at, {}, ())))
    assert evaluation.value == pytest.approx(evaluation.density.sum().item())
    for i in range(5):
        for q in range(2):
            step = torch.zeros(5, 2, dtype=torch.float64)
            step[i, q] = 1e-5
            up, down = (
                objective.density(manifold.exp_map(at, manifold.from_frame(at, sign * step)))[i]
                for sign in (1.0, -1.0)
            )
            slope = (up - down).item() / 2e-5
            assert evaluation.gradient.view(5, 2)[i, q].item() == pytest.approx(slope, abs=1e-5)


def test_products_of_rows_give_the_same_misfit_as_the_rows(manifold, normal):
    x, data, rows = manifold.from_tangent(normal(9, 2)), normal(9, 6), normal(5, 6)
    here, at = full(x), manifold.from_tangent(normal(5, 2))
    observed = (normal(5, 6) > -0.5).double()
    local = neighbors(data, here, manifold, 9).near(at)
    exact = exact_posterior(data, here, on(manifold), noise=0.3)
    a, b = (NewRows(p, rows, observed).density(at) for p in (local, exact))
    assert torch.allclose(a, b, atol=1e-8)
    assert torch.allclose(a, exact.log_density(rows, at, observed), atol=1e-8)


def test_complete_rows_in_fewer_coordinates_are_as_dense(manifold, normal):
    """More columns than basis rows: only the span of these moves."""
    x, data = manifold.from_tangent(normal(7, 2)), normal(7, 40)
    model = exact_posterior(data, full(x), on(manifold), noise=0.3)
    rows, at = normal(5, 40), manifold.from_tangent(normal(5, 2))
    ones = torch.ones_like(rows)
    density = NewRows(model, rows, ones).density(at)
    assert torch.allclose(density, model.log_density(rows, at, ones), atol=1e-8)


def test_the_prior_is_the_wrapped_normal(manifold, normal):
    x = manifold.from_tangent(2.0 * normal(10, 3))
    origin = manifold.origin(3).expand_as(x)
    std = torch.full((10, 3), 1.7, dtype=torch.float64)
    expected = wrapped_normal.log_prob(manifold, x, origin, std)
    assert torch.allclose(log_prior(manifold, x, 1.7), expected, atol=1e-9)


def test_what_was_missing_adds_its_variance(manifold, normal):
    x, data = manifold.from_tangent(normal(12, 2)), normal(12, 3)
    missing = torch.zeros(12, 3, dtype=torch.float64)
    missing[4, 1] = 0.7
    here = full(x)
    sure = exact_posterior(data, here, on(manifold), noise=0.3)
    unsure = exact_posterior(data, here, on(manifold), noise=0.3, missing_variance=missing)
    covariance = gram(Exponential(), manifold, x, x, variance=1.3, length_scale=1.7)
    weight = (covariance @ torch.linalg.inv(covariance + 0.3 * torch.eye(12)))[4, 4]
    near = dataclasses.replace(neighbors(data, here, manifold, 12), missing_variance=missing).near(
        x
    )
    assert torch.allclose(near.predict_entries(x)[1], unsure.predict_entries(x)[1], atol=1e-8)
    extra = unsure.predict_entries(x)[1][4] - sure.predict_entries(x)[1][4]
    assert extra[1].item() == pytest.approx(0.7 * weight.item() ** 2)
    assert extra[[0, 2]].abs().max() == 0


# --- distributions of new rows --------------------------------------------------------------


def bayesian(manifold, normal, n=14, d=5):
    x, data = manifold.from_tangent(normal(n, 2)), normal(n, d)
    here = full(x, std=0.2 * normal(n, 2) - 1.5)
    objective = BayesianObjective(
        data,
        on(manifold),
        NOISE,
        n_components=2,
        quadrature="unscented",
        n_samples=5,
        prior_scale=1.2,
        kl="exact",
        warmup=-1,
        **drawing(6),
    )
    objective.draw(here)
    return data, here, objective


def test_a_rows_bound_has_the_gradient_of_the_whole_bound(manifold, normal):
    """With q(u) at its best, a row of the fit moves in its share as it does in the whole."""
    data, here, objective = bayesian(manifold, normal)
    model = collapsed_posterior(
        objective.inducing,
        objective.statistics(here, data),
        on(manifold).at(here.values),
        noise=0.3,
    )
    rows = NewRowsBound(model, data, torch.ones_like(data), prior_scale=1.2)
    q = Parameters(here.latents, {"std": here.logs["std"]}, ("std",))
    share, whole = rows.evaluate(q).gradient, objective.evaluate(here).gradient
    n = 2 * len(data)
    assert torch.allclose(share[:n], whole[:n], atol=1e-5)
    assert torch.allclose(share[n:], whole[-n:], atol=1e-5)


def test_rows_bounds_and_the_divergence_of_u_add_up_to_the_whole_bound(manifold, normal):
    data, here, objective = bayesian(manifold, normal)
    statistics = objective.statistics(here, data)
    model = collapsed_posterior(
        objective.inducing, statistics, on(manifold).at(here.values), noise=0.3
    )
    rows = NewRowsBound(model, data, torch.ones_like(data), prior_scale=1.2)
    q = Parameters(here.latents, {"std": here.logs["std"]}, ("std",))
    # KL(q(u) ‖ p(u)), by the formula for two normals
    z = objective.inducing
    kzz = gram(Exponential(), manifold, z, z, variance=1.3, length_scale=1.7)
    inverse = torch.linalg.inv(kzz)
    covariance = torch.linalg.inv(inverse + inverse @ statistics.psi2 @ inverse)
    u = covariance @ inverse @ statistics.projection
    trace = (inverse * covariance).sum() - len(z)
    log_det = torch.logdet(kzz) - torch.logdet(covariance)
    divergence = 0.5 * (u.shape[1] * (trace + log_det) + (u * (inverse @ u)).sum())
    assert rows.value(q) - divergence.item() == pytest.approx(objective.value(here), rel=1e-6)


@pytest.mark.parametrize("m", [0, 5])
def test_what_neighbours_decode_changes_smoothly(manifold, m, normal):
    """Without jumps where one neighbour takes the place of another, also far from all rows."""
    x, data = manifold.from_tangent(normal(120, 2)), normal(120, 3)
    inducing, mean = x[:m], normal(m, 3)
    parts = (inducing, mean, 0.1 * torch.eye(m).double()) if m else ()
    local = neighbors(data, full(x), manifold, 6, *parts)
    along = torch.linspace(-3.5, 3.5, 6001, dtype=torch.float64)
    line = manifold.from_tangent(torch.stack([along, 0.7 + 0.2 * along], dim=1))

    def jumps(posterior):
        return torch.stack(posterior.predict(line)[:1])[0].diff(dim=0).abs().amax().item()

    smooth, rough = jumps(local.smooth(line)), jumps(local.near(line))
    assert smooth < 0.2 * rough
    variance = local.smooth(line).predict(line)[1]
    assert (variance > 0).all()


def test_decoded_rows_of_few_rows_are_those_of_the_exact_model(manifold, normal):
    x, data, new = manifold.from_tangent(normal(12, 2)), normal(12, 3), normal(5, 2)
    new = manifold.from_tangent(new)
    local = neighbors(data, full(x), manifold, 12).smooth(new)
    exact = exact_posterior(data, full(x), on(manifold), noise=0.3)
    for found, wanted in zip(local.predict(new), exact.predict(new), strict=True):
        assert torch.allclose(found, wanted, atol=1e-9)


def test_decoded_rows_are_near_those_of_all_rows(manifold, normal):
    x = manifold.from_tangent(normal(300, 2))
    data = torch.stack([x[:, -1].sin(), x[:, -2].cos()], dim=1) + 0.1 * normal(300, 2)
    new = manifold.from_tangent(0.7 * normal(50, 2))
    wanted = exact_posterior(data, full(x), on(manifold), noise=0.3).predict(new)[0]
    local = neighbors(data, full(x), manifold, 15)
    smooth, near = (local.smooth(new).predict(new)[0], local.near(new).predict(new)[0])
    assert (smooth - wanted).square().mean() < 1.1 * (near - wanted).square().mean()
