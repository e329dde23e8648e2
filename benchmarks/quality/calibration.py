"""Whether the model is as sure as it may be: how often intervals hold what is true.

Simulated data whose tree is known (`make_branching`, `make_cells`), the Bayesian and the
nearest-neighbour model. For each set and model, shares that 90% intervals hold:

- position: regions of the plane. The truth is the layout of the true tree distances in hyperbolic
  space that is next to the map: distances of the least stress, in the map's unit, found from the
  map, and moved onto it by the best isometry.
- time (line), time (order): distance from the root, the row of the least true time, against the
  true time, after the best straight line, and after the best increasing curve.
- along (line), along (order): the position along the skeleton that `tl.lineages` finds, against the
  true time of the rows, after the best straight line, and after the best increasing curve, for each
  lineage.
- trends: bands of the mean of a gene along a lineage, against the true mean at the true time of
  each position; of all genes, and of those that change along the tree.

And of the branch probabilities of rows: the expected calibration error (ECE), the mean difference
between probability and accuracy over ten bins of the largest probability, where found and true
branches are matched by their rows; accuracy; and their reliability over all sets.

    python benchmarks/quality/calibration.py --out DIR --seeds 600 601
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import linear_sum_assignment, minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import Bunch

from hgplvm import BayesianHGPLVM, VecchiaHGPLVM
from hgplvm._lineages import Places, Skeleton, find_skeleton, places, span
from hgplvm._trends import fit_trend, gather
from hgplvm.datasets import make_branching, make_cells
from hgplvm.manifolds import Hyperbolic
from hgplvm.objectives.positions import isometry_fields

MODELS = {"Bayesian": BayesianHGPLVM, "neighbours": VecchiaHGPLVM}
SCORES = (
    *("position", "time (line)", "time (order)", "along (line)", "along (order)"),
    *("trends", "changing", "ece", "right"),
)
COLUMNS = ("set", "rows", "seed", "model", *SCORES, "tree correlation")
SPACE = Hyperbolic()
CHI2_90 = 4.605  # two degrees of freedom
NORMAL_90 = 1.645
BINS = 10
# points along a lineage at which trends are judged
POINTS = 30


class Setting(NamedTuple):
    """One way to simulate."""

    name: str
    draw: Callable[[int, int], Bunch]
    counts: bool


def settings() -> list[Setting]:
    """Return all of them."""
    found = [
        Setting(
            f"branching, depth {depth}, noise {noise:g}",
            lambda n, seed, d=depth, s=noise: make_branching(
                n, 50, depth=d, noise=s, random_state=seed
            ),
            False,
        )
        for depth in (3, 4)
        for noise in (0.5, 1.0)
    ]
    for topology in ("linear", "bifurcation", "multifurcation", "binary"):
        for programmes in ("smooth", "brownian"):
            for depth, spread, genes in ((2000, 0.4, 500), (700, 0.7, 1000)):
                found.append(
                    Setting(
                        f"cells, {topology}, {programmes}, {depth}",
                        lambda n, seed, t=topology, p=programmes, d=depth, s=spread, g=genes: (
                            make_cells(
                                n,
                                g,
                                topology=t,
                                programmes=p,
                                depth=d,
                                depth_spread=s,
                                random_state=seed,
                            )
                        ),
                        True,
                    )
                )
    return found


# --- truth ----------------------------------------------------------------------------------


def layout(x: torch.Tensor, distance: np.ndarray) -> torch.Tensor:
    """Points of the least stress for given distances, found from x and moved onto it."""
    pairs = torch.triu_indices(len(x), len(x), 1)
    wanted = torch.from_numpy(distance)[pairs[0], pairs[1]]
    weights = 1.0 / wanted.clamp_min(0.1 * float(wanted.mean()))
    middle = SPACE.frechet_mean(x)
    start = SPACE.to_tangent(SPACE.recenter(x, middle))

    def stress(flat: np.ndarray) -> tuple[float, np.ndarray]:
        v = torch.tensor(flat.reshape(-1, 2), requires_grad=True)
        y = SPACE.from_tangent(v)
        c = y[:, :1] @ y[:, :1].T - y[:, 1:] @ y[:, 1:].T
        apart = torch.acosh(c[pairs[0], pairs[1]].clamp_min(1.0 + 1e-10))
        loss = (weights * (apart - wanted).square()).sum()
        (gradient,) = torch.autograd.grad(loss, v)
        return float(loss.detach()), gradient.numpy().ravel()

    found = minimize(
        stress, start.numpy().ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 120}
    )
    y = SPACE.from_tangent(torch.from_numpy(found.x.reshape(-1, 2)))
    return aligned(SPACE.uncenter(y, middle), x)


def aligned(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Move points by the isometry that brings them nearest to others, row by row."""
    middle = SPACE.frechet_mean(x)
    x = SPACE.recenter(x, middle)
    y = SPACE.recenter(y, SPACE.frechet_mean(y))
    u, _, vt = torch.linalg.svd(SPACE.to_tangent(y).T @ SPACE.to_tangent(x))
    y = SPACE.rotate(y, (u @ vt).T)
    for _ in range(50):
        fields = isometry_fields(SPACE, y).view(len(y), 2, -1)
        gap = SPACE.to_frame(y, SPACE.log_map(y, x))
        amount = torch.einsum("nqk,nq->k", fields, gap)
        # a small isometry is the displacement by its field, to first order; then it is made exact
        moved = SPACE.displaced(y, torch.einsum("nqk,k->nq", fields, amount))
        u, _, vt = torch.linalg.svd(
            SPACE.to_tangent(SPACE.recenter(y, SPACE.frechet_mean(y))).T
            @ SPACE.to_tangent(SPACE.recenter(moved, SPACE.frechet_mean(moved)))
        )
        turned = SPACE.rotate(SPACE.recenter(y, SPACE.frechet_mean(y)), (u @ vt).T)
        y = SPACE.uncenter(turned, SPACE.frechet_mean(moved))
        if float(amount.abs().max()) < 1e-6:
            break
    return SPACE.uncenter(y, middle)


