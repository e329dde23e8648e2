"""``hgplvm plot`` and ``hgplvm metrics``: what an embedding looks like, and how good it is."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hgplvm._tables import check_there, stem_of
from hgplvm.cli._app import Command, app, guarded
from hgplvm.cli._options import PICTURES, Drop, Force, Key, Labels, Layer, Quiet, UseRep
from hgplvm.cli._outputs import check_output, write_together
from hgplvm.cli._rows import (
    MODEL_SUFFIX,
    check_color,
    check_embedded,
    check_inside,
    genes_of,
    read_embedding,
    read_fitted,
    read_rows,
    root_of,
    same_rows,
    suffix,
)

__all__ = ["metrics", "plot"]


class Kind(StrEnum):
    """What to draw."""

    DISK = "disk"
    UNCERTAINTY = "uncertainty"
    DECODER = "decoder"
    TRAJECTORY = "trajectory"
    LENGTH_SCALES = "length-scales"
    HISTORY = "history"


ON_DISK = (Kind.DISK, Kind.UNCERTAINTY, Kind.DECODER, Kind.TRAJECTORY)
DECODED = (Kind.DECODER, Kind.TRAJECTORY)


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


@app.command(cls=Command)
def plot(
    source: Annotated[
        Path,
        typer.Argument(help="An embedding (.csv, .npz, .h5ad, …) or a model (.hgplvm)."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the picture: .png, .jpg, .pdf or .svg; by default SOURCE-KIND.png.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Kind,
        typer.Option(
            help="disk: the points. uncertainty, decoder, trajectory, length-scales and history "
            "need a model or an .h5ad file."
        ),
    ] = Kind.DISK,
    color: Annotated[
        str | None, typer.Option(help="Label, column of obs or gene to colour by.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            help="Column to decode, for --kind decoder and trajectory; may be given several times.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Where a trajectory begins, as --root.", show_default=False),
    ] = None,
    ends: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            help="Where a trajectory ends, as --root; may be given several times.",
            show_default=False,
        ),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(
            help="What to put at the centre: a row number (from 0) or name, LABEL=VALUE, or X,Y."
        ),
    ] = None,
    zoom: Annotated[
        str,
        typer.Option(
            help="auto: the part of the disk that holds the points; or how many times to magnify, "
            "where 1 is the whole disk."
        ),
    ] = "auto",
    legend: Annotated[Legend, typer.Option(help="Where the names stand.")] = Legend.SIDE,
    grid: Annotated[Grid, typer.Option(help="Lines on the disk.")] = Grid.POLAR,
    title: Annotated[str | None, typer.Option(help="Title of the picture.")] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            help="A category to show in colour, the others grey; may be given several times.",
            show_default=False,
        ),
    ] = None,
    cmap: Annotated[str | None, typer.Option(help="Colour map of numbers.")] = None,
    vmin: Annotated[
        str | None, typer.Option(help="Lower end of the colour scale: a number, or p1, …")
    ] = None,
    vmax: Annotated[
        str | None, typer.Option(help="Upper end of the colour scale: a number, or p99, …")
    ] = None,
    size: Annotated[float | None, typer.Option(min=0.0, help="Area of a marker.")] = None,
    flat: Annotated[
        bool, typer.Option("--flat", help="Points of a plane, as hgplvm fit --flat writes them.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw an embedding on the Poincaré disk.

    Example: hgplvm plot cells-hgplvm.csv --color cell_type --root cell_type=stem --out cells.png
    """
    with guarded(quiet=quiet):
        check_there(source)
        given = {
            "--color": color,
            "--feature": features,
            "--from": start,
            "--to": ends,
            "--root": root,
            "--zoom": None if zoom == "auto" else zoom,
            "--legend": None if legend is Legend.SIDE else legend,
            "--grid": None if grid is Grid.POLAR else grid,
            "--group": groups,
            "--cmap": cmap,
            "--vmin": vmin,
            "--vmax": vmax,
            "--size": size,
        }
        _check_used(kind, {name for name, value in given.items() if value is not None}, flat)
        if kind in DECODED and not features:
            raise ValueError(f"--kind {kind} needs --feature NAME, the column to decode.")
        if kind is Kind.TRAJECTORY and (start is None or not ends):
            raise ValueError(
                "--kind trajectory needs --from PLACE and --to PLACE: rows, names or LABEL=VALUE."
            )
        wanted = list(features or [])
        place = out or source.with_name(_default_name(source, kind, wanted))
        check_output(place, "--out", force=force, kinds=PICTURES)
        magnified = _zoom_of(zoom)
        drawn, labels, names = _drawable(source, kind, flat=flat)
        if _is_flat(drawn):
            flat = True
            _check_used(kind, {n for n, value in given.items() if value is not None}, flat)
        genes = genes_of(drawn) if suffix(source) == ".h5ad" else set()
        check_color(color, labels, genes)
        values = color if suffix(source) == ".h5ad" or color is None else labels[color]
        n = len(getattr(drawn, "embedding_", drawn))
        place_of_root = None if root is None else root_of(root, labels, names, n)
        words = suffix(source) == ".h5ad"
        begin = None if start is None else _place_of(start, labels, names, n, "--from", words)
        aims = [_place_of(end, labels, names, n, "--to", words) for end in ends or []]
        import matplotlib

        matplotlib.use("Agg")  # files only: works without a display
        from hgplvm import pl

        options: dict[str, Any] = {"title": title if title is not None else color}
        if kind in ON_DISK:
            options |= {"zoom": magnified, "root": place_of_root}
            options |= {} if kind is Kind.DECODER and grid is Grid.POLAR else {"grid": str(grid)}
        scale = {"cmap": cmap, "vmin": _end_of(vmin), "vmax": _end_of(vmax)}
        dots = {"groups": groups or None, "size": size, "legend": str(legend), **scale}

        def draw(path: Path) -> None:
            if kind is Kind.DISK and flat:
                name = title or (type(drawn).__name__ if _is_flat(drawn) else stem_of(source))
                pl.compare({name: Plane(drawn)}, values, save=path, **dots)
            elif kind is Kind.DISK:
                pl.poincare(drawn, values, save=path, **options, **dots)
            elif kind is Kind.UNCERTAINTY:
                pl.uncertainty(drawn, values, save=path, **options, **dots)
            elif kind is Kind.DECODER:
                only = wanted[0] if len(wanted) == 1 else wanted
                pl.decoder(drawn, only, save=path, **{**options, "title": title}, **scale)
            elif kind is Kind.TRAJECTORY:
                pl.trajectory(drawn, begin, aims, features=wanted, title=title, save=path)
            elif kind is Kind.LENGTH_SCALES:
                pl.length_scales(drawn, save=path, **options)
            else:
                pl.history(drawn, save=path, **options)

        write_together({place: draw})
    if not quiet:
        typer.echo(f"Wrote {place}.")


