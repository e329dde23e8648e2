"""Skeletons of maps, on trees of geodesics that are known.

Trees are made of Möbius maps of complex numbers, and projections are looked up on finely sampled
geodesics: not the code under test.
"""

import numpy as np
import pytest
import torch

from hgplvm._lineages import Skeleton, find_skeleton, given_skeleton, place, places, span
from tests.pl.helpers import exponential, hyperbolic, lorentz_of, moved_from_origin, moved_to_origin

ORIGIN = np.zeros(2)


def ahead(at, angle, length):
    """Point at a length from another, in a direction of its frame."""
    return exponential(np.asarray(at), length * np.array([np.cos(angle), np.sin(angle)]))


def between(a, b, share):
    """Points at shares of the way from a to b."""
    end = moved_to_origin(b, a)
    radius = np.linalg.norm(end)
    reach = np.tanh(np.asarray(share, dtype=float)[..., None] * np.arctanh(radius))
    return moved_from_origin(reach * end / radius, a)


def points_of(disk):
    return torch.from_numpy(lorentz_of(np.asarray(disk, dtype=float)))


def disk_of(points):
    points = points.numpy()
    return points[..., 1:] / (1 + points[..., :1])


def star(n, length=3.0):
    """Arms from the origin, the first of which leads to it."""
    ends = [ahead(ORIGIN, 2 * np.pi * k / n + 0.3, length) for k in range(n)]
    return [(ends[0], ORIGIN, -1), *((ORIGIN, end, 0) for end in ends[1:])]


def two_forks():
    fork = ahead(ORIGIN, 0.9, 3.0)
    return [
        (ahead(ORIGIN, np.pi, 3.0), ORIGIN, -1),
        (ORIGIN, ahead(ORIGIN, -1.2, 3.5), 0),
        (ORIGIN, fork, 0),
        (fork, ahead(fork, 1.8, 3.0), 2),
        (fork, ahead(fork, 0.0, 3.0), 2),
    ]


# edges from a point to another after the edge of a number, and how many terminal states there are
TREES = {
    "line": ([(ahead(ORIGIN, 0.3, 4.0), ahead(ORIGIN, 3.2, 4.0), -1)], 1),
    "fork": (star(3), 2),
    "star": (star(4), 3),
    "forks": (two_forks(), 3),
}


def drawn(edges, n, noise, seed=0):
    """Rows around edges: points of the disk, their true times, and edges."""
    rng = np.random.default_rng(seed)
    begins, parts, times, numbers = [], [], [], []
    for i, (a, b, before) in enumerate(edges):
        length = hyperbolic(a, b)
        begins.append(0.0 if before < 0 else begins[before] + hyperbolic(*edges[before][:2]))
        share = rng.uniform(size=round(n * length))
        parts.append(
            exponential(between(a, b, share), noise * rng.standard_normal((len(share), 2)))
        )
        times.append(begins[-1] + share * length)
        numbers.append(np.full(len(share), i))
    return np.concatenate(parts), np.concatenate(times), np.concatenate(numbers)


def written(edges):
    """The skeleton of edges, each one branch, from an edge list of labels with a row each."""
    names = {tuple(edges[0][0]): "root"}
    pairs = []
    for i, (a, b, _) in enumerate(edges):
        names[tuple(b)] = f"end {i}"
        pairs.append((names[tuple(a)], names[tuple(b)]))
    labels = np.array(list(names.values()))
    return given_skeleton("test", points_of(list(names)), labels, pairs)


def isotropic(n, std):
    return (std**2 * torch.eye(2, dtype=torch.float64)).expand(n, 2, 2)


# --- skeletons that are found ---------------------------------------------------------------


@pytest.fixture(scope="module", params=TREES)
def found(request):
    edges, n_tips = TREES[request.param]
    rows, times, numbers = drawn(edges, 30, 0.1)
    skeleton = find_skeleton(points_of(rows), points_of(edges[0][0]))
    return edges, n_tips, rows, times, numbers, skeleton


def test_there_are_as_many_terminal_states_as_drawn(found):
    edges, n_tips, *_, skeleton = found
    assert len(skeleton.tips) == n_tips
    assert len(skeleton.above) == len(skeleton.names) == len(edges)


def test_the_root_is_the_tip_that_was_named(found):
    edges, *_, skeleton = found
    assert hyperbolic(disk_of(skeleton.nodes[0]), edges[0][0]) < 0.4
    assert skeleton.parent[0] == skeleton.branch[0] == -1
    assert skeleton.time[0] == 0.0


