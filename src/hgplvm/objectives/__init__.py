"""Objectives of the models, each a value and its closed-form gradient.

``exact`` is the log marginal likelihood of the paper's hGP-LVM, ``bound`` the collapsed bound for
given Ψ statistics, ``collapsed`` computes them for the sparse and the Bayesian model, and
``vecchia`` is the nearest-neighbour likelihood. An objective knows its data, a covariance
function (:mod:`hgplvm.covariance`) and a noise (:mod:`hgplvm.noise`); it takes :class:`Parameters`
and returns an :class:`Evaluation`.
"""

from hgplvm.objectives.collapsed import BayesianObjective, CollapsedObjective, SparseObjective
from hgplvm.objectives.exact import ExactObjective
from hgplvm.objectives.parameters import (
    Evaluation,
    KeptObjective,
    Objective,
    Parameters,
)
from hgplvm.objectives.vecchia import VecchiaObjective

__all__ = [
    "BayesianObjective",
    "CollapsedObjective",
    "Evaluation",
    "ExactObjective",
    "KeptObjective",
    "Objective",
    "Parameters",
    "SparseObjective",
    "VecchiaObjective",
]
