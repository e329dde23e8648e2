"""HTML of a model in a notebook: scikit-learn's diagram, a picture, and the fitted numbers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

__all__ = ["ShownModel"]

# most points to draw in the small picture
MOST_POINTS = 2000
# side of the picture, in pixels
SIDE = 220


class ShownModel:
    """A model with a picture and a table below the diagram of its parameters, once it is fitted."""

    if TYPE_CHECKING:
        embedding_: np.ndarray[Any, Any]

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + _summary(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += _summary(self)
        return bundle


def _summary(model: Any) -> str:
    """HTML of a fitted model's picture and numbers; nothing of one that is not fitted."""
    if not hasattr(model, "embedding_"):
        return ""
    numbers = {
        "data": f"{len(model.embedding_)} rows, {model.n_features_in_} columns",
        "log likelihood": f"{model.log_likelihood_:.6g}",
        "length scale": f"{model.length_scale_:.4g}",
        "variance": f"{model.variance_:.4g}",
        "noise variance": f"{model.noise_variance_:.4g}",
        "stopped": model.stop_reason_,
        "seconds": f"{model.history_['seconds'][-1]:.1f}",
    }
    rows = "".join(
        f"<tr><th style='text-align:left;padding-right:1em'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in numbers.items()
    )
    style = "display:flex;align-items:center;gap:1.5em;margin-top:0.5em"
    return f"<div style='{style}'>{_picture(model)}<table>{rows}</table></div>"


def _picture(model: Any) -> str:
    """SVG of an embedding with two columns."""
    points = np.asarray(model.embedding_, dtype=float)
    if points.shape[1] != 2:
        return ""
    if len(points) > MOST_POINTS:
        chosen = np.random.default_rng(0).choice(len(points), MOST_POINTS, replace=False)
        points = points[chosen]
    disk = hasattr(model, "lorentz_")
    if not disk:  # a plane has no edge: its points fill the picture
        points = points - (points.max(0) + points.min(0)) / 2.0
        points = points / (np.abs(points).max() or 1.0)
    half = SIDE / 2.0
    scale = 0.96 * half
    dots = "".join(
        f"<circle cx='{half + scale * x:.1f}' cy='{half - scale * y:.1f}' r='1.6'/>"
        for x, y in points
    )
    circles = "".join(
        f"<circle cx='{half}' cy='{half}' r='{scale * np.tanh(r / 2.0):.1f}' stroke='#d9d9d9'/>"
        for r in (1.0, 2.0, 3.0)
    )
    edge = f"<circle cx='{half}' cy='{half}' r='{scale:.1f}' stroke='currentColor'/>"
    frame = f"<g fill='none'>{circles}{edge}</g>" if disk else ""
    return (
        f"<svg width='{SIDE}' height='{SIDE}' viewBox='0 0 {SIDE} {SIDE}' role='img' "
        f"aria-label='embedding'>{frame}<g fill='#0072B2' fill-opacity='0.7'>{dots}</g></svg>"
    )
