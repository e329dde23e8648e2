"""The nearest-neighbour estimators: as good as the exact ones, and what they add."""

import numpy as np
import pytest
import torch

from hgplvm import GPLVM, HGPLVM, VecchiaGPLVM, VecchiaHGPLVM, geometry
from hgplvm._stops import StopReason
from hgplvm.datasets import make_binary_tree, make_branching
from hgplvm.estimators import vecchia
from hgplvm.estimators.base import Rows
from hgplvm.fit import FitResult
from hgplvm.manifolds import Hyperbolic
from hgplvm.metrics import distance_correlation, trustworthiness
from hgplvm.noise import UniformNoise
from hgplvm.objectives import Parameters
from tests.gp import on

HYPERBOLIC = Hyperbolic()

MODELS = [VecchiaHGPLVM, VecchiaGPLVM]
EXACT = {VecchiaHGPLVM: HGPLVM, VecchiaGPLVM: GPLVM}


@pytest.fixture(params=MODELS)
def model_class(request):
    return request.param


@pytest.fixture(scope="module")
def tree():
    return make_binary_tree(4, n_per_node=6, random_state=0)


def correlation(model, tree):
    metric = "poincare" if hasattr(model, "lorentz_") else "euclidean"
    return distance_correlation(tree.tree_distance, model.embedding_, metric=metric)


def test_the_quality_is_that_of_the_exact_model(model_class, tree):
    ours = model_class(random_state=0).fit(tree.data)
    exact = EXACT[model_class](random_state=0).fit(tree.data)
    assert correlation(ours, tree) > correlation(exact, tree) - 0.02
    assert trustworthiness(tree.data, ours.embedding_) > 0.97


def test_with_all_neighbours_the_fit_is_the_exact_one(model_class, tree):
    options = {"random_state": 0, "max_iter": 15}
    ours = model_class(n_neighbors=len(tree.data) - 1, **options).fit(tree.data)
    exact = EXACT[model_class](**options).fit(tree.data)
    assert np.allclose(ours.embedding_, exact.embedding_, atol=1e-6)
    assert ours.log_likelihood_ == pytest.approx(exact.log_likelihood_, rel=1e-6)


def test_fitted_attributes(model_class, tree):
    model = model_class(max_iter=20, random_state=0).fit(tree.data)
    assert model.embedding_.shape == (len(tree.data), 2)
    assert hasattr(model, "lorentz_") == (model_class is VecchiaHGPLVM)
    assert len(model.history_["objective"]) == model.n_iter_ + 1 == 21
    assert model.log_likelihood_ > model.history_["objective"][0]
    assert model.n_inducing_ == 0
    assert "noise_level" in model.history_  # latents could explain noise: it is searched


def test_the_likelihood_is_near_the_exact_one_in_units_of_the_data(tree):
    data = 7.0 * tree.data
    model = VecchiaHGPLVM(max_iter=30, random_state=0).fit(data)
    distance = geometry.pairwise_distance(torch.from_numpy(model.lorentz_))
    law = torch.distributions.MultivariateNormal(
        torch.zeros(len(data), dtype=torch.float64),
        model.variance_ * torch.exp(-distance / model.length_scale_)
        + model.noise_variance_ * torch.eye(len(data)).double(),
    )
    expected = law.log_prob(torch.from_numpy(data - data.mean(0)).mT).sum().item()
    assert model.log_likelihood_ == pytest.approx(expected, abs=0.01 * data.size)


def test_the_same_seed_gives_the_same_embedding(model_class, tree):
    runs = [model_class(max_iter=12, random_state=3).fit_transform(tree.data) for _ in range(2)]
    assert np.array_equal(*runs)


@pytest.mark.parametrize("n_inducing", [0, 10])
def test_chunks_do_not_change_the_fit(model_class, n_inducing, tree):
    runs = [
        model_class(max_iter=5, n_inducing=n_inducing, chunk_size=c, random_state=0).fit_transform(
            tree.data
        )
        for c in ("auto", 7)
    ]
    assert np.allclose(*runs, atol=1e-7)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam", "rgd"])
