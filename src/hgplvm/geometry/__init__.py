"""Hyperbolic geometry on torch tensors: the Lorentz model, its charts, and flat space beside it.

The functions here act on the Lorentz model (curvature -1): points are rows ``(x₀, x̃)`` of shape
``[..., Q + 1]``. :mod:`hgplvm.geometry.euclidean` has the same functions for flat space. The models
see both through the objects of :mod:`hgplvm.manifolds`.
"""

from hgplvm.geometry import euclidean, lorentz
from hgplvm.geometry.charts import (
    klein_to_lorentz,
    lorentz_to_klein,
    lorentz_to_poincare,
    poincare_to_lorentz,
)
from hgplvm.geometry.lorentz import (
    boost_to_origin,
    canonical_rotation,
    distance,
    exp_map,
    frechet_mean,
    from_frame,
    geodesic,
    inner,
    log_map,
    origin,
    pairwise_distance,
    parallel_transport,
    project,
    project_tangent,
    recenter,
    rotate,
    to_frame,
)

__all__ = [
    "boost_to_origin",
    "canonical_rotation",
    "distance",
    "euclidean",
    "exp_map",
    "frechet_mean",
    "from_frame",
    "geodesic",
    "inner",
    "klein_to_lorentz",
    "log_map",
    "lorentz",
    "lorentz_to_klein",
    "lorentz_to_poincare",
    "origin",
    "pairwise_distance",
    "parallel_transport",
    "poincare_to_lorentz",
    "project",
    "project_tangent",
    "recenter",
    "rotate",
    "to_frame",
]


def __dir__() -> list[str]:
    return sorted(__all__)
