"""What the data say of all positions together: a normal approximation of their joint posterior.

The columns are draws of ``N(0, C)`` with ``C = K(X) + A``. Of the data a move of row i along axis q
changes row and column i of K alone, by ``g_iq = ∂k(X, x_i)/∂x_iq``, so that with ``P = C⁻¹`` the
expected information of D columns about all N·Q coordinates is::

    I[(i,q), (j,p)] = D [(P g_iq)_j (P g_jp)_i + P_ij g_iqᵀ P g_jp]

It knows that all rows are uncertain: neighbours that move together keep their covariance. With the
prior's precision its inverse S is the covariance of the posterior, up to the isometries, which no
likelihood sees: displacements by these are projected out (so it is a covariance after the best
isometry).

Of S are kept the *modes*, displacements that many rows share: its leading eigenvectors; and of
each row what they leave, its *own* covariance. With more rows than LANDMARKS, S is that of a sample
whose m rows stand for N/m rows each, so that they have m/N of the noise. The others move as those
near them, and have of their own what a row says when the map is known: with ``w = P k``, the
variance v of a prediction at x, and ``s = v + a``::

    I = D [gᵀPg/s + 2 (wᵀg)(wᵀg)ᵀ/s²]

**Which kernel.** At point latents that have been fitted, the function looks rougher than it is:
rows have been put where their noise fits. So σ and κ are found anew (:func:`smoothed`), with the
bound of a few inducing points, at positions that are as uncertain as they are said to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm._typing import Array
from hgplvm.covariance import Covariance
from hgplvm.errors import NotPositiveDefiniteError
from hgplvm.manifolds import Manifold
from hgplvm.manifolds._neighbors import nearest_to
from hgplvm.manifolds._tagged import Tagged
from hgplvm.objectives.bound import Statistics, collapsed_bound
from hgplvm.objectives.features import jittered_gram
from hgplvm.objectives.responses import rotated_to_rank

__all__ = ["Positions", "expected_information", "isometry_fields", "row_information", "smoothed"]

# rows whose joint posterior is computed, and rows that the kernel is judged by; more rows than
# these do not make the map surer: what its geometry and its start get wrong does not average out
LANDMARKS, JUDGED = 500, 2000
# displacements that rows share: so many are kept
MODES = 40
# landmarks whose displacements a row shares
SHARED = 6
# rounds of uncertainty and smoothness
ROUNDS = 2
# the bound by which the kernel's parameters are found: most and fewest inducing points, their share
# of the rows, and draws of the positions
INDUCING, FEWEST, SHARE, DRAWS = 80, 40, 0.16, 3
# evaluations of it, the factor within which parameters stay of those of the fit, and the largest
# κ in median distances, beyond which the slope σ/κ is all that matters
EVALUATIONS, REACH, LONGEST = 60, 1e3, 300.0
# least standard deviation, as a share of the prior's
SUREST = 1e-5
# step of the difference quotient for the displacement by an isometry
TINY = 1e-5
# numbers that are worked on at a time
ENTRIES = 2**23


@dataclass(frozen=True)
class Positions:
    """Joint posterior of the positions of training rows; see the module's docstring.

    All of it is in the frame of the fit. Covariances and displacements are in the transported
    frames at the latents.

    Attributes
    ----------
    covariance : Covariance
        Kernel that the positions are judged by.
    rows : Tensor [m]
        Which rows are landmarks.
    noise : Tensor [m]
        Noise variance that they have as such.
    n_columns : int
        D, as the model counts columns.
    prior_scale : float
        τ.
    modes : Tensor [m, Q, k]
        Displacements that rows share, by the landmarks: coordinates are ``U z`` with z ~ N(0, I).
    own : Tensor [N, Q, Q]
        Covariance of each row beside these.
    """

    covariance: Covariance
    rows: Tensor
    noise: Tensor
    n_columns: int
    prior_scale: float
    modes: Tensor
    own: Tensor

    @classmethod
    def of(
        cls,
        covariance: Covariance,
        points: Tensor,
        data: Tensor,
        noise: Tensor,
        *,
        prior_scale: float,
        observed: Tensor | None = None,
        free_length_scale: bool = True,
    ) -> Positions:
        """From what a fit ended with.

        Parameters
        ----------
        points : Tensor [N, ·]
            Latents, with tags where the covariance knows batches.
        data : Tensor [N, D]
            Rows, filled where entries are missing.
        noise : Tensor [N]
            Noise variance of each row.
        prior_scale : float
            τ, of a row's position.
        observed : Tensor [N], optional
            Share of the entries of each row that is observed.
        free_length_scale : bool
            Whether κ may be found anew, or σ alone.
        """
        n = len(points)
        generator = torch.Generator().manual_seed(0)
        order = torch.arange(n) if n <= LANDMARKS else torch.randperm(n, generator=generator)
        rows = order[:LANDMARKS].sort().values.to(points.device)
        judged = order[:JUDGED].sort().values.to(points.device)
        x = points[rows]
        share = None if observed is None else observed[rows]
        thinned = noise[rows] * (len(rows) / min(n, JUDGED))
        q = covariance.manifold.n_components(points)
        found = cls(
            covariance, rows, thinned, data.shape[1], prior_scale, x.new_zeros(0), x.new_zeros(0)
        )
        spread: Tensor | None = None
        precision = x.new_zeros(0)
        fitted = covariance
        for round_ in range(ROUNDS):
            covariance = smoothed(
                fitted,
                points[judged],
                data[judged],
                noise[judged],
                spread,
                start=covariance,
                generator=generator,
                free_length_scale=free_length_scale,
            )
            found = replace(found, covariance=covariance)
            last = round_ == ROUNDS - 1
            if last or len(rows) == n:
                precision = expected_information(covariance, x, thinned, data.shape[1], share)
                precision = _bounded(precision, prior_scale)
                precision.diagonal().add_(prior_scale**-2)
            if not last and len(rows) == n:
                spread = torch.linalg.inv(_blocks(precision, q))
            elif not last:
                some = None if observed is None else observed[judged]
                spread = found.own_at(points, points[judged], noise[judged], some)
        values, vectors = torch.linalg.eigh(0.5 * (precision + precision.mT))
        joint = (vectors / values.clamp_min(prior_scale**-2)) @ vectors.mT
        fields = isometry_fields(covariance.manifold, x)
        joint = joint - fields @ (fields.mT @ joint)
        joint = joint - (joint @ fields) @ fields.mT
        values, vectors = torch.linalg.eigh(0.5 * (joint + joint.mT))
        kept = min(MODES, len(values))
        leading = vectors[:, -kept:] * values[-kept:].clamp_min(0.0).sqrt()
        modes = leading.view(len(x), q, kept)
        found = replace(found, modes=modes)
        if len(rows) == n:
            own = _positive(_blocks(joint, q) - modes @ modes.mT)
        else:
            own = found.own_at(points, points, noise, observed)
        return replace(found, own=own)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Positions:
        """Apply a function to all tensors."""
        return replace(
            self,
            rows=function(self.rows),
            noise=function(self.noise),
            modes=function(self.modes),
            own=function(self.own),
        )

    def own_at(
        self, points: Tensor, x: Tensor, noise: Tensor, observed: Tensor | None = None
    ) -> Tensor:
        """Return covariances [n, Q, Q] of rows at x, where the map is known.

        Parameters
        ----------
        points : Tensor [N, ·]
            Training latents, with tags where the covariance knows batches; so have x.
        noise, observed : Tensor [n]
            Noise variances of the rows, and shares of their entries that are observed.
        """
        landmarks = points[self.rows]
        gram = self.covariance.gram(landmarks, landmarks)
        inverse = linalg.inverse_from_cholesky(linalg.cholesky(gram, shift=self.noise))
        size = max(1, ENTRIES // (8 * len(landmarks)))
        shares = torch.ones_like(noise) if observed is None else observed
        found = []
        for some, a, share in zip(*(torch.split(t, size) for t in (x, noise, shares)), strict=True):
            information = row_information(self.covariance, landmarks, inverse, some, a)
            information *= (share * self.n_columns)[:, None, None]
            information = _bounded(information, self.prior_scale)
            information.diagonal(dim1=1, dim2=2).add_(self.prior_scale**-2)
            found.append(torch.linalg.inv(information))
        return torch.cat(found)

    def modes_at(self, points: Tensor, x: Tensor) -> Tensor:
        """Displacements [n, Q, k] of points x that they share with the rows around them.

        `points` are the training latents, without tags, as x.
        """
        manifold, landmarks = _bare(self.covariance.manifold), points[self.rows]
        size = max(1, ENTRIES // (64 * SHARED * self.modes.shape[2]))
        return torch.cat(
            [self._modes_at(manifold, landmarks, some) for some in torch.split(x, size)]
        )

    def _modes_at(self, manifold: Manifold, landmarks: Tensor, x: Tensor) -> Tensor:
        near = nearest_to(manifold, x, landmarks, min(SHARED, len(landmarks)))
        there = landmarks[near]  # [n, few, ·]
        square = manifold.distance(x.unsqueeze(1), there).square()
        weights = 1.0 / (square + 1e-12 * square.amax(1, keepdim=True) + 1e-24)
        weights = weights / weights.sum(1, keepdim=True)
        here = x.unsqueeze(1).expand_as(there)
        q = self.modes.shape[1]
        found = x.new_zeros(len(x), q, self.modes.shape[2])
        for axis in range(q):  # the axes of the frames there, in the frames here
            unit = x.new_zeros(q)
            unit[axis] = 1.0
            vector = manifold.from_frame(there, unit.expand(*there.shape[:-1], q))
            turned = manifold.to_frame(here, manifold.parallel_transport(there, here, vector))
            along = self.modes[near, axis]  # [n, few, k]
            found = found + torch.einsum("nf,nfq,nfk->nqk", weights, turned, along)
        return found

    def covariances(self, points: Tensor) -> Tensor:
        """Posterior covariances [N, Q, Q] of the training rows; `points` without tags."""
        modes = self.modes_at(points, points)
        return self.own + modes @ modes.mT

    def draws(
        self,
        points: Tensor,
        n_draws: int,
        generator: torch.Generator,
        *,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Draw positions of training rows together, by default of all: [n_draws, n, ·]."""
        manifold = _bare(self.covariance.manifold)
        latents = points if rows is None else points[rows]
        modes = self.modes_at(points, latents)
        root = torch.linalg.cholesky(_positive(self.own if rows is None else self.own[rows]))
        found = []
        for _ in range(n_draws):
            z = torch.randn(modes.shape[2], generator=generator, dtype=torch.float64).to(modes)
            own = torch.randn(*modes.shape[:2], generator=generator, dtype=torch.float64).to(modes)
            v = modes @ z + (root @ own.unsqueeze(-1)).squeeze(-1)
            found.append(manifold.inside(manifold.displaced(latents, v)))
        return torch.stack(found)


