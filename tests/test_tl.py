"""Tools for AnnData objects: what they read, what they write, and what they refuse."""

import inspect
import logging
import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
import torch
from scipy.stats import spearmanr
from sklearn.utils.validation import check_is_fitted

import hgplvm
from hgplvm import tl
from hgplvm.geometry import (
    distance,
    lorentz,
    lorentz_to_poincare,
    poincare_to_lorentz,
)
from hgplvm.manifolds import Hyperbolic, wrapped_normal

# numba, behind scanpy, sets the threads of torch, too: several of them wait for each other for long
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
anndata = pytest.importorskip("anndata")
scanpy = pytest.importorskip("scanpy")

N, D = 60, 8
RNG = np.random.default_rng(0)
_ANGLE, _TIME = 2.1 * (np.arange(N) % 3), np.linspace(0.05, 1.0, N)
_PLANE = _TIME[:, None] * np.c_[np.cos(_ANGLE), np.sin(_ANGLE)]
# three branches that leave a root, with noise
Y = np.tanh(_PLANE @ RNG.normal(size=(2, D)) * 2.0) + 0.05 * RNG.normal(size=(N, D))
SPARSE = np.where(np.abs(Y) > 0.2, Y, 0.0)
COUNTS = RNG.poisson(np.exp(1.0 + Y)).astype(np.float32)
GENES = [f"gene{i}" for i in range(D)]
CELLS = [f"cell{i}" for i in range(N)]
# a fit that takes a tenth of a second
CHEAP = {"init": "pca", "length_scale": 2.0, "noise_floor": 1e-2, "max_iter": 4}
CLASSES = {
    "exact": hgplvm.HGPLVM,
    "sparse": hgplvm.SparseHGPLVM,
    "bayesian": hgplvm.BayesianHGPLVM,
    "vecchia": hgplvm.VecchiaHGPLVM,
    "auto": hgplvm.HGPLVM,
}


def table(values=Y, **parts):
    n, d = values.shape
    branch = pd.Categorical(np.array(["a", "b", "c"])[np.arange(n) % 3])
    obs = pd.DataFrame({"branch": branch}, index=CELLS[:n])
    names = GENES if d == D else [f"gene{i}" for i in range(d)]
    return anndata.AnnData(values, obs=obs, var=pd.DataFrame(index=names), **parts)


def direct(values, kind="sparse", **parameters):
    """Fit the estimator itself."""
    options = {"random_state": 0, **CHEAP, **parameters}
    return CLASSES[kind](**options).fit(values)


def cheap(adata, model="sparse", **options):
    return tl.hgplvm(adata, model, **{**CHEAP, **options})


def close(found, expected, atol=1e-7):
    """Whether two fits are the same, but for what the order of sums in memory rounds."""
    return found.shape == expected.shape and np.allclose(found, expected, rtol=0.0, atol=atol)


