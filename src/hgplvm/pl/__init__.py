"""Pictures of embeddings, with matplotlib.

Each function draws an AnnData object that :func:`hgplvm.tl.hgplvm` has worked on, a fitted model,
or (where nothing else is needed) an array of ball coordinates. Each takes and returns axes, saves
with ``save=`` and shows with ``show=True`` (:func:`batches` and :func:`lineages` take AnnData
objects alone; :func:`batches`, :func:`trends` and :func:`curvature` make their own axes).
"""

from hgplvm.pl._batches import batches
from hgplvm.pl._compare import compare
from hgplvm.pl._curves import history, length_scales
from hgplvm.pl._disk import poincare
from hgplvm.pl._evidence import curvature
from hgplvm.pl._fields import decoder
from hgplvm.pl._lineages import lineages, trends
from hgplvm.pl._palettes import OKABE_ITO
from hgplvm.pl._paths import trajectory
from hgplvm.pl._placed import placed
from hgplvm.pl._spread import uncertainty

__all__ = [
    "OKABE_ITO",
    "batches",
    "compare",
    "curvature",
    "decoder",
    "history",
    "length_scales",
    "lineages",
    "placed",
    "poincare",
    "trajectory",
    "trends",
    "uncertainty",
]


def __dir__() -> list[str]:
    return sorted(__all__)
