"""Reading from and writing to AnnData objects, and the keys of the results.

AnnData itself is never imported here: whoever has such an object has imported it already.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse

from hgplvm._optional import require
from hgplvm._typing import Array
from hgplvm.geometry import poincare_to_lorentz

__all__ = [
    "Keys",
    "Matrix",
    "check_anndata",
    "check_embedded",
    "check_writable",
    "checked_keys",
    "in_memory",
    "is_anndata",
    "layer_of",
    "looks_like_counts",
    "model_bytes",
    "normalized",
    "positions",
    "read_matrix",
    "results",
    "root_rows",
    "stored_model",
    "write",
]

logger = logging.getLogger(__name__)

# what normalize=True does: counts a cell, and genes that are kept of more than so many
TARGET_SUM = 1e4
N_TOP_GENES = 2000
# columns beyond which a fit takes long for no gain
MANY_COLUMNS = 5000


@dataclass(frozen=True)
class Keys:
    """All keys under which results stand in an AnnData object."""

    name: str = "hgplvm"

    @property
    def embedding(self) -> str:
        """Ball coordinates, in obsm: scanpy's basis is `name`."""
        return f"X_{self.name}"

    @property
    def lorentz(self) -> str:
        """Points of the Lorentz model, in obsm."""
        return f"X_{self.name}_lorentz"

    @property
    def covariance(self) -> str:
        """Posterior covariances in the transported frames, row by row, in obsm."""
        return f"{self.name}_covariance"

    @property
    def std(self) -> str:
        """Posterior standard deviation of a position, in obs."""
        return f"{self.name}_std"

    @property
    def pseudotime(self) -> str:
        """Distance from the root, in obs."""
        return f"{self.name}_pseudotime"

    @property
    def pseudotime_std(self) -> str:
        """Standard deviation of that distance, in obs."""
        return f"{self.name}_pseudotime_std"

    @property
    def uns(self) -> str:
        """Parameters, history and the model itself, in uns."""
        return self.name


@dataclass(frozen=True)
class Matrix:
    """Rows to embed, the names of their columns, and where in the object they stand."""

    values: Any  # dense or sparse, [n, d]
    columns: Array
    source: dict[str, Any]


def is_anndata(thing: object) -> bool:
    """Whether a thing is an AnnData object."""
    anndata = sys.modules.get("anndata")
    return anndata is not None and isinstance(thing, anndata.AnnData)


def in_memory(values: Any) -> Any:
    """Read an array or sparse matrix of a file that backs an object; others are as they are."""
    if hasattr(values, "to_memory"):
        return values.to_memory()
    return values[()] if type(values).__module__.startswith("h5py") else values


def read_matrix(
    owner: str,
    adata: Any,
    *,
    use_rep: str | None = None,
    layer: str | None = None,
    mask_var: str | Array | None = "auto",
    normalize: bool | None = None,
) -> Matrix:
    """Rows that a fit is to see: of ``X``, of a layer or of a representation."""
    if use_rep is not None:
        if layer is not None or normalize:
            raise ValueError(
                f"{owner} takes a representation as it is: use_rep={use_rep!r} goes neither with "
                "a layer nor with normalize=True."
            )
        return _representation(owner, adata, use_rep)
    values = in_memory(layer_of(owner, adata, layer))
    source: dict[str, Any] = {} if layer is None else {"layer": layer}
    columns = np.asarray(adata.var_names, dtype=object)
    if normalize is None and looks_like_counts(values):
        where = "adata.X" if layer is None else f"the layer {layer!r}"
        raise ValueError(
            f"{owner} found raw counts in {where}: run sc.pp.normalize_total(adata) and "
            "sc.pp.log1p(adata) first, or pass normalize=True, which does both on a copy (or "
            "normalize=False, to take these numbers as they are)."
        )
    kept = _mask(owner, adata, mask_var)
    if normalize is not None:
        source["normalize"] = bool(normalize)
    if normalize:
        if not _whole_numbers(values):
            raise ValueError(
                f"{owner} was asked to normalize counts, and the data are not counts: some are "
                "negative or not whole numbers. Leave normalize out."
            )
        choose = kept is None and isinstance(mask_var, str)
        values, variable = normalized(owner, values, choose=choose)
        kept = variable if kept is None else kept
    if kept is not None:
        values, columns = values[:, np.flatnonzero(kept)], columns[kept]
        logger.info("using %d of %d columns", len(columns), len(kept))
    if len(columns) > MANY_COLUMNS:
        logger.warning(
            "%s sees %d columns, which takes long: sc.pp.highly_variable_genes(adata) or "
            "use_rep='X_pca' take the informative ones",
            owner,
            len(columns),
        )
    return Matrix(values, columns, source)


