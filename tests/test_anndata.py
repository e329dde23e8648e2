"""What of an AnnData object is read and written."""

import logging
import os
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import hgplvm
from hgplvm import _anndata as ad

os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # see test_tl
anndata = pytest.importorskip("anndata")
pytest.importorskip("scanpy")

N, D = 12, 5
Y = np.random.default_rng(0).normal(size=(N, D))
COUNTS = np.random.default_rng(1).poisson(3.0, size=(N, D)).astype(np.float32)
GENES = list("abcde")
CELLS = [f"cell{i}" for i in range(N)]


def table(values=Y, **parts):
    obs = pd.DataFrame({"kind": pd.Categorical(["x", "y", "z"] * 4)}, index=CELLS)
    return anndata.AnnData(values, obs=obs, var=pd.DataFrame(index=GENES), **parts)


def test_keys():
    keys = ad.Keys("fit")
    assert keys.embedding == "X_fit"  # scanpy's basis is "fit"
    assert keys.lorentz == "X_fit_lorentz"
    assert keys.covariance == "fit_covariance"
    assert keys.std == "fit_std"
    assert keys.pseudotime == "fit_pseudotime"
    assert keys.pseudotime_std == "fit_pseudotime_std"
    assert keys.uns == "fit"
    assert ad.Keys() == ad.Keys("hgplvm") == ad.checked_keys("tl.x", "key", "hgplvm")


@pytest.mark.parametrize("value", ["", None, 3, b"fit", ["fit"], "a/b"])
def test_keys_are_texts(value):
    with pytest.raises(
        ValueError, match=r"'key' parameter of tl\.x must be a text without '/', the name of the re"
    ):
        ad.checked_keys("tl.x", "key", value)


def test_what_is_an_anndata_object(monkeypatch):
    adata = table()
    assert ad.is_anndata(adata)
    assert ad.is_anndata(adata[:3])
    assert not ad.is_anndata(Y)
    assert not ad.is_anndata(anndata.AnnData)
    ad.check_anndata("tl.x", adata)
    with pytest.raises(
        TypeError, match=r"'adata' of tl\.x must be.*Got ndarray instead; arrays and D"
    ):
        ad.check_anndata("tl.x", Y)
    monkeypatch.delitem(sys.modules, "anndata")
    assert not ad.is_anndata(adata)  # nobody can have made one


# --- matrices ---------------------------------------------------------------------------------

COUNT_LIKE = {
    "floats": (COUNTS, True),
    "integers": (COUNTS.astype(np.int32), True),
    "unsigned": (COUNTS.astype(np.uint8), True),
    "csr": (sp.csr_matrix(COUNTS), True),
    "csc": (sp.csc_array(COUNTS.astype(np.int64)), True),
    "a two": (np.array([[0, 2], [1, 0]]), True),
    "zeros and ones": (np.array([[0, 1], [1, 0]]), False),
    "zeros": (np.zeros((3, 2)), False),
    "nothing stored": (sp.csr_matrix((3, 2)), False),
    "bools": (COUNTS > 2, False),
    "logarithms": (np.log1p(COUNTS), False),
    "sparse logarithms": (sp.csr_matrix(np.log1p(COUNTS)), False),
    "negative": (-COUNTS, False),
    "one negative": (COUNTS - np.eye(N, D) * 100, False),
    "missing": (np.where(np.eye(N, D), np.nan, COUNTS), False),
    "infinite": (np.where(np.eye(N, D), np.inf, COUNTS), False),
    "objects": (COUNTS.astype(object), False),
    "empty": (np.zeros((0, 3)), False),
}


@pytest.mark.parametrize("kind", COUNT_LIKE)
def test_what_looks_like_counts(kind):
    values, expected = COUNT_LIKE[kind]
    assert ad.looks_like_counts(values) is expected


def test_all_entries_are_looked_at():
    """The first rows are seen first; the last ones count as well."""
    values = np.full((3000, 2), 3.0)
    assert ad.looks_like_counts(values)
    values[-1, -1] = 0.5
    assert not ad.looks_like_counts(values)
    assert not ad.looks_like_counts(sp.csr_matrix(values))


def test_a_matrix_and_where_it_stands():
    adata = table(Y, layers={"other": -Y})
    found = ad.read_matrix("tl.x", adata)
    assert np.array_equal(found.values, Y)
    assert (found.columns.tolist(), found.source) == (GENES, {})
    found = ad.read_matrix("tl.x", adata, layer="other")
    assert np.array_equal(found.values, -Y)
    assert (found.columns.tolist(), found.source) == (GENES, {"layer": "other"})
    adata.obsm["X_pca"] = 2.0 * Y[:, :2]
    found = ad.read_matrix("tl.x", adata, use_rep="X_pca", mask_var="auto")
    assert np.array_equal(found.values, 2.0 * Y[:, :2])
    assert found.columns.tolist() == ["X_pca_1", "X_pca_2"]
    assert found.source == {"use_rep": "X_pca"}
    found = ad.read_matrix("tl.x", table(COUNTS), normalize=True)
    assert found.source == {"normalize": True}
    assert np.allclose(np.expm1(found.values).sum(1), 1e4, rtol=1e-4)


