"""Where noise hides single rows: what helps the nearest-neighbour model.

A fifth of the rows is held out of the fit, placed by three quarters of their entries under the
exact posterior of the fitted latents, and scored by the mean log density of the others (higher is
better; as in `heldout.py`). More neighbours stand beside inducing points for the smooth part, the
sparse and the exact model, each with the seconds of its fit.

A second table compares approximations of the log likelihood at the same latents: nats an entry from
the exact value, and seconds. It has one more column, latent conditioning (sparse general Vecchia):
neighbours of the noise-free function, and a sparse Cholesky factorisation for the rest.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from heldout import score, split
from models import Load, Rows, paul

import hgplvm
from hgplvm.covariance import CovarianceFunction
from hgplvm.datasets import make_branching
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.noise import UniformNoise
from hgplvm.objectives import ExactObjective, Parameters, VecchiaObjective

SYSTEMS = {
    "neighbours 20": ("VecchiaHGPLVM", {"n_neighbors": 20, "n_inducing": 0}),
    "neighbours 40": ("VecchiaHGPLVM", {"n_neighbors": 40, "n_inducing": 0}),
    "neighbours 80": ("VecchiaHGPLVM", {"n_neighbors": 80, "n_inducing": 0}),
    "neighbours 10 + inducing 50": ("VecchiaHGPLVM", {"n_neighbors": 10, "n_inducing": 50}),
    "neighbours 20 + inducing 50": ("VecchiaHGPLVM", {"n_neighbors": 20, "n_inducing": 50}),
    "neighbours 20 + inducing 100": ("VecchiaHGPLVM", {"n_neighbors": 20, "n_inducing": 100}),
    "sparse 50": ("SparseHGPLVM", {"n_inducing": 50}),
    "sparse 200": ("SparseHGPLVM", {"n_inducing": 200}),
    "exact": ("HGPLVM", {}),
}

COVARIANCE = CovarianceFunction(Hyperbolic(), Exponential())
NOISE = UniformNoise()


def noisy_branching(n: int) -> Load:
    """Three quarters and more of the variance is noise."""

    def draw(seed: int) -> Rows:
        tree = make_branching(n, 300, depth=4, noise=3.5, random_state=seed)
        return Rows(tree.data, tree.target, None)

    return draw


def latent_conditioning(
    data: torch.Tensor, p: Parameters, groups: torch.Tensor, noise: float
) -> float:
    """Log likelihood with neighbours of the function: Q = (I-B)ᵀF⁻¹(I-B) is its precision.

    ``log|Q⁻¹ + β⁻¹I| = log|Q + βI| - log|Q| - N log β`` and
    ``(Q⁻¹ + β⁻¹I)⁻¹ = βI - β²(Q + βI)⁻¹``.
    """
    objective = VecchiaObjective(
        data,
        COVARIANCE,
        UniformNoise(1e-8),  # the function itself has no noise
        n_neighbors=groups.shape[1] - 1,
        neighbor_update=1,
        generator=torch.Generator(),
    )
    objective.groups = groups
    silent = Parameters(p.latents, {**p.logs, "noise": torch.tensor(-25.0).double()}, ())
    weights, columns, rows, f = [], [], [], []
    for chunk in objective._chunks(silent, objective._features(silent)):
        real = torch.ones_like(chunk.v, dtype=torch.bool) if chunk.real is None else chunk.real
        scaled = chunk.v / chunk.f.sqrt()[:, None]
        weights.append(scaled[real])
        columns.append(chunk.rows[real])
        rows.append(chunk.rows[:, -1:].expand_as(chunk.rows)[real])
        f.append(chunk.f)
    index = (torch.cat(rows).numpy(), torch.cat(columns).numpy())
    n, d = data.shape
    root = scipy.sparse.csc_matrix((torch.cat(weights).numpy(), index), shape=(n, n))
    beta = 1.0 / noise
    posterior = scipy.sparse.linalg.splu(
        (root.T @ root + beta * scipy.sparse.identity(n)).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    log_det = np.log(np.abs(posterior.U.diagonal())).sum() + torch.cat(f).log().sum().item()
    log_det -= n * math.log(beta)
    y = data.numpy()
    quadratic = beta * (y**2).sum() - beta**2 * (y * posterior.solve(y)).sum()
    return -0.5 * (n * d * math.log(2 * math.pi) + d * log_det + quadratic)


def likelihoods(data: np.ndarray) -> None:
    """Approximations of the log likelihood at latents of a short fit."""
    model = hgplvm.VecchiaHGPLVM(max_iter=50, random_state=0).fit(data)
    unit = data.std()
    rows = torch.from_numpy((data - data.mean(0)) / unit)
    noise = model.noise_variance_ / unit**2
    values = {
        "variance": model.variance_ / unit**2,
        "noise": noise,
        "length_scale": model.length_scale_,
    }
    logs = {name: torch.tensor(math.log(value)).double() for name, value in values.items()}
    p = Parameters(torch.from_numpy(model.lorentz_), logs, ())
    exact = ExactObjective(rows, COVARIANCE, NOISE).value(p)
    print(f"{'k':>4}{'neighbours':>20}{'+ inducing 50':>20}{'latent conditioning':>22}")
    for k in (5, 10, 20, 40):
        cells = []
        for m in (0, 50):
            objective = VecchiaObjective(
                rows,
                COVARIANCE,
                NOISE,
                n_neighbors=k,
                n_inducing=m,
                neighbor_update=1,
                generator=torch.Generator().manual_seed(0),
            )
            objective.draw(p)
            objective.value(p)
            begun = time.perf_counter()
            gap = (objective.value(p) - exact) / rows.numel()
            cells.append(f"{gap:>10.5f} {time.perf_counter() - begun:>7.2f} s")
        begun = time.perf_counter()
        gap = (latent_conditioning(rows, p, objective.groups, noise) - exact) / rows.numel()
        cells.append(f"{gap:>12.5f} {time.perf_counter() - begun:>7.2f} s")
        print(f"{k:>4}" + "".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with paul/")
    parser.add_argument("--rows", type=int, default=2000, help="of the generated data")
    parser.add_argument("--systems", nargs="+", default=[*SYSTEMS], choices=[*SYSTEMS])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    sources: dict[str, Load] = {"noisy branching": noisy_branching(options.rows)}
    if options.data_dir is not None:
        sources["Paul"] = paul(options.data_dir / "paul")
    for source, load in sources.items():
        print(f"\n{source}\n{'system':<30}{'score':>10}{'seconds':>9}")
        for name in options.systems:
            kind, settings = SYSTEMS[name]
            scores, times = [], []
            for seed in range(options.seeds):
                train, held = split(load, seed)
                begun = time.perf_counter()
                model = getattr(hgplvm, kind)(random_state=seed, **settings).fit(train)
                times.append(time.perf_counter() - begun)
                scores.append(score(model, train, held, seed))
            print(f"{name:<30}{np.mean(scores):>10.4f}{np.mean(times):>9.1f}", flush=True)
        print("\nnats an entry from the exact log likelihood")
        likelihoods(load(0).data)


if __name__ == "__main__":
    main()
