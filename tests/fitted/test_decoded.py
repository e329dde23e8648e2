"""What changes around a point of the map, and paths that stay near the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hgplvm import GPLVM, HGPLVM, BayesianHGPLVM, VecchiaHGPLVM
from hgplvm._fitted.decoded import Drivers, drivers_between, function_covariance
from hgplvm.datasets import make_cells
from tests.pl.helpers import exponential, hyperbolic

N, D = 100, 6
OPTIONS = {"max_iter": 20, "random_state": 0}
NAMES = [f"column{j}" for j in range(D)]


def branches(n=N, seed=0):
    """Three arms, the last two columns noise alone."""
    rng = np.random.default_rng(seed)
    arm, t = np.arange(n) % 3, rng.random((n, 1))
    rows = np.zeros((n, D))
    rows[:, :4] = 3.0 * t * rng.standard_normal((3, 4))[arm]
    return rows + 0.1 * rng.standard_normal((n, D))


@pytest.fixture(scope="module", params=[HGPLVM, BayesianHGPLVM, VecchiaHGPLVM])
def model(request):
    found = request.param(**OPTIONS).fit(branches())
    found.feature_names_in_ = np.array(NAMES, dtype=object)
    return found


@pytest.fixture(scope="module")
def counted():
    cells = make_cells(160, 40, topology="bifurcation", informative=0.6, depth=3000, random_state=5)
    return BayesianHGPLVM(likelihood="negative-binomial", **OPTIONS).fit(cells.counts)


def around(point, reach):
    """Ends of a difference quotient along each axis of the frame: ahead and behind [Q, 2]."""
    steps = 0.5 * reach * np.eye(2)
    return exponential(np.asarray(point), steps), exponential(np.asarray(point), -steps)


# --- drivers --------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [None, 0.05, 0.4])
def test_gradients_are_differences_of_decoded_rows(model, reach):
    for at in (model.embedding_[7], np.array([0.1, -0.05])):
        found = model.drivers(at, reach=reach)
        assert reach is None or found.reach == reach
        ahead, behind = (model.inverse_transform(ends) for ends in around(at, found.reach))
        np.testing.assert_allclose(found.gradient, (ahead - behind).T / found.reach, atol=1e-7)
        assert found.gradient.shape == found.std.shape == (D, 2)
        np.testing.assert_allclose(found.size, np.linalg.norm(found.gradient, axis=1))
        squares = np.square(found.gradient / found.std).sum(1)
        np.testing.assert_allclose(found.z, np.sqrt(squares))


def test_the_reach_is_a_share_of_the_distances_between_rows(model):
    distance = model.distances()
    median = np.median(distance[np.triu_indices(N, 1)])
    assert model.drivers(0).reach == pytest.approx(0.15 * median, rel=0.02)


def test_points_are_named_as_elsewhere(model):
    first = model.drivers(4)
    other = model.drivers(model.embedding_[4])
    np.testing.assert_allclose(first.gradient, other.gradient, atol=1e-6)
    mask = np.arange(N) == 4
    np.testing.assert_allclose(model.drivers(mask).gradient, first.gradient, atol=1e-5)


def test_columns_of_noise_drive_nothing(model):
    z = np.array([model.drivers(row).z for row in range(0, N, 9)])
    assert (np.median(z[:, :4], axis=0).min()) > np.median(z[:, 4:], axis=0).max()


def test_between_two_points_it_is_the_difference_of_decoded_rows(model):
    found = model.drivers((3, 50))
    first, last = model.inverse_transform(model.embedding_[[3, 50]])
    assert found.gradient.shape == (D, 1)
    np.testing.assert_allclose(found.gradient[:, 0], last - first, atol=1e-6)
    assert found.reach == pytest.approx(hyperbolic(*model.embedding_[[3, 50]]), abs=1e-6)
    back = model.drivers((50, 3))
    np.testing.assert_allclose(back.gradient, -found.gradient, atol=1e-7)
    np.testing.assert_allclose(back.std, found.std, atol=1e-7)
    points = model.drivers((list(model.embedding_[3]), list(model.embedding_[50])))
    np.testing.assert_allclose(points.gradient, found.gradient, atol=1e-6)


def test_two_numbers_are_a_point_and_no_pair(model):
    found = model.drivers((0.1, -0.05))
    assert found.gradient.shape == (D, 2)
    np.testing.assert_array_equal(found.gradient, model.drivers([0.1, -0.05]).gradient)


def test_from_a_point_to_itself_nothing_changes(model):
    found = model.drivers((3, 3))
    assert found.reach == 0
    np.testing.assert_allclose(found.gradient, 0, atol=1e-9)
    for values in (found.std, found.z, found.size):
        assert np.isfinite(values).all()


def test_gradients_of_counts_are_of_logarithms_of_rates(counted):
    """Decoded counts are means over what is not known of the rate, which changes them little."""
    at = counted.embedding_[5]
    found = counted.drivers(at)
    ahead, behind = (np.log(counted.inverse_transform(ends)) for ends in around(at, found.reach))
    expected = (ahead - behind).T / found.reach
    assert np.corrcoef(found.gradient.ravel(), expected.ravel())[0, 1] > 0.999
    np.testing.assert_allclose(found.gradient, expected, atol=0.05 * np.abs(expected).max())
    whole = counted.drivers((5, 90))
    first, last = np.log(counted.inverse_transform(counted.embedding_[[5, 90]]))
    np.testing.assert_allclose(
        whole.gradient[:, 0], last - first, atol=0.05 * np.abs(last - first).max()
    )
    assert (whole.std > 0).all()


def test_the_top_columns_are_those_of_the_largest_z(model):
    found = model.drivers(11)
    assert list(found.names) == NAMES
    order = sorted(range(D), key=lambda j: -found.z[j])
    assert found.top(3) == [NAMES[j] for j in order[:3]]
    assert found.top(100) == [NAMES[j] for j in order]
    assert found.top(0) == []


def test_a_table_is_printed():
    numbers = np.array([[0.0, 2.0], [-1.0, 0.0], [0.5, -0.5]])
    size = np.linalg.norm(numbers, axis=1)
    names = np.array(["a", "b", "c" * 40])
    lines = str(Drivers(names, numbers, np.ones((3, 2)), size, size, 0.1)).splitlines()
    assert [line.split()[0] for line in lines] == ["column", "a", "b", "c" * 19]
    assert [line.split()[-1] for line in lines[1:]] == ["90°", "180°", "315°"]
    change = np.array([[1.0], [-2.0]])
    pair = Drivers(names[:2], change, np.ones((2, 1)), np.abs(change[:, 0]), np.array([1, 2]), 1.0)
    assert [line.split()[-1] for line in str(pair).splitlines()[1:]] == ["down", "up"]


def test_columns_without_names_are_numbered():
    found = HGPLVM(max_iter=2, random_state=0, length_scale=1.0).fit(branches(30)).drivers(0)
    assert list(found.names) == [str(j) for j in range(D)]


@pytest.mark.parametrize("reach", [0.0, -1.0, np.inf, "far"])
def test_a_reach_is_a_positive_number(model, reach):
    with pytest.raises(ValueError, match=r"'reach' parameter of \w+ must be"):
        model.drivers(0, reach=reach)


@pytest.mark.parametrize("at", [N, "cell", [0.1], [2.0, 0.0], (0, N), (0, "cell")])
def test_points_that_are_none_are_refused(model, at):
    with pytest.raises(ValueError, match="'at'") as info:
        model.drivers(at)
    assert "\n" not in str(info.value)


# --- how sure it is -------------------------------------------------------------------------


def written_out(model, points):
    """Covariance of a function at points of the disk [k, 2], by the formula of the conditional."""
    fitted = model._model
    positions = fitted.positions
    latents = fitted.embedding()[positions.rows.numpy()]
    variance = positions.covariance.variance
    scale = float(positions.covariance.theta["length_scale"])

    def kernel(x, y):
        return variance * np.exp(-hyperbolic(x[:, None], y[None]) / scale)

    gram = kernel(latents, latents) + np.diag(positions.noise.numpy())
    cross = kernel(points, latents)
    return kernel(points, points) - cross @ np.linalg.solve(gram, cross.T)


def shown(points):
    """Points of the disk on the Lorentz model."""
    square = np.square(points).sum(-1, keepdims=True)
    return torch.from_numpy(np.concatenate([1 + square, 2 * points], axis=-1) / (1 - square))


def test_covariances_of_functions_are_those_of_the_conditional(model):
    rng = np.random.default_rng(0)
    groups = np.tanh(0.3 * rng.standard_normal((3, 5, 2)))
    groups[0, 0] = model.embedding_[8]
    engine = model._engine()
    found = function_covariance(engine, engine.hidden(shown(groups))).numpy()
    assert found.shape == (3, 5, 5)
    for own, expected in zip(found, groups, strict=True):
        np.testing.assert_allclose(own, written_out(model, expected), atol=1e-6)


def test_deviations_are_those_of_differences(model):
    """Of functions of one covariance, in the units of the columns."""
    at = model.embedding_[20]
    found = model.drivers(at)
    covariance = written_out(model, np.concatenate(around(at, found.reach)))
    contrast = np.concatenate([np.eye(2), -np.eye(2)], axis=1) / found.reach
    spread = np.diag(contrast @ covariance @ contrast.T)
    unit = model._model.units.data
    np.testing.assert_allclose(found.std, np.tile(unit * np.sqrt(spread), (D, 1)), rtol=1e-4)


def test_changes_far_from_the_data_are_less_sure(model):
    here = model.drivers(10).std.mean()
    there = model.drivers([0.995, 0.0], reach=model.drivers(10).reach).std.mean()
    assert there > here


def test_changes_to_a_row_are_surer_than_to_a_place_between(model):
    engine, names = model._engine(), np.array(NAMES)
    for a, b in ((0, 60), (3, 50), (10, 90)):
        ends = shown(model.geodesic(a, b, 5))
        between, row = (drivers_between(engine, ends[0], ends[k], names).std.mean() for k in (2, 4))
        assert row < between


# --- paths ----------------------------------------------------------------------------------


def length(path):
    return hyperbolic(path[:-1], path[1:]).sum()


def away(path, rows):
    """Mean distance of the points of a path to the nearest row."""
    return hyperbolic(path[:, None], rows[None]).min(1).mean()


@pytest.fixture(scope="module")
def ring():
    """Rows on a circle whose embedding is a ring, and the angle of each."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 2 * np.pi, 120))
    waves = [f(k * t) for k in (1, 2, 3) for f in (np.cos, np.sin)]
    rows = np.stack(waves, axis=1) + 0.05 * rng.standard_normal((120, 6))
    found = HGPLVM(**{**OPTIONS, "max_iter": 40}).fit(rows)
    radius = np.linalg.norm(found.embedding_, axis=1)
    assert radius.min() > 0.6 * radius.max()  # else it is none
    return found


