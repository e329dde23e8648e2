"""Runs: what has to be fitted, fitted once, and kept.

A run is a system on data with a seed. Its result is kept in a file named by a hash of all that it
depends on, so that what was interrupted goes on where it stopped, and nothing is fitted twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from hgplvm import _storage as storage
from hgplvm import metrics
from hgplvm._progress import progress
from hgplvm._reproduce.sources import Rows, Source, UnavailableError
from hgplvm._reproduce.systems import SYSTEMS, Embedded
from hgplvm._typing import Array
from hgplvm.baselines import PEERS
from hgplvm.errors import FitInterruptedWarning

__all__ = ["Result", "Results", "Task", "run_all"]

# raise it when a kept result can no longer be what a fit would give
CACHE_VERSION = 1
# neighbours of trustworthiness and continuity, and of the accuracy on labels, as in the paper
NEAR, VOTERS = 3, 5
# trustworthiness and continuity, which the paper gives for small data, are not taken above
MOST_ROWS_FOR_RANKS = 2000


@dataclass(frozen=True)
class Task:
    """One run.

    Parameters
    ----------
    system, data : str
        What runs, on what.
    seed : int
        Seed of the fit.
    options : tuple of pairs
        Further settings of the system.
    steps : int or None
        Steps at most, for trials; peers take none.
    """

    system: str
    data: str
    seed: int = 0
    options: tuple[tuple[str, Any], ...] = ()
    steps: int | None = None

    def key(self, digest: str) -> str:
        """Hash of everything that the result depends on, with that of the data."""
        whole = [CACHE_VERSION, version("hgplvm"), self.system, self.seed, self.options]
        whole += [self.steps, digest]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:24]

    def __str__(self) -> str:
        return f"{self.system} on {self.data}"


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave: points, scores and seconds, or why it gave none."""

    task: Task
    status: str = "done"
    metric: str = "euclidean"
    points: Array | None = None
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = float("nan")

    @property
    def done(self) -> bool:
        """Whether there is an embedding."""
        return self.status == "done"


class Results:
    """Results of many runs, to be asked for by system and data."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._all = list(results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._all)

    def of(self, system: str, data: str, **options: Any) -> list[Result]:
        """Return runs of a system on data with these options, by seed."""
        found = [
            result
            for result in self._all
            if (result.task.system, result.task.data) == (system, data)
            and dict(result.task.options) == options
        ]
        return sorted(found, key=lambda result: result.task.seed)

    def scores(self, system: str, data: str, score: str, **options: Any) -> Array:
        """One score of all runs that have it [n]."""
        found = self.of(system, data, **options)
        return np.array([r.scores[score] for r in found if score in r.scores])

    def points(self, system: str, data: str, **options: Any) -> Result | None:
        """Return the first run with an embedding."""
        return next((r for r in self.of(system, data, **options) if r.done), None)

    def status(self, system: str, data: str, **options: Any) -> str:
        """Return why there are no scores, or "" where there are some."""
        found = self.of(system, data, **options)
        if any(result.done for result in found):
            return ""
        return found[0].status if found else "not run"


def run_all(tasks: Iterable[Task], source: Source, folder: Path, *, jobs: int = 1) -> Results:
    """Run what is not kept already, with a progress bar.

    Parameters
    ----------
    tasks : iterable of Task
        What to run; twice the same is run once.
    source : Source
        Where the data come from.
    folder : Path
        Where results are kept.
    jobs : int
        Processes, with one thread each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results, to_do = [], []
    for task in dict.fromkeys(tasks):
        kept = _kept(task, source, folder)
        if kept is None:
            to_do.append(task)
        else:
            results.append(kept)
    # what takes longest first, so that no process is left with it at the end
    to_do.sort(key=lambda task: -_weight(task))
    total = len(results) + len(to_do)
    with progress(total, what="runs", verbose=1, initial=len(results), unit="run") as bar:
        for result in _computed(to_do, source, folder, jobs):
            bar.set_postfix_str(str(result.task), refresh=False)
            bar.update()
            results.append(result)
    return Results(results)


def _weight(task: Task) -> float:
    size = {"Paul": 60.0, "SBT-6": 6.0, "SBT-5": 2.0}.get(task.data, 1.0)
    slow = 10.0 if task.system.startswith("GPy") else 2.0 if task.system == "PoincaréMaps" else 1.0
    return size * slow


