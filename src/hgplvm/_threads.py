"""How many threads a computation uses, and that callers find theirs as they left it.

Threads of torch spin while they wait for each other. On a machine with nothing else to do that is
quick; beside other work, or under a CPU quota, each wait lasts until the other thread gets its
turn, and a fit takes many times as long. A model of a few thousand rows is made of short operations
that gain little from a second thread, so it runs on one; long ones (the factorisation of a large
matrix, batches of many rows) use all that the process may use.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import torch

__all__ = ["long_operation", "one_thread", "threads_for_rows", "usable_threads"]

# rows from which chunks of rows are long enough for several threads
MANY_ROWS = 10_000
# size from which the factorisation of a matrix is one long operation
LARGE_MATRIX = 1000
# where Linux says how much CPU time a group of processes may use: version 2, and version 1
QUOTA = Path("/sys/fs/cgroup/cpu.max")
QUOTA_V1 = (
    Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


def usable_threads() -> int:
    """Threads that may really be used: by affinity, CPU quota and the caller's torch setting."""
    count = _allowed()
    if hasattr(os, "sched_getaffinity"):
        count = min(count, len(os.sched_getaffinity(0)))
    else:  # no affinity on this system
        count = min(count, os.cpu_count() or 1)
    return max(1, math.floor(min(count, _quota())))


def _quota() -> float:
    """CPU quota of the process's group, in cores; infinite where there is none."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = QUOTA.read_text().split()
        return math.inf if quota == "max" else max(1.0, int(quota) / int(period))
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        amount, length = (int(path.read_text()) for path in QUOTA_V1)
        return math.inf if amount <= 0 else max(1.0, amount / length)
    return math.inf


# `allowed`: torch's setting where the outermost limit of this thread began (torch, too, keeps one
# setting for each thread)
_outermost = threading.local()


def _allowed() -> int:
    return getattr(_outermost, "allowed", None) or torch.get_num_threads()


@contextlib.contextmanager
def _limited(count: int) -> Iterator[None]:
    """Let torch use this many threads, and give it back its setting afterwards."""
    before, outer = torch.get_num_threads(), getattr(_outermost, "allowed", None)
    _outermost.allowed = outer or before
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _outermost.allowed = outer


def threads_for_rows(n_rows: int) -> contextlib.AbstractContextManager[None]:
    """Context in which torch uses as many threads as work on so many rows is worth."""
    return _limited(1 if n_rows < MANY_ROWS else usable_threads())


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Context in which torch uses one thread."""
    return _limited(1)


def long_operation(size: int) -> contextlib.AbstractContextManager[None]:
    """Context for the factorisation of a matrix of this size: all threads where it is large."""
    if size < LARGE_MATRIX:
        return contextlib.nullcontext()
    return _limited(usable_threads())
