"""Progress bars and messages: seen by those who look, and by nobody else."""

import io
import logging
import subprocess
import sys

import numpy as np
import pytest
import tqdm.notebook
import tqdm.std

import hgplvm
from hgplvm import _progress as bars
from hgplvm._progress import progress

Y = np.random.default_rng(0).normal(size=(40, 5))
CHEAP = {"init": "pca", "length_scale": 2.0, "noise_floor": 1e-2, "max_iter": 3, "random_state": 0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def bar_on(monkeypatch):
    """Return what is written to a standard error, and whether the bar was off."""

    def run(stream, kind=tqdm.std.tqdm, **options):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(bars.auto, "tqdm", kind)
        with progress(5, what="steps", **options) as bar:
            off = bar.disable
            for _ in range(5):
                bar.update()
        return stream.getvalue(), off

    return run


def test_a_terminal_shows_the_bar(bar_on):
    written, off = bar_on(Terminal(), verbose=1)
    assert "steps" in written
    assert "5/5" in written or "0/5" in written
    assert not off


def test_a_pipe_shows_nothing(bar_on):
    written, off = bar_on(io.StringIO(), verbose=1)
    assert written == ""
    assert off


@pytest.mark.parametrize("verbose", [0, False])
def test_nothing_is_shown_unless_asked(bar_on, verbose):
    assert bar_on(Terminal(), verbose=verbose)[0] == ""


def test_a_bar_leaves_no_trace(bar_on):
    written, _ = bar_on(Terminal(), verbose=1)
    assert written.endswith("\r")
    assert "\n" not in written


class InNotebook(tqdm.notebook.tqdm):
    """A notebook's bar that needs no notebook."""

    made = None

    def __init__(self, **options):
        type(self).made = options
        self.disable = options["disable"]

    def update(self, n=1):
        return None

    def close(self):
        return None

    def __exit__(self, *_):
        return None


@pytest.mark.parametrize(("verbose", "disable"), [(1, False), (2, False), (0, True)])
def test_notebooks_show_the_bar_without_a_terminal(bar_on, verbose, disable):
    written, _ = bar_on(io.StringIO(), InNotebook, verbose=verbose, initial=2, unit="row")
    assert InNotebook.made == {
        "total": 5,
        "initial": 2,
        "desc": "steps",
        "unit": "row",
        "leave": False,
        "disable": disable,
    }
    assert written == ""


@pytest.mark.parametrize("verbose", [0, 1])
def test_programs_without_a_standard_error(monkeypatch, verbose):
    monkeypatch.setattr(sys, "stderr", None)
    with progress(5, what="steps", verbose=verbose) as bar:
        bar.update()
    assert bar.disable


def test_a_fit_in_a_terminal_tells_its_objective(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(bars.auto, "tqdm", tqdm.std.tqdm)
    hgplvm.SparseHGPLVM(n_inducing=10, verbose=1, **CHEAP).fit(Y)
    assert "fit:" in terminal.getvalue()
    terminal.truncate(0)
    hgplvm.SparseHGPLVM(n_inducing=10, **CHEAP).fit(Y)
    assert "fit:" not in terminal.getvalue()


SILENT = """
import numpy as np, hgplvm
Y = np.random.default_rng(0).normal(size=(40, 5))
options = dict(init="pca", length_scale=2.0, noise_floor=1e-2, max_iter=3, verbose=1)
for model in (
    hgplvm.HGPLVM(**options),
    hgplvm.SparseHGPLVM(n_inducing=10, **options),
    hgplvm.BayesianHGPLVM(n_inducing=10, **options),
    hgplvm.VecchiaHGPLVM(n_neighbors=5, **options),
    hgplvm.GPLVM(**options),
):
    model.fit(Y)
    model.transform(Y[:3] + 0.1)
"""


def test_fits_print_nothing_into_a_pipe():
    done = subprocess.run(
        [sys.executable, "-c", SILENT], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("kind", ["HGPLVM", "SparseHGPLVM", "BayesianHGPLVM", "VecchiaHGPLVM"])
def test_the_reason_to_stop_is_logged(kind, caplog, capfd):
    with caplog.at_level(logging.INFO, "hgplvm"):
        model = getattr(hgplvm, kind)(**CHEAP)
        if hasattr(model, "n_inducing") and kind != "VecchiaHGPLVM":
            model.set_params(n_inducing=10)
        model.fit(Y)
    messages = [record.getMessage() for record in caplog.records]
    assert f"{kind}: {model.stop_reason_}" in messages
    assert "max_iter=3" in model.stop_reason_
    assert any(message.startswith(f"{kind} starts at length scale") for message in messages)
    assert {record.name.split(".")[0] for record in caplog.records} == {"hgplvm"}
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert capfd.readouterr() == ("", "")


def test_nothing_is_logged_where_a_program_wants_warnings_only(caplog):
    with caplog.at_level(logging.WARNING, "hgplvm"):
        hgplvm.SparseHGPLVM(n_inducing=10, **CHEAP).fit(Y)
    assert not caplog.records


HANDLERS = """
import logging
before = (list(logging.root.handlers), logging.root.level, logging.getLogger().disabled)
import hgplvm, hgplvm.tl, hgplvm.pl, hgplvm.baselines
logger = logging.getLogger("hgplvm")
assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
assert logger.propagate and logger.level == logging.NOTSET
assert (list(logging.root.handlers), logging.root.level, logging.getLogger().disabled) == before
logging.getLogger("hgplvm.tl").warning("nobody listens")
"""


def test_the_library_adds_a_null_handler_and_nothing_to_the_root():
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
