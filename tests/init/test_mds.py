"""Metric embedding: targets, scales, landmarks, and what noise does to distances."""

import pytest
import torch

from hgplvm._init import mds, median_distance
from hgplvm.manifolds import Hyperbolic
from tests.memory import peak_bytes

HYPERBOLIC = Hyperbolic()


def embed(data, targets, *args, **options):
    """Embed rows by the targets between them."""
    unit = targets.between(data)
    return mds.embed(unit, targets.weights(unit), *args, **options)


def test_targets_are_squared_distances_less_the_nugget(normal):
    data = normal(40, 6)
    targets = mds.Targets.of(data)
    squared = torch.cdist(data, data).square()
    nearest = (squared + torch.diag(torch.full((40,), torch.inf))).amin(1).median()
    expected = ((squared - nearest).clamp_min(0) / targets.unit).fill_diagonal_(0)
    found = targets.between(data)
    assert torch.allclose(found, expected, atol=1e-10)
    assert torch.equal(found, found.mT)
    above = torch.triu_indices(40, 40, 1)
    assert found[above[0], above[1]].median() == pytest.approx(1.0)
    assert torch.allclose(targets.between(data[:5], data[5:]), found[:5, 5:], atol=1e-10)
    weights = targets.weights(found)
    assert weights.max() == pytest.approx((0.1 * found[above[0], above[1]].mean().item()) ** -2)
    assert torch.allclose(weights[found > 1], found[found > 1] ** -2)


@pytest.mark.parametrize("n", [2, 3])
def test_targets_of_few_rows(normal, n):
    assert mds.Targets.of(normal(n, 3)).unit > 0


def test_rows_that_are_all_the_same_have_no_targets():
    assert mds.Targets.of(torch.ones(10, 3, dtype=torch.float64)) is None


def test_points_of_the_space_come_back_at_every_scale(manifold, normal, generator):
    """Data whose squared distances are distances of the space have an embedding without stress."""
    x = manifold.from_tangent(normal(40, 2))
    distance = manifold.pairwise_distance(x)
    # distance is conditionally negative definite: its root is a distance between data rows
    centring = torch.eye(40) - 1 / 40
    values, vectors = torch.linalg.eigh(-0.5 * centring.double() @ distance @ centring.double())
    data = vectors * values.clamp_min(0).sqrt()
    targets = mds.Targets(0.0, 1.0, distance.mean().item())
    (found,) = embed(data, targets, [1.0], 2, manifold, generator=generator, tol=1e-9)
    assert torch.allclose(manifold.pairwise_distance(found), distance, atol=0.02)


def test_each_scale_is_met(manifold, normal, generator):
    data = normal(60, 3)
    targets = mds.Targets.of(data)
    scales = [0.5, 1.0, 3.0]
    found = list(embed(data, targets, scales, 2, manifold, generator=generator, tol=1e-6))
    medians = [median_distance(latents, manifold) for latents in found]
    # three dimensions do not fit into two, so the targets are not met, but their proportions are
    assert medians[1] / medians[0] == pytest.approx(2.0, rel=0.1)
    assert medians[2] / medians[1] == pytest.approx(3.0, rel=0.15)


def test_the_nugget_is_taken_off_the_distances(manifold, normal, generator):
    """Two clusters in loud noise: without the nugget, within is half of between."""
    data = normal(40, 200)
    data[20:, 0] += 20.0
    data -= data.mean(0)
    (x,) = embed(data, mds.Targets.of(data), [4.0], 2, manifold, generator=generator)
    distance = manifold.pairwise_distance(x)
    assert distance[:20, :20].median() < 0.3 * distance[:20, 20:].median()


def test_rows_placed_against_others_land_where_they_would_be_among_them(
    manifold, normal, generator
):
    data = normal(120, 2) @ normal(2, 10)
    targets = mds.Targets.of(data)
    (together,) = embed(data, targets, [1.5], 2, manifold, generator=generator, tol=1e-6)
    placed = mds.place(data[100:], data[:100], together[:100], targets, 1.5, manifold)
    offset = manifold.distance(placed, together[100:])
    assert offset.median() < 0.1 * 1.5
    alone = manifold.distance(
        together[targets.between(data[100:], data[:100]).argmin(1)], together[100:]
    )
    assert offset.median() < 0.7 * alone.median()  # better than the nearest anchor


@pytest.mark.slow
def test_placing_needs_memory_for_a_chunk_alone(monkeypatch, normal):
    anchors_data, data = normal(200, 4), normal(40_000, 4)
    anchors = HYPERBOLIC.from_tangent(normal(200, 2))
    targets = mds.Targets.of(anchors_data)
    monkeypatch.setattr(mds, "PLACING_STEPS", 1)
    monkeypatch.setattr(mds, "CHUNK_ENTRIES", 200 * 500)
    peak = peak_bytes(lambda: mds.place(data, anchors_data, anchors, targets, 1.0, HYPERBOLIC))
    assert peak < 0.25 * data.shape[0] * 200 * 8


def test_denoising_keeps_the_components_that_stand_out(normal):
    signal = 8.0 * normal(200, 3) @ torch.linalg.qr(normal(400, 3)).Q.mT
    data = signal + normal(200, 400)
    clean = mds.denoised(data, 2, data, n_columns=data.shape[1])
    assert clean.shape == (200, 3)
    truth, ours, raw = (torch.pdist(d) for d in (signal, clean, data))
    correlations = [torch.corrcoef(torch.stack([truth, d]))[0, 1] for d in (ours, raw)]
    assert correlations[0] > 0.97 > correlations[1]


def test_data_with_little_noise_are_left_as_they_are(normal):
    data = normal(200, 3) @ normal(3, 30) + 0.1 * normal(200, 30)
    assert mds.denoised(data, 2, data, n_columns=data.shape[1]) is None
    assert (
        mds.denoised(normal(200, 30), 2, normal(200, 30), n_columns=30) is None
    )  # nothing stands out


def test_rotation_to_fewer_columns_does_not_move_the_edge(normal):
    signal = 60.0 * torch.linalg.qr(normal(100, 4)).Q @ torch.linalg.qr(normal(2000, 4)).Q.mT
    data = signal + normal(100, 2000)
    rotated = torch.linalg.qr(data.mT, mode="r").R.mT
    assert mds.denoised(data, 2, data, n_columns=2000).shape[1] == 4
    assert mds.denoised(rotated, 2, rotated, n_columns=2000).shape[1] == 4


def test_targets_beyond_reach_are_cut(manifold, normal, generator):
    data = normal(30, 3)
    data[0] += 1e3
    targets = mds.Targets.of(data)
    (latents,) = embed(data, targets, [2.0], 2, manifold, generator=generator)
    placed = mds.place(data[:1], data[1:], latents[1:], targets, 2.0, manifold)
    far = mds._aims(torch.tensor([1e9], dtype=torch.float64), 2.0, manifold).item()
    assert far == (24.0 if manifold.curved else 2e9)
    assert torch.isfinite(latents).all()
    assert torch.isfinite(placed).all()
