"""What every manifold must satisfy, whatever its curvature. A new one joins `spaces.py`."""

import pickle

import numpy as np
import pytest
import torch

from hgplvm.geometry import lorentz
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._base import Manifold as Defaults

from .spaces import MANIFOLDS


@pytest.fixture(params=MANIFOLDS, ids=lambda m: m.name)
def manifold(request):
    return request.param


@pytest.fixture
def normal(manifold, normal):
    """Numbers that keep tangent vectors within half a turn of the sphere."""
    if manifold.diameter(torch.float64) > 4.0:
        return normal
    return lambda *shape: 0.4 * torch.tanh(normal(*shape))


@pytest.fixture(params=[1, 2, 3, 5], ids="Q={}".format)
def q(request):
    return request.param


def test_frames_and_points_have_the_shapes_that_the_models_expect(manifold: Manifold, q, normal):
    x = manifold.from_tangent(normal(6, q))
    assert x.shape == (6, manifold.ambient_dim(q))
    v = manifold.from_frame(x, normal(6, q))
    assert v.shape == x.shape
    assert manifold.to_frame(x, v).shape == (6, q)
    assert manifold.to_chart(x).shape == (6, q)
    assert torch.allclose(manifold.from_chart(manifold.to_chart(x)), x, rtol=1e-9)
    assert torch.allclose(manifold.project(x), x, rtol=1e-12)


def test_exp_and_log_are_inverse(manifold, q, normal):
    x, a = manifold.from_tangent(normal(6, q)), normal(6, q)
    y = manifold.exp_map(x, manifold.from_frame(x, a))
    assert torch.allclose(manifold.to_frame(x, manifold.log_map(x, y)), a, atol=1e-8)
    assert torch.allclose(manifold.distance(x, y), a.norm(dim=1), rtol=1e-9)


def test_displaced_points_are_exponentials_of_frame_vectors(manifold, q, normal):
    mean, v = manifold.from_tangent(normal(6, q)), normal(6, q)
    expected = manifold.exp_map(mean, manifold.from_frame(mean, v))
    assert torch.allclose(manifold.displaced(mean, v), expected, rtol=1e-9, atol=1e-10)


def test_tangent_space_at_the_origin_is_the_space_of_plain_arrays(manifold, q, normal):
    a = normal(6, q)
    origin = manifold.origin(q)
    assert torch.allclose(
        manifold.exp_map(origin, manifold.from_frame(origin, a)), manifold.from_tangent(a)
    )


def test_pair_chords_agree_with_the_exact_distance(manifold, q, normal):
    x, z = manifold.from_tangent(normal(7, q)), manifold.from_tangent(normal(5, q))
    chords = manifold.pair_squared_chord(manifold.pair_features(x), manifold.pair_features(z))
    distance = manifold.pairwise_distance(x, z)
    assert torch.allclose(manifold.distance_from_chord(chords), distance, rtol=1e-10)
    assert torch.allclose(manifold.squared_chord(x[:5], z), chords.diagonal(), rtol=1e-10)
    assert torch.equal(
        manifold.pair_squared_chord(
            manifold.pair_features(x), manifold.pair_features(x)
        ).diagonal(),
        torch.zeros(7, dtype=torch.float64),
    )


def test_direction_sums_are_the_gradient_of_a_sum_of_distances(manifold, q, normal):
    x, z, weights = (
        manifold.from_tangent(normal(6, q)),
        manifold.from_tangent(normal(4, q)),
        normal(6, 4),
    )
    squared = manifold.pair_squared_chord(manifold.pair_features(x), manifold.pair_features(z))
    ours = -manifold.direction_sums(x, z, weights / manifold.sine_from_chord(squared), squared)
    frame = torch.zeros(6, q, dtype=torch.float64, requires_grad=True)
    moved = manifold.exp_map(x, manifold.from_frame(x, frame))
    (weights * manifold.pairwise_distance(moved, z)).sum().backward()
    assert torch.allclose(ours, frame.grad, rtol=1e-8, atol=1e-9)


