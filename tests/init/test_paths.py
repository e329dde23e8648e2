"""Targets that follow the data, against path lengths that are known."""

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from hgplvm._init import paths

RNG = np.random.default_rng(0)


def line(n=200):
    """Rows along a curve that bends back on itself, in order."""
    angle = np.linspace(0.0, 1.8 * np.pi, n)
    return np.c_[np.cos(angle), np.sin(angle)], angle


def test_paths_follow_a_curve_whose_ends_are_near():
    rows, angle = line()
    found = paths.path_lengths(rows)
    expected = np.abs(angle[:, None] - angle[None])
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.999
    straight = cdist(rows, rows, "sqeuclidean")
    assert np.corrcoef(straight.ravel(), expected.ravel())[0, 1] < 0.8


def test_lengths_are_those_of_the_shortest_paths_over_the_graph():
    """Against networkx, with the edges written out."""
    rows = RNG.normal(size=(60, 3))
    distance = cdist(rows, rows)
    spacing = np.sort(distance, 1)[:, round(paths.SPACING * np.sqrt(60)) - 1]
    graph = nx.Graph()
    for i in range(60):
        for j in np.argsort(distance[i])[1:8]:
            scale = np.sqrt(spacing[i] * spacing[j]) ** paths.EVENNESS
            graph.add_edge(i, int(j), weight=distance[i, j] / scale)
    assert nx.is_connected(graph)
    expected = dict(nx.all_pairs_dijkstra_path_length(graph))
    found = paths.path_lengths(rows, n_neighbors=7)
    for i, lengths in expected.items():
        assert np.allclose(found[i], [lengths[j] for j in range(60)])


def test_units_and_order_of_the_rows_do_not_matter():
    rows = torch.from_numpy(RNG.normal(size=(80, 4)))
    found = paths.path_targets(rows)
    assert torch.allclose(paths.path_targets(1e3 * rows), found)
    order = torch.randperm(80, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(paths.path_targets(rows[order]), found[order][:, order])
    above = torch.triu_indices(80, 80, 1)
    assert torch.isclose(found[above[0], above[1]].median(), torch.tensor(1.0).double())
    assert torch.equal(found, found.mT)
    assert (found.diagonal() == 0).all()


def test_a_dense_stretch_is_as_long_as_a_sparse_one():
    """Of a line whose first half has four times as many rows as the second."""
    place = np.r_[np.linspace(0, 1, 400, endpoint=False), np.linspace(1, 2, 100)]
    rows = np.c_[place, 0.0 * place] + 1e-3 * RNG.normal(size=(500, 2))
    found = paths.path_lengths(rows)
    share = found[0, 400] / found[0, -1]
    assert 0.6 < share < 0.8  # towards the share of the rows, .8; the data's own is .5


def test_parts_that_are_not_connected_are_joined():
    parts = [RNG.normal(size=(30, 2)) + shift for shift in ([0, 0], [100, 0], [300, 0])]
    found = paths.path_lengths(np.concatenate(parts), n_neighbors=5)
    assert np.isfinite(found).all()
    # one part lies between the others
    assert found[0, 70] > found[0, 40] > found[0, 29]


@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_few_rows(n):
    found = paths.path_lengths(RNG.normal(size=(n, 2)))
    assert found.shape == (n, n)
    assert np.isfinite(found).all()


def test_rows_that_coincide():
    assert paths.path_targets(torch.ones(20, 3).double()) is None
    rows = torch.from_numpy(np.repeat(RNG.normal(size=(10, 2)), 40, axis=0))
    found = paths.path_targets(rows)
    assert found.isfinite().all()
    assert found[0, 1] < 1e-3 * found[0, 45]


def test_averages_are_weighted_by_inverse_noise():
    rows = torch.from_numpy(RNG.normal(size=(12, 2)))
    noise = torch.from_numpy(RNG.uniform(0.5, 2.0, 12))
    found, left = paths.averaged(rows, rows, noise)
    near = torch.from_numpy(np.argsort(cdist(rows, rows), 1)[:, : paths.FEWEST])
    weights = 1.0 / noise[near]
    expected = (rows[near] * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)
    assert torch.allclose(found, expected)
    assert torch.allclose(left, 1.0 / weights.sum(1))


def test_averaging_takes_noise_away():
    rows, _ = line(400)
    noisy = torch.from_numpy(rows + 0.2 * RNG.normal(size=rows.shape))
    found, _ = paths.averaged(noisy, noisy, torch.ones(400).double())
    errors = [(part - torch.from_numpy(rows)).square().mean() for part in (found, noisy)]
    assert errors[0] < 0.7 * errors[1]


def test_chunks_change_nothing(monkeypatch):
    rows = RNG.normal(size=(50, 3))
    expected = paths.path_lengths(rows)
    monkeypatch.setattr(paths, "CHUNK_ENTRIES", 120)
    assert np.allclose(paths.path_lengths(rows), expected)
