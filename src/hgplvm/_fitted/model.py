"""A fitted model: one immutable object that infers latents, decodes, and can be saved.

It uses three frames. The *frame of the fit* is that of the latents at the end of the fit, and of
files; the *prior's frame* has the prior's centre at the origin, and computations are done in it (an
:class:`Engine`); the *pose* is the frame of the coordinates that users see.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm import _validation as check
from hgplvm._fitted.predictions import Predictions
from hgplvm._fitted.units import Units
from hgplvm._inference import Landmarks, RowInference
from hgplvm._points import resolve_point
from hgplvm._threads import threads_for_rows
from hgplvm._typing import Array
from hgplvm.covariance import Covariance
from hgplvm.manifolds import Manifold, wrapped_normal
from hgplvm.manifolds._pose import Pose, turned_covariances
from hgplvm.objectives.residuals import ResidualScale, residual_sites

__all__ = ["FittedModel", "Inferred", "row_digests"]

# training latents that new rows may start at
LANDMARKS = 4096


@dataclass(frozen=True)
class FittedModel:
    """Everything that is known after a fit, on the CPU, in double precision.

    Attributes
    ----------
    covariance : Covariance
        Manifold, kernel, and the values of their parameters.
    noise : float
        β⁻¹ of a new row.
    latents : Tensor [N, Q+1]
        Latents of the training rows, in the frame of the fit.
    std : Tensor [N, Q], optional
        Posterior standard deviations in the transported frames there.
    predictions : Predictions
        What predictions are made from.
    prior_root, prior_scale : Tensor [Q+1], float
        Centre and scale of the prior of new rows.
    residuals : ResidualScale
        Factors of the predictive variance, by point and column.
    pose : Pose
        The isometry to what users see.
    units : Units
        Units of rows and latents.
    digests : array [N]
        Fingerprints of the training rows.
    single : bool
        Whether users get numbers in single precision.
    bound : bool
        Whether the objective is a bound in which every row has its share.
    variational : bool
        Whether latents are distributions.
    """

    covariance: Covariance
    noise: float
    latents: Tensor
    std: Tensor | None
    predictions: Predictions
    prior_root: Tensor
    prior_scale: float
    residuals: ResidualScale
    pose: Pose
    units: Units
    digests: Array
    single: bool = False
    bound: bool = False
    variational: bool = False
    # at most one, made when it is first asked for
    _engines: dict[torch.device, Engine] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        covariance: Covariance,
        latents: Tensor,
        predictions: Predictions,
        *,
        noise: float,
        data: Tensor,
        observed: Tensor | None,
        row_noise: Tensor | None,
        beyond: Callable[[Tensor], Tensor] | None,
        units: Units,
        prior: tuple[Tensor, float] | None,
        center: str | int,
        std: Tensor | None,
        **rest: Any,
    ) -> FittedModel:
        """Make the model from what a fit ended with, on the device of the fit.

        Parameters
        ----------
        data, observed : Tensor [N, D]
            Training rows in the model's units, filled, and what of them is observed.
        row_noise : Tensor [N], optional
            Noise variances of the training rows, where they differ.
        beyond : callable, optional
            Scaled entries beyond the signal [n, D] of some of the rows.
        prior : tuple, optional
            Root and scale of the prior; without it the latents' own centre and root mean square
            distance from it.
        center : {"mean", "none"} or int
            What the pose puts at the origin.
        """
        manifold, latents = covariance.manifold, covariance.manifold.project(latents.double())
        root, scale = spread_of(manifold, latents) if prior is None else prior
        sites, rows, nearby = residual_sites(manifold, latents)
        predictor = predictions.predictor(covariance, noise, latents)
        error, spread = predictions.residuals(predictor, latents, rows, data.double())
        own = torch.full_like(spread, noise) if row_noise is None else row_noise[rows].double()
        error = units.deviations(error, None if beyond is None else beyond(rows))
        spread = units.variances(spread[:, None].expand(-1, data.shape[1]), 0.0) + own[:, None]
        z = error / spread.sqrt()
        seen = None if observed is None else observed[rows].double()
        residuals = ResidualScale.of(manifold, latents[sites], nearby, z, seen)
        pose = Pose.of(manifold, latents, center)
        model = cls(
            covariance,
            noise,
            latents,
            None if std is None else std.double(),
            predictions,
            root.double(),
            max(scale, 1e-6),
            residuals,
            pose,
            units,
            **rest,
        )
        return model._mapped(_at_rest)

    def _mapped(self, function: Any) -> FittedModel:
        """Apply a function to all tensors."""
        pose = Pose(self.manifold, function(self.pose.root), function(self.pose.rotation))
        residuals = ResidualScale(
            self.manifold, function(self.residuals.sites), function(self.residuals.squares)
        )
        return replace(
            self,
            latents=function(self.latents),
            std=None if self.std is None else function(self.std),
            predictions=self.predictions.mapped(function),
            prior_root=function(self.prior_root),
            residuals=residuals,
            pose=pose,
            _engines={},
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engines": {}}  # they live on a device, and are made anew

    @property
    def manifold(self) -> Manifold:
        """Latent space."""
        return self.covariance.manifold

    @property
    def n_components(self) -> int:
        """Dimensions of the latent space."""
        return self.manifold.n_components(self.latents)

    def engine(self, device: torch.device) -> Engine:
        """Return the model on a device, in the prior's frame."""
        engine = self._engines.get(device)
        if engine is None:
            engine = Engine(self, device)
            self._engines.clear()
            self._engines[device] = engine
        return engine

    # --- what users see -------------------------------------------------------------------

    def chart(self, points: Tensor) -> Array:
        """Coordinates of points in the pose."""
        shown = self.units.latent * self.manifold.to_chart(points).cpu().numpy()
        return self.manifold.clip_chart(shown.astype(self.dtype))

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Precision of what users see."""
        return np.float32 if self.single else np.float64

    def embedding(self) -> Array:
        """Coordinates of the training rows."""
        return self.chart(self.pose.points(self.latents))

    def points(self) -> Array:
        """Training rows as points of the manifold, in the pose."""
        return self.pose.points(self.latents).numpy().astype(self.dtype)

    def inducing(self) -> Array | None:
        """Inducing points, in the pose; None if there are none."""
        inducing = getattr(self.predictions, "inducing", None)
        if inducing is None or not len(inducing):
            return None
        found: Array = self.units.latent * self.pose.points(inducing).numpy()
        return found

    def posterior_cov(self) -> Array | None:
        """Posterior covariances of the training rows, in the pose; None if there are none."""
        if self.std is None:
            return None
        covariance = self.std.square().diag_embed()
        turned = self.pose.covariances(self.latents, covariance)
        found: Array = self.units.latent**2 * turned.numpy()
        return found

    def coordinates(self, owner: str, name: str, value: object) -> Tensor:
        """Points of the manifold, in the pose, from coordinates that users pass."""
        array = check.check_coordinates(owner, name, value, self.n_components)
        array = array / self.units.latent
        check.check_chart(owner, name, array, self.manifold)
        return self.manifold.from_chart(torch.from_numpy(array))

    def point(self, owner: str, name: str, value: object) -> Tensor:
        """One point in the frame of the fit: a row, the mean of a mask, or coordinates."""
        return resolve_point(
            owner,
            name,
            value,
            self.latents,
            manifold=self.manifold,
            at=lambda p: self.pose.back(self.coordinates(owner, name, p[None])).squeeze(0),
        )

    # --- views ----------------------------------------------------------------------------

    def recentred(self, root: Tensor) -> FittedModel:
        """Return the same model with a point of the fit's frame at the origin of the pose."""
        return replace(self, pose=Pose.of(self.manifold, self.latents, root), _engines={})

    def pseudotime(self, root: Tensor | None) -> Array:
        """Distances of the training rows from a root; None is the origin of the pose."""
        origin = self.pose.root if root is None else root
        found: Array = self.units.latent * self.manifold.distance(origin, self.latents).numpy()
        return found

    def pseudotime_std(self, root: Tensor | None) -> Array | None:
        """Return standard deviations of these distances; None if latents have no posterior."""
        if self.std is None:
            return None
        origin = self.pose.root if root is None else root
        covariance = self.std.square().diag_embed()
        _, std = wrapped_normal.distance_moments(self.manifold, origin, self.latents, covariance)
        found: Array = self.units.latent * std.numpy()
        return found

    def geodesic(self, a: Tensor, b: Tensor, n_points: int) -> Array:
        """Coordinates of points at equal distances from a to b, both in the frame of the fit."""
        share = torch.linspace(0.0, 1.0, n_points, dtype=torch.float64)[:, None]
        return self.chart(self.manifold.geodesic(self.pose.points(a), self.pose.points(b), share))

    def distances(self, points: Tensor | None) -> Array:
        """All distances between points, or between the training rows."""
        points = self.latents if points is None else points
        found = self.manifold.pairwise_distance(points).fill_diagonal_(0.0)
        distances: Array = self.units.latent * found.numpy()
        return distances

    # --- rows -----------------------------------------------------------------------------

    def known(self, data: Array) -> Array:
        """Which training row each row equals; -1 for those that are new.

        Where several training rows are equal, they are taken in turn.
        """
        wanted = row_digests(data)
        order = np.argsort(self.digests, kind="stable")
        digests = self.digests[order]
        first, last = (np.searchsorted(digests, wanted, side=side) for side in ("left", "right"))
        mine = np.argsort(wanted, kind="stable")
        turn = np.empty_like(mine)
        turn[mine] = np.arange(len(mine)) - np.searchsorted(wanted[mine], wanted[mine])
        at = first + turn % np.maximum(last - first, 1)
        return np.where(last > first, order[at.clip(max=len(order) - 1)], -1)


