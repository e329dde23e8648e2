"""Poincaré maps against mpmath, autograd, NumPy's inverse and graphs by brute force."""

from itertools import combinations

import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm import metrics
from hgplvm.baselines import PoincareMaps, poincare_maps
from hgplvm.baselines.poincare_maps import (
    LARGEST_NORM,
    descended,
    divergence,
    forest_accessibility,
    neighbor_graph,
)
from hgplvm.datasets import make_binary_tree

RNG = np.random.default_rng(0)
Y = RNG.standard_normal((30, 4))
TREE = make_binary_tree(depth=4, n_per_node=10, random_state=0)
THREE = np.concatenate([RNG.uniform(size=(6, 2)) + at for at in ([0, 0], [9, 0], [4, 7])])


# --- the loss -------------------------------------------------------------------------------


def some_target(n, n_rows):
    target = torch.from_numpy(RNG.uniform(0.1, 1.0, size=(n_rows, n)))
    return target / target.sum(-1, keepdim=True)


def loss_by_definition(points, rows, target, gamma):
    """Sum over pairs, in 40 digits."""
    with mpmath.workdps(40):
        p = [[mpmath.mpf(float(c)) for c in point] for point in points]
        inside = [1 - sum(c * c for c in point) for point in p]
        total = mpmath.mpf(0)
        for r, i in enumerate(rows.tolist()):
            gap = [sum((a - b) ** 2 for a, b in zip(p[i], q, strict=True)) for q in p]
            distance = [
                mpmath.acosh(1 + 2 * g / (inside[i] * inside[j])) for j, g in enumerate(gap)
            ]
            unscaled = [mpmath.exp(-gamma * d) for d in distance]
            for j, weight in enumerate(unscaled):
                q, truth = weight / sum(unscaled), mpmath.mpf(float(target[r, j]))
                total += (mpmath.log(truth) - mpmath.log(q)) * (truth - q)
        return float(total / len(rows))


def differentiable_loss(points, rows, target, gamma):
    inside = 1 - points.square().sum(-1)
    gap = (points[rows][:, None] - points).square().sum(-1)
    cosh = 1 + 2 * gap / (inside[rows][:, None] * inside)
    apart = cosh > 1
    distance = torch.where(apart, torch.acosh(torch.where(apart, cosh, 2.0)), 0.0)
    log_q = (-gamma * distance).log_softmax(-1)
    return ((target.log() - log_q) * (target - log_q.exp())).sum() / len(rows)


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_loss_and_gradient(q, gamma):
    points = torch.from_numpy(RNG.uniform(-0.55, 0.55, size=(7, q)))
    points[5] = points[3]
    rows = torch.tensor([3, 0, 6])
    target = some_target(7, 3)
    loss, gradient = divergence(points, rows, target, target.log(), gamma)
    assert loss == pytest.approx(loss_by_definition(points, rows, target, gamma), rel=1e-12)
    points.requires_grad_()
    differentiable_loss(points, rows, target, gamma).backward()
    assert gradient.abs().min() > 0
    assert torch.allclose(gradient, points.grad, rtol=1e-9, atol=1e-12)


def test_near_pairs_and_points_near_the_edge_keep_their_digits():
    points = torch.tensor([[1e-9, 0.0], [0.0, 2e-9], [1 - 1e-5, 0.0], [0.0, 1e-5 - 1]]).double()
    rows, target = torch.arange(4), some_target(4, 4)
    loss, gradient = divergence(points, rows, target, target.log(), 2.0)
    assert loss == pytest.approx(loss_by_definition(points, rows, target, 2.0), rel=1e-9)
    assert torch.isfinite(gradient).all()


def test_points_that_coincide_do_not_push_each_other():
    points, target = torch.full((4, 2), 0.3).double(), torch.full((4, 4), 0.25).double()
    loss, gradient = divergence(points, torch.arange(4), target, target.log(), 2.0)
    assert loss == pytest.approx(0, abs=1e-30)
    assert torch.equal(gradient, torch.zeros(4, 2).double())
    loss, gradient = divergence(points, torch.arange(4), some_target(4, 4), target.log(), 2.0)
    assert np.isfinite(loss)
    assert torch.equal(gradient, torch.zeros(4, 2).double())


