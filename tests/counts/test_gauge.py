"""Sizes of libraries: which genes make them up, and that a dominant gene does not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hgplvm import BayesianHGPLVM
from hgplvm._counts import Poisson, RateModel
from hgplvm._counts.rates import gauge_of
from hgplvm.datasets import make_cells
from hgplvm.metrics import distance_correlation

N, G = 40, 200


def genes(seed=0, n_genes=G):
    """Totals of genes of which none stands out."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, n_genes)


def gauge(totals):
    return gauge_of(torch.from_numpy(np.asarray(totals, dtype=float))).numpy()


def model(rng, gauge=None, unit=100.0):
    share = torch.from_numpy(0.3 * rng.standard_normal(G))
    loadings = torch.zeros(G, 2, dtype=torch.float64)
    own = None if gauge is None else torch.from_numpy(gauge)
    return RateModel(share, loadings, Poisson(), unit=unit, gauge=own)


# --- which genes ----------------------------------------------------------------------------


def test_a_dominant_gene_is_left_out():
    totals = genes()
    totals[17] = totals.sum() / 2  # a third of all counts
    found = gauge(totals)
    assert found[17] == 0
    assert np.delete(found, 17).all()


def test_genes_that_do_not_stand_out_all_stay():
    assert (gauge(genes()) == 1).all()
    assert (gauge(np.exp(np.random.default_rng(0).standard_normal(2000))) == 1).all()


def test_several_dominant_genes_are_left_out():
    totals = genes()
    rest = totals.sum()
    totals[[3, 8]] = 0.5 * rest
    found = gauge(totals)
    assert np.flatnonzero(found == 0).tolist() == [3, 8]


@pytest.mark.parametrize("n_genes", [1, 2, 5, 10])
def test_of_few_genes_all_stay(n_genes):
    """Each of them is a large part of all counts."""
    totals = genes(n_genes=n_genes)
    totals[0] = 3 * totals.sum()
    assert (gauge(totals) == 1).all()


def test_where_others_have_hardly_any_counts_all_stay():
    totals = genes()
    totals[5] = 50 * totals.sum()
    assert (gauge(totals) == 1).all()


def test_the_number_of_cells_does_not_matter():
    totals = genes()
    totals[17] = totals.sum()
    np.testing.assert_array_equal(gauge(totals), gauge(1e5 * totals))


# --- sizes ----------------------------------------------------------------------------------


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def counts(rng):
    return rng.poisson(2.0, (N, G)).astype(float)


def test_a_dominant_gene_does_not_enter_sizes(rng, counts):
    known = np.ones(G)
    known[4] = 0.0
    rates = model(rng, known)
    before = rates.rows(counts).log_sizes
    np.testing.assert_allclose(before, np.log(np.delete(counts, 4, axis=1).sum(1) / 100.0))
    counts[:, 4] = rng.poisson(500.0, N)
    np.testing.assert_array_equal(rates.rows(counts).log_sizes, before)
    assert not np.allclose(model(rng).rows(counts).log_sizes, before)


def test_sparse_counts_have_the_same_sizes(rng, counts):
    known = np.ones(G)
    known[[4, 90]] = 0.0
    rates = model(rng, known)
    dense = rates.rows(counts).log_sizes
    for make in (sp.csr_matrix, sp.csc_matrix):
        np.testing.assert_allclose(rates.rows(make(counts)).log_sizes, dense)


def test_sizes_are_of_what_is_observed(rng, counts):
    """In units of the share that the observed genes of the gauge have."""
    known = np.ones(G)
    known[4] = 0.0
    rates = model(rng, known)
    share = np.exp(rates.log_share.numpy()) * known
    gaps = counts.copy()
    gaps[rng.random(counts.shape) < 0.3] = np.nan
    found = rates.rows(gaps).log_sizes.numpy()
    for row, size in zip(gaps, found, strict=True):
        seen = ~np.isnan(row) & (known > 0)
        expected = row[seen].sum() / (share[seen].sum() / share.sum()) / 100.0
        assert size == pytest.approx(np.log(expected))


def test_a_missing_dominant_gene_changes_nothing(rng, counts):
    known = np.ones(G)
    known[4] = 0.0
    rates = model(rng, known)
    gaps = counts.copy()
    gaps[:, 4] = np.nan
    np.testing.assert_allclose(rates.rows(gaps).log_sizes, rates.rows(counts).log_sizes)


def test_cells_without_counts_have_sizes_that_are_numbers(rng, counts):
    known = np.ones(G)
    known[4] = 0.0
    rates = model(rng, known)
    counts[0] = 0.0
    counts[1] = 0.0
    counts[1, 4] = 300.0  # of the dominant gene alone
    counts[2] = np.nan
    counts[3] = np.nan
    counts[3, 4] = 300.0
    sizes = rates.rows(counts).log_sizes
    assert torch.isfinite(sizes).all()
    assert (sizes[:2] < sizes[4:].min()).all()
    assert sizes[0] == sizes[1]


def test_a_model_keeps_its_gauge_where_it_goes(rng, counts):
    known = np.ones(G)
    known[4] = 0.0
    rates = model(rng, known)
    for other in (rates.to("cpu"), rates.scaled(2.0)):
        np.testing.assert_array_equal(other.rows(counts).log_sizes, rates.rows(counts).log_sizes)


# --- fits -----------------------------------------------------------------------------------


def fitted(counts):
    options = {"likelihood": "negative-binomial", "random_state": 0, "max_iter": 30}
    return BayesianHGPLVM(**options).fit(counts)


@pytest.fixture(scope="module")
def fits():
    """Cells, a fit to them, and one with a gene of a third of all counts that says nothing."""
    cells = make_cells(
        200, 100, topology="bifurcation", informative=0.6, depth=1500, random_state=6
    )
    rng = np.random.default_rng(0)
    mean = 0.5 * np.asarray(cells.expected_size)
    loud = rng.poisson(mean * rng.gamma(2.0, 0.5, 200))  # var μ + μ²/2
    with_it = sp.hstack([cells.counts, sp.csr_matrix(loud[:, None])]).tocsr()
    return cells, fitted(cells.counts), fitted(with_it), with_it


def test_a_loud_gene_that_says_nothing_hardly_moves_the_map(fits):
    cells, plain, loud, _ = fits
    truth = np.asarray(cells.tree_distance[:, :])
    scores = [distance_correlation(truth, m.embedding_) for m in (plain, loud)]
    assert scores[0] > 0.7
    assert scores[1] > scores[0] - 0.05


def test_the_gauge_of_a_fit_leaves_the_loud_gene_out(fits, tmp_path):
    cells, plain, loud, with_it = fits
    found = loud._model.units.rates
    assert found.gauge[-1] == 0
    own = plain._model.units.rates.gauge
    assert own is None or bool((own == 1).all())
    quiet = np.asarray(cells.counts.sum(1)).ravel()
    sizes = np.exp(found.rows(with_it).log_sizes.numpy())
    np.testing.assert_allclose(sizes / np.median(sizes), quiet / np.median(quiet))


def test_model_files_keep_the_gauge(fits, tmp_path):
    import hgplvm

    _, _, loud, with_it = fits
    loud.save(tmp_path / "model")
    again = hgplvm.load(tmp_path / "model")
    assert torch.equal(again._model.units.rates.gauge, loud._model.units.rates.gauge)
    new = with_it[:5].toarray() + 1.0
    np.testing.assert_array_equal(again.transform(new), loud.transform(new))
