"""``hgplvm fit``, ``hgplvm transform`` and ``hgplvm decode``: files in, files out."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hgplvm._stops import StopReason
from hgplvm._tables import check_there, stem_of, write_table
from hgplvm.cli._app import Command, app, counted, guarded, say, threads_limited, warn
from hgplvm.cli._outputs import (
    EMBEDDING_SUFFIXES,
    as_anndata,
    check_output,
    write_embedding,
    write_together,
)
from hgplvm.cli._rows import (
    MODEL_SUFFIX,
    Array,
    Embedded,
    Rows,
    check_color,
    check_inside,
    matched,
    read_embedding,
    read_rows,
    root_of,
    suffix,
)
from hgplvm.errors import FlatDataWarning

if TYPE_CHECKING:
    from hgplvm.estimators.base import BaseGPLVM

__all__ = ["base_of", "decode", "fit", "fit_anndata", "fit_table", "load_model", "transform"]

PICTURES = (".png", ".pdf", ".svg", ".jpg")
# what a model's source says of batches
BATCHES = ("covariates", "batch_key")
TABLES = (".csv", ".tsv", ".npz", ".parquet")
# kinds of data that the names of outputs tell: those of cells.csv and cells.tsv must differ
TOLD_APART = (".tsv", ".npy", ".npz", ".parquet")


class Likelihood(StrEnum):
    """Names of the likelihoods."""

    AUTO = "auto"
    GAUSSIAN = "gaussian"
    POISSON = "poisson"
    NEGATIVE_BINOMIAL = "negative-binomial"


class Model(StrEnum):
    """Names of the models."""

    AUTO = "auto"
    EXACT = "exact"
    SPARSE = "sparse"
    BAYESIAN = "bayesian"
    VECCHIA = "vecchia"


Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        help="A column that is a label, not data; may be given several times. Columns of words "
        "at the edges, and those with usual names such as 'cluster', are found.",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="A column to leave out; may be given several times."),
]
Key = Annotated[str | None, typer.Option(help="The array to read, of an .npz file.")]
Layer = Annotated[str | None, typer.Option(help="The layer to read, of an .h5ad file.")]
UseRep = Annotated[
    str | None, typer.Option(help="The representation to read, of an .h5ad file: X_pca, …")
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize",
        help="Fit logarithms of the raw counts of an .h5ad file at the median depth, not the "
        "counts themselves.",
    ),
]
Batch = Annotated[
    str | None,
    typer.Option(
        help="A column with the batch of each row, which is to have no part in the map: a label of "
        "a table, or a column of obs.",
        show_default=False,
    ),
]
CovariateNames = Annotated[
    list[str] | None,
    typer.Option(
        "--covariate",
        help="A further column that is to have no part in the map; numbers with a decimal point "
        "are continuous. May be given several times.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, …")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Threads to use at most; by default what the process may.", show_default=False
    ),
]


@app.command(cls=Command)
def fit(
    data: Annotated[
        Path, typer.Argument(help="Rows to embed: .csv, .tsv, .npy, .npz, .parquet or .h5ad.")
    ],
    model: Annotated[
        Model,
        typer.Option(help="auto: exact up to 1,000 rows, vecchia (nearest neighbours) beyond."),
    ] = Model.AUTO,
    flat: Annotated[
        bool,
        typer.Option("--flat", help="The same model in flat space: points of a plane, not a disk."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the embedding: .csv, .tsv, .npz, .parquet or .h5ad. By default "
            "DATA-hgplvm.csv (.h5ad for .h5ad) in this folder.",
            show_default=False,
        ),
    ] = None,
    save_model: Annotated[
        Path | None,
        typer.Option(
            help="File for the fitted model; by default OUT with .hgplvm.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="File for the picture: .png, .jpg, .pdf or .svg; by default OUT with .png.",
            show_default=False,
        ),
    ] = None,
    color: Annotated[
        str | None,
        typer.Option(help="Label, column of obs or gene to colour by; by default the first label."),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(
            help="What to put at the centre, and to measure pseudotime from: a row number (from "
            "0) or name, or LABEL=VALUE."
        ),
    ] = None,
    labels: Labels = None,
    drop: Drop = None,
    key: Key = None,
    layer: Layer = None,
    use_rep: UseRep = None,
    normalize: Normalize = False,
    batch: Batch = None,
    covariates: CovariateNames = None,
    likelihood: Annotated[
        Likelihood,
        typer.Option(
            help="Likelihood of the rows; auto is negative-binomial for raw counts in .h5ad files, "
            "else gaussian."
        ),
    ] = Likelihood.AUTO,
    n_components: Annotated[int, typer.Option(min=1, help="Dimensions of the embedding.")] = 2,
    length_scale: Annotated[
        float | None, typer.Option(help="Length scale κ; by default it is learnt.")
    ] = None,
    max_iter: Annotated[int, typer.Option(min=1, help="Most steps of the fit.")] = 300,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the fit.")] = 0,
    device: Device = "auto",
    threads: Threads = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps the state of the fit; if it is there, the fit goes on from it, "
            "and its outputs are replaced."
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Embed the rows of a file on the Poincaré disk.

    Writes the embedding, the fitted model and a picture. An entry that is empty, NA or NaN is
    missing, and the model ignores it.

    Example: hgplvm fit cells.csv --label cell_type --root cell_type=stem --plot cells.png
    """
    with guarded(quiet=quiet), threads_limited(threads):
        check_there(data)
        _check_flat(out, flat=flat)
        if plot is not None and n_components != 2:
            raise ValueError("--plot draws a disk; leave it out, or take --n-components 2.")
        if length_scale is not None and not 0 < length_scale < np.inf:
            raise ValueError(f"--length-scale {length_scale:g} must be a number above 0.")
        place, model_place, picture = _places_of_fit(
            data, out, save_model, plot, resume, disk=n_components == 2, flat=flat, force=force
        )
        h5ad = ".h5ad" in (suffix(data), suffix(place)) and not flat
        names = list(dict.fromkeys([*([batch] if batch else []), *(covariates or [])]))
        rows = read_rows(
            data,
            labels=labels,
            drop=drop,
            key=key,
            layer=layer,
            use_rep=use_rep,
            normalize=True if normalize else None,
            covariates=names,
            batch=batch,
            load=suffix(data) != ".h5ad" or flat,
            likelihood=str(likelihood),
        )
        if rows.shape[0] < 2:
            raise ValueError(
                f"{data} has {counted(rows.shape[0], 'row')}, and a fit needs 2 or more."
            )
        if picture is not None:
            more = [] if root is None else [_pseudotime_name(rows)]
            check_color(color, rows.labels, [*more, *(rows.drawable if h5ad else [])])
        center = None
        if root is not None:
            center = root_of(root, rows.groups, rows.names, rows.shape[0], n_components)
        if not quiet:
            _say_rows(data, rows)
        parameters: dict[str, Any] = {
            "n_components": n_components,
            "length_scale": "auto" if length_scale is None else length_scale,
            "max_iter": max_iter,
            "random_state": seed,
            "device": device,
            "checkpoint": resume,
            "verbose": int(not quiet),
        }
        started = time.perf_counter()
        if h5ad:
            source: dict[str, Any] = {
                "layer": layer,
                "use_rep": use_rep,
                "normalize": normalize or None,
            }
            if rows.adata is None:
                source = rows.source
            source |= {"batch_key": batch, "covariates": covariates, "likelihood": str(likelihood)}
            fitted, found = fit_anndata(rows, str(model), {**source, **parameters}, center)
        else:
            chosen = rows.source.get("likelihood", str(likelihood))
            if chosen != Likelihood.AUTO:
                parameters["likelihood"] = chosen
            fitted, found = fit_table(rows, str(model), parameters, center, batch, flat=flat)
        from hgplvm._statements import flat_line

        said = None if quiet or flat else flat_line(fitted)
        seconds = time.perf_counter() - started
        writers: dict[Path, Callable[[Path], object]] = {
            place: lambda path: write_embedding(path, found),
            model_place: fitted.save,
        }
        if picture is not None:
            writers[picture] = lambda path: _draw(path, fitted, found, color)
        write_together(writers)
    if not quiet:
        if getattr(fitted, "source_", {}).get("normalize") and not normalize:
            typer.echo(
                f"{data} holds raw counts: the fit saw their logarithms at the median depth."
            )
        if fitted.likelihood != "gaussian":
            typer.echo(f"{data} holds raw counts: the fit saw them as {fitted.likelihood}.")
        typer.echo(f"{type(fitted).__name__}: {fitted.stop_reason_} ({seconds:.1f} s)")
        for name, share in getattr(fitted, "covariate_variance_", {}).items():
            typer.echo(f"{name} explains {100.0 * share:.0f}% of the variance without noise.")
        if said is not None:
            typer.echo(f"Flat or curved? {said[0].upper()}{said[1:]}; see hgplvm curvature.")
        written = [place, model_place] + ([picture] if picture is not None else [])
        typer.echo(f"Wrote {', '.join(map(str, written))}.")
    if fitted.stop_ == StopReason.INTERRUPTED.name:
        raise typer.Exit(130)  # what was reached is written, and a script learns that it is not all


