"""Flat or curved: the parts against sums by brute force, the verdict on data that are known."""

import math
from itertools import combinations

import numpy as np
import pytest

from hgplvm import GPLVM, HGPLVM, _curvature
from hgplvm._curvature import ROWS, UNDECIDED, judge
from hgplvm.datasets import make_binary_tree

N = 200


def plane(seed=0, n=N, d=10, noise=0.1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)) + noise * rng.standard_normal(
        (n, d)
    )


def cloud(seed=0, n=N, d=8):
    return np.random.default_rng(seed).standard_normal((n, d))


def blobs(seed=0, n=N, d=8, k=4):
    rng = np.random.default_rng(seed)
    return 5 * rng.standard_normal((k, d))[rng.integers(k, size=n)] + 0.5 * rng.standard_normal(
        (n, d)
    )


def tree(seed=0, n_per_node=20):
    return make_binary_tree(depth=5, n_per_node=n_per_node, random_state=seed).data


FLAT = {"plane": plane, "cloud": cloud, "blobs": blobs}


def quick(rows, **options):
    return judge(rows, quick=True, **options)


# --- the four-point condition ---------------------------------------------------------------


def gaps(distance, quartet):
    """Largest less middle, largest less smallest, and mean distance of four points."""
    i, j, k, m = quartet
    sums = sorted(
        [
            distance[i, j] + distance[k, m],
            distance[i, k] + distance[j, m],
            distance[i, m] + distance[j, k],
        ]
    )
    return sums[2] - sums[1], sums[2] - sums[0], sum(sums) / 6


def brute_force(points, least=0.25):
    """Defect, and inner edges as a share of the mean distance, over all quartets of points."""
    square = np.square(points[:, None] - points[None]).sum(2)
    n = len(points)
    apart = least * np.median(square[np.triu_indices(n, 1)])
    kept = [
        gaps(square, q)
        for q in combinations(range(n), 4)
        if min(square[a, b] for a, b in combinations(q, 2)) >= apart
    ]
    upper, whole, mean = np.sum(kept, axis=0)
    return upper / whole, (whole - 0.5 * upper) / mean


def four_points(points):
    """The same of means without noise, by the code."""
    pairs, witnesses = [(points, points)], np.arange(len(points))
    return _curvature._four_points(pairs, witnesses, np.random.RandomState(0))


