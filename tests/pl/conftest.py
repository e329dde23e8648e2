"""Objects to draw: made by hand, and one that was fitted."""

import anndata
import numpy as np
import pandas as pd
import pytest

import hgplvm
from tests.pl.helpers import SEARCH, STEPS, ClosedForm, Written, lorentz_of

N = 60
GENES = ["Gata1", "Spi1", "Klf1", "Cebpa"]


def _points():
    rng = np.random.default_rng(0)
    radius = np.tanh(rng.uniform(0.1, 3.0, N) / 2)
    angle = rng.uniform(0, 2 * np.pi, N)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _covariances():
    rng = np.random.default_rng(1)
    factors = 0.15 * rng.standard_normal((N, 2, 2))
    return factors @ factors.transpose(0, 2, 1) + 0.002 * np.eye(2)


@pytest.fixture
def points():
    """Sixty points of the disk, out to distance 3, that nothing may write to."""
    found = _points()
    found.flags.writeable = False
    return found


@pytest.fixture
def covariances():
    return _covariances()


@pytest.fixture
def cells():
    """An AnnData object with everything that pictures read but a fitted model."""
    rng = np.random.default_rng(2)
    kinds = np.array(["stem", "red", "white"])[np.arange(N) % 3]
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(kinds, categories=["stem", "white", "red"]),
            "depth": rng.uniform(0, 1, N),
            "batch": np.arange(N) % 2,
        },
        index=[f"cell{i}" for i in range(N)],
    )
    found = anndata.AnnData(
        rng.standard_normal((N, len(GENES))), obs=obs, var=pd.DataFrame(index=GENES)
    )
    found.layers["scaled"] = found.X * 10
    found.obsm["X_hgplvm"] = _points()
    found.obsm["X_hgplvm_lorentz"] = lorentz_of(_points())
    found.obsm["hgplvm_covariance"] = _covariances().reshape(N, 4)
    found.obsm["X_umap"] = 5 * rng.standard_normal((N, 2))
    found.obsm["X_pca"] = 5 * rng.standard_normal((N, 4))
    found.uns["type_colors"] = np.array(["#ff0000", "#00ff00", "#0000ff"])
    evidence = {name.removeprefix("search_"): np.array(v) for name, v in SEARCH.items()}
    found.uns["hgplvm"] = {
        "history": {name: np.array(v) for name, v in STEPS.items()},
        "evidence": evidence,
    }
    return found


@pytest.fixture
def stub():
    return ClosedForm(_points(), ["left", "middle", "right"])


@pytest.fixture
def written():
    return Written(**STEPS, **SEARCH)


@pytest.fixture(scope="package")
def fitted():
    """An AnnData object after a fit, with its model."""
    rng = np.random.default_rng(3)
    found = anndata.AnnData(
        rng.standard_normal((N, len(GENES))), var=pd.DataFrame(index=GENES), obs={"i": np.arange(N)}
    )
    hgplvm.tl.hgplvm(found, max_iter=5)
    return found


@pytest.fixture(scope="package")
def model(fitted):
    return hgplvm.tl.model(fitted)
