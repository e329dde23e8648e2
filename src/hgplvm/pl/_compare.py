"""Several embeddings of the same rows, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.pl._disk import GRIDS, LEGENDS, DiskView, choice, draw_disk, draw_points
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import colors_of, finished, make_room, picture

__all__ = ["compare"]


@picture
def compare(
    adata: Any,
    color: Any = None,
    *,
    bases: Sequence[str] | None = None,
    root: Any = None,
    layer: str | None = None,
    ax: Sequence[Axes] | None = None,
    palette: str | Sequence[Any] | None = None,
    size: float | None = None,
    legend: str | bool = "side",
    grid: str | bool = "polar",
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> list[Axes]:
    """Several embeddings of the same rows side by side: hyperbolic ones on disks, others in planes.

    Parameters
    ----------
    adata : AnnData, or dict of str to model or array of shape (n, 2)
        The embeddings. A model is flat or hyperbolic by itself, one in an AnnData object is
        hyperbolic if its points on the Lorentz model are there, too, and an array is drawn on the
        disk if all of it lies inside.
    color : str or array of shape (n,), optional
        As in :func:`hgplvm.pl.poincare`, the same for all.
    bases : list of str, optional
        For AnnData: names of embeddings, such as ``["hgplvm", "umap"]``; by default all of
        ``adata.obsm`` that can be drawn.
    root : int, str, dict, or array of bool, optional
        Rows whose middle is moved to the origin of the disks, as in :func:`hgplvm.pl.poincare`.
    layer : str, optional
        As in :func:`hgplvm.pl.poincare`.
    ax : sequence of Axes, optional
        Where to draw, one for each; a new figure by default.
    palette, size, legend, grid
        As in :func:`hgplvm.pl.poincare`; the legend stands at the last one.
    show : bool, optional
        Whether to call ``plt.show()``. By default not: notebooks show figures by themselves.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    list of Axes
    """
    owner = "compare"
    legend = choice(owner, "legend", legend, LEGENDS)
    grid = choice(owner, "grid", grid, GRIDS)
    embeddings = _embeddings(owner, adata, bases)
    n_points = len(next(iter(embeddings.values()))[0])
    colors = colors_of(owner, adata, color, n_points, palette=palette, layer=layer)
    for name, (points, _) in embeddings.items():
        if len(points) != n_points:
            raise ValueError(
                f"The embeddings of compare must have the same rows. {name!r} has {len(points)}, "
                f"the first {n_points}."
            )
    moved = {
        name: draw(owner, _sourced(adata, name, points), key=name, root=root).points
        if hyperbolic
        else points
        for name, (points, hyperbolic) in embeddings.items()
    }
    if ax is None:
        inches = (4.2 * len(moved) + 0.8, 4.2)
        _, grid_of_axes = plt.subplots(
            1, len(moved), figsize=inches, layout="constrained", squeeze=False
        )
        axes = list(grid_of_axes[0])
    else:
        axes = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
        if len(axes) != len(moved):
            raise ValueError(
                f"The 'ax' of compare must be a sequence of {len(moved)} axes, one for each "
                f"embedding. Got {len(axes)} instead."
            )
    for number, (name, points) in enumerate(moved.items()):
        here, hyperbolic = axes[number], embeddings[name][1]
        words = legend
        if legend == "side" and number + 1 < len(moved):
            words = "none"
        view = DiskView(owner, points, 1.0) if hyperbolic else None
        if view is not None:
            draw_disk(here, view, grid=grid)
        else:
            here.set(aspect="equal", xticks=[], yticks=[])
            here.set_adjustable("datalim")
        draw_points(
            here,
            points,
            colors,
            owner=owner,
            palette=palette,
            size=size,
            legend=words,
            view=view,
            hyperbolic=hyperbolic,
        )
        here.set_title(name)
    if ax is None:
        make_room(axes[-1:], 4.2 * len(moved))
    finished(axes[0], show, save)
    return axes


def _embeddings(
    owner: str, data: Any, bases: Sequence[str] | None
) -> dict[str, tuple[Array, bool]]:
    """Return points of each embedding, and whether they lie on the disk."""
    if ad.is_anndata(data):
        found = _of_anndata(data, bases)
    elif isinstance(data, Mapping):
        if bases is not None:
            raise ValueError("The 'bases' of compare go with an AnnData object, not with a dict.")
        found = {str(name): embedding for name, embedding in data.items()}
    else:
        raise ValueError(
            "The 'adata' of compare must be an AnnData object, or a dict of names and embeddings. "
            f"Got {type(data).__name__} instead."
        )
    if not found:
        raise ValueError(f"The 'adata' of {owner} has no embedding with two columns.")
    result = {}
    for name, embedding in found.items():
        points = check.check_points(owner, name, getattr(embedding, "embedding_", embedding))
        if points.shape[1] != 2:
            raise ValueError(
                f"The embedding {name!r} of compare must have 2 columns. Got {points.shape[1]}."
            )
        if ad.is_anndata(data):
            hyperbolic = ad.Keys(name).lorentz in data.obsm
        elif hasattr(embedding, "embedding_"):
            hyperbolic = hasattr(embedding, "lorentz_")
        else:
            hyperbolic = bool(np.linalg.norm(points, axis=1).max() < 1.0)
        result[name] = (points, hyperbolic)
    return result


def _of_anndata(adata: Any, bases: Sequence[str] | None) -> dict[str, Any]:
    if bases is None:
        drawable = (k for k, v in adata.obsm.items() if k.startswith("X_") and v.shape[1] == 2)
        return {key.removeprefix("X_"): np.asarray(adata.obsm[key]) for key in drawable}
    found = {}
    for name in bases:
        if f"X_{name}" not in adata.obsm:
            raise ValueError(
                f"The 'bases' of compare must be names of embeddings in adata.obsm. Got {name!r}, "
                f"and there is no 'X_{name}'; there are {', '.join(adata.obsm.keys()) or 'none'}."
            )
        # scatter plots of more axes show the first two, as everywhere in scanpy
        found[name] = np.asarray(adata.obsm[f"X_{name}"])[:, :2]
    return found


def _sourced(data: Any, name: str, points: Array) -> Any:
    """Return what has names for the rows: the AnnData object where it holds these points."""
    held = ad.is_anndata(data) and np.asarray(data.obsm[f"X_{name}"]).shape[1] == 2
    return data if held else points
