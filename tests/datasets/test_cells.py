"""Data of cells: what scanpy gives, and files that the tests make."""

import socket
import sys
import warnings
from urllib.error import URLError

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scanpy
from scipy import sparse

from hgplvm.datasets import load_myeloid_progenitors, load_paul15
from hgplvm.errors import MissingPackageError

# anndata sets an option that pandas 3.1 deprecates, whenever it selects from categories
pytestmark = pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")

RNG = np.random.default_rng(0)
GENES = [f"g{i}" for i in range(1200)]
COUNTS = RNG.poisson(RNG.gamma(1.0, 2.0, 1200) * RNG.uniform(0.5, 2.0, (60, 1))).astype(np.float32)
NUMBERS = RNG.permutation(np.arange(60) % 19 + 1)
TYPES = (*["Ery"] * 6, "MEP", "Mk", "GMP", "GMP", "DC", "Baso", "Baso", "Mo", "Mo", "Neu", "Neu")
TYPES += ("Eos", "Lymph")
CLUSTERS = np.array([f"{i}{TYPES[i - 1]}" for i in NUMBERS])
LINEAGES = np.array([TYPES[i - 1] for i in NUMBERS])


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)


@pytest.fixture
def downloads(tmp_path):
    """Folder in which scanpy keeps what it downloads."""
    before = scanpy.settings.datasetdir
    scanpy.settings.datasetdir = tmp_path
    (tmp_path / "paul15").mkdir()
    yield tmp_path / "paul15"
    scanpy.settings.datasetdir = before


def cells(counts=COUNTS, genes=GENES, clusters=CLUSTERS):
    """Counts as scanpy's loader gives them."""
    made = anndata.AnnData(counts.copy(), var=pd.DataFrame(index=genes))
    made.obs["paul15_clusters"] = pd.Categorical(clusters)
    return made