def test_nodes_lie_near_the_true_geodesics(found):
    edges, *_, skeleton = found
    fine = np.concatenate([between(a, b, np.linspace(0, 1, 400)) for a, b, _ in edges])
    away = hyperbolic(disk_of(skeleton.nodes)[:, None], fine[None]).min(1)
    assert away.max() < 0.5
    assert away.mean() < 0.1


def test_times_are_sums_of_the_lengths_of_edges(found):
    skeleton = found[-1]
    nodes = disk_of(skeleton.nodes)
    for i in range(1, len(nodes)):
        before = skeleton.parent[i]
        assert before < i
        step = hyperbolic(nodes[before], nodes[i])
        assert skeleton.time[i] == pytest.approx(skeleton.time[before] + step, abs=1e-7)


def test_positions_agree_with_the_true_ones(found):
    _, _, rows, times, _, skeleton = found
    _, position, distance = place(points_of(rows), skeleton)
    error = np.abs(position - times)
    assert error.mean() < 0.3
    assert np.corrcoef(position, times)[0, 1] > 0.98
    assert distance.mean() < 0.15  # the noise, in one of two directions


def test_branches_are_those_that_rows_were_drawn_on(found):
    edges, _, rows, _, numbers, skeleton = found
    branch, *_ = place(points_of(rows), skeleton)
    # far from both ends of an edge, where no fork is near
    gap = [np.minimum(hyperbolic(rows, a), hyperbolic(rows, b)) for a, b, _ in edges]
    clear = np.array(gap)[numbers, np.arange(len(rows))] > 0.8
    pairs = np.unique(np.stack([numbers, branch])[:, clear], axis=1)
    assert pairs.shape[1] == len(edges)  # each edge is one branch, and no branch is two
    assert len(np.unique(pairs[1])) == len(edges)
    before = {int(n): int(b) for n, b in pairs.T}
    for i, (*_, parent) in enumerate(edges):
        assert skeleton.above[before[i]] == (-1 if parent < 0 else before[parent])


def test_the_same_rows_give_the_same_skeleton(found):
    edges, _, rows, _, _, skeleton = found
    again = find_skeleton(points_of(rows), points_of(edges[0][0]))
    assert torch.equal(again.nodes, skeleton.nodes)
    assert np.array_equal(again.branch, skeleton.branch)


def test_an_isometry_changes_no_position(found):
    edges, _, rows, _, _, skeleton = found
    turn = np.exp(0.7j)
    at = np.array([0.5, -0.3])

    def moved(points):
        z = (points[..., 0] - 1j * points[..., 1]) * turn  # a reflection, a turn and a boost
        return moved_from_origin(np.stack([z.real, z.imag], axis=-1), at)

    there = find_skeleton(points_of(moved(rows)), points_of(moved(edges[0][0])))
    here, other = (place(points_of(r), s) for r, s in ((rows, skeleton), (moved(rows), there)))
    np.testing.assert_allclose(other[1], here[1], atol=1e-5)
    np.testing.assert_allclose(other[2], here[2], atol=1e-5)
    assert len(there.tips) == len(skeleton.tips)


def test_a_root_at_a_fork_is_the_fork():
    edges = star(4)
    rows, *_ = drawn(edges, 30, 0.1)
    skeleton = find_skeleton(points_of(rows), points_of(ahead(ORIGIN, 1.0, 0.1)))
    assert len(skeleton.tips) == 4
    assert (skeleton.above == -1).all()
    assert hyperbolic(disk_of(skeleton.nodes[0]), ORIGIN) < 0.4
    _, position, _ = place(points_of(rows), skeleton)
    assert np.abs(position - hyperbolic(rows, ORIGIN)).mean() < 0.3


def test_a_root_within_a_branch_cuts_it_in_two():
    edges = star(2, 5.0)
    rows, times, _ = drawn(edges, 30, 0.1)
    start = ahead(ORIGIN, 0.3, 1.0)
    skeleton = find_skeleton(points_of(rows), points_of(start))
    assert len(skeleton.tips) == 2
    assert hyperbolic(disk_of(skeleton.nodes[0]), start) < 0.2
    _, position, _ = place(points_of(rows), skeleton)
    assert np.abs(position - np.abs(times - 4.0)).mean() < 0.3