def test_every_optimiser_copes_with_new_neighbours(model_class, optimizer, tree):
    model = model_class(
        n_neighbors=8, neighbor_update=2, optimizer=optimizer, max_iter=30, random_state=0
    ).fit(tree.data)
    assert np.isfinite(model.embedding_).all()
    assert model.log_likelihood_ > model.history_["objective"][0]


@pytest.mark.parametrize("order", ["random", "max-min"])
@pytest.mark.parametrize("reshuffle", [False, True])
def test_orders(model_class, order, reshuffle, tree):
    model = model_class(order=order, reshuffle=reshuffle, neighbor_update=3, random_state=0)
    assert correlation(model.fit(tree.data), tree) > 0.85


def test_noise_calls_for_inducing_points():
    noisy = make_branching(200, 40, depth=3, noise=3.0, random_state=0)
    model = VecchiaHGPLVM(noise="uniform", max_iter=5, random_state=0).fit(noisy.data)
    assert model.n_inducing_ == 50
    # the directions of the signal alone are less noisy
    assert VecchiaHGPLVM(max_iter=5, random_state=0).fit(noisy.data).n_inducing_ == 0
    clean = make_branching(200, 40, depth=3, noise=0.1, random_state=0)
    assert VecchiaHGPLVM(max_iter=5, random_state=0).fit(clean.data).n_inducing_ == 0
    given = VecchiaHGPLVM(n_inducing=7, max_iter=5, random_state=0).fit(clean.data)
    assert given.n_inducing_ == 7
    share = VecchiaHGPLVM(noise_floor=0.5, max_iter=5, random_state=0).fit(1e3 * clean.data)
    assert share.n_inducing_ == 50  # a share of the variance, whatever the unit


def test_inducing_points_bring_a_noisy_fit_nearer_to_the_exact_one():
    tree = make_branching(250, 200, depth=3, noise=3.0, random_state=0)
    exact = HGPLVM(random_state=0).fit(tree.data)
    gaps = [
        abs(model.fit(tree.data).log_likelihood_ - exact.log_likelihood_)
        for model in (VecchiaHGPLVM(n_neighbors=5, n_inducing=m, random_state=0) for m in (0, 40))
    ]
    assert gaps[1] < 0.5 * gaps[0]


def test_as_many_neighbours_as_rows_are_all_of_them_with_a_note(model_class):
    data = np.random.default_rng(0).standard_normal((8, 3))
    with pytest.warns(UserWarning, match="n_neighbors=8 is not below the 8 rows .* all 7 others"):
        model = model_class(n_neighbors=8, max_iter=3, random_state=0).fit(data)
    exact = EXACT[model_class](max_iter=3, random_state=0).fit(data)
    assert np.allclose(model.embedding_, exact.embedding_, atol=1e-6)


@pytest.fixture
def in_two_levels(monkeypatch):
    """Make a hundred rows many."""
    monkeypatch.setattr(vecchia, "FEW_ROWS", 100)
    monkeypatch.setattr(vecchia, "COARSE_ROWS", 80)
    monkeypatch.setattr(vecchia, "COARSE_PROBES", 1)


@pytest.mark.parametrize("init", ["auto", "mds", "pca"])
def test_many_rows_are_fitted_coarse_to_fine(model_class, init, in_two_levels):
    tree = make_branching(400, depth=3, random_state=0)
    model = model_class(init=init, n_neighbors=10, random_state=0).fit(tree.data)
    assert correlation(model, tree) > (0.85 if init != "pca" else 0.75)
    assert model.n_inducing_ == 0  # those of the first level are its own


