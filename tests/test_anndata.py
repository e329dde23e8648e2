"""What of an AnnData object is read and written."""

import logging
import os
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

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
    median = np.median(COUNTS.sum(1))
    found = ad.read_matrix("tl.x", table(COUNTS), normalize=True)
    assert found.source == {"normalize": True, "target_sum": median}
    assert np.allclose(np.expm1(found.values).sum(1), median)


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
def test_new_counts_are_normalised_as_those_of_the_fit(make):
    given = make(COUNTS)
    fitted = {"normalize": True, "target_sum": 7.0}
    found = ad.read_matrix("tl.x", table(given), normalize=True, fitted=fitted)
    dense = found.values.toarray() if sp.issparse(found.values) else found.values
    assert np.allclose(np.expm1(dense).sum(1), 7.0)
    assert abs(given - make(COUNTS)).max() == 0
    with pytest.raises(ValueError, match=r"found raw counts in adata\.X, and the fit saw other"):
        ad.read_matrix("tl.x", table(given), fitted={})


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("target", [None, 1e4])
def test_the_most_variable_columns(make, target, monkeypatch):
    """At the median depth: a larger unit would put rare genes first."""
    rng = np.random.default_rng(2)
    rates = rng.gamma(0.3, 4.0, size=40) * np.exp(0.5 * rng.standard_normal((60, 1)))
    counts = rng.poisson(rates).astype(float)
    counts[:30, :4] += rng.poisson(30, size=(30, 4))  # which vary most
    total = counts.sum(1, keepdims=True)
    logs = make(np.log1p(counts / total * (np.median(total) if target is None else target)))
    adata = anndata.AnnData(logs)
    monkeypatch.setattr(ad, "N_TOP_GENES", 10)
    kept = ad.read_matrix("tl.x", adata).columns
    variance = np.log1p(counts / total * np.median(total)).var(0)
    assert set(kept) == set(np.argsort(-variance)[:10].astype(str))
    assert {"0", "1", "2", "3"} <= set(kept)
    assert len(ad.read_matrix("tl.x", adata, mask_var=None).columns) == (counts.sum(0) > 0).sum()
    monkeypatch.setattr(ad, "N_TOP_GENES", 40)
    assert len(ad.read_matrix("tl.x", adata).columns) == (counts.sum(0) > 0).sum()
