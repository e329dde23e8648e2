"""Files that hgplvm keeps: arrays in safetensors, everything else as JSON in the header.

Nothing in such a file is ever executed: there is no pickle. It takes its place when it is complete
(:mod:`hgplvm._files`).

A file holds one tree of dicts and lists with arrays, numbers, texts and None at its ends.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hgplvm._files import whole

__all__ = ["FORMAT", "read", "write"]

# raise it when a file of an earlier version can no longer be read
FORMAT = 5
HEADER = "hgplvm"


def write(path: str | os.PathLike[str], kind: str, tree: dict[str, Any]) -> None:
    """Write a tree, as a whole or not at all.

    Parameters
    ----------
    path : path
        Where to; an existing file is replaced.
    kind : str
        What the file is: "model", "checkpoint" or "run".
    tree : dict
        What to write. Arrays and tensors keep their dtype; tensors come back as arrays.

    Raises
    ------
    OSError
        If the disk does not take it; what was there before stays.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    header = {"format": FORMAT, "kind": kind, "tree": _encoded(tree, arrays, "")}
    try:
        with whole(path) as name:
            save_file(arrays, name, metadata={HEADER: json.dumps(header)})
    except SafetensorError as error:
        raise OSError(f"The file {os.fspath(path)!r} could not be written: {error}.") from None


def read(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read a tree that :func:`write` wrote.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a complete file of this kind and format.
    """
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(f"There is no file {str(place)!r}.")
    try:
        with safe_open(place, framework="np") as file:
            header = json.loads((file.metadata() or {})[HEADER])
            found = (header["kind"], header["format"])
            if found == (kind, FORMAT):
                return _decoded(header["tree"], file)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ValueError(
            f"The file {str(place)!r} is not a complete hgplvm {kind}: it was cut short, changed, "
            "or written by another program."
        ) from None
    if found[0] != kind:
        raise ValueError(f"The file {str(place)!r} is an hgplvm {found[0]}, not a {kind}.")
    raise ValueError(
        f"The file {str(place)!r} has format {found[1]}, and this version of hgplvm reads format "
        f"{FORMAT} alone. Use the version that wrote it, or write it anew."
    )


def _encoded(value: Any, arrays: dict[str, np.ndarray[Any, Any]], name: str) -> Any:
    """JSON for a value, with its arrays put aside under their path."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OU" and all(isinstance(text, str) for text in value.flat):
            objects = value.dtype.kind == "O"
            return {"texts": value.reshape(-1).tolist(), "shape": value.shape, "objects": objects}
        if value.dtype.kind not in "biuf":
            raise TypeError(f"An array of {value.dtype} cannot be kept in a file.")
        arrays[name] = np.array(value, order="C")  # its own memory
        return {"array": name}
    if isinstance(value, dict):
        paths = {k: f"{name}/{quote(k, safe='')}" for k in value}
        return {"dict": {k: _encoded(v, arrays, paths[k]) for k, v in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [_encoded(v, arrays, f"{name}/{i}") for i, v in enumerate(value)]}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"A {type(value).__name__} cannot be kept in a file.")


def _decoded(value: Any, file: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return file.get_tensor(value["array"])
    if "texts" in value:
        kind = object if value["objects"] else str
        return np.array(value["texts"], dtype=kind).reshape(value["shape"])
    if "list" in value:
        return [_decoded(v, file) for v in value["list"]]
    return {k: _decoded(v, file) for k, v in value["dict"].items()}
