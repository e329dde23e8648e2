"""How much memory a call takes, from torch's own allocations."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["peak_bytes"]


def peak_bytes(function: Callable[[], object]) -> int:
    """Most that torch holds at a time during a call, beyond what it held before."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profile:
        function()
    balance = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            balance += event.nbytes()
            peak = max(peak, balance)
    return peak
