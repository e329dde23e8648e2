"""Where the signal lies, on data whose signal and noise are known."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from hgplvm._signal import Signal, median_marchenko_pastur

N, D, RANK = 300, 120, 3


def noisy(seed=0, n=N, d=D, rank=RANK, power=1.2, row_spread=0.5, column_spread=0.5):
    """Signal of a few directions, and noise with factors for rows and columns."""
    rng = np.random.default_rng(seed)
    a = np.exp(row_spread * rng.standard_normal(n))
    b = np.exp(column_spread * rng.standard_normal(d))
    a, b = a / a.mean(), b / np.median(b)
    signal = power * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) / np.sqrt(rank)
    signal *= 0.5 * np.sqrt(b)
    noise = np.sqrt(a)[:, None] * np.sqrt(b) * rng.standard_normal((n, d))
    rows = signal + noise
    return rows - rows.mean(0), signal, a, b


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_directions_and_noise_of_columns_are_found(rank, seed):
    rows, _, _, b = noisy(seed, rank=rank)
    found = Signal.of(rows)
    assert found.rank == rank
    assert np.allclose(found.axes.T @ found.axes, np.eye(rank), atol=1e-9)
    ratio = found.scale**2 / b
    assert np.abs(np.log(ratio)).mean() < 0.15
    assert 0.8 < np.median(ratio) < 1.25


def test_noise_of_rows_is_found():
    rows, _, a, _ = noisy()
    found = Signal.of(rows).scores(rows)
    assert np.corrcoef(np.log(found.noise), np.log(a))[0, 1] > 0.95
    assert 0.85 < np.median(found.noise / a) < 1.15
    assert (found.counts == D - RANK).all()
    assert (found.inflation == 1).all()


def test_scores_hold_the_signal_without_most_of_the_noise():
    rows, signal, _, _ = noisy()
    found = Signal.of(rows)
    restored = found.restored(found.scores(rows).values)
    centred = signal - signal.mean(0)
    assert np.square(restored - centred).mean() < 0.1 * np.square(rows - centred).mean()


def test_parts_of_a_row_add_up():
    rows, *_ = noisy()
    found = Signal.of(rows)
    scores = found.scores(rows)
    beyond = found.beyond(rows, scores.values)
    assert np.allclose(found.restored(scores.values) + found.scale * beyond, rows)
    assert np.allclose(np.square(beyond).sum(1), scores.squares)
    whole = np.square(rows / found.scale)
    assert np.isclose(found.share, 1 - np.square(scores.values).sum() / whole.sum())


@pytest.mark.parametrize("shape", [(300, 120), (120, 300), (60, 60)])
def test_noise_alone_has_no_signal(shape):
    rng = np.random.default_rng(1)
    a = np.exp(0.5 * rng.standard_normal(shape[0]))[:, None]
    assert Signal.of(a * rng.standard_normal(shape)) is None


def test_an_outlier_is_a_noisy_row_and_no_direction():
    rows, *_ = noisy()
    before = Signal.of(rows)
    rows[7] += 100 * np.random.default_rng(3).standard_normal(D)
    found = Signal.of(rows)
    assert found.rank == before.rank
    turned = np.linalg.svd(before.axes.T @ found.axes, compute_uv=False)
    assert turned.min() > 0.98
    assert found.scores(rows).noise.argmax() == 7


def test_missing_entries():
    rows, *_ = noisy()
    found = Signal.of(rows)
    complete = found.scores(rows)
    gaps = np.random.default_rng(4).random(rows.shape) < 0.3
    gaps[0] = True  # a row without any entry
    scores = found.scores(np.where(gaps, np.nan, rows))
    for column in range(RANK):
        pair = scores.values[1:, column], complete.values[1:, column]
        assert np.corrcoef(*pair)[0, 1] > 0.95
    assert (scores.inflation[1:] > 1).all()
    assert np.isclose(np.median(scores.inflation[1:]), 1 / 0.7, rtol=0.1)
    assert (scores.values[0] == 0).all()
    assert scores.counts[0] == -found.rank
    assert np.isfinite(scores.noise).all()
    rest = found.beyond(np.where(gaps, np.nan, rows), scores.values)
    assert (rest[gaps] == 0).all()
    assert np.allclose(np.square(rest).sum(1), scores.squares)
    whole = scores.values @ found.axes.T + rest
    assert np.allclose((whole * found.scale)[~gaps], rows[~gaps])


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.6, 0.97])
def test_scores_and_what_lies_beyond_have_the_density_of_what_is_observed(missing):
    """Of a Gaussian signal of variance 2 in each direction, against the density written out."""
    rng = np.random.default_rng(6)
    n, d, rank, variance = 40, 60, 4, 2.0
    axes = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    signal = Signal(np.ones(d), axes, 0.5)
    rows = np.sqrt(variance) * rng.standard_normal((n, rank)) @ axes.T
    rows += rng.standard_normal((n, d))
    rows[rng.random(rows.shape) < missing] = np.nan
    scores = signal.scores(rows)
    found, expected = [], []
    for i in range(n):
        seen = ~np.isnan(rows[i])
        covariance = variance * axes[seen] @ axes[seen].T + np.eye(seen.sum())
        expected.append(
            multivariate_normal(cov=covariance).logpdf(rows[i, seen]) if seen.any() else 0
        )
        spread = variance + scores.inflation[i]  # with a noise variance of one
        found.append(
            norm(scale=np.sqrt(spread)).logpdf(scores.values[i]).sum()
            + scores.log_volume[i]
            - 0.5 * (scores.counts[i] * np.log(2 * np.pi) + scores.squares[i])
        )
    gap = np.mean(found) - np.mean(expected)
    assert abs(gap) < (1e-9 if missing == 0 else 0.35)


def test_principal_components_keep_their_leading_columns():
    rows, *_ = noisy(n=400, d=200, rank=4)
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    components = (left * values)[:, :50]
    found = Signal.of(components)
    assert 4 <= found.rank <= 8
    assert np.array_equal(found.axes, np.eye(50)[:, : found.rank])
    assert np.unique(found.scale).size == 1
    # whitened as other columns are, no direction would stand out
    turned = components @ np.linalg.qr(np.random.default_rng(0).normal(size=(50, 50)))[0]
    assert Signal.of(turned) is None or Signal.of(turned).rank != 50


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((50, 50)),
        np.ones((1, 100)),
        np.random.default_rng(0).normal(size=(200, 5)),
        np.random.default_rng(0).normal(size=(5, 200)),
    ],
    ids=["constant", "one row", "few columns", "few rows"],
)
def test_too_little_to_tell(rows):
    assert Signal.of(rows) is None


def test_constant_columns_have_no_part_in_the_directions():
    rows, *_ = noisy()
    wide = np.concatenate([rows, np.zeros((N, 30))], axis=1)
    found, without = Signal.of(wide), Signal.of(rows)
    assert found.rank == without.rank
    assert (found.axes[D:] == 0).all()
    assert (found.scale > 0).all()


def test_median_of_the_marchenko_pastur_law():
    rng = np.random.default_rng(0)
    for n, d in ((2000, 400), (800, 800)):
        values = np.linalg.svd(rng.standard_normal((n, d)), compute_uv=False) ** 2
        assert np.isclose(median_marchenko_pastur(d / n), np.median(values) / n, rtol=0.02)
