"""The paper, rerun: each table, each figure, each system, with our defaults beside them.

A part (`tables.py`, `figures.py`) names the runs that it needs and makes a section of the report
from their results. Runs (`runs.py`) are systems (`systems.py`) on data (`sources.py`), each fitted
once and kept. What the paper says is in `paper.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hgplvm._reproduce import figures, tables
from hgplvm._reproduce.parts import FULL, QUICK, Context, Part, Scale
from hgplvm._reproduce.report import Section, as_text, write_numbers, write_report
from hgplvm._reproduce.runs import run_all
from hgplvm._reproduce.sources import Source

__all__ = ["FULL", "PARTS", "QUICK", "Scale", "Source", "as_text", "reproduce"]

PARTS = {
    part.name: part
    for part in (
        tables.TABLE_1,
        tables.TABLE_2,
        figures.PRIOR,
        figures.TREES,
        figures.LENGTH_SCALES,
        figures.PAUL,
        figures.SPIRAL,
        figures.MYELOID,
    )
}

TITLE = "Hyperboloid GPLVM for Discovering Continuous Hierarchies: a reproduction"


def reproduce(
    out: Path,
    parts: Iterable[str] | None = None,
    *,
    scale: Scale = FULL,
    source: Source | None = None,
    jobs: int = 1,
) -> Sequence[Section]:
    """Run parts of the paper and write figures, numbers and the report.

    Parameters
    ----------
    out : Path
        Folder for ``report.html``, ``runs.csv``, ``numbers.json``, the figures, and ``runs/``,
        where results are kept so that the same command goes on where it was interrupted.
    parts : iterable of str, optional
        Names in `PARTS`; all by default.
    scale : Scale, default=FULL
        How many repeats.
    source : Source, optional
        Where data come from.
    jobs : int, default=1
        Processes, with one thread each.

    Returns
    -------
    list of Section
    """
    chosen: list[Part] = [PARTS[name] for name in parts] if parts else list(PARTS.values())
    source = source or Source()
    out.mkdir(parents=True, exist_ok=True)
    tasks = [task for part in chosen for task in part.tasks(scale)]
    results = run_all(tasks, source, out / "runs", jobs=jobs)
    context = Context(results, source, scale, out)
    sections = [part.section(context) for part in chosen]
    write_numbers(results, sections, out)
    lead = (
        f"{source.describe()} Up to {scale.runs} runs of each system, {scale.paul_runs} on the "
        "cells of Paul et al. Every run is a line of runs.csv, every cell of a table an entry of "
        "numbers.json."
    )
    write_report(sections, out / "report.html", TITLE, lead)
    return sections
