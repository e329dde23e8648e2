"""Peers that can be installed with pip, each as a function from data to an embedding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

Embed = Callable[[np.ndarray, int], np.ndarray]


def pca(data: np.ndarray, seed: int) -> np.ndarray:
    return PCA(2, random_state=seed).fit_transform(data)


def tsne(data: np.ndarray, seed: int) -> np.ndarray:
    return TSNE(2, random_state=seed).fit_transform(data)


def open_tsne(data: np.ndarray, seed: int) -> np.ndarray:
    import openTSNE

    return np.asarray(openTSNE.TSNE(random_state=seed).fit(data))


def umap(data: np.ndarray, seed: int) -> np.ndarray:
    from umap import UMAP

    return UMAP(random_state=seed, n_jobs=1).fit_transform(data)


def pacmap(data: np.ndarray, seed: int) -> np.ndarray:
    from pacmap import PaCMAP

    return PaCMAP(random_state=seed).fit_transform(data)


def phate(data: np.ndarray, seed: int) -> np.ndarray:
    from phate import PHATE

    return PHATE(random_state=seed, verbose=0).fit_transform(data)


def trimap(data: np.ndarray, seed: int) -> np.ndarray:
    from trimap import TRIMAP

    np.random.seed(seed)  # noqa: NPY002  its only handle
    return TRIMAP(verbose=False).fit_transform(data)


def gpy(data: np.ndarray, seed: int) -> np.ndarray:
    import GPy

    np.random.seed(seed)  # noqa: NPY002  its only handle
    model = GPy.models.GPLVM(data - data.mean(0), 2)
    model.optimize(messages=False)
    return np.asarray(model.X)


PEERS: dict[str, Embed] = {
    "PCA": pca,
    "t-SNE": tsne,
    "openTSNE": open_tsne,
    "UMAP": umap,
    "PaCMAP": pacmap,
    "PHATE": phate,
    "TriMap": trimap,
    "GPy GPLVM": gpy,
}
