"""Noise that differs between rows and columns, and directions of signal, through the estimators."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import hgplvm
from hgplvm.datasets import make_branching, make_cells

MODELS = [
    hgplvm.HGPLVM,
    hgplvm.SparseHGPLVM,
    hgplvm.BayesianHGPLVM,
    hgplvm.VecchiaHGPLVM,
    hgplvm.GPLVM,
    hgplvm.BayesianGPLVM,
]
CELLS = make_cells(260, 150, topology="bifurcation", informative=0.5, depth=1500, random_state=4)
COUNTS = CELLS.counts.toarray().astype(float)
COUNTS = COUNTS[:, COUNTS.sum(0) > 0]
TOTAL = COUNTS.sum(1, keepdims=True)
ROWS = np.log1p(COUNTS / TOTAL * np.median(TOTAL))
TRAIN, NEW = ROWS[:220], ROWS[220:]
TRUTH = np.asarray(CELLS.tree_distance)[:220, :220]
FITTED = {}


@pytest.fixture(params=MODELS, ids=lambda kind: kind.__name__)
def model(request):
    """A model that is fitted once, for tests that do not change it."""
    if request.param not in FITTED:
        FITTED[request.param] = request.param(random_state=0, max_iter=60).fit(TRAIN)
    return FITTED[request.param]


def correlation(model, truth=TRUTH):
    above = np.triu_indices(len(truth), 1)
    return np.corrcoef(model.distances()[: len(truth), : len(truth)][above], truth[above])[0, 1]


def test_the_map_follows_the_tree(model):
    assert correlation(model) > 0.85
    if isinstance(model, hgplvm.HGPLVM):
        uniform = type(model)(noise="uniform", random_state=0, max_iter=30).fit(TRAIN)
        assert correlation(model) > correlation(uniform) + 0.03
        assert uniform.n_directions_ == TRAIN.shape[1]
        assert (uniform.noise_rows_ == 1).all()


def test_shares_of_the_noise_multiply_to_that_of_an_entry(model):
    """Rows of few counts are noisy; and what is left of the data has the noise that is said."""
    assert model.noise_rows_.shape == (len(TRAIN),)
    assert model.noise_columns_.shape == (TRAIN.shape[1],)
    assert np.isclose(model.noise_rows_.mean(), 1.0)
    assert spearmanr(model.noise_rows_, TOTAL[:220, 0]).statistic < -0.7
    assert np.isclose(model.noise_columns_.mean(), model.noise_variance_)
    assert 2 <= model.n_directions_ <= 12
    left = np.square(TRAIN - model.inverse_transform(model.embedding_))
    ratio = left / (model.noise_rows_[:, None] * model.noise_columns_)
    assert 0.7 < ratio.mean() < 1.4
    assert spearmanr(left.mean(0), model.noise_columns_).statistic > 0.8


@pytest.mark.parametrize("kind", [hgplvm.BayesianHGPLVM, hgplvm.VecchiaHGPLVM])
def test_shallow_cells_have_uncertain_positions(kind):
    model = kind(random_state=0, max_iter=60).fit(TRAIN)
    std = np.square(model.posterior_std_).mean(1)
    assert spearmanr(std, TOTAL[:220, 0]).statistic < -0.3
    # a new row as well: the same entries, of a cell with a tenth of the counts
    rng = np.random.default_rng(0)
    thin = rng.binomial(COUNTS[220:].astype(int), 0.1)
    shallow = np.log1p(thin / np.maximum(thin.sum(1, keepdims=True), 1) * np.median(TOTAL))
    wide, narrow = (model.transform(rows, return_std=True)[1] for rows in (shallow, NEW))
    assert np.median(wide) > 1.3 * np.median(narrow)


def test_rows_that_were_seen_stay_and_new_ones_find_their_place(model):
    assert np.array_equal(model.transform(TRAIN[:9]), model.embedding_[:9])
    placed = model.transform(NEW)
    alone = model.transform(NEW[3:4])
    assert np.allclose(placed[3], alone[0], atol=1e-6)
    both = np.concatenate([model.embedding_, placed])
    if hasattr(model, "lorentz_"):
        radius = np.arccosh(np.maximum(1.0, _cosh(both)))
    else:
        radius = np.linalg.norm(both[:, None] - both[None], axis=-1)
    truth = np.asarray(CELLS.tree_distance)[220:, :220]
    found = radius[220:, :220]
    assert np.corrcoef(found.ravel(), truth.ravel())[0, 1] > 0.75


def _cosh(ball):
    square = np.square(ball).sum(1)
    gap = np.square(ball[:, None] - ball[None]).sum(-1)
    return 1.0 + 2.0 * gap / ((1.0 - square)[:, None] * (1.0 - square)[None])


def test_decoded_intervals_hold_their_share_of_new_entries(model):
    mean, std = model.inverse_transform(model.transform(NEW), return_std=True)
    assert mean.shape == std.shape == NEW.shape
    share = (np.abs(NEW - mean) < 1.645 * std).mean()
    assert 0.85 < share < 0.97


def test_the_score_is_a_density_of_whole_rows(model):
    """Better than that of the columns' own normal distributions; and it scales as one."""
    normal = -0.5 * (
        np.log(2 * np.pi * TRAIN.var(0)) + np.square(NEW - TRAIN.mean(0)) / TRAIN.var(0)
    )
    assert model.score(NEW) > normal.sum(1).mean()
    assert np.isclose(model.score(TRAIN), model.log_likelihood_ / len(TRAIN), rtol=0.2)


