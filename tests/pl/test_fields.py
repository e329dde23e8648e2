"""Fields over the disk and curves along geodesics: the numbers are those of the model."""

import anndata
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.colors import FuncNorm, to_rgba

import hgplvm
from hgplvm import HGPLVM, pl
from tests.pl.helpers import (
    ClosedForm,
    bars,
    hyperbolic,
    legend_words,
    moved_from_origin,
    moved_to_origin,
    scatters,
)


def pixels(image):
    """Middles of the pixels of an image [rows, columns, 2], as matplotlib places them."""
    left, right, bottom, top = image.get_extent()
    rows, columns = image.get_array().shape
    x = left + (np.arange(columns) + 0.5) * (right - left) / columns
    y = bottom + (np.arange(rows) + 0.5) * (top - bottom) / rows
    assert image.origin == "lower"
    return np.stack(np.meshgrid(x, y), axis=-1)


def check_field(ax, model, column, what, root=None):
    (image,) = ax.images
    places = pixels(image)
    inside = np.linalg.norm(places, axis=-1) < 0.999
    stored = places[inside] if root is None else moved_from_origin(places[inside], root)
    mean, std = model.inverse_transform(stored, return_std=True)
    wanted = (mean if what == "mean" else std)[:, column]
    assert np.allclose(image.get_array()[inside], wanted, atol=1e-7)
    assert np.isfinite(image.get_array()).all()
    assert np.ptp(wanted) > 1e-3  # a field that is flat would tell nothing
    return places


@pytest.mark.parametrize("what", ["mean", "std"])
@pytest.mark.parametrize("column", [0, 1])
def test_pixels_hold_what_the_model_says_there(stub, what, column):
    ax = pl.decoder(stub, column, what=what, resolution=41)
    places = check_field(ax, stub, column, what)
    assert np.allclose([places.min(), places.max()], [-1.03, 1.03])
    assert ax.images[0].get_array().shape == (41, 41)


@pytest.mark.parametrize("root", [None, 2])
def test_a_field_of_a_part_of_the_disk(root):
    points = np.array([[0.1, 0.1], [0.5, 0.2], [0.3, 0.15], [0.2, 0.3]])
    model = ClosedForm(points)
    ax = pl.decoder(model, 1, root=root, resolution=40)
    places = check_field(ax, model, 1, "mean", root=None if root is None else points[root])
    rows, columns = ax.images[0].get_array().shape
    width, height = np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
    assert max(rows, columns) == 40
    assert columns / rows == pytest.approx(width / height, rel=0.05)
    assert np.allclose(places[0, 0], [ax.get_xlim()[0], ax.get_ylim()[0]])


def test_several_features_have_a_panel_each(stub):
    axes = pl.decoder(stub, ["left", 2], resolution=11, ncols=1)
    assert [ax.get_title() for ax in axes] == ["left", "right"]
    for ax, column in zip(axes, [0, 2], strict=True):
        check_field(ax, stub, column, "mean")
        assert len(bars(ax)) == 1
    assert axes[0].get_position().x0 == pytest.approx(axes[1].get_position().x0)
    axes = pl.decoder(stub, ["left", "right"], resolution=11, vmax=[1.0, "p90"])
    assert axes[0].images[0].norm.vmax == 1.0
    assert axes[1].images[0].norm.vmax < axes[1].images[0].get_array().max()
    with pytest.raises(ValueError, match=r"each of the 2 features, .* neither 'ax' nor"):
        pl.decoder(stub, [0, 1], title="both")


