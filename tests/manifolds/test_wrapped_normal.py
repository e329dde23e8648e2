"""The wrapped normal against integrals by brute force."""

import math

import pytest
import torch

from hgplvm.manifolds import Flat, Hyperbolic, wrapped_normal

HYPERBOLIC = Hyperbolic()
FLAT = Flat()


def grid(manifold, q, reach, n):
    """Points of a polar grid about the origin and their volumes: dV = sinh^{Q-1} r dr dΩ."""
    edges = torch.linspace(0, reach, n + 1, dtype=torch.float64)
    r = 0.5 * (edges[1:] + edges[:-1])
    stretch = torch.sinh(r) if manifold == HYPERBOLIC else r
    if q == 1:
        points = torch.cat([r, -r])[:, None]
        return manifold.from_tangent(points), torch.full((2 * n,), reach / n).double()
    m = 240 if q == 2 else 80
    phi = (torch.arange(m, dtype=torch.float64) + 0.5) * (2 * math.pi / m)
    if q == 2:
        radius, angle = torch.meshgrid(r, phi, indexing="ij")
        tangents = torch.stack([radius * angle.cos(), radius * angle.sin()], -1)
        volume = stretch[:, None] * (reach / n) * (2 * math.pi / m) * torch.ones_like(angle)
        return manifold.from_tangent(tangents.reshape(-1, 2)), volume.reshape(-1)
    height = (torch.arange(40, dtype=torch.float64) + 0.5) / 20 - 1  # cosine of the polar angle
    radius, angle, z = torch.meshgrid(r, phi, height, indexing="ij")
    rho = torch.sqrt(1 - z**2)
    tangents = radius[..., None] * torch.stack([rho * angle.cos(), rho * angle.sin(), z], -1)
    volume = stretch[:, None, None] ** 2 * (reach / n) * (2 * math.pi / m) / 20
    return manifold.from_tangent(tangents.reshape(-1, 3)), volume.expand_as(z).reshape(-1)


CASES = {
    1: ([0.7], [0.4]),
    2: ([0.8, -0.3], [0.35, 0.6]),
    3: ([0.4, -0.3, 0.5], [0.4, 0.5, 0.6]),
}


def case(manifold, q):
    mean, std = (torch.tensor(v, dtype=torch.float64) for v in CASES[q])
    return manifold.from_tangent(mean), std


@pytest.mark.parametrize("q", [1, 2, 3])
def test_density_integrates_to_one(manifold, q):
    mean, std = case(manifold, q)
    x, volume = grid(manifold, q, 6.0, 300 if q < 3 else 120)
    mass = (wrapped_normal.log_prob(manifold, x, mean, std).exp() * volume).sum()
    assert mass.item() == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_samples_have_the_moments_they_should(manifold, q, generator):
    mean, std = case(manifold, q)
    x = wrapped_normal.sample(manifold, mean, std, 200_000, generator=generator)
    v = manifold.to_frame(mean, manifold.log_map(mean.expand_as(x), x))
    assert torch.allclose(v.mean(0), torch.zeros(q, dtype=torch.float64), atol=5e-3)
    assert torch.allclose(v.std(0), std, rtol=5e-3)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_entropy_equals_the_integral(manifold, q):
    mean, std = case(manifold, q)
    x, volume = grid(manifold, q, 6.0, 300 if q < 3 else 120)
    log_q = wrapped_normal.log_prob(manifold, x, mean, std)
    brute = -(log_q.exp() * log_q * volume).sum().item()
    assert wrapped_normal.entropy(manifold, std).item() == pytest.approx(brute, abs=5e-3)


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.8, 1.0, 2.0])
def test_kl_equals_the_integral(manifold, q, scale):
    mean, std = case(manifold, q)
    x, volume = grid(manifold, q, 6.0, 300 if q < 3 else 120)
    log_q = wrapped_normal.log_prob(manifold, x, mean, std)
    origin = manifold.origin(q)
    log_p = wrapped_normal.log_prob(manifold, x, origin, torch.full((q,), scale).double())
    brute = (log_q.exp() * (log_q - log_p) * volume).sum().item()
    assert wrapped_normal.kl_to_prior(manifold, mean, std, scale).item() == pytest.approx(
        brute, abs=5e-3
    )


def test_kl_is_zero_only_at_the_prior_and_grows_with_the_radius(manifold):
    std = torch.full((2,), 0.7, dtype=torch.float64)
    origin = manifold.origin(2)
    assert wrapped_normal.kl_to_prior(manifold, origin, std, 0.7).item() == pytest.approx(
        0, abs=1e-12
    )
    radii = torch.linspace(0, 4, 9, dtype=torch.float64)
    means = manifold.from_tangent(torch.stack([radii, torch.zeros_like(radii)], -1))
    divergence = wrapped_normal.kl_to_prior(manifold, means, std.expand(9, 2), 0.7)
    assert (divergence.diff() > 0.05).all()
    for other in (0.5, 0.9):
        value = wrapped_normal.kl_to_prior(manifold, origin, std * other / 0.7, 0.7)
        assert value > 0.01
    # the paper's does not see the mean
    assert wrapped_normal.kl_of_the_paper(std, 0.7).item() == pytest.approx(0, abs=1e-12)


def test_nodes_of_the_small_rules_find_the_same_kl():
    mean, std = case(HYPERBOLIC, 2)
    for zeta, weights in (
        wrapped_normal.unscented(2, like=std),
        wrapped_normal.gauss_hermite(2, 3, like=std),
    ):
        nodes = wrapped_normal.points(HYPERBOLIC, mean, std, zeta)
        value = wrapped_normal.kl_from_nodes(HYPERBOLIC, nodes, std, zeta, weights, 1.0)
        truth = wrapped_normal.kl_to_prior(HYPERBOLIC, mean, std, 1.0)
        assert value.item() == pytest.approx(truth.item(), abs=5e-3)