def test_the_columns_that_are_used_are_logged(caplog):
    adata = table()
    adata.var["highly_variable"] = [True, False, True, False, False]
    with caplog.at_level(logging.INFO, "hgplvm"):
        found = ad.read_matrix("tl.x", adata)
    assert found.columns.tolist() == ["a", "c"]
    assert np.array_equal(found.values, Y[:, [0, 2]])
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("hgplvm._anndata", "using 2 of 5 columns")


@pytest.mark.parametrize(("n_columns", "told"), [(5000, False), (5001, True)])
def test_many_columns_are_told(n_columns, told, caplog):
    adata = anndata.AnnData(np.full((3, n_columns), 0.5))
    with caplog.at_level(logging.WARNING, "hgplvm"):
        ad.read_matrix("tl.x", adata)
    messages = [record.getMessage() for record in caplog.records]
    assert (len(messages) == 1) is told
    if told:
        assert (
            "tl.x sees 5001 columns, which takes long: sc.pp.highly_variable_genes" in messages[0]
        )


def test_matrices_are_not_copied_for_nothing():
    adata = table()
    assert ad.read_matrix("tl.x", adata).values is adata.X
    assert ad.in_memory(adata.X) is adata.X


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_matrices_in_files_are_read(make, tmp_path):
    table(make(Y)).write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    try:
        whole, part = ad.in_memory(adata.X), ad.read_matrix("tl.x", adata[2:5]).values
    finally:
        adata.file.close()
    assert type(whole) is type(make(Y))
    for found, expected in ((whole, Y), (part, Y[2:5])):
        assert np.array_equal(found.toarray() if sp.issparse(found) else found, expected)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_normalised_counts(make):
    counts = COUNTS.copy()
    counts[4] = 0.0  # a cell without any
    given = make(counts)
    found, kept = ad.normalized("tl.x", given, choose=True)
    assert kept is None  # there are few
    dense = found.toarray() if sp.issparse(found) else found
    total = np.maximum(counts.sum(1, keepdims=True), 1.0)
    assert np.allclose(dense, np.log1p(1e4 * counts / total), rtol=1e-5)
    assert (dense[4] == 0.0).all()
    assert abs(given - make(counts)).max() == 0


def test_the_most_variable_columns(monkeypatch):
    rng = np.random.default_rng(2)
    counts = rng.poisson(rng.gamma(1.0, 4.0, size=40), size=(60, 40)).astype(float)
    counts[:30, :4] *= 9.0  # which vary most
    monkeypatch.setattr(ad, "N_TOP_GENES", 10)
    _, kept = ad.normalized("tl.x", counts, choose=True)
    assert kept.dtype == bool
    assert kept.sum() == 10
    assert kept[:4].sum() >= 3
    assert ad.normalized("tl.x", counts, choose=False)[1] is None
    monkeypatch.setattr(ad, "N_TOP_GENES", 40)
    assert ad.normalized("tl.x", counts, choose=True)[1] is None


def test_scanpy_is_asked_for_where_counts_are_normalised(monkeypatch):
    monkeypatch.setitem(sys.modules, "scanpy", None)
    with pytest.raises(ImportError, match=r"tl\.x with normalize=True needs the package .*anndata"):
        ad.normalized("tl.x", COUNTS, choose=True)


def test_words_of_a_refusal_are_few():
    adata = table()
    for i in range(11):
        adata.obsm[f"X_{i}"] = Y
    with pytest.raises(ValueError, match=r"'X_0', .*'X_7' and 3 more\. Got 'X_umap' instead\.$"):
        ad.read_matrix("tl.x", adata, use_rep="X_umap")


# --- results ----------------------------------------------------------------------------------


def test_results_are_written_into_their_places():
    adata = table()
    ad.write(adata, obs={"t": np.arange(N)}, obsm={"X_t": Y}, uns={"t": {"a": 1}})
    assert adata.obs["t"].tolist() == list(range(N))
    assert np.array_equal(adata.obsm["X_t"], Y)
    assert adata.uns["t"] == {"a": 1}