def test_counts_have_the_unit_of_counts_in_both_pictures():
    rng = np.random.default_rng(0)
    depth = rng.uniform(0.3, 3.0, 40)
    counts = rng.poisson(depth[:, None] * rng.gamma(2.0, 2.0, (1, 25)))
    adata = anndata.AnnData(counts.astype(float))
    hgplvm.tl.hgplvm(adata, "exact", max_iter=3)
    cells, field = pl.poincare(adata, "3"), pl.decoder(adata, "3", resolution=11)
    labels = [bars(ax)[0].get_ylabel() for ax in (cells, field)]
    assert labels == ["counts in a cell of median size"] * 2
    assert {type(ax.collections[-1].norm) for ax in (cells,)} == {FuncNorm}
    assert isinstance(field.images[0].norm, FuncNorm)
    total = counts.sum(1)
    wanted = counts[:, 3] * np.median(total) / total
    assert np.allclose(np.sort(scatters(cells)[-1].get_array()), np.sort(wanted))
    assert np.array_equal(
        np.sort(scatters(pl.poincare(adata, "3", use_raw=False))[-1].get_array()),
        np.sort(counts[:, 3]),
    )
    deviation = bars(pl.decoder(adata, "3", what="std", resolution=11))[0].get_ylabel()
    assert deviation == "standard deviation, counts in a cell of median size"


def test_more_pixels_than_are_decoded_at_once(stub):
    check_field(pl.decoder(stub, 1), stub, 1, "mean")  # 121² is more than seven blocks


def test_a_field_with_root_and_zoom(stub, points):
    ax = pl.decoder(stub, 1, root=5, zoom=1.7, resolution=31)
    places = check_field(ax, stub, 1, "mean", root=points[5])
    assert places.max() == pytest.approx(1.03 / 1.7)
    assert np.allclose([*ax.get_xlim(), *ax.get_ylim()], [-1.03 / 1.7, 1.03 / 1.7] * 2)
    (scatter,) = scatters(ax)
    assert np.allclose(scatter.get_offsets(), moved_to_origin(points, points[5]))


@pytest.mark.parametrize("what", ["mean", "std"])
def test_a_field_of_a_fitted_object(fitted, model, what):
    ax = pl.decoder(fitted, "Klf1", what=what, root=3, resolution=15, zoom=2)
    check_field(ax, model, 2, what, root=model.embedding_[3])
    assert ax.get_title() == ("Klf1" if what == "mean" else "Klf1, std")


def test_beyond_the_boundary_is_decoded_at_the_rim(stub):
    (image,) = pl.decoder(stub, 0, resolution=21).images
    corner = np.array([[0.999, 0.999]]) / np.sqrt(2)
    assert image.get_array()[-1, -1] == pytest.approx(stub.inverse_transform(corner)[0, 0])


def test_a_far_root_decodes_inside_the_ball(stub):
    seen = []

    class Watched(ClosedForm):
        def inverse_transform(self, X, *, return_std=False):
            seen.append(np.linalg.norm(X, axis=1).max())
            return super().inverse_transform(X, return_std=return_std)

    for gap in (1e-9, 1e-12, 1e-14):
        far = np.array([[1 - gap, 0.0], [0.0, 0.0]])
        pl.decoder(Watched(far), 0, root=0, resolution=9)
    assert max(seen) < 1


def test_the_field_is_cut_at_the_boundary(stub):
    ax = pl.decoder(stub, 0)
    (image,) = ax.images
    path, transform = image.get_clip_path().get_transformed_path_and_affine()
    outline = ax.transData.inverted().transform(transform.transform_path(path).vertices)
    assert np.allclose(np.abs(outline).max(axis=0), 1, atol=1e-6)
    assert image.get_zorder() < 0


@pytest.mark.parametrize("feature", ["middle", 1, np.int64(1), -2])
def test_features_by_name_or_number(stub, feature):
    ax = pl.decoder(stub, feature, resolution=11)
    check_field(ax, stub, 1, "mean")
    assert ax.get_title() == "middle"


def test_features_without_names_are_numbers(points):
    assert pl.decoder(ClosedForm(points), 2, resolution=5).get_title() == "2"
    assert pl.decoder(ClosedForm(points), "1", resolution=5).get_title() == "1"


def test_what_else_a_field_shows(stub):
    ax = pl.decoder(stub, 0, resolution=5)
    assert len(bars(ax)) == 1
    assert ax.images[0].get_cmap().name == "viridis"
    assert len(ax.patches) == 1
    ax = pl.decoder(
        stub, 0, resolution=5, legend=False, points=False, what="std", grid=True, title="t"
    )
    assert not bars(ax)
    assert not scatters(ax)
    assert ax.images[0].get_cmap().name == "magma"
    assert len(ax.patches) == 5
    assert ax.get_title() == "t"
    assert pl.decoder(stub, 0, resolution=5, palette="bone").images[0].get_cmap().name == "bone"


