"""The disk: where points, circles, geodesics and names stand."""

from itertools import pairwise as pairwise_of

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from hgplvm import GPLVM, HGPLVM, pl
from tests.pl.helpers import (
    bars,
    grid_lines,
    hyperbolic,
    legend_colours,
    legend_words,
    locators,
    moved_to_origin,
    names_on,
    of_colour,
    pairwise,
    scale_on,
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


@pytest.mark.parametrize("root", [None, 0])
def test_by_default_the_points_fill_the_picture(root):
    points = np.array([[0.1, -0.4], [0.2, 0.3], [0.6, 0.1]])
    ax = pl.poincare(points, root=root)
    seen = points if root is None else moved_to_origin(points, points[root])
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    assert (seen > low).all()
    assert (seen < high).all()
    extent = np.ptp(seen, axis=0)
    assert ((high - low) / extent).min() == pytest.approx(1.14)
    assert np.allclose((low + high) / 2, (seen.min(0) + seen.max(0)) / 2)


def test_a_long_row_of_points_is_seen_in_a_picture_that_is_not_too_long():
    ax = pl.poincare(np.stack([np.linspace(-0.5, 0.5, 9), np.zeros(9)], axis=1))
    width, height = np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
    assert width / height == pytest.approx(1.6)
    box = ax.get_position()
    inches = ax.figure.get_size_inches() * [box.width, box.height]
    assert inches[0] / inches[1] == pytest.approx(1.6)


@pytest.mark.parametrize(
    "points", [[[0.0, 0.0]], [[0.3, 0.1]] * 3, [[0.0, 0.9], [0.8, -0.2], [-0.7, -0.6]]]
)
def test_points_all_over_the_disk_or_a_single_one_show_the_whole_of_it(points):
    ax = pl.poincare(np.array(points))
    assert np.allclose([*ax.get_xlim(), *ax.get_ylim()], [-MARGIN, MARGIN] * 2)
    assert not locators(ax)


def test_a_small_disk_says_where_the_picture_is():
    points = np.array([[0.1, 0.1], [0.2, 0.3], [0.4, 0.1]])
    (small,) = locators(pl.poincare(points))
    disk, window = small.patches
    assert disk.get_radius() == 1.0
    ax = pl.poincare(points)
    assert window.get_x() == pytest.approx(ax.get_xlim()[0])
    assert window.get_width() == pytest.approx(np.ptp(ax.get_xlim()))
    assert not locators(pl.poincare(points, zoom=1))
    assert not locators(pl.poincare(points, frameon=False))


def test_numbers_at_circles_are_their_distances(points):
    for shown in (points, 0.2 * points, 0.01 * points):
        found = scale_on(pl.poincare(shown))
        assert 1 <= len(found) <= 6
        for text, place in found:
            assert hyperbolic(np.zeros(2), place) == pytest.approx(float(text))
    assert not scale_on(pl.poincare(points, grid="none"))
    assert not scale_on(pl.poincare(points, frameon=False))


def test_without_a_frame_there_are_points_alone(points):
    ax = pl.poincare(points, frameon=False)
    assert not ax.patches
    assert len(ax.collections) == 1


# --- edges ----------------------------------------------------------------------------------


def segments(ax):
    found = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_zorder() == 4]
    return [np.asarray(line) for line in found[-1].get_segments()]


@pytest.mark.parametrize("root", [None, 4])
def test_edges_are_geodesics_between_rows(points, root):
    ax = pl.poincare(points, edges=[(0, 5), (7, -1)], root=root)
    seen = points if root is None else moved_to_origin(points, points[root])
    for line, (a, b) in zip(segments(ax), [(0, 5), (7, -1)], strict=True):
        assert np.allclose(line[[0, -1]], seen[[a, b]], atol=1e-9)
        steps = hyperbolic(line[:-1], line[1:])
        assert steps.sum() == pytest.approx(hyperbolic(seen[a], seen[b]), rel=1e-6)


