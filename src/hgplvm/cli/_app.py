"""The app, which ends with a result or with an error of one line."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from hgplvm.cli._words import in_options, nearest_option
from hgplvm.errors import LongFitWarning

__all__ = [
    "Command",
    "app",
    "counted",
    "fail",
    "guarded",
    "main",
    "say",
    "sentence",
    "threads_limited",
    "warn",
]

# the base of all errors in a command's words; typer has it from click, and shows its heirs alone
CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

# commands as help lists them
ORDER = ("fit", "transform", "decode", "plot", "curvature", "metrics", "demo")
# what data, files and machines can bring about; torch says RuntimeError of a full or lost device
EXPECTED = (
    ArithmeticError,
    ImportError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Command(TyperCommand):
    """A command whose flags are shown without a type: they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments."""
        found = super().get_params(ctx)
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return found


class Commands(TyperGroup):
    """All commands, in the order in which a user meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        found = super().list_commands(ctx)
        return [*(name for name in ORDER if name in found), *(n for n in found if n not in ORDER)]


app = typer.Typer(
    name="hgplvm",
    cls=Commands,
    help="Continuous hierarchies in high-dimensional data, on the Poincaré disk.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hgplvm {version('hgplvm')}")
        raise typer.Exit


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


def fail(message: str) -> NoReturn:
    """One line on stderr, exit code 2."""
    typer.echo(f"hgplvm: {message}", err=True)
    raise typer.Exit(2)


def warn(message: str) -> None:
    """One line on stderr, and the command goes on."""
    typer.echo(f"hgplvm: warning: {message}", err=True)


def say(text: str) -> None:
    """Print within a command, whose other errors are of files."""
    try:
        typer.echo(text)
    except OSError as error:
        raise OSError(_unheard(error)) from None


def counted(number: int, thing: str) -> str:
    """Say how many: 1 row, 2 rows."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def sentence(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    if type(error).__name__ == "OutOfMemoryError":
        return "the GPU has too little memory; take --device cpu, or --model sparse."
    if isinstance(error, MemoryError):
        return "the data do not fit into memory; take fewer rows or columns, or --model sparse."
    text = in_options(" ".join(str(error).split())) or type(error).__name__
    return text if text.endswith((".", "!", "?", ")")) else f"{text}."


@contextlib.contextmanager
def guarded(*, quiet: bool = False) -> Iterator[None]:
    """Turn errors and warnings of a command into lines for its user."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = in_options(" ".join(str(message).split()))
        if category is not LongFitWarning:
            warn(text)
        elif not quiet:  # what is going to happen is nothing to warn of
            typer.echo(f"hgplvm: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of other packages, to their developers
        warnings.simplefilter("ignore", DeprecationWarning)
        # rows of files are matched by name before they come to a model
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show
        try:
            yield
        except KeyboardInterrupt:
            typer.echo("hgplvm: interrupted before the end.", err=True)
            raise typer.Exit(130) from None
        except (typer.Exit, typer.Abort):  # RuntimeErrors by birth
            raise
        except EXPECTED as error:
            fail(sentence(error))


@contextlib.contextmanager
def threads_limited(threads: int | None) -> Iterator[None]:
    """Use so many threads at most within a command."""
    if threads is None:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    try:
        with threadpool_limits(threads):
            torch.set_num_threads(threads)
            yield
    finally:
        torch.set_num_threads(before)


def main() -> None:
    """Entry point of the ``hgplvm`` command."""
    name = "hgplvm" if sys.argv[0].endswith("__main__.py") else None
    try:
        code = app(prog_name=name, standalone_mode=False)
    except typer.Abort:
        code = 130
    except CLICK_ERROR as error:
        code = _explain(error)
    except OSError as error:  # commands say theirs themselves: this one is of what they print
        typer.echo(f"hgplvm: {_unheard(error)}", err=True)
        code = 2
    _drop_unheard()
    sys.exit(code if isinstance(code, int) else 0)


def _unheard(error: OSError) -> str:
    return f"cannot write to the standard output: {error.strerror or error}."


def _drop_unheard() -> None:
    """Forget what could not be printed: Python would try again at its end, and say so at length."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Any) -> int:
    """Say what is wrong with a command's words."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "hgplvm"
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return 0
    typer.echo(f"hgplvm: {sentence_of(error)} See {command} --help.", err=True)
    return 2


def sentence_of(error: Any) -> str:
    """Return what an error in the command's words says, as one line."""
    if type(error).__name__ == "NoSuchOption":
        context = getattr(error, "ctx", None)
        known = [] if context is None else context.command.get_params(context)
        options = [str(name) for parameter in known for name in getattr(parameter, "opts", ())]
        near = nearest_option(str(error.option_name), options)
        meant = "" if near is None else f" Did you mean {near}?"
        return f"No such option: {error.option_name}.{meant}"
    text = " ".join(str(error.format_message()).split()).replace(": Value error, ", ": ")
    return text if text.endswith((".", "?")) else f"{text}."
