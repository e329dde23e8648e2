"""What all pictures share: axes, files, colours."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.colors import Colormap, LinearSegmentedColormap, is_color_like, to_rgba

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._files import whole
from hgplvm._typing import Array

__all__ = [
    "GRID",
    "MISSING_COLOR",
    "OKABE_ITO",
    "Colors",
    "checked_colors",
    "color_map",
    "colors_of",
    "columns_of",
    "finished",
    "make_room",
    "new_axes",
    "picture",
    "shown",
]

Drawing = TypeVar("Drawing", bound=Callable[..., Any])

# Okabe and Ito's palette: distinguishable with any colour vision
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
GRID = "#d9d9d9"
MISSING_COLOR = "#bbbbbb"
# integers with more different values than this are numbers, not names
MOST_CATEGORIES = 30


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the axes that were given, or those of a new figure."""
    if ax is not None and not isinstance(ax, Axes):
        raise ValueError(f"The 'ax' of a picture must be matplotlib Axes. Got {shown(ax)} instead.")
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def make_room(axes: Sequence[Axes], width: float, *, columns: int = 1) -> None:
    """Widen a figure of our own for the legends beside its axes, which take `width` inches."""
    figure = axes[0].get_figure(root=True)
    legends = [legend for ax in axes if (legend := ax.get_legend()) is not None]
    if legends and figure is not None:
        widest = max(legend.get_window_extent().width for legend in legends) / figure.dpi
        needed = columns * (width + widest + 0.1) + 0.3 * (columns > 1)
        figure.set_figwidth(max(figure.get_figwidth(), needed))


def columns_of(colors: Colors) -> int:
    """Return in how many columns the legend of categories stands."""
    return 1 + (len(colors.names) - 1) // 20


def picture(function: Drawing) -> Drawing:
    """Check where a picture is to go before it is drawn; leave no figure behind where it fails."""

    @functools.wraps(function)
    def drawn(*args: Any, **options: Any) -> Any:
        save = options.get("save")
        if save is not None:
            _check_save(function.__name__, save)
        before = set(plt.get_fignums())
        try:
            return function(*args, **options)
        except BaseException:
            for number in set(plt.get_fignums()) - before:
                plt.close(number)
            raise

    return cast(Drawing, drawn)


def _check_save(owner: str, save: object) -> None:
    path = check.check_path(owner, "save", save)
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise ValueError(
            f"The 'save' parameter of {owner} must be a file whose suffix is one of "
            f"{', '.join(sorted(known))}. Got {str(save)!r} instead."
        )


def finished(ax: Axes, show: bool | None, save: str | PathLike[str] | None) -> Axes:
    """Save and show the figure of some axes."""
    figure = ax.get_figure(root=True)
    if save is not None and figure is not None:
        with whole(save) as name:
            figure.savefig(name, dpi=150, format=Path(save).suffix.lstrip(".").lower())
    if show:
        plt.show()
    return ax


def shown(thing: object) -> str:
    """Return a thing in one short line, for a sentence."""
    text = " ".join(repr(thing).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True)
class Colors:
    """One value per point: numbers on a scale, or categories with a colour each."""

    values: Array
    names: list[Any]  # categories in order; empty for numbers
    colors: list[Any]  # one for each category
    title: str | None = None

    @property
    def continuous(self) -> bool:
        """Whether the values are numbers on a scale."""
        return not self.names

    def rgba(self, scale: Colormap) -> Array:
        """Return a colour for each point [n, 4]; numbers on a scale."""
        if self.continuous:
            finite = self.values[np.isfinite(self.values)]
            low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
            known = np.isfinite(self.values)
            share = np.where(known, self.values - low, 0.0) / ((high - low) or 1.0)
            found = scale(share)
            found[~known] = to_rgba(MISSING_COLOR)
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
    categories = getattr(getattr(color, "cat", color), "categories", None)
    if categories is not None:  # pandas keeps their order
        order = [str(name) for name in categories]
        color = np.asarray(color.astype(object))
    else:
        color = _numbers_of(color)
    values = check.check_labels(owner, "color", color, n_points)
    if values.dtype.kind == "f":
        return Colors(values, [], [], title)
    if values.dtype.kind in "iu" and len(np.unique(values)) > MOST_CATEGORIES:
        return Colors(values.astype(float), [], [], title)
    found = np.unique(values).tolist()
    names = [name for name in (order or found) if name in set(found) and name != check.MISSING]
    order = names if order is None else order
    if palette is None and own is not None and len(own) >= len(order):
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
    matrix = owner_of.X if layer is None else ad.layer_of(owner, source, layer)
    values = ad.in_memory(matrix[:, [at]])
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    return dense.astype(float).ravel(), None


def _numbers_of(color: Any) -> Any:
    """Turn numbers among which some are missing, and which are objects therefore, into floats."""
    array = check.as_array(color)
    if array.dtype.kind != "O":
        return color
    known = [value for value in array.ravel() if value is not None]
    if known and all(isinstance(v, Real) and not isinstance(v, bool) for v in known):
        return array.astype(float)
    return color


def color_map(owner: str, palette: Any, default: str = "viridis") -> Colormap:
    """Return a continuous colour map: by name, as it is, or along a list of colours."""
    if isinstance(palette, Colormap):
        return palette
    if palette is None or isinstance(palette, str):
        if (name := palette or default) not in colormaps:
            raise ValueError(
                f"The 'palette' of {owner} must be the name of a matplotlib colour map, such as "
                f"'viridis', or a list of colours. Got {palette!r} instead."
            )
        return colormaps[name]
    return LinearSegmentedColormap.from_list("palette", checked_colors(owner, palette))


def checked_colors(owner: str, palette: Any) -> list[Any]:
    """Return a list of colours that are ones."""
    colors = list(palette) if isinstance(palette, Sequence | np.ndarray) else [palette]
    wrong = [colour for colour in colors if not is_color_like(colour)]
    if isinstance(palette, str) or wrong or not colors:
        raise ValueError(
            f"The 'palette' of {owner} must be a list of colours that matplotlib knows. Got "
            f"{shown(wrong[0] if wrong else palette)} instead."
        )
    return colors


def _category_colors(owner: str, n: int, palette: Any) -> list[Any]:
    if palette is None and n <= len(OKABE_ITO):
        return list(OKABE_ITO[:n])
    if palette is None or isinstance(palette, str | Colormap):
        return list(color_map(owner, palette, "turbo")(np.linspace(0.05, 0.95, n)))
    colors = checked_colors(owner, palette)
    if len(colors) < n:
        raise ValueError(
            f"The 'palette' of {owner} must have a colour for each of the {n} categories. "
            f"Got {len(colors)} instead."
        )
    return colors[:n]
