"""How long a fit will take, and how much memory, before it begins.

From a table of fits to data of 30 columns (`benchmarks/speed/estimates.py` makes it), between
whose entries seconds are a power of the number of rows, and from the speed of this machine beside
that of the table's, by a product of two matrices. Estimates are right to a factor of about two.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from hgplvm.errors import LongFitWarning

__all__ = ["Estimate", "estimate", "warn_if_long"]

# seconds by the number of rows, on two cores; and on one large GPU
SECONDS = {
    "cpu": {
        "exact": {500: 3.5, 1000: 5.9, 2000: 21.0, 4000: 130.0},
        "sparse": {1000: 3.6, 5000: 11.2, 20_000: 16.0, 100_000: 80.0},
        "bayesian": {1000: 6.8, 2000: 13.4, 5000: 25.5, 10_000: 60.0},
        "vecchia": {500: 3.4, 1000: 4.3, 2000: 9.0, 5000: 35.0, 20_000: 50.0, 50_000: 113.0},
    },
    "cuda": {
        "exact": {1000: 3.0, 10_000: 11.0, 20_000: 60.0},
        "sparse": {1000: 3.0, 100_000: 6.0, 1_000_000: 31.0},
        "bayesian": {1000: 4.0, 100_000: 10.0, 1_000_000: 60.0},
        "vecchia": {1000: 4.0, 100_000: 19.0, 1_000_000: 150.0},
    },
}
# further seconds for each entry of the data: the preparation, and a likelihood of counts
BY_ENTRY = {"gaussian": 5e-7, "counts": 1.2e-6}
# bytes for each row, and how many arrays of the size of the data and of N × N are held
BY_ROW = {"exact": 2e4, "sparse": 2e4, "bayesian": 3e4, "vecchia": 9e4}
COPIES, SQUARES = 5, 6
# steps of the fits in the table; the share of a fit that does not go with the steps
STEPS, START = 300, 0.3
# fits with many more steps stop before the last, at so many times those of the table or earlier
MOST_STEPS = 3
# seconds grow with this power of the number of dimensions
DIMENSIONS = 1.4
# seconds of the product below on the machine of the table
PRODUCT_SIZE, PRODUCT_SECONDS = 700, 0.012
# a fit is long beyond so many seconds; another model is named if it needs less than this share
LONG, SHORTER = 10.0, 0.5


@dataclass(frozen=True)
class Estimate:
    """Seconds and bytes that a fit will take, roughly."""

    seconds: float
    memory: float

    def __str__(self) -> str:
        return f"about {_time(self.seconds)} and {_size(self.memory)} of memory"


def estimate(
    kind: str,
    n_rows: int,
    n_columns: int,
    *,
    n_components: int = 2,
    counts: bool = False,
    max_iter: int = STEPS,
    device: str = "cpu",
) -> Estimate:
    """Estimate a fit.

    Parameters
    ----------
    kind : {"exact", "sparse", "bayesian", "vecchia"}
        Which model.
    n_rows, n_columns : int
        Size of the data.
    n_components : int
        Dimensions of the latent space.
    counts : bool
        Whether the likelihood is one of counts.
    max_iter : int
        Most steps.
    device : {"cpu", "cuda"}
        Where it is computed.
    """
    table = SECONDS["cuda" if device == "cuda" else "cpu"][kind]
    seconds = _between(table, n_rows) * (START + (1.0 - START) * min(max_iter / STEPS, MOST_STEPS))
    seconds *= max(n_components / 2.0, 1.0) ** DIMENSIONS
    seconds += BY_ENTRY["counts" if counts else "gaussian"] * n_rows * n_columns
    if device != "cuda":
        seconds *= _slowness()
    memory = 8.0 * COPIES * n_rows * n_columns + BY_ROW[kind] * n_rows
    if kind == "exact":
        memory += 8.0 * SQUARES * n_rows**2
    return Estimate(seconds, memory)


def warn_if_long(
    owner: str,
    kind: str,
    n_rows: int,
    n_columns: int,
    *,
    n_components: int,
    counts: bool,
    max_iter: int,
    device: str,
    verbose: bool,
) -> None:
    """Say before a long fit how long it will take, and which model would be quicker."""
    more: dict[str, Any] = {"counts": counts, "max_iter": max_iter, "device": device}
    more["n_components"] = n_components
    found = estimate(kind, n_rows, n_columns, **more)
    if found.seconds <= LONG:
        return
    base = re.sub("^(Bayesian|Sparse|Vecchia)", "", owner)
    others = {
        other: estimate(other, n_rows, n_columns, **more)
        for other in ("vecchia", "sparse")
        if other != kind and base in ("HGPLVM", "GPLVM")
    }
    quick = [other for other, e in others.items() if e.seconds < SHORTER * found.seconds]
    words = ""
    if quick:
        name = f"{quick[0].capitalize()}{base}"
        words = f"; {name} (model={quick[0]!r}) would take about {_time(others[quick[0]].seconds)}"
    warnings.warn(
        f"{owner} will take {found} for {n_rows:,} rows and {n_columns:,} columns{words}."
        f"{'' if verbose else ' verbose=1 shows a progress bar.'}",
        LongFitWarning,
        stacklevel=5,
    )


def _between(table: dict[int, float], n_rows: int) -> float:
    """Seconds, a power of the rows between two entries, and beyond as between the last two."""
    rows, seconds = (np.log(np.array(list(part))) for part in (table.keys(), table.values()))
    at = float(np.log(max(n_rows, 1)))
    if at <= rows[-1]:
        return float(np.exp(np.interp(at, rows, seconds)))
    slope = max((seconds[-1] - seconds[-2]) / (rows[-1] - rows[-2]), 1.0)
    return float(np.exp(seconds[-1] + slope * (at - rows[-1])))


@lru_cache(maxsize=1)
def _slowness() -> float:
    """How many times as long as on the table's machine a product of matrices takes."""
    a = torch.ones(PRODUCT_SIZE, PRODUCT_SIZE, dtype=torch.float64)
    best = math.inf
    for _ in range(3):
        begun = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - begun)
    return float(min(max(best / PRODUCT_SECONDS, 0.3), 3.0))


def _time(seconds: float) -> str:
    """Return a time in words, with one or two digits."""
    if seconds < 90.0:
        return f"{max(5.0 * round(seconds / 5.0), 5.0):.0f} seconds"
    if seconds < 5400.0:
        return f"{round(seconds / 60.0):d} minutes"
    if seconds < 172_800.0:
        return f"{seconds / 3600.0:.1f} hours"
    return f"{round(seconds / 86_400.0):d} days"


def _size(n_bytes: float) -> str:
    if n_bytes < 0.95e9:
        return f"{max(round(n_bytes / 1e8) * 100, 100):d} MB"
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes < 1e13 else f"{n_bytes / 1e12:.0f} TB"