# --- information ----------------------------------------------------------------------------


def expected_information(
    covariance: Covariance,
    x: Tensor,
    noise: Tensor,
    n_columns: int,
    observed: Tensor | None = None,
) -> Tensor:
    """Information of D columns about the coordinates of all rows in their frames: [N·Q, N·Q].

    `observed` [N] are the shares of the rows' entries that there are.
    """
    n = len(x)
    gram = covariance.gram(x, x)
    inverse = linalg.inverse_from_cholesky(linalg.cholesky(gram, shift=noise))  # P
    slopes = _slopes(covariance, x, x)  # [n, n, Q]: ∂k(x_i, x_j)/∂x_i
    q = slopes.shape[2]
    g = slopes.transpose(1, 2).reshape(n * q, n)
    through = g @ inverse  # (P g_iq)_j
    inner = (through @ g.mT).view(n, q, n, q)
    own = through.view(n, q, n)
    found = own.unsqueeze(-1) * own.permute(2, 0, 1).unsqueeze(1)
    found += inverse[:, None, :, None] * inner
    if observed is not None:
        root = observed.sqrt()
        found *= root[:, None, None, None] * root[:, None]
    found *= n_columns
    return found.view(n * q, n * q)


def row_information(
    covariance: Covariance, landmarks: Tensor, inverse: Tensor, x: Tensor, noise: Tensor
) -> Tensor:
    """Information of one column about each row's own coordinates: [n, Q, Q].

    Parameters
    ----------
    landmarks : Tensor [m, ·]
        Rows that the function is known from.
    inverse : Tensor [m, m]
        P of these.
    x, noise : Tensor [n, ·], [n]
        Other rows.
    """
    k = covariance.gram(x, landmarks)
    w = k @ inverse
    own = covariance.pairs(x.unsqueeze(1), x.unsqueeze(1)).value().view(-1)
    s = (own - (w * k).sum(1)).clamp_min(0.0) + noise
    g = _slopes(covariance, x, landmarks).transpose(1, 2)  # [n, Q, m]
    along = (g @ w.unsqueeze(-1)).squeeze(-1)  # [n, Q]
    inner = (g @ inverse) @ g.mT
    s = s[:, None, None]
    return inner / s + 2.0 * along.unsqueeze(2) * along.unsqueeze(1) / s.square()