def test_edges_between_labels_join_their_middles(cells, points):
    ax = pl.poincare(cells, "type", edges=[("stem", "red"), ("stem", "white")], groupby="type")
    labels = cells.obs["type"].astype(str).to_numpy()
    for line, end in zip(segments(ax), ["red", "white"], strict=True):
        for place, name in ((line[0], "stem"), (line[-1], end)):
            own = moved_to_origin(points[labels == name], place)
            radius = np.linalg.norm(own, axis=1, keepdims=True)
            assert np.allclose((2 * np.arctanh(radius) * own / radius).sum(0), 0, atol=1e-7)
    by_array = pl.poincare(points, edges=[("stem", "red")], groupby=labels)
    assert np.allclose(segments(by_array)[0], segments(ax)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": "tree"}, "'edges' parameter of poincare must be one of 'lineages'"),
        ({"edges": "lineages"}, "needs the lineages: run hgplvm.tl.lineages"),
        ({"edges": [(1, 2, 3)]}, "must be 'lineages', or a list of pairs"),
        ({"edges": 7}, "must be 'lineages', or a list of pairs"),
        ({"edges": [("stem", "red")]}, "for pairs of labels say with 'groupby'"),
        ({"edges": [(0, 60)]}, "name row 60, and there are 60 rows"),
        ({"edges": [("stem", "blue")], "groupby": "type"}, "name 'blue', which no row has"),
        ({"edges": [("a", "b")], "groupby": "kind"}, "'groupby' of poincare must be a column"),
    ],
)
def test_edges_that_are_none(cells, change, message):
    with pytest.raises(ValueError, match=message):
        pl.poincare(cells, **change)


# --- points ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20_000, 20_001])
def test_many_points_are_an_image_in_vector_files(n):
    (scatter,) = scatters(pl.poincare(np.zeros((n, 2))))
    assert scatter.get_rasterized() == (n > 20_000)


def test_sizes_shrink_with_the_number_of_points(points):
    sizes = [scatters(pl.poincare(np.zeros((n, 2))))[0].get_sizes()[0] for n in (60, 2000, 100_000)]
    assert sizes == pytest.approx([30, 15, 1])
    assert scatters(pl.poincare(points, size=7.5))[0].get_sizes()[0] == 7.5


def test_the_largest_values_are_drawn_last_and_nan_is_grey(points):
    values = np.random.default_rng(0).standard_normal(60)
    values[[3, 30]] = np.nan
    grey, scatter = scatters(pl.poincare(points, values))
    order = np.argsort(np.where(np.isnan(values), np.inf, values))[:58]
    assert np.allclose(scatter.get_array(), values[order])
    assert np.allclose(scatter.get_offsets(), points[order])
    assert np.allclose(grey.get_offsets(), points[[3, 30]])
    assert np.allclose(grey.get_facecolor()[0][:3], to_rgb("#d3d3d3"))


def test_values_that_are_all_nan_are_grey_without_a_colour_bar(points):
    ax = pl.poincare(points, np.full(60, np.nan))
    assert np.allclose(scatters(ax)[0].get_facecolor()[0][:3], to_rgb("#d3d3d3"))
    assert not bars(ax)


def test_the_palette_of_numbers(points):
    values = np.arange(60.0)
    by_name = scatters(pl.poincare(points, values, palette="magma"))[0]
    assert by_name.get_cmap().name == "magma"
    along = scatters(pl.poincare(points, values, palette=["white", "red"]))[0].get_cmap()
    assert np.allclose(along(0.5)[:3], [1, 0.5, 0.5], atol=0.01)
    assert scatters(pl.poincare(points, values))[0].get_cmap().name == "viridis"
    both = pl.poincare(points, values, palette="magma", cmap="cividis")
    assert scatters(both)[0].get_cmap().name == "cividis"


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({}, (0, 59)),
        ({"vmin": -5}, (-5, 59)),
        ({"vmax": 10}, (0, 10)),
        ({"vmin": 70}, (70, 70)),
        ({"vmax": "p50"}, (0, 29.5)),
        ({"vmin": "p10", "vmax": "p90"}, (5.9, 53.1)),
        ({"vcenter": 20}, (0, 59)),
        ({"vcenter": 80}, (0, 160)),
        ({"vcenter": -1}, (-61, 59)),
    ],
)
def test_ends_of_the_scale_of_numbers(points, options, ends):
    norm = scatters(pl.poincare(points, np.arange(60.0), **options))[0].norm
    assert (norm.vmin, norm.vmax) == pytest.approx(ends)
    if "vcenter" in options:
        assert norm(options["vcenter"]) == pytest.approx(0.5)


def test_each_panel_may_have_ends_of_its_own(cells):
    axes = pl.poincare(cells, ["depth", "Gata1"], vmax=[0.5, "p99"])
    assert scatters(axes[0])[0].norm.vmax == 0.5
    values = np.asarray(cells[:, "Gata1"].X).ravel()
    assert scatters(axes[1])[0].norm.vmax == pytest.approx(np.percentile(values, 99))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vmin": "low"}, "'vmin' of poincare must be a number, or a percentile such as 'p99'"),
        ({"vmax": "p101"}, "'vmax' of poincare .* Got 'p101' instead"),
        ({"vmin": 3, "vmax": 2}, "'vmin' of poincare must be at most 'vmax'. Got 3 and 2"),
        ({"vcenter": np.nan}, "'vcenter' of poincare .* Got nan"),
        ({"vmin": [1, 2]}, "'vmin' of poincare, as a list, .* each of the 1 panels. Got 2"),
        ({"cmap": "rainbows"}, "'cmap' of poincare must be the name of a matplotlib colour map"),
        ({"groups": ["a"]}, "'groups' of poincare go with categories"),
    ],
)
def test_scales_that_are_none(points, options, message):
    with pytest.raises(ValueError, match=message):
        pl.poincare(points, np.arange(60.0), **options)


