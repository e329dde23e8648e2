"""Several embeddings side by side: disks for those inside the disk, planes for others."""

import anndata
import numpy as np
import pytest
from matplotlib import pyplot as plt

from hgplvm import GPLVM, HGPLVM, pl
from tests.pl.helpers import (
    bars,
    grid_lines,
    legend_words,
    lorentz_of,
    moved_to_origin,
    names_on,
    scatters,
)


def on_disk(ax):
    return any(getattr(patch, "get_radius", lambda: 0)() == 1.0 for patch in ax.patches)


def drawn(ax):
    return np.concatenate([scatter.get_offsets() for scatter in scatters(ax)])


def test_arrays_inside_the_disk_are_on_disks_and_others_in_planes(points):
    axes = pl.compare({"in": points, "out": 3 * points, "edge": points / np.abs(points).max()})
    assert [ax.get_title() for ax in axes] == ["in", "out", "edge"]
    assert [on_disk(ax) for ax in axes] == [True, False, False]
    for ax, factor in zip(axes[:2], (1, 3), strict=True):
        assert np.allclose(drawn(ax), factor * points)
        assert ax.get_aspect() == 1.0
    assert axes[0].get_xlim()[1] == pytest.approx(1.03)
    assert list(axes[1].get_xticks()) == list(axes[1].get_yticks()) == []
    assert len({ax.figure for ax in axes}) == 1


def test_points_of_the_square_outside_the_disk_are_in_a_plane(points):
    corner = np.array([*points[:-1], [0.8, 0.8]])
    (ax,) = pl.compare({"corner": corner})
    assert not on_disk(ax)


def test_models_are_flat_or_hyperbolic_by_themselves(points):
    data = 0.01 * np.random.default_rng(0).standard_normal((20, 3))
    flat = GPLVM(max_iter=1, init="random").fit(data)
    assert np.abs(flat.embedding_).max() < 0.7  # so that its numbers do not tell
    curved = HGPLVM(max_iter=1, init="random").fit(data)
    axes = pl.compare({"flat": flat, "curved": curved})
    assert [on_disk(ax) for ax in axes] == [False, True]
    assert np.allclose(drawn(axes[0]), flat.embedding_)
    assert np.allclose(drawn(axes[1]), curved.embedding_)


def test_all_embeddings_of_annotated_data_with_two_columns(cells):
    axes = pl.compare(cells)
    assert [ax.get_title() for ax in axes] == ["hgplvm", "umap"]
    assert [on_disk(ax) for ax in axes] == [True, False]
    assert np.allclose(drawn(axes[1]), cells.obsm["X_umap"])


def test_small_numbers_alone_do_not_make_a_disk(cells, points):
    """Diffusion maps, among others, lie inside of it by accident."""
    cells.obsm["X_diffmap"] = 0.1 * points
    disk, plane = pl.compare(cells, bases=["hgplvm", "diffmap"], root=3)
    assert on_disk(disk)
    assert not on_disk(plane)
    assert np.allclose(drawn(plane), 0.1 * points)


def test_bases_are_drawn_in_their_order_by_their_first_two_columns(cells):
    axes = pl.compare(cells, bases=["pca", "hgplvm"])
    assert [ax.get_title() for ax in axes] == ["pca", "hgplvm"]
    assert np.allclose(drawn(axes[0]), cells.obsm["X_pca"][:, :2])


@pytest.mark.parametrize("root", [5, "cell5", {"type": "red"}])
def test_a_root_moves_disks_alone(cells, points, root):
    disk, plane = pl.compare(cells, root=root)
    assert np.allclose(drawn(plane), cells.obsm["X_umap"])
    (alone,) = scatters(pl.poincare(cells, root=root))
    assert np.allclose(drawn(disk), alone.get_offsets())
    assert not np.allclose(drawn(disk), points, atol=0.01)


def test_a_root_is_found_in_each_embedding_of_its_own(cells, points):
    cells.obsm["X_turned"] = points @ [[0, 1], [-1, 0]]
    cells.obsm["X_turned_lorentz"] = lorentz_of(cells.obsm["X_turned"])
    for ax in pl.compare(cells, bases=["hgplvm", "turned"], root=8):
        own = cells.obsm[f"X_{ax.get_title()}"]
        assert np.allclose(drawn(ax), moved_to_origin(own, own[8]))


def test_colours_are_the_same_in_all_and_the_legend_stands_at_the_last(cells):
    first, last = pl.compare(cells, "type")
    assert legend_words(first) is None
    assert legend_words(last) == ["stem", "white", "red"]
    for one, other in zip(scatters(first), scatters(last), strict=True):
        assert np.array_equal(one.get_facecolor(), other.get_facecolor())
    for ax in pl.compare(cells, "type", legend="none"):
        assert legend_words(ax) is None


