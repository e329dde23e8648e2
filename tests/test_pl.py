"""Pictures: what is drawn, and what is refused."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection

from hgplvm import GPLVM, HGPLVM, pl

RNG = np.random.default_rng(0)
P = 0.3 * RNG.standard_normal((50, 2)).clip(-2, 2)


def scatters(ax):
    return [c for c in ax.collections if isinstance(c, PathCollection)]


def test_points_and_boundary_are_drawn_with_equal_aspect():
    ax = pl.poincare(P)
    (scatter,) = scatters(ax)
    assert np.allclose(scatter.get_offsets(), P)
    assert any(patch.get_radius() == 1.0 for patch in ax.patches)
    assert ax.get_aspect() == 1.0
    assert ax.get_xlim()[1] > 1


def test_a_fitted_model_is_drawn_by_its_embedding():
    model = HGPLVM(max_iter=2, random_state=0).fit(RNG.standard_normal((20, 4)))
    (scatter,) = scatters(pl.poincare(model))
    assert np.allclose(scatter.get_offsets(), model.embedding_)


def test_categories_have_a_legend_and_numbers_a_colour_bar():
    labels = np.array(["b", "a"])[(P[:, 0] > 0).astype(int)]
    ax = pl.poincare(P, labels)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert len(scatters(ax)) == 2
    ax = pl.poincare(P, P[:, 0])
    assert ax.get_legend() is None
    assert len(ax.figure.axes) == 2
    assert pl.poincare(P, labels, legend=False).get_legend() is None


def test_many_categories_have_different_colours():
    ax = pl.poincare(P, np.arange(50) % 25)
    colours = {tuple(scatter.get_facecolor()[0]) for scatter in scatters(ax)}
    assert len(colours) == 25


def test_many_integers_are_numbers():
    ax = pl.poincare(P, np.arange(50), palette=["white", "red"])
    assert len(scatters(ax)) == 1
    assert len(ax.figure.axes) == 2


def test_missing_categories_are_grey():
    ax = pl.poincare(P, np.array(["b", None] * 25, dtype=object))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["b", "missing"]
    assert np.allclose(scatters(ax)[1].get_facecolor()[0][:3], 0xBB / 0xFF)


def test_given_axes_are_used_and_files_written(tmp_path):
    _, ax = plt.subplots()
    path = tmp_path / "disk.png"
    assert pl.poincare(P, ax=ax, title="disk", save=path) is ax
    assert ax.get_title() == "disk"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_show_is_called_only_when_asked(monkeypatch):
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    pl.poincare(P)
    assert calls == []
    pl.poincare(P, show=True)
    assert calls == [1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pl.poincare(P * 9), "inside the unit disk"),
        (lambda: pl.poincare(np.zeros((5, 3))), "must have 2 columns.* Got 3"),
        (lambda: pl.poincare(P, np.zeros(3)), "one entry for each of the 50 rows"),
        (lambda: pl.poincare(P, np.arange(50) % 9, palette=["red"]), "each of the 9 categories"),
        (lambda: pl.poincare(HGPLVM()), "flat or not fitted: call its fit first"),
        (lambda: pl.poincare(GPLVM(max_iter=1).fit(P)), "flat or not fitted"),
        (lambda: pl.poincare("disk"), "array of real numbers"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(scope="module")
def searched():
    return HGPLVM(max_iter=1, random_state=0).fit(np.random.default_rng(1).standard_normal((40, 4)))


def test_length_scales_draws_a_curve_a_kind_and_rings_the_chosen(searched, tmp_path):
    ax = pl.length_scales(searched, title="how curved", save=tmp_path / "curve.png")
    history = searched.history_
    kinds = list(dict.fromkeys(history["search_start"].tolist()))
    assert [line.get_label() for line in ax.lines] == kinds
    behind = history["search_evidence"] - history["search_evidence"].max()
    for line in ax.lines:
        own = history["search_start"] == line.get_label()
        assert np.allclose(line.get_xydata(), np.c_[history["search_scale"], behind][own])
    (ring,) = [c for c in ax.collections if c.get_label() == "chosen"]
    (chosen,) = np.flatnonzero(history["search_chosen"])
    assert np.allclose(ring.get_offsets(), [history["search_scale"][chosen], behind[chosen]])
    low, high = ax.get_ylim()
    assert low < behind[chosen] < high
    assert ax.get_title() == "how curved"
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_length_scales_takes_axes(searched):
    _, ax = plt.subplots()
    assert pl.length_scales(searched, ax=ax) is ax


@pytest.mark.parametrize("model", [HGPLVM(), None, np.zeros((3, 2))])
def test_length_scales_wants_a_fit_that_searched(model):
    with pytest.raises(ValueError, match="must be a fitted model whose start was searched"):
        pl.length_scales(model)


def test_length_scales_of_a_random_start():
    model = HGPLVM(init="random", max_iter=1).fit(P)
    with pytest.raises(ValueError, match="began at random: fit it with init='auto'"):
        pl.length_scales(model)
