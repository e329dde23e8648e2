"""Runs: kept, resumed, and rows that say why there is no result."""

import sys

import numpy as np
import pytest
import torch

import hgplvm
from hgplvm import metrics
from hgplvm._reproduce import runs
from hgplvm._reproduce.runs import Result, Results, Task, run_all
from hgplvm._reproduce.sources import Source, UnavailableError
from hgplvm._reproduce.systems import SYSTEMS, Embedded, System

SOURCE = Source(most_rows=40)
TASKS = [Task("PCA", "SBT-3"), Task("hGP-LVM", "SBT-3", 0, steps=2), Task("PCA", "Spiral")]


def failing(data, seed):
    raise ZeroDivisionError("nothing to\ndivide by")


def test_scores_are_those_of_metrics():
    rows = SOURCE.load("SBT-3")
    points = 0.3 * rows.data[:, :2] + 0.01 * np.arange(40)[:, None] / 40
    found = runs.scores(rows, Embedded(points, "poincare", rows.data + 0.5))
    assert found["distance_correlation"] == metrics.distance_correlation(rows.truth, points)
    assert found["trustworthiness"] == metrics.trustworthiness(rows.data, points, n_neighbors=3)
    assert found["continuity_hyperbolic"] == metrics.continuity(
        rows.data, points, n_neighbors=3, metric="poincare"
    )
    assert found["shepard_goodness"] == metrics.shepard_goodness(rows.data, points)
    assert found["shepard_goodness_hyperbolic"] == metrics.shepard_goodness(
        rows.data, points, metric="poincare"
    )
    assert found["knn_accuracy"] == metrics.knn_accuracy(points, rows.labels)
    assert found["reconstruction_error"] == pytest.approx(0.5)
    assert found["radius"] == pytest.approx(2 * np.arctanh(np.linalg.norm(points, axis=1).max()))


def test_flat_embeddings_have_no_hyperbolic_scores():
    rows = SOURCE.load("SBT-3")
    found = runs.scores(rows, Embedded(rows.data[:, :2], "euclidean"))
    assert not any(name.endswith("hyperbolic") or name == "radius" for name in found)


def test_results_are_read_again_and_nothing_is_fitted_twice(tmp_path, monkeypatch):
    first = run_all(TASKS, SOURCE, tmp_path)
    monkeypatch.setattr(runs, "compute", None)
    second = run_all([*TASKS, *TASKS], SOURCE, tmp_path)
    assert len(list(second)) == len(TASKS)
    for a in first:
        b = second.points(a.task.system, a.task.data)
        assert np.array_equal(a.points, b.points)
        assert a.scores == b.scores
        assert a.seconds == b.seconds


