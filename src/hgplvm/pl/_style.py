"""What all pictures share: axes, files, words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase

from hgplvm import _validation as check
from hgplvm._files import whole

__all__ = [
    "GRID",
    "choice",
    "finished",
    "new_axes",
    "outlined",
    "picture",
    "plain",
    "shown",
]

Drawing = TypeVar("Drawing", bound=Callable[..., Any])

GRID = "#d9d9d9"


def new_axes(ax: Axes | None, size: tuple[float, float] = (5.6, 3.8)) -> Axes:
    """Return the axes that were given, or those of a new figure."""
    if ax is not None and not isinstance(ax, Axes):
        raise ValueError(f"The 'ax' of a picture must be matplotlib Axes. Got {shown(ax)} instead.")
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


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


def plain(name: object) -> str:
    """Return a name that matplotlib shows as it is: no formula, and no sign to leave it out."""
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def outlined(width: float = 2.5) -> list[Any]:
    """Return the effect that makes a text readable on anything: a white outline."""
    return [patheffects.withStroke(linewidth=width, foreground="white")]


def choice(owner: str, name: str, value: str | bool, options: Sequence[str]) -> str:
    """Turn True into the first option and False into the last."""
    if isinstance(value, bool):
        return options[0] if value else options[-1]
    return check.check_option(owner, name, value, options)
