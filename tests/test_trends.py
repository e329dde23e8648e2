"""Trends along lineages: against conditionals that are written out, and on simulated rows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from hgplvm import _trends
from hgplvm._trends import Binned, fit_trend, gather

T = 24
U = np.linspace(0.0, 3.0, T)
ALL = slice(None)


def covariance_of(length, n_genes, amplitude=0.7):
    """A prior covariance for each gene [g, T, T], of squares, and not the one of the module."""
    square = np.square((U[:, None] - U[None]) / length)
    one = 0.3 + amplitude**2 * np.exp(-0.5 * square) + 1e-4 * np.eye(T)
    return np.array([(1.0 + 0.2 * g) * one for g in range(n_genes)])


def blur_of(width):
    """Rows of a bin stand at the positions around it with these weights."""
    weights = np.exp(-0.5 * np.square((U[:, None] - U[None]) / max(width, 1e-6)))
    return weights / weights.sum(1, keepdims=True)


def gaussian(n_genes=3, seed=0):
    rng = np.random.default_rng(seed)
    effective = rng.uniform(0.5, 9.0, T)
    effective[4] = 0.0
    total = effective[:, None] * rng.standard_normal((T, n_genes))
    variance = rng.uniform(0.2, 1.5, n_genes)
    zero = np.zeros((T, n_genes))
    seen = np.repeat(effective[:, None], n_genes, axis=1)
    return Binned(U, zero, total, seen, variance, seen, effective, np.zeros(T), False)


def counts(dispersion, n_genes=3, seed=0):
    rng = np.random.default_rng(seed)
    effective = rng.integers(1, 9, T).astype(float)
    size = effective * rng.uniform(0.5, 2.0, T)
    rate = np.exp(0.5 + np.sin(U[:, None] + np.arange(n_genes)))
    total = rng.poisson(size[:, None] * rate).astype(float)
    phi = np.full(n_genes, float(dispersion))
    zero = np.zeros((T, n_genes))
    sizes, seen = (np.repeat(part[:, None], n_genes, axis=1) for part in (size, effective))
    return Binned(U, zero, total, sizes, phi, seen, effective, np.zeros(T), True)


# --- the posterior of one kernel ------------------------------------------------------------


@pytest.mark.parametrize("width", [0.0, 0.3], ids=["sharp", "blurred"])
def test_the_posterior_of_gaussian_rows_is_the_conditional(width):
    """Of f - m, where the mean of a bin's rows is B f with their noise."""
    binned, k, blur = gaussian(), covariance_of(0.6, 3), blur_of(width)
    level = np.array([[0.3], [-0.2], [1.0]])
    _, mean, covariance = _trends._posterior(binned, ALL, level, k, blur)
    seen = binned.effective > 0
    b = blur[seen]
    for g in range(3):
        y = binned.total[seen, g] / binned.effective[seen] - level[g]
        spread = b @ k[g] @ b.T + np.diag(binned.variance[g] / binned.effective[seen])
        gain = k[g] @ b.T @ np.linalg.inv(spread)
        np.testing.assert_allclose(mean[g], gain @ y, atol=1e-8)
        np.testing.assert_allclose(covariance[g], k[g] - gain @ b @ k[g], atol=1e-8)


@pytest.mark.parametrize("width", [0.0, 0.3], ids=["sharp", "blurred"])
def test_the_evidence_of_gaussian_rows_is_their_density(width):
    """Up to a constant that is the same for all kernels."""
    binned, blur = gaussian(), blur_of(width)
    level = np.array([[0.3], [-0.2], [1.0]])
    seen = binned.effective > 0
    constants = []
    for length in (0.2, 0.6, 1.5):
        for amplitude in (0.2, 1.0):
            k = covariance_of(length, 3, amplitude)
            found = _trends._posterior(binned, ALL, level, k, blur)[0]
            b = blur[seen]
            expected = [
                stats.multivariate_normal.logpdf(
                    binned.total[seen, g] / binned.effective[seen],
                    np.full(seen.sum(), level[g, 0]),
                    b @ k[g] @ b.T + np.diag(binned.variance[g] / binned.effective[seen]),
                )
                for g in range(3)
            ]
            constants.append(found - expected)
    assert np.ptp(constants, axis=0).max() < 1e-8


