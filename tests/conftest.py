"""Shared helpers: the spaces, and data small enough for a test."""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # scanpy's, which would set those of torch, too
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, one core each

import matplotlib

matplotlib.use("Agg")

import pytest
import torch
from hypothesis import settings

from hgplvm.manifolds import Flat, Hyperbolic

settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def machine_of_one_speed(monkeypatch):
    """Estimates of time, and with them what is said, do not depend on what else runs here."""
    monkeypatch.setattr("hgplvm.estimators.estimate._slowness", lambda: 1.0)


@pytest.fixture(params=[Hyperbolic(), Flat()], ids=["hyperbolic", "flat"])
def manifold(request):
    return request.param


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def normal(generator):
    """Standard normal float64 arrays, the same in every run."""

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return draw


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")
