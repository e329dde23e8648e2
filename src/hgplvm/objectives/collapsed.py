"""The sparse and the Bayesian hGP-LVM: one objective, in chunks of rows.

Rows have nodes ``x_i^(h)`` with weights w_h: the sparse model has one, the latent itself; the
Bayesian model those of a quadrature over ``q(x_i)``. Then ``Ψ₁ = Σ_h w_h K^(h)`` and
``Ψ₂ = Σ_h w_h K^(h)K^(h)ᵀ``, and::

    ∂F/∂K^(h) = w_h (∂F/∂Ψ₁ + 2 ∂F/∂Ψ₂ K^(h))

Two passes over the rows: one sums the statistics, one turns the bound's derivatives into gradients
of rows. Nothing of size N×M, let alone N×N, is held: what the first pass could keep for the second
costs as much in fresh memory as to compute it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hgplvm.geometry import Manifold, wrapped_normal
from hgplvm.kernels import Kernel, cusp_division
from hgplvm.objectives.bound import Bound, Statistics, collapsed_bound
from hgplvm.objectives.features import jittered
from hgplvm.objectives.parameters import Evaluation, Parameters
from hgplvm.objectives.responses import Imputation, Responses

__all__ = ["BayesianObjective", "CollapsedObjective", "SparseObjective"]

# rows whose [rows, M] arrays fit a core's cache; larger chunks are slower on a CPU
CACHED_ENTRIES = 2**17
GPU_ENTRIES = 2**26
BLOCK_ROWS = 2**14


@dataclass(frozen=True)
class _Pairs:
    """Kernel between the nodes of a chunk of rows and the inducing points: [n·H, M] each."""

    squared: Tensor  # squared chords
    ratio: Tensor  # d/κ
    value: Tensor  # σ g(d/κ)


class CollapsedObjective(ABC):
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
        manifold: Manifold,
        kernel: Kernel,
        *,
        n_inducing: int,
        inducing_update: int,
        generator: torch.Generator,
        chunk_size: int | None = None,
        noise_floor: float = 0.0,
        imputation: Imputation | None = None,
    ) -> None:
        self.manifold = manifold
        self.kernel = kernel
        self.noise_floor = noise_floor
        self.responses = Responses(data, imputation)
        self.n_rows, self.n_columns = data.shape
        self.n_entries = self.responses.n_entries
        self.n_inducing = n_inducing
        self.inducing_update = inducing_update
        self.generator = generator
        self.chunk_size = chunk_size
        self.inducing = data.new_empty(0)
        self._n_steps = 0

    @property
    def data(self) -> Tensor:
        """Centred data [N, D], filled and rotated."""
        return self.responses.data

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

    def noise_variance(self, parameters: Parameters) -> float:
        """``β⁻¹``."""
        return self.noise_floor + parameters.positive("noise")

    def value(self, parameters: Parameters) -> float:
        """Bound alone: one pass."""
        gram = self._inducing_pairs(parameters).value
        bound = collapsed_bound(
            jittered(gram, parameters.positive("variance")),
            self.statistics(parameters, self.data),
            1.0 / self.noise_variance(parameters),
        )
        return bound.value + self.responses.entropy - self._divergence(parameters)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Bound and gradient: two passes."""
        if self.inducing.numel() == 0:
            self.draw(parameters)
        inducing = self._inducing_pairs(parameters)
        gram = jittered(inducing.value, parameters.positive("variance"))
        beta = 1.0 / self.noise_variance(parameters)
        bound = collapsed_bound(gram, self.statistics(parameters, self.data), beta)

        length_scale, variance = (parameters.positive(k) for k in ("length_scale", "variance"))
        # σ moves K_mm, every K^(h), and ψ₀; κ all but the last
        by_variance = (bound.gram * gram).sum() + bound.psi0 * self.n_rows * variance
        slope = variance * self.kernel.slope(inducing.ratio, inducing.value / variance)
        by_length_scale = -(bound.gram * slope * inducing.ratio).sum()
        divergence = 0.0
        rows_gradient: dict[str, list[Tensor]] = {}
        for block in self._blocks():
            nodes, weights = self._nodes(parameters, block)
            frames = []
            for rows, chunk in self._chunks(block, nodes, len(weights)):
                pairs = self._pairs(chunk, parameters)
                pull, through_value = self._pull(bound, pairs, rows, weights)
                by_variance = by_variance + through_value
                slope = variance * self.kernel.slope(pairs.ratio, pairs.value / variance)
                pull = pull.mul_(slope)  # κ ∂F/∂d
                if "length_scale" in parameters.free:
                    by_length_scale = by_length_scale - (pull * pairs.ratio).sum()
                directions = cusp_division(
                    pull.mul_(-1.0 / length_scale), self.manifold.sinh_from_chord(pairs.squared)
                )
                frames.append(
                    self.manifold.direction_sums(chunk, self.inducing, directions, pairs.squared)
                )
            part, block_divergence = self._rows_gradient(
                parameters, block, nodes, torch.cat(frames)
            )
            divergence += block_divergence
            for name, value in part.items():
                rows_gradient.setdefault(name, []).append(value)

        gradients = {name: torch.cat(parts) for name, parts in rows_gradient.items()}
        gradients["variance"] = by_variance
        gradients["length_scale"] = by_length_scale
        # ∂β/∂log(noise) = -β² noise
        gradients["noise"] = self.data.new_tensor(
            -bound.beta * beta**2 * parameters.positive("noise")
        )
        flat = [gradients["latents"], *(gradients[name] for name in parameters.free)]
        total = bound.value + self.responses.entropy - divergence
        return Evaluation(total, torch.cat([g.reshape(-1) for g in flat]))

    # --- the two passes -------------------------------------------------------------------

    def statistics(self, parameters: Parameters, data: Tensor) -> Statistics:
        """First pass: sums over the rows, of data that may be those before their rotation."""
        m, unseen = self.inducing.shape[0], self.responses.unseen
        psi2 = data.new_zeros(m, m)
        projection = data.new_zeros(m, data.shape[1])
        spread = None if unseen is None else torch.zeros_like(psi2)
        for block in self._blocks():
            nodes, weights = self._nodes(parameters, block)
            for rows, chunk in self._chunks(block, nodes, len(weights)):
                value = self._pairs(chunk, parameters).value  # [n·H, M], a row's nodes together
                weighted, psi1 = value, value
                if len(weights) > 1:
                    weighted = (value.view(-1, len(weights), m) * weights[:, None]).view(-1, m)
                    psi1 = weighted.view(-1, len(weights), m).sum(1)
                psi2.addmm_(weighted.mT, value)
                projection.addmm_(psi1.mT, data[rows])
                if unseen is not None and spread is not None:
                    spread.addmm_((psi1 * unseen[rows, None]).mT, psi1)
        variance = parameters.positive("variance")
        psi0 = self.n_rows * variance
        return Statistics(
            self.n_rows, self.n_columns, psi0, psi2, projection, self.responses.squares, spread
        )

    def _pull(
        self, bound: Bound, pairs: _Pairs, rows: slice, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``∂F/∂K^(h)`` for a chunk [n·H, M], and ``Σ ∂F/∂K^(h) ∘ K^(h)``."""
        through_psi1 = self.data[rows] @ bound.weights.mT  # βYEᵀ, [n, M]
        if bound.unseen is not None and self.responses.unseen is not None:
            psi1 = pairs.value.view(-1, len(weights), pairs.value.shape[1])
            psi1 = (psi1 * weights[:, None]).sum(1)
            through_psi1 += self.responses.unseen[rows, None] * (psi1 @ bound.unseen)
        pull = pairs.value @ bound.psi2  # [n·H, M]
        if len(weights) == 1:
            pull.mul_(2.0).add_(through_psi1)
        else:
            shape = (-1, len(weights), pull.shape[1])
            view = pull.view(shape).mul_(2.0).add_(through_psi1[:, None, :])
            view.mul_(weights[:, None])
        return pull, torch.dot(pull.view(-1), pairs.value.view(-1))

    def _pairs(self, nodes: Tensor, parameters: Parameters) -> _Pairs:
        manifold = self.manifold
        squared = manifold.pair_squared_chord(
            manifold.pair_features(nodes), manifold.pair_features(self.inducing)
        )
        ratio = manifold.distance_from_chord(squared).div_(parameters.positive("length_scale"))
        value = self.kernel.profile(ratio).mul_(parameters.positive("variance"))
        return _Pairs(squared, ratio, value)

    def _inducing_pairs(self, parameters: Parameters) -> _Pairs:
        if self.inducing.numel() == 0:
            self.draw(parameters)
        return self._pairs(self.inducing, parameters)

    def _blocks(self) -> Iterator[slice]:
        """Rows whose nodes are placed together: arrays of size [rows, H, Q+1]."""
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
        Monte Carlo nodes a row.
    prior_scale : float
        Scale of the prior.
    kl : {"exact", "paper"}
        The divergence, or the paper's, which ignores the mean.
    warmup : int
        Steps in which the deviations stay as they are.
    """

    def __init__(
        self,
        data: Tensor,
        manifold: Manifold,
        kernel: Kernel,
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
        noise_floor: float = 0.0,
        imputation: Imputation | None = None,
    ) -> None:
        super().__init__(
            data,
            manifold,
            kernel,
            n_inducing=n_inducing,
            inducing_update=inducing_update,
            generator=generator,
            chunk_size=chunk_size,
            noise_floor=noise_floor,
            imputation=imputation,
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

    def _placed(self, mean: Tensor, std: Tensor, rows: slice) -> Tensor:
        """Nodes [n, H, Q+1]."""
        zeta = self._rows_zeta(rows)
        return wrapped_normal.place(self.manifold, mean.unsqueeze(1), std.unsqueeze(1), zeta)

    def _nodes(self, parameters: Parameters, rows: slice) -> tuple[Tensor, Tensor]:
        std = parameters.logs["std"][rows].exp()
        nodes = self._placed(parameters.latents[rows], std, rows)
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
        placed = nodes.view(len(mean), -1, nodes.shape[-1])  # [n, H, Q+1]
        frame = frame.view(*placed.shape[:2], -1)
        divergence = self._kl_rows(placed, std, rows).sum().item()
        by_move, by_std = wrapped_normal.pull_back(
            self.manifold,
            mean,
            std,
            placed,
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
            nodes = self._placed(parameters.latents[rows], std, rows)
            total += self._kl_rows(nodes, std, rows).sum().item()
        return total
