"""Quality of the models on the paper's synthetic data: mean and deviation over seeds.

Distance correlation (trees), and trustworthiness, continuity (k = 3) and Shepard goodness in disk
coordinates, as the paper measures them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import hgplvm
from hgplvm import metrics

DATA = {
    "SBT-4": "synthetic_bin_tree_4",
    "SBT-5": "synthetic_bin_tree_5",
    "SBT-6": "synthetic_bin_tree_6",
    "Spiral": "Spiral",
    "Myeloid": "MyeloidProgenitors",
}


def scores(model, file) -> list[float]:
    flat = "lorentz_" not in vars(model)
    values = []
    if "true_data" in file:
        codes = file["true_data"].astype(float)
        truth = np.abs(codes[:, None] - codes[None]).sum(-1)
        metric = "euclidean" if flat else "poincare"
        values.append(metrics.distance_correlation(truth, model.embedding_, metric=metric))
    else:
        values.append(np.nan)
    found = metrics.evaluate(file["data"], model.embedding_, n_neighbors=3)
    return [*values, *found.values(), model.log_likelihood_]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with the arrays")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--models", nargs="+", default=["HGPLVM", "SparseHGPLVM", "BayesianHGPLVM"])
    parser.add_argument("--inits", nargs="+", default=["auto"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()

    print(
        f"{'data':<9}{'model':<16}{'init':<6}{'correlation':>15}{'trust':>8}{'contin':>8}"
        f"{'Shepard':>9}{'log likelihood':>16}{'seconds':>9}"
    )
    for name in options.data:
        with np.load(options.data_dir / f"{DATA[name]}.npz", allow_pickle=True) as file:
            for model in options.models:
                for init in options.inits:
                    started = time.perf_counter()
                    rows = np.array(
                        [
                            scores(
                                getattr(hgplvm, model)(init=init, random_state=seed).fit(
                                    file["data"]
                                ),
                                file,
                            )
                            for seed in range(options.seeds)
                        ]
                    )
                    seconds = (time.perf_counter() - started) / options.seeds
                    mean, spread = rows.mean(0), rows.std(0)
                    print(
                        f"{name:<9}{model:<16}{init:<6}{mean[0]:>8.3f} ± {spread[0]:.3f}"
                        f"{mean[1]:>8.4f}{mean[2]:>8.4f}{mean[3]:>9.3f}{mean[4]:>16.0f}"
                        f"{seconds:>9.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
