"""Variational autoencoders with latents in hyperbolic space (Lorentz model).

IsoHVAE: Nagano, Yamaguchi, Fujita and Koyama, "A wrapped normal distribution on hyperbolic space
for gradient-based learning", ICML 2019, with one standard deviation a row. RotHVAE: Cho, Lee, Park
and Kim, "A rotated hyperbolic wrapped normal distribution for hierarchical representation
learning", NeurIPS 2022: one standard deviation for each axis, the first of which points away from
the origin. Both written from their descriptions.

Encoder and decoder are networks with two hidden layers. Of a row y the encoder gives the mean
``μ = Exp_o(a)`` and the deviations s; ``x = Exp_μ(PT_{o→μ}(R s∘ζ))``; the decoder takes
``Log_o(x)`` to the mean of a normal distribution of y. The prior is the wrapped normal at the
origin with unit scale. The evidence lower bound
``E_q[log p(y|x)] + log p(x) - log q(x)`` is maximised with one draw of ζ a row and step.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from hgplvm import _validation as check
from hgplvm._progress import progress
from hgplvm._typing import Array
from hgplvm.baselines._shared import EmbedderMixin, checked_data
from hgplvm.geometry import lorentz
from hgplvm.manifolds import wrapped_normal

__all__ = ["HyperbolicVAE"]

# hidden units that "auto" compares
HIDDEN_UNITS = (50, 100, 200)
# means stay within this hyperbolic distance of the origin, deviations below this
LARGEST_RADIUS, LARGEST_DEVIATION = 12.0, 10.0
# added to squared norms, which have no root with a slope at 0
TINY = 1e-30
# the bound that is reported is a mean over the last passes, because single draws are noisy
AVERAGED_PASSES = 20


class HyperbolicVAE(EmbedderMixin, BaseEstimator):
    """Variational autoencoder with hyperbolic latents: IsoHVAE, or RotHVAE.

    Parameters
    ----------
    n_components : int, default=2
        Latent dimensions.
    rotated : bool, default=False
        False: one standard deviation a row (IsoHVAE). True: one for each axis, the first of which
        points away from the origin (RotHVAE).
    hidden_units : int or "auto", default="auto"
        Units of each hidden layer. "auto" fits networks of 50, 100 and 200 and keeps the one with
        the highest bound.
    max_iter : int, default=200
        Passes over the data.
    batch_size : int, default=100
        Rows a step.
    learning_rate : float, default=1e-3
        Step of Adam.
    random_state : int, RandomState or None, default=None
        Seed of the networks, of the order of the rows and of the draws.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Means of the latents, in ball coordinates.
    hidden_units_ : int
        Units of the network that was kept.
    bound_ : float
        Its evidence lower bound, a row.
    n_iter_ : int
        Passes over the data.
    noise_variance_ : float
        Variance of the decoder's normal distribution, in data units.

    Examples
    --------
    >>> from hgplvm.baselines import HyperbolicVAE
    >>> from hgplvm.datasets import make_binary_tree
    >>> tree = make_binary_tree(depth=3, random_state=0)
    >>> vae = HyperbolicVAE(rotated=True, hidden_units=20, max_iter=5, random_state=0)
    >>> vae.fit_transform(tree.data).shape
    (140, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        rotated: bool = False,
        hidden_units: int | str = "auto",
        max_iter: int = 200,
        batch_size: int = 100,
        learning_rate: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.rotated = rotated
        self.hidden_units = hidden_units
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Train encoder and decoder on the rows of X.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data.
        y : ignored

        Returns
        -------
        self
        """
        self._check()
        data = checked_data(self, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._mean, self._unit = _location_and_scale(data)
        rows = self._scaled(data)
        widths = HIDDEN_UNITS if self.hidden_units == "auto" else (int(self.hidden_units),)
        tried = [self._trained(rows, width, seed) for width in widths]
        tried = [found for found in tried if np.isfinite(found[0])]
        if not tried:
            raise ArithmeticError(
                "The HyperbolicVAE diverged: its bound became NaN. Lower the 'learning_rate', "
                f"which is {self.learning_rate:g}."
            )
        self.bound_, self._network, self.hidden_units_ = max(tried, key=lambda found: found[0])
        self.n_iter_ = self.max_iter
        # a density of y·unit: the volume of the unit goes into the bound
        self.bound_ -= rows.shape[1] * float(np.log(self._unit))
        self.noise_variance_ = self._unit**2 * float(self._network.log_noise.detach().exp())
        self.embedding_ = self._embedded(rows)
        return self

    def transform(self, X: Any) -> Array:
        """Encode rows: the means of their latents, in ball coordinates.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data.

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self._embedded(self._scaled(checked_data(self, X, n_neighbors=0, reset=False)))

    def _check(self) -> None:
        owner = type(self).__name__
        check.check_flag(owner, "rotated", self.rotated)
        for name in ("n_components", "max_iter", "batch_size"):
            check.check_number(owner, name, getattr(self, name), low=1, integer=True)
        check.check_number(
            owner, "hidden_units", self.hidden_units, low=1, integer=True, or_options=("auto",)
        )
        check.check_number(owner, "learning_rate", self.learning_rate, low=0, closed=False)

    def _scaled(self, data: Array) -> Tensor:
        return torch.from_numpy((data - self._mean) / self._unit)

    def _embedded(self, rows: Tensor) -> Array:
        with torch.no_grad():
            mean, _ = self._network.encoded(rows)
        points: Array = lorentz.to_chart(lorentz.from_tangent(mean)).numpy()
        return points

    def _trained(self, rows: Tensor, width: int, seed: int) -> tuple[float, Network, int]:
        generator = torch.Generator().manual_seed(seed)
        network = Network(rows.shape[1], width, self.n_components, self.rotated, generator)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        bounds = []
        name = f"{'RotHVAE' if self.rotated else 'IsoHVAE'}, {width} units"
        bar = progress(self.max_iter, what=name, verbose=self.verbose)
        for _ in range(self.max_iter):
            total = 0.0
            order = torch.randperm(len(rows), generator=generator)
            for batch in torch.split(order, self.batch_size):
                bound = network.bound(rows[batch], generator)
                optimizer.zero_grad()
                (-bound.mean()).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += float(bound.detach().sum())
            bounds.append(total / len(rows))
            bar.update()
        bar.close()
        return float(np.mean(bounds[-AVERAGED_PASSES:])), network, width


class Network(nn.Module):
    """Encoder and decoder with two hidden layers each, and the variance of the noise."""

    def __init__(
        self,
        n_features: int,
        width: int,
        n_components: int,
        rotated: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.rotated = rotated
        self.n_components = n_components
        n_deviations = n_components if rotated else 1
        self.encoder = _layers(n_features, width, n_components + n_deviations, generator)
        self.decoder = _layers(n_components, width, n_features, generator)
        self.log_noise = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def encoded(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean in the tangent space at the origin [n, Q], and standard deviations [n, Q]."""
        out = self.encoder(rows)
        mean = _within(out[:, : self.n_components])
        std = nn.functional.softplus(out[:, self.n_components :]).clamp(1e-4, LARGEST_DEVIATION)
        return mean, std.expand(-1, self.n_components)

    def bound(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """One draw of the evidence lower bound for each row [n]."""
        mean, std = self.encoded(rows)
        zeta = torch.randn(mean.shape, generator=generator, dtype=torch.float64)
        v = std * zeta
        if self.rotated:
            v = turned_outward(v, mean)
        x, stretch = drawn(mean, v)
        decoded = self.decoder(x)
        squared = (rows - decoded).square().sum(-1) / self.log_noise.exp()
        fit = -0.5 * (squared + rows.shape[1] * (self.log_noise + wrapped_normal.LOG_2PI))
        # log p(x) - log q(x): both are normal densities over the stretch of an exponential map
        prior = -0.5 * x.square().sum(-1)
        posterior = -0.5 * zeta.square().sum(-1) - std.log().sum(-1)
        return fit + prior - posterior - (self.n_components - 1) * stretch


def drawn(mean: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Draws ``x = Exp_μ(PT_{o→μ} v)`` with ``μ = Exp_o(mean)``, as ``Log_o(x)`` [n, Q].

    With r = ‖mean‖, a = mean/r and t = ‖v‖ the space part of x is
    ``(sinh r cosh t + (cosh r - 1)(a·v) sinh t/t) a + (sinh t/t) v``. Also returned is how much
    more the exponential map stretches volume from the origin than from μ, ``log(sinh ρ/ρ) -
    log(sinh t/t)`` with ρ the distance of x from the origin [n].
    """
    r, t = _length(mean), _length(v)
    a = mean / r
    share = torch.sinh(t) / t
    along = (a * v).sum(-1, keepdim=True)
    space = (torch.sinh(r) * torch.cosh(t) + (torch.cosh(r) - 1.0) * along * share) * a + share * v
    size = _length(space)
    radius = torch.asinh(size)
    stretch = (size / radius).log() - share.log()
    return space * (radius / size), stretch.squeeze(-1)


def _length(vectors: Tensor) -> Tensor:
    """Norms [n, 1] with a slope everywhere: those of vectors that vanish are next to nothing."""
    return (vectors.square().sum(-1, keepdim=True) + TINY).sqrt()


def turned_outward(v: Tensor, direction: Tensor) -> Tensor:
    """Rotate v [n, Q] as the first axis is rotated to a direction [n, Q].

    A rotation in the plane of the two is a product of two reflections: e₁ → -a → a with
    a = direction/‖direction‖. At the origin, which has no direction, nothing is turned.
    """
    length = direction.norm(dim=-1, keepdim=True)
    first = torch.zeros_like(direction)
    first[:, 0] = 1.0
    unit = torch.where(length > 1e-9, direction / length.clamp_min(1e-9), first)
    middle = first + unit
    opposite = middle.norm(dim=-1, keepdim=True) < 1e-6  # any axis across serves
    across = torch.zeros_like(direction)
    across[:, -1] = 1.0
    middle = torch.where(opposite, across, middle)
    middle = middle / middle.norm(dim=-1, keepdim=True)
    once = v - 2.0 * (v * first).sum(-1, keepdim=True) * first
    return once - 2.0 * (once * middle).sum(-1, keepdim=True) * middle


def _location_and_scale(data: Array) -> tuple[Array, float]:
    """Column means, and the root mean square of what they leave; 1 where that is rounding."""
    largest = float(np.abs(data).max()) or 1.0
    scaled = data / largest  # squares of huge numbers overflow
    mean = scaled.mean(0)
    unit = float(np.sqrt(np.mean((scaled - mean) ** 2)))
    return mean * largest, unit * largest if unit > 1e-12 else 1.0


def _within(tangent: Tensor) -> Tensor:
    """Shorten vectors so that they stay below `LARGEST_RADIUS`, hardly at all near the origin."""
    length = _length(tangent)
    return tangent * (LARGEST_RADIUS * torch.tanh(length / LARGEST_RADIUS) / length)


def _layers(n_in: int, width: int, n_out: int, generator: torch.Generator) -> nn.Sequential:
    """Two hidden layers with rectifiers, weights as torch draws them but from the generator."""
    shapes = ((n_in, width), (width, width), (width, n_out))
    # torch would draw weights from its global generator; coordinates grow like e^r with the
    # distance, which asks for double precision
    layers = [
        nn.utils.skip_init(nn.Linear, *shape, dtype=torch.float64)  # type: ignore[no-untyped-call]
        for shape in shapes
    ]
    with torch.no_grad():
        for layer in layers:
            reach = layer.in_features**-0.5
            for parameter in layer.parameters():
                parameter.uniform_(-reach, reach, generator=generator)
    first, second, last = layers
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
