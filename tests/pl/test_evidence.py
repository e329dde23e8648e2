"""The picture of the evidence for a flat or a curved space."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

from hgplvm import HGPLVM, pl
from hgplvm._curvature import Curvature
from tests.pl.helpers import scatters

VERDICT = Curvature(
    True,
    "curved by 3.1 standard errors",
    3.1,
    gain=0.02,
    gain_error=0.004,
    gains=np.array([0.01, 0.02, 0.03, 0.02]),
    defect=0.12,
    defect_error=0.05,
    path_defect=0.01,
    hierarchy=0.7,
    beyond_plane=0.3,
    n_groups=11,
    scale=2.0,
    scale_low=1.8,
    scale_high=2.2,
)
QUICK = replace(VERDICT, gain=math.nan, gain_error=math.nan, gains=np.zeros(0))
HALF = 1.6449  # of a 90% interval


def words(ax):
    return [text.get_text().strip() for text in ax.texts]


def level_lines(ax, axis):
    """Where lines stand that cross the axes."""
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) == 2]
    values = [line.get_ydata() if axis == "y" else line.get_xdata() for line in lines]
    return [v[0] for v in values if v[0] == v[1]]


def test_gains_of_the_splits_stand_on_the_left():
    left, _ = pl.curvature(VERDICT)
    (dots,) = scatters(left)
    np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 1], VERDICT.gains)
    np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 0], [1, 2, 3, 4])
    assert {0.0, 0.02} <= set(level_lines(left, "y"))
    (band,) = left.patches
    low, high = band.get_y(), band.get_y() + band.get_height()
    assert low == pytest.approx(0.02 - HALF * 0.004, abs=1e-5)
    assert high == pytest.approx(0.02 + HALF * 0.004, abs=1e-5)


def test_the_defect_stands_between_a_tree_and_flat_data():
    _, right = pl.curvature(VERDICT)
    (bars,) = right.containers
    point, _, (interval,) = bars
    assert point.get_xdata()[0] == pytest.approx(0.12)
    (segment,) = interval.get_segments()
    np.testing.assert_allclose(segment[:, 0], [0.12 - HALF * 0.05, 0.12 + HALF * 0.05], atol=1e-4)
    at = dict(zip(words(right), (text.get_position()[0] for text in right.texts), strict=True))
    assert at == pytest.approx({"tree": 0.0, "flat": 0.38})
    assert {0.0, 0.38} <= set(level_lines(right, "x"))


def test_the_reason_is_the_title():
    left, _ = pl.curvature(VERDICT)
    assert left.figure.get_suptitle() == VERDICT.reason


def test_what_was_not_computed_is_said():
    left, right = pl.curvature(QUICK)
    assert words(left) == ["not computed"]
    assert scatters(left) == []
    assert len(right.containers) == 1


def test_a_defect_that_is_none_is_not_drawn():
    nothing = replace(QUICK, defect=math.nan, defect_error=math.nan)
    _, right = pl.curvature(nothing)
    assert not right.containers
    assert words(right) == ["tree", "flat"]
    _, right = pl.curvature(replace(QUICK, defect_error=math.nan))
    (bars,) = right.containers
    assert bars[0].get_xdata()[0] == pytest.approx(0.12)
    right.figure.canvas.draw()


def test_objects_and_models_are_drawn_as_well(cells, model):
    cells.uns["hgplvm"] = {**cells.uns["hgplvm"], "curvature": asdict(VERDICT)}
    left, _ = pl.curvature(cells)
    (dots,) = scatters(left)
    np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 1], VERDICT.gains)
    cells.uns["other"], cells.obsm["X_other"] = cells.uns.pop("hgplvm"), cells.obsm["X_hgplvm"]
    left, _ = pl.curvature(cells, key="other")
    assert left.figure.get_suptitle() == VERDICT.reason


def test_a_model_is_asked(model, monkeypatch):
    monkeypatch.setattr(type(model), "curvature", lambda self: VERDICT)
    left, _ = pl.curvature(model)
    assert left.figure.get_suptitle() == VERDICT.reason


@pytest.mark.parametrize("thing", [None, 3, "a", np.zeros(3), {"gain": 1.0}])
def test_things_without_evidence(thing):
    with pytest.raises(ValueError, match=r"'adata' of pl\.curvature must be an AnnData object aft"):
        pl.curvature(thing)
    assert plt.get_fignums() == []


def test_an_object_must_have_been_asked(cells):
    with pytest.raises(ValueError, match=r"finds no verdict: run hgplvm\.tl\.curvature\(adata\)"):
        pl.curvature(cells)
    with pytest.raises(ValueError, match=r"pl\.curvature finds no embedding under the key 'k'"):
        pl.curvature(cells, key="k")
    with pytest.raises(ValueError, match=r"not fitted|fit"):
        pl.curvature(HGPLVM())
    assert plt.get_fignums() == []


def test_windows_and_files(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    axes = pl.curvature(VERDICT, save=tmp_path / "a.png")
    assert isinstance(axes, list)
    assert len(axes) == 2
    assert axes[0].figure is axes[1].figure
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert calls == []
    pl.curvature(VERDICT, show=True)
    assert calls == [1]
    with pytest.raises(ValueError, match="'save' parameter of curvature must be"):
        pl.curvature(VERDICT, save=tmp_path / "a.xyz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