def _slopes(covariance: Covariance, x: Tensor, z: Tensor) -> Tensor:
    """``∂k(x_i, z_j)/∂x_i`` in the frame at x_i: [n, m, Q]; 0 where points coincide."""
    pairs = covariance.pairs(x[:, None, None, :], z[None, :, None, :])  # [n, m, 1, 1]
    return pairs.back(torch.ones_like(pairs.value())).squeeze(-2)


def isometry_fields(manifold: Manifold, x: Tensor) -> Tensor:
    """Displacements of points by isometries, in their frames: an orthonormal basis [n·Q, b].

    b is ``Q(Q + 1)/2``, or less where few points do not tell isometries apart.
    """
    x = _without_tags(manifold, x)
    manifold = _bare(manifold)
    q = manifold.n_components(x)
    fields = []
    for axis in range(q):
        root = x.new_zeros(q)
        root[axis] = TINY
        fields.append(manifold.recenter(x, manifold.from_tangent(root)))
    for a, b in combinations(range(q), 2):
        turn = torch.eye(q, dtype=x.dtype, device=x.device)
        turn[a, a] = turn[b, b] = math.cos(TINY)
        turn[a, b], turn[b, a] = -math.sin(TINY), math.sin(TINY)
        fields.append(manifold.rotate(x, turn))
    moves = [manifold.to_frame(x, manifold.log_map(x, y)).reshape(-1) / TINY for y in fields]
    basis, sizes, _ = torch.linalg.svd(torch.stack(moves, dim=1), full_matrices=False)
    return basis[:, sizes > 1e-6 * sizes.max().clamp_min(1e-6)]


