"""The models as scikit-learn estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor

from hgplvm import _validation as check
from hgplvm import init as starts
from hgplvm.fit import FitState, fit
from hgplvm.geometry import Manifold, euclidean, lorentz
from hgplvm.kernels import Exponential
from hgplvm.objectives import ExactObjective, Parameters, inside
from hgplvm.optim import LBFGS, Adam, GradientDescent, Optimizer

__all__ = ["GPLVM", "HGPLVM"]

Array = np.ndarray[Any, np.dtype[Any]]

INITS = ("auto", "pca", "random")
OPTIMIZERS = ("auto", "lbfgs", "adam", "rgd")
DTYPES = {"float64": torch.float64, "float32": torch.float32}
# the noise variance stays above this, as a share of the data's variance
NOISE_FLOOR = {"float64": 1e-6, "float32": 1e-4}
# median distance between the latents of a principal component start, in units of the curvature
START_DISTANCE = 1.5


class _ExactGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the exact models share; the subclasses name the manifold and document the rest."""

    _manifold: Manifold
    # curvature gives the length scale a meaning of its own; in flat space it is the latents' unit
    _learns_length_scale: bool

    def __init__(
        self,
        n_components: int = 2,
        *,
        length_scale: float | Literal["auto"] = "auto",
        init: str | Array = "auto",
        optimizer: str = "auto",
        learning_rate: float | None = None,
        max_iter: int = 300,
        tol: float = 1e-5,
        center: str | int = "mean",
        device: str = "auto",
        dtype: str = "float64",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callback: Callable[[FitState], object] | None = None,
    ) -> None:
        self.n_components = n_components
        self.length_scale = length_scale
        self.init = init
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.center = center
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002
        """Fit the latents of the rows of X.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or tensor of shape (n_samples, n_features)
            The data (the paper's Y). Columns are centred; their scale is left as it is.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        self
        """
        self._check_parameters()
        data = self._check_data(X)
        check.check_row(self._name, "center", self.center, data.shape[0], ("mean", "none"))
        device = check.check_device(self._name, self.device)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(seed)

        # the paper's descent has an absolute step length, so it sees the data in their own units
        self._scale = 1.0 if self.optimizer == "rgd" else _root_mean_square(data)
        scaled = torch.from_numpy(data / self._scale).to(device, DTYPES[self.dtype])
        objective = ExactObjective(
            scaled, self._manifold, Exponential(), noise_floor=NOISE_FLOOR[self.dtype]
        )
        result = fit(
            objective,
            self._start(scaled, generator),
            self._make_optimizer(),
            max_iter=self.max_iter,
            tol=self.tol,
            describe=lambda value, parameters: self._describe(objective, value, parameters),
            callback=self.callback,
            verbose=self.verbose,
        )

        latents = self._posed(result.parameters.latents)
        numbers = self._describe(objective, result.value, result.parameters)
        self._set_latents(latents)
        self.log_likelihood_ = numbers["objective"]
        self.variance_ = numbers["variance"]
        self.noise_variance_ = numbers["noise_variance"]
        self.length_scale_ = numbers["length_scale"]
        self.history_ = result.history
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.stop_reason
        return self

    def fit_transform(self, X: object, y: object = None) -> Array:
        """Fit the model and return the embedding, of shape (n_samples, n_components)."""
        self.fit(X, y)
        return self.embedding_

    # --- steps of fit ---------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        name = self._name
        check.check_number(name, "n_components", self.n_components, low=1, integer=True)
        check.check_number(
            name, "length_scale", self.length_scale, low=0, closed=False, or_options=("auto",)
        )
        if isinstance(self.init, str) or not hasattr(self.init, "__len__"):
            check.check_option(name, "init", self.init, INITS)
        check.check_option(name, "optimizer", self.optimizer, OPTIMIZERS)
        if self.learning_rate is not None:
            check.check_number(name, "learning_rate", self.learning_rate, low=0, closed=False)
        check.check_number(name, "max_iter", self.max_iter, low=1, integer=True)
        check.check_number(name, "tol", self.tol, low=0)
        check.check_option(name, "dtype", self.dtype, tuple(DTYPES))

    def _check_data(self, X: object) -> Array:
        """Centred columns as float64."""
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2
        )
        data: Array = checked.toarray() if issparse(checked) else checked
        return data - data.mean(axis=0)

    def _start(self, data: Tensor, generator: torch.Generator) -> Parameters:
        """Latents of the chosen start, with σ, β⁻¹ and κ to match."""
        n_rows, manifold = data.shape[0], self._manifold
        length_scale = 2.0 * START_DISTANCE
        if isinstance(self.length_scale, Real):
            length_scale = float(self.length_scale)
        variance, noise = 1.0, 1.0  # the paper's start
        if not isinstance(self.init, str):
            array = check.check_init_array(
                self._name,
                self.init,
                (n_rows, self.n_components),
                inside_ball=manifold is lorentz,
            )
            latents = inside(manifold, manifold.from_chart(torch.from_numpy(array).to(data)))
        elif self.init == "random":
            latents = starts.random_start(
                n_rows, self.n_components, manifold, like=data, generator=generator
            )
        else:
            latents = starts.pca_start(
                data,
                self.n_components,
                manifold,
                median_distance=START_DISTANCE,
                generator=generator,
            )
        if not (isinstance(self.init, str) and self.init == "random"):
            variance, noise = starts.variogram(data, latents, manifold, length_scale)
        positive = {"variance": variance, "noise": noise, "length_scale": length_scale}
        logs = {name: data.new_tensor(math.log(value)) for name, value in positive.items()}
        learns_length_scale = self._learns_length_scale and self.length_scale == "auto"
        free = ("variance", "noise", "length_scale")[: 3 if learns_length_scale else 2]
        return Parameters(latents, logs, free)

    def _make_optimizer(self) -> Optimizer:
        if self.optimizer == "lbfgs":
            return LBFGS()
        if self.optimizer == "rgd":
            return GradientDescent(self.learning_rate or GradientDescent.learning_rate)
        return Adam(self.learning_rate or Adam.learning_rate, horizon=self.max_iter)

    def _describe(
        self, objective: ExactObjective, value: float, parameters: Parameters
    ) -> dict[str, float]:
        """Value and parameters in units of the data: densities scale by s⁻¹, variances by s²."""
        return {
            "objective": value - objective.n_entries * math.log(self._scale),
            "variance": parameters.positive("variance") * self._scale**2,
            "noise_variance": objective.noise_variance(parameters) * self._scale**2,
            "length_scale": parameters.positive("length_scale"),
        }

    def _posed(self, latents: Tensor) -> Tensor:
        """Fix the freedom that the likelihood leaves: centre, then turn to the canonical pose."""
        if self.center == "none":
            return latents
        manifold = self._manifold
        if self.center == "mean":
            root = manifold.frechet_mean(latents)
        else:
            root = latents[int(self.center)]
        centred = manifold.recenter(latents, root)
        return manifold.rotate(centred, manifold.canonical_rotation(centred))

    def _set_latents(self, latents: Tensor) -> None:
        self.embedding_ = self._manifold.to_chart(latents).cpu().numpy()


