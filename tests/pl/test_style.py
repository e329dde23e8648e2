"""What all pictures share: axes, windows, files, colours."""

import os
import subprocess
import sys
import textwrap
from itertools import pairwise

import anndata
import numpy as np
import pandas as pd
import pytest
from matplotlib import colormaps, rc_context
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from scipy.sparse import csc_matrix, csr_matrix

import hgplvm
from hgplvm import pl
from tests.pl.helpers import Written, legend_colours, legend_words, of_colour, scatters

# every picture: which fixture it draws, and how
PICTURES = {
    "poincare": ("cells", lambda data, **o: pl.poincare(data, "type", **o)),
    "poincare of numbers": ("cells", lambda data, **o: pl.poincare(data, "Gata1", root=2, **o)),
    "uncertainty": ("cells", lambda data, **o: pl.uncertainty(data, "type", **o)),
    "decoder": ("stub", lambda data, **o: pl.decoder(data, 0, resolution=9, **o)),
    "trajectory": ("stub", lambda data, **o: pl.trajectory(data, 0, [1, 2], features=0, **o)),
    "length_scales": ("written", lambda data, **o: pl.length_scales(data, **o)),
    "history": ("cells", lambda data, **o: pl.history(data, **o)),
    "compare": ("cells", lambda data, **o: pl.compare(data, "type", bases=["umap"], **o)[0]),
}


@pytest.fixture(params=PICTURES)
def picture(request):
    """A picture as a function of its options."""
    fixture, draw = PICTURES[request.param]
    data = request.getfixturevalue(fixture)
    return lambda **options: draw(data, **options)