@dataclass(frozen=True)
class Inferred:
    """Rows in the model's units, 0 where nothing is observed, and their latents."""

    rows: Tensor
    observed: Tensor  # 1 and 0
    x: Tensor  # in the prior's frame
    std: Tensor | None  # of q(x), for Bayesian models
    known: Array  # the training row that each one is, or -1
    noise: Tensor | None  # [n], where rows differ
    beyond: Array  # [n], see ModelRows


class Engine:
    """A fitted model on a device, in the prior's frame."""

    def __init__(self, model: FittedModel, device: torch.device) -> None:
        self.model, self.device = model._mapped(lambda t: t.to(device)), device
        self.manifold = model.manifold
        root = self.model.prior_root
        self.latents = self.manifold.recenter(self.model.latents, root)
        sites = self.manifold.recenter(self.model.residuals.sites, root)
        self.residuals = ResidualScale(self.manifold, sites, self.model.residuals.squares)

    @cached_property
    def inference(self) -> RowInference:
        """What finds the latents of new rows."""
        model = self.model
        predictions = model.predictions.recentred(self.manifold, model.prior_root)
        parts = (model.covariance, model.noise, self.latents)
        predictor, scout = predictions.predictor(*parts), predictions.scout(*parts)
        chosen = torch.randperm(len(self.latents), generator=torch.Generator().manual_seed(0))
        at = self.latents[chosen[:LANDMARKS].to(self.device)]
        landmarks = Landmarks.of(predictor, at, noise=model.noise if model.bound else None)
        std = None
        if model.variational and model.std is not None:
            std = model.std.median().item()
        return RowInference(
            predictor, landmarks, model.prior_scale, scout=scout, bound=model.bound, std=std
        )

    def shown(self, x: Tensor) -> Tensor:
        """Points of the prior's frame, in the pose."""
        return self.model.pose.points(self.manifold.uncenter(x, self.model.prior_root))

    def hidden(self, x: Tensor) -> Tensor:
        """Points of the pose, in the prior's frame."""
        return self.manifold.recenter(self.model.pose.back(x), self.model.prior_root)

    def infer(self, data: Array) -> Inferred:
        """Latents of rows; those of the training data are where the fit put them."""
        seen = self.model.units.to_model(data)
        rows = torch.from_numpy(seen.values).to(self.device)
        observed = torch.from_numpy(seen.observed).to(self.device, torch.float64)
        noise = None if seen.noise is None else torch.from_numpy(seen.noise).to(self.device)
        known = self.model.known(data)
        at = torch.from_numpy(known).to(self.device)
        x, std = self.latents[at], None
        new = at < 0
        if self.model.variational and self.model.std is not None:
            std = self.model.std[at]
        if new.any():
            with threads_for_rows(int(new.sum())):
                own = None if noise is None else noise[new]
                found = self.inference.infer(rows[new], observed[new], own)
            x[new] = found.latents
            if std is not None:
                std[new] = found.logs["std"].exp()
        return Inferred(rows, observed, x, std, known, noise, seen.beyond)

    def covariances(self, found: Inferred) -> Array:
        """Posterior covariances [n, Q, Q] of inferred latents, in the pose."""
        std = found.std
        if std is None:
            with threads_for_rows(len(found.rows)):
                std = self.inference.posterior_std(found.rows, found.observed, found.x, found.noise)
        covariance = std.square().diag_embed()
        turned = turned_covariances(self.manifold, self.shown, found.x, covariance)
        return self.model.units.latent**2 * turned.cpu().numpy()

    def log_density(self, found: Inferred) -> float:
        """Mean log density of rows at their latents, in the units of the data."""
        with threads_for_rows(len(found.rows)):
            density = self.inference.log_density(found.rows, found.observed, found.x, found.noise)
        return float(density.mean().item() + found.beyond.mean())

    def decode(self, x: Tensor) -> tuple[Array, Array]:
        """Mean and standard deviation of rows at points of the prior's frame, in data units."""
        with threads_for_rows(len(x)):
            mean, variance = self.inference.predict(x)
            noise, units = self.inference.predictor.noise, self.model.units
            variance = units.variances((variance - noise).clamp_min(0.0), noise)
            std = (variance * self.residuals.at(x)).sqrt()
        return units.rows(mean, std)

    def sample(self, rows: Array, zeta: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at latents drawn around those of training rows [n].

        `zeta` [n, Q] are standard normal numbers.
        """
        at, standard = (torch.from_numpy(a).to(self.device) for a in (rows, zeta))
        if self.model.std is not None:  # in the frames of the fit
            x = wrapped_normal.points(
                self.manifold, self.model.latents[at], self.model.std[at], standard
            )
            x = self.manifold.recenter(x, self.model.prior_root)
        else:
            chosen, which = torch.unique(at, return_inverse=True)
            latents = self.latents[chosen]
            decoded, _ = self.inference.predict(latents)
            std = self.inference.posterior_std(decoded, torch.ones_like(decoded), latents)
            x = wrapped_normal.points(self.manifold, self.latents[at], std[which], standard)
        return self.decode(self.manifold.inside(x))


def spread_of(manifold: Manifold, latents: Tensor) -> tuple[Tensor, float]:
    """Fréchet mean of latents, and their root mean square distance from it along an axis."""
    root = manifold.frechet_mean(latents)
    square = manifold.distance(root, latents).square().mean().item()
    return root, math.sqrt(square / manifold.n_components(latents))


def _at_rest(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU in the order of a file, so that files give the same digits."""
    return torch.from_numpy(np.array(tensor.detach().cpu().numpy(), order="C"))


def row_digests(data: Array) -> Array:
    """Digest of 64 bits for each row, the same for every input type."""
    plain = np.where(np.isnan(data), np.nan, data) + 0.0  # one NaN, and one zero
    digests = [blake2b(row.data, digest_size=8).digest() for row in np.ascontiguousarray(plain)]
    return np.frombuffer(b"".join(digests), dtype=np.int64).copy()