def _representation(owner: str, adata: Any, use_rep: str) -> Matrix:
    if use_rep == "X":
        return read_matrix(owner, adata, mask_var=None, normalize=False)
    if not (isinstance(use_rep, str) and use_rep in adata.obsm):
        hint = " Run sc.pp.pca(adata) first." if use_rep == "X_pca" else ""
        raise ValueError(
            f"The 'use_rep' parameter of {owner} must be a key of adata.obsm, of which there are "
            f"{_listed(adata.obsm.keys())}. Got {use_rep!r} instead.{hint}"
        )
    values = in_memory(adata.obsm[use_rep])
    if hasattr(values, "columns"):  # a DataFrame
        columns, values = np.asarray(values.columns, dtype=object), values.to_numpy()
    else:
        columns = np.array([f"{use_rep}_{i + 1}" for i in range(values.shape[1])], dtype=object)
    return Matrix(values, columns, {"use_rep": use_rep})


def layer_of(owner: str, adata: Any, layer: str | None) -> Any:
    """Return ``X``, or a layer."""
    if layer is not None and not (isinstance(layer, str) and layer in adata.layers):
        raise ValueError(
            f"The 'layer' parameter of {owner} must be a key of adata.layers, of which there are "
            f"{_listed(adata.layers.keys())}. Got {layer!r} instead."
        )
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise ValueError(f"{owner} finds no adata.X: name a layer, or a representation (use_rep).")
    return values


def _mask(owner: str, adata: Any, mask_var: Any) -> Array | None:
    """Which columns to take; None for all."""
    if isinstance(mask_var, str):
        if mask_var == "auto":
            if "highly_variable" not in adata.var:
                return None
            mask_var = "highly_variable"
        elif mask_var not in adata.var:
            raise ValueError(
                f"The 'mask_var' parameter of {owner} must be a column of adata.var, a mask of its "
                f"rows, or None. Got {mask_var!r} instead; there are {_listed(adata.var.columns)}."
            )
        column = adata.var[mask_var]
        if str(column.dtype) == "boolean":  # pandas' own, in which entries may be missing
            column = column.fillna(False).astype(bool)
        mask_var = column.to_numpy()
    if mask_var is None:
        return None
    mask = np.asarray(mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,) or not mask.any():
        raise ValueError(
            f"The 'mask_var' of {owner} must say True or False of each of the {adata.n_vars} "
            f"columns, and True of some. Got {mask.dtype} of shape {mask.shape} with "
            f"{int(np.count_nonzero(mask == True))} True."  # noqa: E712
        )
    return mask


def looks_like_counts(values: Any) -> bool:
    """Whether all entries are whole numbers from 0, and some above 1."""
    return _whole_numbers(values) and bool(values.max() > 1)


def _whole_numbers(values: Any) -> bool:
    """Whether all entries are whole numbers from 0."""
    entries = values.data if issparse(values) else np.asarray(values)
    if entries.size == 0 or entries.dtype.kind not in "uif":
        return False
    return all(  # most data show at once that they are none
        np.isfinite(some).all() and (some >= 0).all() and (some == np.rint(some)).all()
        for some in (entries[:1000], entries)
    )


def normalized(owner: str, counts: Any, *, choose: bool) -> tuple[Any, Array | None]:
    """Logarithms of counts per 10,000, and which genes vary most (where there are many)."""
    scanpy = require(f"{owner} with normalize=True", "scanpy", "anndata")
    anndata = require(f"{owner} with normalize=True", "anndata", "anndata")
    cells = anndata.AnnData(counts.astype(np.float32))
    with warnings.catch_warnings(), _same_threads():
        warnings.simplefilter("ignore", UserWarning)  # cells without counts stay zero
        scanpy.pp.normalize_total(cells, target_sum=TARGET_SUM)
        scanpy.pp.log1p(cells)
        if not (choose and cells.n_vars > N_TOP_GENES):
            return cells.X, None
        warnings.simplefilter("ignore")
        scanpy.pp.highly_variable_genes(cells, n_top_genes=N_TOP_GENES)
    return cells.X, cells.var["highly_variable"].to_numpy()


