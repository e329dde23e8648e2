"""Reading from and writing to AnnData objects, and the keys of the results.

AnnData itself is never imported here: whoever has such an object has imported it already.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.decomposition import PCA

from hgplvm._covariates import words_of
from hgplvm._log_counts import CountUnits, log_normalised
from hgplvm._typing import Array
from hgplvm.geometry import poincare_to_lorentz

__all__ = [
    "Keys",
    "Matrix",
    "check_anndata",
    "check_embedded",
    "check_writable",
    "checked_keys",
    "covariates_of",
    "in_memory",
    "is_anndata",
    "layer_of",
    "leading_directions",
    "library_sizes",
    "looks_like_counts",
    "model_bytes",
    "positions",
    "read_matrix",
    "results",
    "root_rows",
    "stored_model",
    "write",
]

logger = logging.getLogger(__name__)

# genes that are kept, of more than so many, where there are counts
N_TOP_GENES = 2000
# principal components in which batches are compared before a fit
LEADING = 10
# likelihood that "auto" takes for raw counts
AUTO_LIKELIHOOD = "negative-binomial"
# columns of obs that hold the sizes of libraries
SIZE_COLUMNS = ("total_counts", "n_counts", "nCount_RNA")
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
    def off_map(self) -> str:
        """How well the model explains new rows, a p-value, in obs."""
        return f"{self.name}_off_map"

    @property
    def branch(self) -> str:
        """Likeliest branch of the skeleton, in obs."""
        return f"{self.name}_branch"

    @property
    def position(self) -> str:
        """Distance from the root along the skeleton, in obs."""
        return f"{self.name}_position"

    @property
    def position_std(self) -> str:
        """Standard deviation of that, in obs."""
        return f"{self.name}_position_std"

    @property
    def branches(self) -> str:
        """Probabilities of the branches, in obsm."""
        return f"{self.name}_branches"

    @property
    def fates(self) -> str:
        """Probabilities of the terminal states, in obsm."""
        return f"{self.name}_fates"

    @property
    def stability(self) -> str:
        """How well other fits keep a row's distances, in obs."""
        return f"{self.name}_stability"

    @property
    def of_positions(self) -> tuple[str, ...]:
        """Columns of obs that hold for these positions alone."""
        return (
            self.pseudotime,
            self.pseudotime_std,
            self.branch,
            self.position,
            self.position_std,
            self.stability,
            self.off_map,
        )

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
    likelihood: str = "gaussian",
    fitted: Mapping[str, Any] | None = None,
) -> Matrix:
    """Rows that a fit is to see: of ``X``, of a layer or of a representation.

    `likelihood` may be "auto", the negative binomial for raw counts. `fitted` says, for new rows,
    what those of the fit went through (their `source`, which says which likelihood it was).
    """
    if fitted is not None:
        likelihood = str(fitted.get("likelihood", "gaussian"))
    if likelihood not in ("auto", "gaussian") and (use_rep is not None or normalize):
        raise ValueError(
            f"{owner} with likelihood={likelihood!r} takes the raw counts themselves: leave "
            f"{'normalize' if use_rep is None else 'use_rep'} out."
        )
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
    kept = _mask(owner, adata, mask_var)
    if normalize is not None:
        source["normalize"] = bool(normalize)
    where = "adata.X" if layer is None else f"the layer {layer!r}"
    if likelihood == "auto":
        counted = normalize is None and looks_like_counts(values, gaps=True)
        likelihood = AUTO_LIKELIHOOD if counted else "gaussian"
        if counted:
            logger.warning(
                "%s found raw counts in %s: it fits them as counts (likelihood='gaussian' takes "
                "their logarithms, normalize=False the numbers as they are)",
                owner,
                where,
            )
    if likelihood != "gaussian":
        source["likelihood"] = likelihood
        if fitted is None:
            kept = _counted(owner, adata, values, where, kept, choose=isinstance(mask_var, str))
    elif normalize is not False:
        values, found = _logarithms(owner, adata, values, where, told=normalize, fitted=fitted)
        source |= found
        if fitted is None:
            kept = _informative(values, kept, choose=isinstance(mask_var, str))
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


def looks_like_counts(values: Any, *, gaps: bool = False) -> bool:
    """Whether all entries are whole numbers from 0, and some above 1."""
    if not _whole_numbers(values, gaps=gaps):
        return False
    return bool((values.max() if issparse(values) else np.nanmax(values)) > 1)


def _whole_numbers(values: Any, *, gaps: bool = False) -> bool:
    """Whether all entries are whole numbers from 0; with `gaps`, dense ones may be missing."""
    entries = values.data if issparse(values) else np.asarray(values)
    if gaps and entries.dtype.kind == "f" and not issparse(values):
        entries = entries[~np.isnan(entries)]
    if entries.size == 0 or entries.dtype.kind not in "uif":
        return False
    return all(  # most data show at once that they are none
        np.isfinite(some).all() and (some >= 0).all() and (some == np.rint(some)).all()
        for some in (entries[:1000], entries)
    )


