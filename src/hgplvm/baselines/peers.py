"""Other packages' methods behind one face: thin adapters, nothing tuned.

Each peer is a name, the package that it comes from, and a function from data and seed to an
embedding in the plane, with the package's own defaults.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from hgplvm._optional import require
from hgplvm._typing import Array

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True)
class Peer:
    """A method of another package.

    Parameters
    ----------
    name : str
        How it is called in tables.
    package : str
        What has to be installed for it (extra ``peers``).
    run : callable
        Takes rows [n, d], a seed and the package; gives the embedding [n, 2].
    """

    name: str
    package: str
    run: Callable[[Array, int, Any], Array]

    def embed(self, data: Array, seed: int = 0) -> Array:
        """Embed rows in the plane.

        Parameters
        ----------
        data : array of shape (n_samples, n_features)
            Rows.
        seed : int, default=0
            Seed of what is random in it.

        Returns
        -------
        array of shape (n_samples, 2)

        Raises
        ------
        MissingPackageError
            Where its package is not installed.
        ArithmeticError
            Where the method diverged.
        """
        with warnings.catch_warnings(), _seeded(seed):
            warnings.simplefilter("ignore")
            module = require(self.name, self.package, "peers")
            found = np.asarray(self.run(np.asarray(data, dtype=float), seed, module), dtype=float)
        if not np.isfinite(found).all():
            raise ArithmeticError(f"{self.name} diverged on these data: NaN or infinite points.")
        return found


def _pca(data: Array, seed: int, _: Any) -> Array:
    return PCA(2, random_state=seed).fit_transform(data)


def _tsne(data: Array, seed: int, _: Any) -> Array:
    return TSNE(2, random_state=seed).fit_transform(data)


def _open_tsne(data: Array, seed: int, package: Any) -> Array:
    return package.TSNE(random_state=seed).fit(data)


def _umap(data: Array, seed: int, package: Any) -> Array:
    return package.UMAP(random_state=seed, n_jobs=1).fit_transform(data)


def _pacmap(data: Array, seed: int, package: Any) -> Array:
    return package.PaCMAP(random_state=seed).fit_transform(data)


def _phate(data: Array, seed: int, package: Any) -> Array:
    return package.PHATE(random_state=seed, verbose=0).fit_transform(data)


def _trimap(data: Array, _: int, package: Any) -> Array:
    return package.TRIMAP(verbose=False).fit_transform(data)


def _gpy(data: Array, _: int, package: Any) -> Array:
    model = package.models.GPLVM(data - data.mean(0), 2)
    model.optimize(messages=False)
    return model.X


def _gpy_sparse(data: Array, _: int, package: Any) -> Array:
    count = min(50, len(data))
    model = package.models.SparseGPLVM(data - data.mean(0), 2, num_inducing=count)
    model.optimize(messages=False)
    return model.X


def _gpy_bayesian(data: Array, _: int, package: Any) -> Array:
    count = min(50, len(data))
    model = package.models.BayesianGPLVM(data - data.mean(0), 2, num_inducing=count)
    model.optimize(messages=False)
    return model.X.mean


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, the only handle of some packages, and put it back."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


PEERS = {
    peer.name: peer
    for peer in (
        Peer("PCA", "sklearn", _pca),
        Peer("t-SNE", "sklearn", _tsne),
        Peer("openTSNE", "openTSNE", _open_tsne),
        Peer("UMAP", "umap", _umap),
        Peer("PaCMAP", "pacmap", _pacmap),
        Peer("PHATE", "phate", _phate),
        Peer("TriMap", "trimap", _trimap),
        Peer("GPy GPLVM", "GPy", _gpy),
        Peer("GPy SparseGPLVM", "GPy", _gpy_sparse),
        Peer("GPy BayesianGPLVM", "GPy", _gpy_bayesian),
    )
}
