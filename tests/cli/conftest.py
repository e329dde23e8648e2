"""Sixty cells of three types, in files; and one model that was fitted to them."""

from types import SimpleNamespace

import numpy as np
import pytest

from hgplvm._tables import write_table
from tests.cli.command import check, run

TYPES = np.array(["stem", "red", "white"])


def cells():
    """Columns of the table: names, six genes, and the cell type."""
    random = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], 20)
    data = random.normal(size=(60, 6)) * 0.3 + 2 * random.normal(size=(3, 6))[kind]
    genes = {f"g{j}": data[:, j].round(6) for j in range(6)}
    return {"cell": np.array([f"c{i}" for i in range(60)]), **genes, "cell_type": TYPES[kind]}


@pytest.fixture(scope="session")
def columns():
    return cells()


@pytest.fixture(scope="session")
def data(columns):
    """The numbers alone, [60, 6]."""
    return np.column_stack([columns[f"g{j}"] for j in range(6)])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder in which commands within this process run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(tmp_path, columns):
    """A folder with the cells in it."""
    write_table(tmp_path / "cells.csv", columns)
    return tmp_path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory, columns):
    """The one fit that most tests share, with all names left to the command."""
    place = tmp_path_factory.mktemp("fitted")
    write_table(place / "cells.csv", columns)
    words = ["fit", "cells.csv", "--root", "cell_type=stem", "--max-iter", "5", "--resume", "state"]
    done = check(run(*words, cwd=place))
    return SimpleNamespace(
        folder=place,
        words=words,
        stdout=done.stdout,
        data=place / "cells.csv",
        embedding=place / "cells-hgplvm.csv",
        model=place / "cells-hgplvm.hgplvm",
        picture=place / "cells-hgplvm.png",
    )
