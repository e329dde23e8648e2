"""The kernels beside each other: evidence, held-out density and quality of the map.

For each data set and kernel, means over seeds: the log likelihood per entry of the fit; the mean
log density per entry of held-out rows (a fifth), at their inferred latents; distance correlation on
the trees; trustworthiness and continuity (k = 3) and leave-one-out 5-nearest-neighbour accuracy.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from models import PAPER, Rows, paul, scores, stored

import hgplvm
from hgplvm.kernels import KERNELS


def fit(model: str, kernel: str, data: np.ndarray, seed: int, device: str) -> object:
    options = {"kernel": kernel, "random_state": seed, "device": device}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(hgplvm, model)(**options).fit(data)


def measure(rows: Rows, model: str, kernel: str, seed: int, device: str) -> list[float]:
    begun = time.perf_counter()
    whole = fit(model, kernel, rows.data, seed, device)
    seconds = time.perf_counter() - begun
    order = np.random.default_rng(seed).permutation(len(rows.data))
    held, kept = np.split(order, [len(order) // 5])
    part = fit(model, kernel, rows.data[kept], seed, device)
    metric = "poincare" if hasattr(whole, "lorentz_") else "euclidean"
    quality = scores(rows, whole.embedding_, metric)
    return [
        whole.log_likelihood_ / rows.data.size,
        part.score(rows.data[held]) / rows.data.shape[1],
        *(quality[i] for i in (0, 1, 2, 4)),
        seconds,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with the arrays")
    parser.add_argument("--data", nargs="+", default=[*PAPER], choices=[*PAPER, "Paul"])
    parser.add_argument("--models", nargs="+", default=["HGPLVM"])
    parser.add_argument("--kernels", nargs="+", default=[*KERNELS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    print(
        f"{'data':<9}{'model':<16}{'kernel':<13}{'evidence':>10}{'held out':>10}{'correlation':>13}"
        f"{'trust':>9}{'contin':>9}{'5-NN':>7}{'seconds':>9}"
    )
    for name in options.data:
        path = options.data_dir
        load = paul(path / "paul") if name == "Paul" else stored(path / f"{PAPER[name]}.npz")
        for model in options.models:
            for kernel in options.kernels:
                found = [
                    measure(load(seed), model, kernel, seed, options.device)
                    for seed in range(options.seeds)
                ]
                evidence, held, correlation, trust, contin, knn, seconds = np.mean(found, axis=0)
                print(
                    f"{name:<9}{model:<16}{kernel:<13}{evidence:>10.3f}{held:>10.3f}"
                    f"{correlation:>13.3f}{trust:>9.4f}{contin:>9.4f}{knn:>7.3f}{seconds:>9.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
