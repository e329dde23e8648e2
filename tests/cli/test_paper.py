"""``hgplvm demo``, ``hgplvm benchmark`` and ``hgplvm reproduce``: data of our own."""

import csv
import os
import signal
import time
from pathlib import Path

import pytest

from tests.cli.command import finish, refuse, run, start, succeed


def test_demo_prints_the_table_and_writes_its_files(tmp_path):
    done = succeed("demo", "--depth", "4", "--seed", "0", cwd=tmp_path)
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


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("taken", ["--out taken is a file; name a folder that exists or that can be made."]),
        ("taken/below", ["cannot write to taken/below", "name another folder with --out"]),
        ("a" * 300, ["cannot write to aaa", "name another folder with --out"]),
    ],
)
def test_an_output_that_cannot_be_made(tmp_path, out, says):
    (tmp_path / "taken").write_text("mine")
    refuse("demo", "--depth", "2", "--out", out, cwd=tmp_path, says=says)


def test_benchmark_prints_a_line_for_each_method(tmp_path):
    words = ["--rows", "50", "--columns", "4", "--method", "PCA", "--method", "pca"]
    done = succeed("benchmark", *words, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0] == "50 rows, 4 columns"
    assert lines[1].split() == ["seconds", "ratio", "tree", "distances"]
    name, seconds, ratio, quality = lines[2].split()
    assert (name, ratio) == ("PCA", "1")
    assert float(seconds) >= 0
    assert -1 <= float(quality) <= 1
    assert list(tmp_path.iterdir()) == []


def test_a_method_that_is_not_known_is_refused(tmp_path):
    says = ["there is no method 'TSNE2'", "exact, sparse", "PCA"]
    refuse("benchmark", "--method", "TSNE2", cwd=tmp_path, says=says)


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
    refuse("reproduce", "table1", *arguments, cwd=tmp_path, says=[message])


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (signal.SIGINT, 130, "Interrupted; give the same command again to go on."),
        pytest.param(signal.SIGTERM, 143, "", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_reproduction_leaves_nothing_behind(tmp_path, sent, code, said):
    words = ["reproduce", "table2", "--quick", "--jobs", "2", "--out", "paper"]
    process = start(*words, cwd=tmp_path)
    while not (tmp_path / "paper" / "runs").exists():
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(2.0)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = children.read_text().split() if children.exists() else []
    process.send_signal(sent)
    done = finish(process)
    assert done.returncode == code
    assert said in done.stderr
    assert not any(_is_alive(int(worker)) for worker in workers)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "paper" / "report.html").exists()


def _is_alive(process):
    for _ in range(50):  # the tracker of shared resources ends a moment later
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True