def test_numbers_have_a_colour_bar_unless_it_is_not_wanted(points):
    values = np.arange(60.0)
    ax = pl.poincare(points, values)
    assert legend_words(ax) is None
    assert len(bars(ax)) == 1
    assert not bars(pl.poincare(points, values, legend="none"))
    assert not bars(pl.poincare(points, values, legend=False))


# --- legends --------------------------------------------------------------------------------


def test_categories_have_a_legend_at_the_side(points):
    labels = np.array(["b", "a"])[(points[:, 0] > 0).astype(int)]
    ax = pl.poincare(points, labels)
    assert legend_words(ax) == ["a", "b"]
    for name, colour in legend_colours(ax).items():
        found = of_colour(ax, colour)
        assert np.allclose(np.sort(found, axis=0), np.sort(points[labels == name], axis=0))
    assert legend_words(pl.poincare(points, labels, legend=True)) == ["a", "b"]
    for off in (False, "none"):
        ax = pl.poincare(points, labels, legend=off)
        assert legend_words(ax) is None
        assert not names_on(ax)


def test_categories_lie_on_each_other_in_no_order(points):
    labels = np.array(["b", "a"])[(np.arange(60) < 30).astype(int)]
    (scatter,) = scatters(pl.poincare(points, labels))
    drawn = np.asarray(scatter.get_offsets())
    first = [labels[np.argmin(np.abs(points - place).sum(1))] for place in drawn]
    changes = sum(a != b for a, b in pairwise_of(first))
    assert changes > 15  # in their order there would be one


def test_groups_alone_have_colours_and_names(cells, points):
    ax = pl.poincare(cells, "type", groups=["red"])
    assert legend_colours(ax) == {"red": "#0000ff"}
    labels = cells.obs["type"].astype(str).to_numpy()
    (scatter,) = scatters(ax)
    assert len(of_colour(ax, "#d3d3d3")) == (labels != "red").sum()
    last = np.asarray(scatter.get_offsets())[-(labels == "red").sum() :]
    red = points[labels == "red"]
    assert np.allclose(np.sort(last, axis=0), np.sort(red, axis=0))  # on top
    assert legend_words(pl.poincare(cells, "type", groups="stem")) == ["stem"]
    with pytest.raises(ValueError, match=r"'groups' of poincare must be categories .* Got 'blue'"):
        pl.poincare(cells, "type", groups=["blue"])
    with pytest.raises(ValueError, match="'groups' of poincare are categories of a 'color'"):
        pl.poincare(cells, groups=["red"])


def test_names_on_data_stand_near_the_middle_of_their_points(points):
    labels = np.array(["b", "a", None], dtype=object)[np.arange(60) % 3]
    ax = pl.poincare(points, labels, legend="on data")
    assert legend_words(ax) is None
    assert [text.get_text() for text in names_on(ax)] == ["a", "b"]  # missing has no name
    for text in names_on(ax):
        own = points[labels == text.get_text()]
        middle = own[np.argmin(pairwise(own).mean(axis=1))]
        assert np.linalg.norm(np.subtract(text.get_position(), middle)) < 0.4


def test_names_on_data_count_only_points_that_are_seen():
    points = np.array([[0.1, 0.0], [0.15, 0.05], [0.2, 0.1], [0.9, 0.0], [0.0, 0.95]])
    labels = np.array(["in", "in", "in", "in", "out"])
    ax = pl.poincare(points, labels, legend="on data", zoom=2)
    assert [text.get_text() for text in names_on(ax)] == ["in"]
    assert names_on(ax)[0].get_position() == pytest.approx((0.15, 0.05), abs=0.01)


def test_names_keep_clear_of_each_other_and_stay_in_the_picture():
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [0.02 * rng.normal(size=(10, 2)) + c for c in 0.1 * rng.normal(size=(15, 2))]
    )
    labels = np.repeat([f"name {i:02d}" for i in range(15)], 10)
    ax = pl.poincare(points, labels, legend="on data")
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in names_on(ax)]
    frame = ax.get_window_extent()
    for i, box in enumerate(boxes):
        assert frame.x0 - 1 <= box.x0
        assert box.x1 <= frame.x1 + 1
        for other in boxes[:i]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            high = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(wide, high) < 1.5  # pixels