def on_a_tree(depth, lengths):
    """Nodes of a binary tree, an axis for each edge: squared distances are lengths of ways."""
    nodes = [np.zeros(2 ** (depth + 1) - 2)]
    edge = 0
    for _ in range(depth):
        for parent in nodes[-(2 ** round(math.log2(len(nodes) + 1)) // 2) :]:
            for _ in range(2):
                child = parent.copy()
                child[edge] = math.sqrt(lengths[edge])
                nodes.append(child)
                edge += 1
    return np.array(nodes)


def test_sums_are_those_of_all_pairings():
    rng = np.random.default_rng(0)
    square = np.square(rng.standard_normal((9, 9)))
    square = square + square.T
    quartets = _curvature._quartets(9, np.random.RandomState(0))
    assert sorted(map(tuple, quartets)) == list(combinations(range(9), 4))
    sums = np.sort(_curvature._sums(square, quartets), axis=1)
    found = np.stack([sums[:, 2] - sums[:, 1], sums[:, 2] - sums[:, 0], sums.sum(1) / 6], axis=1)
    np.testing.assert_allclose(found, [gaps(square, q) for q in quartets])
    nearest = _curvature._nearest_pair(square, quartets)
    expected = [min(square[a, b] for a, b in combinations(q, 2)) for q in quartets]
    np.testing.assert_allclose(nearest, expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_defect_is_that_of_all_quartets(seed):
    points = np.random.default_rng(seed).standard_normal((13, 4))
    defect, error, edge = four_points(points)
    expected = brute_force(points)
    assert defect == pytest.approx(expected[0])
    assert edge == pytest.approx(expected[1])
    assert 0 < error < 0.5


def test_the_error_is_a_jackknife_over_groups():
    points = np.random.default_rng(3).standard_normal((11, 4))
    _, error, _ = four_points(points)
    square = np.square(points[:, None] - points[None]).sum(2)
    apart = 0.25 * np.median(square[np.triu_indices(11, 1)])
    left = []
    for gone in range(11):
        rest = [i for i in range(11) if i != gone]
        kept = [
            gaps(square, q)
            for q in combinations(rest, 4)
            if min(square[a, b] for a, b in combinations(q, 2)) >= apart
        ]
        upper, whole, _ = np.sum(kept, axis=0)
        left.append(upper / whole)
    expected = math.sqrt(10 / 11 * np.square(left - np.mean(left)).sum())
    assert error == pytest.approx(expected)


def test_there_is_no_defect_on_a_tree_and_much_in_a_plane():
    rng = np.random.default_rng(0)
    nodes = on_a_tree(3, rng.uniform(0.5, 2.0, 14))
    assert len(nodes) == 15
    defect, error, edge = four_points(nodes)
    assert defect == pytest.approx(0.0, abs=1e-12)
    assert error == pytest.approx(0.0, abs=1e-12)
    assert 0.2 < edge < 1.0
    turned = nodes @ np.linalg.qr(rng.standard_normal((14, 14)))[0] + 3.0
    assert four_points(turned)[0] == pytest.approx(0.0, abs=1e-9)
    flat = np.mean([four_points(rng.standard_normal((14, 2)))[0] for _ in range(10)])
    assert 0.28 < flat < 0.48


def test_a_star_has_no_inner_edges():
    star = 2.0 * np.eye(9) + 0.01 * np.random.default_rng(0).standard_normal((9, 9))
    _, _, edge = four_points(star)
    assert edge < 0.05


def test_crossed_distances_are_free_of_noise():
    """Their mean over many draws of it, where plain ones are too large by 2 d v."""
    rng = np.random.default_rng(0)
    points, n_draws, noise = rng.standard_normal((6, 5)), 20_000, 0.7
    truth = np.square(points[:, None] - points[None]).sum(2)
    crossed, plain = np.zeros((6, 6)), np.zeros((6, 6))
    for _ in range(n_draws // 20):
        first, second = points + noise * rng.standard_normal((2, 6, 5))
        crossed += _curvature._crossed(first, second)
        plain += _curvature._squared(first)
    crossed, plain = crossed / (n_draws // 20), plain / (n_draws // 20)
    off = ~np.eye(6, dtype=bool)
    assert np.abs(crossed - truth)[off].max() < 0.6  # errors of some 0.14, of 15 pairs
    assert abs((crossed - truth)[off].mean()) < 0.15
    assert (plain - truth)[off].mean() == pytest.approx(2 * 5 * noise**2, rel=0.1)


def test_noise_in_means_adds_no_defect():
    rng = np.random.default_rng(0)
    nodes = on_a_tree(3, np.ones(14))
    pairs = [tuple(nodes + 0.15 * rng.standard_normal((2, 15, 14))) for _ in range(30)]
    witnesses = np.tile(np.arange(15), 30)
    crossed = _curvature._four_points(pairs, witnesses, np.random.RandomState(0))[0]
    same = [(first, first) for first, _ in pairs]
    plain = _curvature._four_points(same, witnesses, np.random.RandomState(0))[0]
    assert crossed < 0.06 < plain


def test_a_plane_holds_what_is_in_one():
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((2, 6))

    def pairs(noise, d):
        means = rng.standard_normal((20, d)) @ rng.standard_normal((d, 6)) if d > 2 else None
        means = rng.standard_normal((20, 2)) @ axes if means is None else means
        return [tuple(means + noise * rng.standard_normal((2, 20, 6))) for _ in range(8)]

    assert abs(_curvature._beyond_plane(pairs(0.2, 2))) < 0.03
    assert _curvature._beyond_plane(pairs(0.0, 2)) == pytest.approx(0.0, abs=1e-9)
    assert _curvature._beyond_plane(pairs(0.2, 6)) > 0.15


# --- the verdict ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FLAT)
def test_flat_data_are_flat(kind, seed):
    found = quick(FLAT[kind](seed))
    assert not found.curved
    assert "plane" in found.reason


@pytest.mark.parametrize("seed", range(3))
def test_a_hierarchy_is_curved(seed):
    found = quick(tree(seed))
    assert found.curved
    assert found.reason.startswith("curved by ")
    assert found.defect < 0.15
    assert found.defect_error < 0.1
    assert found.hierarchy > 0.4
    assert found.n_groups >= 5
    assert found.beyond_plane > 0.1


def test_what_is_said_of_flat_data_fits_them():
    assert quick(plane()).reason == "a plane holds these data"
    assert "few groups" in quick(blobs()).reason
    assert quick(blobs()).n_groups == 4
    assert "do not branch like a tree" in quick(cloud()).reason
    assert quick(plane()).beyond_plane < 0.01


def test_a_gain_is_found_where_there_is_a_tree():
    rows = tree(n_per_node=4)
    found, flat = judge(rows), judge(plane(n=60, d=5))
    assert found.curved
    assert found.gain > 2 * found.gain_error > 0
    assert found.z > quick(rows).z
    assert not flat.curved
    assert flat.gain < 2 * flat.gain_error
    for verdict in (found, flat):
        assert verdict.gain == pytest.approx(verdict.gains.mean())
        assert len(verdict.gains) > 2
        lines = str(verdict).splitlines()
        assert lines[0] == verdict.reason
        assert lines[1].startswith("held-out gain of curvature")
        assert lines[2].startswith("four-point defect")


def test_quick_verdicts_do_not_predict(monkeypatch):
    def refuse(*args):
        raise AssertionError

    monkeypatch.setattr(_curvature, "_gain", refuse)
    found = quick(tree())
    assert math.isnan(found.gain)
    assert math.isnan(found.gain_error)
    assert found.gains.shape == (0,)
    assert "held-out" not in str(found)


@pytest.mark.parametrize("noise", [0.3, 0.6, 1.0])
def test_quick_verdicts_need_evidence_of_the_distances(noise):
    """Between a tree and a cloud; what is not decided counts as flat."""
    for seed in range(3):
        rows = tree(seed)
        rows = rows + noise * np.random.default_rng(seed).standard_normal(rows.shape)
        found = quick(rows)
        if found.curved:
            assert found.defect + 1.6 * found.defect_error < 0.38
            assert found.z > 1.6
        else:
            assert found.reason == UNDECIDED or "plane" in found.reason


def test_a_large_gain_alone_does_not_pass_the_gates(monkeypatch):
    monkeypatch.setattr(_curvature, "_gain", lambda *args: (1.0, 1e-3, np.ones(6)))
    for kind in FLAT:
        found = judge(FLAT[kind]())
        assert not found.curved
        assert found.gain == 1.0
    assert judge(tree()).curved


def test_a_loss_counts_for_nothing(monkeypatch):
    """Half of few columns places rows badly."""
    monkeypatch.setattr(_curvature, "_gain", lambda *args: (-1.0, 1e-3, -np.ones(6)))
    assert judge(tree()).z == pytest.approx(quick(tree()).z)


# --- what does not matter -------------------------------------------------------------------


def same(first, second, rel=1e-6):
    assert first.curved == second.curved
    for name in ("z", "defect", "defect_error", "path_defect", "hierarchy", "beyond_plane"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), rel=rel, abs=1e-6)


@pytest.mark.parametrize("make", [plane, cloud, tree])
def test_the_same_rows_give_the_same_verdict(make):
    rows = make()
    before = rows.copy()
    first, again = quick(rows), quick(rows)
    assert str(first) == str(again)
    assert first.z == again.z
    assert np.array_equal(rows, before)


@pytest.mark.parametrize("scale", [1e-100, 1e100, -3.0])
@pytest.mark.parametrize("make", [plane, cloud, tree])
def test_the_unit_and_the_origin_do_not_matter(make, scale):
    rows = make()
    found = quick(rows)
    same(quick(scale * rows), found)
    if abs(scale) == 3.0:
        shift = 10.0 * np.random.default_rng(0).standard_normal(rows.shape[1])
        same(quick(rows + shift), found, rel=1e-4)


def test_the_unit_of_the_gain_does_not_matter():
    rows = plane(n=42, d=4)
    first, second = judge(rows), judge(1e4 * rows + 7.0)
    assert first.gain == pytest.approx(second.gain, rel=1e-3, abs=1e-6)
    assert first.curved == second.curved


def test_single_precision_is_enough():
    rows = tree()
    same(quick(rows.astype(np.float32)), quick(rows), rel=0.05)


def test_many_rows_are_sampled(monkeypatch):
    seen = []
    monkeypatch.setattr(_curvature, "_scores", lambda rows: seen.append(rows.shape) or rows[:, :5])
    quick(cloud(n=2000))
    assert seen == [(ROWS, 8)]


# --- little to judge ------------------------------------------------------------------------


def gaps_in(rows, share, seed=0):
    return np.where(np.random.default_rng(seed).random(rows.shape) < share, np.nan, rows)


def with_column(rows, value):
    return np.column_stack([rows, np.full(len(rows), value)])


LITTLE = {
    "two rows": cloud(n=2),
    "one row": cloud(n=1),
    "two columns": cloud(d=2),
    "one column": cloud(d=1),
    "constant": np.full((80, 5), 3.0),
    "zero": np.zeros((80, 5)),
    "one place": np.repeat(cloud(n=1), 80, axis=0),
    "two places": np.repeat(cloud(n=2), 40, axis=0),
    "five places": np.repeat(cloud(n=5), 20, axis=0),
    "constant columns": with_column(with_column(plane(), 5.0), 0.0),
    "constant beside two": with_column(with_column(cloud(d=2), 5.0), 0.0),
    "every row twice": np.repeat(cloud(n=60), 2, axis=0),
    "outlier": np.concatenate([np.zeros((79, 5)), 1e6 * np.ones((1, 5))]),
    "far outlier": np.concatenate([cloud(n=79, d=5), np.full((1, 5), 1e8)]),
    "gaps": gaps_in(plane(), 0.3),
    "mostly gaps": gaps_in(plane(), 0.95),
    "nothing": np.full((80, 5), np.nan),
    "an empty column": with_column(plane(), np.nan),
    "an empty row": np.concatenate([plane(), np.full((1, 10), np.nan)]),
    "integers": np.random.default_rng(0).integers(0, 2, (80, 6)),
    "on a line": np.linspace(0, 1, 80)[:, None] * np.arange(1, 6),
    "wide": cloud(n=60, d=400),
}


def assert_sound(found):
    assert found.curved in (True, False)
    assert isinstance(found.reason, str)
    assert found.reason
    assert math.isfinite(found.z)
    assert str(found).startswith(found.reason)
    for name in ("gain", "defect", "defect_error", "path_defect", "hierarchy", "beyond_plane"):
        assert isinstance(float(getattr(found, name)), float)


@pytest.mark.parametrize("kind", LITTLE)
def test_whatever_the_rows_are_there_is_a_verdict(kind):
    found = quick(LITTLE[kind])
    assert_sound(found)
    assert not found.curved
    assert "plane" in found.reason or found.reason == UNDECIDED


def test_the_gain_is_a_number_whatever_the_rows_are():
    found = judge(LITTLE["outlier"][-45:])
    assert_sound(found)
    assert not found.curved
    assert math.isfinite(found.gain)
    assert math.isfinite(found.gain_error)


def test_too_few_rows_or_columns_say_so():
    assert quick(cloud(n=2)).reason == "too few rows to tell: a plane will do"
    assert quick(cloud(d=2)).reason == "too few columns to tell: a plane will do"
    assert math.isnan(quick(cloud(n=2)).defect)


def test_a_few_gaps_hide_no_tree():
    assert quick(gaps_in(tree(), 0.02)).curved


# --- models ---------------------------------------------------------------------------------


def test_models_are_asked_for_a_verdict():
    rows = tree(n_per_node=4)
    model = HGPLVM(max_iter=3, random_state=0, length_scale=1.0).fit(rows)
    found = model.curvature(quick=True)
    assert found.curved
    assert 0 < found.scale_low <= found.scale <= found.scale_high
    distance = model.distances()
    median = np.median(distance[np.triu_indices(len(rows), 1)])
    assert found.scale == pytest.approx(median, rel=0.15)
    assert "curvature radii" in str(found)
    with pytest.raises(ValueError, match=r"'quick' parameter of HGPLVM must be True or False"):
        model.curvature(quick=1)


def test_flat_models_have_no_curvature_to_tell():
    model = GPLVM(max_iter=2, random_state=0, length_scale=1.0).fit(cloud(n=30))
    with pytest.raises(ValueError, match="GPLVM is not hyperbolic, and only a hyperbolic model"):
        model.curvature()
