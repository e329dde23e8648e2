"""Kernels: correlations as functions of geodesic distance, on any manifold.

======================  ====================================  ===============================
name                    class                                 positive definite on
======================  ====================================  ===============================
``"exponential"``       :class:`Exponential`                  hyperbolic, flat, sphere
``"matern32"``          :class:`Matern32`                     flat; hyperbolic up to Q = 3
``"matern52"``          :class:`Matern52`                     flat; hyperbolic up to Q = 3
``"heat"``              :class:`Heat`                         flat; hyperbolic up to Q = 3
..                      :class:`RationalQuadratic` (learnt)   flat; hyperbolic up to Q = 3
======================  ====================================  ===============================

Sums and products of kernels are kernels: ``Exponential() + Heat()``. A new one is a subclass of
:class:`RatioKernel` or :class:`GaussianMixture` with two methods, passed as ``kernel=`` to any
model.
"""

from __future__ import annotations

from hgplvm.kernels._algebra import Product, Sum
from hgplvm.kernels._base import Derivatives, Kernel, Theta
from hgplvm.kernels._mixtures import (
    GaussianMixture,
    Heat,
    Matern32,
    Matern52,
    RationalQuadratic,
)
from hgplvm.kernels._ratio import Exponential, RatioKernel

__all__ = [
    "KERNELS",
    "Derivatives",
    "Exponential",
    "GaussianMixture",
    "Heat",
    "Kernel",
    "Matern32",
    "Matern52",
    "Product",
    "RatioKernel",
    "RationalQuadratic",
    "Sum",
    "Theta",
]

#: the kernels that a name stands for
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for kernel in (Exponential(), Matern32(), Matern52(), Heat())
}


def __dir__() -> list[str]:
    return sorted(__all__)
