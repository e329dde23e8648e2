"""What a part of the paper is: the runs that it needs, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hgplvm._reproduce.report import Section
from hgplvm._reproduce.runs import Results, Task
from hgplvm._reproduce.sources import Rows, Source, UnavailableError
from hgplvm._reproduce.systems import SYSTEMS
from hgplvm._typing import Array

__all__ = ["FULL", "QUICK", "Context", "Part", "Scale", "cell", "highest", "tasks_of"]


@dataclass(frozen=True)
class Scale:
    """How much is run.

    Parameters
    ----------
    runs, paul_runs, sweep_runs : int
        Seeds of each system: on small data, on Paul's, and along the sweeps.
    depths : tuple of int
        Depths of the binary trees.
    cross_checks : tuple of int
        Depths at which GPy's models, which are slow, stand beside.
    steps : int or None
        Steps at most, for trials.
    """

    runs: int
    paul_runs: int
    sweep_runs: int
    depths: tuple[int, ...] = (4, 5, 6)
    cross_checks: tuple[int, ...] = (4, 5, 6)
    steps: int | None = None


# the paper's repeats, and as many as fit into some minutes
FULL = Scale(runs=10, paul_runs=30, sweep_runs=3)
QUICK = Scale(runs=2, paul_runs=2, sweep_runs=1, cross_checks=(4,))


@dataclass(frozen=True)
class Context:
    """What a part draws from: results, data, how much was run, and the folder for figures."""

    results: Results
    source: Source
    scale: Scale
    folder: Path

    def rows(self, data: str) -> Rows | None:
        """Return data, or None where they are not to be had."""
        try:
            return self.source.load(data)
        except UnavailableError:
            return None


@dataclass(frozen=True)
class Part:
    """A table or figure of the paper."""

    name: str
    summary: str
    tasks: Callable[[Scale], Iterable[Task]]
    section: Callable[[Context], Section]


def tasks_of(
    scale: Scale, systems: Iterable[str], data: str, runs: int, **options: Any
) -> Iterator[Task]:
    """Yield runs of systems on data, as many as asked for; one where runs do not differ."""
    for system in systems:
        for seed in range(runs if SYSTEMS[system].repeats else 1):
            yield Task(system, data, seed, tuple(options.items()), scale.steps)


def highest(values: Iterable[float]) -> float:
    """Return the largest of the values, NaN where one is not known."""
    found = list(values)
    return max(found) if found and not np.isnan(found).any() else float("nan")


def cell(values: Array, digits: int = 3) -> str:
    """Mean ± standard deviation of runs; the mean alone of one run."""
    if len(values) == 0:
        return "-"
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {values.std():.{digits}f}"
