"""The sparse and Bayesian estimators: what they add to the exact ones."""

import numpy as np
import pytest
import torch

from hgplvm import (
    HGPLVM,
    BayesianGPLVM,
    BayesianHGPLVM,
    SparseGPLVM,
    SparseHGPLVM,
    geometry,
)
from hgplvm._stops import StopReason
from hgplvm.datasets import make_binary_tree
from hgplvm.estimators.base import Rows
from hgplvm.fit import FitResult
from hgplvm.manifolds import Hyperbolic, wrapped_normal
from hgplvm.manifolds._pose import Pose
from hgplvm.metrics import distance_correlation
from hgplvm.objectives import Parameters
from tests.gp import NOISE, on

HYPERBOLIC = Hyperbolic()

MODELS = [SparseHGPLVM, SparseGPLVM, BayesianHGPLVM, BayesianGPLVM]
BAYESIAN = [BayesianHGPLVM, BayesianGPLVM]


@pytest.fixture(params=MODELS)
def model_class(request):
    return request.param


@pytest.fixture(scope="module")
def tree():
    return make_binary_tree(4, n_per_node=6, random_state=0)


def metric(model):
    return "poincare" if hasattr(model, "lorentz_") else "euclidean"


def test_a_tree_is_embedded_as_a_tree(model_class, tree):
    model = model_class(n_inducing=30, init="mds", random_state=0).fit(tree.data)
    assert distance_correlation(tree.tree_distance, model.embedding_, metric=metric(model)) > 0.85


def test_fitted_attributes(model_class, tree):
    model = model_class(n_inducing=12, max_iter=20, random_state=0).fit(tree.data)
    n = len(tree.data)
    width = 3 if hasattr(model, "lorentz_") else 2
    assert model.embedding_.shape == (n, 2)
    assert model.inducing_.shape == (12, width)
    points = model.lorentz_ if width == 3 else model.embedding_
    for z in model.inducing_:  # inducing points are latents
        assert np.abs(points - z).max(1).min() < 1e-9
    assert len(model.history_["objective"]) == model.n_iter_ + 1 == 21
    assert model.log_likelihood_ > model.history_["objective"][0]
    assert model.posterior_std_.shape == (n, 2)
    assert (model.posterior_std_ > 0).all()


def test_the_bound_is_below_the_exact_likelihood(tree):
    model = SparseHGPLVM(n_inducing=20, max_iter=50, random_state=0).fit(tree.data)
    data = torch.from_numpy(tree.data - tree.data.mean(0))
    distance = geometry.pairwise_distance(torch.from_numpy(model.lorentz_))
    law = torch.distributions.MultivariateNormal(
        torch.zeros(len(data), dtype=torch.float64),
        model.variance_ * torch.exp(-distance / model.length_scale_)
        + model.noise_variance_ * torch.eye(len(data)).double(),
    )
    exact = law.log_prob(data.mT).sum().item()
    assert exact - 5000 < model.log_likelihood_ < exact


def test_the_same_seed_gives_the_same_embedding(model_class, tree):
    runs = [
        model_class(n_inducing=10, max_iter=10, random_state=3).fit_transform(tree.data)
        for _ in range(2)
    ]
    assert np.array_equal(*runs)


def test_chunks_do_not_change_the_fit(model_class, tree):
    runs = [
        model_class(n_inducing=10, max_iter=5, chunk_size=c, random_state=0).fit_transform(
            tree.data
        )
        for c in ("auto", 7)
    ]
    assert np.allclose(*runs, atol=1e-7)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam", "rgd"])
def test_every_optimiser_copes_with_the_draws(model_class, optimizer, tree):
    model = model_class(n_inducing=10, optimizer=optimizer, max_iter=30, random_state=0)
    history = model.fit(tree.data).history_["objective"]
    assert np.isfinite(model.embedding_).all()
    assert model.log_likelihood_ > history[0]


@pytest.mark.parametrize("quadrature", ["unscented", "gauss-hermite", "monte-carlo"])
@pytest.mark.parametrize("kl", ["exact", "paper"])
@pytest.mark.parametrize("model", BAYESIAN)
def test_quadratures_and_divergences(model, quadrature, kl, tree):
    fitted = model(quadrature=quadrature, kl=kl, n_inducing=10, max_iter=20, random_state=0)
    fitted.fit(tree.data)
    assert np.isfinite(fitted.embedding_).all()
    assert np.isfinite(fitted.log_likelihood_)


def test_the_prior_pulls_towards_the_origin(tree):
    radii = []
    for scale in (0.1, 3.0):
        model = BayesianHGPLVM(prior_scale=scale, n_inducing=20, max_iter=150, random_state=0)
        model.fit(tree.data)
        radii.append(np.median(np.arccosh(model.lorentz_[:, 0])))
    assert radii[0] < 0.8 * radii[1]


def test_covariances_turn_with_the_frames():
    """A pose is an isometry: the total variance of each row stays, and it matches samples."""
    generator = torch.Generator().manual_seed(0)
    x = HYPERBOLIC.from_tangent(2 * torch.randn(6, 2, generator=generator, dtype=torch.float64))
    std = torch.tensor([[0.02, 0.1]], dtype=torch.float64).expand(6, 2)
    pose = Pose.of(HYPERBOLIC, x, "mean")
    turned = pose.covariances(x, std.square().diag_embed()).diagonal(dim1=1, dim2=2).sqrt()
    assert torch.allclose(turned.square().sum(1), std.square().sum(1), rtol=1e-4)
    zeta = torch.randn(20_000, 6, 2, generator=generator, dtype=torch.float64)
    samples = wrapped_normal.points(HYPERBOLIC, x, std, zeta)
    moved = pose.points(x)
    log = HYPERBOLIC.log_map(moved, pose.points(samples))
    assert torch.allclose(HYPERBOLIC.to_frame(moved, log).std(0), turned, rtol=0.03)
    assert torch.equal(Pose.of(HYPERBOLIC, x, "none").points(x), x)


