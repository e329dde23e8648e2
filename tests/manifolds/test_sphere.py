"""The sphere where it is awkward: antipodes, points that cancel, single precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import hgplvm
from hgplvm import SphericalGPLVM
from hgplvm.manifolds import Sphere

SPHERE = Sphere()


def test_distances_against_the_angle(normal):
    x, y = (SPHERE.project(normal(50, 3)) for _ in range(2))
    angle = torch.acos((x * y).sum(1).clamp(-1, 1))
    assert torch.allclose(SPHERE.distance(x, y), angle, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_charts_and_frames_are_finite_everywhere(dtype):
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1e15, 1.0], [1e-30, 0.0]], dtype=dtype)
    x = SPHERE.from_chart(points)
    assert torch.allclose(torch.linalg.vector_norm(x, dim=1), torch.ones(4, dtype=dtype))
    antipode = -SPHERE.origin(2, dtype=dtype)
    every = torch.cat([x, antipode[None]])
    assert torch.isfinite(SPHERE.to_chart(every)).all()
    assert SPHERE.to_chart(antipode)[0] > 1e10
    assert torch.isfinite(SPHERE.log_map(every[:, None], every[None])).all()


def test_the_way_to_the_antipode_is_one_of_the_shortest():
    x = SPHERE.from_chart(torch.tensor([0.4, -0.2], dtype=torch.float64))
    vector = SPHERE.log_map(x, -x)
    assert torch.linalg.vector_norm(vector).item() == pytest.approx(math.pi)
    assert SPHERE.distance(SPHERE.exp_map(x, vector), -x) < 1e-6
    middle = SPHERE.geodesic(x, -x, torch.tensor([0.5], dtype=torch.float64))
    assert SPHERE.distance(middle, x).item() == pytest.approx(math.pi / 2)


def test_points_that_cancel_have_a_mean_on_the_sphere():
    angle = torch.arange(4, dtype=torch.float64) * (math.pi / 2)
    x = torch.stack([torch.zeros(4).double(), angle.cos(), angle.sin()], dim=1)
    for mean in (SPHERE.weighted_mean(x, torch.ones(4).double()), SPHERE.frechet_mean(x)):
        assert torch.linalg.vector_norm(mean).item() == pytest.approx(1.0)


@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-6, 1e-3])
def test_isometries_keep_distances_with_a_root_near_the_antipode(gap, normal):
    x = SPHERE.project(normal(20, 3))
    root = SPHERE.project(torch.tensor([-1.0, gap, 0.0], dtype=torch.float64))
    moved = SPHERE.recenter(x, root)
    before, after = (SPHERE.pairwise_distance(p) for p in (x, moved))
    assert torch.allclose(before, after, atol=1e-7)
    assert SPHERE.distance(SPHERE.recenter(root, root), SPHERE.origin(2)) < 1e-7
    assert SPHERE.distance(SPHERE.uncenter(moved, root), x).max() < 1e-6


def test_a_circle_is_embedded_as_one_and_the_model_does_everything(tmp_path):
    angle = np.linspace(0.0, 2.0 * np.pi, 60, endpoint=False)
    shifts = np.linspace(0.0, 5.5, 12)
    data = np.cos(angle[:, None] - shifts)
    model = SphericalGPLVM(random_state=0, max_iter=30).fit(data)
    assert model.sphere_.shape == (60, 3)
    assert np.allclose(np.linalg.norm(model.sphere_, axis=1), 1.0)
    neighbours = model.distances()[np.arange(60), (np.arange(60) + 1) % 60]
    assert neighbours.max() < 0.2 * model.distances().max()
    new = np.cos(angle[:5, None] + 0.05 - shifts)
    found, std = model.transform(new, return_std=True)
    assert np.isfinite(found).all()
    assert (std > 0).all()
    assert np.square(model.inverse_transform(found) - new).mean() < 0.02
    assert "svg" in model._repr_html_()
    model.recenter(7).save(tmp_path / "model")
    again = hgplvm.load(tmp_path / "model")
    assert np.array_equal(again.transform(new), model.transform(new))
    assert np.allclose(again.embedding_[7], 0.0, atol=1e-9)


def test_a_start_of_ones_own_is_taken_as_it_is():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((12, 2))
    model = SphericalGPLVM(init=start)
    latents = model._given_latents(torch.from_numpy(rng.standard_normal((12, 3))))
    assert np.allclose(SPHERE.to_chart(latents).numpy(), start)


def test_smooth_kernels_are_refused_before_the_fit():
    with pytest.raises(ValueError, match="no positive definite form on sphere space"):
        SphericalGPLVM(kernel="heat").fit(np.eye(5))