def test_given_axes_are_used_and_returned(picture):
    figure, axes = plt.subplots(1, 2)
    assert picture(ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    assert axes[1].has_data()
    assert not axes[0].has_data()


def test_axes_of_a_part_of_a_figure(picture, tmp_path):
    figure = plt.figure()
    ax = figure.subfigures(1, 2)[1].subplots()
    assert picture(ax=ax, save=tmp_path / "a.png") is ax
    assert plt.imread(tmp_path / "a.png").shape[1] == round(150 * figure.get_figwidth())


def test_without_axes_there_is_one_new_figure(picture):
    first, second = picture(), picture()
    assert first is not second
    assert plt.get_fignums() == [first.figure.number, second.figure.number]


def test_show_is_called_only_when_asked(picture, monkeypatch):
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    picture()
    picture(show=False)
    assert calls == []
    picture(show=True)
    assert calls == [1]


@pytest.mark.parametrize(
    ("suffix", "start"),
    [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89P")],
)
def test_the_suffix_gives_the_format(picture, tmp_path, suffix, start):
    path = tmp_path / f"a.{suffix}"
    picture(save=str(path) if suffix == "pdf" else path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_saved_files_have_150_dots_an_inch(picture, tmp_path):
    figure = picture(save=tmp_path / "a.png").figure
    height, width = plt.imread(tmp_path / "a.png").shape[:2]
    assert (width, height) == tuple(round(150 * inches) for inches in figure.get_size_inches())


def test_a_file_that_cannot_be_written_leaves_the_old_one(picture, tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def half(self, name, **options):
        with open(name, "wb") as file:
            file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="disk full"):
        picture(save=path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.xyz", "a", "a.png.txt", ".png"])
def test_an_unknown_suffix_is_one_sentence_and_no_file(picture, tmp_path, name):
    with pytest.raises(
        ValueError,
        match=r"The 'save' parameter of [a-z_]+ must be .* pdf, .*svg, .* Got '.*' inste",
    ):
        picture(save=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_suffix_leaves_no_figure(picture, tmp_path):
    with pytest.raises(ValueError, match=r"'save' parameter"):
        picture(save=tmp_path / "a.xyz")
    assert not plt.get_fignums()


def test_a_folder_that_is_not_there_is_one_sentence(points, tmp_path):
    with pytest.raises((ValueError, OSError), match=r"none") as caught:
        pl.poincare(points, save=tmp_path / "none" / "a.png")
    assert ".part" not in str(caught.value)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "call",
    [
        lambda p, s: pl.poincare(p, p[:, 0], palette="none"),
        lambda p, s: pl.poincare(p, np.arange(60) % 3, palette=["a1", "b1", "c1"]),
        lambda p, s: pl.poincare(p, size="big"),
        lambda p, s: pl.poincare(p, save=3),
        lambda p, s: pl.compare({"a": p}, p[:, 0], palette="none"),
        lambda p, s: pl.decoder(s, 0, resolution=5, palette="none"),
        lambda p, s: pl.trajectory(s, 0, 1, features=0, palette=["nocolour"]),
        lambda p, s: pl.trajectory(s, 0, 1, features=0, palette="viridis"),
        lambda p, s: pl.history(Written(objective=[1.0]), by="seconds"),
    ],
)
def test_bad_arguments_leave_no_figure(points, stub, call):
    with pytest.raises(
        (ValueError, TypeError), match=r"(poincare|compare|decoder|trajector|histor)"
    ):
        call(points, stub)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "options",
    [{"palette": "none"}, {"layer": "none"}],
)
def test_names_that_are_not_there_are_sentences(cells, options):
    with pytest.raises(ValueError, match=r"Got 'none'"):
        pl.poincare(cells, "Gata1", **options)


@pytest.mark.parametrize("values", [np.arange(60) % 2, np.arange(60.0)], ids=["names", "numbers"])
def test_a_palette_may_be_an_array(points, values):
    pl.poincare(points, values, palette=np.array(["red", "blue"]))


def test_pictures_are_saved_where_there_is_no_screen(tmp_path):
    program = """
        import sys
        import numpy as np
        from hgplvm import pl
        pl.poincare(np.array([[0.1, 0.2], [0.3, -0.4]]), [0.0, 1.0], save=sys.argv[1], show=False)
        pl.compare({"a": np.eye(2)}, save=sys.argv[2])
    """
    hidden = ("MPLBACKEND", "DISPLAY", "WAYLAND_DISPLAY")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    files = [tmp_path / "a.png", tmp_path / "b.pdf"]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, files)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")


def _content(thing):
    """All arrays of an object, by where they stand."""
    if hasattr(thing, "obsm"):
        tables = {"X": thing.X, **thing.layers, **thing.obsm, **thing.obs, **_leaves(thing.uns)}
        return {name: np.array(values) for name, values in tables.items()}
    return {name: np.array(values) for name, values in _leaves(vars(thing)).items()}


def _leaves(tree, name=""):
    found = {}
    for key, value in tree.items():
        inner = (
            _leaves(value, f"{name}/{key}") if isinstance(value, dict) else {f"{name}/{key}": value}
        )
        found |= inner
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_drawn_stays_as_it_is(name, request):
    fixture, draw = PICTURES[name]
    data = request.getfixturevalue(fixture)
    before = _content(data)
    draw(data)
    after = _content(data)
    assert before.keys() == after.keys()
    assert len(before) >= 3
    for key, values in before.items():
        assert values.dtype == after[key].dtype
        assert np.array_equal(values, after[key])


def test_colours_that_are_given_stay_as_they_are(points):
    values = np.r_[np.nan, np.arange(59.0)]
    palette = ["red", "blue"]
    pl.poincare(points, values, palette=palette)
    assert np.array_equal(values, np.r_[np.nan, np.arange(59.0)], equal_nan=True)
    assert palette == ["red", "blue"]


# --- colours --------------------------------------------------------------------------------


colours_by_name = legend_colours


def test_colours_that_scanpy_keeps(cells):
    ax = pl.poincare(cells, "type")
    assert colours_by_name(ax) == {"stem": "#ff0000", "white": "#00ff00", "red": "#0000ff"}
    assert legend_words(ax) == ["stem", "white", "red"]  # in the order of pandas, not of letters


def test_colours_that_scanpy_keeps_go_with_their_names_where_some_are_not_there(cells):
    some = cells[cells.obs["type"] != "white"].copy()
    some.obs["type"] = pd.Categorical(some.obs["type"], categories=["stem", "white", "red"])
    some.uns["type_colors"] = ["#ff0000", "#00ff00", "#0000ff"]
    assert colours_by_name(pl.poincare(some, "type")) == {"stem": "#ff0000", "red": "#0000ff"}


def test_a_palette_goes_before_the_colours_that_scanpy_keeps(cells):
    ax = pl.poincare(cells, "type", palette=["black", "white", "yellow", "pink"])
    assert colours_by_name(ax) == {"stem": "#000000", "white": "#ffffff", "red": "#ffff00"}
    by_name = colours_by_name(pl.poincare(cells, "type", palette="viridis"))
    assert list(by_name.values()) == [
        to_hex(colormaps["viridis"](at)) for at in np.linspace(0.05, 0.95, 3)
    ]


def test_too_few_colours_in_uns_are_left_aside(cells):
    for wrong in (["#ff0000"], ["#ff0000", "nocolour", "#00ff00"]):
        cells.uns["type_colors"] = wrong
        found = colours_by_name(pl.poincare(cells, "type"))
        assert list(found.values()) == ["#1f77b4", "#ff7f0e", "#279e68"]


def test_names_of_arrays_are_in_natural_order(points):
    names = np.array([f"type {i}" for i in range(12)])[np.arange(60) % 12]
    ax = pl.poincare(points, names)
    assert legend_words(ax) == [f"type {i}" for i in range(12)]
    ax = pl.poincare(points, names, palette=[*pl.OKABE_ITO, "red", "blue", "pink", "grey"])
    assert colours_by_name(ax)["type 1"] == pl.OKABE_ITO[1].lower()


@pytest.mark.parametrize("n", [3, 20, 21, 28, 29, 102, 103])
def test_palettes_are_those_of_scanpy(n, monkeypatch):
    import scanpy
    from scanpy.plotting import palettes

    from hgplvm.pl._palettes import categorical

    theirs = {20: palettes.default_20, 28: palettes.default_28, 102: palettes.default_102}
    wanted = next((theirs[most] for most in sorted(theirs) if n <= most), None)
    if wanted is None:  # more than scanpy has
        assert len({to_hex(c) for c in categorical(n)}) == n
    else:
        assert categorical(n) == [colour.lower() for colour in wanted[:n]]
    assert scanpy


def test_scanpy_and_we_give_a_column_the_same_colours_whoever_draws_first(cells):
    import warnings

    import scanpy

    del cells.uns["type_colors"]
    ours = cells.copy()
    pl.poincare(ours, "type")
    with warnings.catch_warnings(), rc_context():
        warnings.simplefilter("ignore")
        scanpy.set_figure_params()  # without it, few categories have matplotlib's colours
        scanpy.pl.embedding(cells, basis="umap", color="type", show=False)
    assert list(ours.uns["type_colors"]) == [c.lower() for c in cells.uns["type_colors"]]
    assert colours_by_name(pl.poincare(cells, "type")) == colours_by_name(pl.poincare(ours, "type"))


def test_a_view_and_an_array_keep_no_colours(cells, points):
    del cells.uns["type_colors"]
    view = cells[10:40]
    pl.poincare(view, "type")
    assert view.is_view
    assert "type_colors" not in cells.uns
    pl.poincare(cells, cells.obs["type"])
    assert "type_colors" not in cells.uns


def test_the_colours_that_are_kept_are_of_all_categories(cells):
    del cells.uns["type_colors"]
    some = cells[cells.obs["type"] != "white"].copy()
    some.obs["type"] = pd.Categorical(some.obs["type"], categories=["stem", "white", "red"])
    found = colours_by_name(pl.poincare(some, "type"))
    assert list(some.uns["type_colors"]) == ["#1f77b4", "#ff7f0e", "#279e68"]
    assert found == {"stem": "#1f77b4", "red": "#279e68"}


def test_an_array_of_pandas_keeps_the_order_of_categories(points):
    labels = pd.Categorical(["low", "high"] * 30, categories=["low", "high"])
    assert legend_words(pl.poincare(points, labels)) == ["low", "high"]


def test_names_that_begin_with_an_underscore_are_in_the_legend(points):
    assert legend_words(pl.poincare(points, np.array(["_a", "b"] * 30))) == [" _a", "b"]


def test_many_categories_have_different_colours(points):
    ax = pl.poincare(points, np.arange(60) % 25)
    assert len(set(colours_by_name(ax).values())) == 25
    assert legend_words(ax) == [str(i) for i in range(25)]


@pytest.mark.parametrize(("n", "names"), [(30, True), (31, False)])
def test_many_integers_are_numbers(points, n, names):
    ax = pl.poincare(points, np.arange(60) % n)
    assert (legend_words(ax) is not None) == names


def test_flags_are_categories(points):
    ax = pl.poincare(points, points[:, 0] > 0)
    assert legend_words(ax) == ["False", "True"]


def test_missing_categories_are_grey_and_last(points, cells):
    ax = pl.poincare(points, np.array(["z", None, np.nan] * 20, dtype=object))
    assert legend_words(ax) == ["z", "missing"]
    assert colours_by_name(ax)["missing"] == "#d3d3d3"
    assert len(of_colour(ax, "#d3d3d3")) == 40
    cells.obs.loc[cells.obs_names[:6], "type"] = np.nan
    ax = pl.poincare(cells, "type")
    assert colours_by_name(ax) == {
        "stem": "#ff0000",
        "white": "#00ff00",
        "red": "#0000ff",
        "missing": "#d3d3d3",
    }
    assert len(of_colour(ax, "#d3d3d3")) == 6


def test_all_missing(points):
    ax = pl.poincare(points, np.full(60, None))
    assert colours_by_name(ax) == {"missing": "#d3d3d3"}


def test_without_a_colour_points_are_blue(points):
    (scatter,) = scatters(pl.poincare(points))
    assert np.allclose(scatter.get_facecolor()[0], to_rgba("#1f77b4", 0.85))


# --- genes ----------------------------------------------------------------------------------


def drawn_values(ax):
    """Values by row: the points are drawn in the order of their values."""
    (scatter,) = scatters(ax)
    at = {
        tuple(np.round(p, 9)): v
        for p, v in zip(scatter.get_offsets(), scatter.get_array(), strict=True)
    }
    return lambda points: np.array([at[tuple(np.round(p, 9))] for p in points])


def check_gene(adata, wanted, points, **options):
    values = drawn_values(pl.poincare(adata, "Klf1", **options))(points)
    assert np.allclose(values, np.asarray(wanted).ravel(), atol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix, csc_matrix])
def test_a_gene_is_read_from_x_or_from_a_layer(cells, points, kind):
    x = np.array(cells.X)
    cells.X, cells.layers["scaled"] = kind(x), kind(10 * x)
    check_gene(cells, x[:, 2], points)
    check_gene(cells, 10 * x[:, 2], points, layer="scaled")


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_a_gene_is_read_from_raw_where_it_is_there(cells, points, kind):
    x = np.array(cells.X)
    whole = cells.copy()
    whole.X = kind(x - 5)
    few = cells[:, ["Gata1", "Spi1"]].copy()
    few.raw = whole
    check_gene(few, x[:, 2] - 5, points)  # a gene that only raw has
    cells.raw = whole
    check_gene(cells, x[:, 2] - 5, points)
    check_gene(cells, 10 * x[:, 2], points, layer="scaled")


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix, csc_matrix])
def test_a_gene_is_read_from_a_file(cells, points, tmp_path, kind):
    import anndata

    x = np.array(cells.X)
    raw = cells.copy()
    cells.X, raw.X = kind(x), kind(x - 5)
    cells.raw = raw
    cells.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert backed.isbacked
    check_gene(backed, x[:, 2] - 5, points)
    check_gene(backed, 10 * x[:, 2], points, layer="scaled")
    del cells.raw
    cells.write_h5ad(tmp_path / "bare.h5ad")
    bare = anndata.read_h5ad(tmp_path / "bare.h5ad", backed="r")
    check_gene(bare, x[:, 2], points)
    assert legend_words(pl.poincare(bare, "type")) == ["stem", "white", "red"]
    backed.file.close()
    bare.file.close()


