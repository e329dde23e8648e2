"""The start of a fit as a whole."""

import pytest
import torch

from hgplvm import _init as init
from hgplvm import _start as start
from hgplvm._noise_search import search_noise
from hgplvm._start import find_start
from hgplvm.datasets import make_binary_tree
from hgplvm.manifolds import Hyperbolic
from tests.gp import on

HYPERBOLIC = Hyperbolic()


def begin(data, **options):
    data = torch.as_tensor(data, dtype=torch.float64)
    data = data - data.mean(0)
    data = data / data.square().mean().sqrt()
    defaults = {
        "kinds": init.KINDS,
        "scales": Hyperbolic.start_scales,
        "length_scale": None,
        "noise_floor": None,
        "smallest_floor": 1e-6,
        "generator": torch.Generator().manual_seed(0),
    }
    return find_start(data, 2, on(HYPERBOLIC), **{**defaults, **options})


@pytest.fixture(scope="module")
def tree():
    return make_binary_tree(4, 15, random_state=1).data


def test_a_tree_gets_a_floor_and_noise_and_variance_to_match(tree):
    found = begin(tree)
    assert found.noise_floor >= 0.05
    standard = torch.as_tensor(tree) - torch.as_tensor(tree).mean(0)
    standard = standard / standard.square().mean().sqrt()
    variance, noise = init.variogram(
        standard,
        found.latents,
        on(HYPERBOLIC),
        found.length_scale,
        n_columns=15,
        noise_floor=found.noise_floor,
    )
    assert found.variance == pytest.approx(variance)
    assert found.noise_floor + found.noise == pytest.approx(noise, rel=0.011)
    assert {"search_evidence", "noise_score"} <= set(found.history)


def test_a_given_floor_is_kept_and_nothing_is_held_out(tree):
    found = begin(tree, noise_floor=0.123)
    assert found.noise_floor == 0.123
    assert "noise_score" not in found.history


@pytest.mark.parametrize("shape", [(10, 4), (60, 1)])
def test_too_little_to_hold_out_leaves_the_noise_free(shape, normal):
    found = begin(normal(*shape))
    assert found.noise_floor == 1e-6
    assert "noise_score" not in found.history


def test_the_same_seed_gives_the_same_start(tree):
    a, b = begin(tree), begin(tree)
    assert torch.equal(a.latents, b.latents)
    assert (a.variance, a.noise, a.length_scale) == (b.variance, b.noise, b.length_scale)


def test_rows_held_out_are_those_of_the_probe(tree, monkeypatch):
    """The probe is a shuffled sample: its data and its latents must be of the same rows."""
    seen = {}

    def spy(data, latents, *args, **options):
        seen["rows"], seen["latents"] = data, latents
        return search_noise(data, latents, *args, **options)

    monkeypatch.setattr(start, "search_noise", spy)
    begin(tree)
    distances = (
        HYPERBOLIC.pairwise_distance(seen["latents"]),
        torch.cdist(seen["rows"], seen["rows"]),
    )
    assert torch.corrcoef(torch.stack([d.reshape(-1) for d in distances]))[0, 1] > 0.8


def test_evidence_counts_the_columns_that_rotated_data_stand_for(normal):
    """More columns than rows: a rotation must not change what is found."""
    data = normal(40, 3) @ normal(3, 90) + 0.3 * normal(40, 90)
    evidence = begin(data).history["search_evidence"]
    # an entry of standardised data under a normal of its own variance has -1.42
    assert -1.45 < evidence.max() < -0.3