# --- trajectories ---------------------------------------------------------------------------


def curves(ax):
    return [line for line in ax.lines if len(line.get_xdata())]


def paths(ax):
    """Paths on the small disk, without the dots at their ends."""
    disk = ax.figure.axes[-1]
    return [line.get_xydata() for line in disk.lines if len(line.get_xdata()) > 1]


def bands(ax):
    return [c for c in ax.collections if isinstance(c, FillBetweenPolyCollection)]


def check_curves(ax, model, columns, path, lines, own_bands):
    mean, std = model.inverse_transform(path, return_std=True)
    along = hyperbolic(path[:1], path)
    for column, line, band in zip(columns, lines, own_bands, strict=True):
        assert np.allclose(line.get_xdata(), along, atol=1e-6)
        assert np.allclose(line.get_ydata(), mean[:, column])
        (outline,) = band.get_paths()
        for x, m, s in zip(line.get_xdata(), mean[:, column], std[:, column], strict=True):
            y = outline.vertices[np.isclose(outline.vertices[:, 0], x, atol=1e-12), 1]
            assert y.min() == pytest.approx(m - 1.645 * s)
            assert y.max() == pytest.approx(m + 1.645 * s)


def test_a_path_is_a_geodesic_with_equal_steps(stub, points):
    axes = pl.trajectory(stub, 4, 9, features=[0, 2], n_points=25)
    (path,) = paths(axes[0])
    assert np.allclose(path[[0, -1]], points[[4, 9]], atol=1e-9)
    total = hyperbolic(points[4], points[9])
    assert total > 1
    between = hyperbolic(points[4], path) + hyperbolic(path, points[9])
    assert np.allclose(between, total, atol=1e-6)
    assert np.allclose(hyperbolic(path[1:], path[:-1]), total / 24, atol=1e-6)
    for ax, column, name in zip(axes, [0, 2], ["left", "right"], strict=True):
        (curve,) = curves(ax)
        assert np.allclose(curve.get_xdata(), np.linspace(0, total, 25), atol=1e-6)
        check_curves(ax, stub, [column], path, [curve], bands(ax))
        assert ax.get_title() == name
    assert axes[0].get_ylabel() == "decoded value"


def test_a_trajectory_of_a_fitted_object(fitted, model):
    ax = pl.trajectory(fitted, "3", "7", features="Klf1", n_points=8)
    (path,) = paths(ax)
    assert np.allclose(path[[0, -1]], model.embedding_[[3, 7]], atol=1e-9)
    check_curves(ax, model, [2], path, curves(ax), bands(ax))
    assert ax.get_title() == "Klf1"
    assert ax.get_ylabel() == "value in X"


def test_one_feature_and_several_ends_have_a_colour_a_path(stub, points):
    ends = [7, [0.2, 0.3], np.arange(60) < 4]
    ax = pl.trajectory(stub, [0.0, 0.0], ends, features=1, palette=["red", "green", "blue"])
    assert len(paths(ax)) == 3
    assert np.allclose(paths(ax)[0][-1], points[7])
    assert np.allclose(paths(ax)[1][-1], [0.2, 0.3])
    # the middle of a group is at the zero of the sum of Log(x)
    own = moved_to_origin(points[:4], paths(ax)[2][-1])
    radius = np.linalg.norm(own, axis=1, keepdims=True)
    assert np.allclose((2 * np.arctanh(radius) * own / radius).sum(0), 0, atol=1e-8)
    assert [to_rgba(line.get_color()) for line in curves(ax)] == [
        to_rgba(c) for c in ("red", "green", "blue")
    ]
    assert {line.get_linestyle() for line in curves(ax)} == {"-"}
    words = legend_words(ax.figure.axes[-1])
    assert words == ["to 7", "to (0.2, 0.3)", "to a group"]
    for path, line, band in zip(paths(ax), curves(ax), bands(ax), strict=True):
        check_curves(ax, stub, [1], path, [line], [band])


