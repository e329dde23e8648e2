"""Walks: what a new user does, from the data to the pictures."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import hgplvm as hg

os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # see test_tl
anndata = pytest.importorskip("anndata")
scanpy = pytest.importorskip("scanpy")

FATES = ("Mo", "Ery", "Mk", "Neu")


def packaged(name):
    """Data that come with scanpy, whose loaders warn of themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(scanpy.datasets, name)()


def offsets(ax):
    found = [c.get_offsets() for c in ax.collections if isinstance(c, PathCollection)]
    return np.concatenate(found)


@pytest.fixture(scope="module")
def myeloid():
    """Simulated blood cells: four runs of 160 time steps, each to a fate of its own."""
    adata = packaged("krumsiek11")
    adata.uns.pop("highlights")  # its keys are numbers, which no h5ad file takes
    adata.obs_names_make_unique()
    hg.tl.hgplvm(adata, max_iter=25)
    hg.tl.pseudotime(adata, root={"cell_type": "progenitor"})
    return adata


def test_time_is_that_of_the_simulation(myeloid):
    simulated = np.arange(640) % 160
    time = myeloid.obs["hgplvm_pseudotime"]
    assert spearmanr(time, simulated).statistic > 0.7
    for run in range(4):
        own = slice(160 * run, 160 * (run + 1))
        assert spearmanr(time.iloc[own], simulated[own]).statistic > 0.7


def test_fates_are_farther_than_progenitors(myeloid):
    middle = myeloid.obs.groupby("cell_type", observed=True)["hgplvm_pseudotime"].median()
    for fate in FATES:
        assert middle[fate] > middle["progenitor"]
    late = np.arange(640) % 160 >= 150
    far = myeloid.obs["hgplvm_pseudotime"][late].groupby(
        myeloid.obs["cell_type"][late], observed=True
    )
    assert sorted(far.groups) == sorted(FATES)
    assert far.median().min() > 1.2 * middle["progenitor"]


def test_fates_are_apart(myeloid):
    late = np.arange(640) % 160 >= 140
    points, fate = myeloid.obsm["X_hgplvm"][late], myeloid.obs["cell_type"][late].astype(str)
    found = cross_val_predict(KNeighborsClassifier(3), points, fate, cv=5)
    assert (found == fate).mean() > 0.9  # of four equal groups


def every_picture(adata, folder):
    """All pictures of an object, as files; the axes by name."""
    folder.mkdir()
    pl = hg.pl
    places = [{"cell_type": fate} for fate in FATES]
    start = {"cell_type": "progenitor"}
    axes = {
        "category": pl.poincare(adata, "cell_type", save=folder / "category.png"),
        "gene": pl.poincare(adata, "Gata1", root=start),
        "panels": pl.poincare(adata, ["cell_type", "Gata1", "hgplvm_pseudotime"])[2],
        "uncertainty": pl.uncertainty(adata, "cell_type", save=folder / "uncertainty.png"),
        "decoder": pl.decoder(adata, "Gata1", resolution=31, save=folder / "decoder.png"),
        "spread": pl.decoder(adata, "Gata1", what="std", resolution=31, root=start),
        "trajectory": pl.trajectory(
            adata, start, places, features="Gata1", save=folder / "trajectory.svg"
        ),
        "length_scales": pl.length_scales(adata, save=folder / "length_scales.pdf"),
        "history": pl.history(adata, save=folder / "history.png"),
        "compare": pl.compare(adata, "cell_type", bases=["hgplvm"], save=folder / "all.png")[0],
    }
    assert all(path.stat().st_size > 3000 for path in folder.iterdir())
    assert len(list(folder.iterdir())) == 7
    return axes


