"""Rows and points from files: tables and AnnData objects alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from hgplvm._columns import aligned
from hgplvm._optional import require
from hgplvm._tables import check_there, read_table, suffix_of
from hgplvm._typing import Array
from hgplvm.cli._app import counted

__all__ = [
    "MODEL_SUFFIX",
    "Array",
    "Embedded",
    "Rows",
    "check_color",
    "check_embedded",
    "check_inside",
    "embedding_columns",
    "genes_of",
    "matched",
    "read_embedding",
    "read_fitted",
    "read_rows",
    "root_of",
    "same_rows",
    "suffix",
]

MODEL_SUFFIX = ".hgplvm"
# what tables write where an entry is missing
MISSING_WORDS = ("", "na", "nan", "none", "missing")


@dataclass(frozen=True)
class Rows:
    """Rows of a file, and what else it says of them."""

    data: Any  # [n, d], dense or sparse
    columns: list[str]
    labels: dict[str, Array] = field(default_factory=dict)
    names: Array | None = None
    adata: Any = None  # the object that they come from, for .h5ad
    source: dict[str, Any] = field(default_factory=dict)  # where in it, as tl.hgplvm keeps it
    covariates: dict[str, Array] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, also of a matrix that was not loaded."""
        n, d = self.adata.shape if self.data is None else self.data.shape
        return int(n), int(d)

    @property
    def groups(self) -> dict[str, Array]:
        """What --root can name: the labels, and all columns of obs."""
        obs = {} if self.adata is None else self.adata.obs
        return {**{str(name): obs[name].to_numpy() for name in obs}, **self.labels}

    @property
    def drawable(self) -> set[str]:
        """What --color can name where the result is an AnnData object: obs and genes."""
        genes = set(self.columns) if self.adata is None else genes_of(self.adata)
        return {*self.groups, *genes}


@dataclass(frozen=True)
class Embedded:
    """Where rows are."""

    points: Array  # [n, Q]
    std: Array | None
    labels: dict[str, Array]
    names: Array | None
    lorentz: Array | None = None
    adata: Any = None


def suffix(path: Path) -> str:
    """Return the kind of a file; that of a compressed table is the kind inside."""
    return suffix_of(path)[0]


def genes_of(adata: Any) -> set[str]:
    """Genes of an object, and those that it has kept in raw."""
    kept = [] if adata.raw is None else adata.raw.var_names
    return {str(name) for name in (*adata.var_names, *kept)}


# --- reading --------------------------------------------------------------------------------


def read_rows(
    path: Path,
    *,
    labels: list[str] | None = None,
    drop: list[str] | None = None,
    key: str | None = None,
    layer: str | None = None,
    use_rep: str | None = None,
    normalize: bool | None = None,
    all_columns: bool = False,
    load: bool = True,
    fitted: dict[str, Any] | None = None,
    covariates: Sequence[str] = (),
    batch: str | None = None,
    new_batches: bool = False,
    likelihood: str = "gaussian",
) -> Rows:
    """Read rows; of an AnnData file the matrix that is asked for, or none with ``load=False``.

    Of its columns those that vary most are taken, where they are marked, or all. Covariates are
    labels of a table or columns of obs; with `new_batches` they may be lacking.
    """
    if suffix(path) != ".h5ad":
        for option, value in (
            ("--layer", layer),
            ("--use-rep", use_rep),
            ("--normalize", normalize),
        ):
            if value:
                raise ValueError(f"{option} goes with an .h5ad file, and {path} is none.")
        table = _with_covariates(path, labels, drop, key, covariates, lacking=new_batches)
        # its numbers are taken as they are, also where they become an object
        source = {"normalize": False}
        known = {
            name: _covariate(table.labels.get(name), len(table.data), words=name == batch)
            for name in covariates
        }
        return Rows(table.data, table.columns, table.labels, table.rows, None, source, known)
    for option, given in (("--key", key), ("--drop", drop)):
        if given:
            raise ValueError(f"{option} goes with tables, and {path} is an .h5ad file.")
    for option, asked in (("--layer", layer is not None), ("--normalize", normalize)):
        if use_rep is not None and asked:
            raise ValueError(f"{option} goes with X and its layers; leave it or --use-rep out.")
    adata = read_anndata(path)
    for name in labels or []:
        if name not in adata.obs:
            raise ValueError(
                f"{path} has no column {name!r} in obs; there are "
                f"{', '.join(map(str, adata.obs.columns)) or 'none'}."
            )
    columns = {str(name): adata.obs[name] for name in (labels or adata.obs.columns)}
    words = {
        name: column.astype(str).to_numpy(dtype=str)
        for name, column in columns.items()
        if labels or column.dtype.kind not in "fiu"
    }
    names = np.asarray(adata.obs_names, dtype=str)
    from hgplvm._anndata import covariates_of

    there = [name for name in covariates if name in adata.obs or not new_batches]
    known = covariates_of(str(path), adata, there, batch) or {}
    known |= {n: _covariate(None, adata.n_obs) for n in covariates if n not in known}
    if not load:
        return Rows(None, [], words, names, adata, covariates=known)
    from hgplvm._anndata import read_matrix

    matrix = read_matrix(
        str(path),
        adata,
        use_rep=use_rep,
        layer=layer,
        normalize=normalize,
        mask_var=None if all_columns else "auto",
        likelihood=likelihood,
        fitted=fitted,
    )
    columns_read = list(matrix.columns.astype(str))
    return Rows(matrix.values, columns_read, words, names, adata, matrix.source, known)


