"""The colours of points: categories and numbers, from arrays, columns of obs, and genes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import (
    Colormap,
    FuncNorm,
    LinearSegmentedColormap,
    Normalize,
    TwoSlopeNorm,
    is_color_like,
    to_hex,
    to_rgba,
)

from hgplvm import _anndata as ad
from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.pl._palettes import categorical
from hgplvm.pl._style import shown
from hgplvm.pl._units import Column, gene, own_unit

__all__ = ["MISSING_COLOR", "Colors", "Limits", "checked_colors", "color_map", "colors_of"]

MISSING_COLOR = "#d3d3d3"
# integers with more different values than this are numbers, not names
MOST_CATEGORIES = 30


@dataclass(frozen=True)
class Limits:
    """Where a continuous scale begins and ends, and its middle, as scanpy's plots take them."""

    owner: str
    vmin: Any = None
    vmax: Any = None
    vcenter: Any = None

    def of_panel(self, number: int, n_panels: int) -> Limits:
        """Limits of one of several panels; lists have an entry for each."""
        found = {}
        for name in ("vmin", "vmax", "vcenter"):
            value = getattr(self, name)
            if isinstance(value, list | tuple):
                if len(value) != n_panels:
                    raise ValueError(
                        f"The {name!r} of {self.owner}, as a list, must have an entry for each of "
                        f"the {n_panels} panels. Got {len(value)} instead."
                    )
                value = value[number]
            found[name] = value
        return Limits(self.owner, **found)

    def norm(self, values: Array, *, counts: bool = False) -> Normalize:
        """Scale for finite numbers; counts on a logarithmic one that begins at 0."""
        low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
        low = self._number("vmin", values, float(low))
        high = self._number("vmax", values, float(high))
        if self.vmin is None and self.vmax is not None:
            low = min(low, high)
        if self.vmax is None and self.vmin is not None:
            high = max(low, high)
        if low > high:
            raise ValueError(
                f"The 'vmin' of {self.owner} must be at most 'vmax'. Got {low:g} and {high:g}."
            )
        middle = self._number("vcenter", values, np.nan)
        if np.isfinite(middle):
            # colours on both sides, also where all values are on one
            wide = max(high - middle, middle - low, 1e-12)
            low = low if low < middle else middle - wide
            high = high if high > middle else middle + wide
            return TwoSlopeNorm(middle, low, high)
        if high <= low:
            high = low + max(abs(low), 1.0) * 1e-9
        if counts and low >= 0.0:
            return FuncNorm((np.log1p, np.expm1), low, high)
        return Normalize(low, high)

    def _number(self, name: str, values: Array, default: float) -> float:
        value = getattr(self, name)
        if value is None:
            return default
        share = float(value[1:]) if _is_percentile(value) else np.inf
        if share <= 100.0:
            return float(np.percentile(values, share)) if values.size else default
        if isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value)):
            return float(value)
        raise ValueError(
            f"The {name!r} of {self.owner} must be a number, or a percentile such as 'p99'. Got "
            f"{shown(value)} instead."
        )


def _is_percentile(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"p\d+(\.\d+)?", value) is not None


@dataclass(frozen=True)
class Colors:
    """One value per point: numbers on a scale, or categories with a colour each."""

    values: Array
    names: list[Any]  # categories in order; empty for numbers
    colors: list[Any]  # one for each category
    title: str | None = None
    unit: str | None = None
    counts: bool = False
    hidden: frozenset[Any] = field(default_factory=frozenset)  # categories without a name

    @property
    def continuous(self) -> bool:
        """Whether the values are numbers on a scale."""
        return not self.names

    @property
    def known(self) -> Array:
        """Whether each point has a colour of its own, and is not grey."""
        if self.continuous:
            return np.isfinite(self.values)
        grey = [check.MISSING, *self.hidden]
        return np.asarray(~np.isin(self.values, grey))

    def norm(self, limits: Limits) -> Normalize:
        """Scale of the numbers."""
        return limits.norm(self.values[np.isfinite(self.values)], counts=self.counts)

    def rgba(self, scale: Colormap, norm: Normalize | None = None) -> Array:
        """Return a colour for each point [n, 4]; numbers on a scale."""
        if self.continuous:
            known = self.known
            norm = self.norm(Limits("")) if norm is None else norm
            found = scale(np.asarray(norm(np.where(known, self.values, norm.vmin or 0.0))))
            found[~known] = to_rgba(MISSING_COLOR)
            return np.asarray(found)
        table = {name: to_rgba(c) for name, c in zip(self.names, self.colors, strict=True)}
        return np.array([table[value] for value in self.values.tolist()])

    @property
    def legend(self) -> list[tuple[Any, Any]]:
        """Categories with a name, and their colours."""
        both = zip(self.names, self.colors, strict=True)
        return [(name, colour) for name, colour in both if name not in self.hidden]


