"""Threads: what is usable, and that callers keep their setting."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from hgplvm import HGPLVM, _threads


@pytest.fixture
def eight_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def quota(monkeypatch, tmp_path):
    def write(text: str) -> None:
        path = tmp_path / "cpu.max"
        path.write_text(text)
        monkeypatch.setattr(_threads, "QUOTA", path)

    return write


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
@pytest.mark.usefixtures("eight_threads")
def test_no_more_threads_than_the_process_may_run_on(quota, monkeypatch):
    quota("max 100000")
    assert _threads.usable_threads() == min(8, len(os.sched_getaffinity(0)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    assert _threads.usable_threads() == 6
    quota("250000 100000")
    assert _threads.usable_threads() == 2
    quota("50000 100000")  # half a core is still one thread
    assert _threads.usable_threads() == 1


def test_the_older_kind_of_quota_is_read(monkeypatch, tmp_path):
    paths = tmp_path / "quota", tmp_path / "period"
    monkeypatch.setattr(_threads, "QUOTA", Path("nowhere"))
    monkeypatch.setattr(_threads, "QUOTA_V1", paths)
    assert _threads._quota() == math.inf
    paths[1].write_text("100000")
    for text, cores in (("300000", 3.0), ("-1", math.inf)):
        paths[0].write_text(text)
        assert _threads._quota() == cores


@pytest.mark.usefixtures("eight_threads")
def test_a_long_operation_within_a_limit_sees_what_the_caller_allowed(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr(_threads, "_quota", lambda: math.inf)
    with _threads.one_thread():
        assert torch.get_num_threads() == 1
        with _threads.long_operation(_threads.LARGE_MATRIX):
            assert torch.get_num_threads() == 8
        with _threads.long_operation(_threads.LARGE_MATRIX - 1):
            assert torch.get_num_threads() == 1
        with _threads.threads_for_rows(_threads.MANY_ROWS):
            assert torch.get_num_threads() == 8
    assert torch.get_num_threads() == 8


@pytest.mark.usefixtures("eight_threads")
def test_a_fit_runs_on_one_thread_and_gives_the_others_back():
    seen = []
    data = np.random.default_rng(0).standard_normal((30, 4))
    model = HGPLVM(max_iter=2, callback=lambda state: seen.append(torch.get_num_threads()))
    model.fit(data)
    assert set(seen) == {1}
    assert torch.get_num_threads() == 8
    model.set_params(callback=lambda state: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(data)
    assert torch.get_num_threads() == 8


@pytest.mark.usefixtures("eight_threads")
def test_fits_in_several_threads_do_not_disturb_each_other():
    data = np.random.default_rng(0).standard_normal((20, 3))

    def run() -> None:
        torch.set_num_threads(3)
        HGPLVM(max_iter=3).fit(data)
        after.append(torch.get_num_threads())

    after: list[int] = []
    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert after == [3, 3, 3, 3]
    assert torch.get_num_threads() == 8