def test_rows_that_are_unsure_show_no_detail():
    """Forks below the uncertainty of positions are none."""
    edges = star(3, 1.2)
    rows, *_ = drawn(edges, 100, 0.03)
    at = points_of(rows), points_of(edges[0][0])
    assert len(find_skeleton(*at).tips) == 2
    assert len(find_skeleton(*at, isotropic(len(rows), 1e-4)).tips) == 2
    assert len(find_skeleton(*at, isotropic(len(rows), 1.5)).tips) == 1


# --- few rows, and rows that coincide -------------------------------------------------------


def assert_whole(skeleton, rows):
    """Whether a skeleton can be walked along, and rows placed on it."""
    assert np.isfinite(skeleton.nodes.numpy()).all()
    assert np.isfinite(skeleton.time).all()
    known = isotropic(len(rows), 0.1)
    found = places(points_of(rows), skeleton, known, known)
    for values in (found.position, found.std, found.shares, found.fates, found.distance):
        assert np.isfinite(values).all()
    assert (found.position >= 0).all()
    assert np.allclose(found.shares.sum(1), 1)
    for tip in skeleton.tips:
        times, points = span(skeleton, tip, 7)
        assert len(times) == len(points) == 7
        assert np.isfinite(points.numpy()).all()


@pytest.mark.parametrize(
    "rows",
    [[[0.3, 0.2]], [[0.3, 0.2], [-0.5, 0.1]], [[0.3, 0.2]] * 3, [[0.3, 0.2]] * 40],
    ids=["one", "two", "three equal", "forty equal"],
)
def test_too_few_places_make_a_single_node(rows):
    rows = np.array(rows)
    root = np.array([0.3, 0.2])
    skeleton = find_skeleton(points_of(rows), points_of(root))
    assert_whole(skeleton, rows)
    assert len(skeleton.nodes) == len(skeleton.above) == 1
    branch, position, distance = place(points_of(rows), skeleton)
    assert (branch == 0).all()
    assert (position == 0).all()
    np.testing.assert_allclose(distance, hyperbolic(rows, root), atol=1e-7)


@pytest.mark.parametrize("n", [3, 4, 6, 10])
def test_few_rows_are_no_error(n):
    rng = np.random.default_rng(n)
    rows = exponential(ORIGIN, rng.standard_normal((n, 2)))
    assert_whole(find_skeleton(points_of(rows), points_of(rows[0])), rows)


def test_duplicated_rows_change_little():
    edges = star(3)
    rows, times, _ = drawn(edges, 25, 0.1)
    twice = np.repeat(rows, 2, axis=0)
    skeleton = find_skeleton(points_of(twice), points_of(edges[0][0]))
    assert len(skeleton.tips) == 2
    _, position, _ = place(points_of(rows), skeleton)
    assert np.abs(position - times).mean() < 0.3


def test_many_copies_of_one_row_do_not_hide_the_others():
    edges = star(3)
    rows, times, _ = drawn(edges, 25, 0.1)
    copies = np.concatenate([rows, np.repeat(rows[:1], 100, axis=0)])
    skeleton = find_skeleton(points_of(copies), points_of(edges[0][0]))
    assert_whole(skeleton, rows)
    assert len(skeleton.tips) == 2
    _, position, _ = place(points_of(rows), skeleton)
    assert np.abs(position - times).mean() < 0.4


def test_rows_on_one_geodesic_make_one_branch():
    a, b = ahead(ORIGIN, 0.4, 3.0), ahead(ORIGIN, 3.0, 2.0)
    share = np.linspace(0, 1, 101)
    rows = between(a, b, share)
    skeleton = find_skeleton(points_of(rows), points_of(a))
    assert len(skeleton.above) == 1
    _, position, distance = place(points_of(rows), skeleton)
    assert distance.max() < 0.3
    inner = (share > 0.1) & (share < 0.9)
    expected = share * hyperbolic(a, b)
    assert np.abs(position - expected)[inner].max() < 0.3


# --- skeletons that are given ---------------------------------------------------------------


