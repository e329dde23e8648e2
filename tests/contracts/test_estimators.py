"""scikit-learn's own checks, for every estimator. None is excepted."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm import (
    GPLVM,
    HGPLVM,
    BayesianGPLVM,
    BayesianHGPLVM,
    SparseGPLVM,
    SparseHGPLVM,
)

EXACT = [HGPLVM(max_iter=5), GPLVM(max_iter=5)]
# the checks fit as few as two rows
COLLAPSED = [
    model(max_iter=5, n_inducing=2)
    for model in (SparseHGPLVM, SparseGPLVM, BayesianHGPLVM, BayesianGPLVM)
]


@parametrize_with_checks([*EXACT, *COLLAPSED])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
