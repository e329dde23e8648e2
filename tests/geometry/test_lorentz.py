"""The Lorentz model against mpmath, and its own laws as properties."""

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hgplvm.geometry import lorentz

mpmath.mp.dps = 60


def exact_distance(x, y):
    """Distance of the points with these space parts, in 60 digits."""
    a = [mpmath.mpf(v) for v in x[1:].tolist()]
    b = [mpmath.mpf(v) for v in y[1:].tolist()]
    time_gap = mpmath.sqrt(1 + sum(v * v for v in a)) - mpmath.sqrt(1 + sum(v * v for v in b))
    chord = sum((v - w) ** 2 for v, w in zip(a, b, strict=True)) - time_gap**2
    return 2 * mpmath.asinh(mpmath.sqrt(chord) / 2)


def pair(q, radius, distance, kind, seed):
    """Two points: the first at this radius, the second at this distance in some direction."""
    generator = torch.Generator().manual_seed(seed)
    u, v = torch.nn.functional.normalize(
        torch.randn(2, q, generator=generator, dtype=torch.float64), dim=1
    )
    v = {"any": v, "outward": u, "inward": -u}[kind]
    x = lorentz.from_tangent(radius * u)
    return x, lorentz.exp_map(x, lorentz.from_frame(x, distance * v))


RADII = [0.0, 1e-300, 1e-12, 1e-6, 0.1, 1.0, 3.0, 6.0, 9.0, 12.0]
DISTANCES = [1e-9, 1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 30.0]


@pytest.mark.parametrize("q", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["any", "outward", "inward"])
def test_distance_agrees_with_mpmath(q, kind):
    for seed, radius in enumerate(RADII):
        for distance in DISTANCES:
            x, y = pair(q, radius, distance, kind, seed)
            truth = exact_distance(x, y)
            for value in (
                lorentz.distance(x, y),
                lorentz.pairwise_distance(x[None], y[None])[0, 0],
            ):
                error = abs(mpmath.mpf(value.item()) - truth)
                assert error <= 1e-10 * truth, (radius, distance, float(error / truth))


@pytest.mark.parametrize("q", [1, 2, 5])
def test_pair_chords_are_as_exact_as_the_points(q):
    """The fast chords of the objectives: an absolute error of ε e^r in d, and 0 for equal rows."""
    for seed, radius in enumerate(RADII):
        for distance in DISTANCES[:-1]:
            x, y = pair(q, radius, distance, "any", seed)
            features = lorentz.pair_features(torch.stack([x, y]))
            chords = lorentz.pair_squared_chord(features, features)
            value = lorentz.distance_from_chord(chords[0, 1]).item()
            furthest = math.acosh(max(x[0].item(), y[0].item()))
            truth = exact_distance(x, y)
            assert abs(value - truth) <= 1e-15 * math.exp(furthest) * 4 + 1e-14 * truth
            assert chords[0, 0] == 0
            assert chords[1, 1] == 0


def test_distance_in_float32():
    x, y = pair(2, 2.0, 0.5, "any", 0)
    value = lorentz.distance(x.float(), y.float())
    assert value.dtype == torch.float32
    assert abs(value.item() - 0.5) < 1e-5


points = st.lists(st.floats(-4, 4, allow_nan=False), min_size=2, max_size=2).map(
    lambda v: lorentz.from_tangent(torch.tensor(v, dtype=torch.float64))
)
vectors = st.lists(st.floats(-3, 3, allow_nan=False), min_size=2, max_size=2).map(
    lambda v: torch.tensor(v, dtype=torch.float64)
)


def close(a, b, tolerance=1e-9):
    scale = max(1.0, b.abs().max().item())
    return (a - b).abs().max().item() <= tolerance * scale


@given(points)
def test_points_are_on_the_sheet(x):
    assert abs(lorentz.inner(x, x).item() + 1) <= 1e-14 * x[0].item() ** 2


@given(points, points, points)
def test_distance_is_a_metric(x, y, z):
    assert lorentz.distance(x, x) == 0
    assert lorentz.distance(x, y) == lorentz.distance(y, x)
    assert lorentz.distance(x, z) <= lorentz.distance(x, y) + lorentz.distance(y, z) + 1e-9


@given(points, points)
def test_log_undoes_exp(x, y):
    v = lorentz.log_map(x, y)
    assert abs(lorentz.inner(x, v).item()) <= 1e-11 * x[0].item() ** 2
    back = lorentz.exp_map(x, v)
    # as far as the coordinates of a point at this radius can say
    assert lorentz.distance(back, y) <= 1e-13 * max(x[0], y[0]) ** 2


@given(points, vectors)
def test_exp_moves_by_the_length_of_the_vector(x, a):
    y = lorentz.exp_map(x, lorentz.from_frame(x, a))
    length = torch.linalg.vector_norm(a)
    assert abs(lorentz.distance(x, y) - length) <= 1e-11 * y[0]
    assert close(lorentz.to_frame(x, lorentz.log_map(x, y)), a, 1e-11 * x[0].item() * y[0].item())


