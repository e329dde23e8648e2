"""The noise level, estimated from held-out rows."""

import numpy as np
import pytest
import torch

from hgplvm import _init as init
from hgplvm import _noise_search as noise_search
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from tests.gp import gram, on

HYPERBOLIC = Hyperbolic()


def drawn(noise, normal, n=150, d=40):
    """Data drawn from the model with this share of noise, and the latents behind them."""
    x = HYPERBOLIC.from_tangent(1.2 * normal(n, 2))
    covariance = gram(Exponential(), HYPERBOLIC, x, x, variance=1.0, length_scale=8.0)
    smooth = torch.linalg.cholesky(covariance + 1e-10 * torch.eye(n)) @ normal(n, d)
    smooth = smooth - smooth.mean(0)
    smooth = smooth / smooth.square().mean().sqrt()
    data = (1.0 - noise) ** 0.5 * smooth + noise**0.5 * normal(n, d)
    return data - data.mean(0), x


def search(data, x, seed=0):
    profile = init.profile_evidence(
        data, x, on(HYPERBOLIC), [8.0], noise_share=0.85, n_columns=data.shape[1]
    )
    generator = torch.Generator().manual_seed(seed)
    return noise_search.search_noise(
        data, x, profile, on(HYPERBOLIC), rate=7e-3, generator=generator
    )


@pytest.mark.parametrize("noise", [0.7, 0.3, 0.05])
def test_the_noise_of_data_drawn_from_the_model_is_found(noise, normal):
    found = search(*drawn(noise, normal))
    assert 0.4 * noise <= found.floor <= 2.0 * noise


def test_data_without_noise_get_next_to_none(normal):
    found = search(*drawn(1e-6, normal))
    assert found.floor <= 0.02
    assert found.levels == noise_search.LEVELS


@pytest.mark.parametrize(("best", "floor"), [(0.9, 0.9), (0.01, 0.01), (3e-3, 0.0)])
def test_the_floor_is_the_best_level_and_the_last_is_no_floor(best, floor):
    scores = tuple(1.0 if level == best else 0.0 for level in noise_search.LEVELS)
    assert noise_search.NoiseSearch(noise_search.LEVELS, scores).floor == floor


def test_levels_fall_and_the_search_ends_soon_after_the_best(normal):
    found = search(*drawn(0.5, normal))
    assert found.levels == noise_search.LEVELS[: len(found.levels)]
    assert len(found.levels) - 1 - np.argmax(found.scores) == noise_search.PATIENCE
    arrays = found.arrays()
    assert arrays["noise_level"].tolist() == list(found.levels)
    assert arrays["noise_score"].tolist() == list(found.scores)


def test_the_same_seed_gives_the_same_scores(normal):
    data, x = drawn(0.3, normal, n=60, d=10)
    assert search(data, x).scores == search(data, x).scores
    assert search(data, x).scores != search(data, x, seed=1).scores


@pytest.mark.parametrize("d", [2, 3, 40])
def test_every_held_out_row_shows_and_hides_an_entry(d, generator):
    observed = noise_search._mask(torch.Size([30, d]), generator)
    assert set(observed.unique().tolist()) == {0.0, 1.0}
    assert (observed.sum(1) == d - max(1, round(noise_search.HIDDEN * d))).all()
    assert d < 10 or len(observed.unique(dim=0)) > 20  # not the same entries in every row


def test_ctrl_c_ends_the_search(normal, monkeypatch):
    """It must not end one level alone, with the rest of the search and the fit to follow."""

    evaluate, calls = noise_search.ExactObjective.evaluate, []

    def interrupted(self, parameters):
        calls.append(1)
        if len(calls) == 3:  # in the middle of a level
            raise KeyboardInterrupt
        return evaluate(self, parameters)

    data, x = drawn(0.3, normal, n=40, d=6)
    monkeypatch.setattr(noise_search.ExactObjective, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(data, x)
