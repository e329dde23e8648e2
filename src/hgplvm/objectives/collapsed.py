"""The sparse and the Bayesian hGP-LVM: one objective, in chunks of rows.

Rows have nodes ``x_i^(h)`` with weights w_h: the sparse model has one, the latent itself; the
Bayesian model those of a quadrature over ``q(x_i)``. Then ``Ψ₁ = Σ_h w_h K^(h)`` and
``Ψ₂ = Σ_h w_h K^(h)K^(h)ᵀ``, and::

    ∂F/∂K^(h) = w_h (∂F/∂Ψ₁ + 2 ∂F/∂Ψ₂ K^(h))

Effects of covariates (:mod:`hgplvm.objectives.effects`) are further columns U of K_nm, with the
same value at all nodes of a row, and the identity in K_mm.

Two passes over the rows: one sums the statistics, one turns the bound's derivatives into gradients
of rows. Nothing of size N×M or N×N is held: keeping the results of the first pass for the second
would cost as much in memory traffic as computing them again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hgplvm.covariance import CovarianceFunction, CovarianceGradient, Pairs
from hgplvm.manifolds import wrapped_normal
from hgplvm.noise import Noise
from hgplvm.objectives.bound import Bound, Statistics, collapsed_bound
from hgplvm.objectives.effects import EffectsPosterior, LinearEffects
from hgplvm.objectives.features import add_inducing_gradient, jittered_gram
from hgplvm.objectives.gaussian import GaussianObjective
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.predictive import Posterior, collapsed_posterior
from hgplvm.objectives.responses import Imputation

__all__ = ["BayesianObjective", "CollapsedObjective", "SparseObjective"]

# rows whose [rows, M] arrays fit a core's cache; larger chunks are slower on a CPU
CACHED_ENTRIES = 2**17
GPU_ENTRIES = 2**26
BLOCK_ROWS = 2**14


class CollapsedObjective(GaussianObjective, ABC):
    """What the two models share: the two passes, and the inducing points.

    Parameters
    ----------
    data : Tensor [N, D]
        Centred data; rotated down to N columns where D > N.
    n_inducing : int
        M. Inducing points are rows of the latents, drawn at random and held fixed in the gradient.
    inducing_update : int
        Steps between two draws. Draws must be frequent: the bound rewards latents that sit on an
        inducing point, and pulls them onto points that stay.
    chunk_size : int or None
        Rows at a time, for memory of O(chunk·M); None chooses by the size of the cache.
    imputation : Imputation, optional
        What stands for missing entries.
    """

    stochastic = True

    def __init__(
        self,
        data: Tensor,
        covariance: CovarianceFunction,
        noise: Noise,
        *,
        n_inducing: int,
        inducing_update: int,
        generator: torch.Generator,
        chunk_size: int | None = None,
        imputation: Imputation | None = None,
        effects: LinearEffects | None = None,
    ) -> None:
        super().__init__(data, covariance, noise, imputation, effects)
        self.n_inducing = n_inducing
        self.inducing_update = inducing_update
        self.generator = generator
        self.chunk_size = chunk_size
        self.inducing = data.new_empty(0)
        self._n_steps = 0

    # --- inducing points ------------------------------------------------------------------

    def advance(self, parameters: Parameters) -> bool:
        """Count a step, and draw inducing points when it is time: True where the value moved."""
        due = self._n_steps % self.inducing_update == 0
        self._n_steps += 1
        if due:
            self.draw(parameters)
        return due

    def draw(self, parameters: Parameters) -> None:
        """Take M rows of the latents, at random, as inducing points."""
        rows = torch.randperm(self.n_rows, generator=self.generator)[: self.n_inducing]
        self.inducing = parameters.latents[rows.to(self.data.device)]

    def state(self) -> dict[str, Any]:
        """Inducing points and the random state."""
        return {
            "inducing": self.inducing,
            "n_steps": self._n_steps,
            "random": self.generator.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        self.inducing, self._n_steps = state["inducing"], state["n_steps"]
        self.generator.set_state(state["random"].cpu())

    # --- value and gradient ---------------------------------------------------------------

    def value(self, parameters: Parameters) -> float:
        """Bound alone: one pass."""
        if self.inducing.numel() == 0:
            self.draw(parameters)
        gram = self._inducing_gram(parameters)
        bound = collapsed_bound(gram, self.statistics(parameters, self.data))
        beyond = self.responses.entropy + self.noise.evidence(parameters)
        return bound.value + beyond - self._divergence(parameters)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Bound and gradient: two passes."""
        if self.inducing.numel() == 0:
            self.draw(parameters)
        covariance = self.covariance.at(parameters.values)
        statistics = self.statistics(parameters, self.data)
        bound = collapsed_bound(self._inducing_gram(parameters), statistics)
        u, m = self.effect_features(parameters), len(self.inducing)
        by_effects: list[Tensor] = []  # ∂F/∂U

        total = CovarianceGradient(parameters.free, self.data)
        precision = 1.0 / self.noise.variances(parameters)  # w
        total.add_diagonal(covariance, bound.psi0 * precision.expand(self.n_rows).sum())
        add_inducing_gradient(covariance, self.inducing, bound.gram[:m, :m], total)
        by_row: list[Tensor] = []  # ∂F/∂w
        divergence = 0.0
        rows_gradient: dict[str, list[Tensor]] = {}
        for block in self._blocks():
            nodes, weights = self._nodes(parameters, block)
            frames = []
            for rows, chunk in self._chunks(block, nodes, len(weights)):
                pairs = covariance.pairs(chunk, self.inducing)
                by_value, more = self._by_value(bound, pairs, u[rows], rows, weights, precision)
                by_row += more
                if self.effects is not None:
                    by_effects.append(by_value[:, m:].reshape(len(u[rows]), -1, u.shape[1]).sum(1))
                    by_value = by_value[:, :m].contiguous()
                frames.append(pairs.back(by_value, total))
            part, block_divergence = self._rows_gradient(
                parameters, block, nodes, torch.cat(frames)
            )
            divergence += block_divergence
            for name, value in part.items():
                rows_gradient.setdefault(name, []).append(value)

        if self.noise.per_row:  # ∂F/∂a = -w² ∂F/∂w
            by_noise = -precision.square() * torch.cat(by_row)
        else:
            by_noise = -precision * bound.log_precision
        gradients = {name: torch.cat(parts) for name, parts in rows_gradient.items()}
        gradients |= {**total.gradients(), **self.noise.gradients(parameters, by_noise)}
        if self.effects is not None:  # U is also in ψ₀ = Σ w_n (σ + ‖U_n‖²)
            spread = 2.0 * bound.psi0 * precision.expand(self.n_rows)[:, None] * u
            gradients |= self.effects.gradients(u, torch.cat(by_effects) + spread)
        beyond = self.responses.entropy + self.noise.evidence(parameters)
        total_value = bound.value + beyond - divergence
        return Evaluation(total_value, parameters.flat(gradients["latents"], gradients))

    # --- the two passes -------------------------------------------------------------------

    def statistics(self, parameters: Parameters, data: Tensor) -> Statistics:
        """First pass: sums over the rows, of data that may be those before their rotation."""
        covariance = self.covariance.at(parameters.values)
        u, unseen = self.effect_features(parameters), self.responses.unseen
        m = self.inducing.shape[0] + u.shape[1]
        psi2 = data.new_zeros(m, m)
        projection = data.new_zeros(m, data.shape[1])
        missing = None if unseen is None else torch.zeros_like(psi2)
        w = 1.0 / self.noise.variances(parameters)
        per_row = self.noise.per_row
        for block in self._blocks():
            nodes, weights = self._nodes(parameters, block)
            for rows, chunk in self._chunks(block, nodes, len(weights)):
                # [n·H, M + q], a row's nodes together
                value = _beside(covariance.gram(chunk, self.inducing), u[rows])
                weighted, psi1 = value, value
                if len(weights) > 1:
                    weighted = (value.view(-1, len(weights), m) * weights[:, None]).view(-1, m)
                    psi1 = weighted.view(-1, len(weights), m).sum(1)
                if per_row:
                    each = w[rows].repeat_interleave(len(weights))
                    weighted, psi1 = weighted * each[:, None], psi1 * w[rows, None]
                psi2.addmm_(weighted.mT, value)
                projection.addmm_(psi1.mT, data[rows])
                if unseen is not None and missing is not None:
                    missing.addmm_((psi1 * unseen[rows, None]).mT, psi1)
        squares = self.responses.squares
        if per_row:
            log_precision, precision = w.log().sum().item(), w.sum().item()
            squares_rows = self.data.square().sum(1) + (0.0 if unseen is None else unseen)
            squares = (w * squares_rows).sum().item()
        else:  # one factor for all
            log_precision, precision = self.n_rows * w.log().item(), self.n_rows * w.item()
            psi2, projection, squares = psi2 * w, projection * w, squares * w.item()
            missing = None if missing is None else missing * w.square()
        psi0 = covariance.diagonal * precision + float((w * u.square().sum(1)).sum())
        return Statistics(
            self.n_rows, self.n_columns, log_precision, psi0, psi2, projection, squares, missing
        )

    def _by_value(
        self,
        bound: Bound,
        pairs: Pairs,
        effects: Tensor,
        rows: slice,
        weights: Tensor,
        precision: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """``∂F/∂K^(h)`` for a chunk [n·H, M + q], and with noise for each row ``∂F/∂w`` [n].

        ``∂F/∂w_n = ½ [D/w_n + Σ_h ∂F/∂K^(h)∘K^(h)/w_n + ψ₁ₙ·∂F/∂ψ₁ₙ - ‖y_n‖² - u_n - Dσ_n]``
        with ``σ_n = σ + ‖U_n‖²``.
        """
        value, n_nodes = _beside(pairs.value(), effects), len(weights)
        shape = (-1, n_nodes, value.shape[1])
        per_row, unseen = self.noise.per_row, self.responses.unseen
        # one precision for all is multiplied into the small matrices
        factor = 1.0 if per_row else precision
        e, by_psi2 = factor * bound.weights, factor * bound.psi2
        through_psi1 = self.data[rows] @ e.mT  # [n, M]
        psi1 = value
        if per_row or unseen is not None:
            psi1 = (value.view(shape) * weights[:, None]).sum(1)
        if unseen is not None and bound.inverse is not None:
            share = unseen[rows] * (precision[rows] if per_row else precision.square())
            through_psi1 += share[:, None] * (psi1 @ bound.inverse)
        by_value = value @ by_psi2  # [n·H, M]
        if n_nodes == 1:
            by_value.mul_(2.0).add_(through_psi1)
        else:
            view = by_value.view(shape).mul_(2.0).add_(through_psi1[:, None, :])
            view.mul_(weights[:, None])
        if not per_row:
            return by_value, []
        w = precision[rows]
        whole = (by_value * value).view(len(w), -1).sum(1)
        squares = self.data[rows].square().sum(1) + (0.0 if unseen is None else unseen[rows])
        by_w = 0.5 * (
            self.n_columns * (1.0 / w - pairs.covariance.diagonal - effects.square().sum(1))
            + whole
            + (psi1 * through_psi1).sum(1)
            - squares
        )
        by_value.view(len(w), -1).mul_(w[:, None])
        return by_value, [by_w]

    def _inducing_gram(self, parameters: Parameters) -> Tensor:
        """K_mm with its jitter, and the identity for effects: [M + q, M + q]."""
        gram = jittered_gram(self.covariance.at(parameters.values), self.inducing)
        if self.effects is None:
            return gram
        m = len(gram)
        whole = torch.eye(m + self.n_effects, dtype=gram.dtype, device=gram.device)
        whole[:m, :m] = gram
        return whole

    # --- posteriors -----------------------------------------------------------------------

    def posterior(self, parameters: Parameters, data: Tensor) -> Posterior:
        """Predictions from inducing points; with effects, their columns stand behind these."""
        return collapsed_posterior(
            self.inducing,
            self.statistics(parameters, data),
            self.covariance.at(parameters.values),
            noise=0.0,
            gram=self._inducing_gram(parameters),
        )

    def marginals(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Means and variances under q(x): of the nodes' predictions, and between these."""
        if self.inducing.numel() == 0:
            self.draw(parameters)
        covariance = self.covariance.at(parameters.values)
        posterior, u = self.posterior(parameters, self.data), self.effect_features(parameters)
        means, variances = [], []
        for block in self._blocks():
            nodes, weights = self._nodes(parameters, block)
            for rows, chunk in self._chunks(block, nodes, len(weights)):
                c = _beside(covariance.gram(chunk, self.inducing), u[rows])
                own = u[rows].square().sum(1).repeat_interleave(len(weights))
                a, _, spread = posterior.reading(c, more=own)
                each = (a @ posterior.basis).view(-1, len(weights), posterior.basis.shape[1])
                mean = (each * weights[:, None]).sum(1)
                between = (each - mean[:, None]).square().mean(2)
                means.append(mean)
                variances.append(((spread.view(-1, len(weights)) + between) * weights).sum(1))
        return torch.cat(means), torch.cat(variances)

    def effects_posterior(self, parameters: Parameters, data: Tensor) -> EffectsPosterior:
        """From the columns behind the inducing points."""
        assert self.effects is not None
        found, m = self.posterior(parameters, data), len(self.inducing)
        mean = found.coefficients[m:] @ found.basis
        scales = self.effects.scales(parameters).to(mean)
        return EffectsPosterior.of(scales, mean, found.inverse[m:, m:])

    def _blocks(self) -> Iterator[slice]:
        """Rows whose nodes are points together: arrays of size [rows, H, Q+1]."""
        on_cpu = self.data.device.type == "cpu"
        size = self.chunk_size or (BLOCK_ROWS if on_cpu else GPU_ENTRIES // self.n_inducing)
        for start in range(0, self.n_rows, size):
            yield slice(start, min(start + size, self.n_rows))

    def _chunks(self, block: slice, nodes: Tensor, n_nodes: int) -> Iterator[tuple[slice, Tensor]]:
        """Rows of a block whose pairs are computed together, and their nodes: [rows·H, M]."""
        entries = CACHED_ENTRIES if self.data.device.type == "cpu" else GPU_ENTRIES
        size = self.chunk_size or max(64, entries // (self.n_inducing * n_nodes))
        for start in range(block.start, block.stop, size):
            rows = slice(start, min(start + size, block.stop))
            first, last = (n_nodes * (i - block.start) for i in (rows.start, rows.stop))
            yield rows, nodes[first:last]

    # --- what the models differ in --------------------------------------------------------

    @abstractmethod
    def _nodes(self, parameters: Parameters, rows: slice) -> tuple[Tensor, Tensor]:
        """Nodes of a chunk [n·H, Q+1], those of a row side by side, and weights [H]."""

    @abstractmethod
    def _rows_gradient(
        self, parameters: Parameters, rows: slice, nodes: Tensor, frame: Tensor
    ) -> tuple[dict[str, Tensor], float]:
        """Gradients of row parameters from those of nodes (frame coordinates), and the KL."""

    @abstractmethod
    def _divergence(self, parameters: Parameters) -> float:
        """KL divergence of all rows."""


def _beside(value: Tensor, effects: Tensor) -> Tensor:
    """Values [n·H, M] with the effects of their rows [n, q], the same for all nodes of one."""
    if not effects.shape[1]:
        return value
    return torch.cat([value, effects.repeat_interleave(len(value) // len(effects), 0)], dim=1)


class SparseObjective(CollapsedObjective):
    """The sparse model: latents are points."""

    def _nodes(self, parameters: Parameters, rows: slice) -> tuple[Tensor, Tensor]:
        return parameters.latents[rows], self.data.new_ones(1)

    def _rows_gradient(
        self,
        parameters: Parameters,  # noqa: ARG002
        rows: slice,  # noqa: ARG002
        nodes: Tensor,  # noqa: ARG002
        frame: Tensor,
    ) -> tuple[dict[str, Tensor], float]:
        return {"latents": frame}, 0.0

    def _divergence(self, parameters: Parameters) -> float:  # noqa: ARG002
        return 0.0


class BayesianObjective(CollapsedObjective):
    """The Bayesian model: ``q(x_i)`` is a wrapped normal with mean μ_i and deviations s_i.

    ``logs["std"]`` [N, Q] holds log s. The bound loses ``Σ_i KL(q(x_i) ‖ p)``, with the prior p at
    the origin.

    Parameters
    ----------
    quadrature : {"unscented", "gauss-hermite", "monte-carlo"}
        Nodes; Monte Carlo draws anew with the inducing points.
    n_samples : int
        Monte Carlo nodes per row.
    prior_scale : float
        Scale of the prior.
    kl : {"exact", "paper"}
        The divergence, or the paper's, which ignores the mean.
    warmup : int
        Steps in which the standard deviations are fixed.
    """

    def __init__(
        self,
        data: Tensor,
        covariance: CovarianceFunction,
        noise: Noise,
        *,
        n_components: int,
        quadrature: str = "unscented",
        n_samples: int = 5,
        prior_scale: float = 1.0,
        kl: str = "exact",
        warmup: int = 0,
        n_inducing: int,
        inducing_update: int,
        generator: torch.Generator,
        chunk_size: int | None = None,
        imputation: Imputation | None = None,
        effects: LinearEffects | None = None,
    ) -> None:
        super().__init__(
            data,
            covariance,
            noise,
            n_inducing=n_inducing,
            inducing_update=inducing_update,
            generator=generator,
            chunk_size=chunk_size,
            imputation=imputation,
            effects=effects,
        )
        self.prior_scale = prior_scale
        self.kl = kl
        self.warmup = warmup
        self.quadrature = quadrature
        self._shape = (self.n_rows, n_samples, n_components)
        if quadrature == "unscented":
            self._zeta, self._weights = wrapped_normal.unscented(n_components, like=data)
        elif quadrature == "gauss-hermite":
            self._zeta, self._weights = wrapped_normal.gauss_hermite(n_components, 3, like=data)
        else:
            self._draw_nodes()

    def draw(self, parameters: Parameters) -> None:
        """Draw inducing points and, for Monte Carlo, nodes."""
        super().draw(parameters)
        if self.quadrature == "monte-carlo":
            self._draw_nodes()

    def state(self) -> dict[str, Any]:
        """As of every such objective, and the nodes."""
        return {**super().state(), "zeta": self._zeta}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        super().restore(state)
        self._zeta = state["zeta"]

    def _draw_nodes(self) -> None:
        self._zeta, self._weights = wrapped_normal.monte_carlo(
            self._shape, like=self.data, generator=self.generator
        )

    def _rows_zeta(self, rows: slice) -> Tensor:
        return self._zeta[rows] if self._zeta.ndim == 3 else self._zeta

    def _points(self, mean: Tensor, std: Tensor, rows: slice) -> Tensor:
        """Nodes [n, H, Q+1]."""
        zeta = self._rows_zeta(rows)
        return wrapped_normal.points(self.manifold, mean.unsqueeze(1), std.unsqueeze(1), zeta)

    def _nodes(self, parameters: Parameters, rows: slice) -> tuple[Tensor, Tensor]:
        std = parameters.logs["std"][rows].exp()
        nodes = self._points(parameters.latents[rows], std, rows)
        return nodes.flatten(0, 1), self._weights

    def _kl_rows(self, nodes: Tensor, std: Tensor, rows: slice) -> Tensor:
        if self.kl == "paper":
            return wrapped_normal.kl_of_the_paper(std, self.prior_scale)
        zeta = self._rows_zeta(rows)
        return wrapped_normal.kl_from_nodes(
            self.manifold, nodes, std, zeta, self._weights, self.prior_scale
        )

    def _rows_gradient(
        self, parameters: Parameters, rows: slice, nodes: Tensor, frame: Tensor
    ) -> tuple[dict[str, Tensor], float]:
        """Pass node gradients on to μ and log s; the KL divergence adds its own to the nodes."""
        mean, std = parameters.latents[rows], parameters.logs["std"][rows].exp()
        zeta = self._rows_zeta(rows)
        points = nodes.view(len(mean), -1, nodes.shape[-1])  # [n, H, Q+1]
        frame = frame.view(*points.shape[:2], -1)
        divergence = self._kl_rows(points, std, rows).sum().item()
        by_move, by_std = wrapped_normal.pull_back(
            self.manifold,
            mean,
            std,
            points,
            frame,
            zeta,
            self._weights,
            self.prior_scale,
            kl=self.kl,
        )
        if self._n_steps <= self.warmup:
            by_std = torch.zeros_like(by_std)
        return {"latents": by_move, "std": by_std}, divergence

    def _divergence(self, parameters: Parameters) -> float:
        total = 0.0
        for rows in self._blocks():
            std = parameters.logs["std"][rows].exp()
            nodes = self._points(parameters.latents[rows], std, rows)
            total += self._kl_rows(nodes, std, rows).sum().item()
        return total
