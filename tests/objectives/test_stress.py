"""The stress of a metric embedding."""

import pytest
import torch

from hgplvm.objectives import Parameters
from hgplvm.objectives.stress import StressObjective


def test_value_and_gradient(manifold, normal):
    x = manifold.from_tangent(normal(9, 2))
    targets, weights = normal(9, 9).abs(), normal(9, 9).abs()
    targets, weights = targets + targets.mT, weights + weights.mT
    objective = StressObjective(targets, weights, manifold)
    p = Parameters(x, {}, ())
    frame = torch.zeros(9, 2, dtype=torch.float64, requires_grad=True)
    moved = manifold.exp_map(x, manifold.from_frame(x, frame))
    above = torch.triu_indices(9, 9, 1)
    gap = (manifold.pairwise_distance(moved) - targets)[above[0], above[1]]
    stress = (weights[above[0], above[1]] * gap.square()).sum()
    stress.backward()
    objective.weights.fill_diagonal_(0.0)
    evaluation = objective.evaluate(p)
    assert evaluation.value == objective.value(p) == pytest.approx(-stress.item())
    assert torch.allclose(evaluation.gradient, -frame.grad.reshape(-1), rtol=1e-8)
    assert not objective.advance(p)


def test_true_distances_have_no_stress(manifold, normal):
    x = manifold.from_tangent(normal(9, 2))
    objective = StressObjective(manifold.pairwise_distance(x), torch.ones(9, 9).double(), manifold)
    evaluation = objective.evaluate(Parameters(x, {}, ()))
    assert evaluation.value == pytest.approx(0, abs=1e-20)
    assert evaluation.gradient.abs().max() < 1e-12


def test_tiles_do_not_change_the_result(manifold, normal):
    x, anchors = manifold.from_tangent(normal(20, 2)), manifold.from_tangent(normal(7, 2))
    p = Parameters(x, {}, ())
    for fixed in (None, anchors):
        shape = (20, 20 if fixed is None else 7)
        targets, weights = normal(*shape).abs(), normal(*shape).abs()
        if fixed is None:
            targets, weights = targets + targets.mT, weights + weights.mT
        objective = StressObjective(targets, weights, manifold, fixed)
        whole = objective.evaluate(p)
        for tile in ((6, 4), (3, 50), (50, 5)):
            objective.tile = tile
            assert objective.evaluate(p).value == pytest.approx(whole.value, rel=1e-12)
            assert torch.allclose(objective.evaluate(p).gradient, whole.gradient, rtol=1e-10)


def test_stress_against_anchors_is_that_of_each_row_alone(manifold, normal):
    x, anchors = manifold.from_tangent(normal(5, 2)), manifold.from_tangent(normal(7, 2))
    targets, weights = normal(5, 7).abs(), normal(5, 7).abs()
    objective = StressObjective(targets, weights, manifold, anchors)
    frame = torch.zeros(5, 2, dtype=torch.float64, requires_grad=True)
    moved = manifold.exp_map(x, manifold.from_frame(x, frame))
    stress = (weights * (manifold.pairwise_distance(moved, anchors) - targets).square()).sum()
    stress.backward()
    evaluation = objective.evaluate(Parameters(x, {}, ()))
    assert evaluation.value == pytest.approx(-stress.item())
    assert torch.allclose(evaluation.gradient, -frame.grad.reshape(-1), rtol=1e-8)
