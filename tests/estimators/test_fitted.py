"""New rows to latents, latents to rows: all models, as a user calls them."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hgplvm
from hgplvm import geometry
from hgplvm.datasets import make_binary_tree
from hgplvm.manifolds import Hyperbolic
from hgplvm.objectives import predictive
from tests.gp import on

MODELS = {
    name: getattr(hgplvm, name)(random_state=0, max_iter=60, **options)
    for kind, options in {
        "": {},
        "Sparse": {"n_inducing": 25},
        "Bayesian": {"n_inducing": 25},
        "Vecchia": {"n_neighbors": 12},
    }.items()
    for name in (f"{kind}HGPLVM", f"{kind}GPLVM")
}
TREE = make_binary_tree(4, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(TREE.data))
NEW, OLD = ORDER[:60], ORDER[60:]
FITTED: dict[str, object] = {}


# a start that is quick to find, where the test is about something else
QUICK = {"init": "pca", "noise_floor": 0.02}


def fitted_once(name):
    if name not in FITTED:
        FITTED[name] = MODELS[name].fit(TREE.data[OLD])
    return FITTED[name]


@pytest.fixture(params=MODELS)
def model(request):
    """A model that is fitted once, for tests that do not change it."""
    return fitted_once(request.param)


# --- transform ------------------------------------------------------------------------------


def test_new_rows_land_among_their_own_kind(model):
    placed = model.transform(TREE.data[NEW])
    assert placed.shape == (60, 2)
    both = np.concatenate([placed, model.embedding_])
    apart = model.distances(both)[:60, 60:]
    kin = TREE.target[OLD][apart.argmin(1)] == TREE.target[NEW]
    assert kin.mean() > 0.9


def test_training_rows_are_where_the_fit_put_them(model):
    assert np.array_equal(model.transform(TREE.data[OLD]), model.embedding_)
    mixed = model.transform(np.concatenate([TREE.data[NEW[:3]], TREE.data[OLD[[7, 2]]]]))
    assert np.array_equal(mixed[3:], model.embedding_[[7, 2]])
    assert np.allclose(mixed[:3], model.transform(TREE.data[NEW[:3]]), atol=1e-6)


def test_rows_next_to_training_rows_are_placed_next_to_them(model):
    """The placing itself, and not the memory of rows, brings them home."""
    jitter = 1e-7 * np.random.default_rng(0).standard_normal((len(OLD), TREE.data.shape[1]))
    placed = model.transform(TREE.data[OLD] + jitter)
    assert not np.array_equal(placed, model.embedding_)
    apart = model.distances(np.concatenate([model.embedding_, placed]))[: len(OLD), len(OLD) :]
    assert np.median(apart.diagonal()) < 0.05 * np.median(apart)


def test_missing_entries_do_not_count(model):
    rows = TREE.data[NEW].copy()
    rows[np.random.default_rng(1).random(rows.shape) < 0.2] = np.nan
    placed = model.transform(rows)
    assert np.isfinite(placed).all()
    whole = model.transform(TREE.data[NEW])
    apart = model.distances(np.concatenate([placed, whole]))
    assert np.median(apart[:60, 60:].diagonal()) < 0.3 * np.median(apart)


def test_a_row_of_nothing_goes_to_the_prior(model):
    nothing = np.full((1, TREE.data.shape[1]), np.nan)
    placed, std = model.transform(nothing, return_std=True)
    scale = getattr(model, "prior_scale", None)
    if scale is None:  # the centre and the spread of the latents themselves
        away = model.pseudotime(placed[0])
        scale = np.sqrt(np.mean(away**2) / 2)
        assert np.allclose(placed, 0.0, atol=1e-6)  # center="mean"
    assert std == pytest.approx(np.full((1, 2), scale), rel=1e-4)


def test_positions_come_with_how_sure_they_are(model):
    rows = TREE.data[NEW].copy()
    placed, sure = model.transform(rows, return_std=True)
    assert np.allclose(placed, model.transform(rows))
    assert sure.shape == (60, 2)
    assert (sure > 0).all()
    rows[:, 3:] = np.nan
    unsure = model.transform(rows, return_std=True)[1]
    assert np.median(unsure) > 1.1 * np.median(sure)


def test_frames_turn_with_the_root():
    """Deviations are told in the frames that users see, wherever the root is."""
    model = hgplvm.VecchiaHGPLVM(**QUICK, n_neighbors=10, max_iter=20, random_state=0).fit(
        TREE.data[OLD]
    )
    before = np.sqrt((model.transform(TREE.data[NEW], return_std=True)[1] ** 2).sum(1))
    model.recenter(11)
    after = np.sqrt((model.transform(TREE.data[NEW], return_std=True)[1] ** 2).sum(1))
    assert after == pytest.approx(before, rel=1e-4)  # a rotation keeps the sum of squares


@pytest.mark.parametrize("kind", ["frame", "tensor", "sparse", "list", "float32"])
def test_kinds_of_input(model, kind):
    rows = TREE.data[NEW[:5]]
    given = {
        "frame": lambda: pd.DataFrame(rows).to_numpy(),
        "tensor": lambda: torch.from_numpy(rows),
        "sparse": lambda: csr_matrix(rows),
        "list": rows.tolist,
        "float32": lambda: rows.astype(np.float32),
    }[kind]()
    assert np.allclose(model.transform(given), model.transform(rows), atol=1e-3)


def test_many_rows_are_placed_as_one_by_one(model):
    rows = TREE.data[NEW[:4]]
    single = np.concatenate([model.transform(row[None]) for row in rows])
    assert np.allclose(single, model.transform(rows), atol=1e-6)


# --- inverse_transform, score, sample -------------------------------------------------------


def test_rows_decode_to_what_they_were(model):
    decoded = model.inverse_transform(model.transform(TREE.data[NEW]))
    error = np.sqrt(np.mean((decoded - TREE.data[NEW]) ** 2))
    assert error < 0.5 * TREE.data[NEW].std(0).mean()


def test_ninety_percent_intervals(model):
    mean, std = model.inverse_transform(model.transform(TREE.data[NEW]), return_std=True)
    assert std.shape == mean.shape == TREE.data[NEW].shape
    inside = np.abs(mean - TREE.data[NEW]) <= 1.645 * std
    assert 0.83 <= inside.mean() <= 0.97


def test_far_away_the_model_knows_the_means_alone():
    model = hgplvm.GPLVM(**QUICK, max_iter=20, random_state=0).fit(TREE.data)
    mean, std = model.inverse_transform([[1e6, 0.0]], return_std=True)
    assert np.allclose(mean[0], TREE.data.mean(0), atol=1e-3)
    assert std.mean() > model.inverse_transform(model.embedding_, return_std=True)[1].mean()


def test_units_are_those_of_the_data():
    rows = TREE.data[NEW]
    found = {}
    for factor in (1.0, 1000.0):
        model = hgplvm.HGPLVM(**QUICK, max_iter=20, random_state=0).fit(
            factor * TREE.data[OLD] + 7 * factor
        )
        placed = model.transform(factor * rows + 7 * factor)
        mean, std = model.inverse_transform(placed, return_std=True)
        score = model.score(factor * rows + 7 * factor)
        found[factor] = (placed, mean / factor, std / factor, score)
    small, large = found.values()
    assert np.allclose(large[0], small[0], atol=1e-4)
    assert np.allclose(large[1], small[1], atol=1e-3)
    assert np.allclose(large[2], small[2], rtol=1e-2)
    shift = rows.shape[1] * np.log(1000.0)
    assert large[3] == pytest.approx(small[3] - shift, rel=1e-3)


def test_the_score_is_the_mean_log_density_at_the_latents():
    model = fitted_once("HGPLVM")
    placed = geometry.poincare_to_lorentz(torch.from_numpy(model.transform(TREE.data[NEW])))
    values = {"variance": model.variance_, "length_scale": model.length_scale_}
    old = TREE.data[OLD]
    posterior = predictive.exact_posterior(
        torch.from_numpy(old - old.mean(0)),
        torch.from_numpy(model.lorentz_),
        on(Hyperbolic()).at(values),
        noise=model.noise_variance_,
    )
    rows = torch.from_numpy(TREE.data[NEW] - old.mean(0))
    density = posterior.log_density(rows, placed, torch.ones_like(rows))
    assert model.score(TREE.data[NEW]) == pytest.approx(density.mean().item(), rel=1e-6)


def test_strange_rows_score_less(model):
    strange = np.random.default_rng(0).permuted(TREE.data[NEW], axis=1)
    assert model.score(strange) < model.score(TREE.data[NEW]) - 1.0


def test_samples_look_like_the_data(model):
    rows = model.sample(400, random_state=0)
    assert rows.shape == (400, TREE.data.shape[1])
    few = model.sample(20, random_state=0)
    assert np.array_equal(few, model.sample(20, random_state=0))
    assert not np.array_equal(few, model.sample(20, random_state=1))
    assert np.allclose(rows.mean(0), TREE.data.mean(0), atol=0.15)
    assert np.corrcoef(rows.std(0), TREE.data.std(0))[0, 1] > 0.8
    assert model.sample(1, random_state=0).shape == (1, TREE.data.shape[1])


# --- gaps in the training data --------------------------------------------------------------


@pytest.fixture(scope="module")
def holes():
    rows = TREE.data.copy()
    rows[np.random.default_rng(2).random(rows.shape) < 0.25] = np.nan
    return rows


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("HGPLVM", "SparseGPLVM") else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)
def test_gaps_are_filled_better_than_by_means(name, holes):
    fitted = getattr(hgplvm, name)(**MODELS[name].get_params()).fit(holes)
    hidden = np.isnan(holes)
    decoded, std = fitted.inverse_transform(fitted.embedding_, return_std=True)
    means = np.where(hidden, np.nanmean(holes, axis=0), holes)
    meant = getattr(hgplvm, name)(**MODELS[name].get_params()).fit(means)
    ours, theirs, columns = (
        np.sqrt(np.mean((guess - TREE.data)[hidden] ** 2))
        for guess in (decoded, meant.inverse_transform(meant.embedding_), means)
    )
    assert ours < 0.9 * theirs
    assert ours < 0.75 * columns
    assert 0.8 < (np.abs(decoded - TREE.data)[hidden] <= 1.645 * std[hidden]).mean() < 0.97
    assert np.array_equal(fitted.transform(holes), fitted.embedding_)  # NaN and all


def test_a_gap_says_less_than_an_entry(holes):
    """The bound is on what is observed: more of it is more to explain, in units of the data."""
    values = [
        hgplvm.HGPLVM(**QUICK, max_iter=10, random_state=0).fit(factor * holes).log_likelihood_
        for factor in (1.0, 8.0)  # a power of two, so that no rounding changes the imputation
    ]
    n_observed = np.isfinite(holes).sum()
    assert values[0] - values[1] == pytest.approx(n_observed * np.log(8.0), rel=1e-9)


def test_gaps_and_the_papers_own_units(holes):
    options = {"optimizer": "rgd", "max_iter": 5, "random_state": 0}
    for factor in (1.0, 30.0):
        model = hgplvm.HGPLVM(**options).fit(factor * holes)
        decoded = model.inverse_transform(model.embedding_)
        assert np.sqrt(np.nanmean((decoded - factor * holes) ** 2)) < factor * np.nanstd(holes)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x.__setitem__((slice(None), 2), np.nan), "no observed value in column 2. Drop"),
        (lambda x: x.__setitem__(slice(3, 10), np.nan), r"in row 3, 4, 5, 6, 7 and 2 more. Drop"),
        (lambda x: x.__setitem__((0, 0), np.inf), "infinity"),
    ],
)
def test_data_that_cannot_be_fitted(holes, spoil, message):
    rows = holes.copy()
    spoil(rows)
    with pytest.raises(ValueError, match=message):
        hgplvm.HGPLVM(**QUICK, max_iter=2).fit(rows)


@pytest.mark.parametrize("name", MODELS)
def test_tiny_data_with_gaps_are_finite(name):
    rows = np.array([[1.0, np.nan, 0.0], [0.0, 2.0, np.nan], [1.0, 1.0, 1.0]])
    model = getattr(hgplvm, name)(random_state=0, max_iter=5)
    small = {k: 2 for k in ("n_inducing", "n_neighbors") if k in model.get_params()}
    model.set_params(**small).fit(rows)
    for found in (model.embedding_, model.transform([[0.5, np.nan, np.nan]]), model.sample(3)):
        assert np.isfinite(found).all()


# --- a model stays what it is ---------------------------------------------------------------


def answers(model):
    rows = TREE.data[NEW[:6]].copy()
    rows[:, 4] = np.nan
    placed, sure = model.transform(rows, return_std=True)
    mean, std = model.inverse_transform(model.embedding_[:6], return_std=True)
    return [placed, sure, mean, std, model.sample(3, 0), np.array(model.score(rows))]


def same(a, b):
    return all(np.allclose(x, y, rtol=1e-6, atol=1e-9) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_leaves_the_earlier_one_whole(name):
    model = copy.deepcopy(fitted_once(name))
    before = answers(model)

    def fail(state):
        raise RuntimeError("enough")

    model.set_params(callback=fail)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(1000.0 * TREE.data[:80])
    with pytest.raises(ValueError, match="no observed value"):
        model.fit(np.full((4, 7), np.nan))
    assert same(answers(model), before)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_that_change_after_a_fit_do_not_change_the_model(name):
    model = copy.deepcopy(fitted_once(name))
    before = answers(model)
    changes = {"length_scale": 0.7, "n_components": 3, "dtype": "float32", "n_neighbors": 3}
    model.set_params(**{k: v for k, v in changes.items() if k in model.get_params()})
    assert same(answers(model), before)
    model.recenter(0).recenter([0.0, 0.0])  # tools are made anew
    assert same(answers(model)[2:], before[2:])


def test_a_copy_has_a_root_of_its_own():
    model = hgplvm.VecchiaHGPLVM(**QUICK, n_neighbors=8, max_iter=10, random_state=0).fit(
        TREE.data[OLD]
    )
    before = answers(model)
    other = copy.copy(model).recenter(0)
    assert not np.allclose(other.embedding_, model.embedding_)
    model.set_params(device="cpu")
    assert same(answers(model), before)


def test_rows_beyond_floating_point_are_refused(model):
    with pytest.raises(ValueError, match="beyond floating point"):
        model.transform(np.full((1, TREE.data.shape[1]), 1e160))
    far = model.transform(np.full((1, TREE.data.shape[1]), 1e100))
    assert np.isfinite(far).all()


def test_training_rows_have_the_deviations_of_the_fit():
    for name in ("VecchiaHGPLVM", "BayesianGPLVM"):
        model = fitted_once(name)
        std = model.transform(TREE.data[OLD[:9]], return_std=True)[1]
        assert np.array_equal(std, model.posterior_std_[:9])


def test_deviations_are_in_the_units_of_flat_models():
    found = []
    for scale in (3.0, 30.0):
        model = hgplvm.VecchiaGPLVM(
            length_scale=scale, init="pca", n_neighbors=10, max_iter=20, random_state=0
        ).fit(TREE.data[OLD])
        new = model.transform(TREE.data[NEW], return_std=True)[1]
        found.append((new, model.posterior_std_, model.pseudotime(0, return_std=True)[1]))
    for small, large in zip(*found, strict=True):
        assert np.median(large / small) == pytest.approx(10.0, rel=0.01)


def test_the_score_counts_what_is_observed():
    """In units ten times as small, each observed entry is log 10 less dense."""
    rows = TREE.data[NEW].copy()
    rows[:, 5:] = np.nan
    scores = [
        hgplvm.HGPLVM(**QUICK, max_iter=10, random_state=0).fit(f * TREE.data[OLD]).score(f * rows)
        for f in (1.0, 10.0)
    ]
    assert scores[0] - scores[1] == pytest.approx(5 * np.log(10.0), rel=1e-3)


def test_intervals_know_the_place_when_the_frame_has_moved():
    """A fit whose latents ended far from the origin of their frame."""
    start = 0.03 * np.random.default_rng(0).standard_normal((len(OLD), 2)) + [0.8, 0.0]
    model = hgplvm.HGPLVM(init=start, max_iter=40, random_state=0).fit(TREE.data[OLD])
    mean, std = model.inverse_transform(model.transform(TREE.data[NEW]), return_std=True)
    assert 0.8 <= (np.abs(mean - TREE.data[NEW]) <= 1.645 * std).mean() <= 0.98
    rows = model.sample(300, random_state=0)
    assert np.allclose(rows.mean(0), TREE.data.mean(0), atol=0.2)


def test_constant_data_are_constant_whatever_their_digits():
    model = hgplvm.HGPLVM(**QUICK, max_iter=3, random_state=0).fit(np.full((7, 3), 0.1))
    assert np.allclose(model.inverse_transform(model.embedding_), 0.1)
    assert model.noise_variance_ > 1e-12


# --- scikit-learn ---------------------------------------------------------------------------


def test_a_pipeline_places_new_rows():
    pipe = make_pipeline(StandardScaler(), hgplvm.HGPLVM(**QUICK, max_iter=20, random_state=0))
    pipe.fit(TREE.data[OLD])
    placed = pipe.transform(TREE.data[NEW])
    back = pipe.inverse_transform(placed)
    assert np.sqrt(np.mean((back - TREE.data[NEW]) ** 2)) < 0.5 * TREE.data.std()


def test_a_search_by_score():
    model = hgplvm.HGPLVM(**QUICK, max_iter=10, random_state=0)
    search = GridSearchCV(model, {"length_scale": [1.0, 20.0]}, cv=2).fit(TREE.data)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == 2


def test_pandas_output():
    frame = pd.DataFrame(TREE.data, columns=[f"gene{i}" for i in range(TREE.data.shape[1])])
    model = hgplvm.HGPLVM(**QUICK, max_iter=10, random_state=0).set_output(transform="pandas")
    model.fit(frame.iloc[OLD])
    placed = model.transform(frame.iloc[NEW])
    assert list(placed.columns) == ["hgplvm0", "hgplvm1"]
    assert list(placed.index) == list(NEW)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"gene0": "other"}))


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "score"])
def test_before_the_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(hgplvm.HGPLVM(), method)(TREE.data)


def test_sampling_before_the_fit():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        hgplvm.HGPLVM().sample(3)


def test_wrong_columns(model):
    with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 15"):
        model.transform(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0.1, np.nan]], "must be finite. Got NaN or infinity"),
        ([[0.1, 0.2, 0.3]], r"must have n_components = 2 columns. Got an array of shape \(1, 3\)"),
        ([0.1, 0.2], "must be a 2-D array"),
        (np.zeros((0, 2)), "at least 1 rows"),
        ("here", "must be an array of real numbers"),
    ],
)
def test_points_that_are_none(model, points, message):
    with pytest.raises(ValueError, match=message):
        model.inverse_transform(points)


@pytest.mark.parametrize("radius", [1.0, 1.5])
def test_points_outside_the_ball(radius):
    model = fitted_once("HGPLVM")
    message = f"Poincaré ball coordinates, of norm below 1. Got a point of norm {radius:g} instead"
    with pytest.raises(ValueError, match=message):
        model.inverse_transform([[0.0, 0.0], [radius, 0.0]])


def test_flags_and_counts_that_are_none(model):
    with pytest.raises(ValueError, match=r"'return_std' parameter of .* must be True or False"):
        model.transform(TREE.data[:2], return_std="yes")
    with pytest.raises(ValueError, match=r"'n' parameter of .* must be an int"):
        model.sample(0)


def test_gpu_models_are_used_where_there_is_one(model):
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    model.set_params(device="cpu")
    on_cpu = model.transform(TREE.data[NEW])
    model.set_params(device="cuda")
    assert np.allclose(model.transform(TREE.data[NEW]), on_cpu, atol=1e-3)
    model.set_params(device="auto")
