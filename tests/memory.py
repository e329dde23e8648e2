"""How much memory a call takes, from torch's own allocations."""

import torch


def peak_bytes(function):
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