def test_paths_have_the_colours_of_the_groups_at_their_ends(fitted):
    adata = fitted.copy()
    adata.obs["kind"] = pd.Categorical(np.array(["a", "b"])[np.arange(60) % 2])
    adata.uns["kind_colors"] = ["#ff0000", "#0000ff"]
    ends = [{"kind": "b"}, {"kind": "a"}]
    axes = pl.trajectory(adata, 0, ends, features=["Gata1", "Spi1", "Klf1", "Cebpa"])
    assert len(axes) == 4
    for ax in axes:
        assert [line.get_color() for line in curves(ax)] == ["#0000ff", "#ff0000"]
    found = [legend_words(ax) for ax in axes[0].figure.axes if ax.get_legend() is not None]
    assert found == [["b", "a"]]
    axes = pl.trajectory(adata, 0, [3, {"kind": "a"}], features=["Gata1"])
    assert [line.get_color() for line in curves(axes[0])] == list(pl.OKABE_ITO[:2])


@pytest.mark.parametrize("nonnegative", [True, False])
def test_a_band_goes_below_zero_only_where_data_do(stub, nonnegative):
    stub.nonnegative_ = nonnegative
    ax = pl.trajectory(stub, 0, 1, features=0)
    lowest = min(band.get_paths()[0].vertices[:, 1].min() for band in bands(ax))
    assert (lowest >= 0) == nonnegative
    assert (ax.get_ylim()[0] == 0) == nonnegative


@pytest.mark.parametrize("radius", [6.0, 11.0])
def test_a_path_between_points_far_out_has_equal_steps(radius):
    far = np.tanh(radius / 2) * np.array([[1.0, 0.0], [0.0, -1.0]])
    (path,) = paths(pl.trajectory(ClosedForm(far), 0, 1, features=0))
    steps = hyperbolic(path[1:], path[:-1])
    assert np.allclose(steps, hyperbolic(*far) / 99, rtol=1e-3)


@pytest.mark.parametrize("end", [[0.1, -0.2], (0.1, -0.2), np.array([0.1, -0.2])])
def test_two_floats_are_one_place(stub, end):
    (path,) = paths(pl.trajectory(stub, 0, end, features=0))
    assert np.allclose(path[-1], [0.1, -0.2])


def test_a_list_of_flags_is_one_group(stub):
    assert len(paths(pl.trajectory(stub, 0, [True, False] * 30, features=0))) == 1
    assert len(paths(pl.trajectory(stub, 0, [1, 2], features=0))) == 2


def test_the_small_disk_shows_all_rows(stub, points):
    ax = pl.trajectory(stub, 0, 1, features=0)
    disk = ax.figure.axes[-1]
    (scatter,) = scatters(disk)
    assert np.allclose(scatter.get_offsets(), points)
    assert np.allclose(disk.get_aspect(), 1.0)


def test_what_else_a_trajectory_shows(stub):
    ax = pl.trajectory(stub, 0, 1, features=0, legend=False, title="up")
    assert all(legend_words(one) is None for one in ax.figure.axes)
    assert ax.figure.get_suptitle() == "up"
    assert ax.get_title() == "left"
    assert ax.get_xlabel() == "distance from the start"
    assert len(curves(ax)[0].get_xdata()) == 100
    assert to_rgba(curves(ax)[0].get_color()) == to_rgba(pl.OKABE_ITO[0])


