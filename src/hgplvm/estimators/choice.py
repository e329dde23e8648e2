"""The registry of models, and the choice by the number of rows for ``model="auto"``."""

from __future__ import annotations

from hgplvm import _validation as check
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.estimators.bayesian import BayesianGPLVM, BayesianHGPLVM
from hgplvm.estimators.exact import GPLVM, HGPLVM
from hgplvm.estimators.sparse import SparseGPLVM, SparseHGPLVM
from hgplvm.estimators.vecchia import VecchiaGPLVM, VecchiaHGPLVM

__all__ = ["EXACT_ROWS", "choose_model"]

# beyond, the nearest-neighbour model is as good and quicker: with 2,000 rows twice as quick
EXACT_ROWS = 1000

MODELS: dict[str, tuple[type[BaseGPLVM], type[BaseGPLVM]]] = {
    "exact": (HGPLVM, GPLVM),
    "sparse": (SparseHGPLVM, SparseGPLVM),
    "bayesian": (BayesianHGPLVM, BayesianGPLVM),
    "vecchia": (VecchiaHGPLVM, VecchiaGPLVM),
}


def choose_model(name: str, n_rows: int, *, flat: bool = False) -> type[BaseGPLVM]:
    """Return the estimator class of a model's short name.

    Parameters
    ----------
    name : {"auto", "exact", "sparse", "bayesian", "vecchia"}
        "auto" is the exact model for up to 1,000 rows and the nearest-neighbour model ("vecchia")
        beyond.
    n_rows : int
        Rows of the data.
    flat : bool
        Whether the latent space is flat.

    Examples
    --------
    >>> from hgplvm.estimators import choose_model
    >>> choose_model("auto", 500).__name__, choose_model("auto", 50_000).__name__
    ('HGPLVM', 'VecchiaHGPLVM')
    """
    check.check_option("choose_model", "name", name, ("auto", *MODELS))
    if name == "auto":
        name = "exact" if n_rows <= EXACT_ROWS else "vecchia"
    curved, plane = MODELS[name]
    return plane if flat else curved
