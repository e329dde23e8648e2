"""The nearest-neighbour (Vecchia) likelihood: each row given a few of the rows before it.

With the rows in some order and ``n(i)`` the k nearest, in latent space, of those before row i::

    F   = Σ_i log N(y_i | b_iᵀ Y_n(i), f_i I)
    C_i = K_nn + diag(a_n),   b_i = C_i⁻¹ k_ni,   f_i = σ + a_i - k_in b_i

with the noise variances a (all β⁻¹ in the paper), which is the exact log likelihood for k = N - 1.
A row's neighbours and, last, the row itself are its *group*. Of the Cholesky factor L of the
group's covariance ``C = K + diag(a)`` the last corner is √f, and ``L⁻ᵀ`` times the last unit vector
is ``v/√f`` with ``v = (-b, 1)``.

Neighbours model the rough part of the data. Where single rows are mostly noise, the smooth part
would need many more of them: M inducing points model it, and neighbours the rest (a full-scale
approximation). With features φ (:mod:`hgplvm.objectives.features`), group covariances are those of
``k(x, z) - φ(x)·φ(z)``, and with ``t = Σ_a v_a φ_a``, ``r = Σ_a v_a y_a`` over each group::

    S = I + Σ_i t_i t_iᵀ/f_i,   P = Σ_i t_i r_iᵀ/f_i,   E = S⁻¹P
    F = -½ [ND log 2π + D (log|S| + Σ log f_i) + Σ ‖r_i‖²/f_i - tr PᵀE]

For M = 0 this is the sum above. The gradient, with ``ρ = r - Eᵀt`` and ``q = D S⁻¹t - Eρ``::

    e       = ∂F/∂f = ((‖ρ‖² + D tᵀS⁻¹t)/f - D)/(2f)
    ∂F/∂C   = ½ (h vᵀ + v hᵀ),   h = e v + (C_nn⁻¹ u, 0),   u = (Y_n ρ + Φ_n q)/f
    ∂F/∂φ_a = -v_a (q/f + Σ_b h_b φ_b) - h_a t

Effects of covariates (:mod:`hgplvm.objectives.effects`) are further features U, which belong to the
smooth part as φ does. They are in no group's covariance, so that ``∂F/∂U_a = -v_a q/f``.

Groups are independent: they are worked on in chunks, in batched k×k algebra. The data enter
through ``s = Y_g r`` alone (``‖r‖² = v·s``), for which the products of a group's rows with each
other can be kept until neighbours are drawn anew: a step then costs the same for any number of
columns. Where entries are missing, YYᵀ gains diag(u) (:mod:`hgplvm.objectives.responses`): s gains
``u_a v_a``, and with ``V = Σ_i v_a t_iᵀ/f_i`` row by row, ``P = VᵀY``, so does PPᵀ ``Vᵀdiag(u)V``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hgplvm import _linalg as linalg
from hgplvm.covariance import Covariance, CovarianceFunction, CovarianceGradient, Pairs
from hgplvm.manifolds._neighbors import max_min_order, nearest_earlier
from hgplvm.noise import Noise
from hgplvm.objectives.effects import EffectsPosterior, LinearEffects
from hgplvm.objectives.features import InducingFeatures
from hgplvm.objectives.gaussian import GaussianObjective
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.predictive import NeighborPosterior
from hgplvm.objectives.responses import Imputation, Responses

__all__ = ["VecchiaObjective"]

# numbers in the arrays [groups, k, k + M + D] of a chunk: a processor's cache, or plenty on a GPU
CACHED_ENTRIES = 2**20
GPU_ENTRIES = 2**27
# rows over which the distance to neighbours is taken
SPACING_ROWS = 1000
# fewer groups than this are not worth a batch
FEWEST_GROUPS = 16


@dataclass(frozen=True)
class _Groups:
    """A chunk of groups, and the conditional of each one's last row given the others."""

    span: slice  # where they stand among all groups
    rows: Tensor  # [n, k+1] which rows they are
    real: Tensor | None  # [n, k+1] False where an early row lacks neighbours; None: all are real
    pairs: Pairs  # [n, k+1, k+1]
    features: Tensor  # φ and U, [n, k+1, M + q]
    factor: Tensor  # L
    v: Tensor  # (-b, 1), [n, k+1]
    f: Tensor  # [n]
    t: Tensor  # [n, M + q]


