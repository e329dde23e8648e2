"""Variogram and profile evidence: how well latents explain the data before a fit."""

import math

import pytest
import torch

from hgplvm import _init as init
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.objectives import ExactObjective, Parameters
from tests.gp import NOISE, gram, on

HYPERBOLIC = Hyperbolic()


def test_variogram_recovers_variance_and_noise(generator, normal):
    x = HYPERBOLIC.from_tangent(2.0 * normal(150, 2))
    covariance = gram(Exponential(), HYPERBOLIC, x, x, variance=2.0, length_scale=1.5)
    factor = torch.linalg.cholesky(covariance + 0.5 * torch.eye(150))
    data = factor @ normal(150, 4000)
    variance, noise = init.variogram(data, x, on(HYPERBOLIC), 1.5, n_columns=4000)
    assert variance == pytest.approx(2.0, rel=0.05)
    assert noise == pytest.approx(0.5, rel=0.1)


def test_variogram_of_poor_data_is_positive(manifold, normal):
    for data in (torch.zeros(5, 2, dtype=torch.float64), normal(2, 3)):
        x = manifold.from_tangent(normal(len(data), 2))
        assert min(init.variogram(data, x, on(manifold), 1.0, n_columns=3)) > 0


def test_the_variogram_keeps_to_a_floor_of_the_noise(normal):
    x = HYPERBOLIC.from_tangent(2.0 * normal(60, 2))
    covariance = gram(Exponential(), HYPERBOLIC, x, x, variance=2.0, length_scale=1.5)
    data = torch.linalg.cholesky(covariance + 1e-6 * torch.eye(60)) @ normal(60, 500)
    free = init.variogram(data, x, on(HYPERBOLIC), 1.5, n_columns=500)
    held = init.variogram(data, x, on(HYPERBOLIC), 1.5, n_columns=500, noise_floor=0.5)
    assert free[1] < 0.2
    assert held[1] == 0.5
    assert held[0] < free[0]


def test_profile_evidence_is_the_likelihood_at_its_parameters(manifold, normal):
    data, x = normal(30, 4), manifold.from_tangent(normal(30, 2))
    data -= data.mean(0)
    found = init.profile_evidence(data, x, on(manifold), [0.5, 2.0], noise_share=0.6, n_columns=4)
    values = {"variance": found.variance, "noise": found.noise, "length_scale": found.length_scale}
    logs = {name: torch.tensor(math.log(v), dtype=torch.float64) for name, v in values.items()}
    objective = ExactObjective(data, on(manifold), NOISE)
    assert found.evidence == pytest.approx(objective.value(Parameters(x, logs, ())) / data.numel())
    assert found.noise == pytest.approx(0.6 * data.square().mean().item())
    # what the model expects of a centred column
    distance = manifold.pairwise_distance(x)
    spread = 1.0 - torch.exp(-distance / found.length_scale).mean().item()
    expected = found.variance * spread + found.noise
    assert expected == pytest.approx(data.square().mean().item())


def test_profile_evidence_takes_the_best_length_scale(normal):
    x = HYPERBOLIC.from_tangent(2.0 * normal(80, 2))
    covariance = gram(Exponential(), HYPERBOLIC, x, x, variance=1.0, length_scale=0.7)
    data = torch.linalg.cholesky(covariance + 0.3 * torch.eye(80)) @ normal(80, 300)
    data -= data.mean(0)
    scales = [0.05, 0.7, 10.0]
    each = [
        init.profile_evidence(
            data, x, on(HYPERBOLIC), [s], noise_share=0.25, n_columns=300
        ).evidence
        for s in scales
    ]
    best = init.profile_evidence(data, x, on(HYPERBOLIC), scales, noise_share=0.25, n_columns=300)
    assert best.length_scale == 0.7
    assert best.evidence == max(each)


def test_rotated_data_have_the_same_evidence(normal):
    data, x = normal(10, 25), HYPERBOLIC.from_tangent(normal(10, 2))
    rotated = torch.linalg.qr(data.mT, mode="r").R.mT
    options = {"noise_share": 0.5, "n_columns": 25}
    a, b = (
        init.profile_evidence(d, x, on(HYPERBOLIC), [1.0], **options).evidence
        for d in (data, rotated)
    )
    assert a == pytest.approx(b, rel=1e-12)
