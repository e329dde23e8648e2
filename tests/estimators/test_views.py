"""Roots, pseudotime, paths and distances."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.exceptions import NotFittedError

import hgplvm
from hgplvm import geometry
from hgplvm.datasets import make_binary_tree
from hgplvm.manifolds import Hyperbolic
from tests.gp import NOISE, on

HYPERBOLIC = Hyperbolic()

TREE = make_binary_tree(4, random_state=0)
OPTIONS = {"random_state": 0, "max_iter": 30, "noise_floor": 0.1}


@pytest.fixture(
    scope="module", params=["HGPLVM", "BayesianHGPLVM", "VecchiaHGPLVM", "GPLVM", "VecchiaGPLVM"]
)
def fitted(request):
    return getattr(hgplvm, request.param)(**OPTIONS).fit(TREE.data)


@pytest.fixture
def model(fitted):
    """A copy, which may be turned."""
    return copy.deepcopy(fitted)


@pytest.fixture(scope="module")
def hyperbolic():
    return hgplvm.VecchiaHGPLVM(n_neighbors=10, **OPTIONS).fit(TREE.data)


ROOTS = {
    "row": 5,
    "last row": -1,
    "numpy row": np.int64(7),
    "mask": TREE.target == 0,
    "point": [0.1, -0.2],
}


@pytest.mark.parametrize("kind", ROOTS)
def test_a_root_goes_to_the_origin_and_nothing_else_changes(model, kind):
    rows = TREE.data[:5] + 0.01
    root = ROOTS[kind]
    before = (model.distances(), model.score(rows), model.log_likelihood_, model.pseudotime(root))
    decoded = model.inverse_transform(model.embedding_)
    place = model.embedding_[root] if np.ndim(root) == 0 else None
    assert model.recenter(root) is model
    assert np.allclose(model.distances(), before[0], atol=1e-10)
    assert model.score(rows) == pytest.approx(before[1], abs=1e-8)
    assert model.log_likelihood_ == before[2]
    assert np.allclose(model.pseudotime(), before[3], atol=1e-8)
    assert np.allclose(model.inverse_transform(model.embedding_), decoded, atol=1e-6)
    if place is not None:
        assert np.allclose(model.embedding_[root], 0.0, atol=1e-12)
    again = model.distances(model.embedding_)
    assert np.allclose(again, before[0], rtol=1e-6, atol=1e-6)


def test_the_objective_does_not_see_the_root(hyperbolic):
    """The exact likelihood of the latents that users see, to 1e-8 of itself."""
    from hgplvm.objectives import ExactObjective, Parameters

    data = torch.from_numpy(TREE.data - TREE.data.mean(0))
    objective = ExactObjective(data, on(HYPERBOLIC), NOISE)
    values = []
    for root in (3, 200, TREE.target == 2):
        hyperbolic.recenter(root)
        positive = {
            "variance": hyperbolic.variance_,
            "noise": hyperbolic.noise_variance_,
            "length_scale": hyperbolic.length_scale_,
        }
        logs = {k: torch.tensor(np.log(v)) for k, v in positive.items()}
        x = torch.from_numpy(hyperbolic.lorentz_)
        values.append(objective.value(Parameters(x, logs, ())))
    assert values == pytest.approx([values[0]] * 3, rel=1e-8)


def test_recentring_is_what_center_would_have_done():
    moved = hgplvm.HGPLVM(**OPTIONS).fit(TREE.data).recenter(9)
    there = hgplvm.HGPLVM(center=9, **OPTIONS).fit(TREE.data)
    assert np.allclose(moved.embedding_, there.embedding_, atol=1e-9)


def test_attributes_move_together(hyperbolic):
    hyperbolic.recenter(17)
    ball = geometry.lorentz_to_poincare(torch.from_numpy(hyperbolic.lorentz_)).numpy()
    assert np.allclose(ball, hyperbolic.embedding_)
    model = hgplvm.SparseHGPLVM(n_inducing=10, **OPTIONS).fit(TREE.data).recenter(4)
    inducing = torch.from_numpy(model.inducing_)
    gaps = geometry.pairwise_distance(inducing, torch.from_numpy(model.lorentz_)).amin(1)
    assert gaps.max() < 1e-6  # they are rows of the latents


def test_pseudotime_grows_along_the_tree(model):
    depth = TREE.target
    time = model.pseudotime(root=depth == 0)
    assert time.shape == (len(depth),)
    assert spearmanr(time, depth).statistic > 0.85
    assert time[depth == 0].max() < np.median(time)


def test_pseudotime_is_hyperbolic_distance(hyperbolic):
    x = torch.from_numpy(hyperbolic.lorentz_)
    expected = geometry.distance(x[12], x).numpy()
    assert np.allclose(hyperbolic.pseudotime(12), expected, atol=1e-9)
    hyperbolic.recenter(12)
    assert np.allclose(hyperbolic.pseudotime(), expected, atol=1e-9)
    assert hyperbolic.pseudotime(12)[12] == pytest.approx(0.0, abs=1e-9)


def test_uncertain_times_are_those_of_samples(hyperbolic):
    time, std = hyperbolic.pseudotime(30, return_std=True)
    assert np.allclose(time, hyperbolic.pseudotime(30))
    x, c = (torch.from_numpy(a) for a in (hyperbolic.lorentz_, hyperbolic.posterior_cov_))
    zeta = torch.randn(4000, len(x), 2, generator=torch.Generator().manual_seed(0)).double()
    root = torch.linalg.cholesky(c)
    draws = HYPERBOLIC.displaced(x, (root @ zeta.unsqueeze(-1)).squeeze(-1))
    sampled = geometry.distance(x[30], draws).std(0).numpy()
    assert np.median(np.abs(std / sampled - 1.0)) < 0.05
    assert (std > 0).all()


def test_geodesics_are_straight_and_even(model):
    path = model.geodesic(3, 150, n_points=21)
    assert path.shape == (21, 2)
    assert np.allclose(path[[0, -1]], model.embedding_[[3, 150]], atol=1e-9)
    apart = model.distances(path)
    assert np.allclose(np.diff(apart[0]), apart[0, -1] / 20, rtol=1e-6)
    assert model.inverse_transform(path).shape == (21, TREE.data.shape[1])
    assert model.geodesic(3, 3, n_points=2) == pytest.approx(model.embedding_[[3, 3]])


def test_geodesics_between_points_and_masks(hyperbolic):
    path = hyperbolic.geodesic([0.5, 0.1], TREE.target == 0)
    assert path.shape == (100, 2)
    assert np.allclose(path[0], [0.5, 0.1])
    hyperbolic.recenter(TREE.target == 0)
    assert np.allclose(hyperbolic.geodesic([0.0, 0.0], TREE.target == 0), 0.0, atol=1e-9)


def test_distances(model):
    found = model.distances()
    assert found.shape == (len(TREE.data),) * 2
    assert (found.diagonal() == 0).all()
    assert np.allclose(found, found.T)
    points = torch.from_numpy(model.embedding_)
    if hasattr(model, "lorentz_"):
        expected = geometry.pairwise_distance(torch.from_numpy(model.lorentz_)).numpy()
    else:
        expected = torch.cdist(points, points).numpy()
    assert np.allclose(found, expected, atol=1e-6)


def test_flat_units_follow_the_length_scale():
    one, ten = (
        hgplvm.GPLVM(length_scale=s, init="pca", **OPTIONS).fit(TREE.data) for s in (3.0, 30.0)
    )
    assert np.allclose(ten.distances(), 10.0 * one.distances(), rtol=1e-4)
    assert np.allclose(ten.pseudotime(0), 10.0 * one.pseudotime(0), rtol=1e-4)
    assert np.allclose(ten.geodesic(0, 9), 10.0 * one.geodesic(0, 9), rtol=1e-3, atol=1e-4)
    rows = TREE.data[:4] + 0.01
    assert np.allclose(ten.transform(rows), 10.0 * one.transform(rows), rtol=1e-2, atol=1e-2)
    assert np.allclose(
        ten.inverse_transform(ten.embedding_), one.inverse_transform(one.embedding_), atol=1e-3
    )


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (300, "must be a row index below 300"),
        (-301, "must be a row index below 300"),
        ("stem", "must be a row index below 300, a mask of rows, or a point of 2 coordinates"),
        (True, "as a mask, must have one entry"),
        ([0.1], "a point of 2 coordinates"),
        ([0.1, 0.2, 0.3], "a point of 2 coordinates"),
        ([0.8, 0.9], "Poincaré ball coordinates, of norm below 1"),
        ([np.nan, 0.1], "must be finite"),
        (np.zeros(300, dtype=bool), "some of them True. Got shape .* with 0 True"),
        (np.ones(4, dtype=bool), "one entry for each of the 300 rows"),
        (1.5, "a point of 2 coordinates"),
        (None, "a point of 2 coordinates"),
    ],
)
def test_roots_that_are_none(hyperbolic, root, message):
    before = hyperbolic.embedding_.copy()
    with pytest.raises(ValueError, match=message):
        hyperbolic.recenter(root)
    with pytest.raises(ValueError, match=message):
        hyperbolic.geodesic(0, root)
    assert np.array_equal(hyperbolic.embedding_, before)


def test_before_the_fit():
    model = hgplvm.HGPLVM()
    for call in (
        lambda: model.recenter(0),
        lambda: model.pseudotime(),
        lambda: model.geodesic(0, 1),
        lambda: model.distances(),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


def test_other_bad_input(hyperbolic):
    with pytest.raises(ValueError, match=r"'n_points' parameter .* must be an int"):
        hyperbolic.geodesic(0, 1, n_points=1)
    with pytest.raises(ValueError, match="'return_std' parameter"):
        hyperbolic.pseudotime(0, return_std=1)
    with pytest.raises(ValueError, match="Poincaré ball coordinates, of norm below 1"):
        hyperbolic.distances([[2.0, 0.0]])
