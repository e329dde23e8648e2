"""The installed command, in a process of its own."""

import csv
import os
import subprocess
import sys
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
