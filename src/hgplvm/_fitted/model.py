"""A fitted model: one immutable object that infers latents, decodes, and can be saved.

It uses three frames. The *frame of the fit* is that of the latents at the end of the fit, and of
files; the *prior's frame* has the prior's centre at the origin, and computations are done in it (an
:class:`Engine`); the *pose* is the frame of the coordinates that users see.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from torch import Tensor

from hgplvm import _validation as check
from hgplvm._fitted.covariates import FittedCovariates
from hgplvm._fitted.off_map import OffMap
from hgplvm._fitted.predictions import Predictions
from hgplvm._fitted.rates import RateUnits
from hgplvm._fitted.units import Units
from hgplvm._points import resolve_point
from hgplvm._typing import Array
from hgplvm.covariance import Covariance
from hgplvm.manifolds import Manifold, wrapped_normal
from hgplvm.manifolds._pose import Pose
from hgplvm.objectives.positions import Positions
from hgplvm.objectives.residuals import ResidualScale, residual_sites

if TYPE_CHECKING:
    from hgplvm._fitted.engine import Engine

__all__ = ["FittedModel", "row_digests", "spread_of"]


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
        Standard deviations of q(x) in the transported frames there, of a Bayesian model.
    predictions : Predictions
        What predictions are made from.
    prior_root, prior_scale : Tensor [Q+1], float
        Centre and scale of the prior of new rows.
    residuals : ResidualScale
        Factors of the predictive variance, by point and column.
    positions : Positions
        Joint posterior of the latents.
    off_map : OffMap
        What training rows leave unexplained.
    pose : Pose
        The isometry to what users see.
    units : Units
        Units of rows and latents.
    digests : array [N]
        Fingerprints of the training rows.
    covariates : FittedCovariates, optional
        Covariates, and what is known of their effects.
    sample : array [n, d], optional
        Some of the training rows, centred, to tell whether they call for curvature.
    scores : array [m, r], optional
        Of counts the scores of some rows, for the same purpose.
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
    positions: Positions
    off_map: OffMap
    pose: Pose
    units: Units
    digests: Array
    covariates: FittedCovariates | None = None
    sample: Array | None = None
    scores: Array | None = None
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
        score_noise: Tensor | None = None,
        beyond: Callable[[Tensor], Tensor] | None,
        units: Units,
        prior: tuple[Tensor, float] | None,
        center: str | int,
        std: Tensor | None,
        covariates: FittedCovariates | None = None,
        free_length_scale: bool = True,
        **rest: Any,
    ) -> FittedModel:
        """Make the model from what a fit ended with, on the device of the fit.

        Parameters
        ----------
        data, observed : Tensor [N, D]
            Training rows in the model's units, filled, and what of them is observed.
        row_noise : Tensor [N], optional
            Noise variances of the training rows' entries, where they differ.
        score_noise : Tensor [N], optional
            Those of what the model sees of them, where they differ from these.
        beyond : callable, optional
            Scaled entries beyond the signal [n, D] of some of the rows.
        prior : tuple, optional
            Root and scale of the prior; without it the latents' own centre and root mean square
            distance from it.
        center : {"mean", "none"} or int
            What the pose puts at the origin.
        covariates : FittedCovariates, optional
            Covariates; their effects are not in the data any more.
        free_length_scale : bool
            Whether the posterior of the latents may have a κ of its own.
        """
        manifold, latents = covariance.manifold, covariance.manifold.project(latents.double())
        root, scale = spread_of(manifold, latents) if prior is None else prior
        sites, rows, nearby = residual_sites(manifold, latents)
        tagged, points = covariance, latents
        if covariates is not None:
            tagged, points = covariates.covariance_of(covariance), covariates.tagged(latents)
        predictor = predictions.predictor(tagged, noise, points)
        error, spread = predictions.residuals(predictor, points, rows, data.double())
        own = torch.full_like(spread, noise) if row_noise is None else row_noise[rows].double()
        error = units.deviations(error, None if beyond is None else beyond(rows))
        spread = units.variances(spread[:, None].expand(-1, data.shape[1]), 0.0) + own[:, None]
        z = error / spread.sqrt()
        seen = None if observed is None else observed[rows].double()
        residuals = ResidualScale.of(manifold, latents[sites], nearby, z, seen)
        noises = _whole(row_noise if score_noise is None else score_noise, noise, points[:, 0])
        positions = Positions.of(
            tagged,
            points,
            data.double(),
            noises,
            prior_scale=max(scale, 1e-6),
            observed=_shares(observed, data),
            free_length_scale=free_length_scale,
        )
        error, spread = predictions.residuals(predictor, points, positions.rows, data.double())
        own = noises[positions.rows] + spread
        off_map = OffMap.of(positions.rows, error, own.sqrt())
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
            positions,
            off_map,
            pose,
            units,
            covariates=covariates,
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
            positions=self.positions.mapped(function),
            off_map=self.off_map.mapped(function),
            pose=pose,
            covariates=None if self.covariates is None else self.covariates.mapped(function),
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
        from hgplvm._fitted.count_engine import CountEngine
        from hgplvm._fitted.engine import Engine

        engine = self._engines.get(device)
        if engine is None:
            kind = CountEngine if isinstance(self.units, RateUnits) else Engine
            engine = kind(self, device)
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
        bare = inducing[:, : self.latents.shape[1]]  # without the tags of batches
        found: Array = self.units.latent * self.pose.points(bare).numpy()
        return found

    def posterior_cov(self) -> Array:
        """Posterior covariances of the training rows, in the pose."""
        turned = self.pose.covariances(self.latents, self.positions.covariances(self.latents))
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

    def pseudotime_std(self, root: Tensor | None) -> Array:
        """Return standard deviations of these distances; the root is taken as known."""
        origin = self.pose.root if root is None else root
        covariance = self.positions.covariances(self.latents)
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

    def scale(self, n_draws: int = 100, n_rows: int = 300) -> tuple[float, float, float]:
        """Median distance between the latents, in curvature radii, and its 90% interval."""
        generator = torch.Generator().manual_seed(0)
        rows = torch.randperm(len(self.latents), generator=generator)[:n_rows]
        pairs = torch.triu_indices(len(rows), len(rows), 1)

        def median(x: Tensor) -> float:
            return float(self.manifold.distance(x[pairs[0]], x[pairs[1]]).median())

        draws = self.positions.draws(self.latents, n_draws, generator, rows=rows)
        found = np.array([median(x) for x in draws])
        # positions that are drawn scatter once more around positions that scatter already
        middle = median(self.latents[rows])
        low, high = np.quantile(found / np.median(found), [0.05, 0.95])
        return middle, middle * float(low), middle * float(high)

    # --- rows -----------------------------------------------------------------------------

    def known(self, wanted: Array) -> Array:
        """Which training row each row equals, by digests; -1 for those that are new.

        Where several training rows are equal, they are taken in turn.
        """
        order = np.argsort(self.digests, kind="stable")
        digests = self.digests[order]
        first, last = (np.searchsorted(digests, wanted, side=side) for side in ("left", "right"))
        mine = np.argsort(wanted, kind="stable")
        turn = np.empty_like(mine)
        turn[mine] = np.arange(len(mine)) - np.searchsorted(wanted[mine], wanted[mine])
        at = first + turn % np.maximum(last - first, 1)
        return np.where(last > first, order[at.clip(max=len(order) - 1)], -1)


def spread_of(manifold: Manifold, latents: Tensor) -> tuple[Tensor, float]:
    """Fréchet mean of latents, and their root mean square distance from it along an axis."""
    root = manifold.frechet_mean(latents)
    square = manifold.distance(root, latents).square().mean().item()
    return root, math.sqrt(square / manifold.n_components(latents))


def _whole(row_noise: Tensor | None, noise: float, like: Tensor) -> Tensor:
    """Noise variance of each row [N]."""
    return torch.full_like(like, noise) if row_noise is None else row_noise.double()


def _shares(observed: Tensor | None, data: Tensor) -> Tensor | None:
    """Share of each row's entries that is observed; None where rows are complete.

    Of noisy data the model sees scores, whose noise says already what is missing.
    """
    if observed is None or observed.shape != data.shape:
        return None
    return observed.double().mean(1)


def _at_rest(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU in the order of a file, so that files give the same digits."""
    return torch.from_numpy(np.array(tensor.detach().cpu().numpy(), order="C"))


def row_digests(data: Any, design: Array | None = None) -> Array:
    """Digest of 64 bits for each row, the same for every input type; covariates belong to a row."""
    if issparse(data):
        data = csr_matrix(data)
        data.sum_duplicates()
        values, columns = data.data.astype(np.float64), data.indices.astype(np.int64)
        spans = zip(data.indptr[:-1], data.indptr[1:], strict=True)
        rows = [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in spans]
    else:
        plain = np.where(np.isnan(data), np.nan, data) + 0.0  # one NaN, and one zero
        rows = [row.tobytes() for row in plain]
    if design is not None and design.shape[1]:
        more = np.ascontiguousarray(design + 0.0)
        rows = [row + own.tobytes() for row, own in zip(rows, more, strict=True)]
    digests = [blake2b(row, digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype=np.int64).copy()
