"""Hyperbolic geometry on torch tensors: the Lorentz model, its charts, and flat space beside it.

The functions here act on the Lorentz model (curvature -1): points are rows ``(x₀, x̃)`` of shape
``[..., Q + 1]``. :mod:`hgplvm.geometry.euclidean` offers the same interface for flat space, and
:class:`Manifold` is that interface.
"""

from hgplvm.geometry import euclidean, lorentz, wrapped_normal
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
from hgplvm.geometry.manifold import Manifold

__all__ = [
    "Manifold",
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
    "wrapped_normal",
]
