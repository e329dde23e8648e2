"""``hgplvm curvature``: whether data call for a curved space, or a plane would do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgplvm._tables import check_there
from hgplvm.cli._app import Command, app, guarded, threads_limited
from hgplvm.cli._embed import base_of, fit_anndata, fit_table, load_model
from hgplvm.cli._options import (
    PICTURES,
    Batch,
    CovariateNames,
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
from hgplvm.cli._outputs import check_output, write_together
from hgplvm.cli._rows import MODEL_SUFFIX, read_rows, suffix

if TYPE_CHECKING:
    from hgplvm.estimators.base import BaseGPLVM

__all__ = ["curvature"]


@app.command(cls=Command)
def curvature(
    data: Annotated[
        Path,
        typer.Argument(
            help="Rows: .csv, .tsv, .npy, .npz, .parquet or .h5ad; or a model (.hgplvm) that was "
            "fitted to them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the picture of the evidence: .png, .jpg, .pdf or .svg; by default "
            "DATA-curvature.png.",
            show_default=False,
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
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the fit.")] = 0,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Say whether data call for a curved space, or a plane explains them as well.

    A nearest-neighbour model is fitted to the rows, of which a sample of 300 is judged; a model
    that is given is asked as it is.

    Example: hgplvm curvature cells.csv --label cell_type
    """
    with guarded(quiet=quiet or as_json), threads_limited(threads):
        check_there(data)
        place = out or Path(f"{base_of(data)}-curvature.png")
        check_output(place, "--out", force=force, kinds=PICTURES)
        if suffix(data) == MODEL_SUFFIX:
            model = load_model(data, device)
        else:
            options = {"layer": layer, "use_rep": use_rep, "normalize": normalize or None}
            model = _fitted(data, labels, drop, key, options, batch, covariates, seed, device)
        found = model.curvature()
        import matplotlib

        matplotlib.use("Agg")  # files only: works without a display
        from hgplvm import pl

        write_together({place: lambda path: pl.curvature(found, save=path)})
    if as_json:
        values = asdict(found)
        values["gains"] = found.gains.tolist()
        # JSON has no NaN
        values = {k: None if v != v else v for k, v in values.items()}
        typer.echo(json.dumps(values))
        return
    typer.echo(str(found))
    if not quiet:
        typer.echo(f"Wrote {place}.")


def _fitted(
    data: Path,
    labels: list[str] | None,
    drop: list[str] | None,
    key: str | None,
    options: dict[str, Any],
    batch: str | None,
    covariates: list[str] | None,
    seed: int,
    device: str,
) -> BaseGPLVM:
    """Fit the nearest-neighbour model to the rows of a file."""
    names = list(dict.fromkeys([*([batch] if batch else []), *(covariates or [])]))
    rows = read_rows(
        data,
        labels=labels,
        drop=drop,
        key=key,
        covariates=names,
        batch=batch,
        load=suffix(data) != ".h5ad",
        **options,
    )
    if rows.shape[0] < 2:
        raise ValueError(f"{data} has {rows.shape[0]} rows, and a verdict needs 2 or more.")
    parameters = {"n_components": 2, "random_state": seed, "device": device}
    if rows.data is not None:
        return fit_table(rows, "vecchia", parameters, None, batch)[0]
    source = {**options, "batch_key": batch, "covariates": covariates}
    return fit_anndata(rows, "vecchia", {**source, **parameters}, None)[0]