class _GroupData:
    """The data as the groups see them.

    Products of a group's rows with each other are kept where they are fewer than the data.
    """

    def __init__(self, responses: Responses) -> None:
        self._responses = responses
        self._products: Tensor | None = None

    @property
    def n_gathered(self) -> int:
        """Columns of the rows that :meth:`residuals` gathers."""
        return self._responses.data.shape[1] if self._products is None else 0

    def draw(self, groups: Tensor, chunk_size: int) -> None:
        """Take note of the groups [N, k+1]."""
        self._products = None
        data, width = self._responses.data, groups.shape[1]
        # in single precision ‖r‖² from products would cancel to less than nothing
        if width**2 > data.shape[1] or data.dtype != torch.float64:
            return
        products = data.new_empty(len(groups), width, width)
        for start in range(0, len(groups), chunk_size):
            rows = _gathered(data, groups[start : start + chunk_size])
            torch.bmm(rows, rows.mT, out=products[start : start + chunk_size])
        self._products = products

    def residuals(self, groups: _Groups) -> tuple[Tensor, Tensor]:
        """``s = Y_g r`` [n, k+1] and ``‖r‖²`` [n], where ``r = Y_gᵀ v``."""
        if self._products is not None:
            s = (self._products[groups.span] @ groups.v[:, :, None]).squeeze(2)
            squares = (s * groups.v).sum(1)
        else:
            rows = _gathered(self._responses.data, groups.rows)  # [n, k+1, D]
            r = groups.v[:, None, :] @ rows  # [n, 1, D]
            s, squares = (rows * r).sum(2), r.square().sum((1, 2))
        if self._responses.unseen is not None:
            more = self._responses.unseen[groups.rows] * groups.v
            s, squares = s + more, squares + (more * groups.v).sum(1)
        return s, squares


def _gathered(array: Tensor, rows: Tensor) -> Tensor:
    """Rows of an array [N, ·] by an index of any shape: plain indexing is slower."""
    return array.index_select(0, rows.reshape(-1)).view(*rows.shape, array.shape[1])


@dataclass(frozen=True)
class _Smooth:
    """The posterior of the inducing points, from the sums over all groups."""

    inverse: Tensor  # S⁻¹ [M, M]
    outer: Tensor  # EEᵀ [M, M]
    rows: Tensor  # YEᵀ [N, M]


class _Sums:
    """Sums over the groups."""

    def __init__(self, responses: Responses, n_inducing: int) -> None:
        self._responses = responses
        data = responses.data
        self._log_f = data.new_zeros(())
        self._squares = data.new_zeros(())  # Σ ‖r‖²/f
        self._inner = torch.eye(n_inducing, dtype=data.dtype, device=data.device)  # S
        self._weights = data.new_zeros(data.shape[0], n_inducing)  # V

    def add(self, groups: _Groups, squares: Tensor) -> None:
        self._log_f += torch.log(groups.f).sum()
        self._squares += (squares / groups.f).sum()
        if groups.t.shape[1]:
            weighted = groups.t / groups.f[:, None]
            self._inner.addmm_(weighted.mT, groups.t)
            parts = groups.v[:, :, None] * weighted[:, None, :]
            self._weights.index_add_(0, groups.rows.reshape(-1), parts.flatten(0, 1))

    def solve(self) -> tuple[float, _Smooth]:
        """F, and the smooth part."""
        responses = self._responses
        constant = responses.n_rows * responses.n_columns * math.log(2.0 * math.pi)
        squares, log_det = self._squares.item(), self._log_f.item()
        inverse, projection = self._inner, self._weights.mT @ responses.data  # [M, M], P [M, D]
        if inverse.numel():
            factor = linalg.cholesky(self._inner)
            inverse = linalg.inverse_from_cholesky(factor)
            log_det += linalg.log_det_from_cholesky(factor).item()
        second = projection @ projection.mT  # PPᵀ
        rows = responses.data @ (inverse @ projection).mT
        if responses.unseen is not None:
            weighted = responses.unseen[:, None] * self._weights
            second += weighted.mT @ self._weights
            rows += weighted @ inverse
        squares -= (second * inverse).sum().item()
        value = -0.5 * (constant + responses.n_columns * log_det + squares) + responses.entropy
        return value, _Smooth(inverse, inverse @ second @ inverse, rows)

    def mean(self, smooth: _Smooth, data: Tensor) -> Tensor:
        """``E = S⁻¹P`` [M, D] for data that may be those before their rotation."""
        return smooth.inverse @ (self._weights.mT @ data)


