"""Methods of other packages: those that are installed, and what is said of those that are not."""

import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from hgplvm.baselines import PEERS, Peer
from hgplvm.datasets import make_binary_tree
from hgplvm.errors import MissingPackageError

TREE = make_binary_tree(depth=3, n_per_node=8, random_state=0)

# UMAP says on import that it goes without TensorFlow
pytestmark = pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")


@pytest.fixture(autouse=True)
def _numba_without_openmp(monkeypatch):
    """Numba (of UMAP) adds OpenMP threads that wait busily: very slow where cores are shared."""
    monkeypatch.setenv("NUMBA_THREADING_LAYER", "workqueue")


def numpy_state():
    return np.random.get_state()[1].copy()  # noqa: NPY002


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_peers_embed_in_the_plane_and_their_seed_decides(name):
    if find_spec(PEERS[name].package) is None:
        pytest.skip(f"{PEERS[name].package} is not installed")
    before, data = numpy_state(), TREE.data.copy()
    points = PEERS[name].embed(TREE.data, seed=3)
    assert points.shape == (56, 2)
    assert points.dtype == np.float64
    assert np.ptp(points, axis=0).min() > 0
    assert np.array_equal(points, PEERS[name].embed(TREE.data, seed=3))
    assert np.array_equal(before, numpy_state())
    assert np.array_equal(TREE.data, data)
    near = np.linalg.norm(points[:, None] - points, axis=-1)
    same = TREE.node[:, None] == TREE.node
    assert near[same].mean() < 0.8 * near[~same].mean()


def test_packages_run_with_their_own_defaults():
    expected = PCA(2).fit_transform(TREE.data)
    assert np.allclose(PEERS["PCA"].embed(TREE.data), expected)
    expected = TSNE(random_state=5).fit_transform(TREE.data)
    assert np.array_equal(PEERS["t-SNE"].embed(TREE.data, seed=5), expected)


def test_peers_are_found_by_their_names():
    assert {"PCA", "t-SNE", "openTSNE", "UMAP", "PaCMAP", "PHATE", "TriMap"} < set(PEERS)
    assert all(name == peer.name for name, peer in PEERS.items())


@pytest.mark.parametrize("name", [name for name in PEERS if PEERS[name].package != "sklearn"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, name):
    package = PEERS[name].package
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"^{name} needs the package '{package}'") as e:
        PEERS[name].embed(TREE.data)
    assert "'hgplvm[peers]'" in str(e.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_divergence_is_an_error(bad):
    def run(data, seed, package):
        points = np.zeros((len(data), 2))
        points[4, 1] = bad
        return points

    with pytest.raises(ArithmeticError, match=r"^Wild diverged on these data"):
        Peer("Wild", "numpy", run).embed(TREE.data)


def test_a_peer_gets_data_seed_and_package():
    def run(data, seed, package):
        assert package is np
        assert data.dtype == np.float64
        warnings.warn("not for the user", UserWarning, stacklevel=1)
        return (data[:, :2] + seed).astype(np.float32)

    points = Peer("Plain", "numpy", run).embed([[1, 2, 3], [4, 5, 6]], seed=10)
    assert points.dtype == np.float64
    assert points.tolist() == [[11, 12], [14, 15]]


def test_numpy_is_seeded_for_packages_that_have_no_other_handle():
    def run(data, seed, package):
        return np.random.standard_normal((len(data), 2))  # noqa: NPY002

    before = numpy_state()
    peer = Peer("Random", "numpy", run)
    assert np.array_equal(peer.embed(TREE.data, 1), peer.embed(TREE.data, 1))
    assert not np.array_equal(peer.embed(TREE.data, 1), peer.embed(TREE.data, 2))
    assert np.array_equal(before, numpy_state())


def test_numpy_gets_its_state_back_after_an_error():
    def run(data, seed, package):
        np.random.standard_normal(5)  # noqa: NPY002
        raise KeyError("broken")

    before = numpy_state()
    with pytest.raises(KeyError, match="broken"):
        Peer("Broken", "numpy", run).embed(TREE.data)
    assert np.array_equal(before, numpy_state())