def test_a_column_goes_before_a_gene_of_the_same_name(cells, points):
    cells.obs["Klf1"] = np.arange(60.0)
    check_gene(cells, np.arange(60.0), points)


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("color", "options", "message"),
    [
        (np.zeros(3), {}, r"one entry for each of the 60 rows. Got an array of shape \(3,\) inste"),
        (np.zeros((60, 2)), {}, r"one entry for each of the 60 rows. Got an array of shape \(60, "),
        (np.arange(60) % 9, {"palette": ["red"]}, r"each of the 9 categories. Got 1 instead"),
        ("type", {}, r"'color' of poincare must be an array .* AnnData object. Got 'type' instead"),
    ],
)
def test_bad_colours_of_arrays(points, color, options, message):
    with pytest.raises(ValueError, match=message):
        pl.poincare(points, color, **options)
    assert not plt.get_fignums()


def test_bad_colours_of_annotated_data(cells):
    with pytest.raises(
        ValueError, match=r"Got 'nobody', which is none; the columns are 'type', 'depth', 'batch'\."
    ):
        pl.poincare(cells, "nobody")
    cells.var_names = ["a", "b", "a", "c"]
    with pytest.raises(ValueError, match=r"names 'a', which stands more than once in adata.var_na"):
        pl.poincare(cells, "a")
    cells.obs = cells.obs[[]]
    with pytest.raises(ValueError, match=r"which is none; the columns are none\."):
        pl.poincare(cells, "nobody")
    assert not plt.get_fignums()


