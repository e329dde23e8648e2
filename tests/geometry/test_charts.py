"""Charts: round trips, and the ball's metric against the distance itself."""

import pytest
import torch

from hgplvm import geometry


@pytest.mark.parametrize(
    ("there", "back"),
    [
        (geometry.lorentz_to_poincare, geometry.poincare_to_lorentz),
        (geometry.lorentz_to_klein, geometry.klein_to_lorentz),
    ],
)
def test_round_trips(there, back, normal):
    x = geometry.lorentz.from_tangent(2 * normal(100, 3))
    assert (torch.linalg.vector_norm(there(x), dim=1) < 1).all()
    assert torch.allclose(back(there(x)), x, rtol=1e-10)


@pytest.mark.parametrize("back", [geometry.poincare_to_lorentz, geometry.klein_to_lorentz])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_points_on_and_beyond_the_boundary_are_pulled_inside(back, dtype):
    p = torch.tensor([[1.0, 0.0], [3.0, -4.0], [0.0, 0.0]], dtype=dtype)
    x = back(p)
    assert torch.isfinite(x).all()
    assert torch.equal(x[2], geometry.origin(2, dtype=dtype))


def test_poincare_distance_formula(normal):
    """d = arcosh(1 + 2‖p-q‖²/((1-‖p‖²)(1-‖q‖²)))."""
    p, q = 0.5 * torch.tanh(normal(2, 40, 2))
    ratio = (p - q).square().sum(1) / ((1 - p.square().sum(1)) * (1 - q.square().sum(1)))
    expected = torch.arccosh(1 + 2 * ratio)
    ours = geometry.distance(geometry.poincare_to_lorentz(p), geometry.poincare_to_lorentz(q))
    assert torch.allclose(ours, expected, rtol=1e-9)


def test_the_metric_of_the_ball_has_the_square():
    """ds = 2/(1-‖p‖²) ‖dp‖, so ds² carries the factor squared: the paper leaves it out."""
    p = torch.tensor([0.6, 0.3], dtype=torch.float64)
    step = torch.tensor([1e-6, -2e-6], dtype=torch.float64)
    length = geometry.distance(*(geometry.poincare_to_lorentz(v) for v in (p, p + step)))
    expected = 2 / (1 - p.square().sum()) * step.norm()
    assert abs(length / expected - 1) < 1e-5


def test_klein_geodesics_are_straight(normal):
    x, y = geometry.lorentz.from_tangent(normal(2, 2))
    middle = geometry.exp_map(x, 0.3 * geometry.log_map(x, y))
    a, m, b = (geometry.lorentz_to_klein(v) for v in (x, middle, y))
    cross = (m - a)[0] * (b - a)[1] - (m - a)[1] * (b - a)[0]
    assert abs(cross) < 1e-14