@contextlib.contextmanager
def _same_threads() -> Iterator[None]:
    """Give torch its threads back: numba, within scanpy, sets their number for the process."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# --- results --------------------------------------------------------------------------------


def write(adata: Any, **columns: dict[str, Any]) -> None:
    """Set entries of obs, obsm and uns, all of them known before the first is set."""
    with warnings.catch_warnings():
        # a view becomes an object of its own, as everywhere in scanpy
        warnings.simplefilter("ignore", sys.modules["anndata"].ImplicitModificationWarning)
        for where, entries in columns.items():
            for key, value in entries.items():
                getattr(adata, where)[key] = value


def check_embedded(owner: str, adata: Any, keys: Keys) -> None:
    """Refuse an object without an embedding."""
    if keys.embedding not in adata.obsm:
        raise ValueError(
            f"{owner} finds no embedding under the key {keys.name!r}: run "
            f"hgplvm.tl.hgplvm(adata{_key_added(keys)}) first."
        )


def positions(adata: Any, keys: Keys) -> torch.Tensor:
    """Return the points of an embedding, on the Lorentz model."""
    if keys.lorentz in adata.obsm:
        return torch.from_numpy(np.array(adata.obsm[keys.lorentz], dtype=np.float64))
    return poincare_to_lorentz(
        torch.from_numpy(np.array(adata.obsm[keys.embedding], dtype=np.float64))
    )


def results(owner: str, adata: Any, keys: Keys) -> dict[str, Any]:
    """Return what a fit left in uns."""
    check_embedded(owner, adata, keys)
    found = adata.uns.get(keys.uns)
    if not isinstance(found, Mapping):
        raise ValueError(
            f"{owner} finds positions under the key {keys.name!r}, but nothing of their fit in "
            f"adata.uns: run hgplvm.tl.hgplvm(adata{_key_added(keys)}) again."
        )
    return dict(found)


def _key_added(keys: Keys) -> str:
    return "" if keys == Keys() else f", key_added={keys.name!r}"


def stored_model(owner: str, adata: Any, keys: Keys) -> Any:
    """Return the fitted model behind an embedding."""
    # pictures need it only where they decode, and then by its methods
    from hgplvm.estimators.loading import load

    found = results(owner, adata, keys)
    if "fitted" not in found:
        raise ValueError(
            f"{owner} needs the fitted model, which is not in adata.uns[{keys.uns!r}]: run "
            f"hgplvm.tl.hgplvm(adata{_key_added(keys)}, keep_model=True)."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        try:
            np.asarray(found["fitted"], dtype=np.uint8).tofile(path)
            return load(path)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The model in adata.uns[{keys.uns!r}] cannot be read: "
                f"{str(error).replace(os.fspath(path), 'uns')}"
            ) from None


def model_bytes(model: Any) -> Array:
    """File of a fitted model, as an array that an AnnData object can keep."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return np.fromfile(path, dtype=np.uint8)


# --- roots ----------------------------------------------------------------------------------


def root_rows(owner: str, name: str, adata: Any, value: Any) -> Any:
    """Turn names into rows: a cell's name into its index, a category into a mask.

    What is neither is returned as it is.
    """
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ValueError(
                f"The {name!r} of {owner}, as a dict, must name one column of adata.obs and one of "
                f"its values, such as {{'cell_type': 'stem cell'}}. Got {value!r} instead."
            )
        ((column, wanted),) = value.items()
        return category_mask(owner, name, adata, str(column), wanted)
    if isinstance(value, str):
        at = np.flatnonzero(np.asarray(adata.obs_names) == value)
        if len(at) != 1:
            raise ValueError(
                f"The {name!r} of {owner} must be the name of one row, and {len(at)} have the name "
                f"{value!r}. A group of rows is {{'column of obs': 'its value'}}."
            )
        return int(at[0])
    if hasattr(value, "reindex"):  # a column of a DataFrame, perhaps in another order
        known = value.index.is_unique and set(value.index) == set(adata.obs_names)
        return (value.reindex(adata.obs_names) if known else value).to_numpy()
    return value


def category_mask(owner: str, name: str, adata: Any, column: str, wanted: object) -> Array:
    """Rows that have a value in a column of obs."""
    if column not in adata.obs:
        raise ValueError(
            f"The {name!r} of {owner} names {column!r}, which is no column of adata.obs; there "
            f"are {_listed(adata.obs.columns)}."
        )
    values = adata.obs[column]
    found = values.astype(str).to_numpy()
    number = isinstance(wanted, Real) and values.dtype.kind in "iuf"
    mask: Array = values.to_numpy() == wanted if number else found == str(wanted)
    if not mask.any():
        raise ValueError(
            f"The {name!r} of {owner} names {wanted!r}, which no row has in {column!r}; there are "
            f"{_listed(np.unique(found))}."
        )
    return mask


def checked_keys(owner: str, name: str, value: object) -> Keys:
    """Keys of a name."""
    if not isinstance(value, str) or not value or "/" in value:
        raise ValueError(
            f"The {name!r} parameter of {owner} must be a text without '/', the name of the "
            f"results in adata. Got {value!r} instead."
        )
    return Keys(value)


def check_anndata(owner: str, thing: Any, *, least: int = 1) -> None:
    """Reject a thing that is no AnnData object with some rows."""
    if not is_anndata(thing):
        raise TypeError(
            f"The 'adata' of {owner} must be an AnnData object. Got {type(thing).__name__} "
            "instead; arrays and DataFrames go to the estimators, such as hgplvm.HGPLVM."
        )
    if thing.n_obs < least:
        raise ValueError(
            f"The 'adata' of {owner} must have {least} rows or more. Got {thing.n_obs} instead."
        )


def check_writable(owner: str, adata: Any, *, copy: bool) -> None:
    """Refuse, before a long fit, an object that cannot take results."""
    if adata.is_view and adata.isbacked and not copy:
        raise ValueError(
            f"The 'adata' of {owner} is a view of an object that is backed by a file, which cannot "
            "be written to: pass adata.to_memory(), or copy=True."
        )


def _listed(words: Any, most: int = 8) -> str:
    """First few words, for a sentence."""
    shown = [repr(str(word)) for word in words]
    if not shown:
        return "none"
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
