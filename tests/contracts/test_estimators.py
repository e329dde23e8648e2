"""scikit-learn's own checks, for every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm import GPLVM, HGPLVM

NO_TRANSFORM = "needs transform, which places new rows; only the rows of the fit have latents so far"

EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [HGPLVM(max_iter=5), GPLVM(max_iter=5)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
