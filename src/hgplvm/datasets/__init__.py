"""Data sets with a hierarchy that is known."""

from hgplvm.datasets._trees import make_binary_tree

__all__ = ["make_binary_tree"]