def test_a_path_without_length(stub, points):
    ax = pl.trajectory(stub, 3, 3, features=0)
    assert np.allclose(curves(ax)[0].get_xdata(), 0)
    assert np.allclose(paths(ax)[0], points[3])


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"what": "median"}, r"'what' parameter of decoder must be one of 'mean', 'std'. Got 'med"),
        ({"resolution": 1}, r"'resolution' parameter of decoder must be an int .* Got 1 instead"),
        ({"resolution": 9.5}, r"'resolution' parameter of decoder must be an int .* Got 9.5"),
        ({"grid": "square"}, r"'grid' parameter of decoder must be one of"),
        ({"zoom": 0.0}, r"'zoom' parameter of decoder"),
        ({"root": 60}, r"'root' of decoder must be a row index below 60"),
        (
            {"feature": "up"},
            r"'feature' of decoder .* one of the 3 columns .* Got 'up' instead; there",
        ),
        ({"feature": 3}, r"Got 3 instead; there are 'left', 'middle', 'right'\."),
        ({"feature": -4}, r"or its number. Got -4 instead"),
        ({"feature": True}, r"Got True instead"),
        ({"feature": None}, r"Got None instead"),
    ],
)
def test_bad_options_of_a_field(stub, change, message):
    with pytest.raises(ValueError, match=message):
        pl.decoder(stub, **{"feature": 0, **change})
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_points": 1}, r"'n_points' parameter of trajectory must be an int .* Got 1 instead"),
        ({"features": []}, r"'features' of trajectory must name at least one column. Got none"),
        ({"features": ["left", "up"]}, r"'feature' of trajectory must be .* Got 'up' instead"),
        ({"end": []}, r"'end' of trajectory must name at least one place. Got none"),
        ({"end": 60}, r"'end' of trajectory must be a row index below 60"),
        ({"end": [1, "x"]}, r"'end' of trajectory must be a row index below 60.* Got 'x'"),
        ({"start": [0.9, 0.9]}, r"'start' of trajectory must hold Poincaré ball coordinates"),
        (
            {"palette": ["red"], "end": [1, 2]},
            r"'palette' of trajectory .* each of the 2 paths. Got 1 instead",
        ),
        (
            {"palette": ["red"], "features": 0, "end": [1, 2, 3]},
            r"'palette' of trajectory .* each of the 3 paths. Got 1 instead",
        ),
    ],
)
def test_bad_options_of_a_trajectory(stub, change, message):
    arguments = {"start": 0, "end": 1, "features": [0, 1], **change}
    with pytest.raises(ValueError, match=message):
        pl.trajectory(stub, **arguments)
    assert not plt.get_fignums()


def test_a_name_that_stands_twice_is_none(points):
    with pytest.raises(ValueError, match=r"names 'a', which 2 columns have: take the num"):
        pl.decoder(ClosedForm(points, ["a", "a", "b"]), "a")


def test_many_names_are_cut_short(points):
    stub = ClosedForm(points, [f"g{i}" for i in range(12)])
    with pytest.raises(ValueError, match=r"there are 'g0', .*'g7' and more\."):
        pl.decoder(stub, "none")


@pytest.mark.parametrize("data", [lambda p: p, lambda p: HGPLVM(), lambda p: None])
def test_only_fitted_hyperbolic_models_decode(points, data):
    sentence = r"decodes points, for which it needs a fitted hyperbolic model, or an AnnData object"
    with pytest.raises(ValueError, match="decoder " + sentence):
        pl.decoder(data(points), 0)
    with pytest.raises(ValueError, match="trajectory " + sentence):
        pl.trajectory(data(points), 0, 1, features=0)


def test_an_object_without_its_model_does_not_decode(cells, fitted):
    with pytest.raises(
        ValueError, match=r"decoder needs the fitted model, .*adata.uns\['hgplvm'\]: .*keep_model"
    ):
        pl.decoder(cells, 0)
    with pytest.raises(ValueError, match=r"trajectory needs the fitted model"):
        pl.trajectory(cells, 0, 1, features=0)
    with pytest.raises(ValueError, match=r"no embedding under the key 'a': run .*key_added='a'\)"):
        pl.decoder(fitted, 0, key="a")
    broken = fitted.copy()
    broken.uns["hgplvm"]["fitted"] = np.zeros(10, dtype=np.uint8)
    with pytest.raises(ValueError, match=r"The model in adata.uns\['hgplvm'\] cannot be read"):
        pl.decoder(broken, 0)
    assert not plt.get_fignums()
