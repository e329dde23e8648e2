"""Charts of hyperbolic space: the Poincaré ball and the Klein disk.

The ball's metric is ``(2/(1-‖p‖²))²`` times the Euclidean one (the paper leaves out the square);
it is conformal, so pictures in it show angles as they are. In the Klein disk geodesics are
straight lines.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm.geometry import lorentz

__all__ = [
    "klein_to_lorentz",
    "lorentz_to_klein",
    "lorentz_to_poincare",
    "poincare_to_lorentz",
]

lorentz_to_poincare = lorentz.to_chart
poincare_to_lorentz = lorentz.from_chart


def lorentz_to_klein(x: Tensor) -> Tensor:
    """Klein coordinates ``k = x̃/x₀``."""
    return x[..., 1:] / x[..., :1]


def klein_to_lorentz(k: Tensor) -> Tensor:
    """Point of the Lorentz model with Klein coordinates k: ``(1, k)/√(1-‖k‖²)``.

    Coordinates on or beyond the boundary are pulled just inside it.
    """
    norm = torch.linalg.vector_norm(k, dim=-1, keepdim=True)
    inside = 1.0 - torch.finfo(k.dtype).eps
    k = k * (inside / norm.clamp_min(inside))
    norm = norm.clamp_max(inside)
    return lorentz.project(torch.cat([norm, k], -1) / torch.sqrt((1.0 - norm) * (1.0 + norm)))
