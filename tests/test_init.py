"""Starts: where they put the latents, and which σ and β⁻¹ go with them."""

import pytest
import torch
from sklearn.decomposition import PCA

from hgplvm import init
from hgplvm.geometry import lorentz
from hgplvm.kernels import Exponential, gram


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


def test_variogram_recovers_variance_and_noise(generator, normal):
    x = lorentz.from_tangent(2.0 * normal(150, 2))
    covariance = gram(Exponential(), lorentz, x, x, variance=2.0, length_scale=1.5)
    factor = torch.linalg.cholesky(covariance + 0.5 * torch.eye(150))
    data = factor @ normal(150, 4000)
    variance, noise = init.variogram(data, x, lorentz, 1.5, n_columns=4000)
    assert variance == pytest.approx(2.0, rel=0.05)
    assert noise == pytest.approx(0.5, rel=0.1)


def test_variogram_of_poor_data_is_positive(manifold, normal):
    for data in (torch.zeros(5, 2, dtype=torch.float64), normal(2, 3)):
        x = manifold.from_tangent(normal(len(data), 2))
        assert min(init.variogram(data, x, manifold, 1.0, n_columns=3)) > 0


def test_mds_start_takes_the_nugget_off_the_distances(manifold, normal, generator):
    """Two clusters in loud noise: without the nugget, within is half of between."""
    data = normal(40, 200)
    data[20:, 0] += 20.0
    data -= data.mean(0)
    x = init.mds_start(data, 2, manifold, median_distance=4.0, generator=generator)
    distance = manifold.pairwise_distance(x)
    assert distance[:20, :20].median() < 0.3 * distance[:20, 20:].median()