def test_names_on_data_in_all(cells):
    disk, plane = pl.compare(cells, "type", legend="on data")
    for ax in (disk, plane):
        assert [text.get_text() for text in names_on(ax)] == ["stem", "white", "red"]
    wide = np.ptp(plane.get_xlim())
    for text in names_on(plane):
        own = cells.obsm["X_umap"][(cells.obs["type"] == text.get_text()).to_numpy()]
        middle = own[np.argmin(np.linalg.norm(own - own.mean(axis=0), axis=1))]
        assert np.linalg.norm(text.get_position() - middle) < 0.15 * wide


def test_numbers_have_one_colour_bar(cells):
    axes = pl.compare(cells, "Gata1", layer="scaled", palette="magma")
    assert [len(bars(ax)) for ax in axes] == [0, 1]
    values = np.sort(np.asarray(cells.layers["scaled"][:, 0]))
    for ax in axes:
        assert np.allclose(scatters(ax)[0].get_array(), values)
        assert scatters(ax)[0].get_cmap().name == "magma"


def test_size_and_grid(cells):
    disk, plane = pl.compare(cells, size=3.5, grid="geodesic")
    assert len(grid_lines(disk)) == 18
    assert {scatters(ax)[0].get_sizes()[0] for ax in (disk, plane)} == {3.5}


def test_axes_that_are_given(cells):
    _, axes = plt.subplots(1, 2)
    found = pl.compare(cells, ax=axes)
    assert isinstance(found, list)
    assert all(one is other for one, other in zip(found, axes, strict=True))
    _, ax = plt.subplots()
    assert pl.compare(cells, bases=["umap"], ax=ax)[0] is ax


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"legend": "left"}, r"'legend' parameter of compare must be one of"),
        ({"grid": "square"}, r"'grid' parameter of compare must be one of"),
        (
            {"bases": ["tsne"]},
            r"names of embeddings in adata.obsm. Got 'tsne', .* no 'X_tsne'; the",
        ),
        ({"bases": []}, r"'adata' of compare has no embedding with two columns"),
        ({"color": "nobody"}, r"'color' of compare must be a column of adata.obs"),
        ({"root": 60}, r"'root' of compare must be a row index below 60"),
        ({"ax": [None]}, r"'ax' of compare must be a sequence of 2 axes, .* Got 1 instead"),
    ],
)
def test_bad_options(cells, change, message):
    with pytest.raises(ValueError, match=message):
        pl.compare(cells, **change)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, r"'adata' of compare has no embedding with two columns"),
        ([np.zeros((3, 2))], r"must be an AnnData object, or a dict of names .* Got list instead"),
        ({"a": np.zeros((3, 4))}, r"embedding 'a' of compare must have 2 columns. Got 4"),
        ({"a": np.zeros((3, 2)), "b": np.ones((4, 2))}, r"the same rows. 'b' has 4, the first 3"),
        ({"a": np.full((3, 2), np.nan)}, r"'a' of compare must be finite"),
        ({"a": HGPLVM()}, r"'a' of compare must be an array of real numbers. Got HGPLVM\(\)"),
        (anndata.AnnData(np.zeros((3, 2))), r"'adata' of compare has no embedding with two column"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        pl.compare(data)
    assert not plt.get_fignums()


def test_names_go_with_annotated_data(points):
    with pytest.raises(ValueError, match=r"'bases' of compare go with an AnnData object, not with"):
        pl.compare({"a": points}, bases=["a"])
    with pytest.raises(ValueError, match=r"'color' of compare must be an array .* Got 'type'"):
        pl.compare({"a": points}, "type")


def test_fewer_embeddings_are_named_where_a_base_is_not_there(points):
    bare = anndata.AnnData(np.zeros((60, 1)))
    with pytest.raises(ValueError, match=r"no 'X_umap'; there are none\."):
        pl.compare(bare, bases=["umap"])


def test_names_on_flat_data_stand_where_their_points_are():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], 20)
    places = np.repeat([[10.0, 0.0], [20.0, 40.0], [0.0, 20.0]], 20, axis=0)
    flat = places + rng.standard_normal((60, 2))
    for ax in pl.compare({"one": flat, "two": 100 * flat}, labels, legend="on data"):
        scale = 1.0 if ax.get_title() == "one" else 100.0
        for text, name in zip(names_on(ax), "abc", strict=True):
            middle = scale * places[labels == name][0]
            assert text.get_text() == name
            assert np.linalg.norm(text.get_position() - middle) < 6.0 * scale
