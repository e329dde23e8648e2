"""The installed command, and what is expected of it.

Most tests run it within their own process, which saves the seconds of imports; what is about
processes (signals, environments, standard streams) starts one.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

from typer.testing import CliRunner

from hgplvm.cli import app, main

COMMAND = [str(Path(sys.executable).with_name("hgplvm"))]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
LIMIT = 240  # seconds; the machines of CI are slow at times


def start(*arguments, cwd, command=COMMAND, **environment):
    return subprocess.Popen(
        [*command, *map(str, arguments)],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # where the tests run in the background, Ctrl-C is ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(process):
    with process:
        try:
            stdout, stderr = process.communicate(timeout=LIMIT)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(*arguments, cwd, command=COMMAND, **environment):
    if command is not COMMAND or environment:
        return finish(start(*arguments, cwd=cwd, command=command, **environment))
    return run_here(*arguments, cwd=cwd)


def run_here(*arguments, cwd):
    """Run a command in this process as the installed script would."""
    stdout, stderr, argv, before = io.StringIO(), io.StringIO(), sys.argv, Path.cwd()
    sys.argv = [COMMAND[0], *map(str, arguments)]
    code = 0
    try:
        os.chdir(cwd)
        # the command decides for itself what becomes of warnings
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            warnings.resetwarnings()
            for kind in (ResourceWarning, DeprecationWarning, PendingDeprecationWarning):
                warnings.simplefilter("ignore", kind)  # as Python does by default
            main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = argv
        os.chdir(before)
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def run_together(commands, cwd):
    """Run commands that do not need each other, one after the other."""
    return [run(*words, cwd=cwd) for words in commands]


def succeed(*arguments, cwd):
    """Run a command that must do what it is asked, and say nothing on stderr."""
    return check(run(*arguments, cwd=cwd))


def check(done):
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


def refuse(*arguments, cwd, says):
    """Run a command that must say in one line why not, and write nothing."""
    before = content(cwd)
    done = check_refused(run(*arguments, cwd=cwd), says)
    assert content(cwd) == before
    return done


def refuse_together(commands, cwd):
    """Run commands at the same time, each of which must be refused with the words beside it."""
    before = content(cwd)
    for done, (_, says) in zip(run_together([c for c, _ in commands], cwd), commands, strict=True):
        check_refused(done, says)
    assert content(cwd) == before


def check_refused(done, says):
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("hgplvm: ")
    missing = [words for words in says if words not in done.stderr]
    assert not missing, done.stderr
    return done


def inside(*arguments):
    """Run a command within this process and folder, which takes no seconds of imports."""
    done = CliRunner().invoke(app, [str(word) for word in arguments], catch_exceptions=False)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def content(folder):
    """All files of a folder, hidden ones included, byte by byte."""
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
