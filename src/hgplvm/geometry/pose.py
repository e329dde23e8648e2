"""The pose of an embedding: the isometry that no likelihood can see, fixed so that runs compare."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hgplvm.geometry.manifold import Manifold

__all__ = ["Pose"]


@dataclass(frozen=True)
class Pose:
    """An isometry: root to the origin, then a rotation about it. None leaves things alone."""

    manifold: Manifold
    root: Tensor | None
    rotation: Tensor

    @classmethod
    def of(cls, manifold: Manifold, latents: Tensor, center: str | int) -> Pose:
        """Find the canonical pose for the `center` parameter of a model."""
        if center == "none":
            q = manifold.to_frame(latents[:1], latents[:1]).shape[1]
            return cls(manifold, None, torch.eye(q, dtype=latents.dtype, device=latents.device))
        root = manifold.frechet_mean(latents) if center == "mean" else latents[int(center)]
        return cls(manifold, root, manifold.canonical_rotation(manifold.recenter(latents, root)))

    def points(self, x: Tensor) -> Tensor:
        """Move points."""
        if self.root is None:
            return x
        return self.manifold.rotate(self.manifold.recenter(x, self.root), self.rotation)

    def deviations(self, x: Tensor, std: Tensor) -> Tensor:
        """Turn standard deviations into the frames of the moved points.

        Moving a frame turns it against the transported one, so a diagonal covariance becomes
        ``R diag(s²) Rᵀ``; the square roots of its diagonal are returned.
        """
        moved = self.points(x)
        tiny = 1e-4  # a step that is small against the curvature, and large against rounding
        columns = []
        for axis in torch.eye(std.shape[1], dtype=std.dtype, device=std.device):
            step = self.manifold.exp_map(x, self.manifold.from_frame(x, tiny * axis.expand_as(std)))
            log = self.manifold.log_map(moved, self.points(step))
            columns.append(self.manifold.to_frame(moved, log) / tiny)
        turn = torch.stack(columns, dim=-1)  # [n, Q, Q]
        return (turn.square() * std.square().unsqueeze(1)).sum(-1).sqrt()
