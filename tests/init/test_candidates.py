"""The search over kinds and scales of start."""

import math

import numpy as np
import pytest
import torch

from hgplvm import _init as init
from hgplvm._init import candidates as module
from hgplvm.datasets import make_binary_tree
from hgplvm.manifolds import Flat, Hyperbolic
from tests.gp import on

HYPERBOLIC = Hyperbolic()
FLAT = Flat()


def standardised(data):
    data = torch.as_tensor(np.asarray(data), dtype=torch.float64)
    data = data - data.mean(0)
    return data / data.square().mean().sqrt()


def candidates(data, manifold=HYPERBOLIC, **options):
    defaults = {
        "kinds": init.KINDS,
        "scales": Hyperbolic.start_scales,
        "length_scale": None,
        "n_columns": data.shape[1],
        "generator": torch.Generator().manual_seed(0),
    }
    return init.Candidates(data, 2, on(manifold), **{**defaults, **options})


@pytest.fixture(scope="module")
def tree():
    return make_binary_tree(5, 10, random_state=3)


def test_a_tree_is_curved_and_starts_from_distances(tree):
    comparison = candidates(standardised(tree.data)).compare(0.85)
    assert comparison.chosen.kind == "mds"
    assert comparison.chosen.scale >= 3.0


def test_a_plane_is_flat_and_starts_from_principal_components(normal):
    plane = torch.rand(200, 2, generator=torch.Generator().manual_seed(1)).double() @ normal(2, 12)
    chosen = candidates(standardised(plane)).compare(0.85).chosen
    assert (chosen.kind, chosen.scale) == ("pca", 1.0)


def test_loud_noise_is_left_out_of_the_distances(normal):
    signal = make_binary_tree(4, 15, random_state=0).data
    loud = standardised(signal) @ torch.linalg.qr(normal(300, 15)).Q.mT * 2.0 + normal(225, 300)
    chosen = candidates(standardised(loud)).compare(0.85).chosen
    assert chosen.kind == "mds-denoised"


def start(kind, scale, evidence):
    return init.Candidate(kind, scale, init.Profile(evidence, 1.0, 1.0, 1.0))


def test_what_evidence_cannot_tell_apart_is_taken_flat_and_simple():
    tol = module.EQUIVALENCE
    rows = [start("mds", 1.0, -2 * tol), start("mds", 2.0, -0.9 * tol), start("mds", 3.0, 0.0)]
    assert module.Comparison(tuple(rows)).chosen is rows[1]
    rows = [start("pca", 2.0, -0.9 * tol), start("mds", 1.0, 0.0)]
    assert module.Comparison(tuple(rows)).chosen is rows[0]
    rows = [start("pca", 2.0, -1.1 * tol), start("mds", 1.0, 0.0)]
    assert module.Comparison(tuple(rows)).chosen is rows[1]


def test_the_history_has_one_entry_a_candidate(tree):
    comparison = candidates(standardised(tree.data)).compare(0.85)
    arrays = comparison.arrays()
    assert {len(column) for column in arrays.values()} == {12}
    assert arrays["search_start"].tolist() == ["pca"] * 6 + ["mds"] * 6
    assert arrays["search_scale"].tolist() == [*Hyperbolic.start_scales, *Hyperbolic.start_scales]
    (chosen,) = np.flatnonzero(arrays["search_chosen"])
    assert arrays["search_scale"][chosen] == comparison.chosen.scale
    assert arrays["search_evidence"][chosen] == comparison.chosen.profile.evidence


def test_all_rows_get_the_latents_that_belong_to_them(tree):
    """Rows are shuffled for the probe: nodes that are close must come back together."""
    data = standardised(tree.data)
    for kinds in (("mds",), ("pca",)):
        found = candidates(data, kinds=kinds, scales=[2.0])
        chosen = found.compare(0.85).chosen
        latents = found.latents(chosen)
        distance = HYPERBOLIC.pairwise_distance(latents)
        truth = torch.cdist(data, data)
        above = torch.triu_indices(len(data), len(data), 1)
        pairs = torch.stack([distance[above[0], above[1]], truth[above[0], above[1]]])
        assert torch.corrcoef(pairs)[0, 1] > 0.7
        if kinds == ("pca",):
            assert torch.equal(latents[found.probe_rows], found.probe(chosen)[: len(data)])


def test_many_rows_are_placed_against_landmarks(monkeypatch, tree):
    data = standardised(tree.data)
    full = candidates(data, kinds=("mds",), scales=[2.0])
    whole = full.latents(full.compare(0.85).chosen)
    monkeypatch.setattr(module, "PROBE_ROWS", 120)
    monkeypatch.setattr(module, "LANDMARK_ROWS", 200)
    few = candidates(data, kinds=("mds",), scales=[2.0])
    parts = few.latents(few.compare(0.85).chosen)
    above = torch.triu_indices(len(data), len(data), 1)
    pairs = [HYPERBOLIC.pairwise_distance(x)[above[0], above[1]] for x in (whole, parts)]
    assert torch.corrcoef(torch.stack(pairs))[0, 1] > 0.93


def test_a_given_length_scale_is_the_only_one(tree):
    arrays = candidates(standardised(tree.data), length_scale=7.0).compare(0.85).arrays()
    assert set(arrays["search_length_scale"]) == {7.0}


def test_given_latents_are_the_only_candidate(normal):
    latents = FLAT.from_tangent(normal(30, 2))
    found = candidates(normal(30, 4), FLAT, given=latents, length_scale=3.0)
    comparison = found.compare(0.85)
    assert [c.kind for c in comparison.candidates] == ["given"]
    assert comparison.chosen.scale == pytest.approx(init.median_distance(latents, FLAT), rel=0.1)
    assert torch.equal(found.latents(comparison.chosen), latents)


@pytest.mark.parametrize("n", [2, 3, 30])
def test_rows_that_are_all_the_same_still_start_somewhere(manifold, n):
    found = candidates(torch.zeros(n, 3, dtype=torch.float64), manifold)
    chosen = found.compare(0.85).chosen
    assert math.isfinite(chosen.profile.evidence)
    assert torch.isfinite(found.latents(chosen)).all()


def test_several_probes_make_a_surer_choice(normal, monkeypatch):
    """Their evidence is averaged, and what counts as equal shrinks with their number."""
    monkeypatch.setattr(module, "PROBE_ROWS", 20)
    data = standardised(normal(40, 4))
    found = candidates(data, n_probes=2)
    probes = [slice(0, 20), slice(20, 40)]
    assert torch.equal(found._rows[probes[0]], data[found.probe_rows])
    for probes_latents, one in zip(
        found._probes.values(), found.compare(0.9).candidates, strict=True
    ):
        means = []
        for factor in module.LENGTH_SCALES:
            evidence = [
                init.profile_evidence(
                    found._rows[rows],
                    latents,
                    on(HYPERBOLIC),
                    [factor * one.scale],
                    n_columns=4,
                    noise_share=0.9,
                ).evidence
                for rows, latents in zip(probes, probes_latents, strict=True)
            ]
            means.append(sum(evidence) / 2)
        assert one.profile.evidence == pytest.approx(max(means))
        best = module.LENGTH_SCALES[int(np.argmax(means))]
        assert one.profile.length_scale == pytest.approx(best * one.scale)
    tol = module.EQUIVALENCE
    rows = (start("mds", 1.0, -0.9 * tol), start("mds", 2.0, -0.4 * tol), start("mds", 3.0, 0.0))
    chosen = [module.Comparison(rows, n).chosen.scale for n in (1, 4, 9)]
    assert chosen == [1.0, 2.0, 3.0]
