"""Metrics against scikit-learn, SciPy and small cases by hand."""

import tracemalloc

import numpy as np
import pytest
import sklearn.manifold
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist
from scipy.stats import pearsonr, spearmanr
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from hgplvm import geometry, metrics
from hgplvm.datasets import TreeDistance, make_branching
from tests.memory import peak_bytes

RNG = np.random.default_rng(0)
Y = RNG.standard_normal((60, 5))
P = 0.25 * Y[:, :2] + 0.05 * RNG.standard_normal((60, 2))
P /= np.maximum(1, 1.1 * np.linalg.norm(P, axis=1, keepdims=True))
LABELS = np.digitize(Y[:, 0], [-0.5, 0.5])


def hyperbolic(p):
    return geometry.pairwise_distance(geometry.poincare_to_lorentz(torch.from_numpy(p))).numpy()


def condensed(square):
    return square[np.triu_indices(len(square), 1)]


def without_self(square):
    return np.where(np.eye(len(square), dtype=bool), np.inf, square)


def trusted(truth, found, k):
    """Trustworthiness of two matrices of distances by its definition, first rows first in ties."""
    n = len(truth)
    order = np.argsort(without_self(truth), axis=1, kind="stable")
    penalty = 0
    for i, near in enumerate(np.argsort(without_self(found), axis=1, kind="stable")[:, :k]):
        place = {j: rank for rank, j in enumerate(order[i], start=1)}
        penalty += sum(max(0, place[j] - k) for j in near)
    return 1 - 2 * penalty / (n * k * (2 * n - 3 * k - 1))


@pytest.fixture(params=["one block", "many blocks"], autouse=True)
def blocks(request, monkeypatch):
    if request.param == "many blocks":
        monkeypatch.setattr(
            metrics, "_blocks", lambda n: (slice(i, min(i + 7, n)) for i in range(0, n, 7))
        )


@pytest.mark.parametrize("k", [1, 3, 5, 20])
def test_trustworthiness_and_continuity_agree_with_scikit_learn(k):
    ours = metrics.trustworthiness(Y, P, n_neighbors=k)
    assert ours == pytest.approx(sklearn.manifold.trustworthiness(Y, P, n_neighbors=k))
    ours = metrics.continuity(Y, P, n_neighbors=k)
    assert ours == pytest.approx(sklearn.manifold.trustworthiness(P, Y, n_neighbors=k))


def test_trustworthiness_in_the_hyperbolic_metric():
    """Neighbours by hyperbolic distance: exchange the roles and let scikit-learn take distances."""
    theirs = sklearn.manifold.trustworthiness(hyperbolic(P), Y, n_neighbors=4, metric="precomputed")
    assert metrics.continuity(Y, P, n_neighbors=4, metric="poincare") == pytest.approx(theirs)
    assert metrics.trustworthiness(Y, P, metric="poincare") != metrics.trustworthiness(Y, P)


def test_perfect_embeddings_score_one():
    assert metrics.trustworthiness(Y, Y) == metrics.continuity(Y, Y) == 1
    assert metrics.shepard_goodness(Y, Y) == pytest.approx(1)


def test_shepard_goodness_agrees_with_scipy():
    assert metrics.shepard_goodness(Y, P) == pytest.approx(spearmanr(pdist(Y), pdist(P))[0])
    theirs = spearmanr(pdist(Y), condensed(hyperbolic(P)))[0]
    assert metrics.shepard_goodness(Y, P, metric="poincare") == pytest.approx(theirs)


def test_distance_correlation_agrees_with_scipy():
    truth = np.abs(LABELS[:, None] - LABELS[None, :]).astype(float)
    theirs = pearsonr(condensed(truth), condensed(hyperbolic(P)))[0]
    assert metrics.distance_correlation(truth, P) == pytest.approx(theirs)
    theirs = pearsonr(condensed(truth), pdist(P))[0]
    assert metrics.distance_correlation(truth, P, metric="euclidean") == pytest.approx(theirs)
    assert metrics.distance_correlation(truth, np.zeros((60, 2))) == 0


