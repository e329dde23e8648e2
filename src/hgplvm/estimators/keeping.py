"""Models to files; :mod:`hgplvm.estimators.loading` reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hgplvm import _validation as check
from hgplvm import storage
from hgplvm.geometry import Manifold
from hgplvm.geometry.pose import Pose

__all__ = ["ATTRIBUTES", "OPTIONAL", "KeptModel"]

Array = np.ndarray[Any, np.dtype[Any]]

# fitted attributes that are kept as they are; what depends on the pose is made anew
ATTRIBUTES = (
    "log_likelihood_",
    "variance_",
    "noise_variance_",
    "length_scale_",
    "history_",
    "n_iter_",
    "stop_reason_",
    "n_features_in_",
)
# and those that only some models have
# (source_ is set where rows come from an AnnData object: its layer, representation, preparation)
OPTIONAL = ("feature_names_in_", "n_inducing_", "source_", "_sklearn_output_config")


class KeptModel:
    """A model that can be written to a file and read again."""

    _manifold: Manifold
    _kept: dict[str, Array]
    _scale: float

    if TYPE_CHECKING:

        @property
        def _name(self) -> str: ...
        @property
        def _pose(self) -> Pose: ...
        def _show(self, pose: Pose) -> None: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102
        def _check_parameters(self) -> None: ...

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        if "_made" in state:  # it lives on a device, and is made anew
            state["_made"] = {}
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which :func:`hgplvm.load` reads.

        The file is a safetensors file with a JSON header. It holds no code, and takes its place
        only when it is complete. The exact and the nearest-neighbour models keep the training data
        in it. Not kept are a `callback`, a `checkpoint`, and a `random_state` that is no number.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced.
        """
        check_is_fitted(self)
        place = check.check_path(self._name, "path", path)
        parameters = self.get_params(deep=False) | {"callback": None, "checkpoint": None}
        parameters["device"] = str(parameters["device"])
        if not isinstance(parameters["random_state"], int | np.integer):
            parameters["random_state"] = None
        if not isinstance(parameters["init"], str):
            parameters["init"] = check.as_array(parameters["init"]).astype(np.float64)
        fitted = {name: getattr(self, name) for name in ATTRIBUTES}
        fitted |= {name: getattr(self, name) for name in OPTIONAL if hasattr(self, name)}
        tree = {
            "model": self._name,
            "parameters": parameters,
            "fitted": fitted,
            "kept": self._kept,
        }
        storage.write(place, "model", tree)
