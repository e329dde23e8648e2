"""Nearest earlier rows, by all pairs and by the tree, against sorting all distances."""

import mpmath
import pytest
import torch

from hgplvm.manifolds import Hyperbolic
from hgplvm.manifolds import _neighbors as neighbors
from hgplvm.manifolds._neighbors import max_min_order, nearest_earlier, nearest_others

HYPERBOLIC = Hyperbolic()


def by_sorting(manifold, x, k):
    distance = manifold.pairwise_distance(x)
    rows = []
    for i in range(len(x)):
        nearest = distance[i, :i].sort().indices[:k].tolist()
        rows.append(nearest + [i] * (k - len(nearest)))
    return torch.tensor(rows)


def clouds(manifold, normal, n, q=2):
    """Points of several shapes: together, apart, far out, along a line."""
    line = torch.linspace(-6, 6, n, dtype=torch.float64)[:, None] + 1e-3 * normal(n, 1)
    outer = normal(n, q)
    shapes = {
        "near": 0.01 * normal(n, q),
        "wide": 2.0 * normal(n, q),
        "line": line.expand(n, q),
        "far out": (10.0 + 0.3 * normal(n, 1)) * outer / outer.norm(dim=1, keepdim=True),
    }
    return {name: manifold.from_tangent(tangents) for name, tangents in shapes.items()}


@pytest.fixture(params=["near", "wide", "line", "far out"])
def shape(request):
    return request.param


@pytest.mark.parametrize("q", [1, 2, 4], ids="Q={}".format)
def test_all_pairs(manifold, q, shape, normal):
    x = clouds(manifold, normal, 60, q)[shape]
    assert torch.equal(nearest_earlier(manifold, x, 7), by_sorting(manifold, x, 7))


@pytest.mark.parametrize("q", [1, 2, 4], ids="Q={}".format)
def test_the_tree_is_exact(manifold, q, shape, normal, monkeypatch):
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", 40)
    monkeypatch.setitem(neighbors.PAIRS, "cpu", 700)  # many chunks
    x = clouds(manifold, normal, 400, q)[shape]
    assert torch.equal(nearest_earlier(manifold, x, 5), by_sorting(manifold, x, 5))


def test_a_dense_cloud_beside_a_few_points_far_off(manifold, normal, monkeypatch):
    """Balls of very different sizes: the search has to widen."""
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", 20)
    tangents = normal(300, 2)
    tangents[::2] *= 0.001
    tangents[1::10] *= 4.0
    x = manifold.from_tangent(tangents)
    assert torch.equal(nearest_earlier(manifold, x, 8), by_sorting(manifold, x, 8))


def test_coincident_rows(manifold, normal, monkeypatch):
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", 30)
    x = manifold.from_tangent(normal(10, 2)).repeat(20, 1)
    found = nearest_earlier(manifold, x, 4)
    rows = torch.arange(200)[:, None]
    assert ((found < rows) | (rows < 4)).all()
    assert all(len(set(row)) == 4 for row in found[4:].tolist())  # four different ones
    later = slice(40, None)  # four twins are earlier: all neighbours are twins
    assert manifold.squared_chord(x[later, None], x[found[later]]).max() == 0


def test_more_neighbours_than_rows_whose_pairs_are_compared(manifold, normal, monkeypatch):
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", 10)
    x = manifold.from_tangent(normal(200, 2))
    assert torch.equal(nearest_earlier(manifold, x, 20), by_sorting(manifold, x, 20))
    distance = manifold.pairwise_distance(x).fill_diagonal_(torch.inf)
    assert torch.equal(nearest_others(manifold, x, 60), distance.sort(1).indices[:, :60])


def test_as_many_neighbours_as_rows(manifold, normal):
    x = manifold.from_tangent(normal(12, 2))
    assert torch.equal(nearest_earlier(manifold, x, 11), by_sorting(manifold, x, 11))


@pytest.mark.parametrize("all_pairs", [40, 4096])
def test_the_nearest_of_all_others(manifold, shape, all_pairs, normal, monkeypatch):
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", all_pairs)
    monkeypatch.setitem(neighbors.PAIRS, "cpu", 7000)
    x = clouds(manifold, normal, 300)[shape]
    distance = manifold.pairwise_distance(x).fill_diagonal_(torch.inf)
    assert torch.equal(nearest_others(manifold, x, 6), distance.sort(1).indices[:, :6])


