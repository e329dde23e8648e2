"""scikit-learn's own checks, for every estimator. None is excepted."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm import (
    GPLVM,
    HGPLVM,
    BayesianGPLVM,
    BayesianHGPLVM,
    SparseGPLVM,
    SparseHGPLVM,
    SphericalGPLVM,
    VecchiaGPLVM,
    VecchiaHGPLVM,
)

from .spaces import Rational

# a start that is quick to find; the checks fit as few as two rows
QUICK = {"max_iter": 3, "init": "pca", "noise_floor": 0.1}


def checked(**options):
    """All models, as the checks see them."""
    return [
        *(model(**options) for model in (HGPLVM, GPLVM, SphericalGPLVM)),
        *(
            model(n_inducing=2, **options)
            for model in (SparseHGPLVM, SparseGPLVM, BayesianHGPLVM, BayesianGPLVM)
        ),
        *(
            model(n_neighbors=1, n_inducing=m, **options)
            for model, m in ((VecchiaHGPLVM, 2), (VecchiaGPLVM, 0))
        ),
    ]


@parametrize_with_checks(checked(**QUICK))
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(checked(max_iter=5))
def test_scikit_learn_estimator_checks_with_the_search_for_a_start(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "base", [HGPLVM, GPLVM, SparseHGPLVM, BayesianHGPLVM, VecchiaHGPLVM], ids=lambda m: m.__name__
)
def test_a_kernel_of_ones_own_makes_a_model(base):
    """It fits, infers latents and decodes with it; another kernel does otherwise."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5))
    options = {"max_iter": 15, "random_state": 0}
    options |= {"n_inducing": 10} if "n_inducing" in base().get_params() else {}
    model = base(kernel=Rational(), **options).fit(data)
    assert model.log_likelihood_ != base(**options).fit(data).log_likelihood_
    assert np.isfinite(model.transform(data[:5] + 0.01)).all()
    mean, std = model.inverse_transform(model.embedding_, return_std=True)
    assert np.square(mean - data).mean() < 0.5 * data.var()
    assert (std > 0).all()


def test_predictions_use_the_models_own_kernel():
    """Against the formulas of a Gaussian process, written out."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((25, 3))
    model = HGPLVM(kernel=Rational(), max_iter=10, random_state=0).fit(data)
    new = 0.3 * rng.standard_normal((4, 2)).clip(-1, 1)
    ball = np.concatenate([model.embedding_, new])
    k = model.variance_ / (1.0 + model.distances(ball) / model.length_scale_)
    noisy = k[:25, :25] + model.noise_variance_ * np.eye(25)
    mean = data.mean(0) + k[25:, :25] @ np.linalg.solve(noisy, data - data.mean(0))
    assert np.allclose(model.inverse_transform(new), mean, atol=1e-6)
    centred = data - data.mean(0)
    quadratic = (centred * np.linalg.solve(noisy, centred)).sum()
    value = -0.5 * quadratic - 1.5 * np.linalg.slogdet(noisy)[1] - 37.5 * np.log(2 * np.pi)
    assert np.isclose(model.log_likelihood_, value, rtol=1e-6)
