"""Files that are there as a whole or not at all.

A file is written beside its place under a temporary name and moved there when it is complete and on
the disk, so that whatever happens, its place holds the old file or the new one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["whole", "write_text"]


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[str]:
    """Name of a file beside `path`, which is moved there when it is complete and on the disk."""
    place = Path(os.path.realpath(path))  # a link stays one
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent)
    os.close(handle)
    try:
        yield name
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(name, _mode(place))
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, as a whole or not at all.

    Raises
    ------
    OSError
        If the disk does not take it; what was there before stays.
    """
    with whole(path) as name:
        Path(name).write_text(text, encoding="utf-8")


def _mode(place: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would get."""
    with contextlib.suppress(OSError):
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
