"""Data sets with a hierarchy that is known, and those of the paper.

Each returns a scikit-learn ``Bunch`` with ``data``, ``target`` and ``DESCR``; its docstring says
where the data come from and under which licence.
"""

from hgplvm.datasets._branching import TreeDistance, make_branching
from hgplvm.datasets._cells import load_myeloid_progenitors, load_paul15
from hgplvm.datasets._counts import CellRates, make_cells
from hgplvm.datasets._spirals import make_spirals
from hgplvm.datasets._trees import make_binary_tree

__all__ = [
    "CellRates",
    "TreeDistance",
    "load_myeloid_progenitors",
    "load_paul15",
    "make_binary_tree",
    "make_branching",
    "make_cells",
    "make_spirals",
]


def __dir__() -> list[str]:
    return sorted(__all__)
