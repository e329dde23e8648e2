"""Rows that a model does not explain: p-values of rows that were simulated."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import hgplvm
from hgplvm import HGPLVM, BayesianHGPLVM, VecchiaHGPLVM
from hgplvm._fitted.off_map import OffMap, log_rest
from hgplvm.datasets import make_cells
from hgplvm.manifolds import Hyperbolic

N, NEW, D = 150, 300, 8
OPTIONS = {"max_iter": 20, "random_state": 0}
LEVELS = np.array([0.05, 0.1, 0.25, 0.5, 0.75])


def rows(n, d, noise, seed):
    """Three branches that bend, with noise; the same branches for all seeds."""
    known, rng = np.random.default_rng(99), np.random.default_rng(seed)
    straight, bent = 1.5 * known.standard_normal((3, d)), known.standard_normal((3, d))
    branch, t = rng.integers(3, size=n), rng.random((n, 1))
    return t * straight[branch] + np.sin(3 * t) * bent[branch] + noise * rng.standard_normal((n, d))


def numbers(kind, model):
    old, new = rows(N, D, 0.1, 0), rows(NEW, D, 0.1, 1)
    return SimpleNamespace(
        kind=kind,
        model=model(**OPTIONS).fit(old),
        old=old,
        new=new,
        far=-2.0 * new[:40],
        empty=np.full((2, D), np.nan),
    )


def counts():
    cells = make_cells(600, 60, topology="bifurcation", informative=0.6, depth=1500, random_state=5)
    model = BayesianHGPLVM(likelihood="negative-binomial", **OPTIONS)
    old, new = (part.toarray().astype(float) for part in (cells.counts[:400], cells.counts[400:]))
    other = np.random.default_rng(0).permutation(60)
    return SimpleNamespace(
        kind="counts",
        model=model.fit(old),
        old=old,
        new=new,
        far=new[:40][:, other],
        empty=np.full((2, 60), np.nan),
    )


@pytest.fixture(scope="module")
def exact():
    return numbers("exact", HGPLVM)


@pytest.fixture(scope="module", params=["exact", "vecchia", "counts"])
def case(request, exact):
    """A model, rows that it was fitted to, others like these, and such as are not."""
    if request.param == "counts":
        return counts()
    return exact if request.param == "exact" else numbers("vecchia", VecchiaHGPLVM)


def p_of(model, rows):
    return model.transform(rows, return_off_map=True)[1]


def too_many(p, n_known):
    """Shares of p-values below some levels that chance does not explain: three errors and 0.02."""
    shares = (p[:, None] < LEVELS).mean(0)
    error = np.sqrt(LEVELS * (1 - LEVELS) * (1 / len(p) + 1 / n_known))
    return shares[np.abs(shares - LEVELS) > 3 * error + 0.02]


def test_rows_like_those_of_the_fit_have_uniform_p_values(case):
    assert not len(too_many(p_of(case.model, case.new), len(case.old)))


def test_rows_far_from_the_model_have_small_ones(case):
    p = p_of(case.model, case.far)
    assert np.median(p) < 0.01
    assert (p < 0.05).all()


def test_rows_of_an_unseen_branch_have_small_ones(exact):
    """As cells of an unseen type do."""
    known = np.random.default_rng(7)
    t = np.linspace(0.5, 1.0, 40)[:, None]
    unseen = 1.5 * t * known.standard_normal(D) + 0.1 * known.standard_normal((40, D))
    p = p_of(exact.model, np.concatenate([exact.new, unseen]))
    assert np.median(p[NEW:]) < 0.02
    below = (p[:NEW, None] > p[None, NEW:]).mean()  # area under the curve
    assert below > 0.9


@pytest.mark.parametrize("d", [20, 60])
def test_p_values_are_uniform_however_many_columns_there_are(d):
    """Of rows with more columns than directions that are looked at one by one, too."""
    model = HGPLVM(**OPTIONS).fit(rows(N, d, 0.3, 0))
    assert not len(too_many(p_of(model, rows(NEW, d, 0.3, 1)), N))


def test_p_values_are_shares(case):
    for some in (case.new[:10], case.far[:5], case.old[:5], case.empty):
        p = p_of(case.model, some)
        assert p.shape == (len(some),)
        assert (p > 0).all()
        assert (p <= 1).all()


def test_rows_of_which_nothing_is_known_are_like_all_others(case):
    both = np.concatenate([case.empty, case.far[:3]])
    p = p_of(case.model, both)
    assert (p[:2] == 1).all()
    assert (p[2:] < 0.05).all()


def test_rows_with_gaps_are_not_unusual_for_it(case):
    gaps = case.new[:80].copy()
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.3] = np.nan
    p = p_of(case.model, gaps)
    assert (p < 0.05).mean() < 0.15
    far = case.far.copy()
    far[:, ::3] = np.nan
    assert np.median(p_of(case.model, far)) < 0.05


def test_rows_are_judged_alone_as_in_a_batch(case):
    some = np.concatenate([case.new[:2], case.far[:1], case.empty[:1], case.old[:1]])
    points, together = case.model.transform(some, return_off_map=True)
    for i in range(len(some)):
        point, p = case.model.transform(some[i : i + 1], return_off_map=True)
        assert p[0] == pytest.approx(together[i], abs=1e-9)
        np.testing.assert_allclose(point[0], points[i], atol=1e-9)


def test_p_values_come_last_beside_what_else_is_asked_for(case):
    some = case.new[:3]
    points, p = case.model.transform(some, return_off_map=True)
    again, std, same = case.model.transform(some, return_std=True, return_off_map=True)
    np.testing.assert_array_equal(p, same)
    np.testing.assert_array_equal(points, again)
    assert std.shape == points.shape
    _, cov, same = case.model.transform(some, return_cov=True, return_off_map=True)
    np.testing.assert_array_equal(p, same)
    assert cov.shape == (3, 2, 2)
    np.testing.assert_array_equal(case.model.transform(some), points)
    with pytest.raises(ValueError, match=r"'return_off_map' parameter of .* must be True or False"):
        case.model.transform(some, return_off_map=1)


def test_model_files_keep_what_is_needed(case, tmp_path):
    case.model.save(tmp_path / "model")
    again = hgplvm.load(tmp_path / "model")
    some = np.concatenate([case.new[:8], case.far[:3]])
    np.testing.assert_array_equal(p_of(again, some), p_of(case.model, some))


def test_rows_of_the_fit_can_be_asked_too(case):
    points, p = case.model.transform(case.old[:150], return_off_map=True)
    np.testing.assert_array_equal(points, case.model.embedding_[:150])
    # they are explained at least as well as others
    assert (p < 0.05).mean() < 0.1
    assert p.mean() > 0.45


def test_recentring_changes_no_p_value(case, tmp_path):
    case.model.save(tmp_path / "model")
    other = hgplvm.load(tmp_path / "model").recenter(3)
    some = np.concatenate([case.new[:5], case.far[:2]])
    np.testing.assert_allclose(p_of(other, some), p_of(case.model, some), atol=1e-9)


# --- parts ----------------------------------------------------------------------------------


def landmarks(n, q, seed=0):
    """Training rows on a curve, whose residuals point in one direction on each half of it."""
    rng = np.random.default_rng(seed)
    t = np.linspace(-2, 2, n)
    points = Hyperbolic().from_tangent(torch.from_numpy(np.c_[t, np.zeros(n)]))
    size = np.where(t[:, None] < 0, [3.0, 0.3], [0.3, 3.0])
    size = np.concatenate([size, np.ones((n, q - 2))], axis=1)
    return points, torch.from_numpy(size * rng.standard_normal((n, q)))


def judged(off_map, points, x, residuals, rest=None, sizes=None):
    rest = torch.zeros(len(x)).double() if rest is None else rest
    return off_map.p_values(Hyperbolic(), points, x, residuals, rest, sizes).numpy()


def test_residuals_are_compared_with_those_nearby():
    """What is usual on one half of a curve is not on the other."""
    points, residuals = landmarks(300, 3)
    off_map = OffMap.of(torch.arange(300), residuals)
    there = points[[30, 270]]
    first = torch.tensor([[6.0, 0.0, 0.0]]).double().expand(2, 3)
    p = judged(off_map, points, there, first)
    assert p[0] > 0.02
    assert p[1] < 0.01


def test_larger_residuals_have_smaller_p_values():
    points, residuals = landmarks(300, 2)
    off_map = OffMap.of(torch.arange(300), residuals)
    sizes = torch.linspace(0.0, 12.0, 25).double()
    line = torch.stack([sizes, sizes], dim=1) / 2
    p = judged(off_map, points, points[[100]].expand(25, 3), line)
    assert (np.diff(p) <= 0).all()
    assert p[0] == 1.0
    assert p[-1] == pytest.approx(1 / 301, rel=0.2)


def test_what_is_beyond_counts_by_itself():
    points, residuals = landmarks(300, 2)
    rest = torch.from_numpy(np.random.default_rng(1).standard_normal(300))
    off_map = OffMap.of(torch.arange(300), residuals).with_rest(rest, None)
    none = torch.zeros(2, 2).double()
    p = judged(off_map, points, points[:2], none, rest.median() + torch.tensor([0.0, 6.0]).double())
    assert p[0] > 0.3
    assert p[1] < 0.02


def test_the_size_of_a_library_explains_what_is_beyond():
    rng = np.random.default_rng(2)
    points, residuals = landmarks(300, 2)
    sizes = torch.from_numpy(rng.standard_normal(300))

    def trend(s):
        return 1.0 + 2.0 * s - 0.5 * s**2

    rest = trend(sizes) + 0.1 * torch.from_numpy(rng.standard_normal(300))
    off_map = OffMap.of(torch.arange(300), residuals).with_rest(rest, sizes)
    assert off_map.rest.std() < 0.12
    other = torch.tensor([-1.5, 0.0, 1.5]).double()
    none = torch.zeros(3, 2).double()
    usual = judged(off_map, points, points[:3], none, trend(other), other)
    assert (usual > 0.2).all()
    unusual = judged(off_map, points, points[:3], none, trend(other) + 1.0, other)
    assert (unusual < 0.02).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_training_rows_are_no_error(n):
    points, residuals = landmarks(n, 2)
    off_map = OffMap.of(torch.arange(n), residuals).with_rest(torch.zeros(n).double(), None)
    x = points[:1].expand(3, 3)
    p = judged(off_map, points, x, torch.tensor([[0.0, 0.0], [1.0, 1.0], [1e6, 0.0]]).double())
    assert ((p > 0) & (p <= 1)).all()
    assert p[2] <= p[0]


def test_the_logarithm_of_what_is_beyond():
    squares, count = torch.tensor([8.0, 0.0, 3.0]).double(), torch.tensor([4.0, 0.0, 3.0]).double()
    found = log_rest(squares, count)
    assert found[0] == pytest.approx(np.log(2.0))
    assert torch.isfinite(found).all()
    assert found[2] == pytest.approx(0.0, abs=1e-9)
    # what training rows lost to the fit is added
    np.testing.assert_allclose(log_rest(squares, count, 0.2)[0], np.log(2.0 / 0.8))
