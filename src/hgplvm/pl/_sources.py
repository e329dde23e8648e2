"""What is to be drawn: an AnnData object, a fitted model, or an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._points import resolve_point
from hgplvm._typing import Array
from hgplvm.geometry import lorentz_to_poincare, poincare_to_lorentz
from hgplvm.manifolds import Hyperbolic
from hgplvm.manifolds._pose import Pose
from hgplvm.pl._units import COUNTS, unit_of_fit

__all__ = ["Array", "Decoder", "Drawn", "decoder_of", "draw", "history_of"]


@dataclass(frozen=True)
class Drawn:
    """Points of the disk, as they are to be seen, and what they came from."""

    owner: str
    source: Any
    lorentz: Tensor  # [n, 3], as stored
    pose: Pose | None  # the isometry to what is seen; None where it is as stored
    covariance: Tensor | None  # [n, 2, 2] in the frames of the points as stored

    @property
    def points(self) -> Array:
        """Ball coordinates [n, 2]."""
        return np.asarray(lorentz_to_poincare(self.seen(self.lorentz)).numpy())

    def seen(self, points: Tensor) -> Tensor:
        """Points of the Lorentz model where they are seen."""
        return points if self.pose is None else self.pose.points(points)

    def place(self, name: str, value: object) -> Tensor:
        """Point, as stored, that a row, a name, a group, a mask or coordinates stand for."""
        return _place(self.owner, name, value, self.source, self.lorentz)


def draw(owner: str, data: Any, *, key: str = "hgplvm", root: object = None) -> Drawn:
    """Read the points of what is to be drawn; with a root, moved so that it is at the origin."""
    covariance = None
    if ad.is_anndata(data):
        keys = ad.checked_keys(owner, "key", key)
        ad.check_embedded(owner, data, keys)
        coordinates = data.obsm[keys.embedding]
        if keys.covariance in data.obsm:
            covariance = np.asarray(data.obsm[keys.covariance], dtype=np.float64)
    else:
        if hasattr(data, "get_params") and not hasattr(data, "lorentz_"):
            raise ValueError(
                f"The 'adata' of {owner} must be a fitted hyperbolic model or an array. Got "
                f"{data!r}, which is flat or not fitted: call its fit first, or scatter its "
                "embedding_ in the plane."
            )
        coordinates = getattr(data, "embedding_", data)
        covariance = getattr(data, "posterior_cov_", None)
    points = poincare_to_lorentz(torch.from_numpy(_disk_points(owner, coordinates)))
    spread = None if covariance is None else torch.from_numpy(np.array(covariance, dtype=float))
    pose = None
    if root is not None:
        place = _place(owner, "root", root, data, points)
        pose = Pose(Hyperbolic(), place, torch.eye(2, dtype=torch.float64))
    return Drawn(
        owner, data, points, pose, None if spread is None else spread.reshape(len(points), 2, 2)
    )


def _place(owner: str, name: str, value: object, source: Any, points: Tensor) -> Tensor:
    if ad.is_anndata(source):
        value = ad.root_rows(owner, name, source, value)
    return resolve_point(owner, name, value, points)


def _disk_points(owner: str, coordinates: Any) -> Array:
    points = check.check_points(owner, "adata", coordinates)
    if points.shape[1] != 2:
        raise ValueError(
            f"The 'adata' of {owner} must have 2 columns, the coordinates on the disk. "
            f"Got {points.shape[1]} instead; fit with n_components=2, or pass two of the columns."
        )
    if (radius := np.linalg.norm(points, axis=1).max()) >= 1.0:
        raise ValueError(
            f"The 'adata' of {owner} must lie inside the unit disk; a point has radius "
            f"{radius:.4g}. Flat embeddings have no picture on the disk."
        )
    return points


@dataclass(frozen=True)
class Decoder:
    """A fitted model as a function from the disk to one of its columns."""

    model: Any
    names: Array
    owner: str
    unit: str | None = None
    counts: bool = False

    @property
    def nonnegative(self) -> bool:
        """Whether no value of the data is below zero."""
        return bool(getattr(self.model, "nonnegative_", False))

    def columns(self, features: Any, name: str = "feature") -> list[int]:
        """Places of one or several features."""
        if isinstance(features, str | int | np.integer):
            return [self.column(features)]
        if not isinstance(features, Sequence | np.ndarray) and type(features).__name__ != "Index":
            raise ValueError(
                f"The {name!r} of {self.owner} must be the name or number of a column, or a list "
                f"of these. Got {features!r:.60} instead."
            )
        if not len(features):
            raise ValueError(
                f"The {name!r} of {self.owner} must name at least one column. Got none."
            )
        return [self.column(feature) for feature in features]

    def column(self, feature: object) -> int:
        """Place of a feature among the columns, by its name or its number."""
        n = len(self.names)
        if isinstance(feature, int | np.integer) and not isinstance(feature, bool):
            if -n <= feature < n:
                return int(feature) % n
        elif isinstance(feature, str):
            at = np.flatnonzero(self.names == feature)
            if len(at) > 1:
                raise ValueError(
                    f"The 'feature' of {self.owner} names {feature!r}, which {len(at)} columns "
                    f"have: take the number of one, such as {at[0]}."
                )
            if len(at) == 1:
                return int(at[0])
        shown = ", ".join(map(repr, self.names[:8].tolist())) + (" and more" if n > 8 else "")
        raise ValueError(
            f"The 'feature' of {self.owner} must be the name of one of the {n} columns that the "
            f"model was fitted to, or its number. Got {feature!r} instead; there are {shown}."
        )

    def __call__(self, points: Array, columns: list[int], *, block: int = 2000) -> Any:
        """Mean and standard deviation [n, columns] at points of the disk [n, 2]."""
        means, deviations = [], []
        for start in range(0, len(points), block):
            some = points[start : start + block]
            mean, std = self.model.inverse_transform(some, return_std=True)
            means.append(mean[:, columns])
            deviations.append(std[:, columns])
        return np.concatenate(means), np.concatenate(deviations)


def decoder_of(owner: str, data: Any, *, key: str = "hgplvm") -> Decoder:
    """Return the model that decodes, of a model or of an AnnData object."""
    if ad.is_anndata(data):
        keys = ad.checked_keys(owner, "key", key)
        model = ad.stored_model(owner, data, keys)
        features = [str(name) for name in data.uns[keys.uns].get("features", [])]
        features = features or [str(i) for i in range(model.n_features_in_)]
        unit, counts = unit_of_fit(data.uns[keys.uns].get("params", {}))
        return Decoder(model, np.array(features), owner, unit, counts)
    if not hasattr(data, "inverse_transform") or not hasattr(data, "lorentz_"):
        raise ValueError(
            f"{owner} decodes points, for which it needs a fitted hyperbolic model, or an AnnData "
            f"object after hgplvm.tl.hgplvm. Got {type(data).__name__} instead."
        )
    numbers = [str(i) for i in range(data.n_features_in_)]
    names = np.asarray(getattr(data, "feature_names_in_", numbers), dtype=str)
    counts = getattr(data, "likelihood", "gaussian") != "gaussian"
    return Decoder(data, names, owner, COUNTS if counts else None, counts)


def history_of(owner: str, data: Any, *, key: str = "hgplvm") -> dict[str, Array]:
    """Return the history of a fit, with the keys of the estimators' ``history_``."""
    if ad.is_anndata(data):
        found = ad.results(owner, data, ad.checked_keys(owner, "key", key))
        history = dict(found.get("history", {}))
        for group, prefix in (("evidence", "search_"), ("noise", "noise_")):
            history |= {f"{prefix}{k}": np.asarray(v) for k, v in found.get(group, {}).items()}
        return history
    written = getattr(data, "history_", None)
    return dict(written) if isinstance(written, dict) else {}
