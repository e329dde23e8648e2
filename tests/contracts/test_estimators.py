"""scikit-learn's own checks, for every estimator. None is excepted."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm import GPLVM, HGPLVM


@parametrize_with_checks([HGPLVM(max_iter=5), GPLVM(max_iter=5)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