def _computed(tasks: list[Task], source: Source, folder: Path, jobs: int) -> Iterator[Result]:
    if jobs == 1:
        before = torch.get_num_threads()
        try:
            with threadpool_limits(1):
                torch.set_num_threads(1)
                for task in tasks:
                    yield compute(task, source, folder)
        finally:
            torch.set_num_threads(before)
        return
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_become_worker
    )
    futures: list[Future[Result]] = []
    try:
        futures += [pool.submit(compute, task, source, folder) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
        pool.shutdown()
    except BrokenProcessPool:
        raise RuntimeError(
            "A process was killed, most likely because memory ran out; run the same command again "
            "with --jobs 1: what is done is kept."
        ) from None
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # a fit that nobody waits for
        pool.shutdown(cancel_futures=True)


def _become_worker() -> None:
    # UMAP would wake a second pool of threads that slows all that comes after it
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")
    # Ctrl-C reaches every process: a fit would take it as a wish for its best state so far
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threadpool_limits(1)


def compute(task: Task, source: Source, folder: Path) -> Result:
    """Run a task and keep its result; what fails is a result that says so, and is not kept."""
    try:
        rows = source.load(task.data)
    except UnavailableError as error:
        return Result(task, f"no data: {error}")
    system = SYSTEMS[task.system]
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", FitInterruptedWarning)
            embedded = system.run(rows.data, task.seed, **_settings(task))
            seconds = time.perf_counter() - begun
            found = scores(rows, embedded)
    except FitInterruptedWarning:
        raise KeyboardInterrupt from None  # half a fit is no result
    except ImportError as error:
        return Result(task, f"not installed: {error.name or error}")
    except Exception as error:  # a system that fails is a row that says so
        said = (str(error).splitlines() or [""])[0]
        return Result(task, f"failed: {type(error).__name__}: {said:.120}")
    result = Result(task, "done", embedded.metric, embedded.points, found, seconds)
    _keep(result, folder / f"{task.key(rows.digest)}.run")
    return result


def _settings(task: Task) -> dict[str, Any]:
    few = (
        {} if task.steps is None or task.system.split(",")[0] in PEERS else {"max_iter": task.steps}
    )
    return few | dict(task.options)


def scores(rows: Rows, embedded: Embedded) -> dict[str, float]:
    """Everything that the paper measures: on coordinates as they are drawn, and in the geometry.

    Distances between the points of a hyperbolic embedding are hyperbolic in the distance
    correlation, as in the paper; in the others they are Euclidean ones of the disk, also as in the
    paper, and hyperbolic under names that end so.
    """
    found = {}
    points = embedded.points
    if rows.truth is not None:
        found["distance_correlation"] = metrics.distance_correlation(
            rows.truth, points, metric=embedded.metric
        )
    geometries = {"euclidean": ""} | ({"poincare": "_hyperbolic"} if _hyperbolic(embedded) else {})
    for metric, suffix in geometries.items():
        if len(points) <= MOST_ROWS_FOR_RANKS:
            for name in ("trustworthiness", "continuity"):
                score = getattr(metrics, name)(rows.data, points, n_neighbors=NEAR, metric=metric)
                found[name + suffix] = score
        found[f"shepard_goodness{suffix}"] = metrics.shepard_goodness(
            rows.data, points, metric=metric
        )
        found[f"knn_accuracy{suffix}"] = metrics.knn_accuracy(
            points, rows.labels, n_neighbors=VOTERS, metric=metric
        )
    if _hyperbolic(embedded):
        # hyperbolic distance of the furthest point from the origin
        found["radius"] = float(2.0 * np.arctanh(np.linalg.norm(points, axis=1).max()))
    if embedded.reconstruction is not None:
        found["reconstruction_error"] = metrics.reconstruction_error(
            rows.data, embedded.reconstruction
        )
    return found


def _hyperbolic(embedded: Embedded) -> bool:
    return embedded.metric == "poincare"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Other packages print what they do."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _keep(result: Result, path: Path) -> None:
    tree = {
        "points": result.points,
        "metric": result.metric,
        "scores": result.scores,
        "seconds": result.seconds,
    }
    storage.write(path, "run", tree)


def _kept(task: Task, source: Source, folder: Path) -> Result | None:
    try:
        path = folder / f"{task.key(source.load(task.data).digest)}.run"
    except UnavailableError:
        return None
    if not path.is_file():
        return None
    try:
        tree = storage.read(path, "run")
    except ValueError:  # damaged, or of another version: run it again
        os.remove(path)
        return None
    return Result(task, "done", tree["metric"], tree["points"], tree["scores"], tree["seconds"])
