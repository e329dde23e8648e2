"""Boxes that are pushed apart."""

import numpy as np
import pytest

from hgplvm.pl._names import apart

ROOM = np.array([[0.0, 0.0], [1000.0, 800.0]])


def overlap(centres, sizes):
    """Largest overlap of two boxes: the less of its width and height."""
    gap = np.abs(centres[:, None] - centres[None])
    over = (sizes[:, None] + sizes[None]) / 2 - gap
    np.fill_diagonal(over[..., 0], -1)
    return over.min(axis=2).max()


@pytest.mark.parametrize("seed", range(5))
def test_boxes_part_and_stay_near(seed):
    rng = np.random.default_rng(seed)
    places = rng.uniform([300, 200], [700, 600], (25, 2))
    sizes = np.stack([rng.uniform(30, 90, 25), np.full(25, 14.0)], axis=1)
    found = apart(places, sizes, ROOM)
    assert overlap(places, sizes) > 5
    assert overlap(found, sizes) < 1.0
    assert np.median(np.linalg.norm(found - places, axis=1)) < 40


def test_boxes_with_room_stay_where_they_are():
    places = np.array([[100.0, 100.0], [300.0, 100.0], [100.0, 300.0]])
    found = apart(places, np.full((3, 2), 20.0), ROOM)
    assert np.abs(found - places).max() < 1.0


def test_boxes_at_one_place_part():
    places = np.full((6, 2), 400.0)
    sizes = np.tile([80.0, 14.0], (6, 1))
    assert overlap(apart(places, sizes, ROOM), sizes) < 1.0


def test_boxes_stay_in_the_room():
    places = np.array([[-50.0, 400.0], [990.0, 799.0], [5.0, 5.0]])
    sizes = np.tile([80.0, 14.0], (3, 1))
    found = apart(places, sizes, ROOM)
    assert (found - sizes / 2 >= ROOM[0] - 1e-9).all()
    assert (found + sizes / 2 <= ROOM[1] + 1e-9).all()


@pytest.mark.parametrize("n", [0, 1])
def test_few_boxes(n):
    assert apart(np.full((n, 2), 50.0), np.full((n, 2), 10.0), ROOM).shape == (n, 2)


def test_more_boxes_than_fit_are_finite():
    rng = np.random.default_rng(0)
    found = apart(rng.uniform(0, 100, (60, 2)), np.full((60, 2), 60.0), ROOM / 10)
    assert np.isfinite(found).all()