def _with_covariates(
    path: Path,
    labels: list[str] | None,
    drop: list[str] | None,
    key: str | None,
    covariates: Sequence[str],
    *,
    lacking: bool,
) -> Any:
    """Read a table whose covariates are labels, not data."""
    table = read_table(path, labels=labels or (), drop=drop or (), key=key)
    more = [name for name in covariates if name not in table.labels]
    if not more:
        return table
    if unknown := [name for name in more if name not in table.columns]:
        if lacking:
            return table
        known = ", ".join(table.labels) or "none"
        raise ValueError(
            f"{path} has no column {unknown[0]!r} for a covariate; its labels are {known}."
        )
    return read_table(path, labels=[*table.labels, *more], drop=drop or (), key=key)


def _covariate(values: Array | None, n_rows: int, *, words: bool = False) -> Array:
    """Return numbers where all are written with a decimal point, else words.

    None stands for what is missing.
    """
    found = np.full(n_rows, None, dtype=object)
    if values is None:
        return found
    texts = [str(value).strip() for value in np.asarray(values)]
    there = np.array([text.lower() not in MISSING_WORDS for text in texts])
    found[there] = np.array(texts, dtype=object)[there]
    if words:
        return found
    try:
        numbers = np.array(
            [float(text) if known else np.nan for text, known in zip(texts, there, strict=True)]
        )
    except ValueError:
        return found
    pointed = all(
        "." in text or "e" in text.lower() for text, k in zip(texts, there, strict=True) if k
    )
    return numbers if pointed and there.any() else found


def read_anndata(path: Path) -> Any:
    """Read an .h5ad file."""
    check_there(path)
    anndata = require(f"{path.name}", "anndata", "anndata")
    try:
        return anndata.read_h5ad(path)
    except PermissionError:
        raise
    except Exception as error:  # h5py and anndata have many
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is no AnnData file that can be read ({first}).") from None


def matched(
    rows: Rows, wanted: Sequence[str] | None, n_columns: int, path: Path
) -> tuple[Any, list[str]]:
    """Columns of a model in new rows, by name where it has names; and those that are missing."""
    if wanted is None or _are_numbers(rows.columns):
        if rows.data.shape[1] != n_columns:
            raise ValueError(
                f"{path} has {counted(rows.data.shape[1], 'column')}, and the model was fitted to "
                f"{n_columns}."
            )
        return rows.data, []
    values, missing = aligned(rows.data, rows.columns, wanted)
    if len(missing) == len(wanted):
        raise ValueError(
            f"{path} has none of the columns that the model was fitted to, such as {wanted[0]!r}."
        )
    return values, missing


def _are_numbers(names: Collection[str]) -> bool:
    """Whether names are mere numbers: 0, 1, 2 and so on."""
    return list(names) == [str(i) for i in range(len(names))]


def same_rows(rows: Rows, found: Embedded, data: Path, embedding: Path) -> Embedded:
    """Return an embedding in the order of the rows that it belongs to, by name where both have."""
    n, m = rows.shape[0], len(found.points)
    if n != m:
        raise ValueError(
            f"{data} has {counted(n, 'row')}, and {embedding} has {m}: they must be the same rows."
        )
    if rows.names is None or found.names is None or np.array_equal(rows.names, found.names):
        return found
    ours, theirs = rows.names.tolist(), found.names.tolist()
    if set(ours) != set(theirs):
        if _are_numbers(ours) or _are_numbers(theirs):
            return found  # of one of them the rows have no names
        alone = set(ours) ^ set(theirs)
        other = next(name for name in (*ours, *theirs) if name in alone)
        raise ValueError(
            f"{data} and {embedding} must be of the same rows, and {other!r} is in one of them "
            "alone."
        )
    if len(set(ours)) < n:
        raise ValueError(
            f"rows of {data} and {embedding} are matched by name, and some names stand twice: make "
            "them unique, or bring the rows into the same order."
        )
    place = {name: i for i, name in enumerate(theirs)}
    order = np.array([place[name] for name in ours])
    labels = {name: values[order] for name, values in found.labels.items()}
    return replace(found, points=found.points[order], labels=labels, names=rows.names)


