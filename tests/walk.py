"""Walk through the documents as a new user would: every block of code, by copy and paste.

Needs what the README installs and nothing else: ``python tests/walk.py [DOCUMENT ...]``. Code that
goes on from a user's own data begins with data of that kind, made here; scanpy's download of Paul's
cells is answered by simulated cells with the same columns.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "docs/index.md", "docs/quickstart.md", "docs/command_line.md")
# commands that a shell runs before or beside the walk, not in it
ELSEWHERE = ("make", "pip", "hgplvm reproduce", "hgplvm benchmark")


def blocks(document: str) -> list[tuple[str, str]]:
    """Language and text of each block of code."""
    text = (ROOT / document).read_text(encoding="utf8")
    return re.findall(r"^```(python|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def simulated_cells(n_cells: int = 400) -> Any:
    """Cells with raw counts, clusters, donors and the names that the documents use."""
    import anndata
    import pandas as pd

    from hgplvm.datasets import make_cells

    cells = make_cells(n_cells, 200, topology="bifurcation", depth=5000, random_state=0)
    genes = ["Mpo", "Gata1", "Car2", *(f"gene{i}" for i in range(197))]
    adata = anndata.AnnData(cells.counts.astype(np.float32), var=pd.DataFrame(index=genes))
    names = np.array(["7MEP", "2Ery", "14Mo"])[np.minimum(cells.branch, 2)]
    adata.obs["paul15_clusters"] = pd.Categorical(names)
    adata.obs["cell_type"] = pd.Categorical(np.where(names == "7MEP", "HSC", names))
    return adata


def own_data(folder: Path) -> dict[str, Any]:
    """What a user has before the quick start: rows with labels, counts with covariates, cells."""
    import pandas as pd

    import hgplvm
    from hgplvm.datasets import make_binary_tree, make_cells

    tree = make_binary_tree(4, random_state=0)
    cells = make_cells(300, 60, n_batches=2, depth=2000, random_state=0)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"donor": np.array(["A", "B"])[cells.batch], "percent_mito": rng.uniform(0.0, 9.0, 300)}
    )
    genes = {f"g{i}": tree.data[:, i] for i in range(12)} | {"GATA1": tree.data[:, 12]}
    types = np.array(["stem", "red", "white"])[np.minimum(tree.node, 2)]
    table = pd.DataFrame({**genes, "cell_type": types})
    table.to_csv(folder / "cells.csv", index=False)
    table[::7].to_csv(folder / "new.csv", index=False)
    return {
        "hgplvm": hgplvm,
        "Y": tree.data,
        "labels": np.where(tree.target == 0, "stem cell", "other"),
        "Y_new": make_binary_tree(4, n_per_node=1, random_state=1).data,
        "counts": cells.counts[:250],
        "cells": frame[:250],
        "new_counts": cells.counts[250:],
        "new_cells": frame[250:],
        "adata": simulated_cells(),
    }


def walk(document: str, folder: Path) -> int:
    """Run all code of a document in a folder; return how many blocks there were."""
    import scanpy

    before, download = Path.cwd(), scanpy.datasets.paul15
    names: dict[str, Any] = {} if document in ("README.md", "docs/index.md") else own_data(folder)
    if document in ("README.md", "docs/command_line.md"):
        own_data(folder)  # files
    scanpy.datasets.paul15 = simulated_cells
    count = 0
    try:
        os.chdir(folder)
        for language, text in blocks(document):
            count += 1
            if language == "python":
                exec(compile(text, document, "exec"), names)
                plt.close("all")
            else:
                run_shell(text)
    finally:
        os.chdir(before)
        scanpy.datasets.paul15 = download
    return count


def run_shell(text: str) -> None:
    """Run the commands of a block, each in this process as the installed script would."""
    from hgplvm.cli import main

    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if not words or line.startswith(ELSEWHERE):
            continue
        if words[0] != "hgplvm":
            raise ValueError(f"The documents name a command that the walk does not know: {line}")
        sys.argv = [*words, *([] if words[1] == "demo" else ["--force"])]
        if words[1] == "plot" and "cells-hgplvm.h5ad" in words:
            write_object()
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"This command failed with code {end.code}: {line}") from None


def write_object() -> None:
    """Write the h5ad file that ``hgplvm fit`` makes of such a file."""
    import anndata
    import pandas as pd

    table = pd.read_csv("cells.csv")
    adata = anndata.AnnData(table.drop(columns="cell_type"))
    adata.obs["cell_type"] = pd.Categorical(table["cell_type"])
    adata.write_h5ad("cells.h5ad")
    run_shell("hgplvm fit cells.h5ad -q")


def main(documents: list[str]) -> None:
    """Walk through documents, and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for document in documents or DOCUMENTS:
            with tempfile.TemporaryDirectory() as folder:
                count = walk(document, Path(folder))
            print(f"{document}: {count} blocks ran", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments)