@app.command(cls=Command)
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
    """Measure how well an embedding preserves neighbours, distances and labels.

    Example: hgplvm metrics cells.csv cells-hgplvm.csv --label cell_type
    """
    with guarded():
        check_there(data)
        if embedding is None and suffix(data) != ".h5ad":
            raise ValueError(f"name the embedding of {data} too, such as the .csv of hgplvm fit.")
        if embedding is not None:
            check_there(embedding)
        if embedding is None and layer is None and use_rep is None:
            rows = read_fitted(data, labels)
        else:
            source: dict[str, Any] = {"layer": layer, "use_rep": use_rep, "normalize": False}
            rows = read_rows(data, labels=labels, drop=drop, key=key, **source)
        place = embedding if embedding is not None else data
        found = same_rows(rows, read_embedding(place), data, place)
        dense = rows.data.toarray() if hasattr(rows.data, "toarray") else rows.data
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


class Plane:
    """Points of a plane, in the eyes of a picture that knows models and arrays."""

    def __init__(self, drawn: Any) -> None:
        self.embedding_ = getattr(drawn, "embedding_", drawn)


# what each kind of picture can do something with
POINTS = {"--color", "--root", "--zoom", "--legend", "--grid"}
SCALE = {"--cmap", "--vmin", "--vmax"}
USED = {
    Kind.DISK: POINTS | SCALE | {"--group", "--size"},
    Kind.UNCERTAINTY: POINTS | SCALE | {"--group", "--size"},
    Kind.DECODER: {"--feature", "--root", "--zoom", "--grid"} | SCALE,
    Kind.TRAJECTORY: {"--feature", "--from", "--to"},
    Kind.LENGTH_SCALES: set[str](),
    Kind.HISTORY: set[str](),
}


