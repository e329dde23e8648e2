"""Shared parts of the estimators' docstrings: a decorator fills in parameters and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["NOISY_STEPS", "documented"]

# most steps of sparse and Bayesian fits to noisy data, whose latents soon follow the noise
NOISY_STEPS = 50

Model = TypeVar("Model")


_PARAMETERS = """\
    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the latent space.
{more}    kernel : {{"exponential", "matern32", "matern52", "heat", "auto"}} or Kernel
        Covariance of the decoded functions as a function of distance, from rough to smooth; "auto"
        takes the one with the highest log density of hidden entries of held-out rows, which
        ``history_`` keeps. An object of :mod:`hgplvm.kernels`, or your own, is also accepted.
    likelihood : {{"gaussian", "poisson", "negative-binomial"}}, default="gaussian"
        Of the rows: a normal distribution, or that of raw counts. Of counts, the logarithms of
        rates are the Gaussian process, decoded rows are expected counts of a cell of median size,
        samples are counts and scores log probabilities. Sparse counts stay sparse. Counts bring
        their own noise: no ``noise="uniform"``, `noise_floor`, ``init="random"`` or "rgd".
    length_scale : float or "auto", default="auto"
        Length scale κ of the kernel, in units of the {unit}. {auto}
    init : {{"auto", "paths", "mds", "pca", "random"}} or array (n_samples, n_components)
        Where the latents start: a metric embedding of path lengths along a neighbour graph of the
        rows, averaged with their neighbours where they are noisy ("paths"), or of the squared data
        distances ("mds"; rows beyond 3,000 are embedded by their distances to landmarks), principal
        components ("pca"), the paper's random numbers ("random"), or {chart} coordinates.
        "auto", the default, takes "paths" for counts and other noisy data, else "mds" or "pca".
        Except for "random" and coordinates, the scale is chosen by the evidence of 300 rows.
    optimizer : {{"auto", "lbfgs", "adam", "rgd"}}, default="auto"
        Riemannian Adam ("adam", the choice of "auto": it steps over the cusps of the kernel, at
        which a line search stops), Riemannian L-BFGS with a line search ("lbfgs"), or the paper's
        Riemannian gradient descent ("rgd").
    learning_rate : float, optional
        First step length of "adam" (default 0.007 of the median distance at the start; from a
        random start 0.02), and that of "rgd" (default 0.01). "lbfgs" searches for its own.
    max_iter : int, default=300
        Most steps to make{steps}. The step length of "adam" falls to 0 over
        them.
    tol : float, default=1e-4
        A fit has converged when the objective rises by less than this, per data entry and step,
        over a few steps, or when its gradient vanishes. "adam" first shortens its steps, twice. A
        bound that changes with the inducing points is not stopped in this way.
    noise : {{"auto", "uniform"}}, default="auto"
        "auto" tells signal from noise: of logarithms of normalised counts, of principal components
        and of data that are noise by 40% or more, the model sees the directions that stand out of
        the noise; each row has a noise variance of its own, which is learnt, and so has each
        column. What the sequencing depth does to logarithms of counts is subtracted. "uniform"
        is one noise variance for all entries, as in the paper; so is "auto" with a `noise_floor`,
        a random start, or "rgd".
    noise_floor : float or "auto", default="auto"
        Least noise variance, as a share of the data's variance, where that is uniform.
        {noise}
    center : {{"mean", "none"}} or int, default="mean"
        What is moved to the origin after the fit: the Fréchet mean, or this row. The embedding is
        then rotated to its principal axes, so that runs can be compared. "none" leaves the latents
        where the fit ended.
    device : str, default="auto"
        "cpu", "cuda" or another torch device; "auto" is a GPU where there is one.
    dtype : {{"float64", "float32"}}, default="float64"
        Precision of the fit.
    random_state : int, RandomState or None, default=None
        Seed of the start.
    verbose : int, default=0
        1: a progress bar with the objective and the time left.
    checkpoint : path, optional
        A file to which the state of the fit is written every few seconds and at the end. If it
        exists, a fit with the same data and parameters continues from it, with the same result as
        without the interruption. With other data or parameters it is an error.
    callback : callable, optional
        Called with a :class:`hgplvm.fit.FitState` after each step; a true value stops the fit.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Latents in {chart} coordinates.{extra}
    log_likelihood_ : float
        {likelihood} Of counts, a lower bound of their log probability.
    variance_, noise_variance_, length_scale_ : float
        σ and β⁻¹ in units of the data, and κ. (Of logarithms of counts, σ and β⁻¹ are those of
        natural logarithms in which one count of a cell of median depth is the unit; of counts,
        those of logarithms of rates.)
    noise_rows_, noise_columns_ : arrays of shape (n_samples,), (n_features,)
        Noise of the rows, whose mean is 1, and noise variances of the columns, in the unit of
        `noise_variance_`: their product is the noise variance of an entry. (Of counts: how
        uncertain a row's counts leave the logarithms of its rates.)
    n_directions_ : int
        Directions of the signal that the model sees: `n_features_in_` where noise is uniform.
    dispersion_ : array of shape (n_features,)
        Of negative-binomial counts: φ, where a count of mean μ has the variance μ + φμ².
    covariate_variance_ : dict of str to float
        Where there are covariates: the share of each in the variance of the rows without their
        noise, each column in units of its noise. The rest is the latents'.
    nonnegative_ : bool
        Whether no entry of the data is below zero.
    kernel_ : Kernel
        The kernel of the fit: what the parameter stands for, or what "auto" chose.
    kernel_parameters_ : dict of str to float
        Further parameters of the kernel, if it has any.
    history_ : dict of str to array
        One entry per step, the start first: ``objective``, ``seconds``, ``gradient_norm``,
        ``step_size``, ``variance``, ``noise_variance``, ``length_scale``. One entry per start that
        was compared: ``search_start`` (its kind), ``search_scale`` (median distance),
        ``search_length_scale`` (κ), ``search_evidence`` (log likelihood per entry),
        ``search_enough`` (close to the best) and ``search_chosen``.{levels}
    n_iter_ : int
        Steps made.
    stop_ : str
        Why the fit stopped, in a word: "CONVERGED", "PAUSED", "COMPLETE" (all steps, and
        the objective had stopped rising), "MAX_ITER" (all steps, and it had not), "INTERRUPTED", …
    stop_reason_ : str
        Why the fit stopped.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : array of shape (n_features,)
        Column names, for a DataFrame.
"""


_SPARSE = """\
    n_inducing : int, default=50
        Inducing points. With more than there are rows, all rows are taken, with a warning.
    inducing_update : int, default=5
        Steps between two draws of the inducing points, which are rows of the latents. Points that
        stay for long pull the latents onto themselves.
    chunk_size : int or "auto", default="auto"
        Rows that are worked on at a time. Memory beyond data and latents grows with it times
        `n_inducing`; "auto" takes as many as a processor's cache holds (or a GPU keeps busy).
"""

_BAYESIAN = """\
    quadrature : {{"unscented", "gauss-hermite", "monte-carlo"}}, default="unscented"
        Expectations over q(x): 2Q + 1 sigma points, a grid of 3^Q points, or `n_samples` random
        draws that change with the inducing points.
    n_samples : int, default=5
        Draws per row for "monte-carlo".
    prior_scale : float, default=1.0
        Scale of the prior, a wrapped normal at the origin.
    kl : {{"exact", "paper"}}, default="exact"
        The divergence from the prior, or the paper's, which does not depend on the means.
"""

_VECCHIA = """\
    n_neighbors : int, default=20
        Neighbours k that a row is conditioned on. With as many as there are rows, all others are
        taken, with a warning.
    n_inducing : int or "auto", default="auto"
        Inducing points that model the smooth part of the data, so that neighbours model the rest.
        "auto" takes 50 where the noise floor is at least half of the variance, so that single
        neighbours carry little information, and in the first level of a fit of many rows; else
        none.
    neighbor_update : int, default=10
        Steps between two searches for neighbours (and draws of inducing points) in the latents.
    order : {{"random", "max-min"}}, default="random"
        The order in which rows are conditioned on earlier ones: at random, or coarse to fine, each
        row the farthest from those before it (of more than 4,096 rows, as many go first that way).
    reshuffle : bool, default=False
        Whether the rows get a new order with each search, or keep their first.
    chunk_size : int or "auto", default="auto"
        Rows that are worked on at a time. Memory beyond data, neighbours and latents grows with it
        times `n_neighbors` times the columns; "auto" takes as many as a processor's cache holds
        (or a GPU keeps busy).
"""


_FLAT = {
    "unit": "latent coordinates",
    "auto": "It sets their\n        unit and nothing else, so it is not learnt.",
    "chart": "Euclidean",
}
_CURVED = {
    "unit": "curvature radius",
    "auto": (
        '"auto" starts from\n        the one with the highest evidence, and learns it with the '
        "other parameters."
    ),
    "chart": "Poincaré ball",
}
_LORENTZ = """
    lorentz_ : array of shape (n_samples, n_components + 1)
        Latents on the Lorentz model."""
_SPHERE = """
    sphere_ : array of shape (n_samples, n_components + 1)
        Latents as unit vectors."""
_INDUCING = """
    inducing_ : array of shape (n_inducing, {width})
        Inducing points{model}: the draw with the highest bound of those at the end."""
_RESOLVED = """
    n_inducing_ : int
        Inducing points that were used."""
_POSTERIOR = """
    posterior_std_ : array of shape (n_samples, n_components)
        Posterior standard deviations of each latent, in the transported frame: those of a wrapped
        normal, after the best isometry. All latents are uncertain in it together.
    posterior_cov_ : array of shape (n_samples, n_components, n_components)
        The same as covariance matrices in that frame: moving a picture turns its axes."""
_NOISE = {
    "noise": (
        '"auto" scores several on held-out rows: the latent of each is inferred from three\n'
        "        quarters of its entries, and the others are predicted. With the random start\n"
        "        there is none."
    ),
    "levels": (
        " One entry per noise floor that was\n        scored: ``noise_level`` and ``noise_score`` "
        "(mean log density of a hidden entry)."
    ),
}
_NO_NOISE = {
    "noise": '"auto" sets none: a few inducing points cannot explain the noise of single rows.',
    "levels": "",
}
_EXACT = "Log marginal likelihood of the centred data."
_NEIGHBOR = "Log likelihood of the centred data, each row given its neighbours at the end."
_BOUND = "Lower bound of the log marginal likelihood, a mean over draws of the inducing points."


def documented(
    *,
    flat: bool = False,
    space: str = "",
    sparse: bool = False,
    bayesian: bool = False,
    vecchia: bool = False,
) -> Callable[[type[Model]], type[Model]]:
    """Fill the parameters that the models share into a class's docstring."""
    extra = "" if flat else _SPHERE if space == "sphere" else _LORENTZ
    if sparse:
        width = "n_components" if flat else "n_components + 1"
        extra += _INDUCING.format(width=width, model="" if flat else " on the Lorentz model")
    words = {
        **(_FLAT if flat else _CURVED),
        **({"chart": "stereographic"} if space == "sphere" else {}),
        **(_NO_NOISE if sparse else _NOISE),
        "more": "".join(
            text.format()
            for text, wanted in ((_SPARSE, sparse), (_BAYESIAN, bayesian), (_VECCHIA, vecchia))
            if wanted
        ),
        "extra": extra + (_RESOLVED if vecchia else "") + _POSTERIOR,
        "likelihood": _BOUND if sparse else _NEIGHBOR if vecchia else _EXACT,
        "steps": f", of noisy data {NOISY_STEPS} at most" if sparse else "",
    }

    def fill(cls: type[Model]) -> type[Model]:
        if cls.__doc__ is not None:  # python -OO drops docstrings
            cls.__doc__ = cls.__doc__.replace("    {parameters}\n", _PARAMETERS.format(**words))
        return cls

    return fill
