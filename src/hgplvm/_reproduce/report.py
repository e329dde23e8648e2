"""The report: one page of HTML with everything in it, and the numbers as CSV and JSON."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hgplvm import _files as files
from hgplvm._reproduce.runs import Results

__all__ = ["Claim", "Picture", "Section", "Table", "as_text", "write_numbers", "write_report"]


@dataclass(frozen=True)
class Table:
    """Cells as text, row by row, the first of which names the row."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure that was written as `stem`.png and `stem`.svg."""

    stem: str
    caption: str


@dataclass(frozen=True)
class Claim:
    """Something that the paper says in words, and whether it is so here."""

    text: str
    measured: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """Say it in a word."""
        return {True: "yes", False: "no", None: "not measured"}[self.holds]


@dataclass(frozen=True)
class Section:
    """What one table or figure of the paper has become."""

    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    pictures: tuple[Picture, ...] = ()
    # cells for numbers.json
    cells: tuple[dict[str, Any], ...] = field(default=())


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
caption { text-align: left; color: #555; padding-bottom: .3rem; }
th, td { text-align: right; padding: .25rem .45rem; border-bottom: 1px solid #ddd; font-size: 13px;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th.text, td.text { text-align: left; white-space: normal; }
img { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; } figcaption { color: #555; }
"""


def write_report(sections: Iterable[Section], path: Path, title: str, lead: str) -> None:
    """Write one page with its pictures inside."""
    body = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(lead)}</p>"]
    for section in sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body += [f"<p>{html.escape(part)}</p>" for part in section.text.split("\n\n") if part]
        body += map(_html_table, section.tables)
        if section.claims:
            body.append(_html_claims(section.claims))
        body += [_html_picture(picture, path.parent) for picture in section.pictures]
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )
    files.write_text(path, page)


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{html.escape(table.caption)}</caption>" if table.caption else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html_claims(claims: tuple[Claim, ...]) -> str:
    rows = "".join(
        f'<tr><td class="text">{html.escape(claim.text)}</td>'
        f'<td class="text">{html.escape(claim.measured)}</td><td>{claim.verdict}</td></tr>'
        for claim in claims
    )
    return (
        '<table><thead><tr><th class="text">The paper says</th><th class="text">Here</th>'
        "<th>So?</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _html_picture(picture: Picture, folder: Path) -> str:
    inside = base64.b64encode((folder / f"{picture.stem}.png").read_bytes()).decode()
    caption = html.escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{inside}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def as_text(section: Section) -> str:
    """Tables and claims for a terminal."""
    lines = [section.title]
    for table in section.tables:
        rows = [table.header, *table.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(table.header))]
        lines.append("")
        for row in rows:
            first, *rest = (
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join([first, *rest]).rstrip())
    if section.claims:
        lines.append("")
        lines += [f"- {c.text}: {c.verdict} ({c.measured})" for c in section.claims]
    return "\n".join(lines)


def write_numbers(results: Results, sections: Iterable[Section], folder: Path) -> None:
    """Every run as a line of runs.csv; every cell with its verdict in numbers.json."""
    runs = list(results)
    names = sorted({name for result in runs for name in result.scores})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["data", "system", "options", "seed", "status", "seconds", *names])
    for result in sorted(runs, key=lambda r: (r.task.data, r.task.system, r.task.seed)):
        task = result.task
        options = " ".join(f"{name}={value}" for name, value in task.options)
        seconds = "" if math.isnan(result.seconds) else f"{result.seconds:.2f}"
        cells = [f"{result.scores[name]:.6f}" if name in result.scores else "" for name in names]
        writer.writerow(
            [task.data, task.system, options, task.seed, result.status, seconds, *cells]
        )
    files.write_text(folder / "runs.csv", text.getvalue())
    whole = [
        {
            "title": section.title,
            "cells": list(section.cells),
            "claims": [asdict(claim) for claim in section.claims],
        }
        for section in sections
    ]
    files.write_text(folder / "numbers.json", json.dumps(whole, indent=1, ensure_ascii=False))
