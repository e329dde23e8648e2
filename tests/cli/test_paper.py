"""The installed command, in a process of its own."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [str(Path(sys.executable).with_name("hgplvm"))]


def run(*arguments, cwd, command=COMMAND):
    return subprocess.run(
        [*command, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )


def test_demo_prints_the_table_and_writes_its_files(tmp_path):
    done = run("demo", "--depth", "4", "--seed", "0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    rows = {line[:20].strip(): line[20:].split() for line in done.stdout.splitlines()}
    ours = float(rows["hgplvm (this run)"][0])
    assert rows["hGP-LVM, the paper"][0] == "0.816"
    assert ours > 0.816
    assert ours > float(rows["PCA"][0])
    folder = tmp_path / "hgplvm-demo"
    assert sorted(path.name for path in folder.iterdir()) == ["embedding.csv", "poincare.png"]
    with (folder / "embedding.csv").open() as file:
        points = list(csv.DictReader(file))
    assert len(points) == 300
    assert all(float(p["x"]) ** 2 + float(p["y"]) ** 2 < 1 for p in points)
    assert (folder / "poincare.png").read_bytes().startswith(b"\x89PNG")


def test_the_module_is_the_command_too(tmp_path):
    done = run("--version", cwd=tmp_path, command=[sys.executable, "-m", "hgplvm"])
    assert done.stdout.startswith("hgplvm ")
    assert done.stdout == run("--version", cwd=tmp_path).stdout


def test_help_has_an_example(tmp_path):
    done = run("demo", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "Example: hgplvm demo" in done.stdout


def test_an_output_that_is_a_file(tmp_path):
    (tmp_path / "taken").write_text("mine")
    done = run("demo", "--out", "taken", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "hgplvm: --out taken is a file; name a folder that exists or that can be made.\n"
    )
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="uses a path that exists on POSIX systems")
def test_an_output_that_cannot_be_made(tmp_path):
    done = run("demo", "--depth", "2", "--out", "/dev/null/demo", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert "name another folder with --out" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--depth", "0"),
        ("demo", "--seed", "x"),
        ("demo", "--seed", "5000000000"),
        ("demo", "--out", "a" * 300),
        ("fit",),
    ],
)
def test_bad_usage(tmp_path, arguments):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_reproduce_writes_the_parts_that_are_asked_for(tmp_path):
    done = run("reproduce", "table1", "prior", "--out", "paper", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["#", "samples", "300", "620", "1260", "as", "in", "the", "paper"] in lines
    assert ["#", "dimensions", "15", "31", "63", "as", "in", "the", "paper"] in lines
    names = ["numbers.json", "prior.png", "prior.svg", "report.html", "runs", "runs.csv"]
    assert sorted(path.name for path in (tmp_path / "paper").iterdir()) == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table3"], "there is no part 'table3'; choose from table1, table2, prior, trees,"),
        (["--data-dir", "nowhere"], "--data-dir nowhere is no folder"),
        (["--out", "taken"], "--out taken is a file"),
        (["--out", "taken/below"], "cannot write to taken/below"),
    ],
)
def test_reproduce_says_in_a_line_what_is_wrong(tmp_path, arguments, message):
    (tmp_path / "taken").write_text("mine")
    done = run("reproduce", "table1", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (signal.SIGINT, 130, "Interrupted; give the same command again to go on."),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_an_interrupted_reproduction_leaves_nothing_behind(tmp_path, sent, code, said):
    command = [*COMMAND, "reproduce", "table2", "--quick", "--jobs", "2", "--out", "paper"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (tmp_path / "paper" / "runs").exists():
            time.sleep(0.1)
        time.sleep(2.0)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split() if children.exists() else []
        process.send_signal(sent)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert said in errors
    assert not any(_is_alive(int(worker)) for worker in workers)
    assert "Traceback" not in errors
    assert not (tmp_path / "paper" / "report.html").exists()


def _is_alive(process):
    for _ in range(50):  # the tracker of shared resources ends a moment later
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True
