"""``hgplvm fit``: the rows of a file, embedded."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hgplvm._stops import StopReason
from hgplvm._tables import check_there, stem_of
from hgplvm.cli._app import Command, app, counted, guarded, say, threads_limited
from hgplvm.cli._options import (
    PICTURES,
    TOLD_APART,
    Batch,
    CovariateNames,
    Device,
    Drop,
    Force,
    Key,
    Labels,
    Layer,
    Likelihood,
    Model,
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
    Embedded,
    Rows,
    check_color,
    read_rows,
    root_of,
    suffix,
)
from hgplvm.errors import FlatDataWarning

if TYPE_CHECKING:
    from hgplvm.estimators.base import BaseGPLVM

__all__ = [
    "base_of",
    "check_distinct",
    "fit",
    "fit_anndata",
    "fit_table",
    "load_model",
    "pseudotime_name",
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
            more = [] if root is None else [pseudotime_name(rows)]
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
    check_distinct([data, place])
    check_output(place, "--out", force=force, kinds=EMBEDDING_SUFFIXES)
    base = stem_of(place)
    model_place = save_model or place.with_name(base + MODEL_SUFFIX)
    picture = plot or (place.with_name(f"{base}.png") if disk else None)
    check_distinct([data, place, model_place, picture, resume])
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
        labels[pseudotime_name(rows)] = fitted.pseudotime()
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
        labels[pseudotime_name(rows)] = adata.obs[keys.pseudotime].to_numpy()
    points = np.asarray(adata.obsm[keys.embedding])
    std = adata.obs[keys.std].to_numpy()
    lorentz = np.asarray(adata.obsm[keys.lorentz])
    return fitted, Embedded(points, std, labels, rows.names, lorentz, adata)


def _name_columns(fitted: BaseGPLVM, columns: list[str]) -> None:
    """Keep the names of columns with the model, unless they are mere numbers."""
    if columns != [str(i) for i in range(len(columns))]:
        fitted.feature_names_in_ = np.array(columns, dtype=object)


def pseudotime_name(rows: Rows) -> str:
    """Name of our pseudotime beside the labels of the user, who may have one."""
    return "hgplvm_pseudotime" if "pseudotime" in rows.groups else "pseudotime"


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


def load_model(path: Path, device: str) -> BaseGPLVM:
    """Read a model, for a device."""
    from hgplvm.estimators import load

    fitted = load(path)
    fitted.set_params(device=device)
    return fitted


def check_distinct(paths: list[Path | None]) -> None:
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