@given(points, vectors, vectors)
def test_the_frame_is_orthonormal(x, a, b):
    v, w = lorentz.from_frame(x, a), lorentz.from_frame(x, b)
    assert abs(lorentz.inner(x, v).item()) <= 1e-12 * x[0].item() ** 2
    assert abs(lorentz.inner(v, w).item() - torch.dot(a, b).item()) <= 1e-11 * x[0].item() ** 2
    assert close(lorentz.to_frame(x, v), a, 1e-12 * x[0].item())


@given(points, points, vectors, vectors)
def test_parallel_transport_is_an_isometry(x, y, a, b):
    v, w = lorentz.from_frame(x, a), lorentz.from_frame(x, b)
    carried_v, carried_w = (lorentz.parallel_transport(x, y, t) for t in (v, w))
    scale = (x[0] * y[0]).item() ** 2
    assert abs(lorentz.inner(y, carried_v).item()) <= 1e-12 * scale
    assert abs((lorentz.inner(carried_v, carried_w) - torch.dot(a, b)).item()) <= 1e-11 * scale
    assert close(lorentz.parallel_transport(y, x, carried_v), v, 1e-11 * scale)


@given(points, points)
def test_transport_carries_the_geodesic_along_itself(x, y):
    forward = lorentz.parallel_transport(x, y, lorentz.log_map(x, y))
    assert close(forward, -lorentz.log_map(y, x), 1e-11 * (x[0] * y[0]).item() ** 2)


@given(points, vectors)
def test_projection_to_the_tangent_space(x, a):
    v = torch.cat([a[:1], a])
    tangent = lorentz.project_tangent(x, v)
    assert abs(lorentz.inner(x, tangent).item()) <= 1e-11 * x[0].item() ** 3
    assert close(lorentz.project_tangent(x, tangent), tangent, 1e-10 * x[0].item() ** 2)


@given(points, points, points)
def test_boosts_are_isometries_that_move_the_root_to_the_origin(root, x, y):
    moved = lorentz.recenter(torch.stack([root, x, y]), root)
    assert torch.equal(moved[0], lorentz.origin(2))
    scale = (root[0] * torch.maximum(x[0], y[0])).item()
    assert abs(lorentz.distance(moved[1], moved[2]) - lorentz.distance(x, y)) <= 1e-12 * scale**2
    assert close(x @ lorentz.boost_to_origin(root), moved[1], 1e-11 * scale)


def test_the_boost_carries_the_frame_to_the_origin(normal):
    x, a = lorentz.from_tangent(normal(5, 3)), normal(5, 3)
    carried = (lorentz.from_frame(x, a).unsqueeze(-2) @ lorentz.boost_to_origin(x)).squeeze(-2)
    assert close(carried[:, 1:], a, 1e-12)
    assert carried[:, 0].abs().max() < 1e-12


def test_frechet_mean_of_a_symmetric_set_is_its_centre(normal):
    centre = lorentz.from_tangent(normal(3))
    v = lorentz.from_frame(centre, normal(20, 3))
    x = torch.cat([lorentz.exp_map(centre, v), lorentz.exp_map(centre, -v)])
    assert lorentz.distance(lorentz.frechet_mean(x), centre) < 1e-12


@pytest.mark.parametrize("spread", [1e-9, 1.0, 5.0, 9.0])
def test_frechet_mean_has_a_zero_gradient(spread, normal):
    x = lorentz.from_tangent(spread * normal(50, 2))
    weights = torch.linspace(0.1, 2.0, 50, dtype=torch.float64)
    mean = lorentz.frechet_mean(x, weights)
    gradient = (weights / weights.sum()) @ lorentz.to_frame(mean, lorentz.log_map(mean, x))
    assert gradient.norm() <= 1e-9 * max(spread, 1e-6)


def test_frechet_mean_of_coincident_and_of_single_points(normal):
    x = lorentz.from_tangent(normal(1, 2))
    assert lorentz.distance(lorentz.frechet_mean(x), x[0]) < 1e-12
    assert lorentz.distance(lorentz.frechet_mean(x.expand(7, -1)), x[0]) < 1e-12


@pytest.mark.parametrize(("radius", "dtype"), [(20.0, torch.float64), (10.0, torch.float32)])
def test_frechet_mean_far_out(radius, dtype):
    x = lorentz.from_tangent(torch.tensor([[radius, 0.0]], dtype=dtype)).expand(5, -1)
    assert lorentz.distance(lorentz.frechet_mean(x), x[0]) < 0.1


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [float("nan"), 1.0]])
def test_frechet_mean_refuses_weights_without_a_mean(weights, normal):
    with pytest.raises(ValueError, match="must not be negative, nor all zero"):
        lorentz.frechet_mean(lorentz.from_tangent(normal(2, 2)), torch.tensor(weights).double())


