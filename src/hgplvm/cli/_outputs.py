"""Results into files: all of a command's, or none."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hgplvm._files import whole
from hgplvm._optional import require
from hgplvm._tables import write_table
from hgplvm.cli._rows import Array, Embedded, Rows, suffix

__all__ = ["EMBEDDING_SUFFIXES", "as_anndata", "check_output", "write_embedding", "write_together"]

EMBEDDING_SUFFIXES = (".csv", ".tsv", ".npz", ".parquet", ".h5ad")


def check_output(path: Path, option: str, *, force: bool, kinds: tuple[str, ...] = ()) -> None:
    """Refuse, before anything is computed, a file that cannot or may not be written."""
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder; name a file.")
    if suffix(path) == ".parquet":
        require(f"Writing {path}", "pyarrow", "parquet")
    if kinds and suffix(path) not in kinds:
        raise ValueError(f"{option} {path} must end in one of {', '.join(kinds)}.")
    if path.exists() and not force:
        raise ValueError(f"{path} is there already; add --force to replace it, or choose another.")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(
            f"{option} {path} cannot be written ({error.strerror}); choose another folder."
        ) from None


def write_together(writers: dict[Path, Callable[[Path], object]]) -> None:
    """Write all files, or none if one of them fails."""
    with contextlib.ExitStack() as stack:
        moves = []
        for path, write in writers.items():
            with _named(path):
                place = Path(os.path.realpath(path))  # a link stays one
                folder = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent)
                )
                part = Path(folder, path.name)
                write(part)
                if place.exists():
                    part.chmod(place.stat().st_mode & 0o777)
                moves.append((path, part, place))
        for path, part, place in moves:
            with _named(path):
                os.replace(part, place)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say of which file an error is: it happens in a place that the user does not know."""
    try:
        yield
    except OSError as error:
        # libraries that are no Python tell the number alone
        number = re.search(r"os error (\d+)", str(error))
        reason = os.strerror(int(number[1])) if number else error.strerror or error
        raise OSError(f"cannot write {path}: {reason}.") from None


def write_embedding(path: Path, found: Embedded) -> None:
    """Write points by the suffix of a file, with labels beside them."""
    n_components = found.points.shape[1]
    if suffix(path) == ".h5ad":
        with whole(path) as name:
            found.adata.write_h5ad(name)
        return
    if suffix(path) == ".npz":
        arrays: dict[str, Any] = {"embedding": found.points}
        others = {"lorentz": found.lorentz, "std": found.std, "rows": found.names}
        arrays |= {name: value for name, value in others.items() if value is not None}
        for name, values in found.labels.items():  # "file" is a parameter of np.savez
            arrays[f"{name}_label" if name in (*arrays, *others, "file") else name] = values
        with whole(path) as name, open(name, "wb") as file:
            np.savez(file, **arrays)
        return
    axes = ["x", "y"] if n_components == 2 else [f"x{i + 1}" for i in range(n_components)]
    columns: dict[str, Array] = {} if found.names is None else {"row": found.names}
    columns |= dict(zip(axes, found.points.T, strict=True))
    if found.std is not None:
        columns["std"] = found.std
    # words at the edge, where a table that is read has its labels
    for name, values in sorted(found.labels.items(), key=lambda label: label[1].dtype.kind != "f"):
        columns[name if name not in columns else f"{name}_label"] = values
    write_table(path, columns)


def as_anndata(rows: Rows) -> Any:
    """Return the rows of a table as an AnnData object."""
    anndata = require("an .h5ad file", "anndata", "anndata")
    adata = anndata.AnnData(rows.data)
    adata.var_names = rows.columns
    if rows.names is not None:
        adata.obs_names = rows.names
    for name, values in rows.labels.items():
        adata.obs[name] = values
    return adata