# --- the kernel -----------------------------------------------------------------------------


def smoothed(
    covariance: Covariance,
    x: Tensor,
    data: Tensor,
    noise: Tensor,
    spread: Tensor | None,
    *,
    start: Covariance | None = None,
    generator: torch.Generator,
    free_length_scale: bool = True,
) -> Covariance:
    """Return the kernel whose σ and κ make the data likely at positions that are uncertain.

    By the collapsed bound, as a mean over draws of the positions, with rows as inducing points.

    Parameters
    ----------
    covariance : Covariance
        That of the fit, from which they do not stray too far.
    spread : Tensor [N, Q, Q], optional
        Covariances of the positions; without them they are taken as they are.
    start : Covariance, optional
        Where to begin, with a kernel like that of the fit.
    """
    manifold, w = covariance.manifold, 1.0 / noise
    n_columns, data = data.shape[1], rotated_to_rank(data)
    precision, log_precision = float(w.sum()), float(w.log().sum())
    squares = float((w * data.square().sum(1)).sum())
    # with as many as there are rows, the bound is the likelihood, by which moved rows look rough
    n_inducing = min(INDUCING, max(FEWEST, round(SHARE * len(x))))
    scenes = []
    for _ in range(DRAWS):
        moved = x
        if spread is not None:
            z = torch.randn(spread.shape[:2], generator=generator, dtype=torch.float64).to(x)
            root = torch.linalg.cholesky(_positive(spread))
            moved = manifold.displaced(x, (root @ z.unsqueeze(-1)).squeeze(-1))
        chosen = torch.randperm(len(x), generator=generator)[:n_inducing].to(x.device)
        scenes.append((moved, moved[chosen]))

    fitted = covariance.theta["length_scale"]
    some = x[: min(len(x), 300)]
    typical = float(manifold.pairwise_distance(some).median())
    longest = max(LONGEST * typical, fitted)

    def kernel(logs: Array) -> Covariance:
        factors = np.exp(np.clip(logs, -math.log(REACH), math.log(REACH)))
        theta = dict(covariance.theta)
        if free_length_scale:
            theta["length_scale"] = min(fitted * float(factors[1]), longest)
        return replace(covariance, variance=covariance.variance * float(factors[0]), theta=theta)

    def loss(logs: Array) -> float:
        trial, total = kernel(logs), 0.0
        for moved, inducing in scenes:
            cross = trial.gram(inducing, moved)
            weighted = cross * w
            statistics = Statistics(
                len(moved),
                n_columns,
                log_precision,
                trial.diagonal * precision,
                weighted @ cross.mT,
                weighted @ data,
                squares,
            )
            try:
                total -= collapsed_bound(jittered_gram(trial, inducing), statistics).value
            except NotPositiveDefiniteError:
                return math.inf
        return total / (len(scenes) * len(data) * n_columns)

    n_free = 2 if free_length_scale else 1
    simplex = np.concatenate([np.zeros((1, n_free)), -0.7 * np.eye(n_free)])
    if free_length_scale:
        simplex[2, 1] = 0.7  # smoother by a smaller σ or a larger κ
    origin = np.zeros(n_free)
    if start is not None:
        origin[0] = math.log(start.variance / covariance.variance)
        if free_length_scale:
            origin[1] = math.log(start.theta["length_scale"] / fitted)
    simplex = simplex + origin
    best = minimize(
        loss,
        origin,
        method="Nelder-Mead",
        options={
            "initial_simplex": simplex,
            "maxfev": EVALUATIONS,
            "xatol": 0.02,
            "fatol": 1e-6,
        },
    )
    return kernel(best.x) if math.isfinite(best.fun) else covariance


