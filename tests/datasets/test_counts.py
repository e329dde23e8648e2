"""Simulated cells, against the laws that their counts are to follow."""

import numpy as np
import pytest
from scipy import sparse

from hgplvm import metrics
from hgplvm.datasets import make_cells

EDGES = [("root", "fork", 2.0), ("fork", "left", 0.5), ("fork", "right", 1.5), ("left", "tip", 1.0)]


def walk(cells, i, j):
    """Distance by climbing from the branch that starts further from the root."""
    start = [0.0, 2.0, 2.0, 2.5]
    (a, s), (b, t) = ((cells.branch[k], cells.pseudotime[k]) for k in (i, j))
    total = 0.0
    while a != b:
        if start[a] < start[b]:
            (a, s), (b, t) = (b, t), (a, s)
        total, a, s = total + s - start[a], cells.parent[a], start[a]
    return total + abs(s - t)


def repeated(n_cells=4000, **options):
    """Counts of cells that differ in nothing but chance, and their expected counts."""
    options = {"informative": 0.0, "depth": 300.0, "depth_spread": 0.0} | options
    cells = make_cells(n_cells, 30, random_state=0, **options)
    return cells, cells.counts.toarray(), cells.expected_size[0] * cells.rates[0]


def test_fields():
    cells = make_cells(40, 20, random_state=0)
    assert isinstance(cells.counts, sparse.csr_matrix)
    assert cells.counts.shape == cells.rates.shape == (40, 20)
    assert cells.counts.dtype == np.int32
    assert cells.counts.has_canonical_format
    assert cells.counts.data.min() >= 1
    assert cells.data is cells.counts
    assert cells.target is cells.branch
    assert np.array_equal(cells.library_size, cells.counts.toarray().sum(1))
    assert cells.informative.sum() == 4
    assert cells.edges[0] == (0, 1, 1.0)
    assert "7 branches" in cells.DESCR


def test_distances_are_those_along_the_edges():
    cells = make_cells(60, 3, topology=EDGES, random_state=0)
    matrix = np.asarray(cells.tree_distance)
    assert set(cells.branch) == {0, 1, 2, 3}
    for i in range(60):
        for j in range(60):
            assert matrix[i, j] == pytest.approx(walk(cells, i, j))


def test_pseudotime_is_the_distance_from_the_root():
    cells = make_cells(500, 3, random_state=0)
    first = np.argmin(cells.pseudotime)
    assert cells.branch[first] == 0
    assert cells.pseudotime[first] < 0.1
    onwards = cells.pseudotime - cells.pseudotime[first]
    assert np.allclose(cells.tree_distance[first], onwards)


def test_cells_are_uniform_along_the_branches():
    cells = make_cells(50_000, 1, topology=EDGES, random_state=0)
    shares = np.bincount(cells.branch) / 50_000
    assert shares == pytest.approx(np.array([2.0, 0.5, 1.5, 1.0]) / 5.0, abs=0.01)
    assert cells.pseudotime[cells.branch == 2].mean() == pytest.approx(2.75, abs=0.02)


@pytest.mark.parametrize("programmes", ["smooth", "brownian"])
def test_rates_are_continuous_along_the_tree(programmes):
    cells = make_cells(20_000, 30, informative=1.0, programmes=programmes, random_state=0)
    rates = np.log(cells.rates[:])

    def end(branch, pick):
        rows = np.flatnonzero(cells.branch == branch)
        return rates[rows[pick(cells.pseudotime[rows])]]

    assert cells.parent.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    for branch in range(1, 7):
        before, after = end(cells.parent[branch], np.argmax), end(branch, np.argmin)
        assert np.abs(before - after).max() < 0.05
        assert np.abs(end(branch, np.argmax) - after).max() > 0.5


@pytest.mark.parametrize("programmes", ["smooth", "brownian"])
def test_changes_have_the_size_of_the_signal(programmes):
    edges = [(0, 1, 0.25), (1, 2, 4.0)]
    cells = make_cells(
        5000, 4000, topology=edges, programmes=programmes, signal=0.5, depth=1.0, random_state=0
    )
    rows = np.argsort(cells.pseudotime)
    last = rows[np.searchsorted(cells.pseudotime[rows], 0.25) - 1]
    logs = np.log(cells.rates[np.array([rows[0], last, rows[-1]])])
    logs -= logs[:, ~cells.informative].mean(1, keepdims=True)  # those move by the totals alone
    steps = np.diff(logs, axis=0)
    assert np.allclose(steps[:, ~cells.informative], 0.0)
    assert steps[:, cells.informative].std(1) == pytest.approx([0.25, 1.0], rel=0.1)


