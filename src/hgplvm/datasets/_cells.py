"""Cells on their way to a fate: one simulation, one experiment."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from hgplvm._optional import require
from hgplvm._typing import Array

__all__ = ["load_myeloid_progenitors", "load_paul15"]

# trajectories of the simulation: 160 rows each, the second half of which has reached the fate
FATES = ("Mo", "Ery", "Mk", "Neu")
TRAJECTORY, COMMITTED = 160, 80
N_TOP_GENES = 1000
# names of the cell types of Paul's clusters, 1 to 19
CELL_TYPES = "Ery Ery Ery Ery Ery Ery MEP Mk GMP GMP DC Baso Baso Mo Mo Neu Neu Eos Lymph"
CLUSTERS = tuple(f"{number}{name}" for number, name in enumerate(CELL_TYPES.split(), 1))


def load_myeloid_progenitors() -> Bunch:
    """Return simulated myeloid progenitors that become four cell types (640 × 11).

    Four trajectories of 160 steps lead from one progenitor state to monocytes (Mo), erythrocytes
    (Ery), megakaryocytes (Mk) and neutrophils (Neu). The data ship with scanpy; nothing is
    downloaded.

    Returns
    -------
    Bunch
        ``data`` (640, 11), ``target`` (640,) one of nine stages: "root", the four fates, and before
        each fate the way to it ("to Mo", …); ``lineage`` (640,) the fate at the end of the row's
        trajectory; ``time`` (640,) the step of the simulation, from 0 to 159; ``feature_names``,
        the eleven genes; ``frame``, a DataFrame of the data; and ``DESCR``.

    Notes
    -----
    Simulated with the boolean network of Krumsiek et al., "Hierarchical differentiation of myeloid
    progenitors is encoded in the transcription factor network", PLoS ONE 6(8), 2011; the simulation
    is scanpy's ``krumsiek11`` (BSD-3-Clause). The stages follow Klimovskaia et al. 2020.

    Examples
    --------
    >>> from hgplvm.datasets import load_myeloid_progenitors
    >>> load_myeloid_progenitors().data.shape  # doctest: +SKIP
    (640, 11)
    """
    scanpy = require("load_myeloid_progenitors", "scanpy", "anndata")
    with warnings.catch_warnings():
        # cells have the names of their time steps, which repeat in each trajectory
        warnings.filterwarnings("ignore", message="Observation names are not unique")
        warnings.simplefilter("ignore", FutureWarning)
        cells = scanpy.datasets.krumsiek11()
    step = np.arange(cells.n_obs) % TRAJECTORY
    lineage = np.repeat(FATES, TRAJECTORY)
    stage = np.array(
        [fate if at >= COMMITTED else f"to {fate}" for at, fate in zip(step, lineage, strict=True)]
    )
    stage[0] = "root"
    frame = cells.to_df().astype(float)
    return Bunch(
        data=frame.to_numpy(),
        target=stage,
        lineage=lineage,
        time=step,
        feature_names=list(cells.var_names),
        frame=frame.reset_index(drop=True),
        DESCR="Simulated differentiation of myeloid progenitors into four cell types.",
    )


def load_paul15(path: str | PathLike[str] | None = None) -> Bunch:
    """Return mouse myeloid progenitors: sequenced single cells (2730), prepared as in the paper.

    The counts are filtered, normalised, reduced to the 1,000 most variable genes, logarithmised and
    scaled by scanpy's ``recipe_zheng17``.

    Parameters
    ----------
    path : path, optional
        Where the data are: an ``.h5ad`` file of counts with a column ``paul15_clusters``; the
        ``paul15.h5`` that scanpy downloads; or an ``.npz`` file, with counts in scipy's sparse
        format or prepared values as ``X``, beside which ``labels.npy`` names the clusters. By
        default scanpy's loader is asked, which needs a network the first time.

    Returns
    -------
    Bunch
        ``data`` (2730, about 1000), ``target`` (2730,) the cluster of each cell, one of 19 such as
        "7MEP"; ``lineage`` (2730,) the cluster's cell type, such as "MEP"; ``feature_names``, the
        genes where they are known; and ``DESCR``.

    Notes
    -----
    Paul et al., "Transcriptional heterogeneity and lineage commitment in myeloid progenitors",
    Cell 163(7), 2015; public data, GEO accession GSE72857.
    """
    values, clusters, names = _downloaded() if path is None else _read(Path(path))
    return Bunch(
        data=values,
        target=clusters,
        lineage=np.array([name.lstrip("0123456789") for name in clusters]),
        feature_names=names,
        DESCR="Mouse myeloid progenitors, Paul et al. 2015, after recipe_zheng17.",
    )


# --- parts ----------------------------------------------------------------------------------


def _downloaded() -> tuple[Array, Array, list[str] | None]:
    scanpy = require("load_paul15", "scanpy", "anndata")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = scanpy.datasets.paul15()
    except OSError as error:  # URLError is one
        raise OSError(
            f"load_paul15 could not download the data ({error}); pass the path of a local file."
        ) from error
    return _prepared(cells)


def _read(path: Path) -> tuple[Array, Array, list[str] | None]:
    if not path.is_file():
        raise FileNotFoundError(f"The 'path' of load_paul15 is no file: {str(path)!r}.")
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".h5ad":
        cells = require("load_paul15", "anndata", "anndata").read_h5ad(path)
        if "paul15_clusters" not in cells.obs:
            raise ValueError(
                f"The 'path' of load_paul15 must have a column 'paul15_clusters' in its obs; "
                f"{path.name} has {', '.join(map(str, cells.obs.columns)) or 'none'}."
            )
        return _prepared(cells)
    if path.suffix == ".h5":
        return _prepared(_read_h5(path))
    raise ValueError(
        f"The 'path' of load_paul15 must end in .h5ad, .h5 or .npz. Got {path.name!r} instead."
    )


def _read_npz(path: Path) -> tuple[Array, Array, list[str] | None]:
    beside = path.with_name("labels.npy")
    with np.load(path, allow_pickle=False) as file:
        if "labels" in file:
            clusters = file["labels"]
        elif beside.is_file():
            clusters = np.load(beside, allow_pickle=False)
        else:
            raise ValueError(
                f"{path.name} has no 'labels', and there is no labels.npy beside it: load_paul15 "
                "needs the cluster of each cell."
            )
        if "X" in file:  # prepared
            values = file["X"].astype(float)
            return values, _named(clusters, values.shape), None
        if "indptr" not in file:
            raise ValueError(
                f"The 'path' of load_paul15 must hold counts in scipy's sparse format, or prepared "
                f"values as X; {path.name} has {', '.join(file.files)}."
            )
    anndata = require("load_paul15", "anndata", "anndata")
    cells = anndata.AnnData(sparse.load_npz(path).toarray().astype(np.float32))
    cells.obs["paul15_clusters"] = _named(clusters, cells.shape)
    values, clusters, _ = _prepared(cells)
    return values, clusters, None


def _named(clusters: Array, shape: tuple[int, ...]) -> Array:
    """Names of the clusters, one a row."""
    if clusters.dtype.kind == "S":
        clusters = np.char.decode(clusters)
    if clusters.shape != shape[:1] or len(shape) != 2 or clusters.dtype.kind != "U":
        raise ValueError(
            "The data of load_paul15 must have rows, columns and the name of a cluster for each "
            f"row, such as '7MEP'. Got data of shape {shape} and labels of shape {clusters.shape} "
            f"and type {clusters.dtype}."
        )
    return clusters


def _read_h5(path: Path) -> Any:
    """Read the file that scanpy's loader downloads: genes × cells, and the cluster numbers."""
    h5py = require("load_paul15", "h5py", "anndata")
    anndata = require("load_paul15", "anndata", "anndata")
    with h5py.File(path, "r") as file:
        counts = file["data.debatched"][()].T.astype(np.float32)
        genes = file["data.debatched_rownames"][()].astype(str)
        numbers = file["cluster.id"][()].ravel().astype(int)
        informative = file["info.genes_strings"][()].astype(str)
    if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= len(CLUSTERS):
        raise ValueError(
            f"The clusters in {path.name} must be numbered from 1 to {len(CLUSTERS)}. Got "
            f"{numbers.min()} to {numbers.max()} instead."
        )
    cells = anndata.AnnData(counts)
    cells.var_names = [gene.split(";")[0] for gene in genes]  # two names of one gene
    cells.obs["paul15_clusters"] = [CLUSTERS[number - 1] for number in numbers]
    return cells[:, np.intersect1d(informative, cells.var_names)].copy()


def _prepared(cells: Any) -> tuple[Array, Array, list[str] | None]:
    """Values after the paper's preparation, clusters, and genes."""
    scanpy = require("load_paul15", "scanpy", "anndata")
    cells = cells.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the recipe calls what scanpy and pandas deprecate
        scanpy.pp.recipe_zheng17(cells, n_top_genes=N_TOP_GENES)
    values = cells.X.toarray() if sparse.issparse(cells.X) else np.asarray(cells.X)
    clusters = np.array(cells.obs["paul15_clusters"].astype(str), dtype=str)
    return values.astype(float), clusters, list(cells.var_names)