# --- parts ----------------------------------------------------------------------------------


def _bounded(information: Tensor, prior_scale: float) -> Tensor:
    """Information by which no coordinate is known beyond SUREST of the prior's scale."""
    information = information.nan_to_num(nan=0.0)
    most = (SUREST * prior_scale) ** -2
    root = (most / information.diagonal(dim1=-2, dim2=-1).clamp_min(most)).sqrt()
    return root.unsqueeze(-1) * information * root.unsqueeze(-2)


def _blocks(matrix: Tensor, q: int) -> Tensor:
    """Blocks [N, Q, Q] on the diagonal of a matrix [N·Q, N·Q]."""
    n = matrix.shape[0] // q
    return matrix.view(n, q, n, q).diagonal(dim1=0, dim2=2).permute(2, 0, 1).clone()


def _positive(covariance: Tensor) -> Tensor:
    """Covariances [n, Q, Q] without the negative variances that rounding makes."""
    values, vectors = torch.linalg.eigh(0.5 * (covariance + covariance.mT))
    least = 1e-12 * values.amax(-1, keepdim=True).clamp_min(1e-12)
    values = torch.maximum(values, least)
    return (vectors * values.unsqueeze(-2)) @ vectors.mT


def _bare(manifold: Manifold) -> Manifold:
    return manifold.base if isinstance(manifold, Tagged) else manifold


def _without_tags(manifold: Manifold, x: Tensor) -> Tensor:
    return manifold.bare(x) if isinstance(manifold, Tagged) else x
