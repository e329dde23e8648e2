"""The start of a fit as a whole."""

import pytest
import torch

from hgplvm import init
from hgplvm.datasets import make_binary_tree
from hgplvm.geometry import lorentz
from hgplvm.kernels import Exponential
from hgplvm.start import find_start


def begin(data, **options):
    data = torch.as_tensor(data, dtype=torch.float64)
    data = data - data.mean(0)
    data = data / data.square().mean().sqrt()
    defaults = {
        "kinds": init.KINDS,
        "scales": init.SCALES,
        "length_scale": None,
        "noise_floor": None,
        "smallest_floor": 1e-6,
        "generator": torch.Generator().manual_seed(0),
    }
    return find_start(data, 2, lorentz, Exponential(), **{**defaults, **options})


@pytest.fixture(scope="module")
def tree():
    return make_binary_tree(4, 15, random_state=1).data


def test_a_tree_gets_a_floor_and_noise_and_variance_to_match(tree):
    found = begin(tree)
    assert found.noise_floor >= 0.05
    total = found.noise_floor + found.noise
    assert total <= 0.95
    assert found.variance > 0
    assert {"search_evidence", "noise_score"} <= set(found.history)


def test_a_given_floor_is_kept_and_nothing_is_held_out(tree):
    found = begin(tree, noise_floor=0.123)
    assert found.noise_floor == 0.123
    assert "noise_score" not in found.history


@pytest.mark.parametrize("data", [torch.randn(10, 4), torch.randn(60, 1)])
def test_too_little_to_hold_out_leaves_the_noise_free(data):
    found = begin(data)
    assert found.noise_floor == 1e-6
    assert "noise_score" not in found.history


def test_the_same_seed_gives_the_same_start(tree):
    a, b = begin(tree), begin(tree)
    assert torch.equal(a.latents, b.latents)
    assert (a.variance, a.noise, a.length_scale) == (b.variance, b.noise, b.length_scale)
