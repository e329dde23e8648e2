"""Scales of residuals, by place and column."""

import numpy as np
import pytest
import torch

from hgplvm.objectives import residuals
from hgplvm.objectives.residuals import ResidualScale, residual_sites


def scale_of(manifold, x, z, observed=None):
    sites, rows, nearby = residual_sites(manifold, x)
    seen = None if observed is None else observed[rows]
    return ResidualScale.of(manifold, x[sites], nearby, z[rows], seen)


def held(z, scale, x):
    return ((z / scale.at(x).sqrt()).abs() <= residuals.HALF_WIDTH).double().mean().item()


def test_sites_stand_first_among_their_neighbours(manifold, normal, monkeypatch):
    monkeypatch.setattr(residuals, "SITES", 30)
    x = manifold.from_tangent(normal(80, 2))
    x[40:50] = x[40]  # rows at one place hide each other
    sites, rows, nearby = residual_sites(manifold, x)
    assert len(sites) == 30
    assert torch.equal(rows[nearby[:, 0]], sites)
    distance = manifold.pairwise_distance(x[sites], x)
    furthest = distance.gather(1, rows[nearby]).amax(1)
    twentieth = distance.sort(1).values[:, residuals.NEARBY - 1]
    assert torch.allclose(furthest, twentieth, atol=1e-12)


def test_columns_and_places_have_scales_of_their_own(manifold, normal):
    x = manifold.from_tangent(normal(900, 2))
    left = manifold.to_chart(x)[:, 0] < 0
    spread = torch.where(left[:, None], torch.tensor([3.0, 1.0]), torch.tensor([0.2, 1.0]))
    scale = scale_of(manifold, x, spread.double() * normal(900, 2))
    inner = manifold.from_chart(torch.tensor([[-0.6, 0.0], [0.6, 0.0]], dtype=torch.float64))
    s = scale.at(inner).sqrt()
    assert s[0, 0].item() == pytest.approx(3.0, rel=0.35)
    assert s[1, 0] < 0.6 * s[0, 0]  # drawn towards the column
    assert s[:, 1].tolist() == pytest.approx([1.0, 1.0], rel=0.25)


@pytest.mark.parametrize("kind", ["normal", "mostly nothing", "heavy"])
def test_ninety_percent_intervals_hold_about_as_many(manifold, kind, normal):
    x, new = manifold.from_tangent(normal(600, 2)), manifold.from_tangent(normal(300, 2))
    z = normal(900, 5)
    if kind == "mostly nothing":
        z = torch.where(normal(900, 5) > 1.2, z, 1e-3 * z)
    elif kind == "heavy":
        z = z.pow(3)
    scale = scale_of(manifold, x, z[:600])
    low, high = residuals.SHARES
    assert low - 0.03 <= held(z[600:], scale, new)
    assert held(z[600:], scale, new) <= high + 0.03


def test_normal_residuals_keep_their_variance(manifold, normal):
    x = manifold.from_tangent(normal(800, 2))
    scale = scale_of(manifold, x, 2.0 * normal(800, 4))
    assert scale.at(x).mean().item() == pytest.approx(4.0, rel=0.1)


def test_what_is_not_observed_does_not_count(manifold, normal):
    x, z = manifold.from_tangent(normal(200, 2)), normal(200, 3)
    observed = (normal(200, 3) > -0.5).double()
    wild = torch.where(observed > 0, z, torch.tensor(1e6, dtype=torch.float64))
    a, b = (scale_of(manifold, x, r, observed).squares for r in (z, wild))
    assert torch.equal(a, b)
    assert a.max() < 10


def test_constant_columns_and_two_rows_are_finite(manifold, normal):
    x = manifold.from_tangent(normal(2, 2))
    scale = scale_of(manifold, x, torch.zeros(2, 3, dtype=torch.float64))
    found = scale.at(manifold.from_tangent(normal(4, 2)))
    assert np.isfinite(found.numpy()).all()
    assert (found > 0).all()


def test_far_from_all_rows_a_scale_is_that_of_the_whole_column(manifold, normal):
    x = manifold.from_tangent(0.3 * normal(600, 2))
    left = manifold.to_chart(x)[:, 0] < 0
    spread = torch.where(left[:, None], torch.tensor([3.0]), torch.tensor([0.3])).double()
    scale = scale_of(manifold, x, spread * normal(600, 1))
    axis = torch.tensor([[-1.0, 0.0]], dtype=torch.float64)
    near, far = (scale.at(manifold.from_tangent(r * axis)).item() for r in (0.2, 2.9))
    whole = scale.squares.mean().item()
    assert near > 1.4 * whole
    assert far == pytest.approx(whole, rel=0.05)


def test_scales_change_smoothly_from_place_to_place(manifold, normal):
    """Without jumps where the nearest rows change."""
    x = manifold.from_tangent(0.5 * normal(300, 2))
    scale = scale_of(manifold, x, normal(300, 1).pow(3))
    along = torch.linspace(-1.2, 1.2, 4001, dtype=torch.float64)
    line = manifold.from_tangent(torch.stack([along, 0.1 * along], dim=1))
    found = scale.at(line)[:, 0]
    assert found.diff().abs().max() < 0.05 * (found.max() - found.min())


def test_one_site_and_rows_at_one_place(manifold, normal):
    x = manifold.from_tangent(normal(1, 2)).expand(5, -1)
    scale = scale_of(manifold, x, normal(5, 2))
    found = scale.at(torch.cat([x[:1], manifold.from_tangent(normal(3, 2))]))
    assert torch.isfinite(found).all()
    assert (found > 0).all()