def _check_used(kind: Kind, given: set[str], flat: bool) -> None:
    """Refuse options that a kind of picture can do nothing with."""
    if flat and kind is not Kind.DISK:
        raise ValueError(f"--kind {kind} draws a disk, and these are points of a plane.")
    known = USED[kind] - ({"--root", "--zoom", "--grid"} if flat else set())
    if unused := sorted(given - known):
        where = "points of a plane" if flat else f"--kind {kind}"
        words = f"; it takes {', '.join(sorted(known))}" if known else ""
        raise ValueError(f"{unused[0]} does nothing for {where}{words}.")


def _end_of(text: str | None) -> Any:
    """Return an end of a scale: a number, or a percentile such as p99."""
    if text is None or text.startswith("p"):
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _place_of(
    text: str, labels: dict[str, Any], names: Any, n_rows: int, option: str, words: bool
) -> Any:
    """Return an end of a trajectory; with `words`, a group keeps its name for the legend."""
    found = root_of(text, labels, names, n_rows, option=option)
    column, group, value = text.partition("=")
    return {column: value} if words and group else found


def _is_flat(drawn: Any) -> bool:
    """Whether a model is one of flat space."""
    return hasattr(drawn, "get_params") and not hasattr(drawn, "lorentz_")


def _default_name(source: Path, kind: Kind, features: list[str]) -> str:
    """Name of a picture: no two kinds have the same, nor has the one that a fit draws."""
    words = [stem_of(source), str(kind)]
    if kind in DECODED:
        words += [re.sub(r"[^\w.-]", "_", name) for name in features]  # a name may hold a slash
    return "-".join(words) + ".png"


def _zoom_of(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not 0 < number < np.inf:
        raise ValueError(f"--zoom {text} must be auto or a number above 0.")
    return number


def _drawable(source: Path, kind: Kind, *, flat: bool = False) -> tuple[Any, dict[str, Any], Any]:
    """Read what a picture needs: what to draw, the labels and the names of its rows."""
    if suffix(source) == MODEL_SUFFIX:
        from hgplvm.estimators import load

        model = load(source)
        _check_disk(source, kind, model.embedding_, hasattr(model, "posterior_cov_"))
        return model, {}, None
    if suffix(source) == ".h5ad":
        rows = read_rows(source, load=False, normalize=False)
        check_embedded(source, rows.adata)
        obsm = rows.adata.obsm
        _check_disk(source, kind, obsm["X_hgplvm"], "hgplvm_covariance" in obsm)
        return rows.adata, rows.groups, rows.names
    if kind is not Kind.DISK:
        raise ValueError(
            f"--kind {kind} needs a model (.hgplvm) or an .h5ad file, which {source} is not."
        )
    found = read_embedding(source, n_components=2)
    if not flat:
        check_inside(found.points, source)
    return found.points, found.labels, found.names


def _check_disk(source: Path, kind: Kind, points: Any, sure: bool) -> None:
    """Refuse what has no picture on the disk, or no uncertainty where that is to be drawn."""
    if kind in ON_DISK and points.shape[1] != 2:
        dimensions = f"{source} has {points.shape[1]} dimensions, and a disk has 2"
        raise ValueError(f"{dimensions}; fit with --n-components 2.")
    if kind is Kind.UNCERTAINTY and not sure:
        raise ValueError(
            f"{source} does not keep how sure its points are; run hgplvm fit, and plot what it "
            "writes."
        )
