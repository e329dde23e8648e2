"""Fitted models as trees of plain values and arrays, for files.

A file names classes and holds no code. Reading it finds a class among those that the program has
already imported; it imports nothing.
"""

from __future__ import annotations

import math
import sys
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch

from hgplvm._counts import NegativeBinomial, Poisson, RateModel
from hgplvm._covariates import Covariate, Covariates
from hgplvm._fitted.covariates import FittedCovariates
from hgplvm._fitted.model import FittedModel
from hgplvm._fitted.off_map import OffMap
from hgplvm._fitted.predictions import KINDS
from hgplvm._fitted.rates import RateUnits
from hgplvm._fitted.units import Units
from hgplvm._log_counts import LogCountMean
from hgplvm._means import ColumnMeans, Mean
from hgplvm._signal import Signal
from hgplvm.covariance import Covariance, CovarianceFunction
from hgplvm.kernels import KERNELS, Kernel
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._pose import Pose
from hgplvm.objectives.positions import Positions
from hgplvm.objectives.residuals import ResidualScale

__all__ = [
    "class_name",
    "find_class",
    "kernel_from_tree",
    "kernel_tree",
    "model_from_tree",
    "model_tree",
]

Base = TypeVar("Base")

# means that a file can hold, by name
MEANS: dict[str, type[Mean]] = {"columns": ColumnMeans, "log-counts": LogCountMean}


# --- classes ----------------------------------------------------------------------------------


def class_name(kind: type, what: str) -> str:
    """Name by which :func:`find_class` finds a class again.

    Raises
    ------
    ValueError
        If it is not at the top level of a module, where another program could find it.
    """
    module, name = kind.__module__, kind.__qualname__
    if module.startswith("hgplvm.") and not module.startswith("hgplvm.tests"):
        return f"hgplvm:{name}"  # wherever in the package it stands
    if getattr(sys.modules.get(module), name, None) is not kind:
        raise ValueError(
            f"The model cannot be saved: {what} {name!r} is not defined at the top level of a "
            "module, so that no other program could find it again. Define it there, and fit again."
        )
    return f"{module}:{name}"


def find_class(name: str, base: type[Base], what: str) -> type[Base]:
    """Find a class that has been imported, by its name.

    Raises
    ------
    ValueError
        If there is none: the module that defines it is to be imported first.
    """
    classes = [base]
    for kind in classes:
        classes += kind.__subclasses__()
    module, _, short = name.partition(":")
    for kind in reversed(classes):
        home = "hgplvm" if kind.__module__.startswith("hgplvm.") else kind.__module__
        if (home, kind.__qualname__) == (module, short):
            return kind
    raise ValueError(
        f"its {what} is {short!r} of the module {module!r}, which this program has not imported; "
        "import that module first, then load again"
    )


# --- kernels ----------------------------------------------------------------------------------


