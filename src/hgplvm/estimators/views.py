"""Roots, distances and paths in the latent space of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from hgplvm import _validation as check
from hgplvm.geometry import Manifold, lorentz, wrapped_normal
from hgplvm.geometry.pose import Pose
from hgplvm.places import find_place

__all__ = ["ViewedModel"]

Array = np.ndarray[Any, np.dtype[Any]]


class ViewedModel:
    """Where things are, as seen from a root. No likelihood changes by it."""

    _manifold: Manifold
    _kept: dict[str, Array]
    _made: dict[Any, Any]

    if TYPE_CHECKING:
        embedding_: Array

        @property
        def _n_latent(self) -> int: ...
        @property
        def _name(self) -> str: ...
        @property
        def _unit(self) -> float: ...
        def _show(self, pose: Pose) -> None: ...
        def _chart(self, points: Tensor) -> Array: ...

    def recenter(self, root: object) -> Self:
        """Move a root to the origin by an isometry, and turn the picture to its canonical pose.

        What the model knows does not change: distances, decoded rows and scores stay as they are.

        Parameters
        ----------
        root : int, array of bool of shape (n_samples,), or array of shape (n_components,)
            A row of the training data, the Fréchet mean of some rows, or a point in the coordinates
            of `embedding_`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        pose = Pose.of(self._manifold, self._latents, self._place("root", root))
        seen = {"root": pose.root.numpy(), "rotation": pose.rotation.numpy()}
        self._kept, self._made = {**self._kept, **seen}, {}  # a copy of the model has its own
        self._show(pose)
        return self

    @overload
    def pseudotime(self, root: object = None, return_std: Literal[False] = False) -> Array: ...
    @overload
    def pseudotime(
        self, root: object = None, *, return_std: Literal[True]
    ) -> tuple[Array, Array]: ...
    def pseudotime(
        self, root: object = None, return_std: bool = False
    ) -> Array | tuple[Array, Array]:
        """Distance of each training row from a root.

        Parameters
        ----------
        root : as in `recenter`, default=None
            Where time begins; None is the origin, where `center` or `recenter` put it.
        return_std : bool, default=False
            Whether to return the standard deviation of each distance, too, from the row's own
            posterior. For the Bayesian and the nearest-neighbour models, which have one.

        Returns
        -------
        time : array of shape (n_samples,)
            Distances, hyperbolic for hyperbolic models.
        std : array of shape (n_samples,)
            With `return_std`. The root is taken as a place that is known.
        """
        check_is_fitted(self)
        check.check_flag(self._name, "return_std", return_std)
        place = self._pose.root if root is None else self._place("root", root)
        latents, manifold = self._latents, self._manifold
        time = self._unit * manifold.distance(place, latents).numpy()
        if not return_std:
            return time
        if "std" not in self._kept:
            raise ValueError(
                f"{self._name} keeps no posterior of its latents, so pseudotime has no standard "
                "deviation. Use a Bayesian or a nearest-neighbour (Vecchia) model, or "
                "return_std=False."
            )
        covariance = torch.from_numpy(self._kept["std"]).square().diag_embed()
        _, std = wrapped_normal.distance_moments(manifold, place, latents, covariance)
        return time, self._unit * std.numpy()

    def geodesic(self, a: object, b: object, n_points: int = 100) -> Array:
        """Points at equal distances along the geodesic between two places.

        `inverse_transform` decodes the rows along it.

        Parameters
        ----------
        a, b : as the root in `recenter`
            Where it begins and ends.
        n_points : int, default=100
            How many, both ends among them.

        Returns
        -------
        array of shape (n_points, n_components)
            Coordinates, as in `embedding_`.
        """
        check_is_fitted(self)
        check.check_number(self._name, "n_points", n_points, low=2, integer=True)
        manifold = self._manifold
        start, end = (self._pose.points(self._place(k, v)) for k, v in (("a", a), ("b", b)))
        share = torch.linspace(0.0, 1.0, n_points, dtype=torch.float64)[:, None]
        path = manifold.geodesic(start, end, share)
        return self._chart(path)

    def distances(self, P: object = None) -> Array:
        """All distances between points, hyperbolic for hyperbolic models.

        Parameters
        ----------
        P : array-like of shape (n_points, n_components), default=None
            Coordinates, as in `embedding_`; None takes the training rows.

        Returns
        -------
        array of shape (n_points, n_points)
        """
        check_is_fitted(self)
        points = self._latents if P is None else self._coordinates("P", P)
        found = self._manifold.pairwise_distance(points).fill_diagonal_(0.0)
        return self._unit * found.numpy()

    # --- places that users name -----------------------------------------------------------

    @property
    def _latents(self) -> Tensor:
        """Latents in the frame of the fit."""
        return torch.from_numpy(self._kept["latents"])

    @property
    def _pose(self) -> Pose:
        root, rotation = (torch.from_numpy(self._kept[k]) for k in ("root", "rotation"))
        return Pose(self._manifold, root, rotation)

    def _coordinates(self, name: str, value: object) -> Tensor:
        """Points of the manifold, in the pose."""
        array = check.check_coordinates(
            self._name, name, value, self._n_latent, inside_ball=self._manifold is lorentz
        )
        return self._manifold.from_chart(torch.from_numpy(array / self._unit))

    def _place(self, name: str, value: object) -> Tensor:
        """One point in the frame of the fit: a row, the mean of a mask, or coordinates."""
        return find_place(
            self._name,
            name,
            value,
            self._latents,
            manifold=self._manifold,
            at=lambda point: self._pose.back(self._coordinates(name, point[None])).squeeze(0),
        )