def test_labels_stand_at_the_means_of_their_rows():
    rng = np.random.default_rng(0)
    labels = np.array(["b", "a", "c"])[np.arange(60) % 3]
    middles = {"a": ORIGIN, "b": ahead(ORIGIN, 0.3, 2.0), "c": ahead(ORIGIN, 2.5, 3.0)}
    at = np.array([middles[word] for word in labels])
    rows = exponential(at, 0.4 * rng.standard_normal((60, 2)))
    skeleton = given_skeleton("test", points_of(rows), labels, [("a", "b"), ("b", "c")])
    for node, word in zip(disk_of(skeleton.nodes), ["a", "b", "c"], strict=True):
        seen = moved_to_origin(rows[labels == word], node)
        radius = np.linalg.norm(seen, axis=1, keepdims=True)
        assert np.allclose((np.arctanh(radius) * seen / radius).sum(0), 0, atol=1e-7)
    assert skeleton.names == ["a → b", "b → c"]
    assert skeleton.parent.tolist() == [-1, 0, 1]
    assert skeleton.above.tolist() == [-1, 0]
    steps = hyperbolic(disk_of(skeleton.nodes[:-1]), disk_of(skeleton.nodes[1:]))
    np.testing.assert_allclose(skeleton.time, [0, *np.cumsum(steps)], atol=1e-7)


def test_edges_may_come_in_any_order():
    edges = two_forks()
    labels = np.array(["r", "o", "x", "f", "y", "z"])
    rows = points_of([edges[0][0], *(b for _, b, _ in edges)])
    pairs = [("r", "o"), ("o", "x"), ("o", "f"), ("f", "y"), ("f", "z")]
    forward, backward = (given_skeleton("test", rows, labels, e) for e in (pairs, pairs[::-1]))
    times = [
        {name.split(" → ")[1]: s.time[s.end(b)] for b, name in enumerate(s.names)}
        for s in (forward, backward)
    ]
    assert times[0] == pytest.approx(times[1])
    assert {forward.names[tip] for tip in forward.tips} == {"o → x", "f → y", "f → z"}
    assert {forward.names[tip] for tip in forward.tips} == {
        backward.names[tip] for tip in backward.tips
    }


LABELS = np.array(["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        ([("a", "b"), ("b", "a")], "make one tree with one root"),
        ([("a", "b"), ("b", "c"), ("c", "b")], "must make a tree: 'b' has several parents"),
        ([("d", "a"), ("a", "b"), ("b", "c"), ("c", "a")], "'a' has several parents"),
        ([("a", "b"), ("c", "d")], "make one tree with one root"),
        ([("a", "b"), ("c", "d"), ("d", "c")], "make one tree with one root"),
        ([("a", "c"), ("b", "c")], "'c' has several parents"),
        ([("a", "a")], "'a' has several parents, or itself as one"),
        ([("a", "b"), ("b", "b")], "'b' has several parents, or itself as one"),
        ([], "must be a list of (parent, child) labels"),
        (None, "must be a list of (parent, child) labels"),
        ([("a", "b", "c")], "must be a list of (parent, child) labels"),
        (["a"], "must be a list of (parent, child) labels"),
        (7, "must be a list of (parent, child) labels"),
        ([("a", "b"), ("b", "e")], "name 'e', which no row has; there are 'a', 'b', 'c', 'd'"),
    ],
)
def test_edges_that_are_no_tree_are_refused_in_a_sentence(edges, sentence):
    rows = points_of(exponential(ORIGIN, np.random.default_rng(0).standard_normal((4, 2))))
    with pytest.raises(ValueError, match="'edges' of test") as info:
        given_skeleton("test", rows, LABELS, edges)
    assert sentence in str(info.value)
    assert "\n" not in str(info.value)
    assert len(str(info.value)) < 300


# --- walks along a skeleton -----------------------------------------------------------------


@pytest.fixture(scope="module", params=["fork", "star", "forks"])
def known(request):
    edges, _ = TREES[request.param]
    return edges, written(edges)


def test_rows_are_projected_onto_the_nearest_geodesic(known):
    edges, skeleton = known
    rng = np.random.default_rng(1)
    rows = exponential(ORIGIN, 2.0 * rng.standard_normal((150, 2)))
    branch, position, distance = place(points_of(rows), skeleton)
    share = np.linspace(0, 1, 2001)
    begin = dict.fromkeys([tuple(edges[0][0])], 0.0)
    away, along = [], []
    for a, b, _ in edges:
        length = hyperbolic(a, b)
        begin[tuple(b)] = begin[tuple(a)] + length
        fine = hyperbolic(rows[:, None], between(a, b, share)[None])
        away.append(fine.min(1))
        along.append(begin[tuple(a)] + share[fine.argmin(1)] * length)
    away, along = np.array(away), np.array(along)
    np.testing.assert_allclose(distance, away.min(0), atol=2e-3)
    np.testing.assert_allclose(position, along[away.argmin(0), np.arange(150)], atol=0.02)
    names = np.array([name.split("end ")[-1] for name in skeleton.names]).astype(int)
    # of edges that are as near, such as at a fork, either is right
    assert (away[names[branch], np.arange(150)] <= away.min(0) + 1e-3).all()