def test_the_first_level_mends_the_large_shape(in_two_levels, monkeypatch):
    """Starting between fitted rows is better than starting by distances."""
    tree = make_branching(400, depth=3, noise=1.0, random_state=0)
    data = torch.from_numpy((tree.data - tree.data.mean(0)) / tree.data.std())
    model, found = VecchiaHGPLVM(n_neighbors=10, n_inducing=0, noise_floor=0.1), []
    space = on(HYPERBOLIC)
    for few in (100, 1000):
        monkeypatch.setattr(vecchia, "FEW_ROWS", few)
        start = model._start(Rows(data), space, torch.Generator().manual_seed(0))
        noise = UniformNoise(start.noise_floor)
        objective = model._make_objective(Rows(data), space, noise, torch.Generator())
        found.append(objective.value(model._parameters(start, space, 1.0)))
    assert found[0] > found[1]


def test_the_first_level_is_fitted_and_its_rows_keep_their_places(in_two_levels, monkeypatch):
    fitted = []

    def climb(objective, parameters, optimizer, n_steps, **options):
        result = vecchia.climb_(objective, parameters, optimizer, n_steps, **options)
        fitted.append((objective, parameters, result))
        return result

    monkeypatch.setattr(vecchia, "climb_", vecchia.climb, raising=False)
    monkeypatch.setattr(vecchia, "climb", climb)
    data = make_branching(300, depth=3, random_state=0).data
    data = torch.from_numpy((data - data.mean(0)) / data.std())
    seed = torch.Generator().manual_seed(0)
    begin = VecchiaHGPLVM(n_neighbors=8)._start(Rows(data), on(HYPERBOLIC), seed)
    ((objective, before, after),) = fitted
    assert objective.n_rows == objective.data.shape[0] == 80
    assert objective.value(after) > objective.value(before) + 10
    gaps = geometry.pairwise_distance(after.latents, begin.latents).amin(1)
    assert gaps.max() < 1e-9
    assert begin.length_scale == pytest.approx(after.positive("length_scale"))


def test_first_steps_are_shorter_than_the_way_to_the_neighbours(model_class):
    dense = np.random.default_rng(0).standard_normal((900, 3))
    first = model_class(n_neighbors=3, max_iter=1, random_state=0).fit(dense)
    still = model_class(n_neighbors=3, max_iter=1, learning_rate=1e-9, random_state=0).fit(dense)
    latents = torch.from_numpy(still.lorentz_ if hasattr(still, "lorentz_") else still.embedding_)
    manifold = first._manifold
    nearest = manifold.pairwise_distance(latents).fill_diagonal_(torch.inf).sort(1).values[:, 2]
    assert first.history_["step_size"][1] < 0.2 * nearest.median().item()


def test_a_given_start_is_not_replaced(model_class, in_two_levels):
    array = 0.3 * np.random.default_rng(0).standard_normal((400, 2)).clip(-1.5, 1.5)
    data = make_branching(400, depth=3, random_state=0).data
    still = {"optimizer": "rgd", "learning_rate": 1e-12, "max_iter": 1, "center": "none"}
    model = model_class(init=array, n_neighbors=5, **still).fit(data)
    assert np.allclose(model.embedding_, array, atol=1e-6)


def test_places_are_surer_where_there_are_more_columns(model_class):
    """And the deviations are those of the embedding: none wider than it."""
    wide = make_branching(150, 200, depth=3, random_state=0).data
    few, many = (
        model_class(n_neighbors=10, max_iter=30, random_state=0).fit(columns)
        for columns in (wide[:, :4], wide)
    )
    for model in (few, many):
        assert model.posterior_std_.shape == (150, 2)
        assert (model.posterior_std_ > 0).all()
    share = [np.median(m.posterior_std_) / np.std(m.embedding_) for m in (few, many)]
    assert share[1] < 0.6 * share[0]


