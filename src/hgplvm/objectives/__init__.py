"""Objectives of the models, each a value and its closed-form gradient.

``exact`` is the log marginal likelihood of the paper's hGP-LVM. An objective knows its data, a
manifold and a kernel; it takes :class:`Parameters` and returns an :class:`Evaluation`.
"""

from hgplvm.objectives.exact import ExactObjective
from hgplvm.objectives.parameters import Evaluation, Objective, Parameters, inside

__all__ = ["Evaluation", "ExactObjective", "Objective", "Parameters", "inside"]