def test_categories_that_are_numbers_are_categories(points):
    numbers = pd.Categorical(np.arange(60) % 3, categories=[2, 0, 1])
    assert legend_words(pl.poincare(points, pd.Series(numbers))) == ["2", "0", "1"]


# --- what scanpy takes ------------------------------------------------------------------------


def test_palettes_may_be_dicts(cells):
    palette = {"stem": "red", "white": "#00ff00"}
    found = colours_by_name(pl.poincare(cells, "type", palette=palette))
    assert found == {"stem": "#ff0000", "white": "#00ff00", "red": "#d3d3d3"}
    cells.uns["type_colors"] = {"stem": "#0000ff", "white": "#00ff00", "red": "#ff0000"}
    assert colours_by_name(pl.poincare(cells, "type"))["stem"] == "#0000ff"


@pytest.mark.parametrize("dtype", ["boolean", "string"])
def test_missing_values_of_pandas_own_kinds(cells, dtype):
    values = [True, False, None] if dtype == "boolean" else ["a", "b", None]
    cells.obs["kind"] = pd.array((values * 20), dtype=dtype)
    words = legend_words(pl.poincare(cells, "kind"))
    assert words == [*sorted(str(v) for v in values[:2]), "missing"]


@pytest.mark.parametrize("make", [pd.Index, np.array, tuple])
def test_names_of_panels_may_come_in_any_sequence(cells, make):
    axes = pl.poincare(cells, make(["type", "Gata1"]))
    assert [ax.get_title() for ax in axes] == ["type", "Gata1"]


