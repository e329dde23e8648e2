"""Error messages about files: the name as given, values in quotes, what is wrong, what to do."""

from __future__ import annotations

import os
import re
import shlex
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = [
    "COMMA",
    "Place",
    "advice",
    "check_there",
    "mixed",
    "name_of",
    "open_file",
    "option",
    "quoted",
    "stem_of",
    "suffix_of",
    "undamaged",
    "wordy",
]

Place = str | os.PathLike[str]

# a number as it is written in most of Europe
COMMA = re.compile(r"[+-]?\d[\d.\s]*,\d+([eE][+-]?\d+)?")

# errors of numpy, zipfile, gzip and pyarrow in a file that is not what its name says
DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    SyntaxError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def name_of(path: Place) -> str:
    """Place as it was given, escaped where it would break the line."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


def suffix_of(path: Place) -> tuple[str, bool]:
    """End of a file's name, and whether the file is compressed on top of that."""
    name = os.path.basename(os.fspath(path)).lower()
    compressed = name.endswith((".csv.gz", ".tsv.gz"))
    return os.path.splitext(name.removesuffix(".gz") if compressed else name)[1], compressed


def stem_of(path: Place) -> str:
    """Name of a file without its folder and the end that says its kind, a .gz on top included."""
    name = os.path.basename(os.fspath(path))
    suffix, compressed = suffix_of(path)
    return name[: len(name) - len(suffix) - len(".gz") * compressed]


def check_there(path: Place) -> None:
    """Refuse what is no file, before anything else is done with it."""
    _check_no_folder(path)
    if not os.path.exists(path):
        raise _no_file(path)


def _check_no_folder(path: Place) -> None:
    if os.path.isdir(path):
        raise IsADirectoryError(f"{name_of(path)} is a folder; give a file in it.")


def _no_file(path: Place) -> FileNotFoundError:
    return FileNotFoundError(f"there is no file {name_of(path)}; check its name and folder.")


def open_file(path: Place) -> BinaryIO:
    """Open a file for reading, or say why it cannot be."""
    _check_no_folder(path)
    try:
        return open(path, "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise _no_file(path) from None
    except PermissionError:
        start = f"{name_of(path)} may not be read"
        text = f"{start}; ask its owner for permission, or read a copy of your own."
        raise PermissionError(text) from None


@contextmanager
def undamaged(shown: str, kind: str) -> Iterator[None]:
    """Say in one sentence that a file is damaged, whatever the library beneath says."""
    try:
        yield
    except DAMAGE as error:
        text = f"{shown} is not a complete {kind} file: it was cut short, changed, or is something"
        raise ValueError(f"{text} else; copy or write it anew.") from error


def quoted(text: str) -> str:
    """Value of the file in quotes, on one line and not too long."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def option(flag: str, name: str) -> str:
    """Option as one would type it."""
    return f"{flag} {shlex.quote(name) if name.isprintable() else repr(name)}"


def advice(name: str, it: str = "it") -> str:
    """Say what to do with a column that is no data."""
    keep = f"name {it} with {option('--label', name)} to keep it as a label"
    return f"{keep}, or leave it out with {option('--drop', name)}."


def mixed(shown: str, name: str, word: str, place: str) -> ValueError:
    """Error for a column of numbers and words."""
    if COMMA.fullmatch(word):
        return _comma(shown, name, word, place)
    return ValueError(
        f"column {name!r} of {shown} mixes numbers and words ({quoted(word)} in {place}); correct "
        f"this value (a missing one stays empty), {advice(name, 'the column')}"
    )


def wordy(shown: str, name: str, word: str, place: str) -> ValueError:
    """Error for a column of words that is no label."""
    if COMMA.fullmatch(word):
        return _comma(shown, name, word, place)
    return ValueError(
        f"column {name!r} of {shown} holds words ({quoted(word)} in {place}) among columns of "
        f"numbers; {advice(name)}"
    )


def _comma(shown: str, name: str, word: str, place: str) -> ValueError:
    return ValueError(
        f"column {name!r} of {shown} holds a number with a comma ({quoted(word)} in {place}); "
        f"write numbers with a decimal point, {advice(name, 'the column')}"
    )