def log_probability(binned, eta, g):
    """Of a bin's counts: the sum of n cells of the same mean μ is of n/φ and nμ."""
    rate = np.exp(eta) * binned.size[:, 0] / binned.effective
    phi, n = binned.variance[g], binned.effective
    if phi == 0:
        return stats.poisson.logpmf(binned.total[:, g], n * rate).sum()
    return stats.nbinom.logpmf(binned.total[:, g], n / phi, 1 / (1 + phi * rate)).sum()


@pytest.mark.parametrize("width", [0.0, 0.3], ids=["sharp", "blurred"])
@pytest.mark.parametrize("dispersion", [0.0, 0.4])
def test_newton_ends_where_the_posterior_of_counts_is_highest(dispersion, width):
    binned, k, blur = counts(dispersion), covariance_of(0.6, 3), blur_of(width)
    level = np.full((3, 1), 0.5)
    _, mean, _ = _trends._posterior(binned, ALL, level, k, blur)
    step = 1e-5
    for g in range(3):
        inverse = np.linalg.inv(k[g])

        def height(f, g=g, inverse=inverse):
            return log_probability(binned, level[g] + blur @ f, g) - 0.5 * f @ inverse @ f

        slope = [
            (height(mean[g] + step * e) - height(mean[g] - step * e)) / (2 * step)
            for e in np.eye(T)
        ]
        # differences of numbers near 100 in steps of 1e-5 hold about nine digits of those
        # (the inverse of the prior has entries near 1e4)
        assert np.abs(slope).max() < 1e-2
        other = np.random.default_rng(g).standard_normal((20, T)) @ np.linalg.cholesky(k[g]).T
        assert all(height(mean[g] + 0.1 * o) < height(mean[g]) for o in other)


