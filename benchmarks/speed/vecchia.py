"""Time and memory of the nearest-neighbour model against the number of rows.

One evaluation with gradient, and one search for neighbours, whose time is shared by the steps until
the next. Beside it one evaluation of the sparse model: with its default of 50 inducing points, and
with as many as bring it as near to the exact log likelihood, measured on rows few enough for the
exact model. The exponent is the slope of log time against log N.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from memory import peak_bytes

from hgplvm._init import pca_start
from hgplvm.covariance import CovarianceFunction
from hgplvm.datasets import make_branching
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.noise import UniformNoise
from hgplvm.objectives import ExactObjective, Parameters, SparseObjective, VecchiaObjective

# rows on which the models are compared with the exact one, and inducing points to try
EXACT_ROWS = 3000
INDUCING = (50, 100, 200, 400, 800, 1600)
UPDATE = 10

COVARIANCE = CovarianceFunction(Hyperbolic(), Exponential())
NOISE = UniformNoise()


def problem(n: int, d: int, device: str) -> tuple[torch.Tensor, Parameters]:
    """Branching data, their principal components as latents, and a tenth of noise."""
    rows = make_branching(n, d, random_state=0).data
    data = torch.from_numpy((rows - rows.mean(0)) / rows.std()).to(device)
    latents = pca_start(
        data, 2, Hyperbolic(), median_distance=3.0, generator=torch.Generator().manual_seed(0)
    )
    values = {"variance": 0.9, "noise": 0.1, "length_scale": 6.0}
    logs = {name: data.new_tensor(math.log(value)) for name, value in values.items()}
    return data, Parameters(latents, logs, ("variance", "noise", "length_scale"))


def vecchia(data: torch.Tensor, k: int, m: int = 0) -> VecchiaObjective:
    return VecchiaObjective(
        data,
        COVARIANCE,
        NOISE,
        n_neighbors=k,
        n_inducing=m,
        neighbor_update=UPDATE,
        generator=torch.Generator().manual_seed(0),
    )


def sparse(data: torch.Tensor, m: int) -> SparseObjective:
    return SparseObjective(
        data,
        COVARIANCE,
        NOISE,
        n_inducing=m,
        inducing_update=5,
        generator=torch.Generator().manual_seed(0),
    )


def seconds(function: Callable[[], object], device: str, rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        function()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def equal_quality(d: int, k: int, device: str) -> int | None:
    """Fewest inducing points with which the sparse model is as near to the exact one."""
    data, p = problem(EXACT_ROWS, d, device)
    exact = ExactObjective(data, COVARIANCE, NOISE).value(p)
    ours = abs(vecchia(data, k).value(p) - exact) / data.numel()
    print(f"on {EXACT_ROWS} rows, nats an entry from the exact log likelihood:")
    print(f"  {k} neighbours {ours:.5f}")
    for m in INDUCING:
        theirs = abs(sparse(data, m).value(p) - exact) / data.numel()
        print(f"  {m} inducing points {theirs:.5f}", flush=True)
        if theirs <= ours:
            return m
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[12500, 25000, 50000, 100000])
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--neighbors", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    d, k, device = options.columns, options.neighbors, options.device
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device}, D={d}, k={k}")
    m = equal_quality(d, k, device)
    reached = m is not None
    m = m or INDUCING[-1]
    print(
        f"{'N':>8}{'evaluation':>12}{'search':>9}{'a step':>9}{'MiB':>7}{'with M=50':>11}"
        f"{'sparse M=50':>13}{'sparse M=' + str(m):>15}{'ratio':>8}"
    )
    steps = []
    for n in options.rows:
        data, p = problem(n, d, device)
        objective, both = vecchia(data, k), vecchia(data, k, 50)
        search = seconds(lambda o=objective, p=p: o.draw(p), device, options.rounds)
        both.draw(p)
        one = seconds(lambda o=objective, p=p: o.evaluate(p), device, options.rounds)
        two = seconds(lambda o=both, p=p: o.evaluate(p), device, options.rounds)
        memory = peak_bytes(lambda o=objective, p=p: o.evaluate(p)) / 2**20
        few, many = (
            seconds(lambda o=o, p=p: o.evaluate(p), device, options.rounds)
            for o in (sparse(data, 50), sparse(data, m))
        )
        steps.append(one + search / UPDATE)
        print(
            f"{n:>8}{one:>10.3f} s{search:>7.2f} s{steps[-1]:>7.3f} s{memory:>7.0f}{two:>9.3f} s"
            f"{few:>11.3f} s{many:>13.3f} s{'' if reached else '>':>2}{many / steps[-1]:>6.1f}",
            flush=True,
        )
    if len(steps) > 1:
        slope = np.polyfit(np.log(options.rows), np.log(steps), 1)[0]
        print(f"time of a step grows as N^{slope:.2f}")


if __name__ == "__main__":
    main()
