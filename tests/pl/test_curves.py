"""Curves of a fit: the numbers that it wrote down."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba

from hgplvm import HGPLVM, pl
from tests.pl.helpers import SEARCH, STEPS, Written, legend_words, scatters

WORDS = {
    "objective": "objective",
    "gradient_norm": "norm of the gradient",
    "step_size": "length of the step",
    "variance": "variance σ",
    "noise_variance": "noise variance 1/β",
    "length_scale": "length scale κ",
}


@pytest.mark.parametrize("quantity", WORDS)
def test_history_draws_what_was_written_down(written, quantity):
    ax = pl.history(written, quantity)
    (line,) = ax.lines
    values = np.array(STEPS[quantity])
    assert np.array_equal(line.get_xdata(), np.arange(5))
    logarithmic = quantity not in ("objective", "length_scale")
    assert ax.get_yscale() == ("log" if logarithmic else "linear")
    wanted = np.where(values > 0, values, np.nan) if logarithmic else values
    assert np.array_equal(line.get_ydata(), wanted, equal_nan=True)
    assert ax.get_ylabel() == WORDS[quantity]
    assert ax.get_xlabel() == "step"


def test_history_by_seconds(written):
    ax = pl.history(written, by="seconds", title="slow")
    assert np.array_equal(ax.lines[0].get_xydata(), np.c_[STEPS["seconds"], STEPS["objective"]])
    assert ax.get_xlabel() == "seconds"
    assert ax.get_title() == "slow"


def test_several_histories_in_the_same_axes(written):
    ax = pl.history(written, "gradient_norm")
    assert pl.history(written, "gradient_norm", ax=ax) is ax
    assert len(ax.lines) == 2
    assert ax.lines[0].get_color() != ax.lines[1].get_color()


def test_history_of_annotated_data_and_of_its_model(fitted, model):
    for quantity in WORDS:
        one, other = (pl.history(data, quantity).lines[0] for data in (fitted, model))
        assert np.array_equal(one.get_xydata(), other.get_xydata(), equal_nan=True)
        assert len(one.get_xdata()) == model.n_iter_ + 1


def test_no_step_at_all_leaves_the_axes_empty():
    ax = pl.history(Written(step_size=[0.0]), "step_size")
    assert np.isnan(ax.lines[0].get_ydata()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantity": "loss"}, r"'quantity' parameter of history must be one of 'objective', 'gra"),
        ({"by": "hours"}, r"'by' parameter of history must be one of 'step', 'seconds'. Got 'hou"),
    ],
)
def test_bad_options_of_history(written, change, message):
    with pytest.raises(ValueError, match=message):
        pl.history(written, **change)
    assert not plt.get_fignums()


@pytest.mark.parametrize("data", [HGPLVM(), None, np.zeros((3, 2)), Written()])
def test_history_wants_a_fit(data):
    with pytest.raises(
        ValueError, match=r"(?s)of history must be a fitted model, .* not fitted: c"
    ):
        pl.history(data)
    assert not plt.get_fignums()


def test_annotated_data_without_history(cells):
    with pytest.raises(ValueError, match=r"history finds no embedding under the key 'a': run hgpl"):
        pl.history(cells, key="a")
    with pytest.raises(ValueError, match=r"length_scales finds no embedding under the key 'a'"):
        pl.length_scales(cells, key="a")
    cells.uns["hgplvm"] = {}
    with pytest.raises(
        ValueError, match=r"(?s)of history must be a fitted model.*Got AnnData obje"
    ):
        pl.history(cells)
    with pytest.raises(ValueError, match=r"(?s)whose start was searched.*Got AnnData object"):
        pl.length_scales(cells)


# --- length scales --------------------------------------------------------------------------


def check_search(ax, history):
    kinds = list(dict.fromkeys(history["search_start"].tolist()))
    behind = history["search_evidence"] - history["search_evidence"].max()
    table = np.c_[history["search_scale"], behind]
    assert [line.get_label() for line in ax.lines] == kinds
    assert legend_words(ax) == [*kinds, "chosen"]
    *dots, ring = scatters(ax)
    for line, dot, kind, colour in zip(ax.lines, dots, kinds, pl.OKABE_ITO, strict=False):
        own = history["search_start"] == kind
        assert np.allclose(line.get_xydata(), table[own])
        assert np.allclose(dot.get_offsets(), table[own])
        assert to_rgba(line.get_color()) == to_rgba(colour)
        enough = history["search_enough"][own].astype(bool)
        faces = [colour if good else "white" for good in enough]
        assert np.allclose(dot.get_facecolor(), [to_rgba(face) for face in faces])
    (chosen,) = np.flatnonzero(history["search_chosen"])
    assert ring.get_label() == "chosen"
    assert np.allclose(ring.get_offsets(), table[chosen])
    assert len(ring.get_facecolor()) == 0
    won = behind[history["search_start"] == history["search_start"][chosen]]
    low, high = ax.get_ylim()
    assert low < won.min()
    assert won.max() < high


def test_a_curve_a_kind_and_a_ring_around_the_chosen(written):
    ax = pl.length_scales(written, title="how curved")
    check_search(ax, written.history_)
    assert ax.get_title() == "how curved"
    assert np.allclose(ax.get_ylim(), [-1.5 * 0.3 - 1e-3, 0.2 * 0.3 + 1e-3])


def test_length_scales_of_annotated_data_and_of_its_model(cells, written, fitted, model):
    check_search(pl.length_scales(cells), written.history_)
    for data in (fitted, model):
        check_search(pl.length_scales(data), model.history_)


def test_a_search_of_one_scale_has_limits():
    one = {name: values[:1] for name, values in SEARCH.items()}
    one |= {"search_chosen": [True], "search_enough": [True]}
    low, high = pl.length_scales(Written(**one)).get_ylim()
    assert low < 0 < high


def test_a_kind_that_lost_by_far_does_not_flatten_the_one_that_won():
    far = {**SEARCH, "search_evidence": [-1.3, -1.0, -1.01, -500.0, -450.0, -600.0]}
    assert pl.length_scales(Written(**far)).get_ylim()[0] > -1


@pytest.mark.parametrize("model", [HGPLVM(), None, np.zeros((3, 2))])
def test_length_scales_wants_a_fit_that_searched(model):
    with pytest.raises(ValueError, match=r"must be a fitted model whose start was searched, or an"):
        pl.length_scales(model)
    assert not plt.get_fignums()


def test_length_scales_of_a_random_start(points):
    model = HGPLVM(init="random", max_iter=1).fit(points)
    with pytest.raises(
        ValueError, match=r"began at random: fit it with init='auto', 'mds' or 'pca"
    ):
        pl.length_scales(model)
    assert not plt.get_fignums()