def increasing(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Best increasing curve of y by x, at x."""
    return IsotonicRegression().fit(x, y).predict(x)


# --- scores ---------------------------------------------------------------------------------


def share(error: np.ndarray, std: np.ndarray) -> float:
    """How often 90% intervals hold."""
    return float(np.mean(np.abs(error) <= NORMAL_90 * std))


def matched(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Name found branches after the true ones with which they share the most rows."""
    table = np.zeros((found.max() + 1, true.max() + 1))
    np.add.at(table, (found, true), 1)
    rows, columns = linear_sum_assignment(-table)
    names = np.full(len(table), -1)
    names[rows] = columns
    return names


def way(parent: np.ndarray, branch: int) -> list[int]:
    """Branches from the root to the end of this one."""
    path = [branch]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path


def trend_shares(
    data: Bunch, model: Any, skeleton: Skeleton, found: Places, kept: np.ndarray, rows: np.ndarray
) -> tuple[float, float]:
    """Share of true means that bands hold, of all genes and of those that change."""
    engine, units = model._engine(), model._model.units
    truth = np.log(np.asarray(data.rates)[:, kept] + 1e-300)
    truth -= np.log(np.exp(truth).sum(1, keepdims=True))
    depth = np.log(np.median(rows.sum(1)))
    sizes = np.exp(units.log_sizes)
    dispersion = units.rates.likelihood.dispersion.numpy()
    tips = set(range(len(data.parent))) - set(data.parent.tolist())
    held, changing = [], data.informative[kept]
    for place, tip in enumerate(skeleton.tips):
        on = found.branch == tip
        if on.sum() < 10 or (true := int(np.bincount(data.branch[on]).argmax())) not in tips:
            continue
        weights = found.fates[:, place]
        weights = np.where(weights >= 0.2, weights, 0.0)
        times, points = span(skeleton, tip, POINTS)
        base = engine.base(engine.hidden(points))
        binned = gather(
            times,
            base,
            rows,
            found.position,
            weights,
            found.std,
            sizes=sizes,
            dispersion=dispersion,
        )
        trend = fit_trend(binned)
        # the true time of a position: that of the rows there, smoothed
        mine = np.flatnonzero(weights > 0.5)
        if len(mine) < 10:
            continue
        order = mine[np.argsort(found.position[mine])]
        smooth = gaussian_filter1d(data.pseudotime[order], 15)
        there = np.interp(times, found.position[order], smooth)
        cells = np.flatnonzero(np.isin(data.branch, way(data.parent, true)))
        cells = cells[np.argsort(data.pseudotime[cells])]
        near = np.searchsorted(data.pseudotime[cells], there).clip(max=len(cells) - 1)
        error = trend.mean - truth[cells[near]] - depth
        error -= np.median(error)
        good = binned.effective >= 5
        held.append((np.abs(error) <= NORMAL_90 * trend.std)[good])
    if not held:
        return np.nan, np.nan
    table = np.concatenate(held)
    return float(table.mean()), float(table[:, changing].mean())


def measured(job: tuple[int, int, int, str]) -> tuple[dict[str, Any], np.ndarray]:
    """Scores of one set and model, and its table of reliability."""
    torch.set_num_threads(1)
    number, n, seed, name = job
    setting = settings()[number]
    data = setting.draw(n, seed)
    time = data.pseudotime if setting.counts else data.time
    branch = data.branch if setting.counts else data.target
    kept = np.arange(data.data.shape[1])
    rows = data.data
    options: dict[str, Any] = {}
    if setting.counts:
        rows = data.counts.toarray().astype(float)
        kept = np.flatnonzero(rows.sum(0) > 20)
        rows = rows[:, kept]
        options["likelihood"] = "negative-binomial"
    model = MODELS[name](random_state=seed, **options).fit(rows)
    x = torch.from_numpy(model.lorentz_)
    covariance = torch.from_numpy(model.posterior_cov_)
    tree = np.asarray(data.tree_distance)
    pairs = np.triu_indices(len(x), 1)
    map_distance = model.distances()
    unit = (map_distance[pairs] @ tree[pairs]) / (tree[pairs] @ tree[pairs])
    scores: dict[str, Any] = {
        "tree correlation": float(np.corrcoef(map_distance[pairs], tree[pairs])[0, 1])
    }
    gap = SPACE.to_frame(x, SPACE.log_map(x, layout(x, unit * tree)))
    square = torch.einsum("nq,nqp,np->n", gap, torch.linalg.inv(covariance), gap)
    scores["position"] = float((square <= CHI2_90).double().mean())
    root = int(time.argmin())
    shown, std = model.pseudotime(root, return_std=True)
    scores["time (line)"] = share(shown - np.polyval(np.polyfit(time, shown, 1), time), std)
    scores["time (order)"] = share(shown - increasing(time, shown), std)
    fitted = model._model
    own = fitted.pose.covariances(fitted.latents, fitted.positions.own)
    skeleton = find_skeleton(x, x[root], own)
    found = places(x, skeleton, own, covariance)
    held: dict[str, list[np.ndarray]] = {"along (line)": [], "along (order)": []}
    for tip in skeleton.tips:
        mine = np.isin(found.branch, skeleton.way(tip))
        if mine.sum() > 10:
            t, p = time[mine], found.position[mine]
            fits = (np.polyval(np.polyfit(t, p, 1), t), increasing(t, p))
            for kind, fit in zip(held, fits, strict=True):
                held[kind].append(np.abs(p - fit) <= NORMAL_90 * found.std[mine])
    for kind, parts in held.items():
        scores[kind] = float(np.concatenate(parts).mean()) if parts else np.nan
    likeliest = found.shares.argmax(1)
    right = matched(likeliest, branch)[likeliest] == branch
    sure = found.shares.max(1)
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    table = np.zeros((BINS, 3))
    np.add.at(table, bins, np.stack([np.ones_like(sure), sure, right], axis=1))
    gaps = np.abs(table[:, 1] - table[:, 2])
    scores["ece"] = float(gaps.sum() / len(sure))
    scores["right"] = float(right.mean())
    scores["trends"] = scores["changing"] = np.nan
    if setting.counts:
        scores["trends"], scores["changing"] = trend_shares(
            data, model, skeleton, found, kept, rows
        )
    row = {"set": setting.name, "rows": n, "seed": seed, "model": name, **scores}
    return row, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for calibration.csv")
    parser.add_argument("--seeds", type=int, nargs="+", default=[600, 601])
    parser.add_argument("--rows", type=int, nargs="+", default=[500])
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    jobs = [
        (number, n, seed, name)
        for seed in given.seeds
        for n in given.rows
        for number in range(len(settings()))
        for name in MODELS
    ]
    results = []
    reliability = {name: np.zeros((BINS, 3)) for name in MODELS}
    with (
        (given.out / "calibration.csv").open("w", newline="") as file,
        ProcessPoolExecutor(given.processes) as pool,
    ):
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row, table in pool.map(measured, jobs):
            writer.writerow(row)
            file.flush()
            results.append(row)
            reliability[row["model"]] += table
            shown = "  ".join(f"{score} {row[score]:.2f}" for score in SCORES)
            print(f"{row['set']:<36} {row['rows']:>5} {row['model']:<11} {shown}", flush=True)
    print()
    print(f"{'mean (10th to 90th percentile)':<32}" + "".join(f"{score:>20}" for score in SCORES))
    for n in given.rows:
        for name in MODELS:
            mine = [r for r in results if r["model"] == name and r["rows"] == n]
            parts = []
            for score in SCORES:
                values = np.array([r[score] for r in mine])
                values = values[np.isfinite(values)]
                low, high = np.quantile(values, [0.1, 0.9])
                parts.append(f"{values.mean():.3f} ({low:.2f}-{high:.2f})")
            print(f"{name + f', {n} rows':<32}" + "".join(f"{part:>20}" for part in parts))
    print("\nreliability of branch probabilities: probability → accuracy (rows)")
    for name, table in reliability.items():
        known = table[:, 0] > 0
        parts = [f"{c / n:.2f} → {r / n:.2f} ({int(n)})" for n, c, r in table[known]]
        error = np.abs(table[:, 1] - table[:, 2]).sum() / max(table[:, 0].sum(), 1)
        print(f"{name:<12} {'  '.join(parts)}; ECE over all rows {error:.3f}")


if __name__ == "__main__":
    main()
