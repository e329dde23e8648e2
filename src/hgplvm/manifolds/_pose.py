"""The pose of an embedding: the isometry that no likelihood can see, fixed so that runs compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm.manifolds._base import Manifold

__all__ = ["Pose", "turned_covariances"]


@dataclass(frozen=True)
class Pose:
    """An isometry: root to the origin, then a rotation about it."""

    manifold: Manifold
    root: Tensor
    rotation: Tensor

    @classmethod
    def of(cls, manifold: Manifold, latents: Tensor, center: str | int | Tensor) -> Pose:
        """Find the canonical pose for the `center` parameter of a model, or for a root."""
        if isinstance(center, str) and center == "none":
            q = manifold.n_components(latents)
            origin = manifold.origin(q, dtype=latents.dtype, device=latents.device)
            return cls(manifold, origin, torch.eye(q).to(latents))
        if isinstance(center, Tensor):
            root = center
        else:
            root = manifold.frechet_mean(latents) if center == "mean" else latents[int(center)]
        return cls(manifold, root, manifold.canonical_rotation(manifold.recenter(latents, root)))

    def points(self, x: Tensor) -> Tensor:
        """Move points."""
        return self.manifold.rotate(self.manifold.recenter(x, self.root), self.rotation)

    def back(self, x: Tensor) -> Tensor:
        """Move points back to where they were: the inverse of :meth:`points`."""
        return self.manifold.uncenter(self.manifold.rotate(x, self.rotation.mT), self.root)

    def covariances(self, x: Tensor, covariance: Tensor) -> Tensor:
        """Turn covariances [n, Q, Q] into the frames of the moved points."""
        return turned_covariances(self.manifold, self.points, x, covariance)


def turned_covariances(
    manifold: Manifold, isometry: Callable[[Tensor], Tensor], x: Tensor, covariance: Tensor
) -> Tensor:
    """Turn covariances [n, Q, Q] in the frames at x into those where an isometry moves x to.

    Moving a frame turns it against the transported one by some R, so that C becomes ``R C Rᵀ``.
    """
    moved = isometry(x)
    tiny = 1e-4  # a step that is small against the curvature, and large against rounding
    columns = []
    for axis in torch.eye(covariance.shape[-1], dtype=x.dtype, device=x.device):
        step = manifold.exp_map(x, manifold.from_frame(x, (tiny * axis).expand(len(x), -1)))
        log = manifold.log_map(moved, isometry(step))
        columns.append(manifold.to_frame(moved, log) / tiny)
    # [n, Q, Q]; far out a step drowns in rounding, but a turn is always orthogonal
    left, _, right = torch.linalg.svd(torch.stack(columns, dim=-1))
    turn = left @ right
    return turn @ covariance @ turn.mT
