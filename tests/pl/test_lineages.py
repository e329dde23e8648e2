"""Lineages on the disk, and genes along them: what is drawn, and where it stands."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba

import hgplvm
from hgplvm import pl
from tests.pl.helpers import (
    bars,
    hyperbolic,
    legend_words,
    moved_from_origin,
    moved_to_origin,
    names_on,
    scatters,
)

NAMES = ["stem → white", "stem → red"]


@pytest.fixture
def walked(cells):
    """Cells with a skeleton of three nodes."""
    edges = [("stem", "white"), ("stem", "red")]
    hgplvm.tl.lineages(cells, edges=edges, groupby="type")
    return cells


@pytest.fixture
def nodes(walked):
    return walked.uns["hgplvm"]["lineages"]["nodes"]


def skeleton_lines(ax):
    """Lines of the skeleton: those on top, each [points, 2]."""
    found = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_zorder() >= 4]
    outline, lines = found
    assert outline.get_linewidth()[0] > lines.get_linewidth()[0]
    return [np.asarray(line) for line in lines.get_segments()]


def rows_of(ax, n=60):
    (found,) = [s for s in scatters(ax) if len(s.get_offsets()) == n]
    return found


def spots(ax):
    """Single dots: where they stand, and their faces."""
    found = [s for s in scatters(ax) if len(s.get_offsets()) == 1]
    return [(np.asarray(s.get_offsets()[0]), tuple(s.get_facecolor()[0])) for s in found]


def assert_geodesic(line, a, b):
    """Whether points lie on the way from a to b: straight once a is at the origin."""
    np.testing.assert_allclose(line[0], a, atol=1e-7)
    np.testing.assert_allclose(line[-1], b, atol=1e-7)
    seen, end = moved_to_origin(line, a), moved_to_origin(b, a)
    turn = end / np.linalg.norm(end)
    np.testing.assert_allclose(seen @ np.array([-turn[1], turn[0]]), 0, atol=1e-7)
    steps = hyperbolic(line[:-1], line[1:])
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-4)


# --- lineages -------------------------------------------------------------------------------


def test_lines_are_geodesics_between_the_nodes(walked, nodes):
    lines = skeleton_lines(pl.lineages(walked))
    assert len(lines) == 2
    for line, end in zip(lines, nodes[1:], strict=True):
        assert len(line) > 5
        assert_geodesic(line, nodes[0], end)


def test_a_root_moves_all_that_is_drawn(walked, nodes, points):
    ax = pl.lineages(walked, root=7)
    np.testing.assert_allclose(rows_of(ax).get_offsets(), moved_to_origin(points, points[7]))
    there = moved_to_origin(nodes, points[7])
    for line, end in zip(skeleton_lines(ax), there[1:], strict=True):
        assert_geodesic(line, there[0], end)
    black = [at for at, face in spots(ax) if face == to_rgba("black")]
    np.testing.assert_allclose(black, there[1:], atol=1e-7)


def test_names_stand_at_the_ends(walked, nodes):
    ax = pl.lineages(walked)
    assert [text.get_text() for text in names_on(ax)] == NAMES
    ax.figure.canvas.draw()
    for text, end, other in zip(names_on(ax), nodes[1:], nodes[:0:-1], strict=True):
        apart = [np.linalg.norm(np.subtract(text.get_position(), at)) for at in (end, other)]
        assert apart[0] < apart[1]
        dot = ax.transData.transform(end)
        assert not text.get_window_extent().contains(*dot)  # the end itself is seen
    black = [at for at, face in spots(ax) if face == to_rgba("black")]
    np.testing.assert_allclose(black, nodes[1:], atol=1e-9)


def test_the_root_is_a_ring(walked, nodes):
    (at,) = [at for at, face in spots(pl.lineages(walked)) if face == to_rgba("white")]
    np.testing.assert_allclose(at, nodes[0], atol=1e-9)


def test_inner_branches_have_no_name(cells):
    """Those at whose end others begin."""
    edges = [("white", "stem"), ("stem", "red")]
    hgplvm.tl.lineages(cells, edges=edges, groupby="type")
    ax = pl.lineages(cells)
    assert [text.get_text() for text in names_on(ax)] == ["stem → red"]
    assert len(skeleton_lines(ax)) == 2


def test_names_are_no_formulas(walked):
    tree = dict(walked.uns["hgplvm"]["lineages"])
    tree["names"] = np.array(["_a$b$", "c"], dtype=object)
    walked.uns["hgplvm"] = {**walked.uns["hgplvm"], "lineages": tree}
    ax = pl.lineages(walked)
    ax.figure.canvas.draw()
    assert names_on(ax)[0].get_text().strip() == r"_a\$b\$"


def test_cells_have_the_colour_of_their_branch_and_are_fainter_where_it_is_unsure(walked):
    faces = rows_of(pl.lineages(walked)).get_facecolors()
    branch = walked.obs["hgplvm_branch"].to_numpy()
    for name in NAMES:
        assert len(np.unique(faces[branch == name, :3], axis=0)) == 1
    assert len(np.unique(faces[:, :3], axis=0)) == 2
    share = walked.obsm["hgplvm_branches"].to_numpy().max(1)
    order = np.argsort(share)
    assert (np.diff(faces[order, 3]) >= -1e-9).all()
    assert faces[share == share.min(), 3].max() < faces[share == 1, 3].min()


def test_the_legend_names_the_branches(walked):
    assert legend_words(pl.lineages(walked)) == NAMES
    assert legend_words(pl.lineages(walked, legend=False)) is None
    assert legend_words(pl.lineages(walked, legend="none")) is None
    handles = pl.lineages(walked).get_legend().legend_handles
    assert [tuple(h.get_facecolor()[0][:3]) for h in handles] == [
        to_rgba(c)[:3] for c in ("#1f77b4", "#ff7f0e")
    ]


def test_a_palette_gives_the_colours(walked):
    ax = pl.lineages(walked, palette=["red", "blue"])
    branch = walked.obs["hgplvm_branch"].to_numpy()
    faces = rows_of(ax).get_facecolors()
    np.testing.assert_allclose(
        faces[branch == NAMES[0], :3], [to_rgba("red")[:3]] * sum(branch == NAMES[0])
    )


def test_other_colours_are_those_of_the_disk(walked, points):
    ax = pl.lineages(walked, "type")
    assert legend_words(ax) == ["stem", "white", "red"]
    assert len(skeleton_lines(ax)) == 2
    ax = pl.lineages(walked, "depth")
    np.testing.assert_allclose(np.sort(rows_of(ax).get_array()), np.sort(walked.obs["depth"]))
    assert len(bars(ax)) == 1
    ax = pl.lineages(walked, "Gata1", layer="scaled")
    np.testing.assert_allclose(
        np.sort(rows_of(ax).get_array()), np.sort(walked.layers["scaled"][:, 0])
    )
    ax = pl.lineages(walked, np.arange(60) % 2)
    assert legend_words(ax) == ["0", "1"]


def test_the_picture_is_filled_unless_it_is_told_otherwise(walked, points):
    some = walked[np.linalg.norm(points, axis=1) < 0.5].copy()
    ax = pl.lineages(some)
    assert ax.get_xlim()[1] - ax.get_xlim()[0] < 1.6
    assert pl.lineages(walked, zoom=2.0).get_xlim()[1] == pytest.approx(1.03 / 2)


def test_what_else_a_picture_of_lineages_shows(walked):
    ax = pl.lineages(walked, title="a title", size=7.0, grid="none")
    assert ax.get_title() == "a title"
    assert set(rows_of(ax).get_sizes()) == {7.0}
    assert max(patch.get_radius() for patch in ax.patches) == 1.0
    assert len(ax.patches) == 1
    assert ax.get_aspect() == 1.0


def test_lineages_of_a_key_of_their_own(walked, nodes, points):
    cells = walked
    for name in ("X_{}", "X_{}_lorentz", "{}_covariance", "{}_branches", "{}_fates"):
        cells.obsm[name.format("other")] = cells.obsm[name.format("hgplvm")]
    cells.uns["other"] = cells.uns.pop("hgplvm")
    cells.obs["other_branch"] = cells.obs["hgplvm_branch"]
    lines = skeleton_lines(pl.lineages(cells, key="other"))
    assert_geodesic(lines[0], nodes[0], nodes[1])
    with pytest.raises(ValueError, match=r"needs the lineages|nothing of their fit"):
        pl.lineages(cells)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"color": "kind"}, r"'color' of pl\.lineages must be a column of adata\.obs"),
        ({"color": [1, 2]}, r"'color'"),
        ({"zoom": 0.0}, r"'zoom' parameter of pl\.lineages must be"),
        ({"legend": "top"}, r"'legend' parameter of pl\.lineages must be"),
        ({"grid": "square"}, r"'grid' parameter of pl\.lineages must be"),
        ({"root": "nobody"}, r"'root'"),
        ({"palette": ["red", "nocolour"]}, r"'palette' of pl\.lineages must be a list of colours"),
        ({"palette": ["red"]}, r"'palette' of pl\.lineages must have a colour for each of the 2"),
        ({"size": -1.0}, r"'size' parameter of pl\.lineages must be"),
        ({"size": "large"}, r"'size' parameter of pl\.lineages must be"),
        ({"key": "k"}, r"pl\.lineages finds no embedding under the key 'k'"),
        ({"save": "a.xyz"}, r"'save' parameter of lineages must be"),
    ],
)
def test_what_pictures_of_lineages_refuse(walked, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        pl.lineages(walked, **options)
    assert plt.get_fignums() == []


def test_lineages_must_have_been_found(cells, points):
    with pytest.raises(ValueError, match=r"needs the lineages: run hgplvm\.tl\.lineages\(adata"):
        pl.lineages(cells)
    with pytest.raises(TypeError, match=r"'adata' of pl\.lineages must be an AnnData object"):
        pl.lineages(points)


# --- trends ---------------------------------------------------------------------------------


@pytest.fixture
def table():
    """Three genes along two lineages of other lengths."""
    parts = []
    for lineage, end in (("white", 2.0), ("red", 3.0)):
        for g, gene in enumerate(["Klf1", "Gata1", "Spi1"]):
            at = np.linspace(0, end, 9)
            mean = 2.0 + np.sin(at + g) + (lineage == "red")
            parts.append(
                pd.DataFrame(
                    {
                        "lineage": lineage,
                        "gene": gene,
                        "position": at,
                        "mean": mean,
                        "low": mean - 0.5,
                        "high": mean + 0.7,
                        "slope": 0.0,
                        "slope_std": 1.0,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def lines_of(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def bands_of(ax):
    return [c.get_paths()[0].vertices for c in ax.collections if isinstance(c, PolyCollection)]


def test_there_is_a_panel_for_each_gene_and_a_line_for_each_lineage(table):
    axes = pl.trends(table)
    assert [ax.get_title() for ax in axes] == ["Klf1", "Gata1", "Spi1"]
    for ax in axes:
        lines = lines_of(ax)
        assert list(lines) == ["white", "red"]
        for name, line in lines.items():
            own = table[(table["gene"] == ax.get_title()) & (table["lineage"] == name)]
            np.testing.assert_allclose(line.get_xdata(), own["position"])
            np.testing.assert_allclose(line.get_ydata(), own["mean"])
        assert ax.get_xlabel()
    assert legend_words(axes[-1]) == ["white", "red"]
    assert legend_words(axes[0]) is None


def test_bands_reach_from_low_to_high(table):
    (ax,) = pl.trends(table, "Gata1", lineage="red")
    (outline,) = bands_of(ax)
    own = table[(table["gene"] == "Gata1") & (table["lineage"] == "red")]
    corners = {tuple(np.round(corner, 9)) for corner in outline}
    for name in ("low", "high"):
        assert {tuple(np.round(c, 9)) for c in zip(own["position"], own[name], strict=True)} <= (
            corners
        )


def test_genes_and_lineages_may_be_chosen(table):
    axes = pl.trends(table, ["Spi1", "Klf1"], lineage=["red"])
    assert [ax.get_title() for ax in axes] == ["Spi1", "Klf1"]
    assert all(list(lines_of(ax)) == ["red"] for ax in axes)
    assert legend_words(axes[-1]) is None  # of a single one
    axes = pl.trends(table, "Spi1", legend=False)
    assert legend_words(axes[-1]) is None


def test_colours_of_lineages(table):
    (ax,) = pl.trends(table, "Spi1", palette=["red", "#00ff00"])
    assert [to_rgba(line.get_color()) for line in ax.get_lines()] == [
        to_rgba("red"),
        to_rgba("#00ff00"),
    ]
    (ax,) = pl.trends(table, "Spi1")
    assert [line.get_color() for line in ax.get_lines()] == list(pl.OKABE_ITO[:2])


def test_bands_that_know_little_do_not_set_the_scale(table):
    table.loc[3, "high"] = 1e6
    (ax,) = pl.trends(table, "Klf1")
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] < 10
    assert ax.get_ylim()[1] > table[table["gene"] == "Klf1"]["mean"].max()


def test_negative_numbers_are_seen(table):
    for name in ("mean", "low", "high"):
        table[name] -= 4.0
    (ax,) = pl.trends(table, "Klf1")
    own = table[table["gene"] == "Klf1"]
    assert ax.get_ylim()[0] <= own["low"].min()
    assert ax.get_ylim()[1] >= own["mean"].max()


def test_the_table_of_an_object_is_drawn(cells, table):
    cells.uns["hgplvm"] = {**cells.uns["hgplvm"], "trends": table}
    first, second = pl.trends(cells, "Gata1"), pl.trends(table, "Gata1")
    for one, other in zip(first[0].get_lines(), second[0].get_lines(), strict=True):
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())


def test_axes_of_trends(table, tmp_path, monkeypatch):
    _, ax = plt.subplots()
    assert pl.trends(table, "Gata1", ax=ax) == [ax]
    assert len(plt.get_fignums()) == 1
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    pl.trends(table, save=tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert calls == []
    pl.trends(table, show=True)
    assert calls == [1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"genes": "Cebpa"}, r"'genes' of pl\.trends name 'Cebpa', and the table has 'Klf1', 'G"),
        ({"lineage": "blue"}, r"'lineage' of pl\.trends name 'blue', and the table has 'white'"),
        ({"legend": "side"}, r"'legend' parameter of pl\.trends must be True or False"),
        ({"palette": "viridis"}, r"'palette' of pl\.trends must be a list of colours"),
        ({"save": "a.xyz"}, r"'save' parameter of trends must be"),
    ],
)
def test_what_pictures_of_trends_refuse(table, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        pl.trends(table, **options)
    assert plt.get_fignums() == []


def test_no_panels_without_genes(table):
    with pytest.raises(ValueError, match=r"'genes' of pl\.trends"):
        pl.trends(table, [])


def test_axes_are_for_one_gene(table):
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="draws a panel for each of 3 genes, so that it takes no"):
        pl.trends(table, ax=ax)


@pytest.mark.parametrize("thing", [None, np.zeros((3, 3)), pd.DataFrame({"gene": ["a"]}), "a"])
def test_things_that_are_no_trends(thing):
    with pytest.raises(ValueError, match=r"'adata' of pl\.trends must be an AnnData object, or"):
        pl.trends(thing)


def test_trends_must_have_been_followed(cells):
    with pytest.raises(ValueError, match=r"finds no trends in adata: run hgplvm\.tl\.trends"):
        pl.trends(cells)


# --- axes, windows, files -------------------------------------------------------------------


def test_axes_of_lineages(walked, tmp_path, monkeypatch):
    figure, axes = plt.subplots(1, 2)
    assert pl.lineages(walked, ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    assert not axes[0].has_data()
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    pl.lineages(walked, save=tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert calls == []
    pl.lineages(walked, show=True)
    assert calls == [1]


def test_nothing_that_is_drawn_is_changed(walked):
    pl.lineages(walked)  # keeps the colours of the branches
    before = walked.copy()
    pl.lineages(walked, root=3)
    assert np.array_equal(walked.obsm["X_hgplvm"], before.obsm["X_hgplvm"])
    kept, drawn = (a.uns["hgplvm"]["lineages"]["nodes"] for a in (before, walked))
    assert np.array_equal(kept, drawn)
    assert sorted(walked.uns) == sorted(before.uns)


def test_geodesics_of_the_helpers_are_ones():
    """Lest both the code and the test are wrong."""
    a, b = np.array([0.3, -0.5]), np.array([-0.6, 0.1])
    line = moved_from_origin(moved_to_origin(b, a) * np.linspace(0, 1, 9)[:, None], a)
    ways = hyperbolic(line[:-1], line[1:]).sum()
    assert ways == pytest.approx(hyperbolic(a, b))
