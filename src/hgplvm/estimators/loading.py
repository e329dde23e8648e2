"""Models from files."""

from __future__ import annotations

import os

from hgplvm import _storage as storage
from hgplvm._fitted.files import find_class, kernel_from_tree, model_from_tree
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.estimators.forwarding import ATTRIBUTES, OPTIONAL

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> BaseGPLVM:
    """Read a model that was written with its `save` method.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    estimator
        The fitted model: it infers latents, decodes and scores as the one that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a complete model of a format that this version reads, or if its class or
        its kernel has not been imported.
    """
    tree = storage.read(path, "model")
    try:
        kind = find_class(tree["class"], BaseGPLVM, "class")
        parameters = dict(tree["parameters"])
        if isinstance(parameters["kernel"], dict):
            parameters["kernel"] = kernel_from_tree(parameters["kernel"])
        model = kind(**parameters)
        for name, value in tree["fitted"].items():
            if name not in (*ATTRIBUTES, *OPTIONAL):
                raise KeyError(name)
            setattr(model, name, value)
        model._model = model_from_tree(tree["model"], kind._manifold)
        model._check_parameters()
        model._show()
    except ValueError as error:
        raise ValueError(_unusable(path, str(error))) from None
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(_unusable(path, f"{type(error).__name__}: {error}")) from None
    return model


def _unusable(path: str | os.PathLike[str], why: str) -> str:
    return f"The file {os.fspath(path)!r} holds no hgplvm model that this program can use: {why}."