def test_what_was_interrupted_goes_on(tmp_path, monkeypatch):
    real, done = runs.compute, []

    def interrupted(task, *rest):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task)
        return real(task, *rest)

    monkeypatch.setattr(runs, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all(TASKS, SOURCE, tmp_path)
    before = list(done)
    done.clear()
    assert all(result.done for result in run_all(TASKS, SOURCE, tmp_path))
    assert len(done) == 1
    assert set(before) | set(done) == set(TASKS)


def test_a_fit_that_was_interrupted_is_no_result(tmp_path, monkeypatch):
    """The estimators return their best state so far; it must not pass for a whole fit."""

    def interrupting(data, seed):
        def press(state):
            raise KeyboardInterrupt

        return Embedded(hgplvm.HGPLVM(callback=press).fit_transform(data), "poincare")

    monkeypatch.setitem(SYSTEMS, "hGP-LVM", System("hGP-LVM", interrupting))
    with pytest.raises(KeyboardInterrupt):
        run_all([Task("hGP-LVM", "SBT-3")], SOURCE, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "other",
    [
        Task("PCA", "SBT-3", 1),
        Task("PCA", "SBT-3", 0, (("a", 1),)),
        Task("PCA", "SBT-3", 0, steps=2),
        Task("t-SNE", "SBT-3"),
    ],
)
def test_whatever_a_result_depends_on_is_in_its_key(other):
    assert Task("PCA", "SBT-3").key("d") != other.key("d")
    assert other.key("d") != other.key("e")
    assert other.key("d") == other.key("d")


def test_damaged_files_are_run_again(tmp_path):
    run_all(TASKS[:1], SOURCE, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    (result,) = run_all(TASKS[:1], SOURCE, tmp_path)
    assert result.done
    assert len(path.read_bytes()) > 100


def test_points_that_are_not_finite_are_a_failure(tmp_path, monkeypatch):
    lost = System("PCA", lambda data, seed: Embedded(np.full((len(data), 2), np.nan), "euclidean"))
    monkeypatch.setitem(SYSTEMS, "PCA", lost)
    (result,) = run_all(TASKS[:1], SOURCE, tmp_path)
    assert result.status.startswith("failed: ValueError: The 'P' of")
    assert "must be finite" in result.status
    assert not list(tmp_path.iterdir())


def test_one_job_has_one_thread_and_gives_the_others_back(tmp_path, monkeypatch):
    threads = []

    def watched(data, seed):
        threads.append(torch.get_num_threads())
        return Embedded(data[:, :2], "euclidean")

    monkeypatch.setitem(SYSTEMS, "PCA", System("PCA", watched))
    before = torch.get_num_threads()
    run_all(TASKS[:1], SOURCE, tmp_path)
    assert threads == [1]
    assert torch.get_num_threads() == before


def test_an_error_without_words_is_a_failure_too(tmp_path, monkeypatch):
    def silent(data, seed):
        raise AssertionError

    monkeypatch.setitem(SYSTEMS, "PCA", System("PCA", silent))
    (result,) = run_all(TASKS[:1], SOURCE, tmp_path)
    assert result.status == "failed: AssertionError: "


def test_missing_packages_and_failures_are_results_that_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    monkeypatch.setitem(SYSTEMS, "PHATE", System("PHATE", failing))
    found = run_all([Task("UMAP", "SBT-3"), Task("PHATE", "SBT-3")], SOURCE, tmp_path)
    assert found.status("UMAP", "SBT-3") == "not installed: umap"
    assert found.status("PHATE", "SBT-3") == "failed: ZeroDivisionError: nothing to"
    assert found.points("PHATE", "SBT-3") is None
    assert len(found.scores("PHATE", "SBT-3", "trustworthiness")) == 0
    assert not list(tmp_path.iterdir())


def test_data_that_are_not_there_are_a_result(tmp_path, monkeypatch):
    def load(self, name):
        raise UnavailableError("ask the authors")

    monkeypatch.setattr(Source, "load", load)
    found = run_all([Task("PCA", "Paul")], SOURCE, tmp_path)
    assert found.status("PCA", "Paul") == "no data: ask the authors"


def test_processes_give_what_one_gives(tmp_path):
    alone = run_all(TASKS, SOURCE, tmp_path / "one")
    shared = run_all(TASKS, SOURCE, tmp_path / "two", jobs=2)
    for task in TASKS:
        a, b = (found.points(task.system, task.data) for found in (alone, shared))
        assert np.allclose(a.points, b.points, atol=1e-6)
    assert len(list((tmp_path / "two").iterdir())) == len(TASKS)


def test_a_killed_process_says_what_to_do(tmp_path, monkeypatch):
    def broken(*_):
        raise runs.BrokenProcessPool

    monkeypatch.setattr(runs, "as_completed", broken)
    with pytest.raises(RuntimeError, match=r"--jobs 1"):
        run_all(TASKS[:2], SOURCE, tmp_path, jobs=2)


def test_results_are_found_by_their_options():
    tasks = [Task("A", "d", 1), Task("A", "d", 0), Task("A", "d", 0, (("k", 3),)), Task("A", "e")]
    found = Results(Result(task, scores={"s": float(i)}) for i, task in enumerate(tasks))
    assert [r.task.seed for r in found.of("A", "d")] == [0, 1]
    assert list(found.scores("A", "d", "s")) == [1.0, 0.0]
    assert list(found.scores("A", "d", "s", k=3)) == [2.0]
    assert found.status("A", "d") == ""
    assert found.status("B", "d") == "not run"
