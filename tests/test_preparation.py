"""What is done to the rows before a fit."""

import logging

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hgplvm._log_counts import LogCountMean
from hgplvm._means import ColumnMeans
from hgplvm._preparation import FARTHEST, prepare
from hgplvm.datasets import make_binary_tree, make_branching, make_cells


def prepared(data, **options):
    return prepare(data, ColumnMeans.of(data), 0, **{"uniform": False, **options})


@pytest.fixture(scope="module")
def cells():
    found = make_cells(300, 200, topology="bifurcation", depth=1500, random_state=0)
    counts = found.counts.toarray().astype(float)
    counts = counts[:, counts.sum(0) > 0]
    total = counts.sum(1, keepdims=True)
    return np.log1p(1e4 * counts / total), found


NOISY = make_branching(300, 60, depth=3, noise=2.0, random_state=1).data
CLEAN = make_branching(300, 60, depth=3, noise=0.1, random_state=1).data


def test_clean_data_are_centred_and_nothing_else():
    for data in (CLEAN, make_binary_tree(5, 8, random_state=0).data):
        found = prepared(data)
        assert found.signal is None
        assert np.allclose(found.values, data - data.mean(0))


def test_noisy_data_are_seen_in_the_directions_of_their_signal():
    found = prepared(NOISY)
    assert found.values.shape == (300, found.signal.rank)
    assert found.signal.rank < 10
    assert np.array_equal(found.values, found.scores.values)


def test_uniform_noise_leaves_them_as_they_are():
    found = prepared(NOISY, uniform=True)
    assert found.signal is None
    assert np.array_equal(found.values, NOISY - NOISY.mean(0))


def test_logarithms_of_counts_have_a_mean_of_their_own(cells):
    rows, _ = cells
    found = prepared(rows)
    assert isinstance(found.mean, LogCountMean)
    assert len(found.mean.shares) > 1
    assert found.signal is not None
    assert isinstance(prepared(rows, uniform=True).mean, ColumnMeans)


def test_columns_of_unit_variance_are_no_counts_but_noisy(cells):
    rows, _ = cells
    found = prepared((rows - rows.mean(0)) / rows.std(0))
    assert isinstance(found.mean, ColumnMeans)
    assert found.signal.rank < 10


@pytest.mark.parametrize("some", [slice(None), slice(None, None, 2)], ids=["all", "half"])
def test_principal_components_are_recognised(cells, some):
    """Also where there are fewer rows than they were made from."""
    scores = PCA(30, random_state=0).fit_transform(cells[0])[some]
    found = prepared(scores)
    assert 2 <= found.signal.rank <= 15
    assert np.unique(found.signal.scale).size == 1
    whole = np.square(scores - scores.mean(0)).sum(0)
    leading = found.signal.axes.any(1)
    assert whole[leading].min() > whole[~leading].max()


def test_exact_codes_are_not_noisy():
    """Each row has a column of its own, which noise that is Gaussian would not."""
    rng = np.random.default_rng(0)
    n = 400
    codes = np.eye(n)
    for i in range(1, n):
        codes[i] += codes[rng.integers(max(0, i - 60), i)]
    assert prepared(codes).signal is None


@pytest.mark.parametrize("data", [NOISY, CLEAN], ids=["noisy", "clean"])
@pytest.mark.parametrize("size", [30.0, 1e4])
def test_outliers_have_no_part_in_the_mean_and_are_pulled_in(data, size, caplog):
    rng = np.random.default_rng(2)
    rows = np.concatenate([data, size * data.std() * rng.standard_normal((1, data.shape[1]))])
    with caplog.at_level(logging.WARNING, "hgplvm"):
        found, before = prepared(rows), prepared(data)
    assert "1 of 301 rows are more than 10 times as far from the mean" in caplog.text
    assert np.allclose(found.mean.values, data.mean(0))
    assert np.allclose(found.residuals[:-1], before.residuals)
    norms = np.sqrt(np.square(found.residuals).mean(1))
    assert np.isclose(norms[-1], FARTHEST * np.median(norms[:-1]))
    assert (found.signal is None) == (before.signal is None)
    if found.signal is not None:
        assert abs(found.signal.rank - before.signal.rank) <= 1
        assert found.scores.noise.argmax() == 300


def test_new_rows_are_pulled_in_as_those_of_the_fit(caplog):
    rows = CLEAN.copy()
    rows[5] *= 200
    found = prepared(rows).mean
    far = found.residuals(rows[5:6])
    assert np.isclose(np.sqrt(np.square(far).mean()), found.limit)
    assert np.allclose(found.residuals(rows[:5]), rows[:5] - found.values)
    factor = far / (rows[5:6] - found.values)
    assert np.allclose(found.log_slopes(rows[5:6]), np.log(factor))
    assert (found.log_slopes(rows[:5]) == 0).all()


def test_the_only_row_that_differs_is_the_data():
    rows = np.vstack([np.zeros((99, 20)), np.arange(20.0)])
    assert np.array_equal(prepared(rows).residuals, rows - rows.mean(0))


@pytest.mark.parametrize("missing", [0.1, 0.3, 0.5])
def test_imputed_entries_have_their_noise(missing):
    rng = np.random.default_rng(1)
    rows = 0.7 * rng.standard_normal((400, 2)) @ rng.standard_normal((2, 60))
    rows += rng.standard_normal(rows.shape)
    rows[rng.random(rows.shape) < missing] = np.nan
    found = prepared(rows)
    assert 2 <= found.signal.rank <= 6  # donors that rows share make some more
    assert 0.85 < np.median(found.signal.scale**2) < 1.3


def test_principal_components_with_a_gap_are_still_components(cells):
    scores = PCA(30, random_state=0).fit_transform(cells[0])
    scores[3, 15] = np.nan
    found = prepared(scores)
    assert found.signal.components
    assert found.scores is not None


def test_cells_that_are_copies(cells):
    rows, _ = cells
    assert prepared(np.repeat(rows[:30], 60, axis=0)).mean is not None


def test_many_rows_far_out_are_no_outliers():
    rows = CLEAN.copy()
    rows[:250] *= 1e-3
    found = prepared(rows)
    assert np.array_equal(found.residuals, rows - rows.mean(0))


def test_a_column_that_outliers_alone_know_keeps_its_mean():
    rows = CLEAN.copy()
    rows[0] *= 1e3
    rows[1:, 4] = np.nan
    found = prepared(rows)
    assert np.isfinite(found.mean.values).all()