def test_rates_are_shares():
    cells = make_cells(200, 15, n_batches=2, random_state=0)
    assert np.allclose(cells.rates[:].sum(1), 1.0)
    assert (cells.rates[:] > 0).all()


def test_rates_are_indexed_in_blocks():
    rates = make_cells(30, 12, n_batches=2, informative=0.5, random_state=0).rates
    matrix = np.asarray(rates)
    i, j = np.array([3, 29, 9]), np.array([0, 11])
    assert np.array_equal(rates[i, j], matrix[i][:, j])
    assert np.array_equal(rates[2:9, 4], matrix[2:9, 4])
    assert np.array_equal(rates[matrix[:, 0] > 0.1], matrix[matrix[:, 0] > 0.1])
    assert np.array_equal(rates[-1], matrix[-1])
    assert rates[3, 5] == matrix[3, 5]
    with pytest.raises(IndexError):
        rates[30]
    with pytest.raises(ValueError, match="no array to share"):
        np.array(rates, copy=False)


@pytest.mark.parametrize("dispersion", [0.0, 1e-320, 0.3])
def test_counts_are_negative_binomial(dispersion):
    cells, counts, mean = repeated(20_000, dispersion=dispersion)
    variance = mean + cells.dispersion * mean**2
    assert np.abs((counts.mean(0) - mean) / np.sqrt(variance / 20_000)).max() < 4.0
    often = mean > 1.0
    assert counts.var(0)[often] == pytest.approx(variance[often], rel=0.12)
    assert counts.var() == pytest.approx(variance.mean() + mean.var(), rel=0.05)


def test_counts_follow_the_rates_of_each_cell():
    cells = make_cells(4000, 20, depth=2000.0, n_batches=3, informative=0.5, random_state=0)
    share = cells.counts.toarray() / cells.expected_size[:, None]
    for branch in range(7):
        rows = cells.branch == branch
        error = share[rows].mean(0) - cells.rates[rows].mean(0)
        assert np.abs(error / share[rows].std(0) * np.sqrt(rows.sum())).max() < 4.5


def test_dispersions_are_spread_about_their_median():
    phi = make_cells(2, 5000, dispersion=0.4, random_state=0).dispersion
    assert np.median(phi) == pytest.approx(0.4, rel=0.05)
    assert np.log(phi).std() == pytest.approx(0.5, rel=0.05)


def test_dropout_takes_small_counts():
    _, counts, mean = repeated(20_000, dispersion=0.0, dropout=0.8)
    zero = np.exp(-mean) + (1.0 - np.exp(-mean)) * 0.8 * np.exp(-mean)
    assert (counts == 0).mean(0) == pytest.approx(zero, abs=0.015)
    _, whole, _ = repeated(20_000, dispersion=0.0)
    assert (np.where(counts > 0, whole, 0) == counts).all()


def test_libraries_have_the_depth_and_spread():
    cells = make_cells(20_000, 20, depth=1e5, depth_spread=0.4, dispersion=0.0, random_state=0)
    assert np.median(cells.library_size) == pytest.approx(1e5, rel=0.02)
    assert np.log(cells.library_size).std() == pytest.approx(0.4, rel=0.02)
    correlation = np.corrcoef(np.log(cells.expected_size), cells.pseudotime)[0, 1]
    assert abs(correlation) < 0.03


@pytest.mark.parametrize("trend", [1.0, -0.5])
def test_depth_follows_the_tree(trend):
    cells = make_cells(20_000, 2, depth_trend=trend, depth_spread=0.4, random_state=0)
    logs = np.log(cells.expected_size)
    slope = np.polyfit(cells.pseudotime / cells.pseudotime.std(), logs, 1)[0]
    assert slope == pytest.approx(0.4 * trend, abs=0.02)
    assert logs.std() == pytest.approx(0.4 * np.hypot(1.0, trend), rel=0.03)


def test_batches_differ_in_genes_and_in_branches():
    cells = make_cells(
        6000, 2000, n_batches=3, batch_effect=0.3, informative=0.0, depth=1.0, random_state=0
    )
    first = [np.flatnonzero(cells.batch == b)[0] for b in range(3)]
    logs = np.log(cells.rates[np.array(first)])
    assert (logs[0] - logs[1]).std() == pytest.approx(0.3 * np.sqrt(2.0), rel=0.1)
    assert np.bincount(cells.batch) == pytest.approx(2000, rel=0.1)
    shares = [np.bincount(cells.branch[cells.batch == b], minlength=7) / 2000 for b in range(3)]
    assert np.abs(shares[0] - shares[1]).max() > 0.05