def _logarithms(
    owner: str,
    adata: Any,
    values: Any,
    where: str,
    *,
    told: bool | None,
    fitted: Mapping[str, Any] | None,
) -> tuple[Any, dict[str, Any]]:
    """Take logarithms of raw counts at the median depth; other numbers stay as they are.

    Returns
    -------
    values : array or sparse matrix
        Logarithms, or the numbers.
    found : dict
        Of counts, how the logarithms were taken, for new rows: "normalize" and "target_sum".
    """
    if told and fitted is not None and not _whole_numbers(values):
        raise ValueError(
            f"{owner} finds no raw counts in {where}, and the fit saw raw counts: name the layer "
            "that holds those of these rows."
        )
    if told or (looks_like_counts(values) and fitted is None):
        _check_counts(owner, adata, values)
        if told is None:
            logger.warning(
                "%s found raw counts in %s: it takes their logarithms at the median depth "
                "(normalize=False takes the numbers as they are)",
                owner,
                where,
            )
        target = None if fitted is None else fitted.get("target_sum")
        values, target = log_normalised(values, target)
        return values, {"normalize": True, "target_sum": target}
    if looks_like_counts(values):
        raise ValueError(
            f"{owner} found raw counts in {where}, and the fit saw other numbers: prepare the new "
            "rows as those of the fit were (sc.pp.normalize_total, sc.pp.log1p), or pass "
            "normalize=False to hgplvm.tl.hgplvm, to fit and embed counts as they are."
        )
    return values, {}


def _check_counts(owner: str, adata: Any, values: Any) -> None:
    """Refuse what are no counts, and cells without any."""
    if not _whole_numbers(values):
        raise ValueError(
            f"{owner} was asked to normalize counts, and the data are not counts: some are "
            "negative or not whole numbers. Leave normalize out."
        )
    _check_empty(owner, adata, values)


def _check_empty(owner: str, adata: Any, values: Any) -> None:
    """Refuse cells without counts."""
    total = values.sum(axis=1) if issparse(values) else np.nansum(values, axis=1)
    empty = np.flatnonzero(np.asarray(total).ravel() == 0)
    if empty.size:
        more = f" and {empty.size - 1} more" if empty.size > 1 else ""
        raise ValueError(
            f"{owner} finds no counts in the cell {str(adata.obs_names[empty[0]])!r}{more}: leave "
            "such cells out, as sc.pp.filter_cells(adata, min_counts=1) does."
        )


def _counted(
    owner: str, adata: Any, values: Any, where: str, kept: Array | None, *, choose: bool
) -> Array | None:
    """Which genes of raw counts to take: of those that were seen, the most variable."""
    if not _whole_numbers(values, gaps=True):
        raise ValueError(
            f"{owner} with a likelihood of counts finds no raw counts in {where}: some are "
            "negative or not whole numbers. Name the layer that holds counts, or take "
            "likelihood='gaussian'."
        )
    _check_empty(owner, adata, values)
    logs, _ = log_normalised(values if issparse(values) else np.nan_to_num(values))
    return _most_variable(logs, kept, choose=choose)


def _informative(values: Any, kept: Array | None, *, choose: bool) -> Array | None:
    """Which genes to take, of logarithms of counts: those that were seen; None for all.

    With `choose`, the most variable of many: at the median depth, however they were normalised.
    """
    counts = CountUnits.of(values)
    if counts is None:
        return kept
    return _most_variable(counts.at_median_depth(values), kept, choose=choose)


def _most_variable(logs: Any, kept: Array | None, *, choose: bool) -> Array | None:
    """Genes that were seen and, with `choose`, vary most; None for all."""
    if issparse(logs):
        mean = np.asarray(logs.mean(axis=0)).ravel()
        square = np.asarray(logs.multiply(logs).mean(axis=0)).ravel()
    else:  # NaN is a missing entry
        mean, square = np.nanmean(logs, axis=0), np.nanmean(np.square(logs), axis=0)
    seen = mean > 0
    if kept is None and choose and seen.sum() > N_TOP_GENES:
        variance = square - mean**2
        kept = np.zeros(len(mean), dtype=bool)
        kept[np.argsort(-variance, kind="stable")[:N_TOP_GENES]] = True
    if (unseen := int(np.count_nonzero(~seen))) and seen.any():
        logger.info("leaving out %d genes of which no cell has counts", unseen)
        kept = seen if kept is None else kept & seen
    return kept


def library_sizes(adata: Any, matrix: Matrix) -> Array | None:
    """Sizes of the libraries of cells, where the rows that were fitted do not tell them.

    From raw counts in ``X``, or from the columns of ``obs`` that scanpy's quality control makes.
    """
    if "likelihood" in matrix.source or matrix.source.get("normalize"):
        return None  # they were fitted as counts, and the model has told
    for name in SIZE_COLUMNS:
        if name in adata.obs and adata.obs[name].dtype.kind in "iuf":
            return np.asarray(adata.obs[name], dtype=float)
    if "use_rep" in matrix.source and adata.X is not None:
        values = in_memory(adata.X)
        if looks_like_counts(values):
            return np.asarray(values.sum(axis=1), dtype=float).ravel()
    return None


def leading_directions(values: Any, rows: Array, n_components: int = LEADING) -> Array:
    """Principal components of some rows, of logarithms where rows are counts."""
    some = values[rows]
    if looks_like_counts(some):
        some = log_normalised(csr_matrix(some))[0]
    dense = some.toarray() if issparse(some) else np.asarray(some, dtype=float)
    centred = np.nan_to_num(dense - np.nanmean(dense, axis=0))
    n_components = min(n_components, *centred.shape)
    found: Array = PCA(n_components, random_state=0).fit_transform(centred)
    return found


# --- covariates ---------------------------------------------------------------------------


def covariates_of(owner: str, adata: Any, names: Sequence[str], batch_key: Any = None) -> Any:
    """Columns of obs by name, as a dict of arrays; None where no names are given.

    Batches are words, also where they are written as numbers.
    """
    if not names:
        return None
    found = {}
    for name in names:
        if not isinstance(name, str) or name not in adata.obs:
            raise ValueError(
                f"{owner} finds no column {name!r} in adata.obs for a covariate; there are "
                f"{_listed(adata.obs.columns)}."
            )
        column = adata.obs[name]
        words = name == batch_key or column.dtype.kind not in "biuf"
        found[name] = words_of(column) if words else column.to_numpy()
    return found


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