class VecchiaObjective(GaussianObjective):
    """Nearest-neighbour log likelihood and its closed-form gradient.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data; rotated down to N columns where D > N.
    covariance : CovarianceFunction
        Latent space and kernel.
    noise : Noise
        Noise variances.
    n_neighbors : int
        k, at most N - 1.
    n_inducing : int
        M, for the smooth part; 0 for neighbours alone. Inducing points are rows of the latents,
        drawn at random and held fixed in the gradient.
    neighbor_update : int
        Steps between two draws of neighbours and inducing points.
    order : {"random", "max-min"}
        How the rows are ordered: at random, or coarse to fine (:func:`max_min_order`).
    reshuffle : bool
        Whether each draw puts the rows into a new order, or all keep that of the first.
    generator : torch.Generator
        Source of the order and of the inducing points.
    chunk_size : int or None
        Groups at a time, for memory of O(chunk·k·(k + M + D)); None chooses by the size of the
        cache. Besides, there are O(N·k) for the groups, O(N·M) for the features, and products of
        rows, which are kept in float64 where (k + 1)² ≤ D, and so never outgrow the data.
    imputation : Imputation, optional
        What stands for missing entries.

    Notes
    -----
    Values before and after a draw differ a little. :meth:`advance` makes the draw and returns
    whether it did, and optimisers compare values under the same draw only.
    """

    stochastic = False

    def __init__(
        self,
        data: Tensor,
        covariance: CovarianceFunction,
        noise: Noise,
        *,
        n_neighbors: int,
        neighbor_update: int,
        generator: torch.Generator,
        n_inducing: int = 0,
        order: str = "random",
        reshuffle: bool = False,
        chunk_size: int | None = None,
        imputation: Imputation | None = None,
        effects: LinearEffects | None = None,
    ) -> None:
        super().__init__(data, covariance, noise, imputation, effects)
        self._group_data = _GroupData(self.responses)
        self.n_neighbors = n_neighbors
        self.n_inducing = n_inducing
        self.neighbor_update = neighbor_update
        self.order_kind = order
        self.reshuffle = reshuffle
        self.generator = generator
        self.chunk_size = chunk_size
        self.inducing = data.new_empty(0)
        self.order: Tensor | None = None
        self.groups = torch.empty(0, n_neighbors + 1, dtype=torch.long, device=data.device)
        self._n_steps = 0

    # --- neighbours and inducing points ---------------------------------------------------

    def advance(self, parameters: Parameters) -> bool:
        """Count a step, and draw when it is time: True where the value changed by it."""
        self._n_steps += 1
        due = self._n_steps % self.neighbor_update == 0
        if due:
            self.draw(parameters)
        return due

    def renew(self, data: Tensor, noise: Noise) -> None:
        """Go over to other data of the same shape, and their noise."""
        super().renew(data, noise)
        self._group_data = _GroupData(self.responses)
        if len(self.groups):
            self._regroup()

    def _regroup(self) -> None:
        """Take note of the groups as they are now."""
        self._group_data.draw(self.groups, self._chunk_size(self.data.shape[1]))

    def draw(self, parameters: Parameters) -> None:
        """Find the neighbours in the latents as they are now, and draw the inducing points."""
        if self.order is None or self.reshuffle:
            self.order = self._shuffled()
            if self.order_kind == "max-min":
                shuffled = parameters.latents[self.order]
                self.order = self.order[max_min_order(self.manifold, shuffled)]
        found = nearest_earlier(self.manifold, parameters.latents[self.order], self.n_neighbors)
        own = torch.arange(self.n_rows, device=found.device)[:, None]
        self.groups = self.order[torch.cat([found, own], dim=1)]
        self._regroup()
        self.inducing = parameters.latents[self._shuffled()[: self.n_inducing]]

    def state(self) -> dict[str, Any]:
        """Order, groups, inducing points and the random state."""
        return {
            "order": self.order,
            "groups": self.groups,
            "inducing": self.inducing,
            "n_steps": self._n_steps,
            "random": self.generator.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        self.order, self.groups = state["order"], state["groups"]
        self.inducing, self._n_steps = state["inducing"], state["n_steps"]
        self.generator.set_state(state["random"].cpu())
        self._regroup()

    def spacing(self, parameters: Parameters) -> float:
        """Median distance to the last of a row's neighbours, over the last rows of the order."""
        if self.groups.shape[0] == 0:
            self.draw(parameters)
        first = max(self.n_neighbors, self.n_rows - SPACING_ROWS)  # those before lack neighbours
        last, x = self.groups[first:], parameters.latents
        return self.manifold.distance(x[last[:, -1]], x[last[:, -2]]).median().item()

    def _shuffled(self) -> Tensor:
        return torch.randperm(self.n_rows, generator=self.generator).to(self.data.device)

    # --- value and gradient ---------------------------------------------------------------

    def value(self, parameters: Parameters) -> float:
        """F alone: one pass over the groups."""
        return self._summed(parameters).solve()[0] + self.noise.evidence(parameters)

    def smooth_part(self, parameters: Parameters, data: Tensor) -> tuple[Tensor, Tensor]:
        """Mean E [M + q, D] of the features' weights, and their covariance S⁻¹ [M + q, M + q].

        For the data before their rotation to fewer columns.
        """
        sums = self._summed(parameters)
        smooth = sums.solve()[1]
        return sums.mean(smooth, data), smooth.inverse

    def effects_posterior(self, parameters: Parameters, data: Tensor) -> EffectsPosterior:
        """From the weights of the last features."""
        assert self.effects is not None
        mean, covariance = self.smooth_part(parameters, data)
        q = self.n_effects
        eye = torch.eye(q, dtype=mean.dtype, device=mean.device)
        scales = self.effects.scales(parameters)
        return EffectsPosterior.of(scales, mean[-q:], eye - covariance[-q:, -q:])

    def marginals(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """From the nearest rows, each row among its own; effects are taken at their means."""
        data, shift = self.data, torch.zeros_like(self.data)
        mean, covariance = self.smooth_part(parameters, data)
        if self.effects is not None:
            q = self.n_effects
            shift = self.effect_features(parameters) @ mean[-q:]
            mean, covariance = mean[:-q], covariance[:-q, :-q]
        predictor = NeighborPosterior(
            self.covariance.at(parameters.values),
            0.0,
            min(self.n_neighbors + 1, self.n_rows),
            data - shift,
            parameters.latents,
            self.inducing,
            mean,
            covariance,
            row_noise=self.noise.variances(parameters).expand(self.n_rows),
        )
        size = max(1, self.entries // predictor.row_entries)
        parts = [predictor.near(x).predict(x) for x in torch.split(parameters.latents, size)]
        means, variances = (torch.cat(part) for part in zip(*parts, strict=True))
        return means + shift, variances

    def _summed(self, parameters: Parameters) -> _Sums:
        sums = _Sums(self.responses, self._n_smooth)
        for groups in self._chunks(parameters, self._features(parameters)):
            sums.add(groups, self._group_data.residuals(groups)[1])
        return sums

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """F and its gradient: one pass over the groups, and with inducing points one before it."""
        features = self._features(parameters)
        total = _Gradient(parameters, features, self)
        sums = _Sums(self.responses, self._n_smooth)
        if not self._n_smooth:
            for groups in self._chunks(parameters, features):
                s, squares = self._group_data.residuals(groups)
                sums.add(groups, squares)
                total.add(groups, *self._pulls(groups, s, squares, None))
            value = sums.solve()[0] + self.noise.evidence(parameters)
            return Evaluation(value, total.flat())
        kept = []
        for groups in self._chunks(parameters, features):
            kept.append(self._group_data.residuals(groups))
            sums.add(groups, kept[-1][1])
        value, smooth = sums.solve()
        for groups, (s, squares) in zip(self._chunks(parameters, features), kept, strict=True):
            total.add(groups, *self._pulls(groups, s, squares, smooth))
        return Evaluation(value + self.noise.evidence(parameters), total.flat())

    def _pulls(
        self, groups: _Groups, s: Tensor, squares: Tensor, smooth: _Smooth | None
    ) -> tuple[Tensor, Tensor | None]:
        """H of ``∂F/∂C = ½ (hvᵀ + vhᵀ)`` [n, k+1], and ``q/f + Σ_b h_b φ_b`` [n, M + q].

        For the q effects, which C does not hold, ``q/f`` alone.
        """
        v, f, t, d = groups.v, groups.f, groups.t, self.n_columns
        if smooth is not None:
            means = _gathered(smooth.rows, groups.rows)  # E y_a, [n, k+1, M]
            er = (v[:, None, :] @ means).squeeze(1)
            eet, spread = t @ smooth.outer, t @ smooth.inverse  # EEᵀt, S⁻¹t
            # ‖ρ‖² + D tᵀS⁻¹t, Y_g ρ, and q
            squares = squares + (t * (eet - 2.0 * er + d * spread)).sum(1)
            s = s - (means @ t[:, :, None]).squeeze(2)
            q = d * spread - er + eet
            s = s + (groups.features @ q[:, :, None]).squeeze(2)
        e = 0.5 * (squares / f - d) / f
        u = s[:, :-1] / f[:, None]
        if groups.real is not None:
            u = u * groups.real[:, :-1]
        inner = groups.factor[:, :-1, :-1]
        half = torch.linalg.solve_triangular(inner, u[:, :, None], upper=False)
        h = e[:, None] * v
        h[:, :-1] += torch.linalg.solve_triangular(inner.mT, half, upper=True).squeeze(2)
        if smooth is None:
            return h, None
        lean, m = q / f[:, None], self.n_inducing
        lean[:, :m] += (h[:, None, :] @ groups.features[:, :, :m]).squeeze(1)
        return h, lean

    # --- the groups -----------------------------------------------------------------------

    def _features(self, parameters: Parameters) -> InducingFeatures:
        if self.groups.shape[0] == 0:
            self.draw(parameters)
        return InducingFeatures(
            self.covariance.at(parameters.values),
            parameters.latents,
            self.inducing,
            chunk_size=self.chunk_size or self.entries // (8 * max(self.n_inducing, 1)),
        )

    @property
    def _n_smooth(self) -> int:
        """Features of the smooth part, effects among them: M + q."""
        return self.n_inducing + self.n_effects

    @property
    def entries(self) -> int:
        """Numbers in the arrays of a chunk."""
        return CACHED_ENTRIES if self.data.device.type == "cpu" else GPU_ENTRIES

    def _chunk_size(self, n_columns: int) -> int:
        """Return how many groups to take at a time, with this many columns of their rows."""
        width = self.n_neighbors + 1
        numbers = width * (width + self._n_smooth + n_columns)
        return self.chunk_size or max(FEWEST_GROUPS, self.entries // numbers)

    def _chunks(self, parameters: Parameters, features: InducingFeatures) -> Iterator[_Groups]:
        size = self._chunk_size(self._group_data.n_gathered)
        covariance = self.covariance.at(parameters.values)
        noise = self.noise.variances(parameters)
        smooth = torch.cat([features.values, self.effect_features(parameters)], dim=1)
        for start in range(0, self.n_rows, size):
            span = slice(start, min(start + size, self.n_rows))
            yield self._conditionals(span, covariance, noise, parameters.latents, smooth)

    def _conditionals(
        self,
        span: slice,
        covariance: Covariance,
        noise: Tensor,
        latents: Tensor,
        smooth: Tensor,
    ) -> _Groups:
        """Condition the last row of each group on the others."""
        rows = self.groups[span]
        real: Tensor | None = None
        if span.start < self.n_neighbors:  # the first rows have fewer before them
            real = rows != rows[:, -1:]
            real[:, -1] = True
        points, phi = (_gathered(array, rows) for array in (latents, smooth))
        pairs = covariance.pairs(points, points)
        matrix = pairs.value()
        if self.n_inducing:
            explained = phi[:, :, : self.n_inducing]
            matrix.baddbmm_(explained, explained.mT, alpha=-1.0)
        if real is not None:  # what stands in for a missing neighbour is independent of all
            both = real[:, :, None] & real[:, None, :]
            matrix *= both.logical_or_(torch.eye(rows.shape[1], device=both.device) > 0)
        factor = linalg.cholesky(matrix, shift=noise[rows] if self.noise.per_row else noise.item())
        last = factor.new_zeros(*rows.shape, 1)
        last[:, -1, 0] = factor[:, -1, -1]
        v = torch.linalg.solve_triangular(factor.mT, last, upper=True)  # √f L⁻ᵀ e
        return _Groups(
            span=span,
            rows=rows,
            real=real,
            pairs=pairs,
            features=phi,
            factor=factor,
            v=v.squeeze(2),
            f=factor[:, -1, -1].square(),
            t=(v.mT @ phi).squeeze(1),
        )


class _Gradient:
    """Gathers the gradient of all groups."""

    def __init__(
        self, parameters: Parameters, features: InducingFeatures, objective: VecchiaObjective
    ) -> None:
        self._parameters, self._features, self._objective = parameters, features, objective
        self._noise = objective.noise
        x = parameters.latents
        self._latents: Tensor | None = None  # [N, Q]
        self._by_features = torch.zeros_like(features.values)
        self._by_effects = x.new_zeros(x.shape[0], objective.n_effects)
        self._by_noise = x.new_zeros(x.shape[0] if self._noise.per_row else ())
        self._covariance = CovarianceGradient(parameters.free, x)

    def add(self, groups: _Groups, h: Tensor, lean: Tensor | None) -> None:
        """Pass on ``∂F/∂C = ½ (hvᵀ + vhᵀ)`` and, with `lean`, ``∂F/∂φ`` and ``∂F/∂U``."""
        v, flat = groups.v, groups.rows.reshape(-1)
        diagonal = h * v  # of ∂F/∂C, and so ∂F/∂a
        if self._noise.per_row:
            self._by_noise.index_add_(0, flat, diagonal.reshape(-1))
        else:
            self._by_noise += diagonal.sum()
        outer = h[:, :, None] * v[:, None, :]
        # 2 ∂F/∂C: the group's points stand on both sides
        frame = groups.pairs.back(outer + outer.mT, self._covariance, share=0.5)
        if self._latents is None:
            self._latents = frame.new_zeros(len(self._parameters.latents), frame.shape[-1])
        self._latents.index_add_(0, flat, frame.flatten(0, 1))
        if lean is None:
            return
        m = self._by_features.shape[1]
        part = v[:, :, None] * lean[:, None, :]
        part[:, :, :m].addcmul_(h[:, :, None], groups.t[:, None, :m])
        part = part.flatten(0, 1)
        self._by_features.index_add_(0, flat, part[:, :m], alpha=-1.0)
        self._by_effects.index_add_(0, flat, part[:, m:], alpha=-1.0)

    def flat(self) -> Tensor:
        """Frame coordinates of the rows, then the free parameters."""
        assert self._latents is not None  # there is at least one group
        latents, objective = self._latents, self._objective
        if self._by_features.numel():
            latents = latents + self._features.back(self._by_features, self._covariance)
        logs = {
            **self._covariance.gradients(),
            **self._noise.gradients(self._parameters, self._by_noise),
        }
        if objective.effects is not None:
            u = objective.effects.features(self._parameters)
            logs |= objective.effects.gradients(u, self._by_effects)
        return self._parameters.flat(latents, logs)
