"""Logarithms of counts: recognised, brought to one depth, and back; against brute force."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import poisson

from hgplvm._log_counts import CountUnits, LogCountMean, expected_log, log_normalised

RNG = np.random.default_rng(0)
N, D = 300, 40
SHARES = RNG.gamma(0.5, size=D) + 1e-3
DEPTH = np.exp(0.8 * RNG.standard_normal(N))
COUNTS = RNG.poisson(3.0 * DEPTH[:, None] * SHARES).astype(float)
COUNTS[:, 0] += 1.0  # no cell is empty
UNITS = 7.0 / DEPTH


def logs(base=math.e, units=UNITS):
    return np.log1p(units[:, None] * COUNTS) / math.log(base)


@pytest.mark.parametrize("mean", [1e-3, 0.2, 3.0, 50.0, 390.0, 2e3])
@pytest.mark.parametrize("unit", [1e-2, 1.0, 30.0])
def test_expected_logarithms_are_sums_over_the_counts(mean, unit):
    k = np.arange(poisson.isf(1e-14, mean) + 10)
    expected = (poisson.pmf(k, mean) * np.log1p(unit * k)).sum()
    assert math.isclose(expected_log(np.array(mean), unit), expected, rel_tol=1e-5)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("base", [math.e, 2.0, 10.0])
def test_units_and_base_are_recognised(base, dtype, make):
    found = CountUnits.of(make(logs(base).astype(dtype)))
    assert found.base == base
    assert np.allclose(found.units, UNITS, rtol=0.02)
    assert np.allclose(np.median(found.units / UNITS), 1.0, rtol=1e-3)


def test_cells_of_one_depth_are_recognised():
    found = CountUnits.of(np.log1p(0.3 * COUNTS))
    assert np.allclose(found.units, 0.3, rtol=0.02)


def test_a_few_odd_cells_and_the_order_of_the_rows_do_not_matter():
    counts = COUNTS.copy()
    counts[7] = np.where(counts[7] > 0, 83.0 + counts[7], 0.0)  # whose least count is large
    shallow = np.argsort(counts.sum(1))
    rows = np.log1p(UNITS[:, None] * counts)
    for order in (np.arange(N), shallow, shallow[::-1]):
        found = CountUnits.of(rows[order]).units
        assert np.median(np.abs(found / UNITS[order] - 1)) < 0.02
        assert np.mean(np.abs(found / UNITS[order] - 1) < 0.02) > 0.97


def test_frequent_genes_are_not_counted_by_their_depth():
    """The logarithm of a large count is that of its mean at any depth."""
    counts = np.tile(np.r_[1.0, 3.0, 5.0, 1e5, 3e6], (20, 1))
    depth = np.geomspace(0.3, 3.0, 20)[:, None]
    found = LogCountMean(np.zeros(5), counts[:1], math.e, 1.0)
    rows = np.log1p(np.rint(counts * depth) / depth)
    effect = found.depth_effect(rows)
    assert np.abs(effect[:, 3:]).max() < 1e-3


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_raw_counts_are_refused_where_the_fit_saw_logarithms(scale):
    with pytest.raises(ValueError, match="look like raw counts, but the fit saw logarithms"):
        mean_of(logs()).residuals(scale * COUNTS[:3])


def test_units_are_known_where_columns_or_entries_are_left_out():
    rows = logs()
    assert np.allclose(CountUnits.of(rows[:, ::2]).units, UNITS, rtol=0.02)
    rows[RNG.random(rows.shape) < 0.1] = np.nan
    assert np.allclose(CountUnits.of(rows).units, UNITS, rtol=0.02)


OTHERS = {
    "normal": RNG.normal(size=(N, D)),
    "positive": np.where(COUNTS > 0, RNG.gamma(2.0, size=(N, D)), 0.0),
    "counts": COUNTS,
    "integers": COUNTS.astype(int),
    "ones": (COUNTS > 0).astype(float),
    "counts as numbers from 0 to 3": COUNTS.clip(0, 3),
    "genotypes": RNG.binomial(2, 0.45, (N, 6)).astype(float),
    "probabilities": RNG.dirichlet(np.full(6, 1e-3), N),
    "similarities": np.where(RNG.random((N, D)) < 0.1, 0.0, np.exp(-RNG.gamma(2.0, 3.0, (N, D)))),
    "huge": np.where(COUNTS > 0, 800.0, 0.0),
    "tiny": COUNTS * 1e-310,
    "scaled logarithms": logs() / logs().std(0),
    "centred logarithms": logs() - logs().mean(0),
    "zeros": np.zeros((N, D)),
    "above zero": logs() + 1.0,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_data_are_not_taken_for_logarithms_of_counts(kind):
    assert CountUnits.of(OTHERS[kind]) is None


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_logarithms_are_taken_at_the_median_depth(make):
    total = COUNTS.sum(1, keepdims=True)
    found, target = log_normalised(make(COUNTS))
    dense = found.toarray() if sp.issparse(found) else found
    assert target == np.median(total)
    assert np.allclose(dense, np.log1p(COUNTS * target / total))
    given, target = log_normalised(make(COUNTS), 5.0)
    dense = given.toarray() if sp.issparse(given) else given
    assert target == 5.0
    assert np.allclose(np.expm1(dense).sum(1), 5.0)


def mean_of(rows, groups=None):
    groups = np.zeros(len(rows), dtype=int) if groups is None else groups
    return LogCountMean.of(rows, CountUnits.of(rows), groups)


@pytest.mark.parametrize("base", [2.0, 10.0])
@pytest.mark.parametrize("unit", [1e-2, 1.0, 40.0])
def test_base_and_unit_of_the_logarithms_do_not_matter(base, unit):
    expected = mean_of(logs()).residuals(logs())
    rows = logs(base, unit * UNITS)
    found = mean_of(rows)
    assert np.allclose(found.residuals(rows), expected, atol=1e-6)


def test_what_the_depth_does_is_subtracted():
    """All cells have the same shares: whatever goes with the depth is an artefact."""
    rows = logs()
    before = np.log1p(COUNTS / DEPTH[:, None])
    after = mean_of(rows).residuals(rows)
    slopes = []
    for values in (before - before.mean(0), after):
        depth = np.log(DEPTH) - np.log(DEPTH).mean()
        # without the first column, of which every cell has one count more
        slopes.append(np.abs(depth @ values[:, 1:] / (depth @ depth)).mean())
    assert slopes[1] < 0.3 * slopes[0]
    assert np.abs(after.mean(0)).max() < 1e-9


def test_groups_have_shares_of_their_own():
    """Two groups of cells whose genes differ: the effect of the depth is that of the own one."""
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1], N // 2)
    shares = np.stack([SHARES, SHARES[::-1]])
    counts = rng.poisson(3.0 * DEPTH[:, None] * shares[group]).astype(float)
    counts[:, 0] += 1.0
    rows = np.log1p(UNITS[:, None] * counts)
    found = mean_of(rows, group)
    effect = found.depth_effect(rows)
    for k in (0, 1):
        own = group == k
        alone = mean_of(rows[own]).shares[0]
        # shares are those of a cell of the median depth of all
        assert np.corrcoef(np.log(found.shares[k]), np.log(alone))[0, 1] > 0.95
    other = LogCountMean(found.values, found.shares[::-1], found.base, found.unit)
    assert np.allclose(other.depth_effect(rows), effect)  # the likeliest one, in any order


def test_the_way_back_is_the_expected_logarithm():
    """A decoded z is that of a mean count; its expected x is found by simulation."""
    rows = logs()
    found = mean_of(rows)
    for mean in (0.05, 0.7, 4.0, 60.0):
        z = expected_log(np.array(mean), 1.0)
        x = expected_log(np.array(mean), found.unit)
        back = found.restored(z - found.values)
        assert np.allclose(back, x, rtol=2e-3)
        step = 1e-4
        slope = (found.restored(z + step - found.values) - back) / step
        assert np.allclose(found.restored_std(z - found.values, np.ones(D)), slope, rtol=0.05)


def test_with_the_unit_of_one_count_rows_come_back_as_they_are():
    units = UNITS / np.median(UNITS)
    rows = logs(units=units)
    found = mean_of(rows)
    residuals = RNG.normal(size=(5, D))
    assert np.allclose(found.restored(residuals), residuals + found.values, rtol=1e-5)
    assert np.allclose(found.restored_std(residuals, np.ones(D)), 1.0, rtol=1e-5)


@pytest.mark.parametrize("base", [math.e, 2.0])
def test_slopes_are_derivatives(base):
    rows = logs(base)
    found, step = mean_of(rows), 1e-6
    ahead, behind = (found._rescaled(rows + sign * step) for sign in (1.0, -1.0))
    # at 0 the function is odd: its derivative is that from above
    slopes = (ahead - behind) / (2 * step)
    assert np.allclose(np.exp(found.log_slopes(rows)), slopes, rtol=1e-5)


def test_new_rows():
    """Of another depth, with ones alone, below zero, with gaps, or without counts: finite."""
    rows = logs()
    found = mean_of(rows)
    assert np.allclose(found.residuals(rows[:3]), found.residuals(rows)[:3])
    ones = np.where(np.arange(D) < 5, np.log1p(20.0), 0.0)
    assert math.isclose(found._unit_of(ones), 20.0)
    gaps = np.where(np.arange(D) < 9, np.nan, rows[1])
    odd = np.stack([ones, -rows[0], np.zeros(D), gaps, np.full(D, 1e-310)])
    residuals = found.residuals(odd)
    assert np.isfinite(residuals[[0, 1, 2, 4]]).all()
    assert np.array_equal(np.isnan(residuals[3]), np.isnan(odd[3]))
    assert np.isfinite(found.restored(np.full((1, D), -50.0))).all()
    assert np.isfinite(found.restored(np.full((1, D), 500.0))).all()
