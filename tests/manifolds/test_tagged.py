"""Points that carry numbers: the space is as it was, and no step changes them."""

from __future__ import annotations

import pytest
import torch

from hgplvm.manifolds._neighbors import nearest_to
from hgplvm.manifolds._tagged import Tagged


@pytest.fixture
def space(manifold):
    return Tagged(manifold, 3)


def points(manifold, normal, n=8):
    return manifold.from_tangent(0.7 * normal(n, 2))


def test_steps_distances_and_frames_are_those_of_the_space(space, manifold, normal):
    x, y, v = points(manifold, normal), points(manifold, normal), normal(8, 2)
    tags = normal(8, 3)
    tagged, other = space.tagged(x, tags), space.tagged(y, 0.0 * tags)
    assert torch.equal(space.bare(tagged), x)
    assert torch.equal(space.tags(tagged), tags)
    assert space.n_components(tagged) == 2
    assert torch.allclose(space.pairwise_distance(tagged), manifold.pairwise_distance(x))
    assert torch.allclose(space.distance(tagged, other), manifold.distance(x, y))
    moved = space.displaced(tagged, v)
    assert torch.allclose(space.bare(moved), manifold.displaced(x, v))
    assert torch.equal(space.tags(moved), tags)
    step = space.from_frame(tagged, v)
    assert torch.allclose(space.to_frame(tagged, step), v)
    assert torch.equal(space.tags(space.exp_map(tagged, step)), tags)
    back = space.log_map(tagged, space.exp_map(tagged, step))
    assert torch.allclose(back, step, atol=1e-9)
    carried = space.parallel_transport(tagged, other, step)
    expected = manifold.parallel_transport(x, y, manifold.from_frame(x, v))
    assert torch.allclose(space.bare(carried), expected)
    root = manifold.from_tangent(normal(2))
    there = space.recenter(tagged, root)
    assert torch.allclose(space.uncenter(there, root), tagged, atol=1e-9)
    assert torch.equal(space.to_chart(tagged), manifold.to_chart(x))
    assert torch.equal(space.tags(space.inside(tagged)), tags)


def test_neighbours_do_not_see_tags(space, manifold, normal):
    x = points(manifold, normal, 30)
    tagged = space.tagged(x, 100.0 * normal(30, 3))
    assert torch.equal(nearest_to(space, tagged, tagged, 5), nearest_to(manifold, x, x, 5))


def test_one_tag_for_many_points(space, manifold, normal):
    x = points(manifold, normal)
    tag = torch.tensor([1.0, 0.0, 0.0])
    assert torch.equal(space.tags(space.tagged(x, tag)), tag.double().expand(8, 3))
    assert torch.equal(space.origin(2)[-3:], torch.zeros(3).double())
