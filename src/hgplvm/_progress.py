"""Progress bars: in terminals and notebooks, and nowhere else."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import auto, notebook

__all__ = ["progress"]


def progress(total: int, *, what: str, verbose: int, initial: int = 0, unit: str = "it") -> Any:
    """Return a bar with the time left; silent without `verbose`, and in pipes and files.

    A bar in a notebook writes to no terminal either, but it is seen.
    """
    seen = issubclass(auto.tqdm, notebook.tqdm) or _is_terminal(sys.stderr)
    return auto.tqdm(
        total=total,
        initial=initial,
        desc=what,
        unit=unit,
        leave=False,
        disable=not (verbose and seen),
    )


def _is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; programs without a console have none."""
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty())