def test_all_others(manifold, normal):
    x = manifold.from_tangent(normal(9, 2))
    found = nearest_others(manifold, x, 8)
    assert all(
        sorted(row) == [j for j in range(9) if j != i] for i, row in enumerate(found.tolist())
    )


def test_max_min_order(manifold, normal):
    x = manifold.from_tangent(normal(50, 2))
    order = max_min_order(manifold, x)
    assert order[0] == 0
    assert sorted(order.tolist()) == list(range(50))
    distance = manifold.pairwise_distance(x)
    for place in range(1, 50):
        gaps = distance[:, order[:place]].amin(1)
        assert gaps[order[place]] == gaps.max()


def test_max_min_order_of_many_rows_orders_the_first(manifold, normal, monkeypatch):
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", 20)
    x = manifold.from_tangent(normal(50, 2))
    order = max_min_order(manifold, x)
    assert torch.equal(order[:20], max_min_order(manifold, x[:20]))
    assert torch.equal(order[20:], torch.arange(20, 50))


@pytest.mark.parametrize("radius", [1e-3, 0.5, 4.0])
def test_geodesic_balls_are_euclidean_balls_in_the_chart(manifold, radius, normal):
    x = manifold.from_tangent(2.0 * normal(6, 2))
    rim = normal(200, 2)
    rim = radius * rim / rim.norm(dim=1, keepdim=True)
    points = manifold.displaced(x[:, None], rim)  # all at this distance
    centre, chart_radius = manifold.search_ball(x, torch.full((6,), radius, dtype=torch.float64))
    gaps = torch.linalg.vector_norm(manifold.to_chart(points) - centre[:, None], dim=-1)
    assert torch.allclose(gaps, chart_radius[:, None].expand_as(gaps), rtol=1e-6)


def test_the_chart_ball_against_mpmath():
    """The two ends of the diameter through the origin, with fifty digits."""
    with mpmath.workdps(50):
        for r, rho in ((0.3, 1.0), (11.0, 0.01), (5.0, 6.0)):
            ends = [mpmath.tanh((mpmath.mpf(r) + s * mpmath.mpf(rho)) / 2) for s in (-1, 1)]
            x = HYPERBOLIC.from_tangent(torch.tensor([[r, 0.0]], dtype=torch.float64))
            centre, radius = HYPERBOLIC.search_ball(x, torch.tensor([rho], dtype=torch.float64))
            assert centre[0, 0].item() == pytest.approx(float(sum(ends) / 2), rel=1e-12)
            width = float((ends[1] - ends[0]) / 2)
            assert radius.item() == pytest.approx(width, rel=1e-9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_the_gpu_agrees(manifold, shape, normal, monkeypatch):
    x = clouds(manifold, normal, 300)[shape]
    expected = nearest_earlier(manifold, x, 6)
    assert torch.equal(nearest_earlier(manifold, x.cuda(), 6).cpu(), expected)
    monkeypatch.setitem(neighbors.ALL_PAIRS, "cuda", 50)
    assert torch.equal(nearest_earlier(manifold, x.cuda(), 6).cpu(), expected)


def nearest_by_sorting(manifold, queries, x, k):
    return manifold.pairwise_distance(queries, x).sort(1).indices[:, :k]


@pytest.mark.parametrize("tree", [False, True], ids=["all pairs", "tree"])
def test_nearest_to_other_points(manifold, shape, tree, normal, monkeypatch):
    if tree:
        monkeypatch.setitem(neighbors.ALL_PAIRS, "cpu", 40)
        monkeypatch.setitem(neighbors.PAIRS, "cpu", 700)
    x, queries = clouds(manifold, normal, 300)[shape], clouds(manifold, normal, 50)[shape]
    found = neighbors.nearest_to(manifold, queries, x, 6)
    assert torch.equal(found, nearest_by_sorting(manifold, queries, x, 6))


def test_a_row_is_the_nearest_to_itself(manifold, normal):
    x = clouds(manifold, normal, 30)["wide"]
    assert torch.equal(neighbors.nearest_to(manifold, x, x, 30)[:, 0], torch.arange(30))