def colors_of(
    owner: str,
    source: Any,
    color: Any,
    n_points: int,
    *,
    palette: Any = None,
    layer: Any = None,
    use_raw: Any = None,
    groups: Any = None,
    key: str = "hgplvm",
    totals: dict[Any, Array] | None = None,
    lenient: bool = False,
    keep: bool = True,
) -> Colors | None:
    """Read the colours of points: values, or the name of a column or gene of an AnnData object.

    `totals` keeps the sizes of libraries from one gene to the next. With `lenient`, as among
    several panels, `groups` are left out where they do not apply; without `keep`, colours are not
    kept in the object.
    """
    if color is None:
        if groups is not None and not lenient:
            raise ValueError(f"The 'groups' of {owner} are categories of a 'color': name one.")
        return None
    title, order, own, found = None, None, None, Column()
    if isinstance(color, str):
        title = color
        options = {"layer": layer, "use_raw": use_raw, "key": key, "totals": totals}
        found, own = _column(owner, source, color, **options)
        color = found.values
    categories = getattr(getattr(color, "cat", color), "categories", None)
    if categories is not None:  # pandas keeps their order
        order = [str(name) for name in categories]
        color = np.asarray(color.astype(object))
    else:
        color = _numbers_of(color)
    values = check.check_labels(owner, "color", color, n_points)
    number = values.dtype.kind == "f" or (
        values.dtype.kind in "iu" and len(np.unique(values)) > MOST_CATEGORIES
    )
    if number:
        if groups is not None and not lenient:
            raise ValueError(
                f"The 'groups' of {owner} go with categories, and this color is a number."
            )
        return Colors(values.astype(float), [], [], title, found.unit, found.counts)
    words = np.unique(values).tolist()
    there = set(words)
    named = [name for name in words if name != check.MISSING]
    if order is None and values.dtype.kind not in "iub":
        named.sort(key=_natural)
    names = named if order is None else [name for name in order if name in there]
    order = names if order is None else order
    own = _in_order(own, order)
    palette = palette if not isinstance(palette, Mapping) else _in_order(palette, order)
    if palette is None and own is not None and _are_colors(own, len(order)):
        chosen = [own[order.index(name)] for name in names]
    else:
        everyone = _category_colors(owner, len(order), palette)
        chosen = [everyone[order.index(name)] for name in names]
        if keep and (own is not None or categories is not None):
            _keep_colors(source, title, everyone)
    hidden: frozenset[Any] = frozenset()
    if groups is not None:
        wanted = _checked_groups(owner, groups, order, lenient=lenient)
        hidden = frozenset(name for name in names if str(name) not in wanted)
        chosen = [MISSING_COLOR if n in hidden else c for n, c in zip(names, chosen, strict=True)]
    if check.MISSING in there:
        names, chosen = [*names, check.MISSING], [*chosen, MISSING_COLOR]
    return Colors(values, names, chosen, title, hidden=hidden)


def _natural(name: Any) -> list[Any]:
    """Sort "2 b" before "10 a"."""
    parts = re.split(r"(\d+)", str(name))
    return [(int(part), "") if part.isdecimal() else (-1, part.lower()) for part in parts]


def _checked_groups(owner: str, groups: Any, names: list[Any], *, lenient: bool) -> set[str]:
    wanted = [groups] if isinstance(groups, str) else [str(group) for group in groups]
    known = {str(name) for name in names}
    wrong = [group for group in wanted if group not in known]
    if lenient and len(wrong) == len(wanted):  # they are those of another panel
        return known
    if wrong and not lenient:
        few = ", ".join(map(repr, sorted(known, key=_natural)[:8]))
        raise ValueError(
            f"The 'groups' of {owner} must be categories of the color, which are {few}. Got "
            f"{wrong[0]!r} instead."
        )
    return set(wanted)


def _in_order(colors: Any, names: list[Any]) -> Any:
    """Return colours as a list: of a dict those of the names, grey where there is none."""
    if not isinstance(colors, Mapping):
        return colors
    table = {str(name): colour for name, colour in colors.items()}
    return [table.get(str(name), MISSING_COLOR) for name in names]


def _are_colors(own: Any, n: int) -> bool:
    """Whether the colours that an object keeps are enough, and are colours."""
    return len(own) >= n and all(is_color_like(c) for c in own[:n])


def _keep_colors(source: Any, name: str | None, colors: list[Any]) -> None:
    """Keep the colours of a column's categories, as scanpy does; a view stays a view."""
    if name is None or not ad.is_anndata(source) or source.is_view or name not in source.obs:
        return
    if hasattr(source.obs[name], "cat"):
        source.uns[f"{name}_colors"] = [to_hex(colour) for colour in colors]


def _column(owner: str, source: Any, name: str, *, key: str, **options: Any) -> tuple[Column, Any]:
    """Values of a column of obs or of a gene, and the colours that scanpy keeps for it."""
    if not ad.is_anndata(source):
        raise ValueError(
            f"The 'color' of {owner} must be an array with a value for each point; names of "
            f"columns and genes go with an AnnData object. Got {name!r} instead."
        )
    if name in source.obs:
        return Column(source.obs[name], own_unit(key, name)), source.uns.get(f"{name}_colors")
    return gene(owner, source, name, key=key, **options), None


def _numbers_of(color: Any) -> Any:
    """Turn numbers among which some are missing, and which are objects therefore, into floats."""
    array = check.as_array(color)
    if array.dtype.kind != "O":
        return color
    known = [value for value in array.ravel() if value is not None]
    if known and all(isinstance(v, Real) and not isinstance(v, bool) for v in known):
        return array.astype(float)
    return color


def color_map(owner: str, chosen: Any, default: str = "viridis", name: str = "palette") -> Colormap:
    """Return a continuous colour map: by name, as it is, or along a list of colours."""
    if isinstance(chosen, Colormap):
        return chosen
    if chosen is None or isinstance(chosen, str):
        if (word := chosen or default) not in colormaps:
            raise ValueError(
                f"The {name!r} of {owner} must be the name of a matplotlib colour map, such as "
                f"'viridis', or a list of colours. Got {chosen!r} instead."
            )
        return colormaps[word]
    return LinearSegmentedColormap.from_list("palette", checked_colors(owner, chosen))


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
    if palette is None:
        return categorical(n)
    if isinstance(palette, str | Colormap):
        return list(color_map(owner, palette, "turbo")(np.linspace(0.05, 0.95, n)))
    colors = checked_colors(owner, palette)
    if len(colors) < n:
        raise ValueError(
            f"The 'palette' of {owner} must have a colour for each of the {n} categories. "
            f"Got {len(colors)} instead."
        )
    return colors[:n]
