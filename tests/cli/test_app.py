"""The app: version, help, completion, and words that it does not know."""

import ast
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from hgplvm.cli import _outputs, _rows, app
from hgplvm.cli._app import counted
from tests.cli.command import COMMAND, ENVIRONMENT, inside, refuse, run, succeed

COMMANDS = [command.callback.__name__ for command in app.registered_commands]


def test_there_are_the_commands_that_the_tests_know():
    assert sorted(COMMANDS) == sorted(
        [
            "benchmark",
            "curvature",
            "decode",
            "demo",
            "fit",
            "metrics",
            "plot",
            "reproduce",
            "transform",
        ]
    )


def test_the_module_is_the_command_too(tmp_path):
    done = run("--version", cwd=tmp_path, command=[sys.executable, "-m", "hgplvm"])
    assert done.stdout == f"hgplvm {version('hgplvm')}\n"
    assert done.stdout == succeed("--version", cwd=tmp_path).stdout
    module = run("ft", cwd=tmp_path, command=[sys.executable, "-m", "hgplvm"])
    assert module.stderr == run("ft", cwd=tmp_path).stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(tmp_path, command):
    text = " ".join(succeed(command, "--help", cwd=tmp_path).stdout.split())
    assert f"Example: hgplvm {command} " in text


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_the_commands(tmp_path, arguments):
    text = succeed(*arguments, cwd=tmp_path).stdout
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("words", [("-h",), ("fit", "-h")])
def test_help_has_a_short_name(words):
    assert inside(*words).stdout == inside(*words[:-1], "--help").stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="uses a device of Linux")
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("fit", "--help"),
        ("--version",),
        ("fit", "cells.csv"),
        ("metrics", "cells.csv", "p.csv"),
    ],
)
def test_words_that_cannot_be_printed_are_an_error(folder, words):
    (folder / "p.csv").write_text("x,y\n" + "".join(f"0.{i + 10},0\n" for i in range(60)))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=folder,
            env={**ENVIRONMENT, "PYTHONUNBUFFERED": ""},  # it would drop what fails by itself
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    says = "hgplvm: cannot write to the standard output: No space left on device.\n"
    assert done.stderr == says
    assert done.returncode == 2
    assert sorted(path.name for path in folder.iterdir()) == ["cells.csv", "p.csv"]


def test_one_is_no_plural():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


@pytest.mark.parametrize("module", [_rows, _outputs])
def test_what_others_import_is_public(module):
    imported = set()
    for path in Path(module.__file__).parent.glob("*.py"):
        froms = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        imported |= {a.name for n in froms if n.module == module.__name__ for a in n.names}
    assert imported
    assert imported <= set(module.__all__)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown(tmp_path, shell):
    # the shell is found from the processes above, of which a test may have none
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = run("--show-completion", shell, cwd=tmp_path, **named)
    assert done.returncode == 0, done.stderr
    assert "_HGPLVM_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hgplvm re", ["reproduce"]),
        ("hgplvm fit --mo", ["--model"]),
        ("hgplvm fit --model ba", ["bayesian"]),
    ],
)
def test_words_are_completed(tmp_path, words, found):
    done = run(
        cwd=tmp_path,
        _HGPLVM_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert done.stdout.split() == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ft"], ["No such command 'ft'", "See hgplvm --help."]),
        (["--nope"], ["No such option: --nope"]),
        (["fit"], ["Missing argument", "See hgplvm fit --help."]),
        (["fit", "a.csv", "b.csv"], ["unexpected extra argument", "(b.csv)"]),
        (["fit", "a.csv", "--nope"], ["No such option: --nope"]),
        (["fit", "a.csv", "--out"], ["--out", "requires an argument"]),
        (["fit", "a.csv", "--model", "best"], ["--model': 'best' is not one of", "'vecchia'"]),
        (["fit", "a.csv", "--max-iter", "many"], ["--max-iter", "integer"]),
        (["fit", "a.csv", "--max-iter", "0"], ["--max-iter"]),
        (["fit", "a.csv", "--seed", "-1"], ["--seed"]),
        (["transform", "m.hgplvm"], ["Missing argument", "See hgplvm transform --help."]),
        (["decode", "m.hgplvm"], ["Missing argument"]),
        (["plot", "a.csv", "--kind", "pie"], ["--kind", "'pie' is not one of"]),
        (["metrics", "a.csv", "b.csv", "--neighbors", "0"], ["--neighbors"]),
        (["demo", "--depth", "0"], ["--depth"]),
        (["demo", "--seed", "x"], ["--seed"]),
        (["demo", "--seed", "5000000000"], ["--seed"]),
    ],
)
def test_wrong_words_are_said_in_a_line(tmp_path, arguments, says):
    done = refuse(*arguments, cwd=tmp_path, says=says)
    assert done.stdout == ""
    assert not any("\u2500" <= letter <= "\u257f" for letter in done.stderr)  # boxes


DEVICE = (
    "hgplvm: --device must be 'auto', 'cpu', 'cuda' or another torch device. Got 'abacus' "
    "instead.\n"
)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["fit", "a.csv", "--bogus"],
            "hgplvm: No such option: --bogus. See hgplvm fit --help.\n",
        ),
        (
            ["fit", "a.csv", "--moddel", "exact"],
            "hgplvm: No such option: --moddel. Did you mean --model? See hgplvm fit --help.\n",
        ),
        (
            ["fit", "a.csv", "--device", "abacus"],
            DEVICE,
        ),
        (
            ["fit", "a.csv", "--root", "0", "--resume", "a.csv", "--max-iter", "1"],
            "hgplvm: a.csv would be read and written, or written twice; rename one.\n",
        ),
    ],
)
def test_errors_are_in_the_words_of_the_command_line(tmp_path, arguments, line):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n5,7\n")
    done = run(*arguments, "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, line)


@pytest.mark.parametrize(
    "command", ["fit", "transform", "decode", "plot", "curvature", "metrics", "reproduce"]
)
def test_flags_have_no_type(command):
    assert "<bool>" not in inside(command, "--help").stdout
