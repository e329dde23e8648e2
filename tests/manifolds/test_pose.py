"""The isometry that users see an embedding through."""

import pytest
import torch

from hgplvm.manifolds import Hyperbolic, wrapped_normal
from hgplvm.manifolds._pose import Pose

HYPERBOLIC = Hyperbolic()


@pytest.mark.parametrize("center", ["mean", "none", 3])
def test_back_is_the_way_back(manifold, center, normal):
    x, other = (manifold.from_tangent(normal(20, 3)) for _ in range(2))
    pose = Pose.of(manifold, x, center)
    assert torch.allclose(pose.back(pose.points(other)), other, atol=1e-9)
    assert torch.allclose(pose.points(pose.back(other)), other, atol=1e-9)


def test_a_root_may_be_any_point(manifold, normal):
    x, root = manifold.from_tangent(normal(20, 2)), manifold.from_tangent(normal(1, 2))[0]
    pose = Pose.of(manifold, x, root)
    assert torch.allclose(pose.points(root[None]), manifold.origin(2)[None], atol=1e-12)
    row = Pose.of(manifold, x, x[4])
    assert torch.allclose(row.points(x), Pose.of(manifold, x, 4).points(x))


def test_none_leaves_points_alone(manifold, normal):
    x = manifold.from_tangent(normal(20, 2))
    assert torch.equal(Pose.of(manifold, x, "none").points(x), x)


def test_uncentring_undoes_recentring(manifold, normal):
    x, root = manifold.from_tangent(2 * normal(20, 2)), manifold.from_tangent(normal(1, 2))[0]
    assert torch.allclose(manifold.uncenter(manifold.recenter(x, root), root), x, atol=1e-9)
    assert torch.allclose(manifold.uncenter(manifold.origin(2), root), root, atol=1e-12)


def test_covariances_turn_with_the_frames(normal):
    """Against the spread, in the new frames, of points drawn in the old ones."""
    x = HYPERBOLIC.from_tangent(1.5 * normal(6, 2))
    std = torch.tensor([[0.02, 0.1]], dtype=torch.float64).expand(6, 2)
    pose = Pose.of(HYPERBOLIC, x, 2)
    generator = torch.Generator().manual_seed(0)
    draws = wrapped_normal.sample(HYPERBOLIC, x, std, 20000, generator=generator)
    moved = pose.points(x)
    frame = HYPERBOLIC.to_frame(moved, HYPERBOLIC.log_map(moved, pose.points(draws)))
    turned = pose.covariances(x, std.square().diag_embed())
    for point, expected in zip(frame.unbind(1), turned, strict=True):
        assert torch.allclose(point.T.cov(), expected, rtol=0.03, atol=3e-4)