@pytest.mark.parametrize("k", [1, 5])
def test_knn_accuracy_agrees_with_scikit_learn(k):
    theirs = cross_val_score(KNeighborsClassifier(k), P, LABELS, cv=LeaveOneOut()).mean()
    assert metrics.knn_accuracy(P, LABELS, n_neighbors=k) == pytest.approx(theirs)
    words = np.array(["a", "b", "c"])[LABELS]
    assert metrics.knn_accuracy(P, words, n_neighbors=k) == pytest.approx(theirs)


@pytest.mark.parametrize("metric", ["poincare", "euclidean"])
def test_evaluate_collects_them(metric):
    scores = metrics.evaluate(Y, P, LABELS, metric=metric, n_neighbors=4)
    assert scores == {
        "trustworthiness": metrics.trustworthiness(Y, P, n_neighbors=4, metric=metric),
        "continuity": metrics.continuity(Y, P, n_neighbors=4, metric=metric),
        "shepard_goodness": metrics.shepard_goodness(Y, P, metric=metric),
        "knn_accuracy": metrics.knn_accuracy(P, LABELS, n_neighbors=4, metric=metric),
    }
    assert "knn_accuracy" not in metrics.evaluate(Y, P)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.trustworthiness(Y, P, metric="cosine"),
            "'metric' .* Got 'cosine' instead",
        ),
        (lambda: metrics.trustworthiness(Y, P, n_neighbors=30), "below n_samples / 2 = 30"),
        (lambda: metrics.continuity(Y, P, n_neighbors=0), "'n_neighbors' .* Got 0 instead"),
        (lambda: metrics.trustworthiness(Y[:5], P), "Got 5 and 60 rows"),
        (lambda: metrics.shepard_goodness(Y, 9 * P, metric="poincare"), "norm below 1"),
        (lambda: metrics.shepard_goodness(Y, P[:, 0]), "must be a 2-D array"),
        (lambda: metrics.shepard_goodness(Y, P * np.nan), "must be finite"),
        (lambda: metrics.shepard_goodness([["a"]] * 60, P), "array of real numbers"),
        (lambda: metrics.knn_accuracy(P, LABELS[:9]), "one entry for each of the 60 rows"),
        (lambda: metrics.distance_correlation(Y, P), r"must have shape \(60, 60\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- ties -----------------------------------------------------------------------------------


@given(
    st.tuples(st.integers(1, 6), st.integers(1, 12)).flatmap(
        lambda shape: st.tuples(
            arrays(float, shape, elements=st.integers(0, 4).map(float)), st.integers(1, shape[1])
        )
    )
)
def test_the_nearest_are_the_first_of_a_stable_sort(case):
    distance, k = case
    before = distance.copy()
    expected = np.argsort(distance, axis=1, kind="stable")[:, :k]
    assert np.array_equal(np.sort(metrics._nearest(distance, k), axis=1), np.sort(expected, axis=1))
    assert np.array_equal(distance, before)


@pytest.mark.parametrize("k", [1, 2, 5, 12])
@pytest.mark.parametrize("levels", [2, 3, 10])
def test_neighborhoods_with_ties_and_duplicates_follow_the_order_of_rows(k, levels):
    rng = np.random.default_rng(levels)
    data = rng.integers(levels, size=(40, 3)).astype(float)
    points = rng.integers(levels, size=(40, 2)).astype(float)
    data[25:30], points[10:14] = data[3], points[30]
    in_data, embedded = cdist(data, data), cdist(points, points)
    value = metrics.trustworthiness(data, points, n_neighbors=k)
    assert value == pytest.approx(trusted(in_data, embedded, k), abs=1e-12)
    value = metrics.continuity(data, points, n_neighbors=k)
    assert value == pytest.approx(trusted(embedded, in_data, k), abs=1e-12)


@pytest.mark.parametrize("k", [1, 4])
def test_rows_that_coincide_on_the_disk_follow_their_order(k):
    points = np.repeat(P[:30], 2, axis=0)[np.random.default_rng(0).permutation(60)]
    squares = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
    inside = 1 - np.sum(points**2, axis=1)
    embedded = np.arccosh(1 + 2 * squares / (inside[:, None] * inside))
    value = metrics.trustworthiness(Y, points, n_neighbors=k, metric="poincare")
    assert value == pytest.approx(trusted(cdist(Y, Y), embedded, k), abs=1e-12)


def test_votes_with_ties_follow_the_order_of_rows():
    rng = np.random.default_rng(0)
    points = rng.integers(3, size=(50, 2)).astype(float)
    labels = rng.integers(4, size=50)
    near = np.argsort(without_self(cdist(points, points)), axis=1, kind="stable")[:, :6]
    majority = [np.bincount(row, minlength=4).argmax() for row in labels[near]]
    assert metrics.knn_accuracy(points, labels, n_neighbors=6) == np.mean(majority == labels)


# --- many rows ------------------------------------------------------------------------------


def heavy_tails(rng):
    data = rng.standard_cauchy((300, 4))
    data[17] += 1e6
    return data, np.arcsinh(data[:, :2])


def many_ties(rng):
    data = rng.integers(4, size=(200, 3)).astype(float)
    return data, data[:, :2] + rng.integers(2, size=(200, 2))


def plain(rng):
    data = rng.standard_normal((200, 5))
    return data, data[:, :2]


@pytest.mark.parametrize("make", [plain, heavy_tails, many_ties])
def test_binned_ranks_agree_with_scipy(monkeypatch, make):
    monkeypatch.setattr(metrics, "SORTED_PAIRS", 0)
    data, points = make(np.random.default_rng(0))
    theirs = spearmanr(pdist(data), pdist(points))[0]
    value = metrics.shepard_goodness(data, points)
    assert value == pytest.approx(theirs, abs=1e-12 if make is many_ties else 1e-5)
    assert 0.1 < value < 0.99


def test_equal_distances_stay_equal_in_the_sorted_ranks():
    data, points = many_ties(np.random.default_rng(0))
    theirs = spearmanr(pdist(data), pdist(points))[0]
    assert metrics.shepard_goodness(data, points) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("constant", [0.1, 0.7])
def test_a_constant_side_correlates_with_nothing(constant):
    truth = constant * (1 - np.eye(len(P)))
    assert metrics.distance_correlation(truth, P) == 0


@pytest.mark.parametrize("unit", [2.0**600, 2.0**-600])
def test_nothing_depends_on_the_unit_of_data_or_points(unit):
    assert metrics.evaluate(unit * Y, P, LABELS) == metrics.evaluate(Y, P, LABELS)
    assert metrics.evaluate(Y, unit * P, LABELS) == metrics.evaluate(Y, P, LABELS)


def test_binned_ranks_agree_with_scipy_on_the_disk(monkeypatch):
    monkeypatch.setattr(metrics, "SORTED_PAIRS", 0)
    data, points = plain(np.random.default_rng(1))
    points = points / (1 + np.linalg.norm(points, axis=1, keepdims=True))
    theirs = spearmanr(pdist(data), condensed(hyperbolic(points)))[0]
    value = metrics.shepard_goodness(data, points, metric="poincare")
    assert value == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("pairs", [0, 10_000_000])
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_shepard_goodness_has_no_unit(monkeypatch, pairs, scale):
    monkeypatch.setattr(metrics, "SORTED_PAIRS", pairs)
    theirs = spearmanr(pdist(Y), pdist(P))[0]
    assert metrics.shepard_goodness(Y * scale, P) == pytest.approx(theirs, abs=2e-5)
    for constant in (scale, 0.0):
        assert metrics.shepard_goodness(np.full((60, 2), constant), P) == 0


@pytest.fixture
def small_parts(monkeypatch):
    """Blocks of some rows, and tables that take next to nothing."""
    monkeypatch.setattr(metrics, "BLOCK_ENTRIES", 2**15)
    monkeypatch.setattr(metrics, "SORTED_PAIRS", 0)
    monkeypatch.setattr(metrics, "RANK_SHIFT", 19)
    monkeypatch.setattr(metrics, "RANK_BINS", 2**12)


def test_no_square_array_is_made(small_parts):
    n = 2000
    tree = make_branching(n, 3, random_state=0)
    tracemalloc.start()
    try:
        metrics.evaluate(tree.data, tree.data[:, :2], tree.target)
        metrics.distance_correlation(tree.tree_distance, tree.data[:, :2], metric="euclidean")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n * n  # a byte each


@pytest.mark.parametrize("blocks", ["one block"], indirect=True)  # the profiler is slow
def test_no_square_tensor_is_made_on_the_disk(small_parts):
    n = 800
    data = np.random.default_rng(0).uniform(-0.7, 0.7, size=(n, 2))
    peak = peak_bytes(lambda: metrics.evaluate(data, data, data[:, 0] > 0, metric="poincare"))
    assert 0 < peak < 4 * n * n  # half a matrix


# --- correlations ---------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["poincare", "euclidean"])
def test_distances_along_a_tree_are_taken_in_blocks(monkeypatch, metric):
    tree = make_branching(60, depth=3, random_state=0).tree_distance
    expected = metrics.distance_correlation(np.asarray(tree), P, metric=metric)
    embedded = hyperbolic(P) if metric == "poincare" else cdist(P, P)
    assert expected == pytest.approx(pearsonr(condensed(np.asarray(tree)), condensed(embedded))[0])

    def fail(*args, **kwargs):
        raise AssertionError("the whole matrix was made")

    monkeypatch.setattr(TreeDistance, "__array__", fail)
    assert metrics.distance_correlation(tree, P, metric=metric) == pytest.approx(expected)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("sizes", [(500,), (1, 499), (250, 0, 250), (1,) * 500, (3, 290, 0, 207)])
def test_moments_in_parts_are_those_of_the_whole(offset, sizes):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(500) + np.linspace(0, 3, 500) + offset  # the parts differ in mean
    b = 0.5 * (a - offset) + rng.standard_normal(500) - 3 * offset
    moments = metrics.Moments()
    for part in np.split(np.arange(500), np.cumsum(sizes)[:-1]):
        moments = moments.and_of(a[part], b[part])
    assert moments.n == 500
    assert (moments.mean_a, moments.mean_b) == pytest.approx((a.mean(), b.mean()))
    covariance = 499 * np.cov(a, b)
    found = [[moments.aa, moments.ab], [moments.ab, moments.bb]]
    assert np.allclose(found, covariance, rtol=1e-6)
    assert moments.correlation == pytest.approx(np.corrcoef(a, b)[0, 1], rel=1e-6)


def test_moments_of_nothing_and_of_a_constant():
    assert metrics.Moments().correlation == 0
    assert metrics.Moments().and_of(np.ones(9), np.arange(9.0)).correlation == 0
    assert metrics.Moments().and_of(np.arange(9.0), -np.arange(9.0)).correlation == pytest.approx(
        -1
    )


# --- reconstruction -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([[0, 0], [3, 4]], 2.5),
        ([[np.nan, 3], [4, np.nan]], np.sqrt(12.5)),
        ([[np.nan, -3], [np.nan, np.nan]], 3.0),
        ([[0, 0], [0, 0]], 0.0),
        ([[1e200, 1e200], [-1e200, 1e200]], 1e200),
        ([[1e-200, 0], [0, np.nan]], 1e-200 / np.sqrt(3)),
    ],
)
def test_reconstruction_error_by_hand(data, expected):
    data = np.array(data, dtype=float)
    before = data.copy()
    value = metrics.reconstruction_error(data, np.zeros((2, 2)))
    assert value == pytest.approx(expected, rel=1e-12, abs=0)
    filled = np.where(np.isnan(data), 7.0, data)
    assert metrics.reconstruction_error(data, filled) == 0
    assert np.array_equal(data, before, equal_nan=True)