def test_isometries_keep_distances(manifold, q, normal):
    x = manifold.from_tangent(normal(8, q))
    before = manifold.pairwise_distance(x)
    moved = manifold.recenter(x, x[3])
    assert torch.allclose(moved[3], manifold.origin(q))
    assert torch.allclose(manifold.pairwise_distance(moved), before, rtol=1e-9)
    turned = manifold.rotate(x, manifold.canonical_rotation(x))
    assert torch.allclose(manifold.pairwise_distance(turned), before, rtol=1e-9)
    assert torch.allclose(manifold.frechet_mean(x[:1]), x[0])


def test_transport_is_an_isometry(manifold, q, normal):
    x, y = manifold.from_tangent(normal(2, 6, q))
    a, b = normal(2, 6, q)
    carried = [
        manifold.to_frame(y, manifold.parallel_transport(x, y, manifold.from_frame(x, t)))
        for t in (a, b)
    ]
    assert torch.allclose((carried[0] * carried[1]).sum(1), (a * b).sum(1), rtol=1e-8, atol=1e-9)


def test_a_weighted_mean_lies_between_the_points(manifold, q, normal):
    x = manifold.from_tangent(2.0 * normal(4, 5, q))
    weights = normal(4, 5).abs()
    mean = manifold.weighted_mean(x, weights)
    assert torch.allclose(manifold.project(mean), mean, rtol=1e-9)
    reach = manifold.distance(mean[:, None], x).amax(1)
    spread = manifold.distance(x[:, :, None], x[:, None]).amax((1, 2))
    assert (reach <= spread).all()
    # of one point that point, of two equal weights the middle, and isometries carry it along
    alone = manifold.weighted_mean(x[:, :1], weights[:, :1])
    assert torch.allclose(alone, x[:, 0], rtol=1e-9, atol=1e-12)
    pair = manifold.weighted_mean(x[:, :2], torch.ones(4, 2, dtype=torch.float64))
    halves = manifold.distance(pair[:, None], x[:, :2])
    assert torch.allclose(halves[:, 0], halves[:, 1], rtol=1e-7)
    assert torch.allclose(halves.sum(1), manifold.distance(x[:, 0], x[:, 1]), rtol=1e-7)
    root = manifold.from_tangent(normal(q))
    moved = manifold.weighted_mean(manifold.recenter(x, root), weights)
    assert manifold.distance(moved, manifold.recenter(mean, root)).max() < 1e-6


def test_geodesics_are_walked_at_equal_speed(manifold, normal):
    """Against ``Exp_x(t Log_x(y))``, where that has its digits."""
    x, y = (manifold.from_tangent(normal(8, 3)) for _ in range(2))
    share = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)[:, None, None]
    path = manifold.geodesic(x, y, share)
    assert torch.allclose(path, manifold.exp_map(x, share * manifold.log_map(x, y)), atol=1e-9)
    assert torch.allclose(path[0], x)
    assert torch.allclose(path[-1], y)
    steps = manifold.distance(path[1:], path[:-1])
    assert torch.allclose(steps, manifold.distance(x, y).expand(10, -1) / 10)


def test_geodesics_keep_their_digits_far_out():
    ends = lorentz.from_tangent(torch.tensor([[13.0, 0.0], [0.0, -13.0]], dtype=torch.float64))
    share = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)[:, None]
    path = lorentz.geodesic(ends[0], ends[1], share)
    steps = lorentz.distance(path[1:], path[:-1])
    assert torch.allclose(steps, lorentz.distance(*ends) / 100, rtol=1e-6)


def test_a_geodesic_without_length_stays(manifold, normal):
    x = manifold.from_tangent(normal(3, 2))
    assert torch.allclose(manifold.geodesic(x, x, torch.tensor(0.3)), x)


def test_the_gradient_of_displaced_points_agrees_with_differences(manifold, q, normal):
    mean, v, frame = manifold.from_tangent(normal(5, q)), normal(5, q), normal(5, q)
    by_mean, by_v = manifold.displaced_gradient(mean, v, frame)
    x = manifold.displaced(mean, v)

    def value(mean, v):
        """How far x moves along `frame`, row by row."""
        moved = manifold.log_map(x, manifold.displaced(mean, v))
        return (manifold.to_frame(x, moved) * frame).sum(1)

    for axis in torch.eye(q, dtype=torch.float64):
        step = 1e-5 * axis.expand(5, -1)
        rise = value(manifold.displaced(mean, step), v) - value(manifold.displaced(mean, -step), v)
        assert torch.allclose(rise / 2e-5, by_mean @ axis, atol=1e-6)
        rise = value(mean, v + step) - value(mean, v - step)
        assert torch.allclose(rise / 2e-5, by_v @ axis, atol=1e-6)


