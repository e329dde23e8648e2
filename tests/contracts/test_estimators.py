"""scikit-learn's own checks, for every estimator. None is excepted."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm import (
    GPLVM,
    HGPLVM,
    BayesianGPLVM,
    BayesianHGPLVM,
    SparseGPLVM,
    SparseHGPLVM,
    VecchiaGPLVM,
    VecchiaHGPLVM,
)

EXACT = [HGPLVM(max_iter=5), GPLVM(max_iter=5)]
# the checks fit as few as two rows
COLLAPSED = [
    model(max_iter=5, n_inducing=2)
    for model in (SparseHGPLVM, SparseGPLVM, BayesianHGPLVM, BayesianGPLVM)
]
VECCHIA = [
    model(max_iter=5, n_neighbors=1, n_inducing=m)
    for model in (VecchiaHGPLVM, VecchiaGPLVM)
    for m in (0, 2)
]


@parametrize_with_checks([*EXACT, *COLLAPSED, *VECCHIA])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
