"""
Running on several machines
===========================

One fit runs on one machine. With very many rows, fit a sample and embed the others with it. That
can be divided among any number of machines, since each row is placed independently (but for rows of
a batch that the fit has not seen, which belong into one call).
"""

# %%
# Fit a sample, and keep the model in a file. It holds no code, only arrays and a JSON header.

import tempfile
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import hgplvm
from hgplvm.datasets import make_branching

rows = make_branching(2000, n_features=20, random_state=0).data
folder = Path(tempfile.mkdtemp())
sample = np.random.default_rng(0).choice(len(rows), 500, replace=False)
model = hgplvm.VecchiaHGPLVM(random_state=0).fit(rows[sample])
model.save(folder / "map.hgplvm")

# %%
# Each machine loads the file and embeds its share. On a cluster that is one line of a job
# array, ``hgplvm transform map.hgplvm part-$N.csv --out placed-$N.csv``; here two processes
# stand for two machines.


def place(path, part):
    """Embed some rows, as one machine would."""
    return hgplvm.load(path).transform(part)


parts = np.array_split(rows, 4)
placed = Parallel(n_jobs=2)(delayed(place)(folder / "map.hgplvm", part) for part in parts)
together = np.concatenate(placed)

# %%
# The result does not depend on how the rows were divided:

float(np.abs(together - model.transform(rows)).max())

# %%
# The sample, and the rows that were placed on its map:

hgplvm.pl.placed(together, model, size=3, title="2,000 rows on the map of 500")

# %%
# Independent fits (seeds, settings, cross-validation) are divided the same way: ``GridSearchCV``
# and joblib's backends do it, and ``hgplvm reproduce --jobs`` runs the paper's fits in
# parallel. A fit that a queue may interrupt continues where it stopped with
# ``checkpoint="fit.checkpoint"``, or ``--resume``.
