"""The command line: reads what the user wants, says in one line what is wrong with it."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    name="hgplvm",
    help="Continuous hierarchies in high-dimensional data, on the Poincaré disk.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hgplvm {version('hgplvm')}")
        raise typer.Exit


def _fail(message: str) -> NoReturn:
    """One line on stderr, exit code 2."""
    typer.echo(f"hgplvm: {message}", err=True)
    raise typer.Exit(2)


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for embedding.csv and poincare.png.")] = Path(
        "hgplvm-demo"
    ),
    depth: Annotated[int, typer.Option(min=2, max=7, help="Depth of the tree.")] = 4,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of data and fit.")] = 0,
) -> None:
    """Embed a noisy binary tree, print how well, and draw it.

    Example: hgplvm demo --out my-demo
    """
    from hgplvm import _demo

    try:
        _check_folder(out)
        out.mkdir(parents=True, exist_ok=True)
        table = _demo.run(depth, out, seed)
    except OSError as error:
        _fail(f"cannot write to {out}: {error.strerror}; name another folder with --out.")
    typer.echo(table)
    typer.echo(f"\nWrote {out / 'embedding.csv'} and {out / 'poincare.png'}.")


@app.command()
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
    out: Annotated[Path, typer.Option(help="Folder for report, figures, numbers and runs.")] = Path(
        "hgplvm-reproduce"
    ),
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
    from hgplvm import reproduce as paper

    if unknown := [part for part in parts or [] if part not in paper.PARTS]:
        _fail(f"there is no part {unknown[0]!r}; choose from {', '.join(paper.PARTS)}.")
    if data_dir is not None and not data_dir.is_dir():
        _fail(f"--data-dir {data_dir} is no folder; name the one that holds the arrays.")
    _check_folder(out)
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
        _fail(str(error))
    except OSError as error:
        _fail(f"cannot write to {out}: {error.strerror or error}; name another folder with --out.")
    for section in sections:
        typer.echo(paper.as_text(section) + "\n")
    typer.echo(f"Wrote {out / 'report.html'}, with figures and numbers beside it.")


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        _fail(f"--out {out} is a file; name a folder that exists or that can be made.")


def main() -> None:
    """Entry point of the ``hgplvm`` command."""
    app(prog_name="hgplvm" if sys.argv[0].endswith("__main__.py") else None)
