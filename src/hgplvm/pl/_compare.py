"""Several embeddings of the same rows, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.pl._colors import Limits, colors_of
from hgplvm.pl._disk import panel_area
from hgplvm.pl._layout import COLUMNS, Panels
from hgplvm.pl._points import LEGENDS, draw_points
from hgplvm.pl._sources import Array, draw
from hgplvm.pl._style import choice, finished, picture, plain
from hgplvm.pl._view import GRIDS, DiskView, draw_disk

__all__ = ["compare"]


@picture
def compare(
    adata: Any,
    color: Any = None,
    *,
    bases: Sequence[str] | None = None,
    root: Any = None,
    zoom: float | str = "auto",
    groups: str | Sequence[str] | None = None,
    layer: str | None = None,
    use_raw: bool | None = None,
    ax: Sequence[Axes] | None = None,
    ncols: int = COLUMNS,
    palette: str | Sequence[Any] | None = None,
    cmap: Any = None,
    vmin: Any = None,
    vmax: Any = None,
    vcenter: Any = None,
    size: float | None = None,
    legend: str | bool = "side",
    frameon: bool = True,
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
    zoom, groups, layer, use_raw
        As in :func:`hgplvm.pl.poincare`.
    ax : sequence of Axes, optional
        Where to draw, one for each; a new figure by default.
    ncols : int, default=3
        Panels in a row.
    palette, cmap, vmin, vmax, vcenter, size, legend, frameon, grid
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
    check.check_number(owner, "ncols", ncols, low=1, integer=True)
    embeddings = _embeddings(owner, adata, bases)
    n_points = len(next(iter(embeddings.values()))[0])
    reading: dict[str, Any] = {"layer": layer, "use_raw": use_raw, "groups": groups}
    colors = colors_of(owner, adata, color, n_points, palette=palette, **reading)
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
    views = {
        name: DiskView(owner, points, zoom) if embeddings[name][1] else None
        for name, points in moved.items()
    }
    high = (panel_area(len(moved)) / 1.2) ** 0.5
    panels = None
    if ax is None:
        shapes = [(1.0, 1.0) if v is None else v.size(1.0) for v in views.values()]
        panels = Panels([(high * w / h, high) for w, h in shapes], int(ncols))
        axes = panels.axes
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
        view = views[name]
        if view is not None:
            draw_disk(here, view, grid=grid, frameon=frameon, points=points)
        else:
            here.set(aspect="equal", xticks=[], yticks=[], frame_on=frameon)
            here.set_adjustable("datalim")
        draw_points(
            here,
            points,
            colors,
            owner=owner,
            palette=palette,
            cmap=cmap,
            limits=Limits(owner, vmin, vmax, vcenter),
            size=size,
            legend=words,
            view=view,
            hyperbolic=hyperbolic,
        )
        here.set_title(plain(name))
    if panels is not None:
        panels.pack()
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