def test_one_batch_has_no_effect():
    a, b = (make_cells(20, 10, batch_effect=size, random_state=0) for size in (0.0, 5.0))
    assert np.array_equal(a.rates[:], b.rates[:])
    assert not a.batch.any()


def test_edges_make_what_their_name_makes():
    edges = [("s", "f", 1.0), ("f", "l"), ("f", "r", 1)]
    a, b = (make_cells(50, 10, topology=t, random_state=0) for t in ("bifurcation", edges))
    assert (a.counts != b.counts).nnz == 0
    assert np.array_equal(a.tree_distance[:], b.tree_distance[:])
    assert [edge[:2] for edge in b.edges] == [("s", "f"), ("f", "l"), ("f", "r")]


def test_a_root_may_have_several_branches():
    cells = make_cells(300, 10, topology=[(0, 1), (0, 2)], random_state=0)
    i, j = (np.flatnonzero(cells.branch == b)[0] for b in (0, 1))
    assert cells.tree_distance[i, j] == pytest.approx(cells.pseudotime[i] + cells.pseudotime[j])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_chunks_make_the_same_counts(monkeypatch, dropout):
    whole = make_cells(100, 30, n_batches=2, dropout=dropout, random_state=0)
    monkeypatch.setattr("hgplvm.datasets._counts.CHUNK_ENTRIES", 70)
    parts = make_cells(100, 30, n_batches=2, dropout=dropout, random_state=0)
    assert np.array_equal(whole.counts.toarray(), parts.counts.toarray())
    assert np.array_equal(whole.rates[:], parts.rates[:])


def test_seeds():
    seeds = (0, 0, 1, np.random.RandomState(0))
    a, b, c, d = (make_cells(20, 30, random_state=seed).counts.toarray() for seed in seeds)
    assert np.array_equal(a, b)
    assert np.array_equal(a, d)
    assert not np.array_equal(a, c)


def test_metrics_take_the_distances():
    cells = make_cells(50, 5, random_state=0)
    flat = np.random.default_rng(0).normal(size=(50, 2))
    value = metrics.distance_correlation(cells.tree_distance, flat, metric="euclidean")
    matrix = np.asarray(cells.tree_distance)
    assert value == metrics.distance_correlation(matrix, flat, metric="euclidean")


@pytest.mark.parametrize("n_cells", [1, 2])
@pytest.mark.parametrize("n_genes", [1, 2])
@pytest.mark.parametrize("n_batches", [1, 3])
def test_smallest_sizes(n_cells, n_genes, n_batches):
    cells = make_cells(n_cells, n_genes, n_batches=n_batches, informative=1.0, random_state=0)
    assert cells.counts.shape == (n_cells, n_genes)
    assert np.allclose(cells.rates[:].sum(1), 1.0)


def test_cells_may_be_empty():
    cells = make_cells(50, 5, depth=1e-3, random_state=0)
    assert cells.counts.shape == (50, 5)
    assert (cells.library_size == 0).any()


def test_defaults_look_like_real_counts():
    # Paul et al. (2015): zeros 0.75, log library size ± 0.67 to 0.75, means from 0.01 to 26
    cells = make_cells(1500, random_state=0)
    assert 1.0 - cells.counts.nnz / np.prod(cells.counts.shape) == pytest.approx(0.74, abs=0.04)
    assert np.log(cells.library_size).std() == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("n_cells", "n_genes", "n_batches") for value in (0, 2.5)),
        *((name, value) for name in ("informative", "dropout") for value in (-0.1, 1.1)),
        *((name, -1.0) for name in ("signal", "depth_spread", "dispersion", "batch_effect")),
        ("depth", 0.0),
        ("depth_trend", np.nan),
        ("depth_trend", "up"),
        ("programmes", "rough"),
        ("topology", "star"),
    ],
)
def test_bad_input(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of make_cells must be"):
        make_cells(**{"n_cells": 10, name: value})


def test_numbers_that_overflow():
    with pytest.raises(ValueError, match=r"The 'signal' of make_cells, .* make it smaller"):
        make_cells(10, 10, topology=[(0, 1, 1e5)], signal=10.0, informative=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"counts below 2\^30: make them smaller"):
        make_cells(10, 2, depth=9e7, depth_spread=4.0, random_state=0)
