"""Metrics against scikit-learn, SciPy and small cases by hand."""

import numpy as np
import pytest
import sklearn.manifold
import torch
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from hgplvm import geometry, metrics

RNG = np.random.default_rng(0)
Y = RNG.standard_normal((60, 5))
P = 0.25 * Y[:, :2] + 0.05 * RNG.standard_normal((60, 2))
P /= np.maximum(1, 1.1 * np.linalg.norm(P, axis=1, keepdims=True))
LABELS = np.digitize(Y[:, 0], [-0.5, 0.5])


def hyperbolic(p):
    return geometry.pairwise_distance(geometry.poincare_to_lorentz(torch.from_numpy(p))).numpy()


def condensed(square):
    return square[np.triu_indices(len(square), 1)]


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


def test_evaluate_collects_them():
    scores = metrics.evaluate(Y, P, LABELS, metric="poincare", n_neighbors=4)
    assert scores == {
        "trustworthiness": metrics.trustworthiness(Y, P, n_neighbors=4, metric="poincare"),
        "continuity": metrics.continuity(Y, P, n_neighbors=4, metric="poincare"),
        "shepard_goodness": metrics.shepard_goodness(Y, P, metric="poincare"),
        "knn_accuracy": metrics.knn_accuracy(P, LABELS, n_neighbors=4, metric="poincare"),
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