def test_every_picture_before_and_after_a_file(myeloid, tmp_path):
    first = every_picture(myeloid, tmp_path / "before")
    groups = [text.get_text() for text in first["category"].get_legend().get_texts()]
    assert sorted(groups) == sorted([*FATES, "progenitor"])
    assert first["gene"].get_title() == "Gata1"
    assert np.isclose(
        sorted(offsets(first["category"])[:, 0]), sorted(myeloid.obsm["X_hgplvm"][:, 0])
    ).all()
    assert len(first["history"].lines[0].get_ydata()) == myeloid.uns["hgplvm"]["n_iter"] + 1
    curves = {line.get_label(): line.get_ydata() for line in first["trajectory"].lines}
    assert set(FATES) <= curves.keys()
    # Gata1 makes red cells and platelets; it is off in the others
    assert min(curves["Ery"][-1], curves["Mk"][-1]) > 2.0 * max(curves["Mo"][-1], curves["Neu"][-1])

    path = tmp_path / "cells.h5ad"
    myeloid.write_h5ad(path)
    read = anndata.read_h5ad(path)
    again = every_picture(read, tmp_path / "after")
    for name, ax in first.items():
        if name not in ("length_scales", "history", "trajectory"):
            assert np.array_equal(offsets(ax), offsets(again[name])), name
    for name in ("length_scales", "history", "trajectory"):
        for line, other in zip(first[name].lines, again[name].lines, strict=True):
            assert np.allclose(line.get_xydata(), other.get_xydata(), rtol=1e-9), name
    image, other = (axes["decoder"].images[0].get_array() for axes in (first, again))
    assert np.allclose(image, other, rtol=1e-9)


def test_pictures_of_a_file_that_stays_on_the_disk(myeloid, tmp_path):
    myeloid.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    try:
        ax = hg.pl.poincare(backed, "Gata1")
    finally:
        backed.file.close()
    assert np.array_equal(offsets(ax), offsets(hg.pl.poincare(myeloid, "Gata1")))


def test_scanpy_draws_the_embedding_as_it_is(myeloid):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # scanpy's own
        ax = scanpy.pl.embedding(myeloid, basis="hgplvm", color="cell_type", show=False)
    assert np.allclose(offsets(ax)[:640], myeloid.obsm["X_hgplvm"])
    assert ax.get_xlabel() == "hgplvm1"


def test_new_cells_join(myeloid):
    fresh = anndata.AnnData(
        myeloid.X[80::160] + np.float32(0.01), var=pd.DataFrame(index=myeloid.var_names)
    )
    hg.tl.transform(fresh, myeloid)
    gaps = np.linalg.norm(fresh.obsm["X_hgplvm"] - myeloid.obsm["X_hgplvm"][80::160], axis=1)
    apart = np.linalg.norm(
        myeloid.obsm["X_hgplvm"][80:640:160] - myeloid.obsm["X_hgplvm"][:1], axis=1
    )
    assert gaps.max() < 0.1
    assert gaps.mean() < 0.5 * apart.mean()
    assert len(offsets(hg.pl.uncertainty(fresh))) == 4


