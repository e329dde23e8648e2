"""The spirals, against their formula."""

import numpy as np
import pytest

from hgplvm.datasets import make_spirals


def formula(spirals, n_spirals, turn):
    """Points without oscillation, as complex numbers: radius t, angle 2π(s/S + turn·t)."""
    s, t = spirals.target, spirals.time
    return t * np.exp(2j * np.pi * s / n_spirals) * np.exp(2j * np.pi * turn * t)


def test_sizes_are_those_of_the_paper():
    spirals = make_spirals(random_state=0)
    assert spirals.data.shape == (800, 20)
    assert spirals.plane.shape == (800, 2)
    assert spirals.time.shape == (800,)
    assert np.bincount(spirals.target).tolist() == [80] * 10


@pytest.mark.parametrize(
    ("n_samples", "n_spirals", "shares"),
    [(23, 5, [5, 5, 5, 4, 4]), (9, 9, [1] * 9), (7, 1, [7]), (11, 4, [3, 3, 3, 2])],
)
def test_rows_are_shared_evenly(n_samples, n_spirals, shares):
    spirals = make_spirals(n_samples, n_spirals=n_spirals, n_features=3, random_state=0)
    assert len(spirals.data) == n_samples
    assert np.bincount(spirals.target).tolist() == shares


def test_each_spiral_goes_from_the_origin_to_radius_one():
    spirals = make_spirals(43, n_spirals=4, noise=0.0, random_state=0)
    for s in range(4):
        radius = np.linalg.norm(spirals.plane[spirals.target == s], axis=1)
        assert radius[0] == 0
        assert radius[-1] == pytest.approx(1)
        assert np.allclose(np.diff(radius), 1 / (len(radius) - 1))


@pytest.mark.parametrize("turn", [0.15, 0.0, -2.0])
def test_without_noise_points_lie_on_the_formula(turn):
    spirals = make_spirals(60, n_spirals=6, turn=turn, noise=0.0, random_state=0)
    points = spirals.plane[:, 0] + 1j * spirals.plane[:, 1]
    assert np.allclose(points, formula(spirals, 6, turn), rtol=0, atol=1e-14)


def test_the_oscillation_grows_with_the_radius():
    spirals = make_spirals(20_000, n_spirals=4, turn=0.3, noise=0.2, random_state=0)
    clean = formula(spirals, 4, 0.3)
    moved = spirals.plane - np.stack([clean.real, clean.imag], axis=1)
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        ring = (spirals.time > low) & (spirals.time <= low + 0.2)
        spread = moved[ring].std(axis=0) / np.sqrt(np.mean(spirals.time[ring] ** 2))
        assert spread == pytest.approx(0.2, rel=0.05)
    assert (moved[spirals.time == 0] == 0).all()
    units = moved[spirals.time > 0] / spirals.time[spirals.time > 0, None]
    assert abs(np.corrcoef(units.T)[0, 1]) < 0.03  # the two directions are independent
    assert np.abs(units.mean(axis=0)).max() < 0.01


def test_data_are_a_linear_map_of_the_plane():
    spirals = make_spirals(200, n_features=7, random_state=0)
    assert np.linalg.matrix_rank(spirals.data) == 2
    linear, *_ = np.linalg.lstsq(spirals.plane, spirals.data, rcond=None)
    assert np.allclose(spirals.plane @ linear, spirals.data)


def test_seeds():
    a, b, c = (make_spirals(50, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(a.data, b.data)
    assert not np.array_equal(a.data, c.data)
    assert not np.array_equal(a.plane, c.plane)
    again = make_spirals(50, random_state=np.random.RandomState(0))
    assert np.array_equal(a.data, again.data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 9}, r"'n_samples' .* an int in the range \[10, inf\)\. Got 9 instead"),
        ({"n_samples": 50.5}, r"'n_samples' .* an int in the range \[10, inf\)\. Got 50\.5"),
        ({"n_spirals": 0}, r"'n_spirals' .* an int in the range \[1, inf\)\. Got 0 instead"),
        ({"n_spirals": 2.0}, r"'n_spirals' .* an int .* Got 2\.0 instead"),
        ({"n_features": 1}, r"'n_features' .* an int in the range \[2, inf\)\. Got 1 instead"),
        ({"turn": np.inf}, r"'turn' .* a finite float .* Got inf instead"),
        ({"turn": "once"}, r"'turn' .* a finite float .* Got 'once' instead"),
        ({"noise": -0.1}, r"'noise' .* a finite float in the range \[0, inf\)\. Got -0\.1 instead"),
        ({"noise": np.nan}, r"'noise' .* Got nan instead"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=rf"^The {message}") as caught:
        make_spirals(**arguments)
    assert "parameter of make_spirals must be" in str(caught.value)
