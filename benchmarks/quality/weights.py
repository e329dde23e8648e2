"""How much the weights of whole cells lose against the weights of each count.

A fit to counts takes those of a cell for one observation of its scores, whose noise is the same in
all directions. Here the latents, parameters and rates of such a fit are held, and the posterior of
the scores is found anew with a full precision matrix ``Σ_g w_ng Λ_g Λ_gᵀ`` for each cell: the best
normal approximation, in a joint system of N·r unknowns.

Bound: difference of the bounds on the log probability, in nats a cell (the full one is never lower,
up to rounding). Mean: root mean square difference of the posterior means, in posterior standard
deviations. Spread: ratio of the posterior standard deviations of log rates, its 5% and 95%
quantiles. Rates: median relative difference of decoded rates.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from torch import Tensor

from hgplvm import HGPLVM
from hgplvm._counts import CountRows, RateModel
from hgplvm.datasets import make_cells

DEPTHS = (200, 700, 3000)
ROUNDS, STEP = 60, 0.5


class FullPosterior:
    """The best normal approximation of the scores' posterior, given the prior ``K ⊗ I``."""

    def __init__(self, gram: Tensor, rates: RateModel, rows: CountRows) -> None:
        self.rates, self.rows = rates, rows
        n, r = len(rows), rates.rank
        eye = torch.eye(r, dtype=gram.dtype)
        self.prior = torch.kron(gram.contiguous(), eye)
        self.inverse_prior = torch.kron(torch.linalg.inv(gram).contiguous(), eye)
        self.precision = eye.repeat(n, 1, 1)  # of each cell's observation
        self.shift = torch.zeros(n, r, dtype=gram.dtype)
        outer = rates.loadings[:, :, None] * rates.loadings[:, None, :]
        for _ in range(ROUNDS):
            _, g, w = self._expected()
            precision = torch.einsum("ng,gij->nij", w, outer) + 1e-9 * eye
            shift = (precision @ self.mean[:, :, None]).squeeze(2) + g @ rates.loadings
            self.precision = (1 - STEP) * self.precision + STEP * precision
            self.shift = (1 - STEP) * self.shift + STEP * shift

    def _expected(self) -> tuple[Tensor, Tensor, Tensor]:
        n, r = self.shift.shape
        whole = self.inverse_prior + torch.block_diag(*self.precision)
        covariance = torch.linalg.inv(whole)
        self.mean = (covariance @ self.shift.reshape(-1)).view(n, r)
        blocks = covariance.view(n, r, n, r)
        self.covariance = torch.stack([blocks[i, :, i] for i in range(n)])
        loadings = self.rates.loadings
        self.spread = torch.einsum("gi,nij,gj->ng", loadings, self.covariance, loadings)
        eta = self.rates.log_rates(self.rows, slice(None), self.mean)
        y = torch.from_numpy(np.asarray(self.rows.counts.todense(), dtype=float))
        return self.rates.likelihood.expected(y, eta, self.spread)

    def bound(self) -> float:
        """Lower bound of the log probability of the counts."""
        value, _, _ = self._expected()
        n, r = self.shift.shape
        noise = torch.linalg.inv(self.precision)
        scores = (noise @ self.shift[:, :, None]).squeeze(2)
        marginal = torch.distributions.MultivariateNormal(
            torch.zeros(n * r, dtype=scores.dtype), self.prior + torch.block_diag(*noise)
        )
        apart = scores - self.mean
        misfit = torch.einsum("ni,nij,nj->n", apart, self.precision, apart)
        misfit = misfit + (self.precision * self.covariance).sum((1, 2))
        normal = -0.5 * (r * math.log(2 * math.pi) + noise.logdet() + misfit)
        found = marginal.log_prob(scores.reshape(-1)) + value.sum() - normal.sum()
        return float(found) + self.rates.constant(self.rows.counts)


def compare(depth: float, likelihood: str, n_cells: int, seed: int) -> tuple[float, ...]:
    from hgplvm.covariance import CovarianceFunction
    from hgplvm.noise import KnownRowNoise
    from hgplvm.objectives import ExactObjective, Parameters
    from hgplvm.objectives.counts import CountObjective

    cells = make_cells(n_cells, 300, topology="binary", depth=depth, random_state=seed)
    counts = cells.counts[:, np.asarray(cells.counts.sum(0)).ravel() > 0]
    model = HGPLVM(likelihood=likelihood, random_state=seed).fit(counts)
    fitted = model._model
    rates, log_sizes = fitted.units.rates, torch.from_numpy(fitted.units.log_sizes)
    rows = CountRows(counts, log_sizes)
    values = fitted.covariance.values
    logs = {k: torch.tensor(math.log(v), dtype=torch.float64) for k, v in values.items()}
    parameters = Parameters(fitted.latents, logs, tuple(logs))
    function = CovarianceFunction(fitted.manifold, fitted.covariance.kernel)
    noise = KnownRowNoise(fitted.predictions.row_noise)
    objective = CountObjective(
        ExactObjective(fitted.predictions.data, function, noise), rates, rows
    )
    for _ in range(ROUNDS):
        objective.renew(parameters)
        objective.rates = rates
    whole_cells = objective.value(parameters)
    mean, variance = objective.inner.marginals(parameters)

    gram = fitted.covariance.gram(fitted.latents, fitted.latents)
    gram.diagonal().add_(1e-8 * fitted.covariance.variance)
    full = FullPosterior(gram, rates, rows)
    lost = (full.bound() - whole_cells) / n_cells
    apart = (mean - full.mean) @ rates.loadings.mT
    in_deviations = float((apart.square() / full.spread).mean().sqrt())
    ratio = (variance[:, None] * rates.squares / full.spread).sqrt().numpy()
    return lost, in_deviations, *np.quantile(ratio, [0.05, 0.95]), float(apart.abs().median())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[80, 81])
    parser.add_argument("--likelihoods", nargs="+", default=["poisson", "negative-binomial"])
    options = parser.parse_args()
    heads = ("bound", "mean", "spread 5%", "95%", "rates")
    print(f"{'depth':<8}{'likelihood':<20}" + "".join(f"{head:>12}" for head in heads))
    for depth in DEPTHS:
        for likelihood in options.likelihoods:
            found = np.mean(
                [compare(depth, likelihood, options.cells, s) for s in options.seeds], 0
            )
            print(f"{depth:<8}{likelihood:<20}" + "".join(f"{x:>12.4f}" for x in found), flush=True)


if __name__ == "__main__":
    main()