def test_the_unit_of_a_flat_model_is_that_of_its_deviations(tree):
    one, two = (
        VecchiaGPLVM(length_scale=ls, max_iter=10, random_state=0).fit(tree.data)
        for ls in (3.0, 6.0)
    )
    assert np.allclose(2.0 * one.posterior_std_, two.posterior_std_)


RNG = np.random.default_rng(0)
POOR = {
    "two rows": RNG.standard_normal((2, 3)),
    "constant": np.full((10, 3), 5.0),
    "duplicated rows": np.repeat(RNG.standard_normal((3, 4)), 8, axis=0),
    "tiny": 1e-120 * RNG.standard_normal((10, 3)),
    "huge": 1e120 * RNG.standard_normal((10, 3)),
    "an outlier": np.r_[RNG.standard_normal((20, 3)), [[1e6, 0, 0]]],
    "more columns than rows": RNG.standard_normal((5, 200)),
    "one column": RNG.standard_normal((12, 1)),
    "a constant column": np.c_[RNG.standard_normal((12, 2)), np.ones(12)],
}


@pytest.mark.parametrize("n_inducing", [0, 2])
@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("name", POOR)
def test_poor_data_give_finite_embeddings(model_class, name, optimizer, n_inducing):
    model = model_class(
        n_neighbors=1, n_inducing=n_inducing, optimizer=optimizer, max_iter=30, random_state=0
    ).fit(POOR[name])
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite([model.log_likelihood_, model.variance_, model.noise_variance_]).all()


@pytest.mark.parametrize("n_inducing", [0, 20])
def test_float32(model_class, n_inducing, tree):
    model = model_class(dtype="float32", n_inducing=n_inducing, random_state=0).fit(tree.data)
    assert correlation(model, tree) > 0.85


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, r"'n_neighbors' .* \[1, inf\). Got 0 instead"),
        ({"n_neighbors": -3}, "'n_neighbors' .* Got -3 instead"),
        ({"n_neighbors": 2.5}, "'n_neighbors' .* Got 2.5 instead"),
        ({"n_neighbors": None}, "'n_neighbors' .* Got None instead"),
        ({"neighbor_update": 0}, "'neighbor_update' .* Got 0 instead"),
        ({"n_inducing": -1}, r"'n_inducing' .* \[0, inf\) or one of 'auto'. Got -1 instead"),
        ({"order": "sorted"}, "'order' .* 'random', 'max-min'. Got 'sorted' instead"),
        ({"reshuffle": "yes"}, "'reshuffle' .* True or False. Got 'yes' instead"),
        ({"chunk_size": 0}, "'chunk_size' .* Got 0 instead"),
    ],
)
def test_bad_parameters(model_class, parameters, message):
    with pytest.raises(ValueError, match=message):
        model_class(**parameters).fit(np.eye(5))


class Neighbours:
    """A likelihood that is best right after a draw at the same place."""

    def draw(self, parameters):
        self.drawn_at = parameters

    def value(self, parameters):
        return parameters.positive("v") - (0.0 if self.drawn_at is parameters else 100.0)


@pytest.mark.parametrize(("start", "stop"), [(1.0, 2.0), (2.0, 1.0)])
def test_the_better_of_start_and_end_is_kept_each_with_its_own_neighbours(start, stop):
    begin, end = (
        Parameters(torch.zeros(1, 2), {"v": torch.tensor(v, dtype=torch.float64).log()}, ())
        for v in (start, stop)
    )
    final, value = VecchiaHGPLVM()._finish(
        Neighbours(), begin, FitResult(end, 1e9, {}, 1, StopReason.MAX_ITER, 1)
    )
    assert final is (end if stop > start else begin)
    assert value == pytest.approx(2.0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("n_inducing", [0, 20])
def test_a_fit_on_the_gpu(model_class, n_inducing, tree):
    model = model_class(device="cuda", n_inducing=n_inducing, random_state=0).fit(tree.data)
    assert correlation(model, tree) > 0.85
