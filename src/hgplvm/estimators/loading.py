"""Models from files."""

from __future__ import annotations

import os

from hgplvm import storage
from hgplvm.estimators.base import BaseGPLVM
from hgplvm.estimators.bayesian import BayesianGPLVM, BayesianHGPLVM
from hgplvm.estimators.exact import GPLVM, HGPLVM
from hgplvm.estimators.keeping import ATTRIBUTES, OPTIONAL
from hgplvm.estimators.sparse import SparseGPLVM, SparseHGPLVM
from hgplvm.estimators.vecchia import VecchiaGPLVM, VecchiaHGPLVM

__all__ = ["load"]

MODELS: dict[str, type[BaseGPLVM]] = {
    model.__name__: model
    for model in (
        GPLVM,
        HGPLVM,
        SparseGPLVM,
        SparseHGPLVM,
        BayesianGPLVM,
        BayesianHGPLVM,
        VecchiaGPLVM,
        VecchiaHGPLVM,
    )
}


def load(path: str | os.PathLike[str]) -> BaseGPLVM:
    """Read a model that was written with its `save` method.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    estimator
        The fitted model: it places, decodes and scores as the one that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a complete model of a format that this version reads.
    """
    tree = storage.read(path, "model")
    try:
        model = MODELS[tree["model"]](**tree["parameters"])
        for name, value in tree["fitted"].items():
            if name not in (*ATTRIBUTES, *OPTIONAL):
                raise KeyError(name)
            setattr(model, name, value)
        model._kept, model._made = tree["kept"], {}
        model._scale = float(tree["kept"]["scale"])
        model._check_parameters()
        model._show(model._pose)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"The file {os.fspath(path)!r} holds no hgplvm model that this version can use "
            f"({type(error).__name__}: {error})."
        ) from None
    return model
