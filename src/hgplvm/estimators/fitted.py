"""What a fitted model does with new rows and new points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from hgplvm import _validation as check
from hgplvm.geometry import Manifold, lorentz, wrapped_normal
from hgplvm.geometry.pose import Pose, turned_covariances
from hgplvm.kernels import Kernel
from hgplvm.objectives import Parameters, inside
from hgplvm.objectives.placement import Landmarks
from hgplvm.objectives.predictive import NeighborPosterior
from hgplvm.objectives.residuals import ResidualScale, residual_sites
from hgplvm.placing import Placer

__all__ = ["Array", "FittedModel", "neighbor_posterior"]

Array = np.ndarray[Any, np.dtype[Any]]

# training latents that new rows may start at
LANDMARKS = 4096
# entries of new rows, in units of the data's spread, whose squares can be summed
LARGEST = 1e140


@dataclass(frozen=True)
class Tools:
    """A fitted model on a device, in float64.

    The model works in a frame in which its prior is centred; users see the pose.
    """

    device: torch.device
    kept: dict[str, Tensor]
    pose: Pose
    placer: Placer
    residuals: ResidualScale

    @property
    def manifold(self) -> Manifold:
        """Latent space."""
        return self.pose.manifold

    def shown(self, x: Tensor) -> Tensor:
        """Points of the model's frame, as users see them."""
        return self.pose.points(self.manifold.uncenter(x, self.kept["prior_root"]))

    def hidden(self, x: Tensor) -> Tensor:
        """Points that users see, in the model's frame."""
        return self.manifold.recenter(self.pose.back(x), self.kept["prior_root"])


@dataclass(frozen=True)
class Placed:
    """Rows in the model's units, 0 where nothing is observed, and where they are placed."""

    rows: Tensor
    observed: Tensor  # 1 and 0
    x: Tensor  # in the model's frame
    std: Tensor | None  # of q(x), for Bayesian models
    known: Array  # the training row that each one is, or -1


class FittedModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """New rows to latents, latents to rows: what every model can do after its fit.

    ``_kept`` holds all that is needed for it as plain arrays, in the frame of the fit and in units
    of the data's scale.
    """

    _manifold: Manifold
    _kept: dict[str, Array]
    _made: dict[torch.device, Tools]  # at most one, made when it is first asked for
    _scale: float
    _bounded = False  # whether the objective is a bound in which every row has its share
    _variational = False  # whether latents are distributions

    if TYPE_CHECKING:
        embedding_: Array
        posterior_cov_: Array
        posterior_std_: Array
        dtype: str
        center: str | int
        device: str
        n_components: int

        @property
        def _name(self) -> str: ...
        @property
        def _unit(self) -> float: ...
        def _read(self, X: object, *, fitting: bool) -> Array: ...
        def _coordinates(self, name: str, value: object) -> Tensor: ...
        def _keep_model(
            self, objective: Any, parameters: Parameters, data: Tensor
        ) -> dict[str, Tensor]: ...
        def _predictors(self, kept: dict[str, Tensor]) -> tuple[Any, Any]: ...
        def _residuals(
            self, predictor: Any, kept: dict[str, Tensor], rows: Tensor, data: Tensor
        ) -> Tensor: ...

    # --- rows to latents ------------------------------------------------------------------

    @overload
    def transform(
        self, X: object, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> Array: ...
    @overload
    def transform(
        self, X: object, return_std: bool = False, return_cov: bool = False
    ) -> Array | tuple[Array, Array]: ...
    def transform(
        self, X: object, return_std: bool = False, return_cov: bool = False
    ) -> Array | tuple[Array, Array]:
        """Place new rows: the latents that maximise their posterior density under the model.

        A row that equals one of the training data, entry by entry, keeps the latent that the fit
        gave it, so that ``fit_transform`` and ``fit`` with ``transform`` agree.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or tensor of shape (n_rows, n_features)
            New rows. Of a row with NaN, the other entries count; a row of NaN alone goes to the
            centre of the prior.
        return_std : bool, default=False
            Whether to return how sure each position is, too.
        return_cov : bool, default=False
            Whether to return the same as covariance matrices: of the two, only one can be had.

        Returns
        -------
        embedding : array of shape (n_rows, n_components)
            Coordinates, as in `embedding_`.
        std : array of shape (n_rows, n_components)
            With `return_std`: standard deviations, in the transported frame at each latent, of a
            wrapped normal that approximates its posterior. A row of NaN alone has the prior's.
        cov : array of shape (n_rows, n_components, n_components)
            With `return_cov`: covariances in that frame.
        """
        tools = self._tools()
        check.check_flag(self._name, "return_std", return_std)
        check.check_flag(self._name, "return_cov", return_cov)
        if return_std and return_cov:
            raise ValueError(
                "transform returns standard deviations or covariances, not both: the first are the "
                "roots of the diagonals of the second. Set one of return_std and return_cov."
            )
        with one_thread():
            found = self._placed(X, tools)
        x, known = found.x, found.known >= 0
        embedding = self._chart(tools.shown(x))
        embedding[known] = self.embedding_[found.known[known]]
        if not (return_std or return_cov):
            return embedding
        std = found.std
        if std is None:
            std = tools.placer.deviations(found.rows, found.observed, x)
        turned = turned_covariances(tools.manifold, tools.shown, x, std.square().diag_embed())
        cov = self._unit**2 * turned.cpu().numpy()
        if "std" in self._kept:
            cov[known] = self.posterior_cov_[found.known[known]]
        return embedding, cov if return_cov else _deviations(cov)

    def score(self, X: object, y: object = None) -> float:  # noqa: ARG002
        """Mean log predictive density of rows at the latents that they are given.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, in general new ones; NaN where an entry is missing.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        float
            Mean over the rows, in units of the data.
        """
        tools = self._tools()
        found = self._placed(X, tools)
        density = tools.placer.log_density(found.rows, found.observed, found.x)
        return (density - found.observed.sum(1) * math.log(self._scale)).mean().item()

    # --- latents to rows ------------------------------------------------------------------

    @overload
    def inverse_transform(self, P: object, return_std: Literal[False] = False) -> Array: ...
    @overload
    def inverse_transform(self, P: object, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def inverse_transform(self, P: object, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Decode points of the latent space into rows.

        Parameters
        ----------
        P : array-like of shape (n_points, n_components)
            Coordinates, as in `embedding_`.
        return_std : bool, default=False
            Whether to return the standard deviation of each entry, too.

        Returns
        -------
        mean : array of shape (n_points, n_features)
            Expected row at each point, in units of the data.
        std : array of shape (n_points, n_features)
            With `return_std`: how far an observed row may be from it, noise included. The model's
            own variance at the point, times what the residuals of the training rows nearby say of
            each column.
        """
        tools = self._tools()
        check.check_flag(self._name, "return_std", return_std)
        x = tools.hidden(self._coordinates("P", P).to(tools.device))
        mean, std = self._decoded(x, tools)
        return (mean, std) if return_std else mean

    def sample(self, n: int = 1, random_state: int | np.random.RandomState | None = None) -> Array:
        """Draw new rows from the model.

        A latent is drawn around that of a training row, from its posterior, and a row from what the
        model predicts there.

        Parameters
        ----------
        n : int, default=1
            Rows to draw.
        random_state : int, RandomState or None, default=None
            Seed.

        Returns
        -------
        array of shape (n, n_features)
        """
        tools = self._tools()
        check.check_number(self._name, "n", n, low=1, integer=True)
        random = check_random_state(random_state)
        latents = tools.kept["latents"]
        rows = torch.from_numpy(random.randint(len(latents), size=n)).to(tools.device)
        zeta = torch.from_numpy(random.standard_normal((n, self._n_latent))).to(latents)
        if "std" in tools.kept:  # in the frames of the fit
            means = torch.from_numpy(self._kept["latents"]).to(latents)[rows]
            x = wrapped_normal.place(tools.manifold, means, tools.kept["std"][rows], zeta)
            x = tools.manifold.recenter(x, tools.kept["prior_root"])
        else:
            chosen, which = torch.unique(rows, return_inverse=True)
            decoded, _ = tools.placer.predict(latents[chosen])
            std = tools.placer.deviations(decoded, torch.ones_like(decoded), latents[chosen])
            x = wrapped_normal.place(tools.manifold, latents[rows], std[which], zeta)
        mean, deviation = self._decoded(inside(tools.manifold, x), tools)
        return mean + deviation * random.standard_normal(mean.shape)

    # --- the model behind it --------------------------------------------------------------

    def _tools(self) -> Tools:
        """Return the model on its device."""
        check_is_fitted(self)
        device = check.check_device(self._name, self.device)
        if self._made.keys() != {device}:
            self._made.clear()
            self._made[device] = self._make_tools(device)
        return self._made[device]

    def _make_tools(self, device: torch.device) -> Tools:
        manifold = self._manifold
        kept = {name: torch.from_numpy(array).to(device) for name, array in self._kept.items()}
        pose = Pose(manifold, kept["root"], kept["rotation"])
        for name in kept.keys() & {"latents", "inducing", "sites"}:
            kept[name] = manifold.recenter(kept[name], kept["prior_root"])
        predictor, scout = self._predictors(kept)
        latents = kept["latents"]
        chosen = torch.randperm(len(latents), generator=torch.Generator().manual_seed(0))
        noise = kept["noise"].item() if self._bounded else None
        landmarks = Landmarks.of(predictor, latents[chosen[:LANDMARKS].to(device)], noise=noise)
        scale = kept["prior_scale"].item()
        std = kept["std"].median().item() if self._variational else None
        placer = Placer(predictor, landmarks, scale, scout=scout, bound=self._bounded, std=std)
        residuals = ResidualScale(manifold, kept["sites"], kept["site_squares"])
        return Tools(device, kept, pose, placer, residuals)

    def _keep(
        self,
        objective: Any,
        parameters: Parameters,
        data: Tensor,
        columns: Array,
        digests: Array,
    ) -> None:
        """Keep all that is needed after the fit, and show the latents in their pose."""
        manifold, unit = self._manifold, self._unit
        latents = manifold.project(parameters.latents.double())
        model = self._keep_model(objective, parameters, data)
        if "prior_root" not in model:  # the latents' own centre and spread stand for a prior
            root = manifold.frechet_mean(latents)
            square = manifold.distance(root, latents).square().mean().item() / self.n_components
            model["prior_root"], model["prior_scale"] = root, latents.new_tensor(math.sqrt(square))
        model["prior_scale"] = model["prior_scale"].clamp_min(1e-6)
        pose = Pose.of(manifold, latents, self.center)
        imputation = objective.responses.imputation
        kept = {
            **model,
            "latents": latents,
            "root": pose.root,
            "rotation": pose.rotation,
            "variance": latents.new_tensor(parameters.positive("variance")),
            "length_scale": latents.new_tensor(parameters.positive("length_scale")),
            "noise": latents.new_tensor(objective.noise_variance(parameters)),
        }
        if imputation is not None and "data" in model:
            kept["doubt"] = imputation.doubt.double()
        # residuals of rows near some sites, in the frame of the fit
        sites, rows, nearby = residual_sites(manifold, latents)
        z = self._residuals(self._predictors(kept)[0], kept, rows, data.double())
        seen = None if imputation is None else imputation.observed[rows].double()
        scale = ResidualScale.of(manifold, latents[sites], nearby, z, seen)
        kept |= {"sites": scale.sites, "site_squares": scale.squares}
        # in the order of a file, so that what is read from one gives the same digits
        self._kept = {name: np.array(t.cpu().numpy(), order="C") for name, t in kept.items()}
        self._kept["columns"], self._kept["digests"] = columns, digests
        self._kept["scale"] = np.array(self._scale)
        # parameters may change after a fit; the model does not
        self._kept["unit"] = np.array(unit)
        self._kept["single"] = np.array(self.dtype == "float32")
        self._made = {}
        self._show(pose)

    def _show(self, pose: Pose) -> None:
        """Set the attributes that depend on the pose."""
        unit, kept = self._unit, self._kept
        latents = torch.from_numpy(kept["latents"]).to(pose.root)
        points = pose.points(latents)
        self.embedding_ = self._chart(points)
        if self._manifold is lorentz:
            self.lorentz_ = points.cpu().numpy().astype(self._dtype)
        if "inducing" in kept and len(kept["inducing"]):
            inducing = torch.from_numpy(kept["inducing"]).to(pose.root)
            self.inducing_ = unit * pose.points(inducing).cpu().numpy()
        if "std" in kept:
            covariance = torch.from_numpy(kept["std"]).to(pose.root).square().diag_embed()
            self.posterior_cov_ = unit**2 * pose.covariances(latents, covariance).cpu().numpy()
            self.posterior_std_ = _deviations(self.posterior_cov_)

    def _chart(self, points: Tensor) -> Array:
        chart = (self._unit * self._manifold.to_chart(points).cpu().numpy()).astype(self._dtype)
        if self._manifold is lorentz:  # rounding must not put a point on the boundary
            most = 1.0 - 4.0 * np.finfo(chart.dtype).eps
            norm = np.linalg.norm(chart, axis=1, keepdims=True)
            chart = np.where(norm > most, chart * (most / np.maximum(norm, most)), chart)
        return chart

    @property
    def _dtype(self) -> type[np.floating[Any]]:
        return np.float32 if self._kept["single"] else np.float64

    @property
    def _n_latent(self) -> int:
        """Dimensions of the latent space, of this fit."""
        return int(self._kept["rotation"].shape[0])

    def _placed(self, X: object, tools: Tools) -> Placed:
        """Place rows; those of the training data are where the fit put them."""
        data = self._read(X, fitting=False)
        seen = ~np.isnan(data)
        scaled = np.where(seen, (data - self._kept["columns"]) / self._scale, 0.0)
        if scaled.size and (largest := float(np.abs(scaled).max())) > LARGEST:
            raise ValueError(
                f"A row of the new data is {largest:.3g} times as far from the training data as "
                "these are spread, whose square is beyond floating point. Check its units."
            )
        rows = torch.from_numpy(scaled).to(tools.device)
        observed = torch.from_numpy(seen).to(tools.device, torch.float64)
        known = self._known(data)
        at = torch.from_numpy(known).to(tools.device)
        x, std = tools.kept["latents"][at], None
        new = at < 0
        if self._variational:
            std = tools.kept["std"][at]
        if new.any():
            found = tools.placer.place(rows[new], observed[new])
            x[new] = found.latents
            if std is not None:
                std[new] = found.logs["std"].exp()
        return Placed(rows, observed, x, std, known)

    def _known(self, data: Array) -> Array:
        """Which training row each row equals; -1 for those that are new.

        Where several training rows are equal, they are taken in turn.
        """
        wanted = row_digests(data)
        order = np.argsort(self._kept["digests"], kind="stable")
        digests = self._kept["digests"][order]
        first, last = (np.searchsorted(digests, wanted, side=side) for side in ("left", "right"))
        mine = np.argsort(wanted, kind="stable")
        turn = np.empty_like(mine)
        turn[mine] = np.arange(len(mine)) - np.searchsorted(wanted[mine], wanted[mine])
        at = first + turn % np.maximum(last - first, 1)
        return np.where(last > first, order[at.clip(max=len(order) - 1)], -1)

    def _decoded(self, x: Tensor, tools: Tools) -> tuple[Array, Array]:
        """Mean and standard deviation of rows at points of the model's frame, in data units."""
        mean, variance = tools.placer.predict(x)
        std = (variance * tools.residuals.at(x)).sqrt()
        columns = self._kept["columns"]
        return columns + self._scale * mean.cpu().numpy(), self._scale * std.cpu().numpy()


def _deviations(covariances: Array) -> Array:
    """Roots of the diagonals: [n, Q]."""
    return np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))


def row_digests(data: Array) -> Array:
    """64 bits that tell a row [D] from others, however it was passed in."""
    plain = np.where(np.isnan(data), np.nan, data) + 0.0  # one NaN, and one zero
    digests = [blake2b(row.data, digest_size=8).digest() for row in np.ascontiguousarray(plain)]
    return np.frombuffer(b"".join(digests), dtype=np.int64).copy()


def neighbor_posterior(
    manifold: Manifold, kernel: Kernel, kept: dict[str, Tensor], n_neighbors: int
) -> NeighborPosterior:
    """Predictions from the nearest training rows, and from inducing points where there are some."""
    latents, data = kept["latents"], kept["data"]
    return NeighborPosterior(
        manifold,
        kernel,
        n_neighbors=min(n_neighbors, len(data)),
        data=data,
        latents=latents,
        inducing=kept.get("inducing", latents[:0]),
        smooth_mean=kept.get("smooth_mean", data[:0]),
        smooth_covariance=kept.get("smooth_covariance", data.new_zeros(0, 0)),
        doubt=kept.get("doubt"),
        **{name: kept[name].item() for name in ("variance", "length_scale", "noise")},
    )
