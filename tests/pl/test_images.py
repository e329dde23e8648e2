"""Pictures as they look, against stored ones; data and models are in closed form.

To write the stored ones anew: HGPLVM_WRITE_BASELINES=1 pytest tests/pl/test_images.py, then look at
each file in tests/pl/baseline.
"""

import os
from pathlib import Path

import anndata
import matplotlib
import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.testing.compare import compare_images
from matplotlib.testing.exceptions import ImageComparisonFailure
from PIL import Image

import hgplvm
from hgplvm import pl
from tests.pl.helpers import SEARCH, STEPS, ClosedForm, Written, lorentz_of, moved_from_origin

BASELINE = Path(__file__).parent / "baseline"
# root mean square difference of the pixels, of 255
TOLERANCE = 3.0
MOST_BYTES = 30_000


def branches():
    """Three branches from a middle that is off the origin, [90, 2], and their numbers."""
    along = np.linspace(0.15, 3.2, 30)
    parts = []
    for branch in range(3):
        angle = 2 * np.pi * branch / 3 + 0.25 * np.sin(3 * along)
        radius = np.tanh(along / 2)
        parts.append(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1))
    return moved_from_origin(np.concatenate(parts), [0.35, 0.2]), np.repeat(np.arange(3), 30)


POINTS, BRANCH = branches()
NAMES = np.array(["erythroid", "myeloid", "lymphoid"])[BRANCH]
TIME = np.tile(np.linspace(0.15, 3.2, 30), 3)


class Posterior:
    """Positions that are less sure the farther along their branch."""

    embedding_ = POINTS
    posterior_cov_ = (0.05 * TIME)[:, None, None] ** 2 * np.array([[2.0, 1.2], [1.2, 1.5]])


def model():
    return ClosedForm(POINTS, ["Gata1", "Spi1", "Klf1"])


def cells():
    """Cells on the branches, with a gene and a skeleton."""
    adata = anndata.AnnData(
        np.stack([np.sin(TIME), TIME], axis=1), var=pd.DataFrame(index=["Gata1", "Spi1"])
    )
    adata.obs["type"] = pd.Categorical(NAMES)
    adata.obs["time"] = TIME
    adata.obsm["X_hgplvm"], adata.obsm["X_hgplvm_lorentz"] = POINTS, lorentz_of(POINTS)
    adata.obsm["hgplvm_covariance"] = np.tile([1e-4, 0.0, 0.0, 1e-4], (90, 1))
    adata.uns["hgplvm"] = {"params": {}}
    hgplvm.tl.lineages(
        adata, edges=[("erythroid", "myeloid"), ("erythroid", "lymphoid")], groupby="type"
    )
    return adata


MANY = np.array([f"cluster {i:02d}" for i in range(15)])[np.arange(90) // 6]
PICTURES = {
    "poincare_categories": lambda: pl.poincare(POINTS, NAMES, title="branches"),
    "poincare_zoomed": lambda: pl.poincare(0.4 * POINTS, NAMES, edges=[(0, 29), (30, 59)]),
    "poincare_numbers": lambda: pl.poincare(
        POINTS, TIME, root=0, zoom=1.1, grid="geodesic", palette="magma", size=40
    ),
    "poincare_on_data": lambda: pl.poincare(0.5 * POINTS, MANY, legend="on data", size=40),
    "poincare_panels": lambda: pl.poincare(cells(), ["type", "time", "Gata1"], ncols=2)[0],
    "lineages": lambda: pl.lineages(cells()),
    "placed": lambda: pl.placed(0.9 * POINTS[::9], POINTS, off_map=np.arange(10) / 100),
    "uncertainty": lambda: pl.uncertainty(Posterior(), NAMES),
    "decoder": lambda: pl.decoder(model(), ["Gata1", "Spi1"], resolution=61)[0],
    "trajectory": lambda: pl.trajectory(model(), 0, [29, 59], features=["Gata1", "Spi1"])[0],
    "length_scales": lambda: pl.length_scales(Written(**SEARCH)),
    "history": lambda: pl.history(Written(**STEPS), "gradient_norm", title="fit"),
    "compare": lambda: pl.compare({"disk": POINTS, "plane": 4 * POINTS}, NAMES, root=0)[0],
}


def draw(name, path):
    with matplotlib.style.context("default"), matplotlib.rc_context({"font.family": "DejaVu Sans"}):
        PICTURES[name]().figure.savefig(path, dpi=60, metadata={"Software": None})


@pytest.mark.parametrize("name", PICTURES)
def test_it_looks_as_it_did(name, tmp_path):
    stored, path = BASELINE / f"{name}.png", tmp_path / f"{name}.png"
    if os.environ.get("HGPLVM_WRITE_BASELINES") == "1":
        draw(name, path)
        with Image.open(path) as image:
            image.convert("RGB").save(stored, optimize=True)
            if stored.stat().st_size >= MOST_BYTES:  # 256 colours take a third of them
                few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
                few.save(stored, optimize=True)
    draw(name, path)
    assert compare_images(str(stored), str(path), TOLERANCE) is None


def test_stored_pictures_are_small_and_all_used():
    files = {file.stem: file.stat().st_size for file in BASELINE.glob("*.png")}
    assert files.keys() == PICTURES.keys()
    assert max(files.values()) < MOST_BYTES


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("poincare_categories", lambda: pl.poincare(POINTS, NAMES[::-1], title="branches")),
        ("lineages", lambda: pl.lineages(cells(), "type")),
        ("placed", lambda: pl.placed(0.9 * POINTS[::9], POINTS)),
        (
            "poincare_numbers",
            lambda: pl.poincare(
                POINTS, TIME, root=1, zoom=1.1, grid="geodesic", palette="magma", size=40
            ),
        ),
        ("uncertainty", lambda: pl.uncertainty(Posterior(), NAMES, level=0.3)),
        ("decoder", lambda: pl.decoder(model(), ["Gata1", "Klf1"], resolution=61)[0]),
    ],
)
def test_a_picture_that_changed_is_seen(name, changed, tmp_path):
    path = tmp_path / "changed.png"
    with matplotlib.style.context("default"), matplotlib.rc_context({"font.family": "DejaVu Sans"}):
        changed().figure.savefig(path, dpi=60)
    plt.close("all")
    try:
        difference = compare_images(str(BASELINE / f"{name}.png"), str(path), TOLERANCE)
    except ImageComparisonFailure as error:  # of other sizes
        difference = str(error)
    assert difference is not None


LONG = np.array([f"haematopoietic stem cell {i:02d}" for i in range(25)])[np.arange(90) % 25]
WHOLE = {
    **PICTURES,
    "one column of names": lambda: pl.poincare(
        POINTS, np.char.add(NAMES, " progenitor cells, late")
    ),
    "two columns of names": lambda: pl.poincare(POINTS, LONG),
}


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_cut_off(name):
    figure = WHOLE[name]().figure
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.xmin > -0.01
    assert drawn.ymin > -0.01
    assert drawn.xmax < width + 0.01
    assert drawn.ymax < height + 0.01