@pytest.mark.parametrize(
    ("data", "found", "message"),
    [
        (Y * np.nan, Y, "'Y' of reconstruction_error has no entry that is not missing"),
        (Y, Y[:, :1], r"same shape\. Got \(60, 5\) and \(60, 1\) instead"),
        (Y[:1], Y, r"same shape\. Got \(1, 5\) and \(60, 5\) instead"),
        (Y, Y * np.nan, "'reconstruction' of reconstruction_error must be finite"),
        (Y * np.inf, Y, "'Y' of reconstruction_error must be finite, or NaN where missing"),
    ],
)
def test_bad_reconstructions(data, found, message):
    with pytest.raises(ValueError, match=message):
        metrics.reconstruction_error(data, found)


def test_batch_mixing_is_0_apart_and_1_at_random():
    rng = np.random.default_rng(0)
    P = 0.5 * rng.uniform(-1, 1, (600, 2))
    batch = rng.integers(3, size=600)
    assert abs(metrics.batch_mixing(P, batch) - 1.0) < 0.05
    assert abs(metrics.batch_mixing(P, batch, metric="euclidean", n_neighbors=10) - 1.0) < 0.08
    apart = 0.1 * P + 0.6 * np.array([[1, 0], [-0.5, 0.8], [-0.5, -0.8]])[batch]
    assert metrics.batch_mixing(apart, batch.astype(str)) == 0.0
    # of two batches that alternate along a line every neighbour is of the other one or the next
    line = np.c_[np.linspace(-0.8, 0.8, 40), np.zeros(40)]
    found = metrics.batch_mixing(line, np.arange(40) % 2, n_neighbors=2, metric="euclidean")
    assert found > 1.8
    assert metrics.batch_mixing(P[:3], [0, 1, 1], n_neighbors=50) == pytest.approx(1.0)


