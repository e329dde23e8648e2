"""Covariates: what users pass, and the numbers that come of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from hgplvm._covariates import Covariates, level

BATCH = ["a", "b", "a", "c", "b", "a", "c", "a"]
AGE = np.array([1.5, 2.0, 0.5, 3.0, 2.5, 1.0, 0.0, 4.0])


def coded(value, n=8, **options):
    found = Covariates.of("fit", value, n)
    return found, found.coded("fit", value, n, **options)


@pytest.mark.parametrize(
    "value",
    [
        BATCH,
        np.array(BATCH),
        np.array(BATCH, dtype=object),
        pd.Series(BATCH),
        pd.Series(BATCH, dtype="category"),
        pd.DataFrame({"batch": BATCH}),
        {"batch": BATCH},
        np.array(BATCH)[:, None],
        [0, 1, 0, 2, 1, 0, 2, 0],
        torch.tensor([0, 1, 0, 2, 1, 0, 2, 0]),
        pd.Series([0, 1, 0, 2, 1, 0, 2, 0], name="batch", dtype="int8"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_batches_of_any_kind(value):
    found, numbers = coded(value)
    assert len(found.parts) == 1
    assert found.levels == (3,)
    indicators = np.eye(3)[[0, 1, 0, 2, 1, 0, 2, 0]]
    np.testing.assert_array_equal(numbers.tags, indicators)
    np.testing.assert_allclose(numbers.design, indicators - [0.5, 0.25, 0.25])
    np.testing.assert_allclose(numbers.design.mean(0), 0.0, atol=1e-15)
    assert not numbers.fresh.any()


def test_numbers_are_standardised():
    found, numbers = coded({"age": AGE})
    assert found.levels == ()
    np.testing.assert_allclose(numbers.design[:, 0], (AGE - AGE.mean()) / AGE.std())
    assert numbers.tags.shape == (8, 0)


def test_several_keep_their_order():
    frame = pd.DataFrame({"batch": BATCH, "age": AGE, "sex": [True, False] * 4})
    found, numbers = coded(frame)
    assert found.names == ("batch", "age", "sex")
    assert found.widths == (3, 1, 2)
    assert found.levels == (3, 2)
    assert numbers.design.shape == (8, 6)
    again = found.coded("fit", frame[["sex", "batch", "age"]], 8)
    np.testing.assert_array_equal(again.design, numbers.design)


def test_new_rows_are_coded_as_those_of_the_fit():
    found, _ = coded({"batch": BATCH, "age": AGE})
    new = found.coded("transform", {"age": [AGE.mean()] * 2, "batch": ["b", None]}, 2)
    np.testing.assert_allclose(new.design, [[-0.5, 0.75, -0.25, 0.0], [0.0] * 4])
    np.testing.assert_array_equal(new.tags, [[0, 1, 0], [0, 0, 0]])
    assert new.fresh.tolist() == [False, True]
    # a level that is a number is the same however it is written
    numbered, _ = coded([3, 5, 3, 3, 5, 5, 3, 5])
    assert numbered.coded("transform", [5.0, "3"], 2).tags.tolist() == [[0, 1], [1, 0]]


def test_what_is_not_said_is_averaged_over():
    found, _ = coded({"batch": BATCH, "age": AGE})
    for value in ({"age": 1.0}, {"age": 1.0, "batch": None}):
        part = found.coded("decode", value, 3, partial=True)
        np.testing.assert_allclose(part.tags, np.tile([0.5, 0.25, 0.25], (3, 1)))
        assert (part.design[:, :3] == 0).all()
        assert not part.fresh.any()
    one, _ = coded(BATCH)
    assert one.coded("decode", "b", 2, partial=True).tags.tolist() == [[0, 1, 0]] * 2
    mean = found.averaged(2)
    assert (mean.design == 0).all()


def test_labels_of_levels():
    words = [level(v) for v in ("x", 3, 3.0, np.int8(3), 2.5, True, None, np.nan, pd.NA, pd.NaT)]
    assert words == ["x", "3", "3", "3", "2.5", "True", None, None, None, None]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["a", None] * 4, "'covariate' of fit has a missing value in row 1 and 3 more: fill it in"),
        ([*AGE[:7], np.nan], "has a missing value in row 7: fill it in, or leave such rows out"),
        (np.ones(8), r"the same value, 1, in all rows, so that nothing can be learnt of it"),
        (list("abcdefgh"), "has 8 levels in 8 rows, nearly one for each"),
        (BATCH[:7], r"must have one entry for each of the 8 rows. Got shape \(7,\) instead"),
        (np.ones((8, 2, 2)), "a column, or a table with a column for each. Got an array of 3"),
        ({"age": [*AGE[:7], np.inf]}, "'age' of fit is continuous.* finite number.* Got .*inf"),
    ],
    ids=["none", "nan", "constant", "unique", "length", "dimensions", "infinite"],
)
def test_bad_covariates_are_refused_in_a_sentence(value, words):
    with pytest.raises(ValueError, match=words):
        Covariates.of("fit", value, 8)


def test_one_level_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="'batch' of fit has one level, 'a', in all rows; it is"):
        found = Covariates.of("fit", {"batch": ["a"] * 8, "age": AGE}, 8)
    assert found.names == ("batch", "age")
    assert [part.name for part in found.parts] == ["age"]
    assert found.coded("fit", {"batch": ["a"] * 8, "age": AGE}, 8).design.shape == (8, 1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"batch": ["a", "z"]}, "the level 'z' in row 1, which the fit has not seen; it saw 'a'"),
        ({"donor": ["a", "b"], "age": [1.0, 2.0]}, "fitted with the covariates.*Got 'donor'"),
        ({"age": [1.0, np.nan], "batch": ["a", "a"]}, "'age' of transform is continuous"),
        ({"age": ["old", "young"], "batch": ["a", "a"]}, "'age' of transform is continuous"),
    ],
)
def test_bad_covariates_of_new_rows(value, words):
    both = {"batch": BATCH, "age": AGE}
    found = Covariates.of("fit", both if "age" in value else {"batch": BATCH}, 8)
    with pytest.raises(ValueError, match=words):
        found.coded("transform", value, 2)


def test_a_covariate_that_is_lacking():
    found = Covariates.of("fit", {"batch": BATCH, "age": AGE}, 8)
    with pytest.raises(ValueError, match="transform needs the covariate 'age', as its fit had it"):
        found.coded("transform", {"batch": ["a"]}, 1)
