"""Rows whose place other fits do not confirm stand on a grey dot."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from hgplvm import pl
from tests.pl.helpers import moved_to_origin, scatters

GREY = to_rgb("#888888")


@pytest.fixture
def judged(cells):
    stability = np.linspace(0.5, 1.0, 60)
    stability[3] = np.nan
    cells.obs["hgplvm_stability"] = stability
    return cells


@pytest.fixture
def unstable(judged):
    """Rows below 0.8; one of which nothing is known is none."""
    return np.flatnonzero(judged.obs["hgplvm_stability"] < 0.8)


def shades(ax):
    return [s for s in scatters(ax) if np.allclose(s.get_facecolor()[0, :3], GREY)]


def test_rows_below_the_limit_are_shaded(judged, unstable, points):
    ax = pl.poincare(judged)
    (grey,) = shades(ax)
    np.testing.assert_allclose(grey.get_offsets(), points[unstable])
    assert 30 < len(unstable) < 40
    (rows,) = [s for s in scatters(ax) if s is not grey]
    assert len(rows.get_offsets()) == 60
    assert grey.get_zorder() < rows.get_zorder()
    assert grey.get_sizes()[0] > rows.get_sizes()[0]


@pytest.mark.parametrize("color", ["type", "depth", "Gata1"])
def test_rows_are_shaded_whatever_their_colour(judged, unstable, points, color):
    (grey,) = shades(pl.poincare(judged, color))
    np.testing.assert_allclose(grey.get_offsets(), points[unstable])


def test_shades_move_with_the_rows(judged, unstable, points):
    (grey,) = shades(pl.poincare(judged, root=7))
    np.testing.assert_allclose(grey.get_offsets(), moved_to_origin(points, points[7])[unstable])


def test_rows_are_not_shaded_where_it_is_not_wanted(judged):
    assert shades(pl.poincare(judged, shade=False)) == []
    assert len(scatters(pl.poincare(judged, shade=False))) == 1


def test_nothing_is_shaded_where_all_is_stable_or_not_known(cells, points):
    assert shades(pl.poincare(cells)) == []
    cells.obs["hgplvm_stability"] = 0.8
    assert shades(pl.poincare(cells)) == []
    cells.obs["hgplvm_stability"] = np.nan
    assert shades(pl.poincare(cells)) == []
    assert shades(pl.poincare(points)) == []


def test_stability_is_that_of_the_key(judged, points):
    judged.obsm["X_other"] = -points
    assert shades(pl.poincare(judged, key="other")) == []
    judged.obs["other_stability"] = np.where(np.arange(60) == 5, 0.1, 0.9)
    (grey,) = shades(pl.poincare(judged, key="other"))
    np.testing.assert_allclose(grey.get_offsets(), -points[[5]])


def test_every_panel_is_shaded(judged):
    axes = pl.poincare(judged, ["type", "depth"])
    assert [len(shades(ax)) for ax in axes] == [1, 1]
    axes = pl.poincare(judged, ["type", "depth"], shade=False)
    assert [len(shades(ax)) for ax in axes] == [0, 0]


@pytest.mark.parametrize("shade", ["yes", 1, None])
def test_shade_is_yes_or_no(judged, shade):
    with pytest.raises(ValueError, match=r"'shade' parameter of poincare must be True or False"):
        pl.poincare(judged, shade=shade)
