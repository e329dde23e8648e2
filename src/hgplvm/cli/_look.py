"""``hgplvm plot`` and ``hgplvm metrics``: what an embedding looks like, and how good it is."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hgplvm.cli._app import app, guarded
from hgplvm.cli._embed import PICTURES, Drop, Force, Key, Labels, Layer, UseRep
from hgplvm.cli._rows import (
    MODEL_SUFFIX,
    check_color,
    check_output,
    read_embedding,
    read_fitted,
    read_rows,
    root_of,
    suffix,
)

__all__ = ["metrics", "plot"]


class Kind(StrEnum):
    """What to draw."""

    DISK = "disk"
    UNCERTAINTY = "uncertainty"
    DECODER = "decoder"
    LENGTH_SCALES = "length-scales"
    HISTORY = "history"


class Legend(StrEnum):
    """Where names stand."""

    SIDE = "side"
    ON_DATA = "on data"
    NONE = "none"


class Grid(StrEnum):
    """Lines on the disk."""

    POLAR = "polar"
    GEODESIC = "geodesic"
    NONE = "none"


@app.command()
def plot(
    source: Annotated[
        Path,
        typer.Argument(help="An embedding (.csv, .npz, .h5ad, …) or a model (.hgplvm)."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the picture: .png, .pdf or .svg; by default SOURCE with .png.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Kind,
        typer.Option(
            help="disk: the points. uncertainty, decoder, length-scales and history need a model "
            "or an .h5ad file."
        ),
    ] = Kind.DISK,
    color: Annotated[
        str | None, typer.Option(help="Label, column of obs or gene to colour by.")
    ] = None,
    feature: Annotated[
        str | None, typer.Option(help="Column to decode, for --kind decoder.")
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(help="What to put at the centre: a row number or name, LABEL=VALUE, or X,Y."),
    ] = None,
    zoom: Annotated[float, typer.Option(help="How many times to magnify.")] = 1.0,
    legend: Annotated[Legend, typer.Option(help="Where the names stand.")] = Legend.SIDE,
    grid: Annotated[Grid, typer.Option(help="Lines on the disk.")] = Grid.POLAR,
    title: Annotated[str | None, typer.Option(help="Title of the picture.")] = None,
    force: Force = False,
) -> None:
    """Draw an embedding on the Poincaré disk.

    Example: hgplvm plot cells-hgplvm.csv --color cell_type --root cell_type=stem --out cells.png
    """
    with guarded():
        base = source.with_suffix("") if source.suffix == ".gz" else source
        place = out or base.with_suffix(".png")
        check_output(place, "--out", force=force, kinds=PICTURES)
        if kind is Kind.DECODER and feature is None:
            raise ValueError("--kind decoder needs --feature NAME, the column to decode.")
        if not source.exists():
            raise FileNotFoundError(f"There is no file {source}; check its name.")
        drawn, labels, names = _drawable(source, kind)
        genes = drawn.var_names if suffix(source) == ".h5ad" else []
        check_color(color, labels, genes)
        values = color if suffix(source) == ".h5ad" or color is None else labels[color]
        n = len(getattr(drawn, "embedding_", drawn))
        place_of_root = None if root is None else root_of(root, labels, names, n)
        import matplotlib

        matplotlib.use("Agg")  # files only: works without a display
        from hgplvm import pl

        options: dict[str, Any] = {"title": title if title is not None else color, "save": place}
        if kind in (Kind.DISK, Kind.UNCERTAINTY, Kind.DECODER):
            options |= {"zoom": zoom, "grid": str(grid), "root": place_of_root}
        if kind is Kind.DISK:
            pl.poincare(drawn, values, legend=str(legend), **options)
        elif kind is Kind.UNCERTAINTY:
            pl.uncertainty(drawn, values, legend=str(legend), **options)
        elif kind is Kind.DECODER:
            pl.decoder(drawn, str(feature), **{**options, "title": title})
        elif kind is Kind.LENGTH_SCALES:
            pl.length_scales(drawn, **options)
        else:
            pl.history(drawn, **options)
    typer.echo(f"Wrote {place}.")


@app.command()
def metrics(
    data: Annotated[Path, typer.Argument(help="The rows that were embedded.")],
    embedding: Annotated[
        Path | None,
        typer.Argument(
            help="Where they are; may be left out for an .h5ad file.", show_default=False
        ),
    ] = None,
    labels: Labels = None,
    drop: Drop = None,
    key: Key = None,
    layer: Layer = None,
    use_rep: UseRep = None,
    flat: Annotated[
        bool, typer.Option("--flat", help="Points of a plane, not of the Poincaré disk.")
    ] = False,
    neighbors: Annotated[int, typer.Option(min=1, help="Neighbours k.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how well an embedding keeps neighbours, distances and labels.

    Example: hgplvm metrics cells.csv cells-hgplvm.csv --label cell_type
    """
    with guarded():
        if embedding is None and suffix(data) != ".h5ad":
            raise ValueError(f"name the embedding of {data} too, such as the .csv of hgplvm fit.")
        for path in (data, embedding):
            if path is not None and not path.exists():
                raise FileNotFoundError(f"There is no file {path}; check its name.")
        if embedding is None and layer is None and use_rep is None:
            rows = read_fitted(data, labels)
        else:
            source: dict[str, Any] = {"layer": layer, "use_rep": use_rep, "normalize": False}
            rows = read_rows(data, labels=labels, drop=drop, key=key, **source)
        found = read_embedding(embedding if embedding is not None else data)
        if len(found.points) != rows.data.shape[0]:
            raise ValueError(
                f"{data} has {rows.data.shape[0]} rows, and {embedding} has {len(found.points)}: "
                "they must be the same rows."
            )
        dense = rows.data.toarray() if hasattr(rows.data, "toarray") else rows.data
        if np.isnan(dense).any():
            raise ValueError(f"{data} has missing entries, and metrics need all distances.")
        from hgplvm.metrics import evaluate

        known = rows.labels or {k: v for k, v in found.labels.items() if v.dtype.kind != "f"}
        name = next(iter(known), None)
        scores = evaluate(
            dense,
            found.points,
            None if name is None else known[name],
            metric="euclidean" if flat else "poincare",
            n_neighbors=neighbors,
        )
    if as_json:
        typer.echo(json.dumps(scores))
        return
    for title, value in scores.items():
        words = f" (label {name})" if title == "knn_accuracy" else ""
        typer.echo(f"{title.replace('_', ' '):<20}{value:>8.4f}{words}")


def _drawable(source: Path, kind: Kind) -> tuple[Any, dict[str, Any], Any]:
    """Read what a picture needs: what to draw, the labels and the names of its rows."""
    if suffix(source) == MODEL_SUFFIX:
        from hgplvm.estimators import load

        return load(source), {}, None
    if suffix(source) == ".h5ad":
        rows = read_rows(source, load=False, normalize=False)
        return rows.adata, rows.groups, rows.names
    if kind is not Kind.DISK:
        raise ValueError(
            f"--kind {kind} needs a model (.hgplvm) or an .h5ad file, which {source} is not."
        )
    found = read_embedding(source)
    return found.points, found.labels, found.names
