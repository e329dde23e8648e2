"""New rows over old ones: where they stand, and which are crosses."""

import anndata
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import hgplvm
from hgplvm import pl
from tests.pl.helpers import legend_colours, legend_words, moved_to_origin, names_on, scatters

NEW = np.array([[0.1, 0.2], [-0.3, 0.4], [0.5, -0.1], [0.0, 0.0]])


@pytest.fixture
def fresh():
    """New cells, of which the second does not belong on the map."""
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(["red", "stem", "blue", "red"]),
            "hgplvm_off_map": [0.5, 1e-4, 0.2, 0.9],
            "depth": [1.0, 2.0, 3.0, 4.0],
        },
        index=list("abcd"),
    )
    found = anndata.AnnData(np.zeros((4, 2)), obs=obs)
    found.obsm["X_hgplvm"] = NEW
    return found


def parts(ax):
    """Old rows, new dots and crosses."""
    old, *rest = scatters(ax)
    return np.asarray(old.get_offsets()), [np.asarray(s.get_offsets()) for s in rest]


def test_new_rows_lie_over_the_old(points):
    ax = pl.placed(NEW, points)
    old, (new,) = parts(ax)
    assert np.allclose(old, points)
    assert np.allclose(new, NEW)
    below, above = scatters(ax)
    assert below.get_zorder() < above.get_zorder()
    assert above.get_sizes()[0] > below.get_sizes()[0]
    assert legend_words(ax) == ["new", "of the fit"]


def test_both_move_with_a_root_of_the_old(points):
    old, (new,) = parts(pl.placed(NEW, points, root=7))
    assert np.allclose(old, moved_to_origin(points, points[7]))
    assert np.allclose(new, moved_to_origin(NEW, points[7]))


def test_the_picture_has_room_for_both():
    ax = pl.placed(np.array([[0.6, 0.0]]), np.array([[0.0, 0.0], [0.1, 0.1]]))
    assert ax.get_xlim()[0] < 0.0
    assert ax.get_xlim()[1] > 0.6


def test_rows_that_are_not_explained_are_crosses(fresh, cells):
    ax = pl.placed(fresh, cells)
    _, (dots, crosses) = parts(ax)
    assert np.allclose(crosses, NEW[1:2])
    assert np.allclose(dots, NEW[[0, 2, 3]])
    assert "new, not explained" in legend_words(ax)
    _, (all_of_them,) = parts(pl.placed(fresh, cells, off_map=None))
    assert len(all_of_them) == 4
    _, (dots, crosses) = parts(pl.placed(NEW, cells, off_map=[0.001, 0.5, 0.5, 0.5]))
    assert np.allclose(crosses, NEW[:1])


def test_a_category_has_one_colour_in_both(fresh, cells):
    ax = pl.placed(fresh, cells, "type", off_map=None)
    found = legend_colours(ax)
    assert {name: found[name] for name in ("red", "stem")} == {"red": "#0000ff", "stem": "#ff0000"}
    assert found["blue"] not in ("#ff0000", "#00ff00", "#0000ff")  # a type that only they have
    old, new = scatters(ax)
    assert to_hex(new.get_facecolor()[0]) == "#0000ff"
    kinds = cells.obs["type"].astype(str).to_numpy()
    assert to_hex(old.get_facecolor()[list(kinds).index("stem")]) == "#ff0000"


def test_numbers_of_new_rows(fresh, cells):
    ax = pl.placed(fresh, cells, "depth", off_map=None, cmap="magma")
    _, new = scatters(ax)
    assert to_hex(new.get_facecolor()[0]) == to_hex(plt.get_cmap("magma")(0.0))
    assert to_hex(new.get_facecolor()[3]) == to_hex(plt.get_cmap("magma")(1.0))
    assert ax.get_title() == "depth"


def test_names_on_data(fresh, cells):
    ax = pl.placed(fresh, cells, reference_color="type", legend="on data")
    assert sorted(text.get_text() for text in names_on(ax)) == ["red", "stem", "white"]


def test_a_model_and_what_it_placed(model):
    rows = np.random.default_rng(0).standard_normal((5, 4))
    places, p = model.transform(rows, return_off_map=True)
    old, new = parts(pl.placed(places, model, off_map=p))
    assert np.allclose(old, model.embedding_)
    assert sum(len(part) for part in new) == 5


def test_cells_after_transform(fitted):
    new = fitted[:7].copy()
    new.X = new.X + 0.1
    hgplvm.tl.transform(new, fitted)
    _, new_parts = parts(pl.placed(new, fitted))
    assert sum(len(part) for part in new_parts) == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"off_map": [0.1]}, r"'off_map' of placed must have a p-value for each of the 4 new rows"),
        ({"off_map": "all"}, r"'off_map' parameter of placed must be one of 'auto'"),
        ({"legend": "left"}, r"'legend' parameter of placed"),
        ({"color": "type"}, r"'color' of placed must be an array"),
        ({"root": 60}, r"'root' of placed must be a row index below 60"),
    ],
)
def test_what_is_refused(points, change, message):
    with pytest.raises(ValueError, match=message):
        pl.placed(NEW, points, **change)
    assert not plt.get_fignums()


def test_the_legend_names_what_either_has_and_new_cells_keep_no_colours(fresh, cells):
    ax = pl.placed(fresh[[0, 3]].copy(), cells, "type", off_map=None)
    assert set(legend_words(ax)) == {"new", "stem", "white", "red"}
    pl.placed(fresh, cells, "type")
    assert "type_colors" not in fresh.uns