@pytest.mark.parametrize("dispersion", [0.0, 0.4])
def test_the_covariance_of_counts_is_by_their_information(dispersion):
    binned, k, blur = counts(dispersion), covariance_of(0.6, 3), blur_of(0.2)
    level = np.full((3, 1), 0.5)
    _, mean, covariance = _trends._posterior(binned, ALL, level, k, blur)
    for g in range(3):
        rate = np.exp(level[g] + blur @ mean[g]) * binned.size[:, 0] / binned.effective
        # expected curvature: of n cells n μ/(1 + φ μ)
        information = binned.effective * rate / (1 + dispersion * rate)
        precision = np.linalg.inv(k[g]) + blur.T @ np.diag(information) @ blur
        np.testing.assert_allclose(covariance[g], np.linalg.inv(precision), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dispersion", [0.0, 0.4])
def test_the_evidence_of_counts_is_laplaces(dispersion):
    binned, blur, level = counts(dispersion), blur_of(0.2), np.full((3, 1), 0.5)
    constants = []
    for length in (0.3, 1.0):
        k = covariance_of(length, 3)
        value, mean, covariance = _trends._posterior(binned, ALL, level, k, blur)
        expected = []
        for g in range(3):
            height = log_probability(binned, level[g] + blur @ mean[g], g)
            height -= 0.5 * mean[g] @ np.linalg.solve(k[g], mean[g])
            dets = [np.linalg.slogdet(matrix)[1] for matrix in (covariance[g], k[g])]
            expected.append(height + 0.5 * (dets[0] - dets[1]))
        constants.append(value - expected)
    assert np.ptp(constants, axis=0).max() < 1e-3


def test_moments_are_those_of_the_mixture_of_kernels(monkeypatch):
    """Kernels weigh by their evidence, however large or small this is."""
    binned, rng, seen = gaussian(n_genes=2), np.random.default_rng(0), []

    def stand_in(binned, some, level, k, blur):
        factor = rng.standard_normal((2, T, T))
        value = np.array([-1e4, 2e4]) + 2.0 * rng.standard_normal(2)
        found = value, rng.standard_normal((2, T)), factor @ factor.transpose(0, 2, 1)
        seen.append((level, *found))
        return found

    monkeypatch.setattr(_trends, "_posterior", stand_in)
    trend = fit_trend(binned)
    assert len(seen) > 3
    for g in range(2):
        value = np.array([v[g] for _, v, _, _ in seen])
        weights = np.exp(value - value.max())
        weights /= weights.sum()
        means, covariances = (np.array([part[i][g] for part in seen]) for i in (2, 3))
        mean = weights @ means
        second = np.einsum("k,kab->ab", weights, covariances)
        second += np.einsum("k,ka,kb->ab", weights, means - mean, means - mean)
        np.testing.assert_allclose(trend.mean[:, g], seen[0][0][g] + mean, atol=1e-9)
        np.testing.assert_allclose(trend.covariance[g], second, atol=1e-8)


def test_genes_are_the_same_alone_and_among_others(monkeypatch):
    binned = counts(0.3, n_genes=5)
    whole = fit_trend(binned)
    monkeypatch.setattr(_trends, "AT_ONCE", 2)
    parts = fit_trend(binned)
    for name in ("mean", "std", "slope", "slope_std", "covariance"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-9)


# --- rows in bins ---------------------------------------------------------------------------


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    where = rng.uniform(-0.1, 3.1, 90)
    weights = np.where(rng.random(90) < 0.2, 0.0, rng.uniform(0.2, 1.0, 90))
    return rng.poisson(3.0, (90, 4)).astype(float), where, weights, rng.uniform(0.05, 0.2, 90)


def nearest(where):
    return np.abs(where[:, None] - U[None]).argmin(1)


def test_rows_are_gathered_at_the_nearest_position(rows):
    y, where, weights, std = rows
    found = gather(U, np.zeros((T, 4)), y, where, weights, std)
    at = nearest(where)
    for b in range(T):
        own = at == b
        np.testing.assert_allclose(found.effective[b], weights[own].sum())
        np.testing.assert_allclose(found.total[b], weights[own] @ y[own])
    assert not found.counts
    # weighted squares around the means of the bins, by their degrees of freedom
    known = found.effective > 0
    means = np.zeros((T, 4))
    means[known] = found.total[known] / found.effective[known, None]
    squares = weights @ np.square(y - means[at])
    # and those around the mean of all, which count as five rows
    overall = weights @ np.square(y - np.average(y, axis=0, weights=weights)) / weights.sum()
    rows = weights.sum() - known.sum()
    np.testing.assert_allclose(found.variance, (squares + 5.0 * overall) / (rows + 5.0), rtol=1e-6)


def test_sizes_of_cells_are_gathered(rows):
    y, where, weights, std = rows
    sizes = np.random.default_rng(2).uniform(0.5, 2.0, 90)
    phi = np.array([0.1, 0.2, 0.3, 0.4])
    options = {"sizes": sizes, "dispersion": phi}
    found = gather(U, np.zeros((T, 4)), y, where, weights, std, **options)
    at = nearest(where)
    expected = np.bincount(at, weights * sizes, minlength=T)
    np.testing.assert_allclose(found.size[:, 0], expected)
    np.testing.assert_allclose(found.variance, phi)
    assert found.counts
    shifts = 0.3 * np.random.default_rng(3).standard_normal((90, 4))
    found = gather(U, np.zeros((T, 4)), y, where, weights, std, shifts=shifts, **options)
    for g in range(4):
        factors = weights * sizes * np.exp(shifts[:, g])
        np.testing.assert_allclose(found.size[:, g], np.bincount(at, factors, minlength=T))


def test_shifts_are_taken_from_other_data(rows):
    y, where, weights, std = rows
    shifts = np.random.default_rng(3).standard_normal((90, 4))
    moved = gather(U, np.zeros((T, 4)), y + shifts, where, weights, std, shifts=shifts)
    plain = gather(U, np.zeros((T, 4)), y, where, weights, std)
    np.testing.assert_allclose(moved.total, plain.total, atol=1e-9)
    np.testing.assert_allclose(moved.variance, plain.variance)


def test_sparse_rows_are_the_same(rows):
    y, where, weights, std = rows
    sizes = np.ones(90)
    dense, sparse = (
        gather(U, np.zeros((T, 4)), make(y), where, weights, std, sizes=sizes)
        for make in (np.asarray, sp.csr_matrix)
    )
    np.testing.assert_allclose(sparse.total, dense.total)


def test_rows_without_weight_have_no_part(rows):
    y, where, weights, std = rows
    own = weights > 0
    whole = gather(U, np.zeros((T, 4)), y, where, weights, std)
    some = gather(U, np.zeros((T, 4)), y[own], where[own], weights[own], std[own])
    for name in ("total", "effective", "doubt", "variance"):
        np.testing.assert_allclose(getattr(whole, name), getattr(some, name))


def test_doubt_is_that_of_the_rows(rows):
    y, where, weights, _ = rows
    found = gather(U, np.zeros((T, 4)), y, where, weights, np.full(90, 0.3))
    np.testing.assert_allclose(found.doubt, 0.3)


# --- known curves ---------------------------------------------------------------------------

POSITIONS = np.linspace(0.0, 4.0, 40)
SPREAD = 0.5


def simulated(kind, std, seed=0, n=400, n_genes=60):
    """Smooth curves, what rows say of them, and as the decoder's shape something else."""
    rng = np.random.default_rng(seed)
    level, phase = rng.standard_normal(n_genes), rng.uniform(0, 6, n_genes)
    size, pace = np.abs(0.6 * rng.standard_normal(n_genes)), rng.uniform(0.5, 2, n_genes)

    def curves(u):
        return level + size * np.sin(pace * u[:, None] + phase)

    def decoded(u):
        return level + 0.5 * size * np.sin(0.8 * pace * u[:, None] + phase + 0.3)

    x = rng.uniform(0, 4, n)
    seen = np.clip(x + std * rng.standard_normal(n), 0, 4)
    options = {}
    if kind == "gaussian":
        y = curves(x) + SPREAD * rng.standard_normal((n, n_genes))
    else:
        options["sizes"] = np.exp(0.4 * rng.standard_normal(n))
        y = rng.poisson(options["sizes"][:, None] * np.exp(curves(x))).astype(float)
    base = decoded(POSITIONS)
    binned = gather(POSITIONS, base, y, seen, np.ones(n), np.full(n, std), **options)
    return curves(POSITIONS), binned


@pytest.fixture(scope="module", params=["gaussian", "poisson"])
def exact(request):
    """Two simulations in which positions are known."""
    parts = [simulated(request.param, 0.0, seed) for seed in (0, 1)]
    return request.param, [truth for truth, _ in parts], [fit_trend(b) for _, b in parts]


@pytest.mark.parametrize(("level", "low", "high"), [(0.9, 0.86, 0.98), (0.5, 0.42, 0.68)])
def test_bands_hold_known_curves_as_often_as_they_say(exact, level, low, high):
    """Of 120 curves with about five degrees of freedom each: a standard error of 0.02.

    They may hold somewhat more: curves have a common prior, and many change less than that says.
    """
    kind, truths, trends = exact
    held = []
    for truth, trend in zip(truths, trends, strict=True):
        mean, below, above = trend.band(level)
        truth = truth if kind == "gaussian" else np.exp(truth)
        assert (below <= mean).all()
        assert (mean <= above).all()
        held.append((below <= truth) & (truth <= above))
    assert low < np.mean(held) < high


def test_means_are_nearer_to_the_curves_than_the_rows_are(exact):
    kind, truths, trends = exact
    error = np.sqrt(np.mean([np.square(a - t.mean) for a, t in zip(truths, trends, strict=True)]))
    # ten rows a position: their means are 0.5/√10 = 0.16 off
    assert error < (0.1 if kind == "gaussian" else 0.2)


def test_bands_of_counts_are_of_rates(exact):
    kind, _, (trend, _) = exact
    mean, low, high = trend.band(0.9)
    logs = [np.log(part) for part in (mean, low, high)] if kind == "poisson" else [mean, low, high]
    np.testing.assert_allclose(logs[0], trend.mean, atol=1e-9)
    np.testing.assert_allclose(logs[2] - logs[0], 1.6448536 * trend.std, rtol=1e-6)
    np.testing.assert_allclose(logs[0] - logs[1], 1.6448536 * trend.std, rtol=1e-6)
    wider = trend.band(0.99)
    assert (wider[1] <= low).all()
    assert (wider[2] >= high).all()


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_bands_hold_curves_where_positions_are_not_known(kind):
    truth, binned = simulated(kind, 0.3)
    _, below, above = fit_trend(binned).band(0.9)
    truth = truth if kind == "gaussian" else np.exp(truth)
    assert ((below <= truth) & (truth <= above)).mean() > 0.86


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_less_sure_positions_give_wider_bands(kind):
    _, binned = simulated(kind, 0.0)
    stds = [
        fit_trend(replace(binned, doubt=np.full(40, doubt))).std for doubt in (0.0, 0.1, 0.3, 0.8)
    ]
    for sure, unsure in pairwise(stds):
        assert unsure.mean() > 1.05 * sure.mean()
        # kernels weigh otherwise for other positions: of a few genes a smoother one
        assert (unsure.mean(0) > sure.mean(0)).mean() > 0.8
        assert np.median(unsure / sure) > 1.0
    assert (stds[-1].mean(0) > stds[0].mean(0)).all()


def test_more_rows_give_narrower_bands():
    few, many = (fit_trend(simulated("gaussian", 0.0, n=n)[1]).std.mean() for n in (100, 1600))
    assert many < 0.5 * few


def test_the_slope_is_the_derivative_of_a_known_curve():
    u = np.linspace(0.0, 4.0, 60)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, 3000)
    y = np.stack([np.sin(1.5 * x), 0.5 * x, np.ones_like(x)], axis=1)
    y = y + 0.1 * rng.standard_normal(y.shape)
    base = np.zeros((60, 3))
    trend = fit_trend(gather(u, base, y, x, np.ones(3000), np.zeros(3000)))
    expected = np.stack([1.5 * np.cos(1.5 * u), np.full(60, 0.5), np.zeros(60)], axis=1)
    inner = slice(4, -4)
    error = (trend.slope - expected)[inner]
    assert np.abs(error).max() < 0.25
    assert np.sqrt(np.square(error).mean()) < 0.1
    # it is said how sure it is
    assert (np.abs(error) < 2.0 * trend.slope_std[inner]).mean() > 0.85
    assert trend.slope_std[inner].max() < 0.6


