"""The data of the paper, generated here or read from a folder with its arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from scipy.spatial.distance import cdist

from hgplvm import _validation as check
from hgplvm import datasets
from hgplvm._typing import Array

__all__ = ["Rows", "Source", "UnavailableError"]

# files of the authors' arrays, by the name of the data
FILES = {"Spiral": "Spiral.npz", "Myeloid": "MyeloidProgenitors.npz"}
# the stages of the authors' array, as this package calls them
STAGES = {"monocyte": "Mo", "erythrocyt": "Ery", "megakaryoc": "Mk", "neutrophil": "Neu"} | {
    "branchMo": "to Mo",
    "branchEr": "to Ery",
    "branchMe": "to Mk",
    "branchNe": "to Neu",
}
SEED = 0


class UnavailableError(RuntimeError):
    """Data that are neither here nor to be had; the text says what to do."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Data, the label of each row, and, on trees, the true distances."""

    data: Array
    labels: Array
    truth: Array | None = None

    @cached_property
    def digest(self) -> str:
        """Hash of the data: another data set is another result."""
        found = hashlib.sha256("\n".join(map(str, self.labels)).encode())
        for part in (self.data, self.truth):
            if part is not None:
                found.update(f"{part.shape} {part.dtype}".encode())
                found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class Source:
    """Where data come from.

    Parameters
    ----------
    folder : Path or None
        A folder with the authors' arrays; None generates or loads data that ship with packages.
    most_rows : int or None
        Take a regular sample of so many rows, for trials.
    """

    folder: Path | None = None
    most_rows: int | None = None

    def load(self, name: str) -> Rows:
        """Load "SBT-4" (any depth), "Spiral", "Myeloid" or "Paul"."""
        found = _loaded(self, name)
        if isinstance(found, UnavailableError):
            raise found
        return found

    def describe(self) -> str:
        """Say in a sentence where the data come from."""
        if self.folder is None:
            return "Data are generated, or ship with packages."
        return "Data are the authors' own arrays where the given folder has them."


@lru_cache(maxsize=8)
def _loaded(source: Source, name: str) -> Rows | UnavailableError:
    """Load data, or say why not; what cannot be downloaded is asked for once."""
    try:
        return _some(source, _whole(source, name))
    except UnavailableError as error:
        return error
    except (KeyError, EOFError, BadZipFile, ValueError) as error:
        if source.folder is None:
            raise
        return UnavailableError(
            f"The file for {name} in the data folder cannot be read: {error!s:.100}."
        )


def _whole(source: Source, name: str) -> Rows:
    if name.startswith("SBT-"):
        rows = _tree(source.folder, int(name.removeprefix("SBT-")))
    elif name == "Spiral":
        rows = _spirals(source.folder)
    elif name == "Myeloid":
        rows = _myeloid(source.folder)
    elif name == "Paul":
        rows = _paul(source.folder)
    else:
        raise ValueError(f"There are no data called {name!r}.")
    check.check_points("reproduce", name, rows.data, min_rows=8)
    check.check_labels("reproduce", name, rows.labels, len(rows.data))
    return rows


def _some(source: Source, rows: Rows) -> Rows:
    """Take a regular sample of rows where there are too many."""
    if source.most_rows is None or len(rows.data) <= source.most_rows:
        return rows
    some = np.linspace(0, len(rows.data) - 1, source.most_rows).astype(int)
    truth = None if rows.truth is None else rows.truth[np.ix_(some, some)]
    return Rows(rows.data[some], rows.labels[some], truth)


def _file(folder: Path | None, name: str) -> Path | None:
    path = None if folder is None else folder / name
    return path if path is not None and path.is_file() else None


def _tree(folder: Path | None, depth: int) -> Rows:
    if (path := _file(folder, f"synthetic_bin_tree_{depth}.npz")) is None:
        tree = datasets.make_binary_tree(depth, random_state=SEED)
        return Rows(tree.data, tree.target + 1, tree.tree_distance)
    with path.open("rb") as open_file, np.load(open_file, allow_pickle=False) as file:
        codes = file["true_data"].astype(float)
        # the label of the array is 0 for the root and the depth for all others; ones in a code are
        # the nodes on the way
        return Rows(file["data"], codes.sum(1).astype(int), cdist(codes, codes, "cityblock"))


def _spirals(folder: Path | None) -> Rows:
    if (path := _file(folder, FILES["Spiral"])) is None:
        found = datasets.make_spirals(random_state=SEED)
        return Rows(found.data, found.target)
    with path.open("rb") as open_file, np.load(open_file, allow_pickle=False) as file:
        return Rows(file["data"], file["label"].astype(int))


def _myeloid(folder: Path | None) -> Rows:
    if (path := _file(folder, FILES["Myeloid"])) is None:
        try:
            cells = datasets.load_myeloid_progenitors()
        except ImportError as error:
            raise UnavailableError(str(error)) from error
        return Rows(cells.data, cells.target)
    with path.open("rb") as open_file, np.load(open_file, allow_pickle=False) as file:
        return Rows(file["data"], np.array([STAGES.get(str(s), str(s)) for s in file["label"]]))


def _paul(folder: Path | None) -> Rows:
    path = next(iter(sorted((folder / "paul").glob("paul15*.npz"))), None) if folder else None
    prepared = next(iter(sorted((folder / "paul").glob("*zheng17*.npz"))), None) if folder else None
    try:
        cells = datasets.load_paul15(prepared or path)
    except (ImportError, OSError) as error:
        raise UnavailableError(f"{error} Or name a folder with --data-dir.") from error
    return Rows(cells.data, cells.target)