def test_batch_mixing_needs_two_batches():
    with pytest.raises(ValueError, match="must have two batches or more, and has one"):
        metrics.batch_mixing(np.zeros((5, 2)), ["a"] * 5)


# --- missing entries ------------------------------------------------------------------------


def test_missing_entries_leave_the_columns_that_both_rows_have():
    rng = np.random.default_rng(0)
    rows, points = rng.standard_normal((40, 8)), rng.uniform(-0.5, 0.5, (40, 2))
    holes = np.where(rng.uniform(size=rows.shape) < 0.15, np.nan, rows)
    shared = ~np.isnan(holes)[:, None] & ~np.isnan(holes)[None]
    gaps = np.nan_to_num(holes)[:, None] - np.nan_to_num(holes)[None]
    squares = 8.0 / shared.sum(2) * (shared * gaps**2).sum(2)
    # points whose distances are those: classical scaling needs none, so ranks are compared
    i, j = np.triu_indices(40, 1)
    wanted = spearmanr(squares[i, j], pdist(points)).statistic
    assert metrics.shepard_goodness(holes, points) == pytest.approx(wanted, abs=1e-9)
    close = metrics.trustworthiness(rows, rows[:, :2]), metrics.trustworthiness(holes, rows[:, :2])
    assert close[0] == pytest.approx(close[1], abs=0.1)
    whole = metrics.evaluate(rows, points)
    assert metrics.evaluate(np.where(np.isnan(rows), 0, rows), points) == whole


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([[np.nan, np.nan], [1, 2], [3, 4.0]]), "Row 0 of the 'Y' of .* has no entry"),
        (np.array([[np.nan, 1.0], [1, np.nan], [3, 4.0]]), "no column in common"),
    ],
)
def test_rows_between_which_there_is_no_distance(rows, message):
    with pytest.raises(ValueError, match=message):
        metrics.shepard_goodness(rows, np.eye(3)[:, :2])


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_one_missing_entry_costs_no_digits(offset):
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.6, 0.6, (60, 2))
    rows = points @ rng.standard_normal((2, 5)) + offset
    rows[3, 1] = np.nan
    assert metrics.trustworthiness(rows, points) > 0.96
    assert metrics.shepard_goodness(rows, points) > 0.8
