"""Models of counts, from fit to file."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats

import hgplvm
from hgplvm import GPLVM, HGPLVM, BayesianHGPLVM, SparseHGPLVM, VecchiaHGPLVM
from hgplvm.datasets import make_cells
from hgplvm.metrics import distance_correlation

MODELS = [HGPLVM, SparseHGPLVM, BayesianHGPLVM, VecchiaHGPLVM]
OPTIONS = {"random_state": 0, "max_iter": 30}


@pytest.fixture(scope="module")
def cells():
    found = make_cells(
        260, 120, topology="bifurcation", informative=0.7, depth=2000, random_state=2
    )
    seen = np.asarray(found.counts.sum(0)).ravel() > 0
    found.X = sp.csr_matrix(found.counts[:, seen])
    found.true = np.asarray(found.rates)[:, seen]
    found.sizes = np.asarray(found.X.sum(1)).ravel()
    return found


@pytest.fixture(scope="module", params=MODELS, ids=lambda m: m.__name__)
def fitted(request, cells):
    return request.param(likelihood="negative-binomial", **OPTIONS).fit(cells.X[:200])


def test_the_map_follows_the_tree(fitted, cells):
    truth = np.asarray(cells.tree_distance[:, :])[:200, :200]
    assert distance_correlation(truth, fitted.embedding_) > 0.85


def test_decoded_rates_are_unbiased(fitted, cells):
    """Of cells of median size, against the rates that the cells were drawn from."""
    rates, std = fitted.inverse_transform(fitted.embedding_, return_std=True)
    size = cells.sizes[:200] / np.median(cells.sizes[:200])
    decoded = (rates * size[:, None]).sum(0)
    expected = (cells.true[:200] * np.asarray(cells.expected_size)[:200, None]).sum(0)
    often = expected > 50
    assert abs(np.log(decoded[often] / expected[often]).mean()) < 0.05
    assert (
        np.corrcoef(np.log(rates[:, often]).ravel(), np.log(cells.true[:200, often]).ravel())[0, 1]
        > 0.9
    )
    assert (std > 0).all()
    assert (std**2 >= 0.99 * rates).all()  # no less than Poisson counts have


def test_new_cells_are_placed_among_the_others(fitted, cells):
    placed, std = fitted.transform(cells.X[200:], return_std=True)
    both = np.concatenate([fitted.embedding_, placed])
    truth = np.asarray(cells.tree_distance[:, :])
    assert distance_correlation(truth, both) > 0.83
    assert (std > 0).all()
    dense = fitted.transform(cells.X[200:].toarray())
    np.testing.assert_allclose(dense, placed, atol=1e-9)
    # cells of the fit keep their place
    np.testing.assert_allclose(fitted.transform(cells.X[:5]), fitted.embedding_[:5])


def test_scores_are_log_probabilities_of_counts(fitted, cells):
    new = cells.X[200:]
    found = fitted.score(new)
    total = cells.sizes[200:, None]
    share = np.asarray(cells.X[:200].sum(0)).ravel() / cells.X[:200].sum()
    null = stats.poisson.logpmf(new.toarray(), total * share).sum(1).mean()
    rates = fitted.inverse_transform(fitted.transform(new))
    mean = rates / rates.sum(1, keepdims=True) * total
    phi = fitted.dispersion_
    plugged = stats.nbinom.logpmf(new.toarray(), 1 / phi, 1 / (1 + phi * mean)).sum(1).mean()
    assert null < found < 0
    assert abs(found - plugged) < 0.05 * abs(plugged)


def test_samples_are_counts_like_those_of_the_fit(fitted, cells):
    drawn = fitted.sample(400, random_state=0)
    assert drawn.shape == (400, cells.X.shape[1])
    assert (drawn == np.rint(drawn)).all()
    assert drawn.min() >= 0
    mean = np.asarray(cells.X[:200].mean(0)).ravel()
    often = mean > 1
    assert abs(np.log(drawn.mean(0)[often] / mean[often]).mean()) < 0.15
    depth = np.log(np.maximum(drawn.sum(1), 1))
    assert 0.6 < depth.std() / np.log(cells.sizes[:200]).std() < 1.6


def test_dispersions_and_noise_are_reported(fitted, cells):
    n, g = 200, cells.X.shape[1]
    assert fitted.noise_rows_.shape == (n,)
    assert fitted.noise_columns_.shape == (g,)
    assert fitted.dispersion_.shape == (g,)
    assert 0.05 < np.median(fitted.dispersion_) < 0.6
    size = cells.sizes[:200]
    assert np.corrcoef(np.log(size), np.log(fitted.noise_rows_))[0, 1] < -0.6
    assert fitted.n_directions_ < g


def test_a_file_keeps_everything(fitted, cells, tmp_path):
    fitted.save(tmp_path / "model")
    found = hgplvm.load(tmp_path / "model")
    np.testing.assert_array_equal(found.dispersion_, fitted.dispersion_)
    new = cells.X[200:210]
    np.testing.assert_array_equal(found.transform(new), fitted.transform(new))
    np.testing.assert_array_equal(found.sample(3, 0), fitted.sample(3, 0))
    assert found.score(new) == fitted.score(new)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_array])
def test_sparse_and_dense_counts_are_the_same(cells, likelihood, kind):
    dense = cells.X[:80].toarray()
    options = {"likelihood": likelihood, "random_state": 0, "max_iter": 5}
    expected = SparseHGPLVM(n_inducing=20, **options).fit_transform(dense)
    found = SparseHGPLVM(n_inducing=20, **options).fit_transform(kind(dense))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_cells_beyond_the_sample_join_it(cells, monkeypatch):
    monkeypatch.setattr("hgplvm._init.counts.SAMPLE_CELLS", 120)
    model = SparseHGPLVM(likelihood="poisson", **OPTIONS).fit(cells.X)
    assert distance_correlation(cells.tree_distance, model.embedding_) > 0.75


def test_missing_counts(cells):
    data = cells.X[:150].toarray().astype(float)
    gaps = data.copy()
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.1] = np.nan
    options = {"likelihood": "negative-binomial", **OPTIONS}
    truth = np.asarray(cells.tree_distance[:, :])[:150, :150]
    model = HGPLVM(**options).fit(gaps)
    assert distance_correlation(truth, model.embedding_) > 0.8
    placed = model.transform(gaps[:10] + 0.0 * data[:10])
    assert np.isfinite(placed).all()


def test_flat_models_and_single_precision(cells):
    for model in (GPLVM(likelihood="poisson", **OPTIONS), HGPLVM(dtype="float32", **OPTIONS)):
        model.set_params(likelihood="poisson")
        points = model.fit_transform(cells.X[:100])
        assert np.isfinite(points).all()
        assert np.isfinite(model.transform(cells.X[100:105])).all()


def test_an_interrupted_fit_goes_on(cells, tmp_path):
    options = {"likelihood": "negative-binomial", "random_state": 0, "max_iter": 14}
    whole = HGPLVM(**options).fit(cells.X[:90])
    path = tmp_path / "state"
    stop = HGPLVM(checkpoint=path, callback=lambda s: s.iteration == 7, **options)
    stop.fit(cells.X[:90])
    model = HGPLVM(checkpoint=path, **options).fit(cells.X[:90])
    np.testing.assert_allclose(model.embedding_, whole.embedding_, atol=1e-12)
    assert model.log_likelihood_ == pytest.approx(whole.log_likelihood_, rel=1e-12)
    with pytest.raises(ValueError, match="the data were different"):
        HGPLVM(checkpoint=path, **options).fit(cells.X[1:91])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x - 1.0, "needs raw counts: whole numbers from 0. Got negative numbers, such"),
        (lambda x: x + 0.5, "Got numbers that are not whole, such as .*likelihood='gaussian'"),
        (lambda x: x * 1e17, "too large to be exact"),
        (lambda x: x * (np.arange(len(x)) != 3)[:, None], "finds no counts in row 3: leave such"),
    ],
)
def test_what_are_no_counts_is_refused_in_a_sentence(cells, change, words):
    data = cells.X[:40].toarray().astype(float)
    model = HGPLVM(likelihood="poisson", **OPTIONS)
    with pytest.raises(ValueError, match=words):
        model.fit(change(data))
    model.fit(data)
    with pytest.raises(ValueError, match=words):
        model.transform(change(data))


def test_a_gene_or_a_new_cell_of_which_nothing_is_known(cells):
    data = cells.X[:60].toarray().astype(float)
    gap = data.copy()
    gap[:, 3] = np.nan
    model = HGPLVM(likelihood="poisson", random_state=0, max_iter=3)
    with pytest.raises(ValueError, match=r"no observed value in column 3. Drop the column"):
        model.fit(gap)
    model.fit(data)
    unknown = np.full((2, data.shape[1]), np.nan)
    unknown[0] = data[5] + 1.0
    placed, std = model.transform(unknown, return_std=True)
    assert np.isfinite(placed).all()
    assert std[1].mean() > 1.5 * std[0].mean()
    sparse = sp.csr_matrix(data)
    sparse.data[4] = np.nan
    with pytest.raises(ValueError, match=r"missing entries .NaN. in a sparse matrix of counts"):
        model.transform(sparse)


def test_the_parameter_may_change_after_the_fit(cells):
    model = HGPLVM(likelihood="poisson", random_state=0, max_iter=3).fit(cells.X[:60])
    before = model.transform(cells.X[60:64])
    model.set_params(likelihood="gaussian")
    np.testing.assert_array_equal(model.transform(cells.X[60:64]), before)


@pytest.mark.parametrize(
    "option", [{"optimizer": "rgd"}, {"init": "random"}, {"noise_floor": 0.1}, {"noise": "uniform"}]
)
def test_options_that_do_not_go_with_counts(cells, option):
    with pytest.raises(ValueError, match="knows the noise of counts, and takes no"):
        HGPLVM(likelihood="poisson", **option).fit(cells.X[:40])


def test_an_unknown_likelihood(cells):
    with pytest.raises(ValueError, match=r"'likelihood'.*'negative-binomial'.*Got 'binomial'"):
        HGPLVM(likelihood="binomial").fit(cells.X[:40])


@pytest.mark.parametrize(
    "data",
    [
        np.ones((2, 3)),
        np.eye(4),
        np.ones((30, 1)) * 5,
        np.full((30, 25), 2.0),
        np.repeat(np.arange(1.0, 31.0)[:, None], 25, axis=1),
        np.c_[np.ones((30, 24)), np.r_[np.zeros(29), 100_000.0]],
        np.repeat(np.random.default_rng(0).poisson(0.4, (10, 60)) + np.eye(10, 60) * 9, 12, axis=0),
    ],
    ids=["two", "identity", "one column", "constant", "depth alone", "one huge count", "copies"],
)
@pytest.mark.parametrize("kind", [HGPLVM, SparseHGPLVM], ids=lambda m: m.__name__)
@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
@pytest.mark.filterwarnings("ignore:n_inducing")
def test_odd_counts_get_a_finite_answer(data, likelihood, kind):
    model = kind(likelihood=likelihood, random_state=0, max_iter=8).fit(data)
    assert model.log_likelihood_ < 1.0  # a log probability of counts
    assert np.isfinite(model.embedding_).all()
    assert (np.linalg.norm(model.embedding_, axis=1) < 1).all()
    assert np.isfinite(model.inverse_transform(model.embedding_)).all()
    assert np.isfinite(model.score(data))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_the_gpu_agrees(cells, model):
    options = {"likelihood": "negative-binomial", "random_state": 0, "max_iter": 3}
    batch = np.arange(200) % 2
    found = [
        model(device=device, **options).fit(cells.X[:200], covariates=batch)
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(found[1].log_likelihood_, found[0].log_likelihood_, rtol=1e-3)
    truth = np.asarray(cells.tree_distance[:, :])[:200, :200]
    for fitted in found:
        assert distance_correlation(truth, fitted.embedding_) > 0.8
        placed = fitted.transform(cells.X[200:], covariates=[0] * 60, return_std=True)
        assert np.isfinite(placed[0]).all()
        assert np.isfinite(fitted.score(cells.X[200:], covariates=[None] * 60))
        assert np.isfinite(fitted.inverse_transform(fitted.embedding_[:3], covariates=1)).all()
        assert fitted.sample(4, 0).shape == (4, cells.X.shape[1])
