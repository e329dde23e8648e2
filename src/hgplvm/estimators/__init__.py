"""The models as scikit-learn estimators: one module a kind, and `base` for what they share."""

from hgplvm.estimators.bayesian import BayesianGPLVM, BayesianHGPLVM
from hgplvm.estimators.choice import choose_model
from hgplvm.estimators.exact import GPLVM, HGPLVM, SphericalGPLVM
from hgplvm.estimators.loading import load
from hgplvm.estimators.sparse import SparseGPLVM, SparseHGPLVM
from hgplvm.estimators.vecchia import VecchiaGPLVM, VecchiaHGPLVM

__all__ = [
    "GPLVM",
    "HGPLVM",
    "BayesianGPLVM",
    "BayesianHGPLVM",
    "SparseGPLVM",
    "SparseHGPLVM",
    "SphericalGPLVM",
    "VecchiaGPLVM",
    "VecchiaHGPLVM",
    "choose_model",
    "load",
]
