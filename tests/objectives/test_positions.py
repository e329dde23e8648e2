"""The joint posterior of positions: against differences, simulations, and the exact likelihood."""

import math

import pytest
import torch

from hgplvm.covariance import Covariance
from hgplvm.kernels import KERNELS, Exponential
from hgplvm.manifolds import Flat, Hyperbolic, Sphere
from hgplvm.objectives import positions as module
from hgplvm.objectives.positions import (
    Positions,
    expected_information,
    isometry_fields,
    row_information,
    smoothed,
)

HYPERBOLIC, FLAT = Hyperbolic(), Flat()
SPACES = {"hyperbolic": HYPERBOLIC, "flat": FLAT, "sphere": Sphere()}


def covariance_on(manifold, kernel=None, variance=1.3, length_scale=1.7):
    return Covariance(manifold, kernel or Exponential(), variance, {"length_scale": length_scale})


def spread_out(manifold, normal, n, q=2):
    return manifold.from_tangent(0.6 * normal(n, q))


def drawn(covariance, x, noise, d, normal):
    root = torch.linalg.cholesky(covariance.gram(x, x) + torch.diag(noise))
    return root @ normal(len(x), d)


def by_differences(covariance, x, noise, d, step=1e-5):
    """``D/2 tr(C⁻¹ ∂C/∂a C⁻¹ ∂C/∂b)`` with derivatives of the whole matrix by differences."""
    manifold, q = covariance.manifold, covariance.manifold.n_components(x)
    slopes = []
    for i in range(len(x)):
        for axis in range(q):
            both = []
            for sign in (1.0, -1.0):
                v = x.new_zeros(len(x), q)
                v[i, axis] = sign * step
                moved = manifold.displaced(x, v)
                both.append(covariance.gram(moved, moved))
            slopes.append((both[0] - both[1]) / (2.0 * step))
    inverse = torch.linalg.inv(covariance.gram(x, x) + torch.diag(noise))
    parts = torch.stack([inverse @ slope for slope in slopes])
    return 0.5 * d * torch.einsum("aij,bji->ab", parts, parts)


@pytest.mark.parametrize("space", SPACES)
def test_the_information_is_that_of_the_normal_distribution(space, normal):
    manifold = SPACES[space]
    x = spread_out(manifold, normal, 6)
    noise = 0.1 + 0.3 * torch.rand(6, generator=torch.Generator().manual_seed(1)).double()
    covariance = covariance_on(manifold)
    ours = expected_information(covariance, x, noise, 5)
    assert torch.allclose(ours, by_differences(covariance, x, noise, 5), rtol=1e-5, atol=1e-6)


def test_the_information_of_a_smooth_kernel(normal):
    x = spread_out(HYPERBOLIC, normal, 5)
    covariance, noise = (
        covariance_on(HYPERBOLIC, KERNELS["matern52"]),
        torch.full((5,), 0.2).double(),
    )
    ours = expected_information(covariance, x, noise, 3)
    assert torch.allclose(ours, by_differences(covariance, x, noise, 3), rtol=1e-5, atol=1e-6)


def test_it_is_the_covariance_of_the_score(normal):
    """Over data that the model draws; the score by autograd of the log density."""
    manifold, n, d = FLAT, 4, 3
    x, noise = spread_out(manifold, normal, n), torch.full((n,), 0.3).double()
    covariance = covariance_on(manifold)
    chol = torch.linalg.cholesky(covariance.gram(x, x) + torch.diag(noise))

    def log_density(z, y):
        gap = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
        eye = torch.eye(n, dtype=torch.float64)
        k = 1.3 * torch.exp(-(gap + eye).where(eye == 0, 0.0 * gap) / 1.7)
        c = k + torch.diag(noise)
        return -0.5 * d * torch.logdet(c) - 0.5 * torch.trace(y.T @ torch.linalg.solve(c, y))

    scores = []
    for _ in range(3000):
        z = x.clone().requires_grad_()
        (score,) = torch.autograd.grad(log_density(z, chol @ normal(n, d)), z)
        scores.append(score.reshape(-1))
    scores = torch.stack(scores)
    sampled = scores.mT @ scores / len(scores)
    ours = expected_information(covariance, x, noise, d)
    scale = ours.diagonal().sqrt()
    assert ((sampled - ours) / scale / scale[:, None]).abs().max() < 0.12


