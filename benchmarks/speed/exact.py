"""Time of one exact evaluation with gradient, as a ratio to potrf + potri in the same run.

The factorisation and the inverse are what every exact method pays; the rest (distances, kernel,
gradients) should cost no more than they do. Rounds alternate between the two, so that a noisy
machine disturbs both alike, and the medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from memory import peak_bytes

from hgplvm.covariance import CovarianceFunction
from hgplvm.geometry import lorentz
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.noise import UniformNoise
from hgplvm.objectives import ExactObjective, Parameters

COVARIANCE = CovarianceFunction(Hyperbolic(), Exponential())
NOISE = UniformNoise()


def seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1260, 2500])
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.device}")
    print(f"{'N':>6}{'potrf+potri':>14}{'evaluation':>13}{'ratio':>8}{'N×N arrays':>12}")
    for n in options.sizes:
        generator = torch.Generator().manual_seed(0)
        x = lorentz.from_tangent(2 * torch.randn(n, 2, generator=generator, dtype=torch.float64))
        data = torch.randn(n, options.columns, generator=generator, dtype=torch.float64)
        logs = {name: torch.tensor(0.0) for name in ("variance", "noise", "length_scale")}
        parameters = Parameters(x.to(options.device), logs, ("variance", "noise"))
        objective = ExactObjective(data.to(options.device), COVARIANCE, NOISE)
        covariance = torch.exp(-lorentz.pairwise_distance(parameters.latents))
        covariance.diagonal().add_(1.0)

        def bare(covariance: torch.Tensor = covariance) -> torch.Tensor:
            return torch.cholesky_inverse(torch.linalg.cholesky(covariance))

        def whole(objective: ExactObjective = objective, p: Parameters = parameters) -> object:
            return objective.evaluate(p)

        fresh = ExactObjective(data, COVARIANCE, NOISE)  # before it keeps any memory
        arrays = peak_bytes(
            lambda f=fresh, x=x, p=parameters: f.evaluate(Parameters(x, p.logs, p.free))
        ) / (8 * n * n)
        times: dict[str, list[float]] = {"bare": [], "whole": []}
        bare(), whole()
        for _ in range(options.rounds):
            times["bare"].append(seconds(bare))
            times["whole"].append(seconds(whole))
        base, ours = (statistics.median(times[name]) for name in ("bare", "whole"))
        print(
            f"{n:>6}{base * 1e3:>11.1f} ms{ours * 1e3:>10.1f} ms{ours / base:>8.2f}{arrays:>12.1f}"
        )


if __name__ == "__main__":
    main()
