"""Batches, covariates and counts in AnnData objects and through the command line."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import hgplvm
from hgplvm import pl, tl
from hgplvm._tables import read_table
from hgplvm.datasets import make_cells
from hgplvm.metrics import distance_correlation
from tests.cli.command import check, check_refused, inside

anndata = pytest.importorskip("anndata")
pytest.importorskip("scanpy")

N, NEW = 240, 40
OPTIONS = {"model": "bayesian", "max_iter": 20, "n_inducing": 30}


@pytest.fixture(scope="module")
def cells():
    return make_cells(
        N + NEW,
        150,
        informative=0.7,
        topology="bifurcation",
        depth=2000,
        n_batches=3,
        batch_effect=0.7,
        random_state=2,
    )


@pytest.fixture(scope="module")
def adata(cells):
    found = anndata.AnnData(sp.csr_matrix(cells.counts, dtype=np.float32))
    found.obs["donor"] = pd.Categorical(np.array(["a", "b", "c"])[cells.batch])
    found.obs["mito"] = np.random.default_rng(0).random(N + NEW)
    found.obs["branch"] = cells.branch.astype(str)
    return found


@pytest.fixture(scope="module")
def fitted(adata):
    found = adata[:N].copy()
    tl.hgplvm(found, batch_key="donor", covariates="mito", **OPTIONS)
    return found


def truth(cells, rows):
    return np.asarray(cells.tree_distance[:, :])[np.ix_(rows, rows)]


def test_the_batch_has_no_part_in_the_map(fitted, adata, cells):
    plain = adata[:N].copy()
    tl.hgplvm(plain, **OPTIONS)
    rows = np.arange(N)
    found = distance_correlation(truth(cells, rows), fitted.obsm["X_hgplvm"])
    assert found > 0.8
    assert found > distance_correlation(truth(cells, rows), plain.obsm["X_hgplvm"]) + 0.3
    results = fitted.uns["hgplvm"]
    assert set(results["covariate_variance"]) == {"donor", "mito"}
    assert results["covariate_variance"]["mito"] < 0.05 < results["covariate_variance"]["donor"]
    assert results["batch_mixing"]["before"] < 0.3 < 0.7 < results["batch_mixing"]["after"]
    assert results["params"]["likelihood"] == "negative-binomial"
    assert list(results["params"]["covariates"]) == ["donor", "mito"]
    assert "batch_mixing" not in plain.uns["hgplvm"]


def test_the_object_is_written_and_read(fitted, adata, tmp_path):
    fitted.write_h5ad(tmp_path / "a.h5ad")
    read = anndata.read_h5ad(tmp_path / "a.h5ad")
    new, again = adata[N:].copy(), adata[N:].copy()
    tl.transform(new, fitted)
    tl.transform(again, read)
    np.testing.assert_allclose(again.obsm["X_hgplvm"], new.obsm["X_hgplvm"])
    assert len(pl.batches(read)) == 2


def test_new_cells_of_known_and_new_donors(fitted, adata, cells):
    new = adata[N:].copy()
    tl.transform(new, fitted)
    both = np.concatenate([fitted.obsm["X_hgplvm"], new.obsm["X_hgplvm"]])
    known = distance_correlation(truth(cells, np.arange(N + NEW)), both)
    assert known > 0.78
    other = adata[N:].copy()
    other.obs["donor"] = np.where(other.obs["donor"] == "a", "d", other.obs["donor"].astype(str))
    with pytest.raises(
        ValueError, match=r"has the level 'd' in row .*, which the fit has not seen"
    ):
        tl.transform(other, fitted)
    assert "X_hgplvm" not in other.obsm
    tl.transform(other, fitted, new_batches=True)
    same = (other.obs["donor"] != "d").to_numpy()
    np.testing.assert_allclose(other.obsm["X_hgplvm"][same], new.obsm["X_hgplvm"][same], atol=1e-6)
    assert np.isfinite(other.obsm["X_hgplvm"]).all()
    # a column that is lacking is one new batch
    del other.obs["donor"]
    tl.transform(other, fitted, new_batches=True)
    assert np.isfinite(other.obsm["X_hgplvm"]).all()
    del other.obs["mito"]
    with pytest.raises(ValueError, match="'mito'"):
        tl.transform(other, fitted, new_batches=True)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_other_likelihoods(adata, cells, likelihood):
    found = adata[:N].copy()
    tl.hgplvm(found, batch_key="donor", likelihood=likelihood, **{**OPTIONS, "model": "sparse"})
    value = distance_correlation(truth(cells, np.arange(N)), found.obsm["X_hgplvm"])
    assert value > 0.6
    model = tl.model(found)
    assert model.likelihood == likelihood
    decoded = model.inverse_transform(model.embedding_, covariates="b")
    assert decoded.shape == (N, len(found.uns["hgplvm"]["features"]))


def test_genes_that_no_cell_has_are_left_out(adata):
    more = np.concatenate([adata.X[:60].toarray(), np.zeros((60, 2))], axis=1)
    found = anndata.AnnData(more)
    tl.hgplvm(found, "sparse", max_iter=2)
    assert len(found.uns["hgplvm"]["features"]) <= 150
    assert found.uns["hgplvm"]["params"]["likelihood"] == "negative-binomial"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_key": "plate"}, "no column 'plate' in adata.obs for a covariate; there are 'don"),
        ({"covariates": ["mito", "x"]}, "no column 'x' in adata.obs"),
        ({"batch_key": ["donor"]}, "'batch_key' of tl.hgplvm must be the name of a column"),
        ({"likelihood": "normal"}, "'likelihood' parameter of tl.hgplvm must be"),
        ({"likelihood": "poisson", "normalize": True}, "takes the raw counts themselves: leave no"),
        ({"likelihood": "poisson", "use_rep": "X_pca"}, "takes the raw counts themselves: leave u"),
    ],
)
def test_bad_options_end_in_a_sentence(adata, options, words):
    found = adata[:40].copy()
    with pytest.raises(ValueError, match=words):
        tl.hgplvm(found, **options)
    assert not found.obsm


def test_no_counts_and_a_likelihood_of_counts(adata):
    found = adata[:40].copy()
    found.X = found.X * 0.5
    with pytest.raises(
        ValueError, match=r"finds no raw counts in adata.X: some are negative or not"
    ):
        tl.hgplvm(found, likelihood="poisson")


def test_pictures_need_a_batch(adata, fitted, tmp_path):
    axes = pl.batches(fitted, save=tmp_path / "a.png")
    assert [ax.get_title()[:6] for ax in axes] == ["before", "after:"]
    assert (tmp_path / "a.png").stat().st_size > 5000
    pl.batches(fitted, "branch")
    plain = adata[:60].copy()
    tl.hgplvm(plain, "sparse", max_iter=2)
    with pytest.raises(ValueError, match=r"needs the name of a column of adata.obs"):
        pl.batches(plain)


def test_batches_are_words_and_missing_ones_are_said(adata):
    found = adata[:90].copy()
    found.obs["run"] = found.obs["donor"].cat.codes.astype(float)
    tl.hgplvm(found, "sparse", batch_key="run", covariates=found.obs.columns[[1]], max_iter=2)
    model = tl.model(found)
    assert model._model.covariates.coding.levels == (3,)
    assert found.uns["hgplvm"]["params"]["batch_key"] == "run"
    new = found[:5].copy()
    new.obs["run"] = [0.0, 1.0, np.nan, 2.0, 0.0]
    with pytest.raises(ValueError, match="'run' has a missing value in row 2: fill it in, or say"):
        tl.transform(new, found)
    tl.transform(new, found, new_batches=True)
    with pytest.raises(ValueError, match=r"'covariates' of tl.hgplvm must be names of columns"):
        tl.hgplvm(found, covariates=[3])


def test_missing_counts_are_missing(adata):
    dense = adata.X[:80].toarray()
    dense[3, 5] = np.nan
    found = anndata.AnnData(dense)
    tl.hgplvm(found, "sparse", max_iter=2)
    assert found.uns["hgplvm"]["params"]["likelihood"] == "negative-binomial"


# --- the command line -----------------------------------------------------------------------


def test_files_with_batches(adata, fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adata[:N].copy().write_h5ad(tmp_path / "a.h5ad")
    new = adata[N:].copy()
    new.obs["donor"] = "d"
    new.obs["donor"] = new.obs["donor"].astype("category")
    new.write_h5ad(tmp_path / "b.h5ad")
    words = ["--batch", "donor", "--covariate", "mito", "--max-iter", "20"]
    done = check(inside("fit", "a.h5ad", *words))
    assert "donor explains" in done.stdout
    model = hgplvm.load(tmp_path / "a-hgplvm.hgplvm")
    assert model._model.covariates.coding.names == ("donor", "mito")
    check_refused(
        inside("transform", "a-hgplvm.hgplvm", "b.h5ad"), ["level 'd'", "add --new-batch"]
    )
    check(inside("transform", "a-hgplvm.hgplvm", "b.h5ad", "--new-batch"))
    assert anndata.read_h5ad(tmp_path / "b-placed.h5ad").obsm["X_hgplvm"].shape == (NEW, 2)
    (tmp_path / "points.csv").write_text("x,y\n0.1,0.2\n")
    decode = ["decode", "a-hgplvm.hgplvm", "points.csv", "--out"]
    for batch in ("a", "b"):
        check(inside(*decode, f"{batch}.csv", "--batch", batch))
    rows = [read_table(tmp_path / f"{batch}.csv").data for batch in ("a", "b")]
    assert not np.allclose(*rows)
    check_refused(inside(*decode, "c.csv", "--batch", "z"), ["--batch z", "a, b, c"])


def test_tables_with_batches(adata, cells, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logs = np.log1p(adata.X.toarray())[:, :20]
    table = pd.DataFrame(logs, columns=[f"g{i}" for i in range(20)])
    table["run"] = cells.batch
    table["score"] = adata.obs["mito"].to_numpy()
    table.iloc[:N].to_csv(tmp_path / "a.csv", index=False)
    table.iloc[N:].to_csv(tmp_path / "b.csv", index=False)
    words = ["--batch", "run", "--covariate", "score", "--max-iter", "5", "--model", "sparse"]
    check(inside("fit", "a.csv", *words))
    model = hgplvm.load(tmp_path / "a-hgplvm.hgplvm")
    assert model.n_features_in_ == 20
    assert [part.levels is None for part in model._model.covariates.coding.parts] == [False, True]
    check(inside("transform", "a-hgplvm.hgplvm", "b.csv"))
    placed = read_table(tmp_path / "b-placed.csv")
    assert len(placed.data) == NEW
    check_refused(inside("fit", "b.csv", "--batch", "plate"), ["no column 'plate'"])
    counts = pd.DataFrame(adata.X[:60].toarray().astype(int)[:, :30])
    counts = counts.loc[counts.sum(axis=1) > 0, counts.sum() > 0]
    counts.columns = [f"g{i}" for i in range(counts.shape[1])]
    counts.to_csv(tmp_path / "c.csv", index=False)
    done = check(inside("fit", "c.csv", "--likelihood", "poisson", "--max-iter", "3"))
    assert "c.csv holds raw counts: the fit saw them as poisson" in done.stdout
    # a model of a table takes the counts of an object
    object_ = anndata.AnnData(counts.to_numpy().astype(np.float32))
    object_.var_names = list(counts.columns)
    object_[:9].copy().write_h5ad(tmp_path / "d.h5ad")
    check(inside("transform", "c-hgplvm.hgplvm", "d.h5ad"))
    # empty cells are missing
    table["run"] = table["run"].astype(object)
    table.loc[[3, 9], "run"] = ""
    table.to_csv(tmp_path / "e.csv", index=False)
    check_refused(
        inside("fit", "e.csv", *words), ["'run'", "has a missing value in row 3 and 1 more"]
    )