def test_points_along_a_way_stand_at_their_times(known):
    edges, skeleton = known
    nodes = disk_of(skeleton.nodes)
    for tip in skeleton.tips:
        times, points = span(skeleton, tip, 23)
        points = disk_of(points)
        np.testing.assert_allclose(points[0], nodes[0], atol=1e-9)
        np.testing.assert_allclose(points[-1], nodes[skeleton.end(tip)], atol=1e-9)
        length = sum(hyperbolic(*edges[int(skeleton.names[b][-1])][:2]) for b in skeleton.way(tip))
        np.testing.assert_allclose(times, np.linspace(0, length, 23), atol=1e-6)
        _, position, distance = place(points_of(points), skeleton)
        np.testing.assert_allclose(position, times, atol=1e-5)
        assert distance.max() < 1e-5


def test_times_beyond_the_ends_are_the_ends(known):
    _, skeleton = known
    tip = skeleton.tips[0]
    points = disk_of(skeleton.points(tip, np.array([-1.0, 1e3])))
    nodes = disk_of(skeleton.nodes)
    np.testing.assert_allclose(points, nodes[[0, skeleton.end(tip)]], atol=1e-9)


def test_ways_lead_from_the_root(known):
    _, skeleton = known
    for tip in skeleton.tips:
        way, path = skeleton.way(tip), skeleton.path(tip)
        assert way[-1] == tip
        assert skeleton.above[way[0]] == -1
        assert path[0] == 0
        assert path[-1] == skeleton.end(tip)
        assert [int(skeleton.branch[i]) for i in path[1:]] == way  # of edges that are a branch each
        assert skeleton.start(tip) == path[-2]


# --- how sure rows are ----------------------------------------------------------------------


def test_probabilities_add_up_to_one(known):
    _, skeleton = known
    rows = points_of(exponential(ORIGIN, np.random.default_rng(2).standard_normal((40, 2))))
    found = places(rows, skeleton, isotropic(40, 0.4), isotropic(40, 0.8))
    np.testing.assert_allclose(found.shares.sum(1), 1)
    np.testing.assert_allclose(found.fates.sum(1), 1)
    assert found.shares.shape == (40, len(skeleton.above))
    assert found.fates.shape == (40, len(skeleton.tips))
    assert (found.shares >= 0).all()
    assert (found.fates >= 0).all()


def test_rows_far_out_are_sure_and_rows_at_a_fork_are_not():
    edges = star(4)
    skeleton = written(edges)
    rows = np.array([between(*edges[2][:2], 0.95), ORIGIN])
    found = places(points_of(rows), skeleton, isotropic(2, 0.3), isotropic(2, 0.3))
    assert skeleton.names[found.branch[0]].endswith("end 2")
    assert found.shares[0].max() > 0.99
    assert found.fates[0].max() > 0.99
    assert found.shares[1].max() < 0.6
    sharp = places(points_of(rows), skeleton, isotropic(2, 1e-4), isotropic(2, 1e-4))
    assert sharp.shares[0].max() == pytest.approx(1.0)
    assert sharp.std.max() < 1e-3


