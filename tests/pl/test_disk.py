"""The disk: where points, circles, geodesics and names stand."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

from hgplvm import GPLVM, HGPLVM, pl
from tests.pl.helpers import (
    grid_lines,
    hyperbolic,
    legend_words,
    moved_to_origin,
    pairwise,
    scatters,
)

MARGIN = 1.03


def test_points_and_boundary_are_drawn_with_equal_aspect(points):
    ax = pl.poincare(points)
    (scatter,) = scatters(ax)
    assert np.allclose(scatter.get_offsets(), points)
    assert max(patch.get_radius() for patch in ax.patches) == 1.0
    assert ax.get_aspect() == 1.0
    assert np.allclose([*ax.get_xlim(), *ax.get_ylim()], [-MARGIN, MARGIN] * 2)
    assert not ax.axison


def test_a_fitted_model_is_drawn_by_its_embedding(model, fitted):
    (scatter,) = scatters(pl.poincare(model))
    assert np.allclose(scatter.get_offsets(), model.embedding_)
    (again,) = scatters(pl.poincare(fitted))
    assert np.allclose(again.get_offsets(), model.embedding_)


def test_the_key_names_the_embedding(cells, points):
    cells.obsm["X_other"] = -points
    (scatter,) = scatters(pl.poincare(cells, key="other"))
    assert np.allclose(scatter.get_offsets(), -points)


# --- grids ----------------------------------------------------------------------------------


def test_circles_stand_at_whole_distances(points):
    ax = pl.poincare(points)
    radii = sorted(patch.get_radius() for patch in ax.patches)
    assert np.allclose(radii[:-1], np.tanh(np.arange(1, 5) / 2))
    assert all(patch.get_center() == (0, 0) for patch in ax.patches)
    for radius, at in zip(radii, range(1, 5), strict=False):
        assert hyperbolic(np.zeros(2), np.array([radius, 0])) == pytest.approx(at)


def test_rays_go_from_the_origin_to_the_boundary_every_thirty_degrees(points):
    lines = grid_lines(pl.poincare(points))
    assert np.allclose([line[0] for line in lines], 0)
    ends = np.array([line[1] for line in lines])
    angles = np.degrees(np.arctan2(*ends.T[::-1])) % 360
    assert np.allclose(np.linalg.norm(ends, axis=1), 1)
    assert np.allclose(np.sort(np.round(angles, 9) % 360), np.arange(0, 360, 30))


def test_geodesics_are_arcs_at_right_angles_to_the_boundary(points):
    lines = grid_lines(pl.poincare(points, grid="geodesic"))
    assert len(lines) == 18
    seen = []
    for line in lines:
        # which axis it crosses, and at which distance from the origin
        middle = line[len(line) // 2]
        axis = int(np.argmax(np.abs(middle))) if np.abs(middle).max() > 1e-9 else None
        assert np.allclose(np.linalg.norm(line[[0, -1]], axis=1), 1, atol=1e-6)
        if axis is None:  # a diameter
            axis = int(np.ptp(line[:, 0]) > np.ptp(line[:, 1]))
            assert np.allclose(line[:, axis], 0, atol=1e-9)
            seen.append((axis, 0))
            continue
        k = float(np.sign(middle[axis]) * hyperbolic(np.zeros(2), middle))
        assert k == pytest.approx(round(k))
        # circle of centre coth k on the axis and radius 1/sinh |k|: centre² = 1 + radius²
        centre = np.zeros(2)
        centre[axis] = 1 / np.tanh(k)
        assert np.allclose(np.linalg.norm(line - centre, axis=1), 1 / np.sinh(abs(k)), atol=1e-6)
        inner = line[np.linalg.norm(line, axis=1) < 1 - 1e-6]
        assert hyperbolic(np.zeros(2), inner).min() == pytest.approx(abs(k))
        seen.append((axis, round(k)))
    assert sorted(seen) == [(axis, k) for axis in (0, 1) for k in range(-4, 5)]


@pytest.mark.parametrize(
    ("grid", "circles", "lines"),
    [("polar", 5, 12), (True, 5, 12), ("geodesic", 1, 18), ("none", 1, 0), (False, 1, 0)],
)
def test_the_grid_is_what_was_asked_for(points, grid, circles, lines):
    ax = pl.poincare(points, grid=grid)
    assert len(ax.patches) == circles
    assert (len(grid_lines(ax)) if lines else len(ax.collections) - 1) == lines


# --- recentring and zoom --------------------------------------------------------------------


def test_a_root_goes_to_the_origin_by_an_isometry(points):
    (scatter,) = scatters(pl.poincare(points, root=7))
    found = np.asarray(scatter.get_offsets())
    assert np.allclose(found[7], 0, atol=1e-12)
    assert np.allclose(pairwise(found), pairwise(points), atol=1e-6)
    assert np.allclose(found, moved_to_origin(points, points[7]))  # and nothing is turned


@pytest.mark.parametrize("root", [-53, "cell7", np.int64(7)])
def test_roots_that_are_rows(cells, points, root):
    (scatter,) = scatters(pl.poincare(cells, root=root))
    assert np.allclose(scatter.get_offsets(), moved_to_origin(points, points[7]))


def test_a_root_may_be_a_point(points):
    at = np.array([0.3, -0.6])
    (scatter,) = scatters(pl.poincare(points, root=at))
    assert np.allclose(scatter.get_offsets(), moved_to_origin(points, at))


@pytest.mark.parametrize("kind", ["dict", "mask", "column"])
def test_the_middle_of_a_group_goes_to_the_origin(cells, kind):
    mask = (cells.obs["type"] == "red").to_numpy()
    root = {"dict": {"type": "red"}, "mask": mask, "column": cells.obs["type"] == "red"}[kind]
    (scatter,) = scatters(pl.poincare(cells, root=root))
    own = np.asarray(scatter.get_offsets())[mask]
    # at the Fréchet mean the vectors Log(x) add up to zero
    radius = np.linalg.norm(own, axis=1, keepdims=True)
    assert np.allclose((2 * np.arctanh(radius) * own / radius).sum(0), 0, atol=1e-8)


@pytest.mark.parametrize("zoom", [0.5, 1, 2.5])
def test_zoom_magnifies_about_the_origin(points, zoom):
    ax = pl.poincare(points, zoom=zoom)
    assert np.allclose([*ax.get_xlim(), *ax.get_ylim()], [-MARGIN / zoom, MARGIN / zoom] * 2)


def test_zoom_auto_makes_the_points_fill_the_picture():
    points = np.array([[0.1, -0.4], [0.2, 0.3]])
    ax = pl.poincare(points, zoom="auto")
    assert np.allclose([*ax.get_xlim(), *ax.get_ylim()], [-0.44, 0.44] * 2)
    moved = moved_to_origin(points, points[0])
    ax = pl.poincare(points, zoom="auto", root=0)
    assert ax.get_xlim()[1] == pytest.approx(1.1 * np.abs(moved).max())


@pytest.mark.parametrize("points", [[[0.0, 0.0]], [[0.0, 0.99], [0.1, 0.2]]])
def test_zoom_auto_never_shows_more_than_the_disk(points):
    assert pl.poincare(np.array(points), zoom="auto").get_xlim()[1] == pytest.approx(MARGIN)


# --- points ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20_000, 20_001])
def test_many_points_are_an_image_in_vector_files(n):
    (scatter,) = scatters(pl.poincare(np.zeros((n, 2))))
    assert scatter.get_rasterized() == (n > 20_000)


def test_sizes_shrink_with_the_number_of_points(points):
    sizes = [scatters(pl.poincare(np.zeros((n, 2))))[0].get_sizes()[0] for n in (60, 2000, 100_000)]
    assert sizes == [24, 6, 1]
    assert scatters(pl.poincare(points, size=7.5))[0].get_sizes()[0] == 7.5


def test_the_largest_values_are_drawn_last_and_nan_is_grey(points):
    values = np.random.default_rng(0).standard_normal(60)
    values[[3, 30]] = np.nan
    grey, scatter = scatters(pl.poincare(points, values))
    order = np.argsort(np.where(np.isnan(values), np.inf, values))[:58]
    assert np.allclose(scatter.get_array(), values[order])
    assert np.allclose(scatter.get_offsets(), points[order])
    assert np.allclose(grey.get_offsets(), points[[3, 30]])
    assert np.allclose(grey.get_facecolor()[0][:3], to_rgb("#bbbbbb"))


def test_values_that_are_all_nan_are_grey_without_a_colour_bar(points):
    ax = pl.poincare(points, np.full(60, np.nan))
    assert np.allclose(scatters(ax)[0].get_facecolor()[0][:3], to_rgb("#bbbbbb"))
    assert len(ax.figure.axes) == 1


def test_the_palette_of_numbers(points):
    values = np.arange(60.0)
    by_name = scatters(pl.poincare(points, values, palette="magma"))[0]
    assert by_name.get_cmap().name == "magma"
    along = scatters(pl.poincare(points, values, palette=["white", "red"]))[0].get_cmap()
    assert np.allclose(along(0.5)[:3], [1, 0.5, 0.5], atol=0.01)
    assert scatters(pl.poincare(points, values))[0].get_cmap().name == "viridis"


def test_numbers_have_a_colour_bar_unless_it_is_not_wanted(points):
    values = np.arange(60.0)
    ax = pl.poincare(points, values)
    assert legend_words(ax) is None
    assert len(ax.figure.axes) == 2
    assert len(pl.poincare(points, values, legend="none").figure.axes) == 1
    assert len(pl.poincare(points, values, legend=False).figure.axes) == 1


# --- legends --------------------------------------------------------------------------------


def test_categories_have_a_legend_at_the_side(points):
    labels = np.array(["b", "a"])[(points[:, 0] > 0).astype(int)]
    ax = pl.poincare(points, labels)
    assert legend_words(ax) == ["a", "b"]
    for scatter, name in zip(scatters(ax), "ab", strict=True):
        assert np.allclose(scatter.get_offsets(), points[labels == name])
    assert legend_words(pl.poincare(points, labels, legend=True)) == ["a", "b"]
    for off in (False, "none"):
        ax = pl.poincare(points, labels, legend=off)
        assert legend_words(ax) is None
        assert not ax.texts


def test_names_on_data_stand_at_the_middle_of_their_points(points):
    labels = np.array(["b", "a", None], dtype=object)[np.arange(60) % 3]
    ax = pl.poincare(points, labels, legend="on data")
    assert legend_words(ax) is None
    assert [text.get_text() for text in ax.texts] == ["a", "b"]  # missing has no name
    for text in ax.texts:
        own = moved_to_origin(points[labels == text.get_text()], text.get_position())
        radius = np.linalg.norm(own, axis=1, keepdims=True)
        assert np.allclose((2 * np.arctanh(radius) * own / radius).sum(0), 0, atol=1e-8)


def test_names_on_data_count_only_points_that_are_seen():
    points = np.array([[0.1, 0.0], [0.2, 0.1], [0.9, 0.0], [0.0, 0.95]])
    labels = np.array(["in", "in", "in", "out"])
    ax = pl.poincare(points, labels, legend="on data", zoom=2)
    assert [text.get_text() for text in ax.texts] == ["in"]
    x, y = ax.texts[0].get_position()
    assert x == pytest.approx(0.15, abs=0.01)
    assert y == pytest.approx(0.05, abs=0.01)


def test_more_than_twenty_names_stand_in_two_columns(points):
    for n, columns in ((20, 1), (21, 2)):
        labels = np.array([f"k{i % n:02d}" for i in range(60)])
        assert pl.poincare(points, labels).get_legend()._ncols == columns


def test_long_names_widen_the_figure_that_is_made_for_them(points):
    short, long = (
        pl.poincare(points, np.array([name, "b"])[np.arange(60) % 2]).figure.get_figwidth()
        for name in ("a", "a" * 40)
    )
    assert short < 6.0
    assert 7.5 < long < 9.5


# --- panels ---------------------------------------------------------------------------------


def test_several_colours_give_a_panel_each(cells):
    names = ["type", "depth", "Gata1", "batch"]
    axes = pl.poincare(cells, names, root=3, zoom=1.5)
    assert [ax.get_title() for ax in axes] == names
    assert len({ax.figure for ax in axes}) == 1
    columns = [ax.get_subplotspec().colspan.start for ax in axes]
    rows = [ax.get_subplotspec().rowspan.start for ax in axes]
    assert (columns, rows) == ([0, 1, 2, 0], [0, 0, 0, 1])
    others = [a for a in axes[0].figure.axes if a not in axes and not a.get_label()]
    assert len(others) == 2
    assert not any(a.axison for a in others)
    for ax in axes:
        assert ax.get_xlim()[1] == pytest.approx(MARGIN / 1.5)
        drawn = np.concatenate([s.get_offsets() for s in scatters(ax)])
        assert np.linalg.norm(drawn, axis=1).min() == pytest.approx(0, abs=1e-12)


def test_one_name_in_a_list_is_one_panel(cells):
    axes = pl.poincare(cells, ["type"])
    assert isinstance(axes, list)
    assert len(axes) == 1


def test_a_list_with_an_entry_a_row_holds_labels_unless_all_are_names(cells):
    few = cells[:3].copy()
    ax = pl.poincare(few, ["x", "y", "type"])
    assert legend_words(ax) == ["type", "x", "y"]
    axes = pl.poincare(few, ["type", "depth", "Gata1"])
    assert [one.get_title() for one in axes] == ["type", "depth", "Gata1"]
    assert legend_words(pl.poincare(few.obsm["X_hgplvm"], ["x", "y", "x"])) == ["x", "y"]


def test_panels_are_saved_as_one_file_and_shown_once(cells, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    pl.poincare(cells, ["type", "depth"], save=tmp_path / "a.png", show=True)
    assert calls == [1]
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


# --- titles ---------------------------------------------------------------------------------


def test_the_title_is_the_name_of_the_colour_or_what_was_asked_for(cells):
    assert pl.poincare(cells, "depth").get_title() == "depth"
    assert pl.poincare(cells, "depth", title="deep").get_title() == "deep"
    assert pl.poincare(cells, "depth", title="").get_title() == ""
    assert pl.poincare(cells, np.arange(60.0)).get_title() == ""


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"legend": "left"}, r"'legend' parameter of poincare must be one of 'side', 'on data'"),
        ({"legend": 1}, r"'legend' parameter of poincare .* Got 1 instead"),
        ({"grid": "square"}, r"'grid' parameter of poincare must be one of 'polar', 'geodesic'"),
        ({"zoom": 0}, r"'zoom' parameter of poincare .* \(0, inf\) or one of 'auto'. Got 0"),
        ({"zoom": -1.0}, r"'zoom' parameter of poincare .* Got -1.0"),
        ({"zoom": "most"}, r"'zoom' parameter of poincare .* Got 'most'"),
        ({"zoom": np.nan}, r"'zoom' parameter of poincare .* Got nan"),
        ({"root": 60}, r"'root' of poincare must be a row index below 60.* Got 60 instead"),
        ({"root": "cell7"}, r"'root' of poincare must be a row index below 60.* Got 'cell7'"),
        ({"root": np.zeros(60, bool)}, r"as a mask, .* Got shape \(60,\) with 0 True"),
        ({"root": np.ones(3, bool)}, r"as a mask, .* Got shape \(3,\) with 3 True"),
        ({"root": [1.0, 0.5]}, r"'root' of poincare must hold Poincaré ball coordinates"),
        ({"root": [0.1, 0.2, 0.3]}, r"a point of 2 coordinates. Got \[0.1, 0.2, 0.3\]"),
    ],
)
def test_bad_options(points, change, message):
    with pytest.raises(ValueError, match=message):
        pl.poincare(points, **change)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("nobody", r"'root' of poincare must be the name of one row, and 0 have the name 'nobody'"),
        ({"type": "red", "batch": 0}, r"as a dict, must name one column of adata.obs and one of"),
        ({}, r"as a dict, must name one column"),
        ({"kind": "red"}, r"names 'kind', which is no column of adata.obs; there are 'type', 'dep"),
        (
            {"type": "blue"},
            r"names 'blue', which no row has in 'type'; there are 'red', 'stem', 'w",
        ),
    ],
)
def test_bad_roots_of_annotated_data(cells, root, message):
    with pytest.raises(ValueError, match=message):
        pl.poincare(cells, root=root)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: np.full((5, 2), 0.9), r"must lie inside the unit disk; a point has radius 1.273"),
        (lambda: np.eye(2), r"must lie inside the unit disk; a point has radius 1\."),
        (lambda: np.zeros((5, 3)), r"must have 2 columns, .* Got 3 instead; fit with n_components"),
        (lambda: np.zeros(5), r"2-D array .* Got an array of shape \(5,\)"),
        (lambda: np.full((5, 2), np.nan), r"'adata' of poincare must be finite"),
        (lambda: HGPLVM(), r"Got HGPLVM\(\), which is flat or not fitted: call its fit first"),
        (lambda: GPLVM(max_iter=1).fit(np.eye(5)), r"flat or not fitted: .* in the plane"),
        (lambda: "disk", r"'adata' of poincare must be an array of real numbers. Got 'disk'"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        pl.poincare(data())
    assert not plt.get_fignums()


@pytest.mark.parametrize("change", [{"ax": True}, {"title": "four"}])
def test_panels_take_neither_axes_nor_a_title(cells, change):
    if "ax" in change:
        change = {"ax": plt.figure().add_subplot()}
    before = plt.get_fignums()
    with pytest.raises(ValueError, match=r"a panel for each of the 2 colours, .* neither 'ax' nor"):
        pl.poincare(cells, ["type", "depth"], **change)
    assert plt.get_fignums() == before


def test_a_bad_name_among_several_leaves_no_figure(cells):
    with pytest.raises(ValueError, match=r"Got 'nobody', which is none"):
        pl.poincare(cells, ["type", "nobody"])
    assert not plt.get_fignums()


def test_categories_of_a_column_that_pandas_made(points):
    labels = pd.Series(np.array(["low", "high"])[np.arange(60) % 2], dtype="category")
    labels = labels.cat.reorder_categories(["low", "high"])
    assert legend_words(pl.poincare(points, labels)) == ["low", "high"]