def read_fitted(path: Path, labels: list[str] | None = None) -> Rows:
    """Read from an .h5ad file the rows as a fit saw them: its layer, representation and columns."""
    rows = read_rows(path, labels=labels, load=False, normalize=False)
    found = rows.adata.uns.get("hgplvm")
    if found is None:
        return read_rows(path, labels=labels, normalize=False)
    if not {"params", "features"} <= set(found):
        raise ValueError(
            f"{path} does not say what was fitted, perhaps since another version wrote it; name it "
            "with --use-rep (X for all columns of X) or --layer, or run hgplvm fit again."
        )
    params = found["params"]
    seen = read_rows(
        path,
        labels=labels,
        layer=params.get("layer"),
        use_rep=params.get("use_rep"),
        normalize=bool(params.get("normalize", False)),
        all_columns=True,
    )
    values, _ = aligned(seen.data, seen.columns, [str(name) for name in found["features"]])
    return replace(seen, data=values)


def read_embedding(path: Path, n_components: int | None = None) -> Embedded:
    """Read points from a file that a command wrote, or from any table of coordinates."""
    if suffix(path) == ".h5ad":
        rows = read_rows(path, load=False, normalize=False)
        check_embedded(path, rows.adata)
        points = np.asarray(rows.adata.obsm["X_hgplvm"])
        return Embedded(points, None, rows.labels, rows.names, adata=rows.adata)
    key = "embedding" if suffix(path) == ".npz" and _holds(path, "embedding") else None
    table = read_table(path, key=key)
    columns = embedding_columns(table.columns, n_components, path)
    numbers = {name: table.data[:, i] for i, name in enumerate(table.columns) if i not in columns}
    if key is not None:
        numbers |= _numbers_beside(path, table.data.shape[0])
    points = np.asarray(table.data[:, columns], dtype=float)
    return Embedded(points, None, {**table.labels, **numbers}, table.rows)


def check_embedded(path: Path, adata: Any) -> None:
    """Refuse an object without an embedding."""
    if "X_hgplvm" not in adata.obsm:
        raise ValueError(f"{path} has no embedding; run hgplvm fit {path} first.")


def check_inside(points: Array, path: Path) -> None:
    """Refuse points that are not inside the unit disk or ball."""
    radius = np.linalg.norm(points, axis=1)
    bad = np.flatnonzero(~(radius < 1))
    if bad.size:
        raise ValueError(
            f"row {bad[0]} of {path}, counted from 0, is not inside the unit disk (its radius is "
            f"{radius[bad[0]]:.4g}); give points of the Poincaré disk."
        )


def _holds(path: Path, name: str) -> bool:
    try:
        with np.load(path, allow_pickle=False) as file:
            return name in file.files
    except (BadZipFile, EOFError, OSError, ValueError):
        return False  # whatever is wrong with it is said where it is read


def _numbers_beside(path: Path, n_rows: int) -> dict[str, Array]:
    """Columns of numbers in an .npz file that :func:`write_embedding` wrote."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return {k: v for k, v in arrays.items() if v.shape == (n_rows,) and v.dtype.kind == "f"}


def embedding_columns(names: list[str], n_components: int | None, path: Path) -> list[int]:
    """Return which columns hold coordinates: x and y, or x1, x2, …, or all of them."""
    if {"x", "y"} <= set(names):
        wanted = ["x", "y"]
    else:
        wanted = []
        while f"x{len(wanted) + 1}" in names:
            wanted.append(f"x{len(wanted) + 1}")
        wanted = wanted or names
    if n_components is not None and len(wanted) != n_components:
        raise ValueError(
            f"{path} has {counted(len(wanted), 'column')} of coordinates, and {n_components} are "
            "needed; name those columns x and y (or x1, x2, …)."
        )
    return [names.index(name) for name in wanted]


def root_of(
    text: str,
    labels: dict[str, Array],
    names: Array | None,
    n_rows: int,
    n_components: int = 2,
    *,
    option: str = "--root",
) -> Any:
    """Turn the words of --root into a row, a mask or a point."""
    column, found, value = text.partition("=")
    if found:
        if column not in labels:
            known = ", ".join(labels) or "none"
            raise ValueError(f"{option} {text}: there is no label {column!r}; there are {known}.")
        mask = labels[column].astype(str) == value
        if not mask.any():
            known = ", ".join(np.unique(labels[column].astype(str))[:8])
            raise ValueError(f"{option} {text}: no row has it; the values are {known}.")
        return mask
    if names is not None and np.count_nonzero(names == text) == 1:
        return int(np.flatnonzero(names == text)[0])
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} {text} must be a row number or name, LABEL=VALUE, or the coordinates X,Y."
        ) from None
    if len(numbers) == 1 and numbers[0].is_integer():
        if not 0 <= numbers[0] < n_rows:
            raise ValueError(f"{option} {text}: there are rows 0 to {n_rows - 1}.")
        return int(numbers[0])
    if len(numbers) != n_components or not np.linalg.norm(numbers) < 1:
        raise ValueError(
            f"{option} {text} must be {n_components} coordinates inside the unit ball, or a row."
        )
    return np.array(numbers)


def check_color(color: str | None, labels: dict[str, Array], more: Collection[str] = ()) -> None:
    """Refuse, before anything is computed, what there is no column of."""
    if color is None or color in labels or color in more:
        return
    known = ", ".join(labels) or "none"
    raise ValueError(f"--color {color}: there is no such label; there are {known}.")