@pytest.mark.parametrize("use_rep", [None, "X_pca"])
def test_kinds_of_blood_cells(use_rep, tmp_path):
    adata = packaged("pbmc68k_reduced")[::2].copy()
    hg.tl.hgplvm(adata, use_rep=use_rep, max_iter=15)
    kinds = adata.obs["bulk_labels"].astype(str).to_numpy()
    points = adata.obsm["X_hgplvm"]
    neighbors = KNeighborsClassifier(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some kinds have few cells
        found = cross_val_predict(neighbors, points, kinds, cv=4)
    chance = pd.Series(kinds).value_counts(normalize=True).max()
    assert (found == kinds).mean() > chance + 0.25
    ax = hg.pl.poincare(adata, "bulk_labels")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(names) == sorted(set(kinds))
    # scanpy's own colours
    own = dict(
        zip(adata.obs["bulk_labels"].cat.categories, adata.uns["bulk_labels_colors"], strict=True)
    )
    colours = {
        s.get_label(): s.get_facecolor()[0][:3] for s in ax.collections if s.get_label() in own
    }
    from matplotlib.colors import to_rgb

    assert all(np.allclose(colours[name], to_rgb(own[name])) for name in names)
    assert hg.pl.poincare(adata, "CD79A").get_title() == "CD79A"  # a gene, of raw
    feature = "X_pca_1" if use_rep else adata.uns["hgplvm"]["features"][0]
    assert hg.pl.decoder(adata, feature, resolution=11).get_title() == feature
    assert len(hg.pl.compare(adata, "bulk_labels")) == 2  # with scanpy's umap
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert np.array_equal(hg.tl.model(read).embedding_, points)


# --- scikit-learn -----------------------------------------------------------------------------

TREE = hg.datasets.make_binary_tree(3, random_state=0)
CHEAP = {"init": "pca", "noise_floor": 1e-2, "max_iter": 5, "random_state": 0}


def test_a_pipeline_goes_there_and_back():
    scaled = 5.0 * TREE.data[:, :20] + 3.0
    pipeline = make_pipeline(StandardScaler(), hg.HGPLVM(**CHEAP))
    found = pipeline.fit_transform(scaled)
    assert found.shape == (len(scaled), 2)
    assert np.linalg.norm(found, axis=1).max() < 1.0
    assert np.array_equal(pipeline.transform(scaled), found)
    back = pipeline.inverse_transform(found)
    assert back.shape == scaled.shape
    left = ((back - scaled) ** 2).mean() / scaled.var(axis=0).mean()
    assert left < 0.6  # in the units of the data
    fresh = pipeline.transform(scaled[:7] + 0.01)
    assert np.abs(fresh - found[:7]).max() < 0.1
    assert pipeline.get_feature_names_out().tolist() == ["hgplvm0", "hgplvm1"]


@pytest.mark.parametrize("alone", [True, False])
def test_length_scales_are_chosen_by_held_out_rows(alone):
    model = hg.HGPLVM(**CHEAP)
    name = "length_scale"
    if not alone:
        model = Pipeline([("scale", StandardScaler()), ("hgplvm", model)])
        name = "hgplvm__length_scale"
    search = GridSearchCV(model, {name: [0.05, 2.0]}, cv=2, error_score="raise").fit(TREE.data)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    assert search.best_score_ == scores.max()
    best = search.best_estimator_ if alone else search.best_estimator_["hgplvm"]
    assert best.length_scale_ == best.length_scale == search.best_params_[name]
    assert best.embedding_.shape == (len(TREE.data), 2)
    # the score is that of rows that the fold did not see
    half = len(TREE.data) // 2
    folds = [(slice(half, None), slice(half)), (slice(half), slice(half, None))]
    fit = clone(model).set_params(**{name: 2.0})
    expected = np.mean([fit.fit(TREE.data[a]).score(TREE.data[b]) for a, b in folds])
    assert scores[1] == pytest.approx(expected, rel=1e-6)


def test_frames_go_in_and_come_out():
    values = TREE.data[:, :6] + 0.01 * np.random.default_rng(0).normal(size=(len(TREE.data), 6))
    rows = pd.DataFrame(values, index=[f"row{i}" for i in range(len(TREE.data))])
    rows.columns = [f"column{i}" for i in range(6)]
    model = hg.HGPLVM(**CHEAP).set_output(transform="pandas")
    found = model.fit_transform(rows)
    assert type(found) is pd.DataFrame
    assert found.columns.tolist() == ["hgplvm0", "hgplvm1"]
    assert found.index.tolist() == rows.index.tolist()
    assert np.array_equal(found.to_numpy(), model.embedding_)
    some, std = model.transform(rows[5:9], return_std=True)
    assert some.index.tolist() == ["row5", "row6", "row7", "row8"]
    assert np.array_equal(some, found[5:9])
    assert std.shape == (4, 2)
    assert model.feature_names_in_.tolist() == rows.columns.tolist()
    assert hg.pl.decoder(model, "column3", resolution=5).get_title() == "column3"
    with pytest.raises(ValueError, match="feature names"):
        model.transform(rows[rows.columns[::-1]])


def test_clones_are_not_fitted():
    model = hg.HGPLVM(length_scale=1.5, **CHEAP).fit(TREE.data[:, :5])
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "embedding_")
    assert np.array_equal(copy.fit(TREE.data[:, :5]).embedding_, model.embedding_)


def test_notebooks_show_estimators():
    pipeline = make_pipeline(StandardScaler(), hg.HGPLVM(max_iter=7))
    assert "HGPLVM" in estimator_html_repr(pipeline)
    shown = hg.BayesianHGPLVM(max_iter=7)._repr_html_()
    assert "BayesianHGPLVM" in shown
    assert "max_iter" in shown
    fitted = hg.HGPLVM(**CHEAP).fit(TREE.data[:, :5])
    assert "HGPLVM" in fitted._repr_html_()
