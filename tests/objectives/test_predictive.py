"""Predictions of the exact model, and the objective that places new rows."""

import math

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from hgplvm.fit import fit
from hgplvm.geometry import euclidean, lorentz
from hgplvm.kernels import Exponential, gram
from hgplvm.objectives import Parameters
from hgplvm.objectives.predictive import (
    Landmarks,
    PlacementObjective,
    exact_posterior,
)
from hgplvm.optim import Adam


def parameters(latents, variance=1.3, length_scale=1.7):
    values = {"variance": variance, "length_scale": length_scale}
    logs = {name: latents.new_tensor(math.log(value)) for name, value in values.items()}
    return Parameters(latents, logs, ())


def landmarks(posterior):
    return Landmarks.of(posterior, posterior.points)


@pytest.fixture
def posterior(manifold, normal):
    x = manifold.from_tangent(normal(25, 2))
    return exact_posterior(normal(25, 6), parameters(x), manifold, Exponential(), noise=0.3)


def test_predictions_agree_with_scikit_learn(normal):
    x, data, new = normal(25, 2), normal(25, 6), normal(8, 2)
    kernel = ConstantKernel(1.3, "fixed") * Matern(1.7, "fixed", nu=0.5)
    theirs = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None).fit(x, data)
    mean, std = theirs.predict(new, return_std=True)
    ours = exact_posterior(data, parameters(x), euclidean, Exponential(), noise=0.3).predict(new)
    assert torch.allclose(ours[0], torch.from_numpy(mean), atol=1e-10)
    assert torch.allclose(ours[1], torch.from_numpy(std[:, 0] ** 2) + 0.3, atol=1e-10)


def test_predictions_are_conditionals_of_the_joint_normal(manifold, normal):
    x, data = manifold.from_tangent(normal(9, 2)), normal(9, 3)
    model = exact_posterior(data[:6], parameters(x[:6]), manifold, Exponential(), noise=0.3)
    joint = gram(Exponential(), manifold, x, x, variance=1.3, length_scale=1.7)
    joint = joint + 0.3 * torch.eye(9)
    weights = joint[6:, :6] @ torch.linalg.inv(joint[:6, :6])
    mean, variance = model.predict(x[6:])
    assert torch.allclose(mean, weights @ data[:6], atol=1e-10)
    assert torch.allclose(
        variance, joint.diagonal()[6:] - (weights * joint[6:, :6]).sum(1), atol=1e-10
    )


def test_far_away_is_the_prior_and_nothing_is_surer_than_the_noise(posterior):
    far = lorentz.from_tangent(torch.tensor([[11.0, 0.0]], dtype=torch.float64))
    if posterior.manifold is euclidean:
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
    objective = PlacementObjective(posterior, rows, observed)
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
    a, b = (PlacementObjective(posterior, r, observed).evaluate(x) for r in (rows, other))
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


def test_rows_drawn_from_the_model_are_placed_where_they_came_from(normal):
    x = lorentz.from_tangent(1.5 * normal(120, 2))
    covariance = gram(Exponential(), lorentz, x, x, variance=1.0, length_scale=20.0)
    data = torch.linalg.cholesky(covariance + 1e-4 * torch.eye(120)) @ normal(120, 400)
    model = exact_posterior(
        data[:100], parameters(x[:100], 1.0, 20.0), lorentz, Exponential(), noise=1e-4
    )
    observed = torch.ones(20, 400, dtype=torch.float64)
    start = Parameters(landmarks(model).nearest(data[100:], observed), {}, ())
    objective = PlacementObjective(model, data[100:], observed)
    found = fit(objective, start, Adam(0.05, horizon=100), max_iter=100, tol=0).parameters
    here, there = (
        model.log_density(data[100:], places, observed) for places in (start.latents, found.latents)
    )
    assert (there > here).all()
    before, after = (
        lorentz.distance(places, x[100:]).median() for places in (start.latents, found.latents)
    )
    assert after < 0.5 * before


def drawn_at(manifold, x, new, normal, noise, d=60):
    """Data of training rows and of new rows, drawn together from the model."""
    both = torch.cat([x, new])
    covariance = gram(Exponential(), manifold, both, both, variance=1.3, length_scale=1.7)
    data = torch.linalg.cholesky(covariance + noise * torch.eye(len(both))) @ normal(len(both), d)
    return data[: len(x)], data[len(x) :]


@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_rows_are_placed_amid_those_that_they_are_like(manifold, noise, normal):
    x, new = manifold.from_tangent(normal(300, 2)), manifold.from_tangent(0.7 * normal(40, 2))
    data, rows = drawn_at(manifold, x, new, normal, noise)
    posterior = exact_posterior(data, parameters(x), manifold, Exponential(), noise=noise)
    placed = landmarks(posterior).among(rows)
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
    posterior = exact_posterior(data, parameters(x), manifold, Exponential(), noise=1e-6)
    placed = landmarks(posterior).among(rows)
    apart = manifold.pairwise_distance(placed).fill_diagonal_(torch.inf)
    assert apart.min() > 1e-6
    assert manifold.pairwise_distance(placed, x).min() > 1e-6


def test_placing_in_chunks_changes_nothing(manifold, posterior, normal, monkeypatch):
    rows = normal(30, 6)
    whole = landmarks(posterior).among(rows)
    monkeypatch.setattr("hgplvm.objectives.predictive.PLACED_ENTRIES", 100)
    assert torch.allclose(landmarks(posterior).among(rows), whole)


def test_placing_amid_very_few_rows(manifold, normal):
    x = manifold.from_tangent(normal(2, 2))
    posterior = exact_posterior(normal(2, 3), parameters(x), manifold, Exponential(), noise=0.3)
    assert torch.isfinite(landmarks(posterior).among(normal(5, 3))).all()
