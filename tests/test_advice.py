"""What is said of data of which no good map can be made, and of maps that show depth."""

import warnings
from itertools import pairwise

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import hgplvm
from hgplvm._advice import depth_share
from hgplvm.errors import DataWarning, LongFitWarning

CHEAP = {"init": "pca", "noise_floor": 0.1, "max_iter": 2, "random_state": 0}
ROWS = np.random.default_rng(0).standard_normal((40, 5))


def said(function):
    """Run something, and return what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in caught if issubclass(w.category, DataWarning)]


def test_a_column_with_all_the_variance_is_named():
    large = ROWS * [1, 1, 1e6, 1, 1]
    (line,) = said(lambda: hgplvm.HGPLVM(**CHEAP).fit(large))
    assert line.startswith("HGPLVM: column 2 has 100% of the variance of all 5 columns")
    frame = pd.DataFrame(large, columns=list("abcde"))
    (line,) = said(lambda: hgplvm.HGPLVM(**CHEAP).fit(frame))
    assert "column 'c' has" in line
    adata = anndata.AnnData(large)
    adata.var_names = list("abcde")
    lines = said(lambda: hgplvm.tl.hgplvm(adata, **CHEAP))
    assert any("column 'c' has" in line for line in lines)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS * [1, 2, 4, 3, 1],
        ROWS[:, :1],
        1e-100 * ROWS,
        1e100 * ROWS,
        np.where(np.random.default_rng(1).uniform(size=ROWS.shape) < 0.2, np.nan, ROWS),
    ],
)
def test_nothing_is_said_of_ordinary_data(rows):
    n_components = min(2, rows.shape[1])
    assert not said(lambda: hgplvm.HGPLVM(n_components, **CHEAP).fit(rows))


def test_rows_that_are_all_the_same():
    (line,) = said(lambda: hgplvm.HGPLVM(**CHEAP).fit(np.ones((10, 3))))
    assert "rows that are all the same: their positions mean nothing" in line


@pytest.mark.parametrize(("n", "d", "q"), [(40, 1, 2), (3, 5, 3)])
def test_more_dimensions_than_data_span(n, d, q):
    (line,) = said(lambda: hgplvm.HGPLVM(q, **CHEAP).fit(ROWS[:n, :d]))
    assert f"n_components={q} is more than {n} rows and {d} column" in line


# --- depth ----------------------------------------------------------------------------------


def test_the_share_of_depth_is_that_of_a_known_function():
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.6, 0.6, (2000, 2))
    for noise, wanted in ((0.0, 1.0), (0.1, 0.75), (1.0, 0.03)):
        logs = 0.5 * points[:, 0] + noise * rng.standard_normal(2000)
        truth = (0.25 * 0.12) / (0.25 * 0.12 + noise**2)
        assert truth == pytest.approx(wanted, abs=0.05)
        assert depth_share(points, np.exp(logs)) == pytest.approx(truth, abs=0.06)


def test_sizes_that_say_nothing():
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
    assert depth_share(points, np.ones(200)) == 0.0
    assert depth_share(points[:50], np.exp(points[:50, 0])) == 0.0  # too few
    assert depth_share(np.zeros((200, 2)), np.exp(points[:, 0])) < 0.1  # all at one place
    holes = np.where(np.arange(200) < 20, np.nan, np.exp(points[:, 0]))
    assert depth_share(points, holes) > 0.9


def deep(n=240, genes=60):
    """Cells that differ in depth alone."""
    rng = np.random.default_rng(0)
    depth = np.exp(rng.uniform(-1.5, 1.5, n))
    return rng.poisson(20.0 * depth[:, None] * rng.uniform(0.5, 2.0, genes)).astype(float)


def test_a_map_that_shows_library_size_is_said_to():
    counts = deep()
    adata = anndata.AnnData(np.log1p(counts))
    adata.obs["total_counts"] = counts.sum(1)
    adata.obsm["X_pca"] = counts - counts.mean(0)
    for options in ({"use_rep": "X_pca"}, {"normalize": False, "noise": "uniform"}):
        lines = said(lambda options=options: hgplvm.tl.hgplvm(adata, max_iter=5, **options))
        (line,) = [line for line in lines if "library size" in line]
        assert "explain 9" in line or "explain 100%" in line


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_what_is_said_of_sparse_rows_and_of_counts(kind):
    counts = np.random.default_rng(0).poisson(4.0, (40, 4)).astype(float)
    counts[:, 0] = np.round(counts[:, 0] * 1000)
    fit = {"max_iter": 2, "likelihood": "negative-binomial", "random_state": 0}
    assert not said(lambda: hgplvm.HGPLVM(**fit).fit(kind(counts)))  # no trouble for counts
    (line,) = said(lambda: hgplvm.HGPLVM(5, **fit).fit(kind(counts)))
    assert "n_components=5 is more than 40 rows and 4 columns" in line
    (line,) = said(lambda: hgplvm.HGPLVM(**fit).fit(kind(np.full((30, 4), 3.0))))
    assert "rows that are all the same" in line
    (line,) = said(lambda: hgplvm.HGPLVM(**CHEAP).fit(kind(counts)))
    assert "column 0 has" in line


def test_depth_that_a_likelihood_of_counts_knows_is_another_sentence():
    from hgplvm._advice import warn_of_depth

    points = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))
    sizes = np.exp(3.0 * points[:, 0])
    (raw,) = said(lambda: warn_of_depth("tl.hgplvm", points, sizes))
    (counts,) = said(lambda: warn_of_depth("HGPLVM", points, sizes, counts=True))
    assert "Fit raw counts as they are" in raw
    assert "knows the depth of each cell, so kinds of cells seem to differ" in counts


def test_counts_fitted_as_counts_do_not_show_their_size():
    adata = anndata.AnnData(deep())
    lines = said(lambda: hgplvm.tl.hgplvm(adata, max_iter=5))
    assert not [line for line in lines if "library size" in line]


# --- long fits ------------------------------------------------------------------------------


def test_a_long_fit_is_announced_with_time_memory_and_a_quicker_model(monkeypatch):
    from hgplvm.estimators import estimate

    monkeypatch.setattr(estimate, "_slowness", lambda: 1.0)
    with pytest.warns(LongFitWarning) as caught:
        estimate.warn_if_long(
            "HGPLVM",
            "exact",
            3000,
            50,
            n_components=2,
            counts=False,
            max_iter=300,
            device="cpu",
            verbose=False,
        )
    (line,) = [str(w.message) for w in caught]
    assert line.startswith("HGPLVM will take about 60 seconds and ")
    assert "50 columns; VecchiaHGPLVM (model='vecchia') would take about" in line
    assert line.endswith("verbose=1 shows a progress bar.")


def test_a_short_fit_is_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hgplvm.HGPLVM(**CHEAP).fit(ROWS)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", ["exact", "sparse", "bayesian", "vecchia"])
def test_estimates_grow_with_rows_columns_and_steps(kind, device, monkeypatch):
    from hgplvm.estimators import estimate as module

    monkeypatch.setattr(module, "_slowness", lambda: 1.0)

    def of(n, d=50, steps=300):
        return module.estimate(kind, n, d, max_iter=steps, device=device)

    sizes = [of(n) for n in (2, 500, 5000, 50_000, 10**6)]
    assert all(a.seconds <= b.seconds for a, b in pairwise(sizes))
    assert all(a.memory < b.memory for a, b in pairwise(sizes))
    assert of(5000, 2000).seconds > of(5000).seconds
    assert of(5000, steps=30).seconds < of(5000).seconds < of(5000, steps=900).seconds
    wide = module.estimate(kind, 5000, 50, n_components=20, device=device)
    assert wide.seconds > 5 * of(5000).seconds
    text = str(of(10**6))
    assert "of memory" in text
    assert "nan" not in text


def test_times_and_sizes_in_words():
    from hgplvm.estimators.estimate import Estimate

    for seconds, memory, words in (
        (12.0, 2e8, "about 10 seconds and 200 MB of memory"),
        (150.0, 1.5e9, "about 2 minutes and 1.5 GB of memory"),
        (9000.0, 3e10, "about 2.5 hours and 30.0 GB of memory"),
        (6e5, 4e13, "about 7 days and 40 TB of memory"),
    ):
        assert str(Estimate(seconds, memory)) == words