def test_views_are_written_to_without_a_warning():
    adata = table()
    view = adata[:4]
    ad.write(view, obs={"t": np.arange(4)}, obsm={"X_t": Y[:4]}, uns={"t": {"a": 1}})
    assert not view.is_view
    assert view.obs["t"].tolist() == [0, 1, 2, 3]
    assert not adata.obsm
    assert not adata.uns


def test_other_warnings_are_let_through():
    class Loud(dict):
        def __setitem__(self, key, value):
            warnings.warn("this is loud", UserWarning, stacklevel=2)
            super().__setitem__(key, value)

    class Thing:
        uns = Loud()

    with pytest.warns(UserWarning, match="loud"):
        ad.write(Thing(), uns={"a": 1})


def test_results_need_both_the_numbers_and_the_embedding():
    adata, keys = table(), ad.Keys()
    for found in (None, {"n_iter": 3}):
        adata.uns["hgplvm"] = found
        with pytest.raises(
            ValueError, match=r"tl\.x finds no embedding under the key 'hgplvm': run"
        ):
            ad.results("tl.x", adata, keys)
    adata.obsm["X_hgplvm"], adata.uns["hgplvm"] = Y[:, :2], "fit"
    with pytest.raises(ValueError, match=r"tl\.x finds positions .*nothing of their fit in"):
        ad.results("tl.x", adata, keys)
    adata.uns["hgplvm"] = {"n_iter": 3}
    assert ad.results("tl.x", adata, keys) == {"n_iter": 3}
    with pytest.raises(ValueError, match=r"tl\.hgplvm\(adata, key_added='two'\) first"):
        ad.results("tl.x", adata, ad.Keys("two"))


@pytest.fixture(scope="module")
def model():
    options = {"init": "pca", "length_scale": 2.0, "noise_floor": 1e-2, "max_iter": 2}
    return hgplvm.SparseHGPLVM(n_inducing=5, random_state=0, **options).fit(Y)


def test_models_go_into_bytes_and_back(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = ad.model_bytes(model)
    assert found.dtype == np.uint8
    assert found.ndim == 1
    model.save(tmp_path / "model")
    assert found.tobytes() == (tmp_path / "model").read_bytes()
    adata = table()
    adata.obsm["X_hgplvm"], adata.uns["hgplvm"] = model.embedding_, {"fitted": found}
    again = ad.stored_model("tl.x", adata, ad.Keys())
    assert np.array_equal(again.transform(Y + 0.1), model.transform(Y + 0.1))
    adata.uns["hgplvm"]["fitted"] = found[:-9]
    with pytest.raises(ValueError, match=r"^The model in adata\.uns\['hgplvm'\] cannot be read: "):
        ad.stored_model("tl.x", adata, ad.Keys())
    del adata.uns["hgplvm"]["fitted"]
    with pytest.raises(
        ValueError, match=r"tl\.x needs the fitted model, which is not in adata\.uns"
    ):
        ad.stored_model("tl.x", adata, ad.Keys())
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # nothing is left behind


# --- roots ------------------------------------------------------------------------------------


def test_names_become_rows():
    adata = table()
    rows = lambda value: ad.root_rows("tl.x", "root", adata, value)  # noqa: E731
    assert rows("cell3") == 3
    assert type(rows("cell3")) is int
    assert rows({"kind": "y"}).tolist() == [i % 3 == 1 for i in range(N)]
    mask = adata.obs["kind"] == "z"
    assert rows(mask).tolist() == mask.tolist()
    assert type(rows(mask)) is np.ndarray
    for value in (4, [0.1, 0.2], Y[0]):
        assert rows(value) is value


@pytest.mark.parametrize("values", [[1, 2] * 6, ["1", "2"] * 6, pd.Categorical([1, 2] * 6)])
@pytest.mark.parametrize("wanted", [2, "2", np.int64(2)])
def test_numbers_of_clusters_may_be_words(values, wanted):
    adata = table()
    adata.obs["cluster"] = values
    found = ad.category_mask("tl.x", "root", adata, "cluster", wanted)
    assert found.tolist() == [False, True] * 6


def test_groups_that_are_not_there():
    adata = table()
    with pytest.raises(
        ValueError, match=r"'root' of tl\.x names 'q', which no row has in 'kind'; there"
    ):
        ad.category_mask("tl.x", "root", adata, "kind", "q")
    with pytest.raises(
        ValueError, match=r"names 'q', which is no column of adata\.obs; there are 'kind'"
    ):
        ad.category_mask("tl.x", "root", adata, "q", "x")
    with pytest.raises(
        ValueError, match=r"must name one column of adata\.obs and one of its values"
    ):
        ad.root_rows("tl.x", "root", adata, {"kind": "x", "q": 1})
    with pytest.raises(ValueError, match="must be the name of one row, and 0 have the name 'q'"):
        ad.root_rows("tl.x", "root", adata, "q")
