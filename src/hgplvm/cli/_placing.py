"""``hgplvm transform`` and ``hgplvm decode``: rows to points, and points to rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hgplvm._tables import check_there, stem_of, write_table
from hgplvm.cli._app import Command, app, counted, guarded, threads_limited, warn
from hgplvm.cli._embed import base_of, check_distinct, load_model, pseudotime_name
from hgplvm.cli._options import (
    PICTURES,
    TABLES,
    Device,
    Drop,
    Force,
    Key,
    Labels,
    Layer,
    Normalize,
    Quiet,
    Threads,
    UseRep,
)
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
    check_color,
    check_inside,
    matched,
    read_embedding,
    read_rows,
    suffix,
)

if TYPE_CHECKING:
    from hgplvm.estimators.base import BaseGPLVM

__all__ = ["decode", "transform"]

# what a model's source says of batches
BATCHES = ("covariates", "batch_key")


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
        check_distinct([model, data, place, picture])
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
            labels_too[pseudotime_name(rows)] = time
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
        check_distinct([model, points, place])
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


def _as_fitted(given: dict[str, Any], fitted: dict[str, Any]) -> dict[str, Any]:
    """Where to read new rows in their object: as the options say, or as in the fit."""
    found = dict(given)
    if found["layer"] is None and found["use_rep"] is None:
        found |= {name: fitted.get(name) for name in ("layer", "use_rep")}
    if found["normalize"] is None and found["use_rep"] is None:
        found["normalize"] = fitted.get("normalize")
    return found


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
