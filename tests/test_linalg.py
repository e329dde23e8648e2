"""The jittered Cholesky: right where it can be, loud where it cannot."""

import pytest
import torch

from hgplvm import _linalg as linalg
from hgplvm.errors import JitterWarning, NotPositiveDefiniteError


@pytest.fixture
def matrix(normal):
    root = normal(6, 6)
    return root @ root.mT


def test_factor_inverse_solution_and_determinant(matrix, normal):
    full = matrix + 0.3 * torch.eye(6)
    factor = linalg.cholesky(matrix, shift=0.3)
    assert torch.allclose(factor @ factor.mT, full)
    assert torch.allclose(linalg.inverse_from_cholesky(factor) @ full, torch.eye(6).double())
    b = normal(6, 2)
    assert torch.allclose(full @ linalg.solve_cholesky(factor, b), b)
    assert torch.allclose(linalg.log_det_from_cholesky(factor), torch.logdet(full))


def test_only_the_lower_triangle_is_read_and_nothing_is_changed(matrix):
    lower = matrix.tril() + torch.full((6, 6), float("nan")).double().triu(1)
    before = lower.clone()
    factor = linalg.cholesky(lower, shift=0.3)
    assert torch.equal(factor, linalg.cholesky(matrix, shift=0.3))
    assert torch.equal(lower.nan_to_num(), before.nan_to_num())


def test_jitter_is_added_and_named(matrix):
    singular = torch.ones(4, 4, dtype=torch.float64) - 1e-13 * torch.eye(4)
    with pytest.warns(JitterWarning, match=r"Added jitter \S+ to the diagonal \(mean 1\)"):
        factor = linalg.cholesky(singular)
    assert torch.allclose(factor @ factor.mT, singular, atol=1e-6)
    assert torch.equal(singular.diagonal(), torch.full((4,), 1 - 1e-13, dtype=torch.float64))


@pytest.mark.parametrize("entry", [-1.0, float("nan"), float("inf")])
def test_hopeless_matrices_are_refused_with_their_numbers(entry):
    with pytest.raises(NotPositiveDefiniteError, match="size 3 with mean diagonal"):
        linalg.cholesky(torch.diag(torch.tensor([1.0, 1.0, entry], dtype=torch.float64)))


def test_shifted_factor_of_a_positive_matrix(normal):
    half = normal(8, 5)
    a = half @ half.mT
    factor = linalg.cholesky_shifted(a)
    assert torch.allclose(factor @ factor.mT, a + torch.eye(8), atol=1e-10)


def test_negative_eigenvalues_from_rounding_are_nothing(normal):
    """Much below -1, and yet next to nothing beside the large ones: set to 0, others untouched."""
    axes = torch.linalg.qr(normal(6, 6)).Q
    values = torch.tensor([1e6, 1e5, 10.0, 1.0, 0.0, -7.0], dtype=torch.float64)
    factor = linalg.cholesky_shifted((axes * values) @ axes.mT)
    expected = (axes * (1.0 + values.clamp_min(0.0))) @ axes.mT
    assert torch.allclose(factor @ factor.mT, expected, atol=1e-6)


def test_a_matrix_with_nan_is_told(normal):
    a = normal(4, 4)
    a[1, 2] = torch.nan
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite"):
        linalg.cholesky_shifted(a @ a.mT)
