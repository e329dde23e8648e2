"""Credible regions: they hold the share of samples that they say."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from matplotlib.path import Path

from hgplvm import pl
from tests.pl.helpers import (
    exponential,
    legend_words,
    moved_to_origin,
    regions,
    scatters,
)


class Posterior:
    """Means and covariances, as a fitted model has them."""

    def __init__(self, means, covariances):
        self.embedding_ = np.asarray(means, dtype=float)
        self.posterior_cov_ = np.asarray(covariances, dtype=float)


MEANS = np.array([[0.0, 0.0], [0.6, 0.1], [-0.7, 0.55], [0.3, -0.9]])
COVARIANCES = np.array(
    [
        [[0.3, 0.1], [0.1, 0.2]],
        [[0.4, -0.25], [-0.25, 0.3]],
        [[0.05, 0.09], [0.09, 0.4]],
        [[0.6, -0.1], [-0.1, 0.05]],
    ]
)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("root", [None, 2, [0.5, 0.7]])
def test_a_region_holds_its_share_of_a_wrapped_normal(level, root):
    n = 20_000
    outlines = regions(pl.uncertainty(Posterior(MEANS, COVARIANCES), level=level, root=root))
    assert len(outlines) == 4
    rng = np.random.default_rng(0)
    for outline, mean, covariance in zip(outlines, MEANS, COVARIANCES, strict=True):
        v = rng.standard_normal((n, 2)) @ np.linalg.cholesky(covariance).T
        samples = exponential(mean, v)
        if root is not None:
            samples = moved_to_origin(samples, MEANS[root] if isinstance(root, int) else root)
        share = Path(outline).contains_points(samples).mean()
        # 4 standard errors, and what is cut off between the corners
        assert share == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / n) + 1e-3)


@pytest.mark.parametrize("mean", [[0.0, 0.0], [0.02, -0.01], [0.5, 0.6]])
def test_a_small_region_is_an_ellipse_scaled_by_the_metric(mean):
    covariance = 1e-8 * np.array([[2.0, 0.9], [0.9, 1.0]])
    (outline,) = regions(pl.uncertainty(Posterior([mean], [covariance]), level=0.9))
    step = outline[:64] - mean
    squared = np.einsum("ni,ij,nj->n", step, np.linalg.inv(covariance), step)
    factor = (1 - np.dot(mean, mean)) / 2
    assert np.allclose(squared, factor**2 * -2 * np.log(0.1), rtol=2e-3)
    assert len(np.unique(step.round(12), axis=0)) == 64


def test_a_covariance_without_width_is_drawn_as_a_line():
    flat = [[0.04, 0.0], [0.0, 0.0]]
    (outline,) = regions(pl.uncertainty(Posterior([[0.0, 0.0]], [flat]), level=0.9))
    assert np.allclose(outline[:, 1], 0, atol=1e-12)
    reach = np.tanh(0.2 * np.sqrt(-2 * np.log(0.1)) / 2)
    assert np.abs(outline[:, 0]).max() == pytest.approx(reach)


def test_annotated_data_hold_covariances_row_by_row(cells, points, covariances):
    from_cells = regions(pl.uncertainty(cells))
    from_model = regions(pl.uncertainty(Posterior(points, covariances)))
    assert np.allclose(from_cells, from_model)
    assert len(from_cells) == 60


def test_a_fitted_object_and_its_model_have_the_same_regions(fitted, model):
    assert np.allclose(regions(pl.uncertainty(fitted)), regions(pl.uncertainty(model)))


def test_no_more_regions_than_asked_for_but_all_points(cells):
    every = regions(pl.uncertainty(cells))
    ax = pl.uncertainty(cells, n_regions=7)
    some = regions(ax)
    assert len(some) == 7
    assert len(scatters(ax)[0].get_offsets()) == 60
    rows = [next(i for i, e in enumerate(every) if np.allclose(e, s)) for s in some]
    assert rows == sorted(set(rows))
    again = regions(pl.uncertainty(cells, n_regions=7))
    other = regions(pl.uncertainty(cells, n_regions=7, random_state=1))
    assert np.array_equal(some, again)
    assert not np.allclose(some, other)
    assert len(regions(pl.uncertainty(cells, n_regions=60))) == 60


def _faces(ax):
    (found,) = [c for c in ax.collections if c.get_zorder() == 1]
    return found.get_facecolor()


def test_regions_have_the_colours_of_their_points(cells):
    wanted = {"stem": "#ff0000", "white": "#00ff00", "red": "#0000ff"}
    faces = _faces(pl.uncertainty(cells, "type"))
    for face, kind in zip(faces, cells.obs["type"], strict=True):
        assert np.allclose(face, to_rgba(wanted[kind], 0.2))


def test_regions_that_were_chosen_have_the_colours_of_their_points(cells):
    cells.obs["row"] = np.arange(60.0)
    every, some = pl.uncertainty(cells, "row"), pl.uncertainty(cells, "row", n_regions=5)
    paths, faces = regions(every), _faces(every)
    for outline, face in zip(regions(some), _faces(some), strict=True):
        row = next(i for i, path in enumerate(paths) if np.allclose(path, outline))
        assert np.allclose(face, faces[row])


def test_regions_of_numbers_have_the_colours_of_the_scale(cells):
    values = np.linspace(2, 4, 60)
    values[5] = np.nan
    ax = pl.uncertainty(cells, values, palette="magma")
    expected = plt.get_cmap("magma")((np.delete(values, 5) - 2) / 2)[:, :3]
    faces = _faces(ax)
    assert np.allclose(np.delete(faces, 5, axis=0)[:, :3], expected)
    assert np.allclose(faces[5], to_rgba("#d3d3d3", 0.2))
    constant = _faces(pl.uncertainty(cells, np.ones(60)))
    assert np.allclose(constant[:, :3], plt.get_cmap("viridis")(0.0)[:3])


def test_infinite_values_are_grey(cells):
    values = np.linspace(2, 4, 60)
    values[5] = np.inf
    assert np.allclose(_faces(pl.uncertainty(cells, values))[5], to_rgba("#d3d3d3", 0.2))


def test_the_disk_beneath_is_that_of_points(cells, points):
    ax = pl.uncertainty(cells, "type", root=4, zoom=1.5, grid="geodesic")
    assert ax.get_xlim()[1] == pytest.approx(1.03 / 1.5)
    assert ax.get_title() == "type"
    assert legend_words(ax) == ["stem", "white", "red"]
    assert len(ax.patches) == 1
    drawn = np.concatenate([s.get_offsets() for s in scatters(ax)])
    wanted = moved_to_origin(points, points[4])
    assert np.allclose(np.sort(drawn, axis=0), np.sort(wanted, axis=0))
    assert pl.uncertainty(cells, "type", title="sure").get_title() == "sure"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": 0}, r"'level' parameter of uncertainty .* \(0, 1\). Got 0 instead"),
        ({"level": 1.0}, r"'level' parameter of uncertainty .* Got 1.0 instead"),
        ({"level": "most"}, r"'level' parameter of uncertainty .* Got 'most' instead"),
        ({"n_regions": 0}, r"'n_regions' parameter of uncertainty must be an int .* Got 0"),
        ({"n_regions": 2.5}, r"'n_regions' parameter of uncertainty must be an int .* Got 2.5"),
        ({"legend": "left"}, r"'legend' parameter of uncertainty must be one of"),
        ({"grid": "square"}, r"'grid' parameter of uncertainty must be one of"),
        ({"zoom": 0}, r"'zoom' parameter of uncertainty"),
        ({"root": 99}, r"'root' of uncertainty must be a row index below 60"),
        ({"color": "nobody"}, r"'color' of uncertainty must be a column of adata.obs"),
        ({"key": "umap"}, r"'adata' of uncertainty must lie inside the unit disk"),
    ],
)
def test_bad_options(cells, change, message):
    with pytest.raises(ValueError, match=message):
        pl.uncertainty(cells, **change)
    assert not plt.get_fignums()


def test_what_is_not_sure_of_itself_has_no_regions(cells, points):
    sentence = r"uncertainty needs the posterior of each position, which {} does not keep: use a f"
    with pytest.raises(ValueError, match=sentence.format("ndarray")):
        pl.uncertainty(points)
    del cells.obsm["hgplvm_covariance"]
    with pytest.raises(ValueError, match=sentence.format("AnnData")):
        pl.uncertainty(cells)
    assert not plt.get_fignums()
