"""Random and principal component starts."""

import pytest
import torch
from sklearn.decomposition import PCA

from hgplvm import _init as init
from hgplvm._init import simple


def median_distance(manifold, x):
    n = len(x)
    above = torch.triu_indices(n, n, 1)
    return manifold.pairwise_distance(x)[above[0], above[1]].median().item()


def test_random_start_is_the_papers(manifold, generator):
    like = torch.zeros(1, dtype=torch.float32)
    x = init.random_start(500, 3, manifold, like=like, generator=generator)
    assert x.shape == (500, manifold.ambient_dim(3))
    assert x.dtype == torch.float32
    flat = manifold.to_frame(manifold.origin(3), x.double() - manifold.origin(3))
    assert flat.abs().max() <= 1e-3
    assert flat.abs().max() > 0.99e-3


def test_pca_start_has_the_directions_of_pca_and_the_distance_asked_for(
    manifold, normal, generator
):
    data = normal(80, 6) * torch.tensor([5.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    data -= data.mean(0)
    x = init.pca_start(data, 2, manifold, median_distance=1.5, generator=generator)
    assert median_distance(manifold, x) == pytest.approx(1.5, rel=0.01)
    o = manifold.origin(2)
    ours = manifold.to_frame(o, manifold.log_map(o, x))
    theirs = torch.from_numpy(PCA(2).fit_transform(data.numpy()))
    for a, b in zip(ours.T, theirs.T, strict=True):
        assert abs(torch.corrcoef(torch.stack([a, b]))[0, 1]) > 0.999


@pytest.mark.parametrize("case", ["few columns", "constant", "duplicates", "two rows"])
def test_pca_start_of_poor_data_has_distinct_finite_rows(manifold, case, normal, generator):
    data = {
        "few columns": normal(20, 1),
        "constant": torch.zeros(20, 4, dtype=torch.float64),
        "duplicates": normal(2, 4).repeat(10, 1),
        "two rows": normal(2, 4),
    }[case]
    x = init.pca_start(data, 3, manifold, median_distance=1.5, generator=generator)
    assert torch.isfinite(x).all()
    distance = manifold.pairwise_distance(x) + torch.eye(len(x))
    assert distance.min() > 0


@pytest.mark.parametrize("distance", [0.01, 1.0, 8.0])
def test_scaled_hits_the_median_distance(manifold, distance, normal):
    x = init.scaled(normal(60, 2), manifold, distance)
    assert median_distance(manifold, x) == pytest.approx(distance, rel=2e-3)


def test_scores_are_those_of_the_singular_value_decomposition(normal, generator):
    data = normal(30, 5)
    data -= data.mean(0)
    scores = simple.principal_scores(data, 2, generator=generator)
    left, values, _ = torch.linalg.svd(data, full_matrices=False)
    expected = left[:, :2] * values[:2]
    expected /= expected.square().mean().sqrt()
    for ours, theirs in zip(scores.T, expected.T, strict=True):
        assert torch.allclose(ours.abs(), theirs.abs(), atol=0.01)


def test_the_median_distance_is_that_of_a_sample(manifold, normal):
    x = manifold.from_tangent(normal(1001, 2))
    assert init.median_distance(x, manifold) == pytest.approx(median_distance(manifold, x), rel=0.1)


def test_scale_and_median_do_not_depend_on_the_order_of_the_rows(manifold, normal):
    tangents = 0.1 * normal(4000, 2)
    corners = torch.tensor([[5.0, 5.0], [-5.0, 5.0], [5.0, -5.0], [-5.0, -5.0]]).double()
    tangents += corners.repeat(1000, 1)  # every fourth row: a stride would see one cluster alone
    x = init.scaled(tangents, manifold, 2.0)
    distances = manifold.pairwise_distance(x[:400])
    assert 1.5 < distances.max() < 5.0
    assert init.median_distance(x, manifold) == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_rows_that_coincide_do_not_blow_the_others_up(manifold, share, normal):
    tangents = normal(300, 2)
    tangents[: int(300 * share)] = 0.0
    x = init.scaled(tangents + 1e-4 * normal(300, 2), manifold, 1.0)
    assert manifold.pairwise_distance(x).max() < 10.0
    assert init.median_distance(x, manifold) > 0.1