def test_missing_entries(model):
    gaps = np.random.default_rng(0).random(TRAIN.shape) < 0.2
    with_gaps = type(model)(random_state=0, max_iter=30).fit(np.where(gaps, np.nan, TRAIN))
    assert correlation(with_gaps) > 0.8
    placed = with_gaps.transform(np.where(gaps[:5], np.nan, NEW[:5]))
    assert np.isfinite(placed).all()
    restored = with_gaps.inverse_transform(with_gaps.embedding_)
    error = np.square(restored - TRAIN)[gaps].mean()
    assert error < 0.95 * np.square(TRAIN.mean(0) - TRAIN)[gaps].mean()


def test_gaps_are_no_noise_of_entries():
    """Scores of incomplete rows are less sure; their entries are as noisy as before."""
    gaps = np.random.default_rng(0).random(TRAIN.shape) < 0.3
    gaps[110:] = False
    model = hgplvm.HGPLVM(random_state=0, max_iter=10).fit(np.where(gaps, np.nan, TRAIN))
    assert np.isclose(model.noise_rows_.mean(), 1.0)
    whole = hgplvm.HGPLVM(random_state=0, max_iter=10).fit(TRAIN).noise_rows_
    shares = model.noise_rows_[:110].mean() / whole[:110].mean()
    assert 0.85 < shares < 1.15


def test_a_row_of_which_nothing_is_known(model):
    nothing = np.full((1, TRAIN.shape[1]), np.nan)
    assert model.score(nothing) == 0.0
    assert np.isfinite(model.transform(nothing)).all()


def test_files_keep_all_of_it(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = hgplvm.load(tmp_path / "model")
    for name in ("noise_rows_", "noise_columns_", "n_directions_"):
        assert np.array_equal(getattr(loaded, name), getattr(model, name))
    assert np.array_equal(loaded.transform(NEW[:4]), model.transform(NEW[:4]))
    assert loaded.score(NEW) == model.score(NEW)
    decoded = [m.inverse_transform(m.embedding_[:3], return_std=True) for m in (loaded, model)]
    assert np.array_equal(decoded[0], decoded[1])


@pytest.mark.parametrize("kind", [hgplvm.HGPLVM, hgplvm.BayesianHGPLVM, hgplvm.VecchiaHGPLVM])
def test_an_interrupted_fit_goes_on_bit_by_bit(kind, tmp_path):
    whole = kind(random_state=0, max_iter=8).fit(TRAIN)
    options = {"random_state": 0, "max_iter": 8, "checkpoint": tmp_path / "fit"}
    kind(callback=lambda state: state.iteration == 4, **options).fit(TRAIN)
    resumed = kind(**options).fit(TRAIN)
    assert np.array_equal(resumed.embedding_, whole.embedding_)
    assert np.array_equal(resumed.noise_rows_, whole.noise_rows_)


@pytest.mark.parametrize("kind", [hgplvm.HGPLVM, hgplvm.BayesianHGPLVM])
@pytest.mark.parametrize("noise", [0.3, 2.0], ids=["clean", "noisy"])
def test_a_far_outlier_is_harmless(kind, noise):
    tree = make_branching(200, 50, depth=3, noise=noise, random_state=1)
    truth = np.asarray(tree.tree_distance)
    far = 1e3 * np.random.default_rng(0).standard_normal((1, 50))
    before = kind(random_state=0).fit(tree.data)
    after = kind(random_state=0).fit(np.concatenate([tree.data, far]))
    assert np.isfinite(after.embedding_).all()
    assert correlation(after, truth) > correlation(before, truth) - 0.05


def test_noisy_data_take_few_steps_of_the_models_that_drift():
    model = hgplvm.SparseHGPLVM(random_state=0).fit(TRAIN)
    assert model.n_iter_ == 50
    assert model.stop_ == "ENOUGH"
    assert model.stop_reason_ == "made the 50 steps that a fit of this model to noisy data takes"
    fewer = hgplvm.SparseHGPLVM(random_state=0, max_iter=7).fit(TRAIN)
    assert (fewer.n_iter_, fewer.stop_) == (7, "MAX_ITER")


def test_single_precision():
    model = hgplvm.HGPLVM(random_state=0, max_iter=30, dtype="float32").fit(TRAIN)
    assert correlation(model) > 0.85


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "uniform"},
        {"noise_floor": 0.1},
        {"optimizer": "rgd", "max_iter": 2},
        {"init": "random", "max_iter": 2},
    ],
    ids=str,
)
def test_what_asks_for_uniform_noise(options):
    model = hgplvm.HGPLVM(random_state=0, **{"max_iter": 3, **options}).fit(TRAIN)
    assert model.n_directions_ == TRAIN.shape[1]
    assert np.unique(model.noise_columns_).size == 1


@pytest.mark.parametrize("noise", ["row", None, 0.1])
def test_bad_noise_is_refused(noise):
    with pytest.raises(ValueError, match=r"'noise' parameter of HGPLVM must be one of 'auto', 'un"):
        hgplvm.HGPLVM(noise=noise).fit(TRAIN)
