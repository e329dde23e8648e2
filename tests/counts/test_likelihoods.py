"""Likelihoods of counts, against scipy's distributions, differences and fine quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from hgplvm._counts import NegativeBinomial, Poisson
from hgplvm._counts.likelihoods import shrunk_dispersions

PHI = torch.tensor([0.05, 0.7, 3.0], dtype=torch.float64)
LIKELIHOODS = [Poisson(), NegativeBinomial(PHI)]
Y = torch.tensor([[0.0, 0.0, 0.0], [1.0, 3.0, 2.0], [7.0, 25.0, 400.0]], dtype=torch.float64)
ETA = torch.tensor([[-3.0, 0.1, 1.0], [0.2, 0.9, -1.0], [2.0, 3.5, 5.0]], dtype=torch.float64)
EVERY = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: x.name)


def log_probability(likelihood, y, eta):
    mu = np.exp(np.asarray(eta))
    if isinstance(likelihood, Poisson):
        return stats.poisson.logpmf(y, mu)
    shape = 1.0 / PHI.numpy()
    return stats.nbinom.logpmf(y, shape, shape / (shape + mu))


@EVERY
def test_values_and_constants_make_log_probabilities(likelihood):
    value, _, _ = likelihood.expected(Y, ETA, torch.zeros_like(ETA))
    row, column = np.nonzero(Y.numpy())
    found = value.numpy().copy()
    found[row, column] += likelihood.constants(Y.numpy()[row, column], column)
    assert np.allclose(found, log_probability(likelihood, Y.numpy(), ETA), atol=1e-10)


@EVERY
def test_slopes_are_derivatives(likelihood):
    step, none = 1e-5, torch.zeros_like(ETA)
    value = lambda eta: likelihood.expected(Y, eta, none)[0]  # noqa: E731
    slope = (value(ETA + step) - value(ETA - step)) / (2 * step)
    bend = -(value(ETA + step) - 2 * value(ETA) + value(ETA - step)) / step**2
    _, g, w = likelihood.expected(Y, ETA, none)
    assert torch.allclose(g, slope, rtol=1e-6, atol=1e-6)
    assert torch.allclose(likelihood.slope(Y, ETA), slope, rtol=1e-6, atol=1e-6)
    assert torch.allclose(w, bend, rtol=1e-3, atol=1e-3)
    assert (w > 0).all()


@EVERY
@pytest.mark.parametrize(("variance", "error"), [(0.01, 1e-6), (0.3, 0.02)])
def test_expectations_under_a_normal(likelihood, variance, error):
    """Three nodes, against two hundred; Poisson counts have a closed form."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = torch.from_numpy(weights / weights.sum())
    spread = torch.full_like(ETA, variance)
    eta = ETA + torch.from_numpy(nodes)[:, None, None] * spread.sqrt()
    fine = [likelihood.expected(Y, e, torch.zeros_like(ETA)) for e in eta]
    for i, found in enumerate(likelihood.expected(Y, ETA, spread)):
        expected = sum(w * part[i] for w, part in zip(weights, fine, strict=True))
        exact = isinstance(likelihood, Poisson)
        scale = 1.0 + expected.abs()
        assert ((found - expected).abs() / scale).max() < (1e-9 if exact else error)


@EVERY
def test_drawn_counts_have_the_mean_and_variance_they_say(likelihood):
    mean = np.full((200_000, 3), [0.3, 2.0, 9.0])
    drawn = likelihood.draw(mean, np.random.RandomState(0))
    variance = likelihood.count_variance(torch.from_numpy(mean[:1])).numpy()[0]
    assert np.allclose(drawn.mean(0), mean[0], rtol=0.03)
    assert np.allclose(drawn.var(0), variance, rtol=0.06)


@EVERY
def test_information_is_the_expected_curvature(likelihood):
    mean = torch.tensor([0.5, 2.0, 4.0], dtype=torch.float64)
    y = np.arange(4000.0)[:, None] * np.ones(3)
    eta = mean.log().expand(4000, 3)
    mass = np.exp(log_probability(likelihood, y, eta))
    _, _, w = likelihood.expected(torch.from_numpy(y), eta, torch.zeros(4000, 3).double())
    assert np.allclose((mass * w.numpy()).sum(0), likelihood.information(mean), rtol=1e-6)


def test_dispersions_of_rare_genes_are_drawn_to_the_common_one():
    rng = np.random.default_rng(0)
    phi = 0.3 * np.exp(0.5 * rng.standard_normal(400))
    mean = np.exp(rng.normal(-1.0, 2.0, 400))
    y = rng.poisson(mean * rng.standard_gamma(1 / phi, (300, 400)) * phi)
    excess = torch.from_numpy((np.square(y - mean) - mean).sum(0))
    squares = torch.from_numpy(300 * mean**2)
    found = shrunk_dispersions(excess, squares).numpy()
    plain = (excess / squares).clamp_min(0).numpy()
    assert 0.2 < np.median(found) < 0.4
    assert np.square(found - phi).mean() < 0.5 * np.square(plain - phi).mean()
    often = mean > 5
    assert np.corrcoef(np.log(found[often]), np.log(phi[often]))[0, 1] > 0.7


def test_dispersions_of_poisson_counts_vanish():
    y = np.random.default_rng(0).poisson(3.0, (2000, 50))
    excess = torch.from_numpy((np.square(y - 3.0) - 3.0).sum(0))
    assert shrunk_dispersions(excess, torch.full((50,), 2000 * 9.0).double()).max() < 0.02


@EVERY
def test_huge_rates_stay_finite(likelihood):
    eta = torch.full((1, 3), 500.0, dtype=torch.float64)
    for part in likelihood.expected(Y[:1], eta, torch.ones_like(eta)):
        assert torch.isfinite(part).all()
