"""Planar spirals in many dimensions."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from hgplvm import _validation as check

__all__ = ["make_spirals"]


def make_spirals(
    n_samples: int = 800,
    *,
    n_spirals: int = 10,
    n_features: int = 20,
    turn: float = 0.15,
    noise: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Spirals from one origin, mapped linearly to more dimensions: the paper's Spiral data.

    Point t ∈ [0, 1] of spiral s lies at radius t and angle ``2π(s/n_spirals + turn·t)``, moved by
    normal noise of standard deviation ``noise·t``: the further out, the more it oscillates. A
    random linear map then takes the plane to `n_features` dimensions.

    Parameters
    ----------
    n_samples : int, default=800
        Rows, shared evenly among the spirals.
    n_spirals : int, default=10
        Spirals.
    n_features : int, default=20
        Columns, at least 2.
    turn : float, default=0.15
        Turns that a spiral makes on its way out.
    noise : float, default=0.1
        Standard deviation of the oscillation at the outer end, in radii.
    random_state : int, RandomState or None, default=None
        Seed of the oscillation and of the linear map.

    Returns
    -------
    Bunch
        ``data`` (n, n_features), ``target`` (n,) the spiral of each row, ``time`` (n,) how far out
        on it, ``plane`` (n, 2) the points before the linear map, and ``DESCR``.

    Notes
    -----
    Made from the description in Watanabe et al. (AISTATS 2025), appendix; no data are copied, so
    that the licence is that of this package (MIT). The authors' own 800 × 20 array (MIT) can be
    read in its place with ``hgplvm reproduce --data-dir``.

    Examples
    --------
    >>> from hgplvm.datasets import make_spirals
    >>> make_spirals(random_state=0).data.shape
    (800, 20)
    """
    owner = "make_spirals"
    check.check_number(owner, "n_spirals", n_spirals, low=1, integer=True)
    check.check_number(owner, "n_samples", n_samples, low=n_spirals, integer=True)
    check.check_number(owner, "n_features", n_features, low=2, integer=True)
    check.check_number(owner, "turn", turn)
    check.check_number(owner, "noise", noise, low=0)
    rng = check_random_state(random_state)
    shares = np.full(n_spirals, n_samples // n_spirals)
    shares[: n_samples % n_spirals] += 1
    spiral = np.repeat(np.arange(n_spirals), shares)
    time = np.concatenate([np.linspace(0.0, 1.0, share) for share in shares])
    angle = 2.0 * np.pi * (spiral / n_spirals + turn * time)
    plane = time[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    plane += noise * time[:, None] * rng.standard_normal(plane.shape)
    return Bunch(
        data=plane @ rng.standard_normal((2, n_features)),
        target=spiral,
        time=time,
        plane=plane,
        DESCR=f"{n_spirals} planar spirals, mapped linearly to {n_features} dimensions.",
    )
