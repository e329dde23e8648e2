"""What all pictures share: axes, files, colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm.files import whole

__all__ = [
    "GRID",
    "MISSING_COLOR",
    "OKABE_ITO",
    "Colors",
    "color_map",
    "colors_of",
    "columns_of",
    "finished",
    "legend_width",
    "new_axes",
]

Array = np.ndarray[Any, np.dtype[Any]]

# Okabe and Ito's palette: distinguishable with any colour vision
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
GRID = "#d9d9d9"
MISSING_COLOR = "#bbbbbb"
# integers with more different values than this are numbers, not names
MOST_CATEGORIES = 30


def new_axes(
    ax: Axes | None, size: tuple[float, float], colors: Colors | None = None, legend: str = "none"
) -> Axes:
    """Return the axes that were given, or those of a new figure, with room for a legend."""
    if ax is None:
        width, height = size
        _, ax = plt.subplots(
            figsize=(width + legend_width(colors, legend), height), layout="constrained"
        )
    return ax


def legend_width(colors: Colors | None, legend: str) -> float:
    """Return inches that long names need at the side; short ones and colour bars have room."""
    if colors is None or colors.continuous or legend != "side":
        return 0.0
    longest = max(len(str(name)) for name in colors.names)
    return max(0.0, 0.08 * longest * columns_of(colors) - 0.6)


def columns_of(colors: Colors) -> int:
    """Return in how many columns the legend of categories stands."""
    return 1 + (len(colors.names) - 1) // 20


def finished(owner: str, ax: Axes, show: bool | None, save: str | PathLike[str] | None) -> Axes:
    """Save and show the figure of some axes."""
    figure = ax.get_figure(root=True)
    if save is not None and figure is not None:
        known = figure.canvas.get_supported_filetypes()
        kind = Path(save).suffix.lstrip(".").lower()
        if kind not in known:
            raise ValueError(
                f"The 'save' parameter of {owner} must be a file whose suffix is one of "
                f"{', '.join(sorted(known))}. Got {str(save)!r} instead."
            )
        with whole(save) as name:
            figure.savefig(name, dpi=150, format=kind)
    if show:
        plt.show()
    return ax


@dataclass(frozen=True)
class Colors:
    """One value a point: numbers on a scale, or categories with a colour each."""

    values: Array
    names: list[Any]  # categories in order; empty for numbers
    colors: list[Any]  # one for each category
    title: str | None = None

    @property
    def continuous(self) -> bool:
        """Whether the values are numbers on a scale."""
        return not self.names

    def rgba(self, palette: Any = None) -> Array:
        """Return a colour for each point [n, 4]."""
        if self.continuous:
            finite = self.values[np.isfinite(self.values)]
            low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
            share = (self.values - low) / ((high - low) or 1.0)
            found = color_map(palette)(np.nan_to_num(share))
            found[~np.isfinite(self.values)] = to_rgba(MISSING_COLOR)
            return np.asarray(found)
        table = {name: to_rgba(c) for name, c in zip(self.names, self.colors, strict=True)}
        return np.array([table[value] for value in self.values.tolist()])


def colors_of(
    owner: str, source: Any, color: Any, n_points: int, *, palette: Any = None, layer: Any = None
) -> Colors | None:
    """Read the colours of points: values, or the name of a column or gene of an AnnData object."""
    if color is None:
        return None
    title, order, own = None, None, None
    if isinstance(color, str):
        title, values, own = color, *_column(owner, source, color, layer)
        color = values
    if hasattr(color, "cat"):  # pandas keeps the order of categories
        order = [str(name) for name in color.cat.categories]
        color = np.asarray(color.astype(object))
    values = check.check_labels(owner, "color", color, n_points)
    if values.dtype.kind == "f":
        return Colors(values, [], [], title)
    if values.dtype.kind in "iu" and len(np.unique(values)) > MOST_CATEGORIES:
        return Colors(values.astype(float), [], [], title)
    found = np.unique(values).tolist()
    names = [name for name in (order or found) if name in set(found) and name != check.MISSING]
    if palette is None and own is not None and order is not None and len(own) >= len(order):
        chosen = [own[order.index(name)] for name in names]
    else:
        chosen = _category_colors(owner, len(names), palette)
    if check.MISSING in found:
        names, chosen = [*names, check.MISSING], [*chosen, MISSING_COLOR]
    return Colors(values, names, chosen, title)


def _column(owner: str, source: Any, name: str, layer: str | None) -> tuple[Any, Any]:
    """Values of a column of obs or of a gene, and the colours that scanpy keeps for it."""
    if not ad.is_anndata(source):
        raise ValueError(
            f"The 'color' of {owner} must be an array with a value for each point; names of "
            f"columns and genes go with an AnnData object. Got {name!r} instead."
        )
    if name in source.obs:
        return source.obs[name], source.uns.get(f"{name}_colors")
    owner_of = source
    if layer is None and source.raw is not None and name in source.raw.var_names:
        owner_of = source.raw
    if name not in owner_of.var_names:
        raise ValueError(
            f"The 'color' of {owner} must be a column of adata.obs, a name of adata.var_names, or "
            f"an array. Got {name!r}, which is none; the columns are "
            f"{', '.join(map(repr, source.obs.columns)) or 'none'}."
        )
    at = owner_of.var_names.get_loc(name)
    if not isinstance(at, int):
        raise ValueError(
            f"The 'color' of {owner} names {name!r}, which stands more than once in "
            "adata.var_names: run adata.var_names_make_unique() first."
        )
    matrix = owner_of.X if layer is None else source.layers[layer]
    values = ad.in_memory(matrix[:, [at]])
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    return dense.astype(float).ravel(), None


def color_map(palette: Any) -> Any:
    """Return a continuous colour map: by name, or along a list of colours."""
    if isinstance(palette, Sequence) and not isinstance(palette, str):
        return LinearSegmentedColormap.from_list("palette", list(palette))
    return colormaps[palette or "viridis"] if isinstance(palette or "", str) else palette


def _category_colors(owner: str, n: int, palette: Any) -> list[Any]:
    if isinstance(palette, Sequence) and not isinstance(palette, str):
        if len(palette) < n:
            raise ValueError(
                f"The 'palette' of {owner} must have a colour for each of the {n} categories. "
                f"Got {len(palette)} instead."
            )
        return list(palette[:n])
    if palette is None and n <= len(OKABE_ITO):
        return list(OKABE_ITO[:n])
    return list(colormaps[palette or "turbo"](np.linspace(0.05, 0.95, n)))