def test_none_among_names_is_a_panel_without_colours(cells):
    first, second = pl.poincare(cells, ["type", None])
    assert (first.get_title(), second.get_title()) == ("type", "")


def test_groups_of_one_panel_leave_the_others_alone(cells):
    cells.obs["other"] = pd.Categorical(np.array(["x", "y"])[np.arange(60) % 2])
    first, second, third = pl.poincare(cells, ["type", "depth", "other"], groups=["red"])
    assert legend_words(first) == ["red"]
    assert legend_words(second) is None
    assert legend_words(third) == ["x", "y"]
    few = cells[cells.obs["type"] != "red"].copy()
    few.obs["type"] = pd.Categorical(few.obs["type"], categories=["stem", "white", "red"])
    assert legend_words(pl.poincare(few, "type", groups=["red", "stem"])) == ["stem"]


def test_names_with_signs_are_shown_as_they_are(points, cells, tmp_path):
    cells.obs["$\\foo$"] = 1.0
    pl.poincare(cells, "$\\foo$", save=tmp_path / "a.png")
    labels = np.array(["CD3²", "CD3⁴"])[np.arange(60) % 2]
    assert legend_words(pl.poincare(points, labels)) == ["CD3²", "CD3⁴"]


def test_legends_stay_in_the_part_of_the_figure_that_was_given(points):
    labels = np.array(["a long name", "another long name"])[np.arange(60) % 2]
    figure, axes = plt.subplots(1, 3, figsize=(12, 3))
    before = [ax.get_position(original=True) for ax in axes]
    pl.poincare(points, labels, ax=axes[0])
    pl.poincare(points, points[:, 0], ax=axes[1])
    pl.poincare(points, labels, ax=axes[2])
    figure.canvas.draw()
    boxes = [ax.get_tightbbox().transformed(figure.transFigure.inverted()) for ax in axes]
    for box, other in pairwise(boxes):
        assert box.x1 < other.x0
    assert boxes[2].x1 <= before[2].x1 + 0.02


def test_counts_are_those_of_the_median_cell_of_the_fit_in_any_part_of_the_object():
    rng = np.random.default_rng(0)
    depth = np.where(np.arange(60) < 30, 0.5, 3.0)
    counts = rng.poisson(depth[:, None] * rng.gamma(2.0, 2.0, (1, 25))).astype(float)
    adata = anndata.AnnData(counts)
    hgplvm.tl.hgplvm(adata, "exact", max_iter=3)

    def values(some):
        (scatter,) = scatters(pl.poincare(some, "3"))
        return np.sort(scatter.get_array())

    whole = counts[:, 3] * np.median(counts.sum(1)) / counts.sum(1)
    assert np.allclose(values(adata), np.sort(whole))
    assert np.allclose(values(adata[:30].copy()), np.sort(whole[:30]))


def test_few_circles_are_drawn_however_far_out_the_points_are():
    far = np.array([0.99, 0.0]) + 1e-4 * np.random.default_rng(0).standard_normal((50, 2))
    assert len(pl.poincare(far).patches) < 20
