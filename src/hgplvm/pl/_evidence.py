"""The evidence for a flat or a curved space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm.pl._palettes import OKABE_ITO
from hgplvm.pl._style import GRID, finished, picture, shown

__all__ = ["curvature"]

# the four-point defect of flat data
FLAT = 0.38


@picture
def curvature(
    adata: Any,
    *,
    key: str = "hgplvm",
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> list[Axes]:
    """Draw the evidence behind a verdict on curvature.

    On the left the gain: how much better latents in curved space predict held-out entries of
    held-out rows than latents in flat space, for each split, with the mean and its 90% interval. On
    the right how far distances are from adding up as on a tree, with its 90% interval, between a
    tree (0) and flat data.

    Parameters
    ----------
    adata : AnnData, fitted hyperbolic model, or Curvature
        An object that :func:`hgplvm.tl.curvature` has worked on, a model, which is then asked, or
        what either returned.
    key : str, default="hgplvm"
        For AnnData: the name of the embedding.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    list of Axes
    """
    owner = "pl.curvature"
    if ad.is_anndata(adata):
        keys = ad.checked_keys(owner, "key", key)
        found = ad.results(owner, adata, keys).get("curvature")
        if not isinstance(found, Mapping):
            raise ValueError(f"{owner} finds no verdict: run hgplvm.tl.curvature(adata) first.")
        values = dict(found)
    else:
        verdict = adata.curvature() if hasattr(adata, "get_params") else adata
        if not hasattr(verdict, "defect_error") or not hasattr(verdict, "gains"):
            raise ValueError(
                f"The 'adata' of {owner} must be an AnnData object after hgplvm.tl.curvature, a "
                f"fitted model, or what its curvature() returned. Got {shown(adata)} instead."
            )
        values = dict(vars(verdict))
    figure, axes = plt.subplots(
        1, 2, figsize=(8.4, 3.2), layout="constrained", gridspec_kw={"width_ratios": [1.2, 1.0]}
    )
    left, right = axes
    gains = np.asarray(values["gains"], dtype=float)
    if len(gains):
        left.scatter(np.arange(1, len(gains) + 1), gains, s=28, color=OKABE_ITO[0], zorder=3)
        mean, wide = float(values["gain"]), 1.645 * float(values["gain_error"])
        left.axhspan(mean - wide, mean + wide, color=OKABE_ITO[0], alpha=0.18, linewidth=0)
        left.axhline(mean, color=OKABE_ITO[0], linewidth=1.4)
        left.set_xticks(np.arange(1, len(gains) + 1))
    else:
        left.text(0.5, 0.5, "not computed", ha="center", va="center", transform=left.transAxes)
    left.axhline(0.0, color="black", linewidth=0.8)
    left.set(xlabel="split", ylabel="gain of curvature, nats an entry")
    left.set_title("held-out prediction", fontsize="medium")
    defect, error = float(values["defect"]), 1.645 * float(values["defect_error"])
    if math.isfinite(defect):
        bar = [[error if math.isfinite(error) else 0.0]]
        right.errorbar([defect], [0.0], xerr=bar, fmt="o", color=OKABE_ITO[5], capsize=4)
    for at, word in ((0.0, "tree"), (FLAT, "flat")):
        right.axvline(at, color="black", linewidth=0.8)
        right.text(at, 0.75, f" {word}", va="top", fontsize="small")
    right.set(xlim=(-0.08, 0.6), ylim=(-1.0, 1.0), yticks=[], xlabel="four-point defect")
    right.set_title("distances on a tree?", fontsize="medium")
    for ax in axes:
        ax.grid(color=GRID, linewidth=0.5)
        ax.set_axisbelow(True)
    figure.suptitle(str(values["reason"]))
    finished(left, show, save)
    return list(axes)