def test_a_row_alone_is_a_block_of_the_whole(normal):
    x = spread_out(HYPERBOLIC, normal, 9)
    noise = torch.linspace(0.1, 0.5, 9).double()
    covariance = covariance_on(HYPERBOLIC)
    inverse = torch.linalg.inv(covariance.gram(x[1:], x[1:]) + torch.diag(noise[1:]))
    ours = row_information(covariance, x[1:], inverse, x[:1], noise[:1])
    whole = expected_information(covariance, x, noise, 1)
    assert torch.allclose(ours[0], whole[:2, :2], rtol=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_nothing_is_known_of_isometries(space, normal):
    manifold = SPACES[space]
    x = spread_out(manifold, normal, 8)
    fields = isometry_fields(manifold, x)
    assert fields.shape == (16, 3)
    information = expected_information(
        covariance_on(manifold), x, torch.full((8,), 0.2).double(), 4
    )
    assert (information @ fields).abs().max() < 1e-3 * information.abs().max()


def test_few_points_tell_fewer_isometries_apart():
    assert isometry_fields(HYPERBOLIC, HYPERBOLIC.origin(2)[None]).shape == (2, 2)


def test_estimates_scatter_as_it_says(normal):
    """Maximum likelihood from the truth, many columns and a smooth kernel: theory must hold."""
    n, d, manifold = 12, 150, FLAT
    x = 1.2 * normal(n, 2)
    covariance = covariance_on(manifold, KERNELS["heat"], 1.0, 2.0)
    noise = torch.full((n,), 0.05).double()
    fields = isometry_fields(manifold, x)
    errors = []
    for _ in range(60):
        y = drawn(covariance, x, noise, d, normal)
        z = x.clone()
        for _ in range(6):  # Fisher scoring: x ← x + I⁻¹ ∂F/∂x
            inverse = torch.linalg.inv(covariance.gram(z, z) + torch.diag(noise))
            alpha = inverse @ y
            by_gram = 0.5 * (alpha @ alpha.mT - d * inverse)
            score = covariance.pairs(z, z).back(2.0 * by_gram).reshape(-1)
            information = expected_information(covariance, z, noise, d)
            z = z + torch.linalg.lstsq(
                information, score, rcond=1e-7, driver="gelsd"
            ).solution.view(n, 2)
        error = (z - x).reshape(-1)
        errors.append(error - fields @ (fields.mT @ error))
    sampled = torch.stack(errors).square().mean(0).sqrt()
    joint = torch.linalg.pinv(expected_information(covariance, x, noise, d), rtol=1e-7)
    ratio = sampled / joint.diagonal().sqrt()
    assert 0.85 < ratio.median() < 1.15


def of(covariance, x, y, noise, **options):
    return Positions.of(covariance, x, y, noise, prior_scale=1.0, **options)


def test_draws_have_its_covariances(normal):
    x = spread_out(HYPERBOLIC, normal, 30)
    covariance, noise = covariance_on(HYPERBOLIC), torch.full((30,), 0.3).double()
    found = of(covariance, x, drawn(covariance, x, noise, 8, normal), noise)
    draws = found.draws(x, 3000, torch.Generator().manual_seed(0))
    v = HYPERBOLIC.to_frame(x.expand_as(draws), HYPERBOLIC.log_map(x.expand_as(draws), draws))
    sampled = torch.einsum("dni,dnj->nij", v, v) / len(v)
    theirs = found.covariances(x)
    size = theirs.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    assert ((sampled - theirs) / size).abs().max() < 0.15
    # rows that are close move together
    near = HYPERBOLIC.pairwise_distance(x).fill_diagonal_(9.0)
    i, j = divmod(int(near.argmin()), 30)
    together = (v[:, i] * v[:, j]).sum(1).mean() / (v[:, i].square().sum(1).mean())
    assert together > 0.1


def test_a_sample_stands_for_all_rows(normal, monkeypatch):
    x = spread_out(HYPERBOLIC, normal, 240)
    covariance, noise = covariance_on(HYPERBOLIC), torch.full((240,), 0.4).double()
    y = drawn(covariance, x, noise, 10, normal)
    whole = of(covariance, x, y, noise).covariances(x)
    monkeypatch.setattr(module, "LANDMARKS", 80)
    sampled = of(covariance, x, y, noise)
    assert sampled.modes.shape[0] == 80
    assert sampled.own.shape == (240, 2, 2)
    ratio = torch.linalg.det(sampled.covariances(x)) / torch.linalg.det(whole)
    assert 0.5 < ratio.median().sqrt() < 1.6


def test_more_columns_and_less_noise_are_surer(normal):
    x = spread_out(HYPERBOLIC, normal, 40)
    covariance = covariance_on(HYPERBOLIC)

    def size(noise, d):
        a = torch.full((40,), noise).double()
        found = of(covariance, x, drawn(covariance, x, a, d, normal), a)
        return found.covariances(x).diagonal(dim1=1, dim2=2).mean().sqrt()

    assert size(0.3, 40) < 0.7 * size(0.3, 8)
    assert size(0.05, 8) < 0.9 * size(0.8, 8)


def test_rows_of_which_less_is_seen_are_less_sure(normal):
    x = spread_out(HYPERBOLIC, normal, 40)
    covariance, noise = covariance_on(HYPERBOLIC), torch.full((40,), 0.3).double()
    y = drawn(covariance, x, noise, 8, normal)
    seen = torch.ones(40).double()
    seen[:20] = 0.25
    whole, partly = (of(covariance, x, y, noise, observed=o).covariances(x) for o in (None, seen))
    ratio = (torch.linalg.det(partly) / torch.linalg.det(whole)).sqrt()
    assert ratio[:20].median() > 2.0
    assert ratio[20:].median() < 0.7 * ratio[:20].median()


def test_what_is_known_of_nothing_is_the_prior(normal):
    x = spread_out(HYPERBOLIC, normal, 20)
    covariance, noise = covariance_on(HYPERBOLIC), torch.full((20,), 0.3).double()
    found = of(covariance, x, drawn(covariance, x, noise, 8, normal), noise)
    own = found.own_at(x, x[:3], noise[:3], torch.zeros(3).double())
    assert torch.allclose(own, torch.eye(2).double().expand(3, 2, 2))


def test_the_kernel_is_that_of_the_likelihood_where_all_rows_are_inducing(normal):
    x = spread_out(HYPERBOLIC, normal, 40)
    truth, noise = covariance_on(HYPERBOLIC), torch.full((40,), 0.1).double()
    y = drawn(truth, x, noise, 60, normal)
    start = covariance_on(HYPERBOLIC, variance=0.5, length_scale=0.8)
    generator = torch.Generator().manual_seed(0)
    found = smoothed(start, x, y, noise, None, generator=generator)

    def likelihood(k):
        c = k.gram(x, x) + torch.diag(noise)
        return float(-60 * torch.logdet(c) - torch.trace(y.mT @ torch.linalg.solve(c, y)))

    best = max(
        likelihood(covariance_on(HYPERBOLIC, variance=v, length_scale=s))
        for v in torch.linspace(0.6, 2.6, 15).tolist()
        for s in torch.linspace(0.8, 3.5, 15).tolist()
    )
    assert likelihood(found) > best - 1.0


def test_functions_of_uncertain_positions_are_smoother(normal):
    x = spread_out(HYPERBOLIC, normal, 60)
    covariance, noise = covariance_on(HYPERBOLIC), torch.full((60,), 0.1).double()
    y = drawn(covariance, x, noise, 20, normal)
    spread = 0.04 * torch.eye(2).double().expand(60, 2, 2)
    sharp, blurred = (
        smoothed(covariance, x, y, noise, s, generator=torch.Generator().manual_seed(0))
        for s in (None, spread)
    )

    def slope(k):
        return k.variance / k.theta["length_scale"]

    assert slope(blurred) < slope(sharp)


def test_a_fixed_length_scale_stays(normal):
    x = spread_out(FLAT, normal, 20)
    covariance, noise = covariance_on(FLAT), torch.full((20,), 0.1).double()
    y = drawn(covariance, x, noise, 5, normal)
    found = of(covariance, x, y, noise, free_length_scale=False)
    assert found.covariance.theta == covariance.theta


@pytest.mark.parametrize("n", [2, 3, 12])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 3.0])
@pytest.mark.parametrize("noise", [1e-9, 1.0, 1e6])
def test_it_is_finite_and_positive(n, scale, noise, normal):
    x = HYPERBOLIC.from_tangent(scale * normal(n, 2))
    found = of(covariance_on(HYPERBOLIC), x, normal(n, 4), torch.full((n,), noise).double())
    covariances = found.covariances(x)
    assert torch.isfinite(covariances).all()
    assert (torch.linalg.eigvalsh(covariances) > -1e-12).all()
    assert covariances.abs().max() < 2.0  # no wider than the prior, but for rounding
    assert torch.isfinite(found.draws(x, 2, torch.Generator().manual_seed(0))).all()
    assert math.isfinite(found.covariance.variance)
