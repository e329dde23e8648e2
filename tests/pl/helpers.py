"""What the tests of pictures share: the disk's geometry, written out, and models in closed form.

The geometry is that of Möbius maps of complex numbers: not the code under test.
"""

import numpy as np
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb


def scatters(ax):
    """Points that are drawn, without the empty ones that a legend names."""
    found = [c for c in ax.collections if isinstance(c, PathCollection)]
    return [c for c in found if len(c.get_offsets())]


def regions(ax):
    """Outlines of the credible regions of a picture, [corners, 2] each."""
    (found,) = [c for c in ax.collections if type(c) is PolyCollection]
    return [path.vertices for path in found.get_paths()]


def grid_lines(ax):
    (found,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    return [np.asarray(line) for line in found.get_segments()]


def legend_words(ax):
    legend = ax.get_legend()
    return None if legend is None else [text.get_text() for text in legend.get_texts()]


def of_colour(ax, colour):
    """Points of one colour, of all that are drawn, [n, 2]."""
    found = []
    for scatter in scatters(ax):
        points = np.asarray(scatter.get_offsets())
        faces = np.broadcast_to(scatter.get_facecolor()[:, :3], (len(points), 3))
        found.append(points[np.isclose(faces, to_rgb(colour)).all(axis=1)])
    return np.concatenate(found)


def legend_colours(ax):
    """Colours of the names in a legend."""
    legend = ax.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    faces = [handle.get_facecolor()[0] for handle in legend.legend_handles]
    return {name: to_hex(face) for name, face in zip(names, faces, strict=True)}


def names_on(ax):
    """Texts on the data, without the numbers of the scale."""
    return [text for text in ax.texts if text.get_fontweight() == "bold"]


def scale_on(ax):
    """Numbers at the circles, and where they stand."""
    found = [text for text in ax.texts if text.get_fontweight() != "bold"]
    return [(text.get_text(), np.array(text.get_position())) for text in found]


def bars(ax):
    """Axes of the colour bars of some axes."""
    return [child for child in ax.child_axes if child.get_label() == "<colorbar>"]


def locators(ax):
    """Small disks in a corner of some axes."""
    return [child for child in ax.child_axes if child.get_label() == "where in the disk"]


def complex_of(points):
    points = np.asarray(points, dtype=float)
    return points[..., 0] + 1j * points[..., 1]


def plane_of(z):
    return np.stack([z.real, z.imag], axis=-1)


def moved_to_origin(points, root):
    """Apply the isometry of the disk that moves a root to the origin without a turn."""
    z, a = complex_of(points), complex_of(root)
    return plane_of((z - a) / (1 - np.conj(a) * z))


def moved_from_origin(points, root):
    """Apply the inverse of moved_to_origin."""
    z, a = complex_of(points), complex_of(root)
    return plane_of((z + a) / (1 + np.conj(a) * z))


def exponential(mean, v):
    """Exp of v [n, 2] in the frame that is transported from the origin to a point of the disk."""
    length = np.linalg.norm(v, axis=-1, keepdims=True)
    return moved_from_origin(np.tanh(length / 2) * v / length, mean)


def hyperbolic(p, q):
    """Distance between points of the disk."""
    gap = np.sum((np.asarray(p) - q) ** 2, axis=-1)
    near = (1 - np.sum(np.square(p), axis=-1)) * (1 - np.sum(np.square(q), axis=-1))
    return np.arccosh(1 + 2 * gap / near)


def pairwise(points):
    return hyperbolic(points[:, None], points[None])


class ClosedForm:
    """A fitted model in the eyes of the pictures: three features of the place in closed form."""

    n_features_in_ = 3

    def __init__(self, points, names=None):
        self.embedding_ = points
        squares = np.sum(points**2, axis=1, keepdims=True)
        self.lorentz_ = np.hstack([1 + squares, 2 * points]) / (1 - squares)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def inverse_transform(self, X, *, return_std=False):
        x, y = np.asarray(X).T
        mean = np.stack([x + 2 * y, np.sin(5 * x) * y, 1 - x**2 - y**2], axis=1)
        std = np.stack([0.1 + x**2, 0.2 + y**2, 0.3 + 0.1 * x * y], axis=1)
        return (mean, std) if return_std else mean


class Written:
    """A fit of which nothing is left but what it wrote down."""

    def __init__(self, **history):
        self.history_ = {name: np.asarray(values) for name, values in history.items()}


STEPS = {
    "objective": [-9.0, -5.0, -3.5, -3.0, -2.9],
    "seconds": [0.0, 0.3, 0.5, 0.8, 1.3],
    "gradient_norm": [4.0, 1.0, 0.2, 0.05, 0.001],
    "step_size": [0.0, 1.0, 0.5, 0.25, 0.1],
    "variance": [1.0, 1.1, 1.2, 1.3, 1.3],
    "noise_variance": [1.0, 0.5, 0.3, 0.2, 0.15],
    "length_scale": [1.0, 1.5, 2.0, 2.2, 2.25],
}
SEARCH = {
    "search_start": ["mds", "mds", "mds", "pca", "pca", "pca"],
    "search_scale": [0.5, 1.0, 2.0, 0.5, 1.0, 2.0],
    "search_evidence": [-1.3, -1.0, -1.01, -1.5, -1.45, -1.6],
    "search_enough": [False, True, True, False, False, False],
    "search_chosen": [False, True, False, False, False, False],
}


def lorentz_of(points):
    """Points of the disk on the Lorentz model: ``(1 + p², 2p)/(1 - p²)``."""
    square = np.sum(np.square(points), axis=-1, keepdims=True)
    return np.concatenate([1 + square, 2 * np.asarray(points)], axis=-1) / (1 - square)
