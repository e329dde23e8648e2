"""The command line: reads what the user wants, says in one line what is wrong with it."""

from __future__ import annotations

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
        if out.exists() and not out.is_dir():
            _fail(f"--out {out} is a file; name a folder that exists or that can be made.")
        out.mkdir(parents=True, exist_ok=True)
        table = _demo.run(depth, out, seed)
    except OSError as error:
        _fail(f"cannot write to {out}: {error.strerror}; name another folder with --out.")
    typer.echo(table)
    typer.echo(f"\nWrote {out / 'embedding.csv'} and {out / 'poincare.png'}.")


def main() -> None:
    """Entry point of the ``hgplvm`` command."""
    app(prog_name="hgplvm" if sys.argv[0].endswith("__main__.py") else None)
