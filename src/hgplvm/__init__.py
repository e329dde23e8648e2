"""Continuous hierarchies in high-dimensional data.

hgplvm embeds rows (cells, genomes, words: anything with a tree behind it) into hyperbolic space
with Gaussian process latent variable models.

>>> from hgplvm import HGPLVM
>>> from hgplvm.datasets import make_binary_tree
>>> tree = make_binary_tree(depth=3, random_state=0)
>>> P = HGPLVM(random_state=0).fit_transform(tree.data)  # points of the Poincaré disk

Modules: :mod:`hgplvm.geometry`, :mod:`hgplvm.datasets`, :mod:`hgplvm.metrics`,
:mod:`hgplvm.pl` (pictures).
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from hgplvm import datasets, geometry, metrics
from hgplvm.estimators import (
    GPLVM,
    HGPLVM,
    BayesianGPLVM,
    BayesianHGPLVM,
    SparseGPLVM,
    SparseHGPLVM,
    VecchiaGPLVM,
    VecchiaHGPLVM,
    load,
)

__all__ = [
    "GPLVM",
    "HGPLVM",
    "BayesianGPLVM",
    "BayesianHGPLVM",
    "SparseGPLVM",
    "SparseHGPLVM",
    "VecchiaGPLVM",
    "VecchiaHGPLVM",
    "datasets",
    "geometry",
    "load",
    "metrics",
    "pl",
]

__version__ = version("hgplvm")


def __getattr__(name: str) -> Any:
    # matplotlib takes half a second to import: only when pictures are asked for
    if name == "pl":
        return import_module("hgplvm.pl")
    raise AttributeError(f"module 'hgplvm' has no attribute {name!r}")