def test_slopes_are_those_of_the_posterior(exact):
    """Central differences are linear, so that their covariance is known."""
    _, _, (trend, _) = exact
    differences = np.gradient(np.eye(40), POSITIONS, axis=0)
    np.testing.assert_allclose(trend.slope, differences @ trend.mean, atol=1e-9)
    for g in range(0, 60, 7):
        variance = np.diag(differences @ trend.covariance[g] @ differences.T)
        np.testing.assert_allclose(trend.slope_std[:, g], np.sqrt(variance), atol=1e-6)


def test_the_unit_of_the_data_does_not_matter():
    _, binned = simulated("gaussian", 0.0, n_genes=6)
    small = replace(
        binned,
        base=1e-3 * binned.base,
        total=1e-3 * binned.total,
        variance=1e-6 * binned.variance,
    )
    whole, part = fit_trend(binned), fit_trend(small)
    np.testing.assert_allclose(1e3 * part.mean, whole.mean, atol=1e-7)
    np.testing.assert_allclose(1e3 * part.std, whole.std, rtol=1e-5)


# --- little to see --------------------------------------------------------------------------


def assert_finite(trend):
    for name in ("mean", "std", "slope", "slope_std", "covariance"):
        assert np.isfinite(getattr(trend, name)).all(), name
    for part in trend.band(0.9):
        assert np.isfinite(part).all()
    assert (trend.std >= 0).all()