@pytest.mark.parametrize("n_points", [2, 3, 17, 150])
def test_a_path_of_the_data_has_its_ends_and_its_points(ring, n_points):
    path = ring.geodesic(5, 40, n_points, metric="data")
    assert path.shape == (n_points, 2)
    np.testing.assert_allclose(path[[0, -1]], ring.embedding_[[5, 40]], atol=1e-6)
    steps = hyperbolic(path[:-1], path[1:])
    assert np.ptp(steps) < 0.05 * steps.mean()
    assert (np.linalg.norm(path, axis=1) < 1).all()


def test_a_path_of_the_data_is_longer_on_the_map(ring):
    for a, b in ((0, 60), (10, 50)):
        straight, curved = (ring.geodesic(a, b, 60, metric=m) for m in ("latent", "data"))
        assert length(straight) == pytest.approx(hyperbolic(*ring.embedding_[[a, b]]), abs=1e-6)
        assert length(curved) >= length(straight) - 1e-9


def test_a_path_of_the_data_goes_around_an_empty_region(ring):
    """A third of the way round, so that the arc is not much longer than the chord."""
    found = []
    for a in range(0, 120, 20):
        b = (a + 40) % 120
        paths = (ring.geodesic(a, b, 60, metric=m) for m in ("data", "latent"))
        found.append([away(path, ring.embedding_) for path in paths])
    curved, straight = np.mean(found, axis=0)
    assert curved < 0.7 * straight


