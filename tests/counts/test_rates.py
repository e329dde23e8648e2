"""Rates of counts as functions of scores, against differences and integrals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hgplvm._counts import CountRows, NegativeBinomial, Poisson, RateModel

N, G, R = 9, 12, 2


@pytest.fixture(params=["poisson", "negative-binomial"])
def model(request, normal):
    likelihood = Poisson()
    if request.param != "poisson":
        likelihood = NegativeBinomial(0.4 * normal(G).exp())
    return RateModel(0.5 * normal(G) + 0.5, 0.4 * normal(G, R), likelihood, unit=20.0)


@pytest.fixture
def rows(model, normal):
    counts = np.random.default_rng(0).poisson(2.0, (N, G)).astype(float)
    return CountRows(counts, 0.3 * normal(N))


def test_pseudo_observations_are_the_gradient_and_curvature_of_the_expectation(model, rows, normal):
    """``s̃ = m + a ∂L/∂m`` and ``1/a`` the mean curvature over the directions."""
    mean, variance = 0.3 * normal(N, R), 0.1 * torch.ones(N).double()
    found = model.expectation(rows, mean, variance)
    step = 1e-4
    slope, bend = torch.zeros(N, R).double(), torch.zeros(N, R).double()
    for axis in range(R):
        move = torch.zeros(R).double()
        move[axis] = step
        ahead, behind = (
            model.expectation(rows, mean + sign * move, variance).log_prob for sign in (1, -1)
        )
        slope[:, axis] = (ahead - behind) / (2 * step)
        bend[:, axis] = -(ahead - 2 * found.log_prob + behind) / step**2
    gradient = (found.scores - mean) / found.noise[:, None]
    if isinstance(model.likelihood, Poisson):  # else g and w are sums over three nodes
        assert torch.allclose(gradient, slope, rtol=1e-5, atol=1e-5)
        assert torch.allclose(1.0 / found.noise, bend.mean(1), rtol=1e-3)
    assert torch.allclose(gradient, slope, rtol=0.05, atol=0.05)


def test_sparse_counts_and_chunks_change_nothing(model, rows, normal, monkeypatch):
    mean, variance = normal(N, R), torch.ones(N).double()
    whole = model.expectation(rows, mean, variance)
    monkeypatch.setattr("hgplvm._counts.rates.ENTRIES", {"cpu": 3 * 8 * G})
    parts = model.expectation(replace(rows, counts=sp.csr_matrix(rows.counts)), mean, variance)
    for name in ("scores", "noise", "log_prob", "by_share", "weight", "dispersion"):
        assert torch.allclose(getattr(whole, name), getattr(parts, name))
    assert model.constant(rows.counts) == pytest.approx(model.constants(rows.counts).sum())


def test_improved_shares_make_expected_counts_add_up(model, rows, normal):
    """Gene by gene and, with indicators of batches, batch by batch."""
    batch = np.arange(N) % 3
    design = torch.eye(3, dtype=torch.float64)[torch.from_numpy(batch)]
    model = replace(model, effects=torch.zeros(G, 3).double(), likelihood=Poisson())
    rows = replace(rows, design=design - design.mean(0))
    mean, variance = 0.2 * normal(N, R), 0.05 * torch.ones(N).double()
    for _ in range(20):
        model = replace(
            model.improved(model.expectation(rows, mean, variance)), likelihood=Poisson()
        )
    spread = variance[:, None] * model.squares
    expected = torch.exp(model.log_rates(rows, slice(None), mean) + 0.5 * spread).numpy()
    for b in range(3):
        assert np.allclose(
            expected[batch == b].sum(0), rows.counts[batch == b].sum(0), rtol=0.1, atol=0.3
        )
    assert np.allclose(expected.sum(0), rows.counts.sum(0), rtol=0.02, atol=0.05)


def test_missing_counts_have_no_part(model, rows, normal):
    mean, variance = normal(N, R), torch.ones(N).double()
    gaps = rows.counts.copy()
    gaps[:, 5] = np.nan
    genes = np.delete(np.arange(G), 5)
    fewer = RateModel(
        model.log_share[genes], model.loadings[genes], model.likelihood.of_genes(genes)
    )
    found = model.expectation(replace(rows, counts=gaps), mean, variance)
    expected = fewer.expectation(replace(rows, counts=rows.counts[:, genes]), mean, variance)
    assert torch.allclose(found.scores, expected.scores)
    assert torch.allclose(found.log_prob, expected.log_prob)
    assert np.allclose(model.constants(gaps), fewer.constants(rows.counts[:, genes]))


def brute_force(model, rows, mean, variance):
    """Log of ``∫ p(y | s) N(s; m, v I) ds`` on a fine grid."""
    grid = torch.linspace(-6.0, 6.0, 241, dtype=torch.float64)
    zeta = torch.cartesian_prod(grid, grid)
    weight = -0.5 * zeta.square().sum(1) - math.log(2 * math.pi) + 2 * math.log(grid[1] - grid[0])
    found = []
    for n in range(N):
        scores = mean[n] + variance[n].sqrt() * zeta
        one = rows.of_rows(torch.full((len(zeta),), n))
        none = torch.zeros(len(zeta)).double()
        log_prob = model.expectation(one, scores, none).log_prob
        found.append(torch.logsumexp(log_prob + weight, 0))
    return torch.stack(found) + torch.from_numpy(model.constants(rows.counts))


def test_log_probabilities_by_laplace_are_near_the_integral(model, rows, normal):
    mean, variance = 0.3 * normal(N, R), 0.2 + 0.3 * torch.rand(N).double()
    exact = brute_force(model, rows, mean, variance)
    scores, log_prob = model.modes(rows, mean, variance)
    log_prob = log_prob + torch.from_numpy(model.constants(rows.counts))
    assert (log_prob - exact).abs().max() < 0.03
    # no score near the mode is likelier
    for _ in range(5):
        other = scores + 0.05 * normal(N, R)
        penalty = lambda s: -0.5 * (s - mean).square().sum(1) / variance  # noqa: E731
        none = torch.zeros(N).double()
        here = model.expectation(rows, scores, none).log_prob + penalty(scores)
        there = model.expectation(rows, other, none).log_prob + penalty(other)
        assert (here >= there - 1e-6).all()


def test_decoded_moments_are_those_of_drawn_counts(model, normal):
    mean, variance = 0.3 * normal(1, R), torch.tensor([0.2]).double()
    expected, std = model.decoded(mean, variance)
    random = np.random.RandomState(0)
    scores = mean + variance.sqrt() * torch.from_numpy(random.standard_normal((400_000, R)))
    rates = model.log_rates_of(torch.zeros(len(scores)).double(), scores, None).exp().numpy()
    drawn = model.likelihood.draw(rates, random)
    assert np.allclose(drawn.mean(0), expected.numpy()[0], rtol=0.03)
    assert np.allclose(drawn.std(0), std.numpy()[0], rtol=0.06)


def test_scaled_scores_are_the_same_rates(model, rows, normal):
    scores = normal(N, R)
    found = model.scaled(3.0).log_rates(rows, slice(None), 3.0 * scores)
    assert torch.allclose(found, model.log_rates(rows, slice(None), scores))


def test_sizes_are_counts_in_units_of_a_median_cell(model):
    counts = np.random.default_rng(1).poisson(3.0, (N, G)).astype(float)
    found = model.rows(counts).log_sizes
    assert np.allclose(found, np.log(counts.sum(1) / 20.0))
    assert np.allclose(model.rows(sp.csr_matrix(counts)).log_sizes, found)
    gaps = counts.copy()
    gaps[:, 0] = np.nan
    share = model.log_share.exp().numpy()
    expected = counts[:, 1:].sum(1) / (share[1:].sum() / share.sum()) / 20.0
    assert np.allclose(model.rows(gaps).log_sizes, np.log(expected))