def test_a_constant_gene_has_a_flat_trend(rows):
    y, where, weights, std = rows
    y = np.column_stack([y, np.full(90, 7.0)])
    base = np.tile([3.0, 3.0, 3.0, 3.0, 7.0], (T, 1))
    trend = fit_trend(gather(U, base, y, where, weights, std))
    assert_finite(trend)
    np.testing.assert_allclose(trend.mean[:, 4], 7.0, atol=1e-3)
    assert np.abs(trend.slope[:, 4]).max() < 1e-2


def test_a_gene_that_is_zero_everywhere_has_a_trend_of_zero(rows):
    y, where, weights, std = rows
    y = np.column_stack([y, np.zeros(90)])
    trend = fit_trend(gather(U, np.zeros((T, 5)), y, where, weights, std))
    assert_finite(trend)
    np.testing.assert_allclose(trend.mean[:, 4], 0.0, atol=1e-3)


def test_a_gene_without_counts_is_small_and_unsure(rows):
    y, where, weights, std = rows
    y = np.column_stack([y, np.zeros(90)])
    phi = np.full(5, 0.2)
    sizes = np.ones(90)
    binned = gather(U, np.zeros((T, 5)), y, where, weights, std, sizes=sizes, dispersion=phi)
    trend = fit_trend(binned)
    assert_finite(trend)
    mean, low, high = trend.band(0.9)
    assert mean[:, 4].max() < 0.2 < mean[:, :4].min()
    assert (low >= 0).all()
    assert (trend.std[:, 4] > trend.std[:, :4].max(1)).all()
    assert (high[:, 4] < mean[:, :4].min()).all()


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_missing_entries_are_no_error(rows, kind):
    y, where, weights, std = rows
    y = y.copy()
    y[::5, 0] = np.nan
    y[:, 1] = np.nan
    options = {} if kind == "gaussian" else {"sizes": np.ones(90), "dispersion": np.zeros(4)}
    assert_finite(fit_trend(gather(U, np.ones((T, 4)), y, where, weights, std, **options)))


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_missing_entries_do_not_move_a_trend(kind):
    """A third of the entries, at random: what is left says the same."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, 3000)
    curve = 1.0 + 0.5 * np.sin(2.0 * x)
    y = curve[:, None] + 0.3 * rng.standard_normal((3000, 1))
    options = {}
    if kind == "counts":
        y = rng.poisson(4.0 * curve)[:, None].astype(float)
        options = {"sizes": np.ones(3000), "dispersion": np.zeros(1)}
    gaps = np.where(rng.random(y.shape) < 0.33, np.nan, y)
    # the decoder knows the level alone
    base = np.full((T, 1), np.log(y.mean()) if kind == "counts" else y.mean())
    whole, part = (
        fit_trend(gather(U, base, z, x, np.ones(3000), np.zeros(3000), **options)).band(0.9)[0]
        for z in (y, gaps)
    )
    inner = slice(2, -2)
    truth = (1.0 + 0.5 * np.sin(2.0 * U))[:, None] * (4.0 if kind == "counts" else 1.0)
    np.testing.assert_allclose(whole[inner], truth[inner], rtol=0.12)
    np.testing.assert_allclose(part[inner], truth[inner], rtol=0.12)


def test_rows_of_which_little_is_seen_give_wider_bands():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, 600)
    y = np.sin(2.0 * x)[:, None] + 0.5 * rng.standard_normal((600, 1))
    gaps = np.where(rng.random(y.shape) < 0.9, np.nan, y)
    base = np.sin(2.0 * U)[:, None]
    whole, part = (
        fit_trend(gather(U, base, z, x, np.ones(600), np.zeros(600))).std.mean() for z in (y, gaps)
    )
    assert part > 1.5 * whole


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_positions_without_rows_are_less_sure(rows, kind):
    y, where, weights, std = rows
    empty = (nearest(where) == 10) | (nearest(where) == 11)
    weights = np.where(empty, 0.0, np.maximum(weights, 0.2))
    options = {} if kind == "gaussian" else {"sizes": np.ones(90), "dispersion": np.zeros(4)}
    binned = gather(U, np.zeros((T, 4)), y, where, weights, std, **options)
    assert (binned.effective[[10, 11]] == 0).all()
    assert binned.doubt[10] > 0
    trend = fit_trend(binned)
    assert_finite(trend)
    variance = np.diagonal(trend.covariance, axis1=1, axis2=2)
    assert (variance[:, 10:12].mean(1) > variance[:, 5:17].mean(1)).all()


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_all_rows_in_one_place(kind):
    y = np.random.default_rng(0).poisson(3.0, (20, 2)).astype(float)
    options = {} if kind == "gaussian" else {"sizes": np.ones(20), "dispersion": np.zeros(2)}
    same = np.full(20, 1.3)
    trend = fit_trend(gather(U, np.zeros((T, 2)), y, same, np.ones(20), 0.1 * same, **options))
    assert_finite(trend)
    at = nearest(same[:1])[0]
    np.testing.assert_allclose(trend.band(0.9)[0][at], y.mean(0), rtol=0.1)
    assert (trend.std[0] > trend.std[at]).all()
