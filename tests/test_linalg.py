"""The jittered Cholesky: right where it can be, loud where it cannot."""

import pytest
import torch

from hgplvm import linalg
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
