"""Checkpoints: an interrupted fit continues where it stopped."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hgplvm import _storage as storage
from hgplvm.kernels import Kernel

__all__ = ["Checkpoint", "digest"]

# seconds between two writes, and the most of the fit's time that writing may take
INTERVAL = 10.0
SHARE = 0.05
# parameters that do not change where a fit leads
FREE = ("callback", "checkpoint", "device", "verbose")


class Checkpoint:
    """One file with the state of one fit (:class:`hgplvm.fit.Snapshots`).

    Parameters
    ----------
    path : path
        The file.
    model : str
        Name of the estimator.
    parameters : dict
        Its parameters.
    data : str
        Digest of the data.
    device : torch.device
        Where tensors go.

    Raises
    ------
    ValueError
        If the file is not a checkpoint, or belongs to another fit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: str,
        parameters: dict[str, Any],
        data: str,
        device: torch.device,
    ) -> None:
        self._path, self._device = Path(path), device
        plain = {k: _plain(v) for k, v in parameters.items() if k not in FREE}
        self._identity: dict[str, Any] = {"model": model, "parameters": plain, "data": data}
        self.begin: dict[str, Any] | None = None
        self._state: dict[str, Any] | None = None
        self._written, self._pause = -float("inf"), INTERVAL
        if self._path.exists():
            tree = storage.read(self._path, "checkpoint")
            try:
                self._check(tree["identity"])
                self.begin = self._tensors(tree["begin"])
                self._state = self._tensors(tree["state"])
            except (KeyError, TypeError):
                raise ValueError(
                    f"The checkpoint {str(self._path)!r} is not complete. Give another path, or "
                    "delete the file."
                ) from None

    def _check(self, theirs: dict[str, Any]) -> None:
        """Refuse to go on from, and to overwrite, the state of another fit."""
        ours = self._identity
        differences = []
        if theirs["model"] != ours["model"]:
            differences.append(f"it is one of {theirs['model']}")
        elif theirs["parameters"] != ours["parameters"]:
            a, b = theirs["parameters"], ours["parameters"]
            changed = sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k))
            differences.append(f"the parameters {', '.join(changed)} were different")
        if theirs["data"] != ours["data"]:
            differences.append("the data were different")
        if differences:
            raise ValueError(
                f"The checkpoint {str(self._path)!r} belongs to another fit: "
                f"{' and '.join(differences)}. Give another path, or delete the file."
            )

    def load(self) -> dict[str, Any] | None:
        """Return the state that was in the file."""
        return self._state

    def save(self, state: dict[str, Any], *, now: bool) -> None:
        """Write a state, unless the last one was written a moment ago.

        If writing fails, there is a warning and the fit continues.
        """
        started = time.monotonic()
        if not now and started - self._written < self._pause:
            return
        tree = {"identity": self._identity, "begin": self.begin, "state": state}
        try:
            storage.write(self._path, "checkpoint", tree)
        except OSError as error:
            warnings.warn(f"{error} The fit goes on without it.", UserWarning, stacklevel=3)
        self._written = time.monotonic()
        self._pause = max(INTERVAL, (self._written - started) / SHARE)

    def _tensors(self, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind not in "OU":
            return torch.from_numpy(value).to(self._device)
        if isinstance(value, dict):
            return {k: self._tensors(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._tensors(v) for v in value]
        return value


def digest(*arrays: np.ndarray[Any, Any]) -> str:
    """Fingerprint of arrays: shape, dtype and content."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape}{array.dtype}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _plain(value: Any) -> Any:
    """Return a parameter as JSON would keep it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Kernel):
        return f"{type(value).__qualname__}{vars(value)!r}"
    if hasattr(value, "__len__"):
        return digest(np.asarray(value, dtype=np.float64))
    return type(value).__name__