def test_canonical_pose_undoes_rotations_and_reflections(normal):
    a = normal(60, 3) * torch.tensor([3.0, 2.0, 1.0]) + normal(60, 3).square()
    x = lorentz.from_tangent(0.3 * a)
    turn = torch.linalg.qr(normal(3, 3)).Q
    turned = lorentz.rotate(x, turn)
    poses = [lorentz.rotate(p, lorentz.canonical_rotation(p)) for p in (x, turned)]
    assert close(poses[0], poses[1], 1e-10)
    spread = lorentz.to_frame(o := lorentz.origin(3), lorentz.log_map(o, poses[0])).square().sum(0)
    assert spread[0] > spread[1] > spread[2]


def test_project_pulls_points_back_along_their_ray(normal):
    x = lorentz.from_tangent(5.0 * normal(30, 3))
    capped = lorentz.project(x, 4.0)
    radius = torch.arccosh(x[:, 0])
    assert torch.allclose(torch.arccosh(capped[:, 0]), radius.clamp_max(4.0), rtol=1e-6)
    assert torch.allclose(
        torch.nn.functional.normalize(capped[:, 1:]), torch.nn.functional.normalize(x[:, 1:])
    )


# --- no NaN ---------------------------------------------------------------------------------

AWKWARD = lorentz.from_tangent(
    torch.tensor(
        [
            [0.0, 0.0],
            [1e-300, 0.0],
            [1e-160, 1e-160],
            [1e-8, 0.0],
            [1.0, 0.0],
            [1.0, 1e-12],
            [20.0, 0.0],
            [0.0, -40.0],
            [300.0, 0.0],
            [1e5, 1e5],
            [1e300, 0.0],
        ],
        dtype=torch.float64,
    )
)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_awkward_points_give_finite_results(dtype):
    x = lorentz.project(AWKWARD.to(dtype).nan_to_num(posinf=1e38))
    a = torch.tensor([0.3, -0.2], dtype=dtype)
    results = [
        x,
        lorentz.pairwise_distance(x),
        lorentz.log_map(x, x),
        lorentz.log_map(x.unsqueeze(1), x),
        lorentz.recenter(x.unsqueeze(1), x),
        lorentz.squared_radius(x),
        lorentz.log_stretch(lorentz.squared_radius(x)),
        lorentz.exp_map(x, lorentz.from_frame(x, a)),
        lorentz.exp_map(x[:6], 1e4 * lorentz.from_frame(x[:6], a)),
        lorentz.to_chart(x),
        lorentz.from_chart(lorentz.to_chart(x)),
        lorentz.frechet_mean(x[:6]),
        lorentz.pair_squared_chord(lorentz.pair_features(x), lorentz.pair_features(x)),
    ]
    for result in results:
        assert torch.isfinite(result).all()


@pytest.mark.parametrize("function", [lorentz.distance, lorentz.pairwise_distance])
def test_gradients_are_finite_and_zero_at_coincident_points(function):
    for flip in (1.0, -1.0):  # coincident, and on opposite sides
        x = AWKWARD.clone().requires_grad_()
        y = (AWKWARD * torch.tensor([1.0, flip, flip])).requires_grad_()
        function(x, y).sum().backward()
        assert torch.isfinite(x.grad).all()
        assert torch.isfinite(y.grad).all()
    z = AWKWARD[4:5].clone().requires_grad_()
    function(z, z.detach()).sum().backward()
    assert z.grad.abs().max() == 0


def test_gradient_of_distance_is_a_unit_vector_also_at_the_origin(normal):
    y = lorentz.from_tangent(normal(2))
    for radius in (0.0, 1e-9, 1.0, 5.0):
        x = lorentz.from_tangent(torch.tensor([radius, 0.0], dtype=torch.float64)).requires_grad_()
        lorentz.distance(x, y).backward()
        gradient = torch.cat([-x.grad[:1], x.grad[1:]])  # raise the index
        assert abs(lorentz.inner(gradient, gradient).item() - 1) < 1e-9
        away = -lorentz.log_map(x, y).detach() / lorentz.distance(x, y).item()
        assert close(gradient, away, 1e-9)


def test_derivatives_of_distances_pass_gradcheck(normal):
    a, b = normal(4, 2).requires_grad_(), normal(4, 2).requires_grad_()

    def paired(a, b):
        return lorentz.distance(lorentz.from_tangent(a), lorentz.from_tangent(b))

    def crossed(a, b):
        return lorentz.pairwise_distance(lorentz.from_tangent(a), lorentz.from_tangent(b))

    for function in (paired, crossed):
        assert torch.autograd.gradcheck(function, (a, b))
        assert torch.autograd.gradgradcheck(function, (a, b))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_the_gpu_agrees_with_the_cpu(normal):
    x = lorentz.from_tangent(2 * normal(50, 3))
    there = lorentz.pairwise_distance(x.cuda())
    assert there.is_cuda
    assert torch.allclose(there.cpu(), lorentz.pairwise_distance(x), rtol=1e-12, atol=1e-14)
    mean = lorentz.frechet_mean(x.cuda()).cpu()
    assert torch.allclose(mean, lorentz.frechet_mean(x), rtol=1e-10)