def test_more_inducing_points_than_rows(model_class):
    data = np.random.default_rng(0).standard_normal((8, 3))
    with pytest.warns(UserWarning, match="n_inducing=50 exceeds the 8 rows"):
        model = model_class(max_iter=3).fit(data)
    assert len(model.inducing_) == 8


RNG = np.random.default_rng(0)
POOR = {
    "two rows": RNG.standard_normal((2, 3)),
    "constant": np.full((10, 3), 5.0),
    "duplicated rows": np.repeat(RNG.standard_normal((3, 4)), 8, axis=0),
    "tiny": 1e-120 * RNG.standard_normal((10, 3)),
    "huge": 1e120 * RNG.standard_normal((10, 3)),
    "an outlier": np.r_[RNG.standard_normal((20, 3)), [[1e6, 0, 0]]],
    "more columns than rows": RNG.standard_normal((5, 200)),
}


@pytest.mark.parametrize("init", ["pca", "mds"])
@pytest.mark.parametrize("name", POOR)
def test_poor_data_give_finite_embeddings(model_class, name, init):
    model = model_class(init=init, n_inducing=2, max_iter=30, random_state=0).fit(POOR[name])
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite([model.log_likelihood_, model.variance_, model.noise_variance_]).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_inducing": 0}, r"'n_inducing' .* \[1, inf\). Got 0 instead"),
        ({"n_inducing": 2.5}, "'n_inducing' .* Got 2.5 instead"),
        ({"inducing_update": 0}, "'inducing_update' .* Got 0 instead"),
        ({"chunk_size": 0}, "'chunk_size' .* or one of 'auto'. Got 0 instead"),
        ({"chunk_size": "all"}, "'chunk_size' .* Got 'all' instead"),
    ],
)
def test_bad_parameters(model_class, parameters, message):
    with pytest.raises(ValueError, match=message):
        model_class(**parameters).fit(np.eye(5))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"quadrature": "simpson"}, "'quadrature' .* 'unscented', .* Got 'simpson' instead"),
        ({"prior_scale": 0}, r"'prior_scale' .* \(0, inf\). Got 0 instead"),
        ({"prior_scale": -1.0}, "'prior_scale' .* Got -1.0 instead"),
        ({"kl": "none"}, "'kl' .* 'exact', 'paper'. Got 'none' instead"),
        ({"n_samples": 0}, "'n_samples' .* Got 0 instead"),
    ],
)
@pytest.mark.parametrize("model", BAYESIAN)
def test_bad_bayesian_parameters(model, parameters, message):
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(np.eye(5))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("init", ["pca", "mds"])
def test_a_fit_on_the_gpu(model_class, init, tree):
    model = model_class(device="cuda", init=init, n_inducing=20, random_state=0).fit(tree.data)
    assert np.isfinite(model.embedding_).all()
    correlation = distance_correlation(tree.tree_distance, model.embedding_, metric=metric(model))
    assert correlation > 0.7


def test_auto_takes_the_start_under_which_the_data_are_likeliest():
    tree = make_binary_tree(4, random_state=0)
    still = {"optimizer": "rgd", "learning_rate": 1e-9, "max_iter": 1, "random_state": 0}
    auto = HGPLVM(**still).fit(tree.data)
    pca = HGPLVM(init="pca", **still).fit(tree.data)
    assert auto.log_likelihood_ > pca.log_likelihood_ + 1000
    assert distance_correlation(tree.tree_distance, auto.embedding_) > 0.9


def test_mds_start_keeps_the_distances_of_the_tree():
    tree = make_binary_tree(4, random_state=0)
    model = HGPLVM(init="mds", optimizer="rgd", learning_rate=1e-9, max_iter=1, random_state=0)
    assert distance_correlation(tree.tree_distance, model.fit(tree.data).embedding_) > 0.9


class Draws:
    """A bound whose value depends on how often was drawn, and on where the fit stands."""

    def __init__(self):
        self.count, self.inducing = 0, None

    def draw(self, parameters):
        self.count = self.count % 20 + 1
        self.inducing = (parameters.positive("v"), self.count)

    def value(self, parameters):
        return parameters.positive("v") - abs(self.count - 7.0)


def end(value):
    return Parameters(torch.zeros(1, 2), {"v": torch.tensor(value).log()}, ())


@pytest.mark.parametrize(("start", "stop"), [(1.0, 2.0), (2.0, 1.0)])
def test_the_reported_bound_is_a_mean_over_draws_and_the_better_end_is_kept(start, stop):
    draws, begin = Draws(), end(start)
    result = FitResult(end(stop), 1e9, {}, 1, StopReason.MAX_ITER, 1)
    final, value = SparseHGPLVM()._finish(draws, begin, result)
    assert final is (result.parameters if stop > start else begin)
    assert value == pytest.approx(2.0 + np.mean([-abs(i - 7.0) for i in range(1, 21)]))
    assert draws.inducing == (2.0, 7)


def test_the_warm_up_is_a_third_of_the_steps():
    model = BayesianHGPLVM(max_iter=90, n_inducing=5)
    data = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    objective = model._make_objective(Rows(data), on(HYPERBOLIC), NOISE, torch.Generator())
    assert objective.warmup == 30
