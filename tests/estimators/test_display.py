"""How models show themselves in notebooks."""

import re

import numpy as np
import pytest
import sklearn

from hgplvm import GPLVM, HGPLVM
from hgplvm.estimators import display

DATA = np.random.default_rng(0).standard_normal((30, 4))


@pytest.fixture(scope="module")
def curved():
    return HGPLVM(max_iter=3, random_state=0).fit(DATA)


def dots(html):
    """Centres of the points of a picture, in pixels."""
    (drawn,) = re.findall(r"<g fill='#0072B2'.*?</g>", html)
    return np.array(re.findall(r"cx='([\d.]+)' cy='([\d.]+)'", drawn), dtype=float)


def test_a_model_that_is_not_fitted_is_a_diagram_alone():
    html = HGPLVM(max_iter=3)._repr_html_()
    assert "HGPLVM" in html
    assert "aria-label='embedding'" not in html


def test_both_ways_of_showing_a_fitted_model_have_picture_and_numbers(curved):
    for html in (curved._repr_html_(), curved._repr_mimebundle_()["text/html"]):
        assert "sk-container" in html  # scikit-learn's diagram
        rows = dict(re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", html.split("<svg")[-1]))
        assert rows["data"] == "30 rows, 4 columns"
        assert rows["log likelihood"] == f"{curved.log_likelihood_:.6g}"
        assert rows["length scale"] == f"{curved.length_scale_:.4g}"
        assert rows["variance"] == f"{curved.variance_:.4g}"
        assert rows["noise variance"] == f"{curved.noise_variance_:.4g}"
        assert rows["stopped"] == curved.stop_reason_
        assert float(rows["seconds"]) == pytest.approx(curved.history_["seconds"][-1], abs=0.06)


def test_the_picture_is_the_embedding(curved):
    html = curved._repr_html_()
    x, y = dots(html).T
    shown = np.stack([x - 110.0, 110.0 - y], axis=1) / (0.96 * 110.0)  # y points up
    assert np.allclose(shown, curved.embedding_, atol=1e-3)
    radii = [float(r) for r in re.findall(r"r='([\d.]+)' stroke='#d9d9d9'", html)]
    assert np.allclose(radii, 0.96 * 110.0 * np.tanh(np.array([0.5, 1.0, 1.5])), atol=0.06)


def test_a_plane_has_no_boundary_and_fills_the_picture():
    html = GPLVM(max_iter=3, random_state=0).fit(DATA)._repr_html_()
    assert "stroke='#d9d9d9'" not in html
    assert np.abs(dots(html) - 110.0).max() == pytest.approx(0.96 * 110.0, abs=0.1)


def test_more_than_two_dimensions_have_no_picture():
    html = HGPLVM(3, max_iter=2, random_state=0).fit(DATA)._repr_html_()
    assert "aria-label='embedding'" not in html
    assert "30 rows, 4 columns" in html


def test_of_many_points_some_are_drawn(curved, monkeypatch):
    monkeypatch.setattr(display, "MOST_POINTS", 12)
    assert len(dots(curved._repr_html_())) == 12


def test_words_are_escaped(curved, monkeypatch):
    monkeypatch.setattr(curved, "stop_reason_", "a < b & c")
    assert "a &lt; b &amp; c" in curved._repr_html_()


def test_text_is_shown_where_it_is_asked_for(curved):
    with sklearn.config_context(display="text"):
        assert set(curved._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(curved, "_repr_html_")
