"""The rule behind ``model="auto"``."""

import pytest

import hgplvm
from hgplvm.estimators import choose_model


@pytest.mark.parametrize(
    ("name", "n_rows", "flat", "expected"),
    [
        ("auto", 2, False, "HGPLVM"),
        ("auto", 1000, False, "HGPLVM"),
        ("auto", 1001, False, "VecchiaHGPLVM"),
        ("auto", 1001, True, "VecchiaGPLVM"),
        ("auto", 10, True, "GPLVM"),
        ("exact", 10**6, False, "HGPLVM"),
        ("sparse", 10, False, "SparseHGPLVM"),
        ("bayesian", 10, True, "BayesianGPLVM"),
        ("vecchia", 10, False, "VecchiaHGPLVM"),
    ],
)
def test_the_rule(name, n_rows, flat, expected):
    assert choose_model(name, n_rows, flat=flat) is getattr(hgplvm, expected)


def test_an_unknown_model():
    with pytest.raises(ValueError, match=r"'name' .* 'vecchia'. Got 'best' instead"):
        choose_model("best", 10)
