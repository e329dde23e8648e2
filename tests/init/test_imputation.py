"""What stands in the gaps of the data."""

import numpy as np
import pytest

from hgplvm._init import imputation
from hgplvm.datasets import make_binary_tree


def gappy(data, share=0.3, seed=5):
    data = data - data.mean(0)
    observed = np.random.default_rng(seed).random(data.shape) >= share
    observed[0] = True
    return data, np.where(observed, data, np.nan), observed


def error(guess, data, hidden):
    return np.sqrt(np.mean((guess - data)[hidden] ** 2))


def test_observed_entries_stay_and_gaps_are_filled():
    data, holes, observed = gappy(make_binary_tree(4, random_state=0).data)
    filled = imputation.fill_gaps(holes, 0)
    assert np.array_equal(filled.data[observed], data[observed])
    assert np.isfinite(filled.data).all()
    assert (filled.row_variance >= 0).all()
    assert filled.row_variance[0] == 0  # a row without gaps
    assert (filled.variance[observed] == 0).all()
    n_gaps = np.maximum((~observed).sum(1), 1)
    assert np.allclose(filled.row_variance * n_gaps, filled.variance.sum(1))


def test_guesses_beat_column_means_by_far():
    data, holes, observed = gappy(make_binary_tree(5, random_state=0).data)
    filled = imputation.fill_gaps(holes, 0)
    means = np.zeros_like(data)
    assert error(filled.data, data, ~observed) < 0.65 * error(means, data, ~observed)


def test_the_variance_is_that_of_the_errors():
    data, holes, observed = gappy(make_binary_tree(5, random_state=0).data)
    filled = imputation.fill_gaps(holes, 0)
    n_gaps = (~observed).sum(1)
    expected = np.sqrt((filled.row_variance * n_gaps).sum() / n_gaps.sum())
    assert expected == pytest.approx(error(filled.data, data, ~observed), rel=0.25)


def test_noise_asks_for_more_donors_than_a_curve(monkeypatch):
    asked = []
    fill = imputation._Neighbors.fill
    monkeypatch.setattr(
        imputation._Neighbors, "fill", lambda self, n: asked.append(n) or fill(self, n)
    )
    random = np.random.default_rng(0)
    t = np.linspace(0, 3, 300)[:, None]
    curve = np.cos(t * np.arange(1, 9))
    for noise in (0.0, 2.0):
        _, holes, _ = gappy(curve + noise * random.standard_normal(curve.shape))
        imputation.fill_gaps(holes, 0)
    first, second = asked[len(imputation.DONORS)], asked[-1]
    assert first == imputation.DONORS[0]
    assert second == imputation.DONORS[-1]


def test_chunks_change_nothing(monkeypatch):
    _, holes, _ = gappy(make_binary_tree(3, random_state=0).data)
    whole = imputation._Neighbors(holes, np.random.default_rng(0)).fill(8)
    random = np.random.default_rng(0)
    neighbors = imputation._Neighbors(holes, random)
    monkeypatch.setattr(imputation, "DONOR_ROWS", 17)
    parts = neighbors.fill(8)
    assert np.allclose(parts.data, whole.data)
    assert np.allclose(parts.row_variance, whole.row_variance)


def test_more_rows_than_donors(monkeypatch):
    monkeypatch.setattr(imputation, "DONOR_ROWS", 60)
    data, holes, observed = gappy(make_binary_tree(4, random_state=0).data)
    filled = imputation.fill_gaps(holes, 0)
    assert error(filled.data, data, ~observed) < 0.9 * error(0 * data, data, ~observed)


@pytest.mark.parametrize(
    "holes",
    [
        [[1.0, np.nan], [-1.0, 2.0]],
        [[1.0, np.nan], [np.nan, 2.0]],
        [[1.0, np.nan, 0.0], [1.0, 2.0, np.nan], [1.0, 2.0, 0.0]],
    ],
)
def test_very_few_rows(holes):
    filled = imputation.fill_gaps(np.array(holes), 0)
    assert np.isfinite(filled.data).all()
    assert np.isfinite(filled.row_variance).all()
