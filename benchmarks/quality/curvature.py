"""Flat or curved: how often the verdict of `model.curvature()` is right.

Simulated sets, each with settings of its own drawn from the seed. Flat: planes and curved sheets
mapped to 3 to 50 columns, spirals, Gaussian clouds of more dimensions, blobs (2 to 8 centres) in
space and in a plane, counts of cells on a line, and counts whose rates follow a plane. Curved:
noisy binary trees of depth 3 to 5, Brownian motion along trees of depth 3 to 5, and counts of cells
along a binary tree. Random trees of 15 to 40 nodes are listed apart: some of them are bushes with
little hierarchy. The model is the nearest-neighbour one.

    python benchmarks/quality/curvature.py --seeds 700 701 702
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.datasets import make_blobs

from hgplvm import VecchiaHGPLVM
from hgplvm.datasets import make_binary_tree, make_branching, make_cells, make_spirals

Draw = Callable[[np.random.RandomState, int], np.ndarray]


def plane(r: np.random.RandomState, _: int) -> np.ndarray:
    n, d = r.choice([200, 300, 400, 500]), r.choice([10, 20, 30, 50])
    z = r.randn(n, 2) if r.rand() < 0.5 else r.uniform(-1.7, 1.7, (n, 2))
    z[:, 1] *= r.choice([1.0, 0.5])
    return z @ r.randn(2, d) + r.choice([0.05, 0.2, 0.5, 1.0, 1.5]) * r.randn(n, d)


def sheet(r: np.random.RandomState, _: int) -> np.ndarray:
    n, d, kind = r.choice([200, 300, 400]), r.choice([3, 10, 20, 50]), r.randint(3)
    u = r.uniform(-1, 1, (n, 2))
    if kind == 0:
        f = np.column_stack([u, 0.7 * (u[:, 0] ** 2 + r.choice([-1, 1]) * u[:, 1] ** 2)])
    elif kind == 1:
        t = 0.75 * np.pi * (u[:, 0] + 1.5)
        f = np.column_stack([t * np.cos(t) / 3, u[:, 1], t * np.sin(t) / 3])
    else:
        f = np.cos(u @ (0.8 * r.randn(2, 30)) + r.uniform(0, 6.3, 30))
    f = (f - f.mean(0)) / f.std()
    f = f if d == 3 == f.shape[1] else f @ r.randn(f.shape[1], d) / np.sqrt(f.shape[1])
    return f + r.choice([0.05, 0.2, 0.5]) * r.randn(*f.shape)


def spirals(r: np.random.RandomState, seed: int) -> np.ndarray:
    return make_spirals(
        int(r.choice([200, 400, 600])),
        n_spirals=int(r.choice([5, 10])),
        n_features=int(r.choice([10, 20, 50])),
        turn=float(r.choice([0.05, 0.15, 0.3])),
        noise=float(r.choice([0.05, 0.1, 0.2])),
        random_state=seed,
    ).data


def cloud(r: np.random.RandomState, _: int) -> np.ndarray:
    n, q, d = r.choice([200, 400]), r.choice([3, 5, 10]), r.choice([10, 30])
    return r.randn(n, q) @ r.randn(q, d) + 0.5 * r.randn(n, d)


def blobs(r: np.random.RandomState, seed: int) -> np.ndarray:
    return make_blobs(
        int(r.choice([200, 300, 400])),
        n_features=int(r.choice([2, 3, 5, 10, 20, 50])),
        centers=int(r.randint(2, 9)),
        cluster_std=float(r.choice([0.5, 1, 2, 4])),
        random_state=seed,
    )[0]


def blobs_in_a_plane(r: np.random.RandomState, seed: int) -> np.ndarray:
    x = make_blobs(
        int(r.choice([200, 300, 400])),
        centers=int(r.randint(2, 9)),
        cluster_std=float(r.choice([0.5, 1, 2])),
        random_state=seed,
    )[0]
    d = r.choice([10, 20, 50])
    return x @ r.randn(2, d) / 3 + r.choice([0.1, 0.3, 1]) * r.randn(len(x), d)


def binary_tree(r: np.random.RandomState, seed: int) -> np.ndarray:
    return make_binary_tree(depth=int(r.choice([3, 4, 5])), random_state=seed).data


def branching(r: np.random.RandomState, seed: int) -> np.ndarray:
    return make_branching(
        int(r.choice([200, 300, 400, 600])),
        int(r.choice([20, 50])),
        depth=int(r.choice([3, 4, 5])),
        noise=float(r.choice([0.3, 0.5, 0.7, 1.0])),
        random_state=seed,
    ).data


def cells(r: np.random.RandomState, seed: int) -> np.ndarray:
    return make_cells(
        int(r.choice([300, 400, 500])),
        500,
        topology="binary",
        programmes=str(r.choice(["smooth", "brownian"])),
        depth=float(r.choice([700, 1000, 2000])),
        random_state=seed,
    ).counts


def cells_on_a_line(r: np.random.RandomState, seed: int) -> np.ndarray:
    return make_cells(
        int(r.choice([300, 400, 500])),
        500,
        topology="linear",
        programmes=str(r.choice(["smooth", "brownian"])),
        depth=float(r.choice([700, 1000, 2000])),
        random_state=seed,
    ).counts


def counts_of_a_plane(r: np.random.RandomState, _: int) -> np.ndarray:
    n, g, phi = r.choice([300, 400, 500]), 500, 0.3
    z = r.randn(n, 2) if r.rand() < 0.5 else r.uniform(-1.7, 1.7, (n, 2))
    rates = np.exp(0.4 * z @ r.randn(2, g) * (r.rand(g) < 0.4) + 1.2 * r.randn(g))
    sizes = r.choice([700, 1000, 2000]) * np.exp(0.4 * r.randn(n, 1))
    means = sizes * rates / rates.sum(1, keepdims=True)
    counts = r.poisson(means * r.gamma(1.0 / phi, phi, means.shape))
    return counts[:, counts.sum(0) > 0]


def random_tree(r: np.random.RandomState, _: int) -> np.ndarray:
    n, d, m = r.choice([300, 400, 600]), r.choice([20, 40]), int(r.choice([15, 25, 40]))
    parent = [0, *(r.randint(max(0, i - r.choice([3, 6, 12])), i) for i in range(1, m))]
    place = np.zeros((m, d))
    for i in range(1, m):
        place[i] = place[parent[i]] + r.randn(d) * r.uniform(0.6, 1.3)
    at, t = r.randint(1, m, n), r.rand(n, 1)
    t = np.ones_like(t) if r.rand() < 0.5 else t
    x = (1 - t) * place[np.array(parent)[at]] + t * place[at]
    return x + r.choice([0.3, 0.6]) * r.randn(n, d)


KINDS: dict[str, tuple[Draw, bool]] = {
    "plane": (plane, False),
    "sheet": (sheet, False),
    "spirals": (spirals, False),
    "cloud": (cloud, False),
    "blobs": (blobs, False),
    "blobs in a plane": (blobs_in_a_plane, False),
    "cells on a line": (cells_on_a_line, False),
    "counts of a plane": (counts_of_a_plane, False),
    "binary tree": (binary_tree, True),
    "branching": (branching, True),
    "cells": (cells, True),
    "random tree": (random_tree, True),
}


def judged(job: tuple[str, int]) -> tuple[str, int, bool, str, float]:
    """Kind, seed, whether the verdict is right, and what it says."""
    torch.set_num_threads(1)
    kind, seed = job
    draw, curved = KINDS[kind]
    rows = draw(np.random.RandomState(seed), seed)
    of_counts = kind in ("cells", "cells on a line", "counts of a plane")
    likelihood = "negative-binomial" if of_counts else "gaussian"
    model = VecchiaHGPLVM(likelihood=likelihood, max_iter=30, random_state=seed)
    found = model.fit(rows).curvature()
    return kind, seed, found.curved == curved, found.reason, found.gain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(700, 712)))
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    jobs = [(kind, seed) for seed in given.seeds for kind in KINDS]
    right: dict[str, list[bool]] = defaultdict(list)
    with ProcessPoolExecutor(given.processes) as pool:
        for kind, seed, good, reason, gain in pool.map(judged, jobs):
            right[kind].append(good)
            if not good:
                print(f"wrong: {kind}, seed {seed}: {reason} (gain {gain:+.4f})", flush=True)
    print()
    totals = {False: [0, 0], True: [0, 0]}
    for kind, (_, curved) in KINDS.items():
        wrong, n = right[kind].count(False), len(right[kind])
        print(f"{kind:<20} {'curved' if curved else 'flat':<8} {wrong:>3} of {n} wrong")
        if kind != "random tree":
            totals[curved][0] += wrong
            totals[curved][1] += n
    for curved, (wrong, n) in totals.items():
        word = "curved" if curved else "flat"
        print(f"{word} sets without random trees: {wrong} of {n} wrong ({100 * wrong / n:.1f}%)")


if __name__ == "__main__":
    main()
