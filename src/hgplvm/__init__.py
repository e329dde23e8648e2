"""Continuous hierarchies in high-dimensional data.

hgplvm embeds rows (cells, genomes, words: anything with a tree behind it) into hyperbolic space
with Gaussian process latent variable models.

>>> from hgplvm import HGPLVM
>>> from hgplvm.datasets import make_binary_tree
>>> tree = make_binary_tree(depth=3, random_state=0)
>>> P = HGPLVM(random_state=0).fit_transform(tree.data)  # points of the Poincaré disk

Modules: :mod:`hgplvm.tl` (AnnData), :mod:`hgplvm.pl` (pictures), :mod:`hgplvm.metrics`,
:mod:`hgplvm.datasets`, :mod:`hgplvm.kernels`, :mod:`hgplvm.manifolds`, :mod:`hgplvm.geometry`,
:mod:`hgplvm.errors`.
"""

import logging
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgplvm import baselines, datasets, errors, geometry, kernels, manifolds, metrics, pl, tl
    from hgplvm.estimators import (
        GPLVM,
        HGPLVM,
        BayesianGPLVM,
        BayesianHGPLVM,
        SparseGPLVM,
        SparseHGPLVM,
        SphericalGPLVM,
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
    "SphericalGPLVM",
    "VecchiaGPLVM",
    "VecchiaHGPLVM",
    "baselines",
    "datasets",
    "errors",
    "geometry",
    "kernels",
    "load",
    "manifolds",
    "metrics",
    "pl",
    "tl",
]

__version__ = version("hgplvm")

# what is logged goes nowhere, until a program that uses the library says where
logging.getLogger("hgplvm").addHandler(logging.NullHandler())

_MODULES = {
    "baselines",
    "datasets",
    "errors",
    "geometry",
    "kernels",
    "manifolds",
    "metrics",
    "pl",
    "tl",
}


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, matplotlib one: each is imported when it is first needed, so
    # that the command line answers at once
    if name in _MODULES:
        return import_module(f"hgplvm.{name}")
    if name in __all__:
        return getattr(import_module("hgplvm.estimators"), name)
    raise AttributeError(f"module 'hgplvm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
