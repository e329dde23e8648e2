"""Data sets with a hierarchy that is known."""

from hgplvm.datasets._branching import TreeDistance, make_branching
from hgplvm.datasets._trees import make_binary_tree

__all__ = ["TreeDistance", "make_binary_tree", "make_branching"]
