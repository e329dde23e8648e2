"""The latent spaces, as objects that the models are written against.

A space is a subclass of :class:`Manifold` in one file. :class:`Hyperbolic` and :class:`Flat` bind
the pure functions of :mod:`hgplvm.geometry`; :class:`Sphere` holds its own formulas and is the
example to read.
"""

from hgplvm.manifolds._base import Manifold
from hgplvm.manifolds._flat import Flat
from hgplvm.manifolds._hyperbolic import Hyperbolic
from hgplvm.manifolds._sphere import Sphere

__all__ = ["Flat", "Hyperbolic", "Manifold", "Sphere"]


def __dir__() -> list[str]:
    return sorted(__all__)
