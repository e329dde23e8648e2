"""Models with covariates, from fit to file."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
import torch

import hgplvm
from hgplvm import (
    GPLVM,
    HGPLVM,
    BayesianHGPLVM,
    SparseHGPLVM,
    SphericalGPLVM,
    VecchiaHGPLVM,
)
from hgplvm.datasets import make_binary_tree, make_cells
from hgplvm.metrics import batch_mixing, distance_correlation

MODELS = [HGPLVM, SparseHGPLVM, BayesianHGPLVM, VecchiaHGPLVM]
OPTIONS = {"random_state": 0, "max_iter": 30}
N = 240


@pytest.fixture(scope="module")
def tree():
    """Clean rows of a tree in three batches, each with its own shift."""
    found = make_binary_tree(depth=4, n_per_node=20, random_state=0)
    rng = np.random.default_rng(0)
    found.batch = rng.integers(3, size=len(found.data))
    found.shift = rng.standard_normal((3, found.data.shape[1]))
    found.shift -= found.shift.mean(0)
    found.plain, found.data = found.data, found.data + found.shift[found.batch]
    return found


@pytest.fixture(scope="module")
def cells():
    found = make_cells(
        N + 60,
        150,
        informative=0.7,
        topology="bifurcation",
        depth=2000,
        n_batches=3,
        batch_effect=0.7,
        random_state=2,
    )
    found.batch = np.array(["a", "b", "c"])[found.batch]
    found.seen = np.asarray(found.counts[:N].sum(0)).ravel() > 0
    found.X = found.counts.toarray()[:, found.seen]
    size = found.X.sum(1, keepdims=True)
    found.logs = np.log1p(found.X / size * np.median(size))
    found.truth = np.asarray(found.tree_distance[:, :])
    return found


def rows_of(cells, likelihood):
    return cells.logs if likelihood == "gaussian" else cells.X


@pytest.fixture(scope="module", params=["gaussian", "negative-binomial"])
def likelihood(request):
    return request.param


@pytest.fixture(scope="module", params=MODELS, ids=lambda m: m.__name__)
def fitted(request, cells, likelihood):
    model = request.param(likelihood=likelihood, **OPTIONS)
    return model.fit(rows_of(cells, likelihood)[:N], covariates={"donor": cells.batch[:N]})


def test_batches_have_no_part_in_the_map(fitted, cells, likelihood):
    truth = cells.truth[:N, :N]
    found = distance_correlation(truth, fitted.embedding_)
    plain = type(fitted)(likelihood=likelihood, **OPTIONS).fit(rows_of(cells, likelihood)[:N])
    assert found > 0.8
    assert found > distance_correlation(truth, plain.embedding_) + 0.3
    assert batch_mixing(plain.embedding_, cells.batch[:N]) < 0.2
    assert batch_mixing(fitted.embedding_, cells.batch[:N]) > 0.7
    assert list(fitted.covariate_variance_) == ["donor"]
    assert 0.3 < fitted.covariate_variance_["donor"] < 0.95


def test_new_rows_of_known_batches(fitted, cells, likelihood):
    data = rows_of(cells, likelihood)
    placed, std = fitted.transform(
        data[N:], covariates=pd.DataFrame({"donor": cells.batch[N:]}), return_std=True
    )
    both = np.concatenate([fitted.embedding_, placed])
    assert distance_correlation(cells.truth, both) > 0.78
    assert (std > 0).all()
    # alone or together
    alone = fitted.transform(data[N : N + 1], covariates=cells.batch[N : N + 1])
    np.testing.assert_allclose(alone, placed[:1], atol=1e-6)
    # rows of the fit keep their place, but not in another batch
    own = fitted.transform(data[:4], covariates=cells.batch[:4])
    np.testing.assert_allclose(own, fitted.embedding_[:4])
    other = np.where(cells.batch[:4] == "a", "b", "a")
    assert not np.allclose(fitted.transform(data[:4], covariates=other), own, atol=1e-3)


def test_decoding_for_a_batch(fitted, cells, likelihood):
    """Shifts of the genes between batches, against those of the simulation."""
    points = fitted.embedding_[::10]
    each = {b: fitted.inverse_transform(points, covariates=b) for b in "abc"}
    by_row = fitted.inverse_transform(points[:3], covariates={"donor": ["a", "b", "c"]})
    for row, b in enumerate("abc"):
        np.testing.assert_allclose(by_row[row], each[b][row], rtol=1e-6, atol=1e-9)
    weights = np.log(cells.rates._weights[:, cells.seen])
    often = cells.X.mean(0) > 1
    found = [np.expm1(x) if likelihood == "gaussian" else x for x in each.values()]
    found = [np.log(np.maximum(x, 1e-3)) for x in found]
    estimate = (found[1] - found[0]).mean(0)[often]
    assert np.corrcoef(estimate, (weights[1] - weights[0])[often])[0, 1] > 0.8
    mean, std = fitted.inverse_transform(points, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    lowest, highest = np.min(list(each.values()), 0), np.max(list(each.values()), 0)
    inside = (mean > lowest - 0.05) & (mean < highest + 0.05 * highest + 0.05)
    assert inside.mean() > 0.95


def test_a_new_batch_is_placed_by_its_own_shift(cells, likelihood):
    data, apart = rows_of(cells, likelihood), cells.batch == "c"
    model = HGPLVM(likelihood=likelihood, **OPTIONS)
    model.fit(data[~apart], covariates=cells.batch[~apart])
    placed = model.transform(data[apart], covariates=[None] * apart.sum())
    order = np.r_[np.flatnonzero(~apart), np.flatnonzero(apart)]
    both = np.concatenate([model.embedding_, placed])
    assert distance_correlation(cells.truth[np.ix_(order, order)], both) > 0.75
    wrong = model.transform(data[apart], covariates=["a"] * apart.sum())
    assert distance_correlation(
        cells.truth[np.ix_(apart, apart)], placed
    ) > 0.05 + distance_correlation(cells.truth[np.ix_(apart, apart)], wrong)


def test_a_file_keeps_covariates(fitted, cells, likelihood, tmp_path):
    fitted.save(tmp_path / "model")
    found = hgplvm.load(tmp_path / "model")
    assert found.covariate_variance_ == fitted.covariate_variance_
    new, own = rows_of(cells, likelihood)[N : N + 8], cells.batch[N : N + 8]
    np.testing.assert_array_equal(
        found.transform(new, covariates=own), fitted.transform(new, covariates=own)
    )
    points = fitted.embedding_[:3]
    np.testing.assert_array_equal(
        found.inverse_transform(points, covariates="b"),
        fitted.inverse_transform(points, covariates="b"),
    )
    assert found.score(new, covariates=own) == fitted.score(new, covariates=own)
    np.testing.assert_array_equal(found.sample(3, 0), fitted.sample(3, 0))


def test_scores_know_the_batch(fitted, cells, likelihood):
    new, own = rows_of(cells, likelihood)[N:], cells.batch[N:]
    wrong = np.roll(own, 1)
    right = fitted.score(new, covariates=own)
    assert right > fitted.score(new, covariates=np.where(wrong == own, "a", wrong)) + 5.0


@pytest.mark.parametrize("model", [*MODELS, GPLVM], ids=lambda m: m.__name__)
def test_clean_rows(tree, model):
    options = {"random_state": 0, "max_iter": 60}
    found = model(**options).fit(tree.data, covariates=tree.batch)
    metric = "euclidean" if model is GPLVM else "poincare"
    value = distance_correlation(tree.tree_distance, found.embedding_, metric=metric)
    plain = model(**options).fit(tree.plain)
    before = distance_correlation(tree.tree_distance, plain.embedding_, metric=metric)
    assert value > before - 0.05
    apart = found.inverse_transform(found.embedding_, covariates="1")
    apart = apart - found.inverse_transform(found.embedding_, covariates="0")
    expected = tree.shift[1] - tree.shift[0]
    assert np.corrcoef(apart.mean(0), expected)[0, 1] > 0.98
    assert 0.5 < found.covariate_variance_["covariate"] < 0.99


def test_the_sphere_takes_covariates(tree):
    model = SphericalGPLVM(random_state=0, max_iter=5).fit(tree.data, covariates=tree.batch)
    assert np.isfinite(model.embedding_).all()


def test_a_continuous_covariate(tree):
    rng = np.random.default_rng(1)
    age = rng.standard_normal(len(tree.plain))
    slope = 0.8 * rng.standard_normal(tree.plain.shape[1])
    data = tree.plain + age[:, None] * slope
    model = HGPLVM(random_state=0, max_iter=60).fit(data, covariates={"age": age})
    plain = HGPLVM(random_state=0, max_iter=60).fit(tree.plain)
    value = distance_correlation(tree.tree_distance, model.embedding_)
    assert value > distance_correlation(tree.tree_distance, plain.embedding_) - 0.04
    point = model.embedding_[:1]
    step = model.inverse_transform(point, covariates=1.0)
    step = step - model.inverse_transform(point, covariates={"age": 0.0})
    assert np.corrcoef(step[0], slope)[0, 1] > 0.99
    assert abs(np.linalg.norm(step) / np.linalg.norm(slope) - 1.0) < 0.1
    placed = model.transform(data[:5] + 1e-3, covariates=age[:5])
    assert np.abs(placed - model.embedding_[:5]).max() < 0.1


@pytest.mark.parametrize("model", [HGPLVM, SparseHGPLVM], ids=lambda m: m.__name__)
def test_shifts_that_differ_along_the_tree(tree, model):
    """A batch whose shift is opposite on two sides of the tree needs functions of its own."""
    side = np.where(tree.codes[:, 1] > 0, 1.0, -1.0)
    batch = tree.batch > 0
    shift = 0.2 * np.random.default_rng(3).standard_normal(tree.plain.shape[1])
    data = tree.plain + (side * batch)[:, None] * shift
    found = model(random_state=0, max_iter=80).fit(data, covariates=batch)
    assert found._model.covariates.shares[0] > 0.05
    assert distance_correlation(tree.tree_distance, found.embedding_) > 0.88
    apart = found.inverse_transform(found.embedding_, covariates="True")
    apart = apart - found.inverse_transform(found.embedding_, covariates="False")
    along = (apart @ shift) / (shift @ shift)
    assert along[side > 0].mean() > 0.5
    assert along[side < 0].mean() < -0.5


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_one_batch_is_the_old_result(tree, model):
    options = {"random_state": 0, "max_iter": 5}
    plain = model(**options).fit(tree.plain)
    with pytest.warns(UserWarning, match="has one level"):
        found = model(**options).fit(tree.plain, covariates=["x"] * len(tree.plain))
    np.testing.assert_array_equal(found.embedding_, plain.embedding_)
    assert found.log_likelihood_ == plain.log_likelihood_
    assert found.covariate_variance_ == {"covariate": 0.0}
    new = tree.plain[:3] + 0.01
    np.testing.assert_array_equal(found.transform(new, covariates=["x"] * 3), plain.transform(new))


def test_missing_entries_and_covariates(tree):
    data = tree.data.copy()
    data[np.random.default_rng(0).random(data.shape) < 0.1] = np.nan
    model = HGPLVM(random_state=0, max_iter=40).fit(data, covariates=tree.batch)
    assert distance_correlation(tree.tree_distance, model.embedding_) > 0.75
    placed = model.transform(data[:6], covariates=tree.batch[:6])
    np.testing.assert_allclose(placed, model.embedding_[:6])


def test_an_interrupted_fit_goes_on(tree, tmp_path):
    options = {"random_state": 0, "max_iter": 12}
    own = {"covariates": tree.batch}
    whole = SparseHGPLVM(**options).fit(tree.data, **own)
    path = tmp_path / "state"
    SparseHGPLVM(checkpoint=path, callback=lambda s: s.iteration == 5, **options).fit(
        tree.data, **own
    )
    model = SparseHGPLVM(checkpoint=path, **options)
    with pytest.raises(ValueError, match="the data were different"):
        model.fit(tree.data, covariates=1 - tree.batch)
    model.fit(tree.data, **own)
    np.testing.assert_array_equal(model.embedding_, whole.embedding_)


def test_views_of_models_with_batches(tree):
    model = VecchiaHGPLVM(random_state=0, max_iter=10).fit(tree.data, covariates=tree.batch)
    before = model.distances()
    model.recenter(3)
    np.testing.assert_allclose(model.distances(), before, atol=1e-7)
    assert np.allclose(model.embedding_[3], 0.0, atol=1e-9)
    time, std = model.pseudotime(return_std=True)
    assert time[3] < 1e-6
    assert (std > 0).all()
    sparse = SparseHGPLVM(random_state=0, max_iter=10).fit(tree.data, covariates=tree.batch)
    assert sparse.inducing_.shape == (50, 3)
    assert sparse.sample(4, 0).shape == (4, tree.data.shape[1])


def test_a_callback_sees_latents_of_the_space(tree):
    """Without what they carry of their batches."""
    seen = []
    model = SparseHGPLVM(random_state=0, max_iter=2, callback=lambda s: seen.append(s.latents))
    model.fit(tree.data, covariates=tree.batch)
    assert [tuple(latents.shape) for latents in seen] == [(len(tree.data), 3)] * 2


def test_a_batch_that_holds_a_branch_alone_is_said(caplog):
    found = make_binary_tree(depth=3, n_per_node=30, random_state=0)
    rng = np.random.default_rng(0)
    batch = rng.integers(2, size=len(found.data))
    deepest = found.target == found.target.max()
    branch = deepest & (found.codes == found.codes[np.flatnonzero(deepest)[0]]).all(1)
    batch[branch] = 1
    with caplog.at_level(logging.WARNING, "hgplvm"):
        HGPLVM(random_state=0, max_iter=20).fit(found.data, covariates={"plate": batch})
    assert any(
        "of the rows of plate '1' have hardly a row of another" in m for m in caplog.messages
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hgplvm"):
        mixed = rng.integers(2, size=len(found.data))
        HGPLVM(random_state=0, max_iter=20).fit(found.data, covariates={"plate": mixed})
    assert not any("hardly a row" in m for m in caplog.messages)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x: m.transform(x), "was fitted with the covariates 'covariate': pass those of"),
        (lambda m, x: m.score(x), "was fitted with the covariates"),
        (lambda m, x: m.transform(x, covariates=["z"] * 4), "has the level 'z' in row 0, which"),
        (lambda m, x: m.transform(x, covariates=["0"] * 3), "one entry for each of the 4 rows"),
        (lambda m, x: m.inverse_transform([[0, 0]], covariates="z"), "has the level 'z' in row 0"),
    ],
)
def test_bad_calls_end_in_a_sentence(tree, call, words):
    model = SparseHGPLVM(random_state=0, max_iter=2).fit(tree.data, covariates=tree.batch)
    with pytest.raises(ValueError, match=words):
        call(model, tree.data[:4] + 0.01)


def test_a_model_without_covariates_takes_none(tree):
    model = SparseHGPLVM(random_state=0, max_iter=2).fit(tree.plain)
    for call in (
        lambda: model.transform(tree.plain[:2], covariates=["a", "b"]),
        lambda: model.inverse_transform([[0, 0]], covariates="a"),
    ):
        with pytest.raises(ValueError, match="was fitted without covariates: leave them out"):
            call()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_the_gpu_agrees(tree, model):
    options = {"random_state": 0, "max_iter": 3}
    found = [
        model(device=device, **options).fit(tree.data, covariates={"batch": tree.batch})
        for device in ("cpu", "cuda")
    ]
    values = [distance_correlation(tree.tree_distance, fitted.embedding_) for fitted in found]
    assert abs(values[0] - values[1]) < 0.1
    for fitted in found:
        own = {"batch": tree.batch[:9]}
        placed = fitted.transform(tree.data[:9] + 0.01, covariates=own)
        assert np.isfinite(placed).all()
        assert np.isfinite(fitted.transform(tree.data[:9] + 0.01, covariates=[None] * 9)).all()
        assert np.isfinite(fitted.inverse_transform(placed, covariates=2)).all()


def test_many_batches_and_two_kinds_of_them(cells):
    """Levels of one row, crossed covariates, and more effects than curvatures are whole for."""
    rng = np.random.default_rng(0)
    plate = rng.integers(30, size=N).astype(str)
    plate[0] = "alone"
    covariates = pd.DataFrame({"donor": cells.batch[:N], "plate": plate, "age": rng.random(N)})
    model = SparseHGPLVM(likelihood="poisson", random_state=0, max_iter=10)
    model.fit(cells.X[:N], covariates=covariates)
    assert batch_mixing(model.embedding_, cells.batch[:N]) > 0.7
    assert model.covariate_variance_["donor"] > 2 * model.covariate_variance_["plate"]
    new = model.transform(cells.X[N:], covariates=covariates[: len(cells.X) - N])
    assert np.isfinite(new).all()
    part = model.inverse_transform(model.embedding_[:3], covariates={"plate": "3", "age": 0.5})
    assert np.isfinite(part).all()


@pytest.mark.parametrize("kind", ["category", "object", "float"])
def test_batches_that_are_written_as_numbers(tree, kind):
    """A column of categories is one of batches, whatever the categories are."""
    batch = pd.Series(tree.batch.astype(float))
    batch = batch if kind == "float" else batch.astype(kind)
    if kind == "object":
        batch = batch.map(str)
    model = SparseHGPLVM(random_state=0, max_iter=2).fit(tree.data, covariates={"b": batch})
    levels = model._model.covariates.coding.parts[0].levels
    assert (levels is None) == (kind == "float")


def test_missing_batches_of_new_rows(tree):
    model = SparseHGPLVM(random_state=0, max_iter=2).fit(tree.data, covariates=tree.batch)
    with pytest.raises(
        ValueError, match=r"a missing value in row 1: fill it in. For rows of a new"
    ):
        model.transform(tree.data[:2] + 0.01, covariates=[1.0, np.nan])
    assert np.isfinite(model.transform(tree.data[:2] + 0.01, covariates=[1, None])).all()