def test_more_than_twenty_names_stand_in_two_columns(points):
    for n, columns in ((20, 1), (21, 2)):
        labels = np.array([f"k{i % n:02d}" for i in range(60)])
        assert pl.poincare(points, labels).get_legend()._ncols == columns


def test_very_many_names_are_counted_or_the_largest_are_written():
    rng = np.random.default_rng(0)
    points = 0.4 * rng.uniform(-1, 1, (900, 2))
    labels = np.array(
        [f"kind {i}" for i in np.r_[np.arange(300), np.arange(100), rng.integers(0, 100, 500)]]
    )
    ax = pl.poincare(points, labels)
    assert legend_words(ax) == ["300 categories"]
    assert ax.figure.get_figwidth() < 9
    names = [text.get_text() for text in names_on(pl.poincare(points, labels, legend="on data"))]
    assert len(names) == 102
    assert {f"kind {i}" for i in range(100)} <= set(names)


def test_long_names_widen_the_figure_that_is_made_for_them(points):
    short, long = (
        pl.poincare(points, np.array([name, "b"])[np.arange(60) % 2]).figure.get_figwidth()
        for name in ("a", "a" * 40)
    )
    assert short < 6.0
    assert 7.0 < long < 9.5


# --- panels ---------------------------------------------------------------------------------


def test_several_colours_give_a_panel_each(cells):
    names = ["type", "depth", "Gata1", "batch"]
    axes = pl.poincare(cells, names, root=3, zoom=1.5)
    assert [ax.get_title() for ax in axes] == names
    assert len({ax.figure for ax in axes}) == 1
    corners = np.array([[ax.get_position().x0, ax.get_position().y0] for ax in axes])
    assert np.allclose(corners[:3, 1], corners[0, 1])  # in a row
    assert corners[3, 0] == pytest.approx(corners[0, 0])  # below the first
    assert corners[3, 1] < corners[0, 1]
    sizes = [ax.get_position().size for ax in axes]
    assert np.allclose(sizes, sizes[0])
    for ax in axes:
        assert ax.get_xlim()[1] == pytest.approx(MARGIN / 1.5)
        drawn = np.concatenate([s.get_offsets() for s in scatters(ax)])
        assert np.linalg.norm(drawn, axis=1).min() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("names", [["type", "depth"], ["depth", "type", "Gata1", "batch"]])
def test_nothing_beside_a_panel_lies_on_another_and_gaps_are_narrow(cells, names):
    axes = pl.poincare(cells, names, ncols=2)
    figure = axes[0].figure
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in axes]
    for i, box in enumerate(boxes):
        for other in boxes[:i]:
            assert not box.overlaps(other)
    width = figure.get_figwidth() * figure.dpi
    gap = boxes[1].x0 - boxes[0].x1
    assert 0 < gap < 0.15 * width


def test_panels_in_a_row(cells):
    names = ["type", "depth", "Gata1", "batch"]
    for ncols in (1, 2, 4):
        axes = pl.poincare(cells, names, ncols=ncols)
        columns = {round(ax.get_position().x0, 6) for ax in axes}
        assert len(columns) == ncols


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ax": True}, r"a panel for each of the 2 colours, so that it takes no 'ax'"),
        ({"title": "four"}, r"must be a list with an entry for each of the 2 panels. Got 'four'"),
        ({"title": ["one"]}, r"an entry for each of the 2 panels. Got \['one'\]"),
    ],
)
def test_panels_take_no_axes_and_a_title_each(cells, change, message):
    if "ax" in change:
        change = {"ax": plt.figure().add_subplot()}
    before = plt.get_fignums()
    with pytest.raises(ValueError, match=message):
        pl.poincare(cells, ["type", "depth"], **change)
    assert plt.get_fignums() == before
    plt.close("all")
    axes = pl.poincare(cells, ["type", "depth"], title=["one", "two"])
    assert [ax.get_title() for ax in axes] == ["one", "two"]


def test_a_bad_name_among_several_leaves_no_figure(cells):
    with pytest.raises(ValueError, match=r"Got 'nobody', which is none"):
        pl.poincare(cells, ["type", "nobody"])
    assert not plt.get_fignums()


def test_categories_of_a_column_that_pandas_made(points):
    labels = pd.Series(np.array(["low", "high"])[np.arange(60) % 2], dtype="category")
    labels = labels.cat.reorder_categories(["low", "high"])
    assert legend_words(pl.poincare(points, labels)) == ["low", "high"]
