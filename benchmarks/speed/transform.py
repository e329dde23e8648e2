"""Time and memory of placing new rows, against the fit that came before and a peer.

The peer is UMAP, where it is installed. Rows come from `make_branching`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from memory import peak_bytes

import hgplvm
from hgplvm.datasets import make_branching


def seconds(function: Callable[[], object]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--new", type=int, default=10000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument(
        "--models", nargs="+", default=["SparseHGPLVM", "BayesianHGPLVM", "VecchiaHGPLVM"]
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tree = make_branching(options.train + options.new, options.columns, random_state=0)
    order = np.random.default_rng(0).permutation(len(tree.data))
    old, new = order[: options.train], order[options.train :]
    print(f"{options.new} rows of {options.columns} columns; {torch.get_num_threads()} threads")
    for name in options.models:
        model = getattr(hgplvm, name)(random_state=0)
        fitting = seconds(lambda model=model: model.fit(tree.data[old]))
        model.transform(tree.data[new[:10]])  # the model is made ready at its first use
        placing = seconds(lambda model=model: model.transform(tree.data[new]))
        few, many = (
            peak_bytes(lambda model=model, n=n: model.transform(tree.data[new[:n]]))
            for n in (len(new) // 4, len(new))
        )
        rows = 8 * options.columns * len(new)
        print(
            f"{name:<16} fit {fitting:6.1f} s   transform {placing:6.2f} s   peak memory "
            f"{few / 2**20:.0f} MiB for a quarter of the rows, {many / 2**20:.0f} MiB for all "
            f"(these are {rows / 2**20:.0f} MiB)",
            flush=True,
        )
    try:
        from umap import UMAP
    except ImportError:
        print("UMAP is not installed")
        return
    peer = UMAP(random_state=0)
    fitting = seconds(lambda: peer.fit(tree.data[old]))
    placing = seconds(lambda: peer.transform(tree.data[new]))
    print(f"{'UMAP':<16} fit {fitting:6.1f} s   transform {placing:6.2f} s")


if __name__ == "__main__":
    main()