def same_tree(a, b):
    """Whether two nested dicts of arrays and numbers are equal, entry by entry."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_tree(a[k], b[k]) for k in a)
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool((a == b).all())


def untouched(adata):
    return not adata.obsm and not adata.uns and list(adata.obs) == ["branch"]


@pytest.fixture(scope="module")
def searched():
    """A Bayesian fit with everything on its defaults but the steps."""
    adata = table()
    assert tl.hgplvm(adata, max_iter=12) is None
    return adata


@pytest.fixture
def fitted(searched):
    return searched.copy()


# --- what a fit leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES)
def test_results_are_those_of_the_estimator(kind):
    adata = table()
    tl.hgplvm(adata, kind, max_iter=5)
    extra = {"n_inducing": 50} if kind in ("sparse", "bayesian") else {}
    model = CLASSES[kind](max_iter=5, random_state=0, **extra).fit(Y)
    assert sorted(adata.obsm) == ["X_hgplvm", "X_hgplvm_lorentz", "hgplvm_covariance"]
    assert list(adata.obs) == ["branch", "hgplvm_std"]
    shapes = {key: value.shape for key, value in adata.obsm.items()}
    assert list(shapes.values()) == [(N, 2), (N, 3), (N, 4)]
    assert {value.dtype for value in adata.obsm.values()} == {np.dtype(float)}
    assert close(adata.obsm["X_hgplvm"], model.embedding_)
    assert close(adata.obsm["X_hgplvm_lorentz"], model.lorentz_)
    covariance = model.transform(Y, return_cov=True)[1]
    assert close(adata.obsm["hgplvm_covariance"].reshape(N, 2, 2), covariance)
    found = adata.uns["hgplvm"]
    assert found["params"]["model"] == CLASSES[kind].__name__
    for name in ("length_scale", "variance", "noise_variance", "log_likelihood"):
        assert isinstance(found[name], float)
        assert found[name] == pytest.approx(getattr(model, f"{name}_"), rel=1e-6)
    assert (found["n_iter"], found["stop_reason"]) == (model.n_iter_, model.stop_reason_)
    assert found["features"].tolist() == GENES


def test_the_model_is_that_of_the_number_of_rows_unless_another_is_named(searched):
    assert searched.uns["hgplvm"]["params"]["model"] == "HGPLVM"
    model = hgplvm.HGPLVM(max_iter=12, random_state=0).fit(Y)
    assert close(searched.obsm["X_hgplvm"], model.embedding_)
    assert close(searched.obsm["hgplvm_covariance"], model.posterior_cov_.reshape(N, 4))


def test_history_and_evidence_are_kept_apart(searched):
    found = searched.uns["hgplvm"]
    history = tl.model(searched).history_
    assert all(len(column) == found["n_iter"] + 1 for column in found["history"].values())
    assert {"objective", "seconds", "noise_variance"} <= found["history"].keys()
    assert {f"search_{name}" for name in found["evidence"]} == {
        name for name in history if name.startswith("search_")
    }
    together = {
        **found["history"],
        **{f"search_{name}": values for name, values in found["evidence"].items()},
        **{f"noise_{name}": values for name, values in found.get("noise", {}).items()},
    }
    assert same_tree(together, history)


def test_levels_of_the_noise_that_were_scored_are_kept():
    adata = table()
    tl.hgplvm(adata, "exact", max_iter=1)
    noise = adata.uns["hgplvm"]["noise"]
    history = tl.model(adata).history_
    scored = {k for k in history if k.startswith("noise_")} - {"noise_variance"}
    assert scored == {f"noise_{name}" for name in noise}
    assert "variance" not in noise
    assert all(np.array_equal(history[f"noise_{k}"], v) for k, v in noise.items())


def test_std_is_the_root_mean_square_along_the_axes(searched):
    covariance = searched.obsm["hgplvm_covariance"].reshape(N, 2, 2)
    assert np.allclose(covariance, covariance.swapaxes(1, 2))
    assert np.abs(covariance[:, 0, 1]).max() > 1e-6  # the diagonal is not all of it
    expected = np.sqrt((covariance[:, 0, 0] + covariance[:, 1, 1]) / 2.0)
    assert np.allclose(searched.obs["hgplvm_std"], expected, rtol=1e-12)


def test_both_sets_of_coordinates_are_the_same_points(searched):
    ball = lorentz_to_poincare(torch.from_numpy(searched.obsm["X_hgplvm_lorentz"])).numpy()
    assert np.allclose(ball, searched.obsm["X_hgplvm"], atol=1e-12)
    assert np.linalg.norm(ball, axis=1).max() < 1.0


@pytest.mark.parametrize("q", [1, 3])
def test_other_dimensions(q):
    adata = table()
    cheap(adata, "bayesian", n_components=q)
    tl.pseudotime(adata, 0)
    shapes = [value.shape for value in adata.obsm.values()]
    assert shapes == [(N, q), (N, q + 1), (N, q * q)]
    mean = np.trace(adata.obsm["hgplvm_covariance"].reshape(N, q, q), axis1=1, axis2=2) / q
    assert np.allclose(adata.obs["hgplvm_std"], np.sqrt(mean))
    assert np.allclose(adata.obs["hgplvm_pseudotime"], tl.model(adata).pseudotime(0), atol=1e-9)


# --- where data come from ---------------------------------------------------------------------

SOURCES = {
    "dense": (Y, {}),
    "csr": (sp.csr_matrix(SPARSE), {}),
    "csc": (sp.csc_matrix(SPARSE), {}),
    "csr array": (sp.csr_array(SPARSE), {}),
    "float32": (Y.astype(np.float32), {}),
}


@pytest.mark.parametrize("source", SOURCES)
def test_matrices_of_every_kind(source):
    values, _ = SOURCES[source]
    adata = table(values)
    cheap(adata)
    expected = direct(values.toarray() if sp.issparse(values) else values)
    assert close(adata.obsm["X_hgplvm"], expected.embedding_)
    assert type(adata.X) is type(values)


def test_layers():
    adata = table(COUNTS, layers={"smooth": Y})
    cheap(adata, layer="smooth")
    assert close(adata.obsm["X_hgplvm"], direct(Y).embedding_)
    assert adata.uns["hgplvm"]["params"]["layer"] == "smooth"
    assert adata.uns["hgplvm"]["features"].tolist() == GENES


@pytest.mark.parametrize("frame", [False, True])
def test_representations(frame):
    scores = Y[:, :4] @ RNG.normal(size=(4, 4))
    adata = table(COUNTS)
    names = ["u", "v", "w", "z"]
    adata.obsm["X_pca"] = pd.DataFrame(scores, index=CELLS, columns=names) if frame else scores
    cheap(adata, use_rep="X_pca")
    assert close(adata.obsm["X_hgplvm"], direct(scores).embedding_)
    found = adata.uns["hgplvm"]
    assert found["params"]["use_rep"] == "X_pca"
    assert found["features"].tolist() == (names if frame else [f"X_pca_{i}" for i in (1, 2, 3, 4)])


def test_the_representation_x_is_all_of_x():
    adata = table()
    adata.var["highly_variable"] = np.arange(D) < 3
    cheap(adata, use_rep="X")
    assert close(adata.obsm["X_hgplvm"], direct(Y).embedding_)


@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
def test_files_that_back_an_object(kind, tmp_path):
    make = {"dense": np.asarray, "csr": sp.csr_matrix, "csc": sp.csc_matrix}[kind]
    table(make(SPARSE)).write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    try:
        found = cheap(adata, copy=True)
        assert adata.isbacked
        assert not found.isbacked
        assert untouched(adata)
        cheap(adata)
        tl.pseudotime(adata, 0)
        in_file = tl.pseudotime(adata, 3, copy=True)
    finally:
        adata.file.close()
    expected = direct(SPARSE)
    for thing in (adata, found, in_file):
        assert close(thing.obsm["X_hgplvm"], expected.embedding_)
    assert np.allclose(adata.obs["hgplvm_pseudotime"], expected.pseudotime(0), atol=1e-9)
    assert np.allclose(in_file.obs["hgplvm_pseudotime"], expected.pseudotime(3), atol=1e-9)


def test_views_become_objects_of_their_own():
    adata = table()
    mask = np.arange(N) % 2 == 0
    view = adata[mask]
    cheap(view)
    assert not view.is_view
    expected = direct(Y[mask], n_inducing=N // 2)
    assert close(view.obsm["X_hgplvm"], expected.embedding_)
    assert untouched(adata)


def test_views_have_times(searched):
    view = searched[10:40]
    tl.pseudotime(view, 0)
    assert not view.is_view
    time = tl.model(searched).pseudotime(10)[10:40]
    assert np.allclose(view.obs["hgplvm_pseudotime"], time, atol=1e-9)
    assert "hgplvm_pseudotime" not in searched.obs


def test_views_are_read_and_copied():
    adata = table(sp.csr_matrix(SPARSE))
    view = adata[::2, ::-1]
    found = cheap(view, copy=True)
    assert view.is_view
    assert close(found.obsm["X_hgplvm"], direct(SPARSE[::2, ::-1], n_inducing=N // 2).embedding_)
    assert found.uns["hgplvm"]["features"].tolist() == GENES[::-1]


FIRST = np.arange(D) < 5
MASKS = {
    "array": FIRST,
    "list": FIRST.tolist(),
    "series": pd.Series(FIRST, index=GENES),
    "nullable": pd.array(FIRST, dtype="boolean"),
    "column": "wanted",
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("layer", [None, "other"])
def test_masks_of_columns(kind, layer):
    adata = table(Y, layers={"other": sp.csr_matrix(-SPARSE)})
    adata.var["wanted"] = FIRST
    adata.var["highly_variable"] = ~FIRST
    cheap(adata, mask_var=MASKS[kind], layer=layer)
    expected = direct((Y if layer is None else -SPARSE)[:, :5])
    assert close(adata.obsm["X_hgplvm"], expected.embedding_)
    assert adata.uns["hgplvm"]["features"].tolist() == GENES[:5]


def test_variable_columns_are_taken_unless_all_are_asked_for():
    adata = table()
    adata.var["highly_variable"] = FIRST
    cheap(adata)
    assert adata.uns["hgplvm"]["features"].tolist() == GENES[:5]
    assert close(adata.obsm["X_hgplvm"], direct(Y[:, :5]).embedding_)
    cheap(adata, mask_var=None)
    assert adata.uns["hgplvm"]["features"].tolist() == GENES
    assert close(adata.obsm["X_hgplvm"], direct(Y).embedding_)


def test_missing_entries_are_missing():
    values = Y.copy()
    values[::7, 2] = np.nan
    adata = table(values)
    cheap(adata)
    assert close(adata.obsm["X_hgplvm"], direct(values).embedding_)


# --- counts -----------------------------------------------------------------------------------


def logarithms(counts, median=None):
    """Logarithms of counts at the median depth."""
    counts = np.asarray(counts, dtype=float)
    total = counts.sum(1, keepdims=True)
    return np.log1p(counts / total * (np.median(total) if median is None else median))


MEDIAN = np.median(COUNTS.sum(1))
AS_STORED = {
    "dense": np.asarray,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "integers": lambda counts: counts.astype(np.int64),
    "small integers": lambda counts: sp.csr_matrix(counts.astype(np.uint8)),
}


@pytest.mark.parametrize("normalize", [None, True])
@pytest.mark.parametrize("kind", AS_STORED)
def test_logarithms_are_taken_of_raw_counts(kind, normalize, caplog):
    adata = table(AS_STORED[kind](COUNTS))
    before = adata.X.copy()
    with caplog.at_level(logging.WARNING, "hgplvm"):
        cheap(adata, normalize=normalize)
    flat = "(a flat model, or PCA, is as good)"
    messages = [m for m in (r.getMessage() for r in caplog.records) if not m.endswith(flat)]
    if normalize is None:  # in one line
        (message,) = messages
        assert "tl.hgplvm found raw counts in adata.X: it takes their logarithms" in message
    else:
        assert not messages
    assert close(adata.obsm["X_hgplvm"], direct(logarithms(COUNTS)).embedding_)
    params = adata.uns["hgplvm"]["params"]
    assert params["normalize"]
    assert params["target_sum"] == np.median(COUNTS.sum(1))
    assert abs(adata.X - before).max() == 0
    assert adata.X.dtype == before.dtype


def test_raw_counts_of_a_layer_are_told_by_its_name(caplog):
    adata = table(Y, layers={"counts": COUNTS})
    with caplog.at_level(logging.WARNING, "hgplvm"):
        cheap(adata, layer="counts")
    assert "found raw counts in the layer 'counts'" in caplog.text


def cells_with_a_tree():
    found = hgplvm.datasets.make_cells(200, 90, depth=400, random_state=0)
    return anndata.AnnData(found.counts.astype(np.float32)), found


NORMALISED = {
    "counts per 10,000": lambda adata: scanpy.pp.normalize_total(adata, target_sum=1e4),
    "counts per cell of median depth": scanpy.pp.normalize_total,
}


@pytest.mark.parametrize("base", [None, 2])
@pytest.mark.parametrize("kind", NORMALISED)
def test_counts_and_their_logarithms_give_the_same_map(kind, base):
    """Also where the logarithms are stored in single precision, as scanpy leaves them."""
    raw, _ = cells_with_a_tree()
    logs = raw.copy()
    NORMALISED[kind](logs)
    scanpy.pp.log1p(logs, base=base)
    assert logs.X.dtype == np.float32
    tl.hgplvm(raw, "exact", max_iter=3, likelihood="gaussian")
    tl.hgplvm(logs, "exact", max_iter=3)
    gaps = distance(
        *(torch.from_numpy(adata.obsm["X_hgplvm_lorentz"]).double() for adata in (raw, logs))
    )
    assert gaps.max() < 1e-2
    assert "normalize" not in logs.uns["hgplvm"]["params"]


def test_a_cell_without_counts_is_named():
    counts = COUNTS.copy()
    counts[[3, 7]] = 0.0
    adata = table(counts)
    with pytest.raises(ValueError, match=r"no counts in the cell 'cell3' and 1 more: leave"):
        tl.hgplvm(adata)
    assert untouched(adata)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix])
def test_genes_with_a_missing_entry_are_kept(stored):
    raw, _ = cells_with_a_tree()
    scanpy.pp.normalize_total(raw)
    scanpy.pp.log1p(raw)
    values = raw.X.toarray()
    if stored is np.asarray:
        values[3, 5] = values[8, 7] = np.nan
    adata = anndata.AnnData(stored(values))
    tl.hgplvm(adata, "sparse", max_iter=2)
    seen = (np.nan_to_num(values) > 0).any(0)
    assert len(adata.uns["hgplvm"]["features"]) == seen.sum()


def test_a_gene_that_is_never_seen_is_left_out(caplog):
    counts = COUNTS.copy()
    counts[:, 2] = 0.0
    adata = table(counts)
    with caplog.at_level(logging.INFO, "hgplvm"):
        cheap(adata)
    assert "leaving out 1 genes of which no cell has counts" in caplog.text
    assert "gene2" not in adata.uns["hgplvm"]["features"]


def test_counts_of_a_layer_are_normalised():
    adata = table(Y, layers={"counts": COUNTS.copy()})
    cheap(adata, layer="counts", normalize=True)
    assert close(adata.obsm["X_hgplvm"], direct(logarithms(COUNTS)).embedding_)
    assert np.array_equal(adata.layers["counts"], COUNTS)


def test_counts_are_taken_as_they_are_if_asked():
    adata = table(COUNTS)
    cheap(adata, normalize=False)
    assert close(adata.obsm["X_hgplvm"], direct(COUNTS).embedding_)
    assert adata.uns["hgplvm"]["params"]["normalize"] is False


def test_a_mask_chooses_columns_after_all_of_them_are_normalised():
    adata = table(COUNTS)
    cheap(adata, normalize=True, mask_var=FIRST)
    expected = direct(logarithms(COUNTS)[:, FIRST])
    assert close(adata.obsm["X_hgplvm"], expected.embedding_)


@pytest.fixture(scope="module")
def wide():
    """Counts of more columns than are kept."""
    rng = np.random.default_rng(1)
    rate = np.exp(rng.normal(size=2100) + 0.5 * Y[:40, :2] @ rng.normal(size=(2, 2100)))
    return rng.poisson(rate).astype(np.float32)


@pytest.fixture(scope="module")
def wide_reference(wide):
    adata = table(wide)
    cheap(adata, normalize=True)
    return adata


def test_the_most_variable_of_many_columns_are_kept(wide, wide_reference):
    values = logarithms(wide)
    kept = np.sort(np.argsort(-values.var(0))[:2000])
    names = np.array([f"gene{i}" for i in range(2100)])
    assert wide_reference.uns["hgplvm"]["features"].tolist() == names[kept].tolist()
    expected = direct(values[:, kept], n_inducing=40)
    assert close(wide_reference.obsm["X_hgplvm"], expected.embedding_)
    assert "highly_variable" not in wide_reference.var


def test_the_same_columns_are_kept_of_logarithms(wide, wide_reference):
    adata = table(wide.copy())
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    scanpy.pp.log1p(adata)
    cheap(adata)
    expected = wide_reference.uns["hgplvm"]["features"].tolist()
    assert adata.uns["hgplvm"]["features"].tolist() == expected


def test_a_column_of_variable_genes_goes_before_the_choice(wide):
    adata = table(wide)
    adata.var["highly_variable"] = np.arange(2100) < 2050
    cheap(adata, normalize=True)
    seen = (wide[:, :2050] > 0).any(0)
    assert len(adata.uns["hgplvm"]["features"]) == seen.sum() > 2000


@pytest.mark.parametrize("values", [Y, np.abs(Y), -COUNTS, sp.csr_matrix(SPARSE)])
def test_what_is_not_counts_is_not_normalised(values):
    adata = table(values)
    with pytest.raises(ValueError, match="asked to normalize counts, and the data are not counts"):
        tl.hgplvm(adata, normalize=True)
    assert untouched(adata)


# --- options ----------------------------------------------------------------------------------


def test_a_copy_leaves_the_original_alone():
    adata = table()
    found = cheap(adata, copy=True)
    assert untouched(adata)
    assert close(found.obsm["X_hgplvm"], direct(Y).embedding_)
    assert np.array_equal(found.X, Y)
    assert tl.pseudotime(found, 0, copy=True).obs["hgplvm_pseudotime"].iloc[0] == 0.0
    assert "hgplvm_pseudotime" not in found.obs


def test_results_under_another_name():
    adata = table()
    cheap(adata)
    first = adata.copy()
    cheap(adata, key_added="other", max_iter=2)
    tl.pseudotime(adata, 2, key="other")
    assert {"X_other", "X_other_lorentz", "other_covariance"} <= set(adata.obsm)
    assert {"other_std", "other_pseudotime", "other_pseudotime_std"} <= set(adata.obs)
    assert adata.uns["other"]["n_iter"] == 2
    assert np.array_equal(tl.model(adata, key="other").embedding_, adata.obsm["X_other"])
    for key in first.obsm:
        assert np.array_equal(adata.obsm[key], first.obsm[key])
    assert same_tree(adata.uns["hgplvm"], first.uns["hgplvm"])


def test_parameters_reach_the_estimator():
    adata = table()
    cheap(adata, "vecchia", max_iter=3, n_neighbors=7, center="none", random_state=5)
    model = tl.model(adata)
    wanted = {"max_iter": 3, "n_neighbors": 7, "center": "none", "random_state": 5}
    assert {name: model.get_params()[name] for name in wanted} == wanted
    params = adata.uns["hgplvm"]["params"]
    assert {name: params[name] for name in wanted} == wanted
    assert params["length_scale"] == 2.0


def test_seeds():
    embeddings = []
    for seed in (0, 0, 1, np.random.RandomState(0)):
        adata = table()
        cheap(adata, init="random", random_state=seed)
        embeddings.append(adata.obsm["X_hgplvm"])
    assert np.array_equal(embeddings[0], embeddings[1])
    assert not np.allclose(embeddings[0], embeddings[2])
    assert np.array_equal(embeddings[0], embeddings[3])


def test_few_rows_have_few_inducing_points():
    adata = table(Y[:20])
    cheap(adata, "bayesian")  # without the warning that an estimator gives
    assert adata.uns["hgplvm"]["params"]["n_inducing"] == 20
    cheap(adata, "bayesian", n_inducing=9)
    assert len(tl.model(adata).inducing_) == 9


def test_the_automatic_choice_goes_by_rows(monkeypatch):
    monkeypatch.setattr("hgplvm.estimators.choice.EXACT_ROWS", N - 1)
    adata = table()
    cheap(adata, "auto")
    assert adata.uns["hgplvm"]["params"]["model"] == "VecchiaHGPLVM"


def test_an_estimator_is_copied():
    adata = table()
    given = hgplvm.VecchiaHGPLVM(1, n_neighbors=6, random_state=4, **CHEAP)
    tl.hgplvm(adata, given, max_iter=2)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(given)
    assert given.max_iter == CHEAP["max_iter"]
    expected = hgplvm.VecchiaHGPLVM(1, n_neighbors=6, random_state=4, **{**CHEAP, "max_iter": 2})
    assert close(adata.obsm["X_hgplvm"], expected.fit(Y).embedding_)


def test_a_fitted_estimator_stays_as_it_is():
    given = direct(Y[:30], n_inducing=10)
    before = given.embedding_.copy()
    adata = table()
    tl.hgplvm(adata, given)
    assert np.array_equal(given.embedding_, before)
    assert adata.obsm["X_hgplvm"].shape == (N, 2)


def test_without_the_model():
    adata = table()
    cheap(adata, "exact", keep_model=False)
    assert "fitted" not in adata.uns["hgplvm"]
    assert close(adata.obsm["X_hgplvm"], direct(Y, "exact").embedding_)
    tl.pseudotime(adata, 0)
    for call in (lambda: tl.model(adata), lambda: tl.transform(table(), adata)):
        with pytest.raises(
            ValueError, match=r"needs the fitted model.*tl\.hgplvm\(adata, keep_model=True\)"
        ):
            call()


def test_parameters_that_no_file_can_hold_are_left_out(tmp_path):
    adata = table()
    steps = []
    start = 0.5 * _PLANE
    cheap(
        adata,
        init=start,
        random_state=np.random.RandomState(0),
        callback=lambda state: steps.append(state.iteration),
        checkpoint=tmp_path / "fit",
    )
    params = adata.uns["hgplvm"]["params"]
    assert steps == [1, 2, 3, 4]
    assert not {"random_state", "callback"} & params.keys()
    assert params["checkpoint"] == str(tmp_path / "fit")
    assert np.array_equal(params["init"], start)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert same_tree(adata.uns["hgplvm"], read.uns["hgplvm"])


def test_single_precision():
    adata = table()
    cheap(adata, "bayesian", dtype="float32")
    tl.pseudotime(adata, 0)
    assert adata.obsm["X_hgplvm"].dtype == np.float32
    time, std = tl.model(adata).pseudotime(0, return_std=True)
    assert np.allclose(adata.obs["hgplvm_pseudotime"], time, atol=1e-5)
    assert np.allclose(adata.obs["hgplvm_pseudotime_std"], std, rtol=1e-2)


HOME = np.arange(N) % 3 == 2


@pytest.mark.parametrize(
    ("root", "plain"),
    [(9, 9), ("cell9", 9), ({"branch": "c"}, HOME), (pd.Series(HOME, index=CELLS), HOME)],
)
@pytest.mark.parametrize("kind", ["sparse", "bayesian"])
def test_a_root_is_put_at_the_origin(kind, root, plain):
    adata = table()
    cheap(adata, kind, root=root)
    model = direct(Y, kind).recenter(plain)
    assert close(adata.obsm["X_hgplvm"], model.embedding_)
    covariance = model.transform(Y, return_cov=True)[1].reshape(N, 4)
    assert close(adata.obsm["hgplvm_covariance"], covariance, atol=1e-6)
    assert np.array_equal(tl.model(adata).embedding_, adata.obsm["X_hgplvm"])
    tl.pseudotime(adata, [0.0, 0.0])
    assert np.allclose(adata.obs["hgplvm_pseudotime"], model.pseudotime(plain), atol=1e-6)


@pytest.mark.parametrize("root", ["nobody", N, {"branch": "d"}, {"kind": 1}, HOME[:-1]])
def test_bad_roots_of_a_fit(root):
    adata = table()
    with pytest.raises(ValueError, match="'root' of"):
        cheap(adata, root=root)
    assert untouched(adata)


# --- what is refused --------------------------------------------------------------------------

REFUSED = {
    "layer": (
        {"layer": "spliced"},
        ValueError,
        (
            r"'layer' parameter of tl\.hgplvm must be a key of adata\.layers, of which there are "
            r"'smooth'\. Got 'spliced'"
        ),
    ),
    "use_rep": (
        {"use_rep": "X_scvi"},
        ValueError,
        (
            r"'use_rep' parameter of tl\.hgplvm must be a key of adata\.obsm, of which there are "
            r"none\. Got 'X_scvi' instead\.$"
        ),
    ),
    "pca": ({"use_rep": "X_pca"}, ValueError, r"Got 'X_pca' instead\. Run sc\.pp\.pca\(adata\)"),
    "layer and use_rep": (
        {"use_rep": "X", "layer": "smooth"},
        ValueError,
        r"use_rep='X' goes neither with a layer nor with normalize=True",
    ),
    "normalize and use_rep": (
        {"use_rep": "X", "normalize": True},
        ValueError,
        "goes neither with a layer nor with normalize=True",
    ),
    "mask_var": (
        {"mask_var": "hvg"},
        ValueError,
        (
            r"'mask_var' parameter of tl\.hgplvm must be a column of adata\.var.* Got 'hvg' "
            r"instead; there are 'weight'"
        ),
    ),
    "mask of numbers": (
        {"mask_var": "weight"},
        ValueError,
        r"must say True or False of each of the 8 columns.*Got float64 of shape \(8,\)",
    ),
    "mask of another shape": (
        {"mask_var": np.ones(5, dtype=bool)},
        ValueError,
        r"each of the 8 columns.*Got bool of shape \(5,\) with 5 True",
    ),
    "empty mask": (
        {"mask_var": np.zeros(D, dtype=bool)},
        ValueError,
        r"and True of some\. Got bool of shape \(8,\) with 0 True",
    ),
    "model": ({"model": "umap"}, ValueError, r"one of 'auto', 'exact', .*Got 'umap' instead"),
    "class": (
        {"model": hgplvm.HGPLVM},
        ValueError,
        "'model' parameter of tl.hgplvm must be the name of a model, .* or an estimator",
    ),
    "flat": (
        {"model": hgplvm.GPLVM()},
        ValueError,
        "must be hyperbolic. Got GPLVM, which is not: fit it to adata.X itself",
    ),
    "parameter": (
        {"n_neighbors": 5},
        TypeError,
        (
            "tl.hgplvm has no parameter 'n_neighbors', nor has HGPLVM, whose parameters "
            "are callback, center"
        ),
    ),
    "parameter of a copy": (
        {"model": hgplvm.HGPLVM(), "n_inducing": 5},
        TypeError,
        "no parameter 'n_inducing', nor has HGPLVM",
    ),
    "value": ({"max_iter": 0}, ValueError, "'max_iter' parameter of HGPLVM must be"),
    "key_added": ({"key_added": ""}, ValueError, "'key_added' parameter of tl.hgplvm must be a te"),
    "number as key": ({"key_added": 3}, ValueError, "'key_added' parameter of .* Got 3 instead"),
    "copy": ({"copy": "yes"}, ValueError, "'copy' parameter of tl.hgplvm must be True or False"),
    "keep_model": ({"keep_model": 1}, ValueError, "'keep_model' parameter of tl.hgplvm"),
    "normalize": ({"normalize": "log"}, ValueError, "'normalize' parameter of tl.hgplvm must be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_fit_refuses(name):
    options, error, sentence = REFUSED[name]
    adata = table(Y, layers={"smooth": Y})
    adata.var["weight"] = np.linspace(0, 1, D)
    with pytest.raises(error, match=sentence):
        tl.hgplvm(adata, **options)
    assert untouched(adata)


@pytest.mark.parametrize("thing", [Y, pd.DataFrame(Y), None, "cells.h5ad"])
@pytest.mark.parametrize("call", ["hgplvm", "model", "pseudotime", "transform"])
def test_what_is_no_anndata_object_is_refused(thing, call):
    rest = (table(),) if call == "transform" else ()
    with pytest.raises(
        TypeError,
        match=rf"'adata' of tl\.{call} must be an AnnData object\. Got {type(thing).__name__}",
    ):
        getattr(tl, call)(thing, *rest)


def test_the_reference_must_be_an_anndata_object():
    with pytest.raises(TypeError, match=r"of tl\.transform must be an AnnData object"):
        tl.transform(table(), Y)


def test_too_few_rows():
    adata = table(Y[:1])
    with pytest.raises(ValueError, match=r"must have 2 rows or more. Got 1 instead"):
        tl.hgplvm(adata)
    assert untouched(adata)


def test_no_matrix():
    with pytest.raises(ValueError, match=r"tl\.hgplvm finds no adata\.X: name a layer, or a repre"):
        tl.hgplvm(anndata.AnnData(obs=pd.DataFrame(index=CELLS)))


def test_nothing_is_written_where_the_fit_fails():
    values = Y.copy()
    values[:, 3] = np.nan
    adata = table(values)
    with pytest.raises(ValueError, match=r"no observed value in column 3\. Drop the column"):
        tl.hgplvm(adata, max_iter=2)
    assert untouched(adata)


def test_nothing_is_changed_where_a_second_fit_fails(fitted):
    before = fitted.copy()
    fitted.X[:, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        tl.hgplvm(fitted)
    assert same_tree(dict(fitted.uns["hgplvm"]), dict(before.uns["hgplvm"]))
    assert all(np.array_equal(fitted.obsm[key], before.obsm[key]) for key in before.obsm)


# --- files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(searched, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "cells.h5ad"
    searched.write_h5ad(path)
    return path


def test_a_file_gives_back_what_was_written(searched, written):
    read = anndata.read_h5ad(written)
    assert same_tree(searched.uns["hgplvm"], read.uns["hgplvm"])
    assert {"params", "length_scale", "evidence", "history", "features", "fitted"} <= read.uns[
        "hgplvm"
    ].keys()
    assert read.uns["hgplvm"]["fitted"].dtype == np.uint8
    for key in searched.obsm:
        assert np.array_equal(searched.obsm[key], read.obsm[key])
    assert np.array_equal(searched.obs["hgplvm_std"], read.obs["hgplvm_std"])


@pytest.mark.parametrize("backed", [None, "r"])
def test_a_model_from_a_file_does_exactly_as_before(searched, written, backed):
    read = anndata.read_h5ad(written, backed=backed)
    try:
        model, before = tl.model(read), tl.model(searched)
    finally:
        if backed:
            read.file.close()
    fresh = Y[:9] + 0.1
    assert np.array_equal(model.transform(fresh), before.transform(fresh))
    points = searched.obsm["X_hgplvm"]
    assert np.array_equal(model.inverse_transform(points), before.inverse_transform(points))
    assert np.array_equal(model.embedding_, points)
    assert model.score(fresh) == before.score(fresh)


def test_a_kept_model_is_the_estimator(searched):
    model = tl.model(searched)
    assert type(model) is hgplvm.HGPLVM
    there = hgplvm.HGPLVM(max_iter=12, random_state=0).fit(Y)
    fresh = Y[:5] + 0.1
    assert close(model.transform(fresh), there.transform(fresh), atol=1e-6)
    point = [[0.1, 0.2]]
    assert close(model.inverse_transform(point), there.inverse_transform(point))


DAMAGE = {
    "cut short": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: whole[:0],
    "head": lambda whole: np.r_[whole[:8] ^ 255, whole[8:]],
    "other": lambda whole: np.arange(200, dtype=np.uint8),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_models_are_told_in_one_sentence(fitted, kind):
    fitted.uns["hgplvm"]["fitted"] = DAMAGE[kind](fitted.uns["hgplvm"]["fitted"])
    with pytest.raises(ValueError, match=r"model in adata\.uns\['hgplvm'\] cannot be read") as info:
        tl.model(fitted)
    assert "/" not in str(info.value)  # no path of a file that nobody knows
    assert info.value.__cause__ is None
    tl.pseudotime(fitted, 0)  # which needs none


def test_a_model_in_a_word_is_told_in_one_sentence(fitted):
    fitted.uns["hgplvm"]["fitted"] = "model"
    with pytest.raises(ValueError, match="cannot be read"):
        tl.model(fitted)


def test_rows_may_be_dropped(searched):
    half = searched[::2].copy()
    model = tl.model(half)
    whole = tl.model(searched)
    assert np.array_equal(model.transform(Y[:5] + 0.1), whole.transform(Y[:5] + 0.1))
    tl.pseudotime(half, "cell10")
    time, std = whole.pseudotime(10, return_std=True)
    assert np.allclose(half.obs["hgplvm_pseudotime"], time[::2], atol=1e-9)
    assert np.allclose(half.obs["hgplvm_pseudotime_std"], std[::2], rtol=1e-3)
    shuffled = searched[::-1].copy()
    tl.pseudotime(shuffled, "cell10")
    assert np.allclose(shuffled.obs["hgplvm_pseudotime"], time[::-1], atol=1e-9)


# --- pseudotime -------------------------------------------------------------------------------

MASK = np.arange(N) % 3 == 1
ROOTS = {
    "row": (7, 7),
    "last row": (-1, -1),
    "numpy row": (np.int64(4), 4),
    "mask": (MASK, MASK),
    "list": (MASK.tolist(), MASK),
    "series": (pd.Series(MASK, index=CELLS), MASK),
    "dict": ({"branch": "b"}, MASK),
    "name": ("cell12", 12),
    "point": ([0.2, -0.1], [0.2, -0.1]),
    "array": (np.array([0.2, -0.1], dtype=np.float32), np.array([0.2, -0.1], dtype=np.float32)),
    "origin": ([0, 0], [0.0, 0.0]),
}


@pytest.mark.parametrize("kind", ROOTS)
def test_times_are_those_of_the_estimator(fitted, kind):
    root, plain = ROOTS[kind]
    assert tl.pseudotime(fitted, root) is None
    time, std = tl.model(fitted).pseudotime(plain, return_std=True)
    assert fitted.obs["hgplvm_pseudotime"].dtype == float
    assert np.allclose(fitted.obs["hgplvm_pseudotime"], time, atol=1e-9)
    assert np.allclose(fitted.obs["hgplvm_pseudotime_std"], std, rtol=1e-3)
    assert (fitted.obs["hgplvm_pseudotime_std"] > 0).all()


def test_the_root_of_scanpy_is_taken(fitted):
    fitted.uns["iroot"] = np.int64(21)
    tl.pseudotime(fitted)
    assert fitted.obs["hgplvm_pseudotime"].iloc[21] == 0.0
    assert np.allclose(fitted.obs["hgplvm_pseudotime"], tl.model(fitted).pseudotime(21), atol=1e-9)
    tl.pseudotime(fitted, 3)  # one that is given goes before
    assert fitted.obs["hgplvm_pseudotime"].iloc[3] == 0.0


def test_groups_of_numbers(fitted):
    fitted.obs["cluster"] = np.where(MASK, 2, 1)
    tl.pseudotime(fitted, {"cluster": 2})
    assert np.allclose(
        fitted.obs["hgplvm_pseudotime"], tl.model(fitted).pseudotime(MASK), atol=1e-9
    )


def test_times_along_the_branches(fitted):
    tl.pseudotime(fitted, np.arange(N) < 6)
    for branch in range(3):
        time = fitted.obs["hgplvm_pseudotime"].to_numpy()[branch::3]
        assert spearmanr(time, _TIME[branch::3]).statistic > 0.9


def draws_of_distances(root, mean, covariance, n=20_000, seed=0):
    """Distances of draws ``Exp_μ(Lζ)``, with ``LLᵀ`` the full covariance: [draws, rows]."""
    generator = torch.Generator().manual_seed(seed)
    factor = torch.linalg.cholesky(covariance)
    zeta = torch.randn(n, *mean[:, 1:].shape, generator=generator, dtype=torch.float64)
    return distance(root, lorentz.displaced(mean, (factor @ zeta.unsqueeze(-1)).squeeze(-1)))


@pytest.mark.parametrize("kind", ["bayesian", "exact", "vecchia"])
def test_uncertain_times_are_those_of_draws(kind, searched):
    adata = searched.copy()
    if kind != "bayesian":
        cheap(adata, kind)
    tl.pseudotime(adata, [0.45, -0.3])
    mean = torch.from_numpy(adata.obsm["X_hgplvm_lorentz"])
    covariance = torch.from_numpy(adata.obsm["hgplvm_covariance"]).reshape(N, 2, 2)
    root = poincare_to_lorentz(torch.tensor([0.45, -0.3], dtype=torch.float64))
    sampled = draws_of_distances(root, mean, covariance).std(0).numpy()
    ratio = adata.obs["hgplvm_pseudotime_std"].to_numpy() / sampled
    assert np.abs(np.median(ratio) - 1.0) < 0.01
    assert np.quantile(np.abs(ratio - 1.0), 0.9) < 0.05


@pytest.mark.parametrize("q", [1, 2, 3])
def test_moments_of_distances(q):
    """A covariance with long and slanted axes, against draws."""
    generator = torch.Generator().manual_seed(q)
    root = lorentz.from_tangent(torch.randn(q, generator=generator, dtype=torch.float64))
    mean = lorentz.from_tangent(1.5 * torch.randn(40, q, generator=generator, dtype=torch.float64))
    mean = mean[distance(root, mean) > 1.0][:8]
    assert len(mean) > 5
    factor = 0.2 * torch.randn(len(mean), q, q, generator=generator, dtype=torch.float64)
    covariance = factor @ factor.mT + 1e-3 * torch.eye(q, dtype=torch.float64)
    first, std = wrapped_normal.distance_moments(Hyperbolic(), root, mean, covariance)
    draws = draws_of_distances(root, mean, covariance, n=50_000)
    assert torch.allclose(first, draws.mean(0), rtol=0.01)
    assert torch.allclose(std, draws.std(0), rtol=0.03)
    if q > 1:  # the diagonal alone would be seen
        diagonal = covariance.diagonal(dim1=1, dim2=2).diag_embed()
        _, without = wrapped_normal.distance_moments(Hyperbolic(), root, mean, diagonal)
        assert (without / std - 1.0).abs().max() > 0.1


def test_moments_of_distances_to_points_that_are_known():
    mean = lorentz.from_tangent(torch.tensor([[0.3, -0.2], [1.0, 2.0]], dtype=torch.float64))
    root = lorentz.origin(2)
    line = torch.tensor([[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]).double() * 0.01
    first, std = wrapped_normal.distance_moments(Hyperbolic(), root, mean, line)  # singular
    assert first[1].item() == pytest.approx(distance(root, mean)[1].item(), rel=1e-12)
    assert std[1].item() == pytest.approx(0.0, abs=1e-7)
    assert 0.0 < std[0].item() < 0.15


def test_models_without_a_posterior_have_none_in_times(fitted):
    del fitted.obsm["hgplvm_covariance"]
    tl.pseudotime(fitted, 0)
    assert "hgplvm_pseudotime" in fitted.obs
    assert "hgplvm_pseudotime_std" not in fitted.obs


BAD_ROOTS = {
    "name": ("cell99", r"the name of one row, and 0 have the name 'cell99'\. A group of rows is"),
    "row": (N, r"'root' of tl\.pseudotime must be a row index below 60.*Got 60 instead"),
    "short mask": (MASK[:-1], "one entry for each of the 60 rows"),
    "empty mask": (np.zeros(N, dtype=bool), "some of them True.*with 0 True"),
    "column": (
        {"kind": "b"},
        r"names 'kind', which is no column of adata\.obs; there are 'branch'",
    ),
    "value": ({"branch": "d"}, r"'d', which no row has in 'branch'; there are 'a', 'b', 'c'\."),
    "two columns": ({"branch": "a", "hgplvm_std": 1}, "must name one column of adata.obs and one"),
    "no column": ({}, "must name one column of adata.obs and one"),
    "outside": ([0.8, 0.8], "Poincaré ball coordinates.* norm 1.13"),
    "long": ([0.1, 0.2, 0.3], "a point of 2 coordinates"),
    "not finite": ([np.nan, 0.1], "must be finite"),
}


@pytest.mark.parametrize("kind", BAD_ROOTS)
def test_bad_roots(fitted, kind):
    root, sentence = BAD_ROOTS[kind]
    with pytest.raises(ValueError, match=sentence):
        tl.pseudotime(fitted, root)
    assert "hgplvm_pseudotime" not in fitted.obs


def test_rows_of_the_same_name(fitted):
    fitted.obs_names = ["cell"] * 2 + CELLS[2:]
    with pytest.raises(ValueError, match="and 2 have the name 'cell'"):
        tl.pseudotime(fitted, "cell")


def test_no_root(fitted):
    with pytest.raises(ValueError, match=r"needs a root: a row, a group .*adata\.uns\['iroot'\]"):
        tl.pseudotime(fitted)


@pytest.mark.parametrize("call", ["model", "pseudotime"])
def test_before_a_fit(call):
    with pytest.raises(
        ValueError, match=r"finds no embedding under the key 'hgplvm': run hgplvm\.tl"
    ):
        getattr(tl, call)(table())
    with pytest.raises(
        ValueError, match=r"the key 'k': run hgplvm\.tl\.hgplvm\(adata, key_added='k'\)"
    ):
        getattr(tl, call)(table(), key="k")
    with pytest.raises(ValueError, match=rf"'key' parameter of tl\.{call} must be a text"):
        getattr(tl, call)(table(), key=None)


# --- new rows ---------------------------------------------------------------------------------

NEW = Y[:12] + 0.1 * np.random.default_rng(3).normal(size=(12, D))


def assert_placed(found, model, rows):
    """Whether an object holds what a model says of rows."""
    embedding, covariance = model.transform(rows, return_cov=True)
    n, q = embedding.shape
    assert np.allclose(found.obsm["X_hgplvm"], embedding, atol=1e-12)
    ball = lorentz_to_poincare(torch.from_numpy(found.obsm["X_hgplvm_lorentz"])).numpy()
    assert np.allclose(ball, embedding, atol=1e-12)
    assert np.allclose(found.obsm["hgplvm_covariance"], covariance.reshape(n, q * q), atol=1e-12)
    std = np.sqrt(np.trace(covariance, axis1=1, axis2=2) / q)
    assert np.allclose(found.obs["hgplvm_std"], std)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_new_rows_are_placed_by_the_model(searched, make):
    fresh = table(make(NEW))
    assert tl.transform(fresh, searched) is None
    assert_placed(fresh, tl.model(searched), NEW)
    assert same_tree(
        {k: v for k, v in searched.uns["hgplvm"].items() if k != "history"},
        {k: v for k, v in fresh.uns["hgplvm"].items() if k != "history"},
    )
    tl.pseudotime(fresh, [0.0, 0.0])
    tl.transform(table(make(NEW)), fresh)  # it serves as a reference, too
    origin, points = lorentz.origin(2), torch.from_numpy(fresh.obsm["X_hgplvm_lorentz"])
    assert np.allclose(fresh.obs["hgplvm_pseudotime"], distance(origin, points).numpy())


@pytest.mark.parametrize("kind", ["exact", "sparse", "vecchia"])
def test_new_rows_of_every_model(kind):
    reference, fresh = table(), table(NEW)
    cheap(reference, kind)
    tl.transform(fresh, reference)
    assert_placed(fresh, tl.model(reference), NEW)


def test_a_copy_with_new_rows(searched):
    fresh = table(NEW)
    found = tl.transform(fresh, searched, copy=True)
    assert untouched(fresh)
    assert_placed(found, tl.model(searched), NEW)


def test_new_rows_in_a_file(searched, tmp_path):
    table(NEW).write_h5ad(tmp_path / "new.h5ad")
    fresh = anndata.read_h5ad(tmp_path / "new.h5ad", backed="r")
    try:
        found = tl.transform(fresh, searched, copy=True)
    finally:
        fresh.file.close()
    assert_placed(found, tl.model(searched), NEW)


def test_columns_are_matched_by_name(searched, caplog):
    order = [3, 1, 7, 0, 5, 2, 6, 4]
    fresh = table(np.c_[NEW, 9.0 + NEW[:, :2]])
    fresh.var_names = [*GENES, "unknown1", "unknown2"]
    fresh = fresh[:, [8, *order, 9]].copy()
    with caplog.at_level(logging.WARNING, "hgplvm"):
        tl.transform(fresh, searched)
    assert_placed(fresh, tl.model(searched), NEW)
    assert not caplog.records
    assert fresh.n_vars == D + 2


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_columns_that_are_missing_count_as_missing(searched, make, caplog):
    fresh = table(make(NEW))[:, [6, 4, 2, 0, 7]].copy()
    with caplog.at_level(logging.WARNING, "hgplvm"):
        tl.transform(fresh, searched)
    rows = NEW.copy()
    rows[:, [1, 3, 5]] = np.nan
    assert_placed(fresh, tl.model(searched), rows)
    (record,) = caplog.records
    assert record.getMessage() == "tl.transform: 3 of 8 columns are missing in the new rows"


def test_columns_that_stand_twice(searched):
    fresh = table(NEW)
    fresh.var_names = ["gene0", "gene0", *GENES[2:]]
    with pytest.raises(ValueError, match=r"'gene0' stands twice among the new ones.*unique first"):
        tl.transform(fresh, searched)
    assert untouched(fresh)
    fresh = table(np.c_[NEW, NEW[:, :2]])
    fresh.var_names = [*GENES, "other", "other"]  # which nobody wants
    tl.transform(fresh, searched)
    assert_placed(fresh, tl.model(searched), NEW)


def test_names_are_told_as_plain_words(searched):
    strange, twice = table(NEW), table(NEW)
    strange.var_names = [f"ENSG{i}" for i in range(D)]
    twice.var_names = ["gene0", "gene0", *GENES[2:]]
    for fresh in (strange, twice):
        with pytest.raises(ValueError, match="'gene0'") as info:
            tl.transform(fresh, searched)
        assert "np." not in str(info.value)


def test_no_columns_in_common(searched):
    fresh = table(NEW)
    fresh.var_names = [f"ENSG{i}" for i in range(D)]
    with pytest.raises(
        ValueError, match=r"none of the 8 columns of the fit \(.*'gene0'.*, …\).*same kind of names"
    ):
        tl.transform(fresh, searched)
    assert untouched(fresh)


@pytest.mark.parametrize("kind", ["bayesian", "exact"])
def test_training_rows_get_their_own_places(kind, searched):
    reference = searched
    if kind != "bayesian":
        reference = table()
        cheap(reference, kind)
    some = table()[[5, 40, 11], ::-1].copy()
    tl.transform(some, reference)
    assert np.array_equal(some.obsm["X_hgplvm"], reference.obsm["X_hgplvm"][[5, 40, 11]])
    expected = reference.obsm["hgplvm_covariance"][[5, 40, 11]]
    assert np.allclose(some.obsm["hgplvm_covariance"], expected, rtol=1e-6)


def test_only_the_columns_of_the_fit_are_wanted(caplog):
    reference, fresh = table(), table(NEW)
    reference.var["highly_variable"] = FIRST
    fresh.var["highly_variable"] = ~FIRST  # what varies among the new rows does not matter
    cheap(reference)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hgplvm"):
        tl.transform(fresh, reference)
    assert_placed(fresh, tl.model(reference), NEW[:, FIRST])
    assert not caplog.records


def test_layers_of_new_rows():
    reference = table(COUNTS, layers={"smooth": Y})
    cheap(reference, layer="smooth")
    fresh = table(COUNTS[:12], layers={"smooth": NEW, "other": NEW + 0.1})
    tl.transform(fresh, reference)
    assert_placed(fresh, tl.model(reference), NEW)
    tl.transform(fresh, reference, layer="other")
    assert_placed(fresh, tl.model(reference), NEW + 0.1)
    with pytest.raises(ValueError, match=r"'layer' parameter of tl\.transform must be a key"):
        tl.transform(table(NEW), reference)


def test_representations_of_new_rows():
    reference, fresh = table(COUNTS), table(COUNTS[:12])
    reference.obsm["X_pca"] = Y[:, :4]
    cheap(reference, use_rep="X_pca")
    fresh.obsm["X_pca"], fresh.obsm["X_other"] = NEW[:, :4], NEW[:, 1:5]
    tl.transform(fresh, reference)
    assert_placed(fresh, tl.model(reference), NEW[:, :4])
    tl.transform(fresh, reference, use_rep="X_other")
    assert_placed(fresh, tl.model(reference), NEW[:, 1:5])
    del fresh.obsm["X_pca"]
    with pytest.raises(ValueError, match=r"'use_rep' parameter of tl\.transform.* Got 'X_pca'"):
        tl.transform(fresh, reference)
    fresh.obsm["X_pca"] = NEW[:, :3]
    with pytest.raises(
        ValueError, match=r"needs the 4 columns of the representation .* Got 3 instead: project"
    ):
        tl.transform(fresh, reference)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_counts_are_normalised_where_those_of_the_fit_were(make):
    reference = table(COUNTS)
    cheap(reference, normalize=True)
    counts = np.random.default_rng(5).poisson(np.exp(1.0 + NEW)).astype(np.float32)
    fresh = table(make(counts))
    tl.transform(fresh, reference)
    assert np.allclose(
        fresh.obsm["X_hgplvm"], tl.model(reference).transform(logarithms(counts, MEDIAN)), atol=1e-4
    )
    again = table(COUNTS[20:30])
    tl.transform(again, reference)
    assert np.array_equal(again.obsm["X_hgplvm"], reference.obsm["X_hgplvm"][20:30])
    with pytest.raises(
        ValueError, match=r"tl\.transform finds no raw counts in adata\.X, and the fit"
    ):
        tl.transform(table(NEW), reference)


def test_counts_are_left_where_those_of_the_fit_were():
    reference = table(COUNTS)
    cheap(reference, normalize=False)
    fresh = table(COUNTS[:12] + 1.0)
    tl.transform(fresh, reference)
    assert_placed(fresh, tl.model(reference), COUNTS[:12] + 1.0)


def test_columns_of_the_fit_are_found_among_many_counts(wide, wide_reference, caplog):
    fresh = table(wide[:20])
    with caplog.at_level(logging.WARNING, "hgplvm"):
        tl.transform(fresh, wide_reference)
    assert not caplog.records, caplog.text
    assert np.array_equal(fresh.obsm["X_hgplvm"], wide_reference.obsm["X_hgplvm"][:20])


def test_cells_with_few_counts_are_normalised():
    reference = table(COUNTS)
    cheap(reference, normalize=True)
    few = np.minimum(COUNTS[:12], 1.0)
    fresh = table(few)
    tl.transform(fresh, reference)
    expected = tl.model(reference).transform(logarithms(few, MEDIAN))
    assert np.allclose(fresh.obsm["X_hgplvm"], expected, atol=1e-4)


def test_columns_of_x_are_matched_by_name_as_a_representation(searched):
    fresh = table(NEW)[:, ::-1].copy()
    tl.transform(fresh, searched, use_rep="X")
    assert_placed(fresh, tl.model(searched), NEW)


def test_what_scikit_learn_is_set_to_return_does_not_matter(searched):
    fresh = table(NEW)
    with sklearn.config_context(transform_output="pandas"):
        tl.transform(fresh, searched)
        adata = table()
        cheap(adata)
    assert_placed(fresh, tl.model(searched), NEW)
    assert type(fresh.obsm["X_hgplvm"]) is type(adata.obsm["X_hgplvm"]) is np.ndarray


def test_estimators_that_return_frames():
    adata = table()
    given = hgplvm.SparseHGPLVM(n_inducing=20, random_state=0, **CHEAP)
    tl.hgplvm(adata, given.set_output(transform="pandas"))
    assert type(adata.obsm["X_hgplvm"]) is np.ndarray
    assert close(adata.obsm["X_hgplvm"], direct(Y, n_inducing=20).embedding_)
    assert adata.obsm["hgplvm_covariance"].shape == (N, 4)


def test_results_of_new_rows_are_their_own(fitted):
    fresh = table(NEW)
    tl.transform(fresh, fitted)
    fresh.uns["hgplvm"]["params"]["note"] = "mine"
    assert "note" not in fitted.uns["hgplvm"]["params"]


def test_a_reference_that_is_placed_on_itself_stays_whole(fitted):
    before = fitted.copy()
    tl.transform(fitted, fitted)
    assert np.array_equal(fitted.obsm["X_hgplvm"], before.obsm["X_hgplvm"])
    assert fitted.uns["hgplvm"].keys() == before.uns["hgplvm"].keys()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": "k"}, r"tl\.transform finds no embedding under the key 'k'"),
        ({"key": ""}, r"'key' parameter of tl\.transform must be a text"),
        ({"copy": 1}, r"'copy' parameter of tl\.transform must be True or False"),
        ({"layer": "x"}, r"'layer' parameter of tl\.transform must be a key"),
        ({"use_rep": "x"}, r"'use_rep' parameter of tl\.transform must be a key"),
        ({"use_rep": "X", "layer": "x"}, "goes neither with a layer"),
    ],
)
def test_what_placing_refuses(searched, options, sentence):
    fresh = table(NEW)
    with pytest.raises(ValueError, match=sentence):
        tl.transform(fresh, searched, **options)
    assert untouched(fresh)


def test_new_rows_go_under_the_key_of_the_fit():
    reference, fresh = table(), table(NEW)
    cheap(reference, key_added="other")
    tl.transform(fresh, reference, key="other")
    assert sorted(fresh.obsm) == ["X_other", "X_other_lorentz", "other_covariance"]
    assert tl.model(fresh, key="other").get_params()["max_iter"] == CHEAP["max_iter"]


def test_every_option_of_a_tool_is_documented():
    for name in tl.__all__:
        tool = getattr(tl, name)
        for parameter in inspect.signature(tool).parameters:
            assert f"{parameter} :" in tool.__doc__ or f"**{parameter}" in tool.__doc__, parameter


# --- faults that a review found -------------------------------------------------------------


def test_raw_counts_are_recognised_when_they_are_placed(searched):
    """Of a fit that saw logarithms; otherwise cells would go anywhere without a word."""
    counts = anndata.AnnData(COUNTS[:, :D])
    counts.var_names = GENES[: counts.n_vars]
    with pytest.raises(ValueError, match=r"tl\.transform found raw counts in adata\.X"):
        tl.transform(counts, searched)


def test_numbers_of_numpy_stay_numbers():
    adata = table()
    cheap(adata, max_iter=np.int64(2), tol=np.float64(0.5))
    params = adata.uns["hgplvm"]["params"]
    assert (params["max_iter"], params["tol"]) == (2, 0.5)
    assert type(params["max_iter"]) is int


def test_a_source_goes_with_the_model():
    adata = table()
    adata.layers["half"] = adata.X / 2
    cheap(adata, layer="half")
    assert tl.model(adata).source_ == {"layer": "half"}


def test_times_need_the_positions_alone(searched):
    plain = table()
    plain.obsm["X_hgplvm"] = searched.obsm["X_hgplvm"]
    tl.pseudotime(plain, 3)
    expected = tl.pseudotime(searched, 3, copy=True).obs["hgplvm_pseudotime"]
    assert close(plain.obs["hgplvm_pseudotime"], expected)
    assert "hgplvm_pseudotime_std" not in plain.obs


def test_positions_that_are_new_have_no_old_times():
    adata = table()
    cheap(adata)
    tl.pseudotime(adata, 0)
    cheap(adata)
    assert "hgplvm_pseudotime" not in adata.obs
    assert "hgplvm_pseudotime_std" not in adata.obs


def test_a_mask_with_missing_entries_leaves_these_out():
    adata = table()
    adata.var["highly_variable"] = pd.array([True, None, *[True] * (D - 2)], dtype="boolean")
    cheap(adata)
    assert "gene1" not in adata.uns["hgplvm"]["features"]
    assert len(adata.uns["hgplvm"]["features"]) == D - 1


def test_a_view_of_a_file_is_refused_before_the_fit(tmp_path):
    table().write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    with pytest.raises(ValueError, match=r"is a view of an object that is backed.*to_memory"):
        tl.hgplvm(backed[:10], callback=pytest.fail)
    assert tl.hgplvm(backed[:20], "sparse", max_iter=1, copy=True).n_obs == 20
    backed.file.close()


def test_a_root_may_be_a_number_in_a_column(searched):
    adata = searched.copy()
    adata.obs["day"] = np.arange(adata.n_obs) % 3 * 1.0
    mask = (adata.obs["day"] == 1).to_numpy()
    tl.pseudotime(adata, {"day": 1})
    expected = tl.pseudotime(adata, mask, copy=True).obs["hgplvm_pseudotime"]
    assert close(adata.obs["hgplvm_pseudotime"], expected)


def test_results_of_another_version_are_told(searched):
    old = searched.copy()
    old.uns["hgplvm"] = {k: v for k, v in searched.uns["hgplvm"].items() if k != "features"}
    with pytest.raises(ValueError, match=r"needs the names of the columns.*run hgplvm\.tl\.hgplvm"):
        tl.transform(table(NEW), old)
