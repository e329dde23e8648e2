"""Places that users name."""

import numpy as np
import pandas as pd
import pytest
import torch

from hgplvm._points import resolve_point
from hgplvm.manifolds import Hyperbolic

HYPERBOLIC = Hyperbolic()

N, Q = 9, 2


@pytest.fixture
def points(manifold, normal):
    return manifold.from_tangent(normal(N, Q))


@pytest.fixture
def place(manifold, points):
    """What a value names; coordinates are those of the tangent space, for the test."""

    def found(value):
        return resolve_point(
            "walk",
            "root",
            value,
            points,
            manifold=manifold,
            at=lambda given: manifold.from_tangent(torch.from_numpy(given).double()),
        )

    return found


@pytest.mark.parametrize("row", [0, 8, -1, -9, np.int64(3), np.uint8(4)])
def test_rows(place, points, row):
    assert torch.equal(place(row), points[int(row)])


MASK = np.arange(N) % 4 == 1


@pytest.mark.parametrize(
    "mask",
    [MASK, MASK.tolist(), torch.from_numpy(MASK), pd.Series(MASK), pd.array(MASK, dtype="boolean")],
    ids=["array", "list", "tensor", "series", "nullable"],
)
def test_masks_are_their_middle(place, points, manifold, mask):
    middle = place(mask)
    own = points[torch.from_numpy(MASK)]
    pull = manifold.log_map(middle, own).sum(0)  # vanishes at the Fréchet mean, and only there
    assert pull.abs().max() < 1e-6
    assert middle.shape == points[0].shape


def test_a_mask_of_one_row_is_that_row(place, points):
    assert torch.allclose(place(np.arange(N) == 6), points[6], atol=1e-9)


def test_a_mask_is_not_changed(place):
    mask = MASK.copy()
    mask.flags.writeable = False
    place(mask)
    assert (mask == MASK).all()


@pytest.mark.parametrize("value", [[0.3, -0.4], (0.3, -0.4), np.array([0.3, -0.4]), [1, 0]])
def test_coordinates_are_handed_on(place, manifold, value):
    expected = manifold.from_tangent(torch.tensor(value, dtype=torch.float64))
    assert torch.allclose(place(value), expected)


def test_coordinates_may_be_refused_by_their_owner(points):
    def refuse(given):
        raise ValueError(f"not {given.tolist()}")

    with pytest.raises(ValueError, match=r"not \[3\.0, 4\.0\]"):
        resolve_point(
            "walk",
            "root",
            [3.0, 4.0],
            HYPERBOLIC.from_tangent(torch.zeros(5, Q).double()),
            manifold=HYPERBOLIC,
            at=refuse,
        )


def test_as_many_rows_as_coordinates():
    """Two rows in two dimensions: a mask is a mask, and numbers are coordinates."""
    points = HYPERBOLIC.from_tangent(torch.tensor([[0.1, 0.2], [1.0, -1.0]], dtype=torch.float64))
    origin = HYPERBOLIC.origin(2)
    options = {"manifold": HYPERBOLIC, "at": lambda given: origin}
    masked = resolve_point("walk", "root", [False, True], points, **options)
    assert torch.allclose(masked, points[1])
    assert torch.equal(resolve_point("walk", "root", [0, 1], points, **options), origin)


@pytest.mark.parametrize("value", [9, -10, np.int64(99)])
def test_rows_that_are_not_there(place, value):
    with pytest.raises(
        ValueError, match=rf"'root' of walk must be a row index below 9.*Got .*{value}"
    ):
        place(value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (MASK[:-1], r"one entry for each of the 9 rows.* Got shape \(8,\) with 2 True"),
        (np.zeros(N, dtype=bool), r"some of them True\. Got shape \(9,\) with 0 True"),
        (np.ones((N, 1), dtype=bool), r"Got shape \(9, 1\) with 9 True"),
        (True, r"as a mask.* Got shape \(\) with 1 True"),
        (np.True_, "as a mask"),
    ],
)
def test_masks_that_are_none(place, value, sentence):
    with pytest.raises(ValueError, match=rf"'root' of walk.*{sentence}"):
        place(value)


@pytest.mark.parametrize(
    "value",
    ["cell", None, 1.5, [0.1], [0.1, 0.2, 0.3], [[0.1, 0.2]], ["a", "b"], {"a": 1}, [1j, 2j], []],
)
def test_what_names_no_place(place, value):
    with pytest.raises(
        ValueError,
        match="'root' of walk must be a row index below 9, a mask of rows, or a point of 2",
    ):
        place(value)


def test_long_values_are_told_in_short(place):
    with pytest.raises(ValueError, match="Got") as info:
        place("x" * 5000)
    assert len(str(info.value)) < 250


def test_ragged_lists(place):
    with pytest.raises(ValueError, match="'root' of walk must be a row index"):
        place([[1.0], [1.0, 2.0]])