def test_a_path_through_data_that_fill_the_way_is_nearly_straight():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((150, 2)) @ rng.standard_normal((2, D))
    model = HGPLVM(**OPTIONS).fit(rows + 0.05 * rng.standard_normal((150, D)))
    for a, b in ((0, 1), (7, 9), (20, 30), (31, 44)):
        straight, curved = (model.geodesic(a, b, 50, metric=m) for m in ("latent", "data"))
        whole = length(straight)
        assert hyperbolic(straight, curved).mean() < 0.2 * whole
        assert length(curved) < 1.3 * whole  # along nodes of a graph that are drawn at random


def test_the_same_call_gives_the_same_path(ring):
    first, again = (ring.geodesic(3, 70, 20, metric="data") for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_a_path_from_a_row_to_itself_stays_there(ring):
    path = ring.geodesic(7, 7, 9, metric="data")
    np.testing.assert_allclose(path, np.tile(ring.embedding_[7], (9, 1)), atol=1e-6)


def test_paths_of_counts(counted):
    path = counted.geodesic(5, 90, 12, metric="data")
    assert path.shape == (12, 2)
    np.testing.assert_allclose(path[[0, -1]], counted.embedding_[[5, 90]], atol=1e-6)


def test_metrics_have_names(ring):
    with pytest.raises(ValueError, match=r"'metric' parameter of HGPLVM must be"):
        ring.geodesic(0, 1, metric="euclidean")


def test_flat_models_say_that_they_are_flat():
    flat = GPLVM(max_iter=2, random_state=0, length_scale=1.0).fit(branches(30))
    with pytest.raises(ValueError, match="drivers is for hyperbolic models, and GPLVM is none"):
        flat.drivers(0)
    with pytest.raises(ValueError, match=r"metric='data' is for hyperbolic models, and GPLVM is"):
        flat.geodesic(0, 1, metric="data")
    assert flat.geodesic(0, 1, 5).shape == (5, 2)