@pytest.mark.parametrize("q", [1, 2, 3, 5])
def test_gradients_of_placed_points_agree_with_autograd(manifold, q, normal):
    mean, std = manifold.from_tangent(normal(5, 1, q)), 0.3 * normal(5, 1, q).exp()
    zeta = normal(4, q)
    zeta[0] = 0.0
    weights = normal(5, 4)
    leaves = [torch.zeros(5, 1, q, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    target = manifold.from_tangent(normal(q))
    moved = manifold.exp_map(mean, manifold.from_frame(mean, leaves[0]))
    x = wrapped_normal.points(manifold, moved, std * leaves[1].exp(), zeta)
    (weights * manifold.distance(x, target.expand_as(x))).sum().backward()

    x = x.detach()
    away = -manifold.to_frame(x, manifold.log_map(x, target.expand_as(x)))
    frame = weights[..., None] * away / manifold.distance(x, target.expand_as(x))[..., None]
    v = std * zeta
    by_mean, by_v = manifold.displaced_gradient(mean, v, frame)
    assert torch.allclose(by_mean.sum(1, keepdim=True), leaves[0].grad, rtol=1e-6, atol=1e-7)
    assert torch.allclose((by_v * v).sum(1, keepdim=True), leaves[1].grad, rtol=1e-6, atol=1e-7)


def test_to_tangent_undoes_from_tangent(manifold, normal):
    a = torch.cat([3 * normal(20, 2), torch.zeros(1, 2).double(), 1e-9 * normal(3, 2)])
    assert torch.allclose(manifold.to_tangent(manifold.from_tangent(a)), a, rtol=1e-9)


@pytest.mark.parametrize("q", [1, 2, 3, 5])
def test_rules_integrate_polynomials(q):
    like = torch.zeros(1, dtype=torch.float64)
    rules = [wrapped_normal.unscented(q, like=like), wrapped_normal.gauss_hermite(q, 3, like=like)]
    for zeta, weights in rules:
        assert (weights > 0).all()
        assert weights.sum().item() == pytest.approx(1)
        assert torch.allclose(weights @ zeta, torch.zeros(q).double(), atol=1e-14)
        second = torch.einsum("h,hi,hj->ij", weights, zeta, zeta)
        assert torch.allclose(second, torch.eye(q).double(), atol=1e-12)
    if q <= 2:
        for zeta, weights in rules:
            assert torch.allclose(weights @ zeta**4, torch.full((q,), 3.0).double())


def test_log_stretch_and_squared_radius_are_smooth_at_zero():
    r = torch.logspace(-6, 2, 200, dtype=torch.float64)
    direct = r + torch.log1p(-torch.exp(-2 * r)) - torch.log(2 * r)
    far = r > 0.05
    assert torch.allclose(HYPERBOLIC.log_stretch(r**2)[far], direct[far], rtol=1e-9, atol=1e-12)
    assert torch.allclose(HYPERBOLIC.log_stretch(r**2)[~far], r[~far] ** 2 / 6, rtol=1e-4)
    slope = (r / torch.tanh(r) - 1) / r**2
    assert torch.allclose(HYPERBOLIC.log_stretch_slope(r**2)[far], slope[far], rtol=1e-9)
    assert torch.allclose(HYPERBOLIC.log_stretch_slope(r[~far] ** 2), 1 / 3 - r[~far] ** 2 / 45)
    x = HYPERBOLIC.from_tangent(r[:150, None])
    assert torch.allclose(HYPERBOLIC.squared_radius(x), r[:150] ** 2, rtol=1e-9)
    zero = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    HYPERBOLIC.squared_radius(HYPERBOLIC.from_tangent(zero)).sum().backward()
    assert torch.equal(zero.grad, torch.zeros(3, 2).double())
    assert torch.equal(FLAT.log_stretch(torch.ones(3)), torch.zeros(3))


@pytest.mark.parametrize("q", [1, 2, 3, 5])
def test_moments_of_distances_agree_with_draws(q, normal):
    """With full covariances, from places far away, near, and in the middle of the distribution."""
    gaps = torch.tensor([0.0, 0.05, 0.2, 1.0, 3.0], dtype=torch.float64)
    mean = HYPERBOLIC.from_tangent(gaps[:, None] * torch.eye(q, dtype=torch.float64)[0])
    factors = 0.2 * normal(5, q, q) + 0.05 * torch.eye(q, dtype=torch.float64)
    place = HYPERBOLIC.origin(q)
    first, std = wrapped_normal.distance_moments(HYPERBOLIC, place, mean, factors @ factors.mT)
    v = normal(60_000, 5, q).unsqueeze(-2) @ factors.mT
    draws = HYPERBOLIC.distance(place, HYPERBOLIC.displaced(mean, v.squeeze(-2)))
    assert torch.allclose(first, draws.mean(0), rtol=0.02)
    assert torch.allclose(std, draws.std(0), rtol=0.03)


def test_moments_of_distances_without_spread():
    mean = HYPERBOLIC.from_tangent(torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64))
    none = torch.zeros(2, 2, 2, dtype=torch.float64)
    first, std = wrapped_normal.distance_moments(HYPERBOLIC, HYPERBOLIC.origin(2), mean, none)
    assert torch.allclose(first, torch.tensor([0.0, 5.0**0.5], dtype=torch.float64))
    assert torch.equal(std, torch.zeros(2, dtype=torch.float64))
