"""The estimates that stand before a long fit, what the fits then take, and how good they are.

Fits to ``make_branching`` (30 columns) and to counts of ``make_cells`` (1,000 genes). The table in
``hgplvm/estimators/estimate.py`` has the seconds of the first kind. Quality is the correlation of
embedded with tree distances, on 1,000 rows.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import hgplvm
from hgplvm.datasets import make_branching, make_cells
from hgplvm.estimators import choose_model
from hgplvm.estimators.estimate import estimate
from hgplvm.metrics import distance_correlation

ROWS = {
    "exact": (500, 1000, 2000),
    "sparse": (1000, 5000, 20_000),
    "bayesian": (1000, 2000, 5000),
    "vecchia": (500, 1000, 2000, 5000, 20_000),
}


def quality(tree, points: np.ndarray) -> float:
    some = np.random.default_rng(0).permutation(len(points))[:1000]
    return distance_correlation(np.asarray(tree.tree_distance[some][:, some]), points[some])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--most", type=int, default=20_000, help="rows at most")
    options = parser.parse_args()
    print(f"{'data':<10}{'model':<10}{'rows':>8}{'estimated':>11}{'took':>8}{'ratio':>8}", end="")
    print(f"{'quality':>9}")
    for kind in ("clean", "counts"):
        for model in options.models:
            for n in (n for n in ROWS[model] if n <= options.most):
                if kind == "clean":
                    tree, parameters = make_branching(n, n_features=30, random_state=5), {}
                    data = tree.data
                else:
                    tree = make_cells(n, 1000, depth=2000, random_state=5)
                    data, parameters = tree.counts, {"likelihood": "negative-binomial"}
                found = estimate(model, n, data.shape[1], counts=kind == "counts")
                begun = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", hgplvm.errors.LongFitWarning)
                    fitted = choose_model(model, n)(random_state=0, **parameters).fit(data)
                took = time.perf_counter() - begun
                print(
                    f"{kind:<10}{model:<10}{n:>8}{found.seconds:>11.1f}{took:>8.1f}"
                    f"{found.seconds / took:>8.2f}{quality(tree, fitted.embedding_):>9.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
