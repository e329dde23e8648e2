"""Time of one sparse and one Bayesian evaluation with gradient, against bare matrix products.

What no method avoids: Ψ₁Y and Ψ₂ = K_mn K_nm in the first pass, Y Eᵀ and K_nm (∂F/∂Ψ₂) in the
second. Rounds alternate, and medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from hgplvm.covariance import CovarianceFunction
from hgplvm.geometry import lorentz
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.noise import UniformNoise
from hgplvm.objectives import BayesianObjective, Parameters, SparseObjective

COVARIANCE = CovarianceFunction(Hyperbolic(), Exponential())
NOISE = UniformNoise()


def seconds(function: Callable[[], object], device: str) -> float:
    started = time.perf_counter()
    function()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["2730,50,999", "100000,50,50"], help="N,M,D")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.device}")
    print(
        f"{'N':>8}{'M':>5}{'D':>6}{'products':>12}{'sparse':>12}{'ratio':>7}"
        f"{'Bayesian, 5 nodes':>20}{'to sparse':>11}"
    )
    for size in options.sizes:
        n, m, d = map(int, size.split(","))
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int, generator: torch.Generator = generator) -> torch.Tensor:
            values = torch.randn(*shape, generator=generator, dtype=torch.float64)
            return values.to(options.device)

        data, latents = normal(n, d), lorentz.from_tangent(2 * normal(n, 2))
        knm, e, w = normal(n, m), normal(m, d), normal(m, m)
        logs = {name: torch.tensor(0.0) for name in ("variance", "noise", "length_scale")}
        points = Parameters(latents, logs, ("variance", "noise"))
        spread = {**logs, "std": torch.full((n, 2), -2.0).to(data)}
        clouds = Parameters(latents, spread, ("variance", "noise", "std"))
        common = {"n_inducing": m, "inducing_update": 1, "generator": generator}
        sparse = SparseObjective(data, COVARIANCE, NOISE, **common)
        bayesian = BayesianObjective(data, COVARIANCE, NOISE, n_components=2, **common)
        runs = {
            "bare": lambda k=knm, y=data, e=e, w=w: (k.mT @ k, k.mT @ y, y @ e.mT, k @ w),
            "sparse": lambda o=sparse, p=points: o.evaluate(p),
            "bayesian": lambda o=bayesian, p=clouds: o.evaluate(p),
        }
        times = {name: [] for name in runs}
        for run in runs.values():
            run()
        for _ in range(options.rounds):
            for name, run in runs.items():
                times[name].append(seconds(run, options.device))
        bare, one, many = (statistics.median(times[name]) for name in runs)
        print(
            f"{n:>8}{m:>5}{d:>6}{bare * 1e3:>9.1f} ms{one * 1e3:>9.1f} ms{one / bare:>7.2f}"
            f"{many * 1e3:>17.1f} ms{many / one:>11.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