def test_volume_is_stretched_as_the_exponential_map_does(manifold, normal):
    """``log_stretch`` is the logarithm of the derivative across the ray, for Q = 2."""
    v = normal(6, 2)
    square = v.square().sum(1)
    across = torch.stack([-v[:, 1], v[:, 0]], dim=1) / square.sqrt()[:, None]
    step = 1e-5
    moved = manifold.distance(
        manifold.from_tangent(v + step * across), manifold.from_tangent(v - step * across)
    )
    assert torch.allclose(manifold.log_stretch(square), torch.log(moved / (2 * step)), atol=1e-6)
    ahead, behind = (manifold.log_stretch((1.0 + s) ** 2 * square) for s in (1e-6, -1e-6))
    slope = manifold.log_stretch_slope(square) * square
    assert torch.allclose(slope, (ahead - behind) / 2e-6, atol=1e-6)


def test_shorter_ways_agree_with_the_general_ones(manifold, q, normal):
    """What a space overrides is what the base class would compute."""
    x, y = (manifold.from_tangent(normal(6, q)) for _ in range(2))
    v, share = normal(6, q), torch.full((6, 1), 0.3, dtype=torch.float64)
    for name, arguments in {
        "distance": (x, y),
        "pairwise_distance": (x, y),
        "from_tangent": (v,),
        "to_tangent": (x,),
        "displaced": (x, v),
        "geodesic": (x, y, share),
        "squared_radius": (x,),
        "frechet_mean": (x,),
    }.items():
        ours = getattr(manifold, name)(*arguments)
        general = getattr(Defaults, name)(manifold, *arguments)
        assert torch.allclose(ours, general, rtol=1e-7, atol=1e-7), name
    frame = torch.full((6, q), 0.4, dtype=torch.float64)
    ours = manifold.displaced_gradient(x, v, frame)
    general = Defaults.displaced_gradient(manifold, x, v, frame)
    for a, b in zip(ours, general, strict=True):
        assert torch.allclose(a, b, atol=1e-7)


def test_search_coordinates_find_every_point_of_a_ball(manifold, q, normal):
    x, others = manifold.from_tangent(normal(4, q)), manifold.from_tangent(normal(200, q))
    coordinates = manifold.search_coordinates(others)
    if coordinates is None:
        pytest.skip("all pairs are compared")
    radius = torch.full((4,), 0.6, dtype=torch.float64)
    centre, reach = manifold.search_ball(x, radius)
    inside = manifold.pairwise_distance(x, others) <= 0.6
    within = torch.cdist(centre, coordinates) <= reach[:, None] + 1e-12
    assert bool((within | ~inside).all())


def test_manifolds_are_values(manifold):
    again = pickle.loads(pickle.dumps(manifold))
    assert again == manifold
    assert hash(again) == hash(manifold)
    assert sum(again == other for other in MANIFOLDS) == 1


def test_charts_say_what_is_wrong(manifold, q):
    assert manifold.chart_error(np.zeros((3, q))) is None
    error = manifold.chart_error(np.full((1, q), 2.0))
    assert (error is not None) == (manifold.name == "hyperbolic")


def test_heat_factors_agree_with_autograd(manifold):
    if manifold.heat_dimensions == 0:
        with pytest.raises(NotImplementedError):
            manifold.heat_factor(torch.ones(1))
        return
    d = torch.tensor([0.0, 1e-8, 1e-3, 9.9e-3, 1.01e-2, 1.0, 9.0, 700.0], dtype=torch.float64)
    d.requires_grad_()
    value, slope = manifold.heat_factor(d)
    if not manifold.curved:
        assert torch.equal(value, torch.ones_like(d))
        assert torch.equal(slope, torch.zeros_like(d))
        return
    (expected,) = torch.autograd.grad(value.sum(), d)
    assert torch.allclose(slope, expected, rtol=1e-6, atol=1e-12)
    assert value[0] == 1
