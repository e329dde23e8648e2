"""Does the searched noise floor generalise? Score of rows that the fit has not seen.

A fifth of the rows is held out of everything: the start, the search for the floor and the fit. Each
is then placed by three quarters of its entries, and scored by the mean log density of the others:
higher is better. The searched floor stands beside free noise and fixed floors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from models import PAPER, Load, branching, fresh, packaged, stored

from hgplvm import HGPLVM
from hgplvm._inference import Landmarks
from hgplvm.covariance import CovarianceFunction
from hgplvm.fit import fit
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Hyperbolic
from hgplvm.objectives import Parameters
from hgplvm.objectives.new_rows import NewRows
from hgplvm.objectives.predictive import exact_posterior
from hgplvm.optim import Adam

FLOORS = ("auto", 0.0, 0.03, 0.1, 0.3)
N_STARTS = 5


def split(load: Load, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = load(seed).data
    order = np.random.default_rng(seed).permutation(len(rows))
    held = len(rows) // 5
    data = (rows - rows[order[held:]].mean(0)) / rows[order[held:]].std()
    return data[order[held:]], data[order[:held]]


def score(model: HGPLVM, train: np.ndarray, held: np.ndarray, seed: int) -> float:
    """Mean log density of the hidden entries, at the likeliest of several placements."""
    covariance = CovarianceFunction(Hyperbolic(), Exponential())
    at = covariance.at({"variance": model.variance_, "length_scale": model.length_scale_})
    latents = torch.from_numpy(model.lorentz_)
    posterior = exact_posterior(
        torch.from_numpy(train - train.mean(0)),
        latents,
        at,
        noise=model.noise_variance_,
    )
    rows = torch.from_numpy(held - train.mean(0))
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand(rows.shape, generator=generator).argsort(1) < max(1, rows.shape[1] // 4)
    observed = (~hidden).double()
    data = torch.from_numpy(train - train.mean(0))
    # distance over the observed entries alone
    squared = (rows.square() * observed).sum(1)[:, None] + observed @ data.square().mT
    near = (squared - 2.0 * (rows * observed) @ data.mT).topk(N_STARTS, largest=False).indices
    starts = [Landmarks.of(posterior, latents).nearest(rows, observed), *latents[near].unbind(1)]
    best = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    scores = torch.zeros_like(best)
    objective = NewRows(posterior, rows, observed)
    spread = torch.pdist(torch.from_numpy(model.embedding_)).median().item()
    for start in starts:
        optimizer = Adam(0.1 * spread, horizon=60)
        places = fit(objective, Parameters(start, {}, ()), optimizer, max_iter=60, tol=0.0)
        placed = places.parameters.latents
        density = posterior.log_density(rows, placed, observed)
        better = density > best
        best = torch.where(better, density, best)
        scores = torch.where(better, posterior.log_density(rows, placed, 1.0 - observed), scores)
    return (scores.sum() / hidden.sum()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with the paper's arrays")
    parser.add_argument("--data", nargs="*", default=["SBT-4", "SBT-5", "Spiral", "Myeloid"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    sources: dict[str, Load] = {"tree 4,20": fresh("4,20"), "branching": branching(0)}
    sources["digits"] = packaged("digits")
    if options.data_dir is not None:
        for name in options.data:
            sources[name] = stored(options.data_dir / f"{PAPER[name]}.npz")
    print(f"{'data':<12}" + "".join(f"{'floor ' + str(floor):>18}" for floor in FLOORS))
    for name, load in sources.items():
        cells = []
        for floor in FLOORS:
            found = []
            for seed in range(options.seeds):
                train, held = split(load, seed)
                model = HGPLVM(noise_floor=floor, random_state=seed).fit(train)
                found.append(score(model, train, held, seed))
            cells.append(f"{np.mean(found):>11.3f} ±{np.std(found):5.2f}")
        print(f"{name:<12}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
