"""The whole paper at toy size, run once for all tests that look at it."""

import sys

import pytest

from hgplvm._reproduce import Scale, Source, reproduce

TOY = Scale(runs=1, paul_runs=1, sweep_runs=1, depths=(3,), cross_checks=(), steps=2)


@pytest.fixture(scope="session")
def paul_folder(tmp_path_factory):
    """Cells that look like Paul's: prepared values and names of clusters."""
    import numpy as np

    from hgplvm.datasets._cells import CLUSTERS

    folder = tmp_path_factory.mktemp("arrays")
    (folder / "paul").mkdir()
    rng = np.random.default_rng(0)
    labels = np.array(CLUSTERS)[rng.integers(len(CLUSTERS), size=60)]
    values = (
        rng.standard_normal((60, 30))
        + rng.standard_normal((19, 30))[np.searchsorted(np.sort(CLUSTERS), labels)]
    )
    np.savez(folder / "paul" / "paul15_zheng17.npz", X=values, labels=labels)
    return folder


@pytest.fixture(scope="session")
def toy(tmp_path_factory, paul_folder):
    """Return the folder that a toy run wrote, and its sections."""
    out = tmp_path_factory.mktemp("reproduce") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        # compiling UMAP takes half a minute; `tests/baselines/test_peers.py` runs it (slow tier)
        patch.setitem(sys.modules, "umap", None)
        sections = reproduce(out, scale=TOY, source=Source(paul_folder, most_rows=60))
    return out, sections


@pytest.fixture(autouse=True)
def _without_umap(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