def test_probabilities_are_shares_of_the_posterior():
    """Against the sum over a fine grid of the wrapped normal; copies of a row have other draws."""
    edges = star(3)
    skeleton = written(edges)
    at, n = ahead(ORIGIN, 1.1, 0.5), 250
    own = np.array([[0.30, 0.12], [0.12, 0.20]])
    rows = points_of(np.repeat(at[None], n, axis=0))
    covariance = torch.from_numpy(own).expand(n, 2, 2)
    found = places(rows, skeleton, covariance, 2 * covariance)
    # branch of each point of the grid, by the angle at which it is seen from the centre
    grid = np.stack(np.meshgrid(*[np.linspace(-5, 5, 201)] * 2, indexing="ij"), -1).reshape(-1, 2)
    grid = grid + 1e-9
    weight = np.exp(-0.5 * np.square(grid).sum(1))
    weight /= weight.sum()
    names = np.array([int(name[-1]) for name in skeleton.names])
    ends = np.array([a if before < 0 else b for a, b, before in edges])

    def seen(covariance):
        points = exponential(at, grid @ np.linalg.cholesky(covariance).T)
        angle = np.arctan2(points[:, 1], points[:, 0])
        turn = angle[:, None] - np.arctan2(ends[:, 1], ends[:, 0])
        nearest = np.cos(turn).argmax(1)
        # right triangles: tanh of the leg is tanh of the hypotenuse times the cosine
        reach = 2 * np.arctanh(np.linalg.norm(points, axis=1))
        leg = np.tanh(reach) * np.cos(turn)[np.arange(len(points)), nearest]
        leg = np.arctanh(np.clip(leg, 0.0, np.tanh(3.0)))
        return nearest, np.where(nearest == 0, 3.0 - leg, 3.0 + leg)

    nearest, _ = seen(own)
    expected = np.bincount(nearest, weight, minlength=3)[names]
    assert 0.05 < expected.max() < 0.95  # else the test says little
    # 250 rows of some tens of draws: standard errors are below 0.01
    np.testing.assert_allclose(found.shares.mean(0), expected, atol=0.025)
    _, times = seen(2 * own)
    _, position, _ = place(rows[:1], skeleton)
    spread = np.sqrt(weight @ np.square(times - position))
    assert np.sqrt(np.square(found.std).mean()) == pytest.approx(spread, rel=0.05)


def test_more_uncertainty_makes_positions_less_sure():
    edges = star(3)
    skeleton = written(edges)
    rows = points_of(np.stack([between(a, b, 0.5) for a, b, _ in edges]))
    stds = [
        places(rows, skeleton, isotropic(3, 0.1), isotropic(3, s)).std for s in (0.05, 0.2, 0.6)
    ]
    assert (stds[0] < stds[1]).all()
    assert (stds[1] < stds[2]).all()
    # along a geodesic, as far from its ends as here, it is that of the row
    np.testing.assert_allclose(stds[0], 0.05, rtol=0.5)


def test_the_likeliest_branch_has_the_largest_share(known):
    _, skeleton = known
    rows = points_of(exponential(ORIGIN, 0.5 * np.random.default_rng(3).standard_normal((60, 2))))
    found = places(rows, skeleton, isotropic(60, 0.7), isotropic(60, 0.7))
    np.testing.assert_allclose(
        found.shares[np.arange(60), found.branch], found.shares.max(1), atol=1e-8
    )


def test_the_same_seed_gives_the_same_draws(known):
    _, skeleton = known
    rows = points_of(exponential(ORIGIN, np.random.default_rng(4).standard_normal((10, 2))))
    args = (rows, skeleton, isotropic(10, 0.8), isotropic(10, 0.8))
    first, again, other = places(*args), places(*args), places(*args, seed=1)
    assert np.array_equal(first.shares, again.shares)
    assert np.array_equal(first.std, again.std)
    assert not np.array_equal(first.std, other.std)


def test_shares_of_a_stem_are_fates_beyond_it():
    """In proportion to what the ends have in all, with one row more for each."""
    skeleton = written(two_forks())
    number = {int(name[-1]): b for b, name in enumerate(skeleton.names)}
    shares = np.zeros((12, 5))
    for row, edge in enumerate([0, 2, 1, 1, 1, 3, 3, 3, 3, 3, 3, 4]):
        shares[row, number[edge]] = 1.0
    fates = skeleton.fates(shares)
    at = {int(skeleton.names[tip][-1]): k for k, tip in enumerate(skeleton.tips)}
    mass = {1: 4.0, 3: 7.0, 4: 2.0}
    for edge, total in mass.items():
        assert fates[0, at[edge]] == pytest.approx(total / 13)  # all ends lie beyond the stem
    assert fates[1, at[1]] == 0.0  # one lies aside
    assert fates[1, at[3]] == pytest.approx(7 / 9)
    assert fates[2, at[1]] == fates[5, at[3]] == fates[11, at[4]] == 1.0


def test_a_skeleton_is_plain_arrays():
    skeleton = written(star(3))
    fields = skeleton.nodes, skeleton.parent, skeleton.time, skeleton.branch, skeleton.above
    again = Skeleton(*fields, skeleton.names)
    rows = points_of(exponential(ORIGIN, np.random.default_rng(5).standard_normal((20, 2))))
    for one, other in zip(place(rows, skeleton), place(rows, again), strict=True):
        assert np.array_equal(one, other)
