"""Options that several commands have, and the kinds of files that they read and write."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = [
    "PICTURES",
    "TABLES",
    "TOLD_APART",
    "Batch",
    "CovariateNames",
    "Device",
    "Drop",
    "Force",
    "Key",
    "Labels",
    "Layer",
    "Likelihood",
    "Model",
    "Normalize",
    "Quiet",
    "Threads",
    "UseRep",
]

PICTURES = (".png", ".pdf", ".svg", ".jpg")
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
