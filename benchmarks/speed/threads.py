"""What a fit costs beside other work: wall and CPU seconds, against a quiet run on one thread.

Each fit (the exact and the Bayesian model on a binary tree) runs in a process of its own: on one
thread, with the defaults, with eight threads allowed, and both again with as many busy processes
beside it as there are cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

FIT = """
import sys, time, warnings
import hgplvm
from hgplvm.datasets import make_binary_tree
rows = make_binary_tree(int(sys.argv[1]), random_state=0).data
warnings.simplefilter("ignore")
begun = time.perf_counter()
cpu = time.process_time()
for name in ("HGPLVM", "BayesianHGPLVM"):
    getattr(hgplvm, name)(random_state=0).fit(rows)
print(time.perf_counter() - begun, time.process_time() - cpu)
"""
SPIN = "while True: pass"


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many processes busy meanwhile."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def run(depth: int, threads: int | None) -> tuple[float, float]:
    """Wall and CPU seconds of the two fits."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(depth)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=5, help="depth of the tree")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    base = run(options.depth, 1)
    print(f"{cores} cores; quiet, one thread: {base[0]:.1f} s, {base[1]:.1f} s of CPU")
    print(f"{'':<32}{'wall':>8}{'ratio':>7}{'CPU':>8}{'ratio':>7}")
    for beside in (0, cores):
        for threads, words in ((None, "defaults"), (8, "8 threads allowed")):
            with busy(beside):
                wall, cpu = run(options.depth, threads)
            name = words + (f", {beside} busy processes" if beside else "")
            print(
                f"{name:<32}{wall:>7.1f}s{wall / base[0]:>7.2f}{cpu:>7.1f}s{cpu / base[1]:>7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