def recipe(made):
    """Apply scanpy's own preparation: values and genes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = scanpy.pp.recipe_zheng17(made, n_top_genes=1000, copy=True)
    return prepared.X, list(prepared.var_names)


def write_h5ad(path, made):
    with anndata.settings.override(allow_write_nullable_strings=True):
        made.write_h5ad(path)
    return path


def write_sparse(path, labels=CLUSTERS):
    sparse.save_npz(path, sparse.csr_matrix(COUNTS.astype(int)))
    np.save(path.with_name("labels.npy"), labels)
    return path


def write_h5(path):
    """Write the layout of the file that scanpy downloads, with two names for some of the genes."""
    names = [f"{gene};other{gene}" if i % 7 == 0 else gene for i, gene in enumerate(GENES)]
    informative = ["corrupted", *(gene for i, gene in enumerate(GENES) if i % 11)][::-1]
    with h5py.File(path, "w") as file:
        file["data.debatched"] = COUNTS.T.astype(float)
        file["data.debatched_rownames"] = np.array(names, dtype="S")
        file["data.debatched_colnames"] = np.array([f"cell{i}" for i in range(60)], dtype="S")
        file["cluster.id"] = NUMBERS[None, :].astype(float)
        file["info.genes_strings"] = np.array(informative, dtype="S")
    return path


def assert_prepared(found, made):
    values, genes = recipe(made)
    assert found.data.dtype == np.float64
    assert found.data.shape[0] == 60
    assert 900 < found.data.shape[1] <= 1000
    assert np.array_equal(found.data, values)
    assert found.feature_names is None or found.feature_names == genes
    assert found.target.tolist() == CLUSTERS.tolist()
    assert found.lineage.tolist() == LINEAGES.tolist()


# --- the simulation -------------------------------------------------------------------------


@pytest.mark.usefixtures("offline")
def test_progenitors_are_those_of_scanpy():
    found = load_myeloid_progenitors()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = scanpy.datasets.krumsiek11()
    assert found.data.shape == (640, 11)
    assert found.data.dtype == np.float64
    assert np.array_equal(found.data, theirs.X)
    assert found.feature_names == list(theirs.var_names)
    assert np.array_equal(found.frame[found.feature_names].to_numpy(), found.data)
    assert found.frame.index.tolist() == list(range(640))
    committed = np.asarray(theirs.obs["cell_type"].astype(str))
    fate = committed != "progenitor"
    assert np.array_equal(found.target[fate], committed[fate])
    assert np.array_equal(found.lineage[fate], committed[fate])
    assert not np.isin(found.target[~fate], committed[fate]).any()


def test_progenitors_pass_nine_stages():
    found = load_myeloid_progenitors()
    stages, counts = np.unique(found.target, return_counts=True)
    fates = ("Mo", "Ery", "Mk", "Neu")
    expected = {"root": 1, **dict.fromkeys(fates, 80), **{f"to {fate}": 80 for fate in fates}}
    assert dict(zip(stages, counts, strict=True)) == {**expected, "to Mo": 79}
    assert found.target[0] == "root"
    assert found.lineage.tolist() == [fate for fate in fates for _ in range(160)]
    assert found.time.tolist() == 4 * list(range(160))
    on_the_way = found.target == np.char.add("to ", found.lineage)
    assert (found.time[on_the_way] < 80).all()
    assert (found.time[found.target == found.lineage] >= 80).all()


@pytest.mark.parametrize("load", [load_myeloid_progenitors, load_paul15])
def test_missing_scanpy(monkeypatch, load):
    monkeypatch.setitem(sys.modules, "scanpy", None)
    message = rf"^{load.__name__} needs the package 'scanpy'.*hgplvm\[anndata\]"
    with pytest.raises(MissingPackageError, match=message):
        load()


# --- the experiment -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npz", "h5ad", "text"])
def test_counts_in_a_file_are_prepared_by_the_recipe(tmp_path, offline, kind):
    if kind == "npz":
        path = write_sparse(tmp_path / "counts.npz")
    else:
        path = write_h5ad(tmp_path / "cells.h5ad", cells())
    found = load_paul15(str(path) if kind == "text" else path)
    assert_prepared(found, cells())
    assert (found.feature_names is None) == (kind == "npz")


def test_sparse_counts_make_a_dense_array(tmp_path):
    made = cells()
    made.X = sparse.csr_matrix(made.X)
    found = load_paul15(write_h5ad(tmp_path / "cells.h5ad", made))
    assert isinstance(found.data, np.ndarray)
    assert np.allclose(found.data, recipe(cells())[0], atol=1e-4)


def test_counts_keep_their_labels_in_one_file(tmp_path):
    with np.load(write_sparse(tmp_path / "counts.npz", labels=CLUSTERS[::-1])) as file:
        np.savez(tmp_path / "whole.npz", labels=CLUSTERS, **file)
    assert_prepared(load_paul15(tmp_path / "whole.npz"), cells())


def test_prepared_values_are_taken_as_they_are(tmp_path):
    values = RNG.standard_normal((60, 4)).astype(np.float32)
    np.savez(tmp_path / "prepared.npz", X=values, labels=CLUSTERS)
    found = load_paul15(tmp_path / "prepared.npz")
    assert np.array_equal(found.data, values)
    assert found.data.dtype == np.float64
    assert found.target.tolist() == CLUSTERS.tolist()
    assert found.lineage.tolist() == LINEAGES.tolist()
    assert found.feature_names is None


def test_the_file_of_scanpy_is_read_as_scanpy_reads_it(downloads, offline):
    found = load_paul15(write_h5(downloads / "paul15.h5"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = scanpy.datasets.paul15()
    assert theirs.shape == (60, 1090)
    assert np.asarray(theirs.obs["paul15_clusters"].astype(str)).tolist() == CLUSTERS.tolist()
    assert found.feature_names is not None
    assert_prepared(found, theirs)
    by_name = np.argsort(GENES)[[i % 11 != 0 for i in np.argsort(GENES)]]
    assert_prepared(found, cells(COUNTS[:, by_name], [GENES[i] for i in by_name]))
    assert_prepared(load_paul15(), theirs)  # no download where the file is there


def test_without_a_path_the_loader_of_scanpy_is_asked(monkeypatch):
    monkeypatch.setattr(scanpy.datasets, "paul15", cells)
    found = load_paul15()
    assert_prepared(found, cells())
    assert found.feature_names is not None


def test_without_a_network_a_path_is_asked_for(monkeypatch):
    def fail():
        raise URLError("no route to host")

    monkeypatch.setattr(scanpy.datasets, "paul15", fail)
    with pytest.raises(OSError, match=r"no route to host.*pass the path of a local file") as caught:
        load_paul15()
    assert not isinstance(caught.value, URLError)
    assert isinstance(caught.value.__cause__, URLError)


def test_bad_suffix(tmp_path):
    (tmp_path / "cells.csv").write_text("1,2\n")
    with pytest.raises(ValueError, match=r"must end in \.h5ad, \.h5 or \.npz\. Got 'cells\.csv'"):
        load_paul15(tmp_path / "cells.csv")


@pytest.mark.parametrize("name", ["nothing.h5ad", "nothing.npz", ""])
def test_no_file(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"The 'path' of load_paul15 is no file: '.*'"):
        load_paul15(tmp_path / name)


@pytest.mark.parametrize("kind", ["counts", "prepared"])
def test_no_labels(tmp_path, kind):
    if kind == "counts":
        sparse.save_npz(tmp_path / "cells.npz", sparse.csr_matrix(COUNTS))
    else:
        np.savez(tmp_path / "cells.npz", X=COUNTS)
    with pytest.raises(ValueError, match=r"^cells\.npz has no 'labels', and .* labels\.npy beside"):
        load_paul15(tmp_path / "cells.npz")


def test_wrong_number_of_labels(tmp_path):
    np.savez(tmp_path / "prepared.npz", X=COUNTS, labels=CLUSTERS[:59])
    with pytest.raises(ValueError, match=r"shape \(60, 1200\) and labels of shape \(59,\)"):
        load_paul15(tmp_path / "prepared.npz")
    with pytest.raises(ValueError, match=r"labels of shape \(59,\)"):
        load_paul15(write_sparse(tmp_path / "counts.npz", labels=CLUSTERS[:59]))


def test_neither_counts_nor_prepared_values(tmp_path):
    np.savez(tmp_path / "other.npz", Z=COUNTS, labels=CLUSTERS)
    with pytest.raises(ValueError, match=r"prepared values as X; other\.npz has Z, labels"):
        load_paul15(tmp_path / "other.npz")


@pytest.mark.parametrize(("columns", "named"), [([], "none"), (["a", "b"], "a, b")])
def test_no_column_of_clusters(tmp_path, columns, named):
    made = cells()
    made.obs = pd.DataFrame({name: np.arange(60) for name in columns}, index=made.obs_names)
    path = write_h5ad(tmp_path / "cells.h5ad", made)
    with pytest.raises(ValueError, match=rf"column 'paul15_clusters' .* cells\.h5ad has {named}\."):
        load_paul15(path)


@pytest.mark.parametrize("labels", [np.arange(60), np.array(["7MEP"] * 60, dtype="S4")[:, None]])
def test_labels_that_name_no_clusters(tmp_path, labels):
    np.savez(tmp_path / "prepared.npz", X=COUNTS, labels=labels)
    with pytest.raises(ValueError, match="the name of a cluster for each row"):
        load_paul15(tmp_path / "prepared.npz")


def test_labels_as_bytes_become_names(tmp_path):
    np.savez(tmp_path / "prepared.npz", X=COUNTS, labels=np.array(["7MEP"] * 60, dtype="S4"))
    assert set(load_paul15(tmp_path / "prepared.npz").lineage) == {"MEP"}