def test_a_step_by_hand():
    points = torch.tensor([[0.6, 0.0], [0.0, 0.0]], dtype=torch.float64)
    gradient = torch.tensor([[1.0, 2.0], [-1.0, 3.0]]).double()
    # (1 - 0.36)²/4 = 0.1024
    expected = [[0.6 - 0.01024, -0.02048], [0.025, -0.075]]
    assert np.allclose(descended(points, gradient, 0.1), expected, rtol=1e-12, atol=0)


def test_steps_stay_in_the_ball_and_keep_their_direction():
    points = torch.tensor([[0.0, 0.0], [0.9, 0.0]], dtype=torch.float64)
    found = descended(points, torch.tensor([[-3e9, 4e9], [-1e9, 0.0]]).double(), 1.0)
    expected = LARGEST_NORM * np.array([[0.6, -0.8], [1.0, 0.0]])
    assert np.allclose(found, expected, rtol=1e-12, atol=0)
    assert found.norm(dim=-1).max() < 1


# --- the graph ------------------------------------------------------------------------------


def test_weights_by_hand():
    line = np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0], [7.0, 5.0]])
    expected = np.zeros((4, 4))
    for a, b, length in ((0, 1, 1), (1, 2, 2), (2, 3, 4)):
        expected[a, b] = expected[b, a] = np.exp(-length / (3.0 * 2))
    assert np.allclose(neighbor_graph(line, 1, 3.0).toarray(), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("k", [1, 3, 29])
@pytest.mark.parametrize("columns", [4, 20])
def test_rows_are_joined_where_one_is_among_the_neighbors_of_the_other(k, columns):
    data = np.random.default_rng(k).standard_normal((30, columns))
    distance = cdist(data, data)
    near = np.argsort(distance + np.diag(np.full(30, np.inf)), axis=1)[:, :k]
    joined = np.zeros((30, 30), dtype=bool)
    np.put_along_axis(joined, near, True, axis=1)
    joined |= joined.T
    graph = neighbor_graph(data, k, 1.5).toarray()
    assert np.array_equal(graph, graph.T)
    assert np.allclose(graph[joined], np.exp(-distance[joined] / (1.5 * columns)), rtol=1e-9)
    pieces, of = connected_components(joined)
    others = (graph > 0) & ~joined
    assert others.sum() == 2 * (pieces - 1)
    assert not (others & (of[:, None] == of)).any()
    assert connected_components(graph > 0)[0] == 1


def test_identical_rows_stay_joined():
    data = np.repeat(Y[:5], 4, axis=0)
    graph = neighbor_graph(data, 3, 1.0).toarray()
    same = np.repeat(np.repeat(np.eye(5, dtype=bool), 4, 0), 4, 1) & ~np.eye(20, dtype=bool)
    assert np.array_equal(graph[same], np.ones(60))
    assert connected_components(graph > 0)[0] == 1
    graph = neighbor_graph(np.ones((9, 2)), 2, 1.0)
    assert connected_components(graph > 0)[0] == 1
    assert np.array_equal(np.unique(graph.data), [1.0])


def test_pieces_are_joined_by_the_shortest_bridges():
    cluster = np.repeat(np.arange(3), 6)
    distance = cdist(THREE, THREE)
    shortest = {}
    for a, b in combinations(range(3), 2):
        pairs = [(i, j) for i in range(18) for j in range(18) if (cluster[i], cluster[j]) == (a, b)]
        shortest[a, b] = min(pairs, key=lambda pair: distance[pair])
    total = {two: sum(distance[shortest[s]] for s in two) for two in combinations(shortest, 2)}
    best = {shortest[side] for side in min(total, key=total.get)}
    graph = neighbor_graph(THREE, 3, 1.0).toarray()
    crossing = np.argwhere(np.triu((cluster[:, None] != cluster) & (graph > 0)))
    assert {tuple(edge) for edge in crossing.tolist()} == best
    for edge in best:
        assert graph[edge] == graph[edge[::-1]] == pytest.approx(np.exp(-distance[edge] / 2))


def test_the_graph_does_not_depend_on_where_the_data_lie():
    data = np.random.default_rng(0).integers(-50, 50, size=(40, 20)).astype(float)
    here, there = neighbor_graph(data, 4, 1.0), neighbor_graph(data + 2.0**28, 4, 1.0)
    assert np.allclose(here.toarray(), there.toarray(), rtol=1e-9, atol=1e-12)


def test_forest_accessibility_is_an_inverse():
    graph = neighbor_graph(THREE, 3, 1.0)
    weights = graph.toarray()
    laplacian = np.diag(weights.sum(1)) - weights
    access = forest_accessibility(graph)
    assert np.allclose(access, np.linalg.inv(np.eye(18) + laplacian), rtol=1e-10, atol=0)
    assert np.allclose(access.sum(1), 1, rtol=1e-12)
    assert access.min() > 0


# --- the fit --------------------------------------------------------------------------------


@parametrize_with_checks([PoincareMaps(n_neighbors=2, max_iter=5)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", [0, 1])
def test_distances_along_a_tree_are_found(seed):
    fitted = PoincareMaps(max_iter=100, random_state=seed).fit(TREE.data)
    start = PoincareMaps(max_iter=1, learning_rate=1e-12, random_state=seed).fit(TREE.data)
    found = metrics.distance_correlation(TREE.tree_distance, fitted.embedding_)
    assert found > 0.8  # 0.853
    assert metrics.distance_correlation(TREE.tree_distance, start.embedding_) < 0.1
    assert np.linalg.norm(fitted.embedding_, axis=1).max() < 1


def test_the_loss_falls():
    losses = [PoincareMaps(max_iter=m, random_state=0).fit(TREE.data).loss_ for m in (1, 5, 20, 60)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.2 * losses[0]


def test_the_loss_is_that_of_all_rows():
    still = PoincareMaps(n_neighbors=4, sigma=0.5, gamma=1.5, max_iter=1, random_state=0)
    still.set_params(learning_rate=1e-12).fit(Y)
    target = torch.from_numpy(forest_accessibility(neighbor_graph(Y, 4, 0.5)))
    expected = loss_by_definition(still.embedding_, torch.arange(30), target, 1.5)
    assert still.loss_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("tol", "passes"), [(0, 7), (1e9, 2)])
def test_the_fit_ends_where_the_loss_stays(tol, passes):
    assert PoincareMaps(n_neighbors=3, max_iter=7, tol=tol).fit(Y).n_iter_ == passes


@pytest.mark.parametrize(("n", "size"), [(5, 1), (30, 3), (29, 2), (150, 7)])
def test_batches_are_a_tenth_of_the_rows_and_steps_grow_with_them(monkeypatch, n, size):
    monkeypatch.setattr(poincare_maps, "LARGEST_BATCH", 7)
    batches, steps = [], set()

    def loss(points, rows, *others):
        batches.append(rows)
        return divergence(points, rows, *others)

    def step(points, gradient, length):
        steps.add(length)
        return descended(points, gradient, length)

    monkeypatch.setattr(poincare_maps, "divergence", loss)
    monkeypatch.setattr(poincare_maps, "descended", step)
    PoincareMaps(n_neighbors=3, max_iter=1, learning_rate=0.4).fit(TREE.data[:n])
    assert [len(rows) for rows in batches[:-1]] == [size] * ((n - 1) // size)
    assert sorted(torch.cat(batches).tolist()) == list(range(n))
    assert list(steps) == pytest.approx([0.4 * size / 16])


def test_the_seed_decides():
    def run(seed):
        return PoincareMaps(n_neighbors=3, max_iter=5, random_state=seed).fit_transform(Y)

    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert np.array_equal(run(0), run(0))
    assert np.array_equal(run(0), run(np.random.RandomState(0)))
    assert not np.allclose(run(0), run(1))
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def with_constant_columns():
    return np.hstack([Y, np.full((30, 2), 7.0)])


@pytest.mark.parametrize(
    ("data", "k"),
    [
        (np.repeat(Y[:6], 5, axis=0), 3),
        (np.ones((8, 3)), 2),
        (with_constant_columns(), 5),
        (Y[:3], 1),
        (Y[:2], 1),
        (Y * 1e100, 4),
        (Y * 1e-100, 4),
        (Y[:, :1], 4),
        (THREE, 2),
    ],
)
def test_awkward_data_have_finite_embeddings(data, k):
    fitted = PoincareMaps(n_neighbors=k, max_iter=30, random_state=0).fit(data)
    assert fitted.embedding_.shape == (len(data), 2)
    assert np.linalg.norm(fitted.embedding_, axis=1).max() < 1
    assert np.isfinite(fitted.loss_)


@pytest.mark.parametrize("q", [1, 3])
def test_other_dimensions(q):
    points = PoincareMaps(q, n_neighbors=3, max_iter=3, random_state=0).fit_transform(Y)
    assert points.shape == (30, q)
    assert np.ptp(points, axis=0).min() > 1e-3


def test_steps_of_any_length_stay_in_the_ball():
    wild = PoincareMaps(n_neighbors=3, max_iter=5, learning_rate=1e4, random_state=0).fit(Y)
    assert 0.999 < np.linalg.norm(wild.embedding_, axis=1).max() < 1


# --- scikit-learn ---------------------------------------------------------------------------


def test_clones_and_pipelines():
    model = PoincareMaps(n_neighbors=4, gamma=1.5, max_iter=3, random_state=0)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["gamma"] == 1.5
    piped = make_pipeline(StandardScaler(), clone(model)).fit_transform(Y)
    assert np.array_equal(piped, model.fit_transform(StandardScaler().fit_transform(Y)))
    assert np.array_equal(model.embedding_, piped)


def test_names_of_columns_are_kept():
    frame = pd.DataFrame(Y, columns=list("abcd"))
    model = PoincareMaps(n_neighbors=4, max_iter=2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list("abcd")
    assert model.n_features_in_ == 4
    assert np.array_equal(model.embedding_, clone(model).fit(Y).embedding_)


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_progress_bar(capsys, monkeypatch, verbose):
    monkeypatch.setattr("hgplvm._progress._is_terminal", lambda _: True)
    PoincareMaps(n_neighbors=4, max_iter=2, verbose=verbose).fit(Y)
    assert ("PoincareMaps" in capsys.readouterr().err) == bool(verbose)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("n_components", 0, r"an int in the range \[1, inf\)"),
        ("n_components", 2.0, "an int"),
        ("n_neighbors", 0, r"an int in the range \[1, inf\)"),
        ("max_iter", 0, r"an int in the range \[1, inf\)"),
        ("sigma", 0.0, r"a finite float in the range \(0, inf\)"),
        ("gamma", -1.0, "a finite float"),
        ("learning_rate", np.nan, "a finite float"),
        ("tol", -1e-9, r"a finite float in the range \[0, inf\)"),
        ("tol", "small", "a finite float"),
    ],
)
def test_bad_parameters(name, value, allowed):
    with pytest.raises(
        ValueError, match=rf"^The '{name}' parameter of PoincareMaps must be {allowed}.*instead\.$"
    ):
        PoincareMaps(**{name: value}).fit(Y)


def test_more_rows_than_neighbors_are_needed():
    message = r"^The 'n_neighbors' parameter of PoincareMaps must be below n_samples = 15\. Got 15 "
    with pytest.raises(ValueError, match=message):
        PoincareMaps().fit(Y[:15])
    assert PoincareMaps(max_iter=1).fit_transform(Y[:16]).shape == (16, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_data_must_be_finite(bad):
    data = Y.copy()
    data[3, 1] = bad
    with pytest.raises(ValueError, match="contains"):
        PoincareMaps().fit(data)


def test_more_identical_rows_than_neighbours_stay_in_one_piece():
    data = np.vstack([np.zeros((40, 3)), Y[:20, :3]])
    graph = neighbor_graph(data, 5, 1.0)
    assert connected_components(graph)[0] == 1


def test_distances_can_be_taken_in_principal_components():
    noisy = np.hstack([Y, 1e-3 * np.random.default_rng(1).standard_normal((len(Y), 20))])
    few = PoincareMaps(n_neighbors=4, n_pca=4, max_iter=3, random_state=0).fit(noisy).embedding_
    rotated = PCA(4, svd_solver="full").fit_transform(noisy)
    same = PoincareMaps(n_neighbors=4, max_iter=3, random_state=0).fit(rotated).embedding_
    assert np.allclose(few, same, atol=1e-12)
    with pytest.raises(ValueError, match="'n_pca' parameter of PoincareMaps"):
        PoincareMaps(n_pca=0).fit(Y)