def kernel_tree(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel by name, or by class and settings.

    Raises
    ------
    ValueError
        If it could not be made again from them.
    """
    if kernel.name in KERNELS and kernel == KERNELS[kernel.name]:
        return {"name": kernel.name}
    settings = kernel.settings()
    if lost := sorted(vars(kernel).keys() - settings.keys()):
        raise ValueError(
            f"The model cannot be saved: the kernel {type(kernel).__name__} has the attribute "
            f"{lost[0]!r}, which is not among its settings. Make it a frozen dataclass, so that it "
            "can be made again from its fields."
        )
    settings = {k: v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}
    for name, value in settings.items():
        if not isinstance(value, Kernel | bool | int | float | str | None):
            raise ValueError(
                f"The model cannot be saved: the setting {name!r} of the kernel "
                f"{type(kernel).__name__} is a {type(value).__name__}, and a file can hold "
                "numbers, texts and kernels."
            )
    kept = {k: kernel_tree(v) if isinstance(v, Kernel) else v for k, v in settings.items()}
    return {"class": class_name(type(kernel), "its kernel"), "settings": kept}


def kernel_from_tree(tree: dict[str, Any]) -> Kernel:
    """Make a kernel from what :func:`kernel_tree` returned."""
    if "name" in tree:
        return KERNELS[tree["name"]]
    settings = {
        k: kernel_from_tree(v) if isinstance(v, dict) else v for k, v in tree["settings"].items()
    }
    return find_class(tree["class"], Kernel, "kernel")(**settings)  # type: ignore[type-abstract]


# --- models -----------------------------------------------------------------------------------


def model_tree(model: FittedModel) -> dict[str, Any]:
    """Return a fitted model as a tree."""
    predictions = {f.name: getattr(model.predictions, f.name) for f in fields(model.predictions)}
    kinds = {kind: name for name, kind in MEANS.items()}
    if type(model.units.mean) not in kinds:
        raise ValueError(
            f"The model cannot be saved: its mean is a {type(model.units.mean).__name__}, and "
            f"files hold {' and '.join(kind.__name__ for kind in kinds)} alone."
        )
    signal = model.units.signal
    return {
        "manifold": model.manifold.name,
        "kernel": kernel_tree(model.covariance.kernel),
        "parameters": model.covariance.values,
        "noise": model.noise,
        "latents": model.latents,
        "std": model.std,
        "positions": _positions_tree(model.positions),
        "off_map": dict(vars(model.off_map)),
        "predictions": {"kind": model.predictions.kind, **predictions},
        "prior": {"root": model.prior_root, "scale": model.prior_scale},
        "residuals": {"sites": model.residuals.sites, "squares": model.residuals.squares},
        "pose": {"root": model.pose.root, "rotation": model.pose.rotation},
        "units": {
            "mean": {"kind": kinds[type(model.units.mean)], **vars(model.units.mean)},
            "data": model.units.data,
            "latent": model.units.latent,
            "signal": None if signal is None else dict(vars(signal)),
            "effects": model.units.effects,
            "rates": _rates_tree(model.units),
        },
        "covariates": _covariates_tree(model.covariates),
        "digests": model.digests,
        "sample": model.sample,
        "scores": model.scores,
        "single": model.single,
        "bound": model.bound,
        "variational": model.variational,
    }


def model_from_tree(tree: dict[str, Any], manifold: Manifold) -> FittedModel:
    """Make a fitted model from what :func:`model_tree` returned."""
    if tree["manifold"] != manifold.name:
        raise ValueError(f"its latent space is {tree['manifold']!r}, not {manifold.name!r}")
    kernel = kernel_from_tree(tree["kernel"])
    parts = {k: _tensor(v) for k, v in tree["predictions"].items() if k != "kind"}
    units, pose, residuals = tree["units"], tree["pose"], tree["residuals"]
    if not math.isfinite(tree["noise"]):
        raise ValueError("its noise is not a number")
    covariance = CovarianceFunction(manifold, kernel)
    covariates = _covariates(tree["covariates"])
    return FittedModel(
        covariance.at(tree["parameters"]),
        tree["noise"],
        _tensor(tree["latents"]),
        _tensor(tree["std"]),
        KINDS[tree["predictions"]["kind"]](**parts),
        _tensor(tree["prior"]["root"]),
        tree["prior"]["scale"],
        ResidualScale(manifold, _tensor(residuals["sites"]), _tensor(residuals["squares"])),
        _positions(tree["positions"], covariance, covariates),
        OffMap(**{name: _tensor(value) for name, value in tree["off_map"].items()}),
        Pose(manifold, _tensor(pose["root"]), _tensor(pose["rotation"])),
        _units(units),
        tree["digests"],
        covariates,
        tree["sample"],
        tree["scores"],
        tree["single"],
        tree["bound"],
        tree["variational"],
    )


def _positions_tree(positions: Positions) -> dict[str, Any]:
    kept = ("rows", "noise", "n_columns", "prior_scale", "modes", "own")
    return {
        # also those of a covariance that knows batches: these are in the model's covariates
        "parameters": Covariance.values.fget(positions.covariance),  # type: ignore[attr-defined]
        **{name: getattr(positions, name) for name in kept},
    }


def _positions(
    tree: dict[str, Any], function: CovarianceFunction, covariates: FittedCovariates | None
) -> Positions:
    covariance = function.at(tree["parameters"])
    if covariates is not None:
        covariance = covariates.covariance_of(covariance)
    names = ("rows", "noise", "n_columns", "prior_scale", "modes", "own")
    return Positions(covariance, *(_tensor(tree[name]) for name in names))


def _units(tree: dict[str, Any]) -> Units:
    mean = tree["mean"]
    parts = {
        "mean": MEANS[mean["kind"]](**{k: v for k, v in mean.items() if k != "kind"}),
        "data": tree["data"],
        "latent": tree["latent"],
        "signal": None if tree["signal"] is None else Signal(**tree["signal"]),
        "effects": tree["effects"],
    }
    if tree["rates"] is None:
        return Units(**parts)
    rates = dict(tree["rates"])
    phi, log_sizes = _tensor(rates.pop("dispersion")), rates.pop("log_sizes")
    likelihood = Poisson() if phi is None else NegativeBinomial(phi)
    model = RateModel(likelihood=likelihood, **{k: _tensor(v) for k, v in rates.items()})
    return RateUnits(**parts, rates=model, log_sizes=log_sizes)


def _rates_tree(units: Units) -> dict[str, Any] | None:
    if not isinstance(units, RateUnits):
        return None
    rates = units.rates
    return {
        "log_share": rates.log_share,
        "loadings": rates.loadings,
        "effects": rates.effects,
        "unit": rates.unit,
        "ridge": rates.ridge,
        "gauge": rates.gauge,
        "dispersion": rates.likelihood.dispersion,
        "log_sizes": units.log_sizes,
    }


def _covariates_tree(covariates: FittedCovariates | None) -> dict[str, Any] | None:
    if covariates is None:
        return None
    coding = covariates.coding
    return {
        **{k: v for k, v in vars(covariates).items() if k not in ("coding", "shares")},
        "shares": list(covariates.shares),
        "names": list(coding.names),
        "parts": [
            {
                "name": part.name,
                "levels": None if part.levels is None else list(part.levels),
                "middle": part.middle,
                "scale": part.scale,
            }
            for part in coding.parts
        ],
    }


def _covariates(tree: dict[str, Any] | None) -> FittedCovariates | None:
    if tree is None:
        return None
    parts = tuple(
        Covariate(
            part["name"],
            None if part["levels"] is None else tuple(part["levels"]),
            part["middle"],
            part["scale"],
        )
        for part in tree["parts"]
    )
    return FittedCovariates(
        Covariates(parts, tuple(tree["names"])),
        _tensor(tree["tags"]),
        _tensor(tree["design_covariance"]),
        tuple(tree["shares"]),
        _tensor(tree["mean"]),
        _tensor(tree["covariance"]),
    )


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
