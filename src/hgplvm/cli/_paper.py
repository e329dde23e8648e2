"""``hgplvm demo``, ``hgplvm reproduce`` and ``hgplvm benchmark``: data of our own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from hgplvm.cli._app import Command, app, fail, guarded, say, threads_limited

__all__ = ["benchmark", "demo", "reproduce"]


@app.command(cls=Command)
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for embedding.csv and poincare.png.")
    ] = Path("hgplvm-demo"),
    depth: Annotated[int, typer.Option(min=2, max=7, help="Depth of the tree.")] = 6,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of data and fit.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use at most.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Embed a noisy binary tree, print how well, and draw it.

    Example: hgplvm demo --out my-demo
    """
    _check_folder(out)
    with guarded(quiet=quiet), threads_limited(threads):
        try:
            out.mkdir(parents=True, exist_ok=True)
            from hgplvm import _demo

            table = _demo.run(depth, out, seed, verbose=int(not quiet))
        except OSError as error:
            fail(f"cannot write to {out}: {error.strerror}; name another folder with --out.")
    if not quiet:
        typer.echo(table)
        typer.echo(f"\nWrote {out / 'embedding.csv'} and {out / 'poincare.png'}.")


@app.command(cls=Command)
def benchmark(
    rows: Annotated[int, typer.Option(min=50, max=10**7, help="Rows to embed.")] = 1000,
    columns: Annotated[int, typer.Option(min=2, max=10**5, help="Columns of the data.")] = 30,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="A model (exact, sparse, bayesian, vecchia) or a peer (PCA, UMAP, …); may be "
            "given several times. By default all that fit the size and are installed.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of data and fits.")] = 0,
) -> None:
    """Time our models against installed peers on a tree of this size, and say how good each is.

    Example: hgplvm benchmark --rows 2000 --method vecchia --method UMAP
    """
    from hgplvm import _benchmark

    with guarded():
        chosen = _benchmark.choose(methods, rows)
        for line in _benchmark.run(chosen, rows, columns, seed):
            say(line)


@app.command(cls=Command)
def reproduce(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1, table2, prior, trees, length-scales, paul, spiral, myeloid; "
            "all by default.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats: minutes instead of hours.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for report, figures, numbers and runs.")
    ] = Path("hgplvm-reproduce"),
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with the authors' arrays; by default data are generated."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Processes, with one thread each; 0 takes every core.")
    ] = 0,
) -> None:
    """Rerun the paper: its tables and figures, every system in it, and our defaults beside them.

    A run that was interrupted goes on where it stopped when the same command is given again.

    Example: hgplvm reproduce table2 --quick
    """
    if data_dir is not None and not data_dir.is_dir():
        fail(f"--data-dir {data_dir} is no folder; name the one that holds the arrays.")
    _check_folder(out)
    from hgplvm import _reproduce as paper

    if unknown := [part for part in parts or [] if part not in paper.PARTS]:
        fail(f"there is no part {unknown[0]!r}; choose from {', '.join(paper.PARTS)}.")
    # a request to end must reach the processes too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sections = paper.reproduce(
            out,
            parts,
            scale=paper.QUICK if quick else paper.FULL,
            source=paper.Source(data_dir),
            jobs=jobs or os.cpu_count() or 1,
        )
    except KeyboardInterrupt:
        typer.echo("\nInterrupted; give the same command again to go on.", err=True)
        raise typer.Exit(130) from None
    except RuntimeError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write to {out}: {error.strerror or error}; name another folder with --out.")
    for section in sections:
        typer.echo(paper.as_text(section) + "\n")
    typer.echo(f"Wrote {out / 'report.html'}, with figures and numbers beside it.")


def _check_folder(out: Path) -> None:
    if os.path.exists(out) and not os.path.isdir(out):  # those of Path raise on odd names
        fail(f"--out {out} is a file; name a folder that exists or that can be made.")