def _root_mean_square(data: Array) -> float:
    """Scale of centred data, 1 where they are constant."""
    largest = float(np.abs(data).max())
    if largest == 0.0:
        return 1.0
    scale = largest * float(np.sqrt(np.mean((data / largest) ** 2)))
    if not 1e-140 < scale < 1e140:
        raise ValueError(
            f"The data vary on a scale of {scale:.3g}, whose square is beyond floating point. "
            "Rescale them to a unit in which numbers are of ordinary size."
        )
    return scale


Model = TypeVar("Model", bound=_ExactGPLVM)

_PARAMETERS = """\
    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the latent space.
    length_scale : float or "auto", default="auto"
        Length scale κ of the kernel, in units of the {unit}. {auto}
    init : {{"auto", "pca", "random"}} or array of shape (n_samples, n_components), default="auto"
        Where the latents start: principal components ("pca", also what "auto" takes), the paper's
        tiny random numbers ("random"), or {chart} coordinates.
    optimizer : {{"auto", "lbfgs", "adam", "rgd"}}, default="auto"
        Riemannian Adam ("adam", also what "auto" takes: it passes over the cusps of the kernel, in
        front of which line searches end), Riemannian L-BFGS with a line search ("lbfgs"), or the
        paper's Riemannian gradient descent ("rgd").
    learning_rate : float, optional
        Step length of "adam" (default 0.02) and "rgd" (default 0.01). "lbfgs" searches for its own.
    max_iter : int, default=300
        Most steps to make. "adam" makes them all: its step length falls to 0 over them.
    tol : float, default=1e-5
        "lbfgs" and "rgd" stop when the log likelihood rises by less than this, a data entry and
        step, over ten steps.
    center : {{"mean", "none"}} or int, default="mean"
        What goes to the origin after the fit: the Fréchet mean, or this row. The embedding is then
        turned to a canonical pose, so that runs compare. "none" leaves it as the fit ended.
    device : str, default="auto"
        "cpu", "cuda" or another torch device; "auto" is a GPU where there is one.
    dtype : {{"float64", "float32"}}, default="float64"
        Precision of the fit.
    random_state : int, RandomState or None, default=None
        Seed of the start.
    verbose : int, default=0
        1: a progress bar with the objective and the time left.
    callback : callable, optional
        Called with a :class:`hgplvm.fit.FitState` after each step; a true value stops the fit.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Latents in {chart} coordinates.{extra}
    log_likelihood_ : float
        Log marginal likelihood of the centred data.
    variance_, noise_variance_, length_scale_ : float
        σ and β⁻¹ in units of the data, and κ.
    history_ : dict of str to array
        One entry a step, the start first: ``objective``, ``seconds``, ``gradient_norm``,
        ``step_size``, ``variance``, ``noise_variance``, ``length_scale``.
    n_iter_ : int
        Steps made.
    stop_reason_ : str
        Why the fit stopped.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : array of shape (n_features,)
        Column names, for a DataFrame.
"""