@app.command(cls=Command)
def transform(
    model: Annotated[Path, typer.Argument(help="A model file that hgplvm fit wrote.")],
    data: Annotated[
        Path, typer.Argument(help="New rows: .csv, .tsv, .npy, .npz, .parquet or .h5ad.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the embedding, as for fit; by default DATA-placed.csv (or .h5ad).",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="File for the picture of the new rows over those of the fit: .png, .jpg, .pdf or "
            ".svg; by default OUT with .png.",
            show_default=False,
        ),
    ] = None,
    color: Annotated[
        str | None,
        typer.Option(help="Label or column of obs to colour by; by default the first label."),
    ] = None,
    labels: Labels = None,
    drop: Drop = None,
    key: Key = None,
    layer: Layer = None,
    use_rep: UseRep = None,
    normalize: Normalize = False,
    new_batch: Annotated[
        bool,
        typer.Option(
            "--new-batch",
            help="Take rows of a batch that the fit has not seen for a new one, whose shift is "
            "estimated from them.",
        ),
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Embed new rows with a fitted model, with the uncertainty of each position.

    Columns are matched by name; those that are missing count as missing entries. After hgplvm fit
    --root there is a column pseudotime, too.

    Example: hgplvm transform cells-hgplvm.hgplvm new-cells.csv --out new-cells-placed.csv
    """
    with guarded(quiet=quiet), threads_limited(threads):
        check_there(model)
        check_there(data)
        check_model(model, "hgplvm transform MODEL DATA")
        end = ".h5ad" if suffix(data) == ".h5ad" else ".csv"
        place = out or Path(f"{base_of(data)}-placed{end}")
        picture: Path | None = plot or place.with_name(f"{stem_of(place)}.png")
        _check_distinct([model, data, place, picture])
        check_output(place, "--out", force=force, kinds=EMBEDDING_SUFFIXES)
        check_output(picture, "--plot", force=force, kinds=PICTURES)  # type: ignore[arg-type]
        source: dict[str, Any] = {
            "layer": layer,
            "use_rep": use_rep,
            "normalize": True if normalize else None,
        }
        fitted = load_model(model, device)
        if not hasattr(fitted, "lorentz_") or fitted.embedding_.shape[1] != 2:
            if plot is not None:
                raise ValueError("--plot draws a disk, which the points of this model are not on.")
            picture = None
        before = {"likelihood": fitted.likelihood, **getattr(fitted, "source_", {})}
        if suffix(data) == ".h5ad":
            source = _as_fitted(source, before)
        known = fitted._model.covariates
        names = [] if known is None else list(known.coding.names)
        rows = read_rows(
            data,
            labels=labels,
            drop=drop,
            key=key,
            all_columns=True,
            fitted=before,
            covariates=names,
            new_batches=new_batch,
            **source,
        )
        check_color(color, rows.groups)
        wanted = _names_of(fitted)
        named = wanted if hasattr(fitted, "feature_names_in_") else None
        values, missing = matched(rows, named, fitted.n_features_in_, data)
        if missing:
            warn(
                f"{data} lacks {counted(len(missing), 'column')} of the model, such as "
                f"{missing[0]!r}: taken as missing entries."
            )
        from hgplvm._anndata import Keys
        from hgplvm._embedding import placed, results_of, rms_std, write_positions

        try:
            points, covariance, off_map = placed(
                fitted, values, rows.covariates, new_batches=new_batch
            )
        except ValueError as error:  # in the words of the command line
            words = str(error).replace("with new_batches=True", "if you add --new-batch")
            raise ValueError(words.replace("new_batches=True", "--new-batch")) from None

        labels_too = {**rows.labels, "off_map": off_map}
        time = _distances_from_root(fitted, points) if before.get("rooted") else None
        if time is not None:
            labels_too[_pseudotime_name(rows)] = time
        found = Embedded(points, rms_std(covariance), labels_too, rows.names)
        if suffix(place) == ".h5ad":
            adata = rows.adata if rows.adata is not None else as_anndata(rows)
            kept = copy.copy(fitted)
            kept.__dict__.pop("feature_names_in_", None)  # they stand beside it, as tl keeps them
            # rows without names of columns are matched by their order
            columns = wanted if set(wanted) & set(rows.columns) else rows.columns
            source = {**rows.source, **{k: before[k] for k in BATCHES if k in before}}
            results = results_of(kept, np.array(columns), source, keep_model=True)
            write_positions(adata, points, covariance, uns={Keys().uns: results})
            adata.obs[Keys().off_map] = off_map
            if time is not None:
                adata.obs[Keys().pseudotime] = time
            found = Embedded(points, found.std, rows.labels, rows.names, adata=adata)
        writers: dict[Path, Callable[[Path], object]] = {
            place: lambda path: write_embedding(path, found)
        }
        if picture is not None:
            shown = rows.groups.get(color) if color else next(iter(rows.labels.values()), None)
            title = color or next(iter(rows.labels), None)
            writers[picture] = lambda path: _draw_placed(
                path, fitted, points, shown, off_map, title
            )
        write_together(writers)
    if not quiet:
        written = ", ".join(map(str, writers))
        typer.echo(f"Placed {counted(len(points), 'row')}.\nWrote {written}.")


@app.command(cls=Command)
def decode(
    model: Annotated[Path, typer.Argument(help="A model file that hgplvm fit wrote.")],
    points: Annotated[
        Path,
        typer.Argument(help="Points of the disk: a table with columns x and y, .npy or .npz."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the rows: .csv, .tsv, .npz or .parquet; by default POINTS-decoded.csv.",
            show_default=False,
        ),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std", help="Standard deviations, too, in columns NAME_std.")
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Decode for this batch, of a model with one; by default averaged over batches.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Decode points of the disk into rows of data.

    Example: hgplvm decode cells-hgplvm.hgplvm points.csv --std --out decoded.csv
    """
    with guarded(quiet=quiet), threads_limited(threads):
        check_there(model)
        check_there(points)
        check_model(model, "hgplvm decode MODEL POINTS")
        place = out or Path(f"{base_of(points)}-decoded.csv")
        _check_distinct([model, points, place])
        check_output(place, "--out", force=force, kinds=TABLES)
        fitted = load_model(model, device)
        found = read_embedding(points, n_components=fitted.embedding_.shape[1])
        if hasattr(fitted, "lorentz_"):
            check_inside(found.points, points)
        mean, deviation = fitted.inverse_transform(
            found.points, return_std=True, covariates=_batch_of(fitted, batch)
        )
        names = _names_of(fitted)
        columns = list(zip(names, mean.T, strict=True))
        if std:
            deviations = zip(names, deviation.T, strict=True)
            columns += [(f"{name}_std", values) for name, values in deviations]
        if found.names is not None:
            columns.append(("row", found.names))
        named = _distinct_names(columns)
        if found.names is not None:  # the names of the rows stand first
            named = dict([named.popitem(), *named.items()])
        write_together({place: lambda path: write_table(path, named)})
    if not quiet:
        done = f"{counted(len(mean), 'point')} into {counted(len(names), 'column')}"
        typer.echo(f"Decoded {done}.\nWrote {place}.")


# --- parts ----------------------------------------------------------------------------------


def _places_of_fit(
    data: Path,
    out: Path | None,
    save_model: Path | None,
    plot: Path | None,
    resume: Path | None,
    *,
    disk: bool,
    flat: bool,
    force: bool,
) -> tuple[Path, Path, Path | None]:
    """Paths of embedding, model and picture: as given, or named after the one before."""
    if resume is not None and resume.exists():
        force = True  # the same command goes on, and its outputs with it
    end = ".h5ad" if suffix(data) == ".h5ad" and not flat else ".csv"
    place = out or Path(f"{base_of(data)}-{'gplvm' if flat else 'hgplvm'}{end}")
    _check_distinct([data, place])
    check_output(place, "--out", force=force, kinds=EMBEDDING_SUFFIXES)
    base = stem_of(place)
    model_place = save_model or place.with_name(base + MODEL_SUFFIX)
    picture = plot or (place.with_name(f"{base}.png") if disk else None)
    _check_distinct([data, place, model_place, picture, resume])
    check_output(model_place, "--save-model", force=force)
    if picture is not None:
        check_output(picture, "--plot", force=force, kinds=PICTURES)
    if resume is not None:
        check_output(resume, "--resume", force=True)
    return place, model_place, picture


def base_of(data: Path) -> str:
    """First part of the names of outputs: cells for cells.csv, and cells-tsv for cells.tsv.gz."""
    kind = suffix(data)
    return f"{stem_of(data)}-{kind[1:]}" if kind in TOLD_APART else stem_of(data)


def _check_flat(out: Path | None, *, flat: bool) -> None:
    """Refuse what goes with a disk alone."""
    if flat and out is not None and suffix(out) == ".h5ad":
        raise ValueError(
            f"--out {out}: points of a plane go into a table; name a .csv, .tsv, .npz or .parquet."
        )


def _distances_from_root(fitted: BaseGPLVM, points: Array) -> Array:
    """Distances of points from the origin, where the root of the fit is."""
    radius = np.linalg.norm(points, axis=1)
    return 2.0 * np.arctanh(radius) if hasattr(fitted, "lorentz_") else radius


def _batch_of(fitted: BaseGPLVM, batch: str | None) -> dict[str, str] | None:
    """Return the batch to decode for, as a covariate of the model."""
    if batch is None:
        return None
    known = fitted._model.covariates
    categorical = [] if known is None else [part.name for part in known.coding.categorical]
    name = getattr(fitted, "source_", {}).get("batch_key", next(iter(categorical), None))
    if name not in categorical:
        raise ValueError(f"--batch {batch}: the model was fitted without batches.")
    levels = known.coding.categorical[categorical.index(name)].levels or ()  # type: ignore[union-attr]
    if batch not in levels:
        raise ValueError(f"--batch {batch}: the model knows {', '.join(levels[:8])}.")
    return {name: batch}


def fit_table(
    rows: Rows,
    model: str,
    parameters: dict[str, Any],
    root: Any,
    batch: str | None = None,
    *,
    flat: bool = False,
) -> tuple[BaseGPLVM, Embedded]:
    """Fit a model to the rows of a table."""
    from hgplvm._embedding import estimator_of, rms_std

    fitted = estimator_of(model, rows.data.shape[0], parameters, flat=flat)
    fitted._columns = np.array(rows.columns)
    fitted.fit(rows.data, covariates=rows.covariates or None)
    source = {} if rows.adata is None else dict(rows.source)
    if rows.covariates:
        source["covariates"] = list(rows.covariates)
        if batch is not None:
            source["batch_key"] = batch
    if root is not None:
        fitted.recenter(root)
        source["rooted"] = True
    if source:
        fitted.source_ = source
    _name_columns(fitted, rows.columns)
    std = rms_std(fitted.posterior_cov_)
    labels = dict(rows.labels)
    if root is not None:
        labels[_pseudotime_name(rows)] = fitted.pseudotime()
    lorentz = getattr(fitted, "lorentz_", None)
    return fitted, Embedded(fitted.embedding_, std, labels, rows.names, lorentz)


def fit_anndata(
    rows: Rows, model: str, parameters: dict[str, Any], root: Any
) -> tuple[BaseGPLVM, Embedded]:
    """Fit a model to the rows of an AnnData object, or to rows that become one."""
    from hgplvm import tl
    from hgplvm._anndata import Keys

    keys = Keys()
    adata = rows.adata if rows.adata is not None else as_anndata(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatDataWarning)  # the command says it in its own words
        tl.hgplvm(adata, model, root=root, **parameters)
    if root is not None:
        tl.pseudotime(adata, np.zeros(parameters["n_components"]))
    fitted = tl.model(adata)
    if root is not None:
        fitted.source_ = {**getattr(fitted, "source_", {}), "rooted": True}
    _name_columns(fitted, list(adata.uns[keys.uns]["features"]))
    labels = dict(rows.labels)
    if root is not None:
        labels[_pseudotime_name(rows)] = adata.obs[keys.pseudotime].to_numpy()
    points = np.asarray(adata.obsm[keys.embedding])
    std = adata.obs[keys.std].to_numpy()
    lorentz = np.asarray(adata.obsm[keys.lorentz])
    return fitted, Embedded(points, std, labels, rows.names, lorentz, adata)


def _name_columns(fitted: BaseGPLVM, columns: list[str]) -> None:
    """Keep the names of columns with the model, unless they are mere numbers."""
    if columns != [str(i) for i in range(len(columns))]:
        fitted.feature_names_in_ = np.array(columns, dtype=object)


def _names_of(fitted: BaseGPLVM) -> list[str]:
    names = getattr(fitted, "feature_names_in_", None)
    return list(map(str, range(fitted.n_features_in_) if names is None else names))


def _distinct_names(columns: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Columns by name; one whose name is taken gets another, and that is said."""
    named: dict[str, Any] = {}
    for name, values in columns:
        free, k = name, 2
        while free in named:
            free, k = f"{name}_{k}", k + 1
        if free != name:
            warn(f"two columns would be named {name!r}; the second of them is named {free!r}.")
        named[free] = values
    return named


def _pseudotime_name(rows: Rows) -> str:
    """Name of our pseudotime beside the labels of the user, who may have one."""
    return "hgplvm_pseudotime" if "pseudotime" in rows.groups else "pseudotime"


def _as_fitted(given: dict[str, Any], fitted: dict[str, Any]) -> dict[str, Any]:
    """Where to read new rows in their object: as the options say, or as in the fit."""
    found = dict(given)
    if found["layer"] is None and found["use_rep"] is None:
        found |= {name: fitted.get(name) for name in ("layer", "use_rep")}
    if found["normalize"] is None and found["use_rep"] is None:
        found["normalize"] = fitted.get("normalize")
    return found


def _draw(path: Path, fitted: BaseGPLVM, found: Embedded, color: str | None) -> None:
    import matplotlib

    matplotlib.use("Agg")  # files only: works without a display
    from hgplvm import pl

    if color is None:
        color = next(iter(found.labels), None)
    # what is no label is a column of obs or a gene
    values = None if color is None else found.labels.get(color, color)
    if not hasattr(fitted, "lorentz_"):
        pl.compare({type(fitted).__name__: fitted}, values, save=path)
        return
    pl.poincare(found.adata if found.adata is not None else fitted, values, title=color, save=path)


def _draw_placed(
    path: Path,
    fitted: BaseGPLVM,
    points: Array,
    values: Any,
    off_map: Array,
    title: str | None,
) -> None:
    import matplotlib

    matplotlib.use("Agg")  # files only: works without a display
    from hgplvm import pl

    pl.placed(points, fitted, values, off_map=off_map, title=title, save=path)


def check_model(path: Path, usage: str) -> None:
    """Refuse a file that is no model where one is expected, such as the data themselves."""
    if suffix(path) != MODEL_SUFFIX:
        try:
            load_model(path, "cpu")
        except ValueError:
            raise ValueError(
                f"{path} is no model: the first argument is the {MODEL_SUFFIX} file that hgplvm "
                f"fit wrote, as in {usage}."
            ) from None


def load_model(path: Path, device: str) -> BaseGPLVM:
    """Read a model, for a device."""
    from hgplvm.estimators import load

    fitted = load(path)
    fitted.set_params(device=device)
    return fitted


def _check_distinct(paths: list[Path | None]) -> None:
    """Refuse to write over what is read."""
    seen: set[Path] = set()
    for path in paths:
        if path is not None:
            if path.resolve() in seen:
                raise ValueError(f"{path} would be read and written, or written twice; rename one.")
            seen.add(path.resolve())


def _say_rows(path: Path, rows: Rows) -> None:
    n, d = rows.shape
    # which columns of an object are fitted is not known yet
    words = "" if rows.data is None else f", {counted(d, 'column')}"
    words += f", labels {', '.join(rows.labels)}" if rows.labels else ""
    say(f"Read {path}: {counted(n, 'row')}{words}")
