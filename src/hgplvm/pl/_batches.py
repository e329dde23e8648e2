"""How batches are mixed before and after a fit."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hgplvm import _anndata as ad
from hgplvm.metrics import batch_mixing
from hgplvm.pl._colors import colors_of
from hgplvm.pl._layout import Panels
from hgplvm.pl._points import draw_points
from hgplvm.pl._sources import Array
from hgplvm.pl._style import finished, picture
from hgplvm.pl._view import DiskView, draw_disk

__all__ = ["batches"]

# rows of which it is computed how batches are mixed
MIXED_ROWS = 5000


@picture
def batches(
    adata: Any,
    batch: str | None = None,
    *,
    key: str = "hgplvm",
    palette: str | Sequence[Any] | None = None,
    size: float | None = None,
    show: bool | None = None,
    save: str | PathLike[str] | None = None,
) -> list[Axes]:
    """Batches before and after a fit, with how well they are mixed.

    On the left are the first two principal components of the data, on the right is the map. The
    numbers are :func:`hgplvm.metrics.batch_mixing`, on the left of ten components: 0 where batches
    are apart, 1 where they are mixed at random.

    Parameters
    ----------
    adata : AnnData
        An object that :func:`hgplvm.tl.hgplvm` has worked on.
    batch : str, optional
        A column of ``adata.obs``; by default the `batch_key` of the fit.
    key : str, default="hgplvm"
        Name of the embedding.
    palette, size
        As in :func:`hgplvm.pl.poincare`.
    show : bool, optional
        Whether to call ``plt.show()``.
    save : path, optional
        File to write the figure to; its suffix gives the format.

    Returns
    -------
    list of Axes
    """
    owner = "batches"
    ad.check_anndata(owner, adata)
    keys = ad.checked_keys(owner, "key", key)
    found = ad.results(owner, adata, keys)
    params = found.get("params", {})
    if batch is None and "batch_key" not in params:
        raise ValueError(
            "batches needs the name of a column of adata.obs: the fit had no batch_key."
        )
    batch = str(params["batch_key"]) if batch is None else batch
    own = ad.covariates_of(owner, adata, [batch], batch)[batch].astype(str)
    values = _values(owner, adata, params, found.get("features"))
    chosen = np.sort(np.random.default_rng(0).permutation(adata.n_obs)[:MIXED_ROWS])
    points = np.asarray(adata.obsm[keys.embedding], dtype=float)
    if points.shape[1] != 2:
        raise ValueError(f"batches draws maps of 2 dimensions. Got {points.shape[1]} instead.")
    leading = ad.leading_directions(values, chosen)
    before = batch_mixing(leading, own[chosen], metric="euclidean")
    after = batch_mixing(points[chosen], own[chosen])

    view = DiskView(owner, points, "auto")
    shape = view.size(14.0)
    panels = Panels([(shape[1], shape[1]), shape])
    left, right = axes = panels.axes
    left.set(aspect="equal", xticks=[], yticks=[], xlabel="component 1", ylabel="component 2")
    left.set_adjustable("datalim")
    left.set_title(f"before: mixed to {before:.2f}")
    right.set_title(f"after: mixed to {after:.2f}")
    draw_disk(right, view, grid="polar", points=points)
    for ax, places, rows, here, legend in (
        (left, leading[:, :2], adata[chosen], None, "none"),
        (right, points, adata, view, "side"),
    ):
        draw_points(
            ax,
            places,
            colors_of(owner, rows, batch, len(places), palette=palette, key=key),
            owner=owner,
            palette=palette,
            size=size,
            legend=legend,
            view=here,
            hyperbolic=here is not None,
        )
    panels.pack()
    finished(left, show, save)
    return list(axes)


def _values(owner: str, adata: Any, params: Any, features: Any) -> Any:
    """Rows as they stand in the object, with the columns of the fit."""
    if "use_rep" in params:
        return np.asarray(adata.obsm[str(params["use_rep"])])
    values = ad.in_memory(ad.layer_of(owner, adata, params.get("layer")))
    if features is None:
        return values
    wanted = set(np.asarray(features).astype(str))
    kept: Array = np.array([str(name) in wanted for name in adata.var_names])
    return values[:, np.flatnonzero(kept)]