def _documented(**words: str) -> Callable[[type[Model]], type[Model]]:
    """Fill the parameters that the models share into a class's docstring."""

    def fill(cls: type[Model]) -> type[Model]:
        if cls.__doc__ is not None:  # python -OO drops docstrings
            cls.__doc__ = cls.__doc__.replace("    {parameters}\n", _PARAMETERS.format(**words))
        return cls

    return fill


@_documented(
    unit="curvature radius",
    auto='"auto" learns it with the other parameters.',
    chart="Poincaré ball",
    extra="""
    lorentz_ : array of shape (n_samples, n_components + 1)
        Latents on the Lorentz model.""",
)
class HGPLVM(_ExactGPLVM):
    """Exact hyperboloid GP-LVM: an embedding into hyperbolic space.

    Each column of the data is a Gaussian process over latent positions in hyperbolic space, with
    the geodesic exponential kernel ``k(x, z) = σ exp(-d(x, z)/κ)`` and noise β⁻¹; the positions
    maximise the marginal likelihood. The cost is O(N³) a step: for up to a few thousand rows.

    {parameters}

    References
    ----------
    Watanabe, Maeda, Ogawa, Haseyama: Hyperboloid GPLVM for Discovering Continuous Hierarchies via
    Nonparametric Estimation. AISTATS 2025.

    Examples
    --------
    >>> from hgplvm import HGPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> model = HGPLVM(random_state=0).fit(tree.data)
    >>> model.embedding_.shape
    (140, 2)
    """

    _manifold = lorentz
    _learns_length_scale = True

    def _set_latents(self, latents: Tensor) -> None:
        super()._set_latents(latents)
        self.lorentz_ = latents.cpu().numpy()


@_documented(
    unit="latent coordinates",
    auto="It only sets their unit, so it is not learnt.",
    chart="Euclidean",
    extra="",
)
class GPLVM(_ExactGPLVM):
    """Exact GP-LVM in flat space, the baseline of :class:`HGPLVM`.

    The same model with Euclidean distance: ``k(x, z) = σ exp(-‖x - z‖/κ)``.

    {parameters}

    Examples
    --------
    >>> from hgplvm import GPLVM
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> GPLVM(random_state=0).fit_transform(tree.data).shape
    (140, 2)
    """

    _manifold = euclidean
    _learns_length_scale = False
