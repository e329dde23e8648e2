"""The figures: samples from the prior, embeddings, length scales, the panels of each data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from hgplvm import pl
from hgplvm._linalg import cholesky
from hgplvm._reproduce import drawing, paper
from hgplvm._reproduce.parts import Context, Part, Scale, cell, highest, tasks_of
from hgplvm._reproduce.report import Claim, Picture, Section, Table
from hgplvm._reproduce.runs import Task
from hgplvm._reproduce.systems import SYSTEMS, by_components
from hgplvm._typing import Array
from hgplvm.covariance import CovarianceFunction
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic

__all__ = ["LENGTH_SCALES", "MYELOID", "PAUL", "PRIOR", "SPIRAL", "TREES"]


# --- samples from the prior -----------------------------------------------------------------

# points on a square grid over the disk, and samples of the process
PRIOR_GRID, PRIOR_SAMPLES = 71, 3
# the disk is drawn up to this norm; beyond, neighbouring points of a grid are far apart
PRIOR_EDGE = 0.995


def prior_samples(n_samples: int = PRIOR_SAMPLES, seed: int = 0) -> tuple[Array, dict[str, Array]]:
    """Points of the disk [n, 2] and, for each geometry, samples of the process on them [s, n].

    The hyperboloid kernel takes them as points of the Poincaré disk, the Euclidean one as points of
    the plane, with κ = 1, the radius of the disk: at the same κ its samples would hardly vary.
    """
    line = np.linspace(-1.0, 1.0, PRIOR_GRID)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    grid = grid[np.linalg.norm(grid, axis=1) < PRIOR_EDGE]
    points = torch.from_numpy(grid)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(grid), n_samples, generator=generator, dtype=torch.float64)
    found = {}
    for name, manifold, kappa in (
        ("hyperboloid", Hyperbolic(), paper.PRIOR_KAPPA),
        ("Euclidean", Flat(), 1.0),
    ):
        x = manifold.from_chart(points)
        covariance = CovarianceFunction(manifold, Exponential())
        gram = covariance.at({"variance": 1.0, "length_scale": kappa}).gram(x, x)
        found[name] = (cholesky(gram) @ noise).T.numpy()
    return grid, found


def _prior(context: Context) -> Section:
    grid, samples = prior_samples()
    figure = Figure(figsize=(3.0 * PRIOR_SAMPLES, 6.2), layout="constrained")
    axes = figure.subplots(2, PRIOR_SAMPLES, squeeze=False)
    claims = []
    for row, (name, values) in zip(axes, samples.items(), strict=True):
        for ax, value in zip(row, values, strict=True):
            _draw_function(ax, grid, value)
        kappa = paper.PRIOR_KAPPA if name == "hyperboloid" else 1.0
        row[0].set_title(f"{name} exponential kernel, κ = {kappa:g}", fontsize=10, loc="left")
        claims.append(_roughness(grid, values))
    drawing.save(figure, context.folder, "prior")
    (inner, outer), (flat_inner, flat_outer) = claims
    text = "The prior of the hyperboloid kernel varies more around the rim than around the origin"
    measured = (
        f"mean squared step to the next grid point, rim over centre: {outer / inner:.1f} "
        f"(Euclidean kernel: {flat_outer / flat_inner:.1f})"
    )
    return Section(
        "Figure: samples from the prior",
        "Functions on the disk drawn from the two kernels, with the same random numbers.",
        claims=(Claim(text, measured, outer / inner > 2.0 * flat_outer / flat_inner),),
        pictures=(
            Picture(
                "prior",
                "Samples of the Gaussian process: hyperboloid kernel on the Poincaré disk (above), "
                "Euclidean kernel on the same points of the plane (below).",
            ),
        ),
    )


def _draw_function(ax: Axes, grid: Array, value: Array) -> None:
    """Draw a function on the disk, given on a square grid."""
    pl.poincare(grid, ax=ax, size=0.0, zoom=1, grid=False)
    line = np.linspace(-1.0, 1.0, PRIOR_GRID)
    image = np.full((PRIOR_GRID, PRIOR_GRID), np.nan)
    column, row = np.searchsorted(line, grid - 1e-9).T
    image[row, column] = value
    half = line[1] - line[0]
    reach = 1.0 + half / 2
    shown = ax.imshow(
        image, origin="lower", extent=(-reach, reach, -reach, reach), cmap="cividis", zorder=1
    )
    shown.set_clip_path(Circle((0.0, 0.0), 1.0, transform=ax.transData))
    ax.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03))


def _roughness(grid: Array, values: Array) -> tuple[float, float]:
    """Mean squared difference of neighbours in a row of the grid, near the centre and the rim."""
    step = np.linalg.norm(np.diff(grid, axis=0), axis=1)
    near = step < 1.5 * step.min()
    middle = np.linalg.norm((grid[1:] + grid[:-1]) / 2, axis=1)
    squared = (np.diff(values, axis=1) ** 2).mean(0)
    inner, outer = near & (middle < 0.3), near & (middle > 0.8)
    return float(squared[inner].mean()), float(squared[outer].mean())


# --- embeddings of the deepest tree ---------------------------------------------------------

TREE_SYSTEMS = ("hGP-LVM", "GP-LVM", "IsoHVAE", "RotHVAE", "HGPLVM, defaults")


def _tree_tasks(scale: Scale) -> Iterator[Task]:
    return tasks_of(scale, TREE_SYSTEMS, f"SBT-{max(scale.depths)}", 1)


def _trees(context: Context) -> Section:
    data = f"SBT-{max(context.scale.depths)}"
    labels = context.source.load(data).labels
    colors = drawing.colors_of(data, labels)
    figure = Figure(figsize=(3.0 * len(TREE_SYSTEMS), 3.7), layout="constrained")
    for ax, system in zip(figure.subplots(1, len(TREE_SYSTEMS)), TREE_SYSTEMS, strict=True):
        drawing.panel(ax, context.results.points(system, data), labels, colors, system)
    drawing.legend_of(figure, colors, "depth", loc="outside lower center", ncols=len(colors))
    drawing.save(figure, context.folder, "trees")
    caption = f"Embeddings of {data}, coloured by depth; disks are hyperbolic, squares are flat."
    return Section("Figure: embeddings of the tree", pictures=(Picture("trees", caption),))


# --- length scales --------------------------------------------------------------------------


def _scale_data(scale: Scale) -> tuple[str, ...]:
    return ("Spiral", "Myeloid", f"SBT-{max(scale.depths)}")


def _scale_tasks(scale: Scale) -> Iterator[Task]:
    for data in _scale_data(scale):
        for kappa in paper.KAPPAS:
            yield from tasks_of(scale, ("hGP-LVM",), data, 1, length_scale=kappa)


def _length_scales(context: Context) -> Section:
    sets = [data for data in _scale_data(context.scale) if context.rows(data) is not None]
    width = len(paper.KAPPAS)
    figure = Figure(figsize=(3.2 * width, 3.4 * len(sets)), layout="constrained")
    rows, grows, known = [], True, len(sets) == len(_scale_data(context.scale))
    for line, data in zip(figure.subplots(len(sets), width, squeeze=False), sets, strict=True):
        labels = context.source.load(data).labels
        colors = drawing.colors_of(data, labels)
        radii: list[float] = []
        for ax, kappa in zip(line, paper.KAPPAS, strict=True):
            found = context.results.points("hGP-LVM", data, length_scale=kappa)
            drawing.zoomed(ax, found, labels, colors, f"{data}, κ = {kappa:g}")
            radii.append(float("nan") if found is None else found.scores["radius"])
        known &= not np.isnan(radii).any()
        grows &= bool(np.all(np.diff(radii) > 0))
        rows.append((data, *("-" if np.isnan(radius) else f"{radius:.2f}" for radius in radii)))
    drawing.save(figure, context.folder, "length-scales")
    header = ("data", *(f"κ = {kappa:g}" for kappa in paper.KAPPAS))
    caption = "Hyperbolic distance of the furthest point from the origin."
    text = "The representation spreads as κ grows, on all three data sets"
    return Section(
        "Figure: length scales",
        tables=(Table(header, tuple(rows), caption),),
        claims=(Claim(text, "see the table", grows if known else None),),
        pictures=(
            Picture(
                "length-scales",
                "hGP-LVM in paper mode with κ = 10, 30, 100: zoomed to the points, the whole disk "
                "in the corner.",
            ),
        ),
    )


# --- Paul's cells ---------------------------------------------------------------------------

PAUL_PICTURES = (
    *("UMAP", "PoincaréMaps", "Sparse hGP-LVM", "Bayesian hGP-LVM"),
    *("SparseHGPLVM, defaults", "BayesianHGPLVM, defaults", "VecchiaHGPLVM, defaults"),
)
PAUL_SYSTEMS = (*PAUL_PICTURES, "PCA", "PHATE", "TriMap", "PaCMAP")
# the same, with openTSNE, and each peer's row on principal components below that on all genes
PAUL_ROWS = tuple(
    row
    for name in (*PAUL_SYSTEMS, "openTSNE")
    for row in (name, by_components(name))
    if row in SYSTEMS
)
# its authors take distances between measured cells in so many principal components
MAPS_COMPONENTS = 20
# the tree of blood cells as the paper tells it: who comes from whom
LINEAGES = {
    "CMP": "stem cell",
    "CLP": "stem cell",
    "MEP": "CMP",
    "GMP": "CMP",
    **dict.fromkeys(("Ery", "Mk"), "MEP"),
    **dict.fromkeys(("Baso", "Mo", "Neu", "Eos"), "GMP"),
    **dict.fromkeys(("DC", "Lymph"), "CLP"),
}


def _paul_tasks(scale: Scale) -> Iterator[Task]:
    for system in PAUL_ROWS:
        yield from tasks_of(scale, (system,), "Paul", scale.paul_runs, **_paul_options(system))


def _paul_options(system: str) -> dict[str, Any]:
    if system == "PoincaréMaps":
        return {"n_pca": MAPS_COMPONENTS}
    inducing = system in ("Sparse hGP-LVM", "Bayesian hGP-LVM")
    return {"n_inducing": paper.INDUCING["Paul"]} if inducing else {}


def _paul(context: Context) -> Section:
    title = "Figure: mouse myeloid progenitors (Paul et al. 2015)"
    cells = context.rows("Paul")
    if cells is None:
        return Section(title, _why_no_data(context, "Paul"))
    colors = drawing.colors_of("Paul", cells.labels)
    pictures = [_paul_embeddings(context, cells.labels, colors), _paul_scatter(context)]
    rows, numbers = [], []
    for system in PAUL_ROWS:
        options = _paul_options(system)
        scores = {
            name: context.results.scores(system, "Paul", name, **options)
            for name in ("shepard_goodness", "shepard_goodness_hyperbolic", "knn_accuracy")
        }
        status = context.results.status(system, "Paul", **options)
        first = cell(scores["shepard_goodness"]) if not status else status.split(":")[0]
        rows.append(
            (
                system,
                first,
                cell(scores["shepard_goodness_hyperbolic"]),
                cell(scores["knn_accuracy"]),
                _seconds(context, system, "Paul", **options),
            )
        )
        numbers.append(_numbers(system, "Paul", scores, status))
    header = ("system", "Shepard goodness", "the same, hyperbolic", "5-NN accuracy", "seconds")
    return Section(
        title,
        "Shepard goodness against all genes, and leave-one-out accuracy on the 19 clusters. The "
        "paper shows this comparison in a picture and prints no numbers. Other packages get all "
        "genes, and once more 50 principal components, as their users do.",
        (Table(header, tuple(rows), "Mean ± standard deviation over runs; one thread a run."),),
        tuple(_paul_claims(context)),
        tuple(pictures),
        tuple(numbers),
    )


def _paul_embeddings(context: Context, labels: Array, colors: dict[Any, Any]) -> Picture:
    figure = Figure(figsize=(15.0, 7.4), layout="constrained")
    axes = figure.subplots(2, 4).ravel()
    _lineage_tree(axes[0], colors)
    for ax, system in zip(axes[1:], PAUL_PICTURES, strict=True):
        found = context.results.points(system, "Paul", **_paul_options(system))
        drawing.zoomed(ax, found, labels, colors, system)
    drawing.legend_of(figure, colors, "cluster", loc="outside right center")
    drawing.save(figure, context.folder, "paul-embeddings")
    return Picture(
        "paul-embeddings",
        "The lineage tree, and embeddings by cluster: a family of colours for each lineage.",
    )


def _lineage_tree(ax: Any, colors: dict[Any, Any]) -> None:
    """Draw the canonical tree, its leaves in the colour of their most mature cluster."""
    leaves = ["Ery", "Mk", "Baso", "Mo", "Neu", "Eos", "DC", "Lymph"]
    place = {leaf: (3.0, float(-i)) for i, leaf in enumerate(leaves)}
    for depth, names in ((2.0, ("MEP", "GMP")), (1.0, ("CMP", "CLP")), (0.0, ("stem cell",))):
        for name in names:
            below = [place[child][1] for child, parent in LINEAGES.items() if parent == name]
            place[name] = (depth, float(np.mean(below)))
    for child, parent in LINEAGES.items():
        (x0, y0), (x1, y1) = place[parent], place[child]
        ax.plot([x0, (x0 + x1) / 2, (x0 + x1) / 2, x1], [y0, y0, y1, y1], color="#999999", lw=1)
    # the clusters of a lineage are listed from progenitors to mature cells
    dark = {str(cluster).lstrip("0123456789"): colour for cluster, colour in colors.items()}
    for name, (x, y) in place.items():
        style = {"facecolor": "white", "edgecolor": dark.get(name, "#999999"), "linewidth": 2}
        box = style | {"boxstyle": "round,pad=0.25"}
        ax.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box)
    ax.set(xlim=(-0.6, 3.5), ylim=(-7.7, 0.7))
    ax.set_axis_off()
    ax.set_title("the canonical lineage tree", fontsize=10)


def _paul_scatter(context: Context) -> Picture:
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    ax = figure.subplots()
    places: dict[str, tuple[float, float]] = {}
    for system in PAUL_ROWS:
        options = _paul_options(system)
        x = context.results.scores(system, "Paul", "shepard_goodness", **options)
        y = context.results.scores(system, "Paul", "knn_accuracy", **options)
        if not len(x):
            continue
        ours = "defaults" in system
        colour = "#D55E00" if ours else "#0072B2" if "hGP-LVM" in system else "#555555"
        marker = "o" if ours else "s" if "hGP-LVM" in system else "^"
        ax.errorbar(
            *(x.mean(), y.mean()), xerr=x.std(), yerr=y.std(), fmt=marker, color=colour, capsize=3
        )
        places[system] = (float(x.mean()), float(y.mean()))
    ax.set(xlabel="Shepard goodness (global)", ylabel="5-NN accuracy (local)")
    ax.grid(color="#d9d9d9", linewidth=0.5)
    ax.margins(x=0.1, y=0.1)
    low, high = ax.get_xlim()
    ax.set_xlim(low, high + 0.25 * (high - low))  # names stand to the right of their points
    drawing.annotate(ax, places)
    drawing.save(figure, context.folder, "paul-scores")
    caption = "Global and local quality, mean and deviation over runs: up and right is better."
    return Picture("paul-scores", caption)


def _paul_claims(context: Context) -> Iterator[Claim]:
    def mean(system: str, score: str) -> float:
        found = context.results.scores(system, "Paul", score, **_paul_options(system))
        return float(found.mean()) if len(found) else float("nan")

    models = ("Sparse hGP-LVM", "Bayesian hGP-LVM")
    peers = [system for system in PAUL_SYSTEMS if "GPLVM" not in system and system not in models]
    for score, name in (("shepard_goodness", "Shepard goodness"), ("knn_accuracy", "5-NN")):
        values = np.array([mean(system, score) for system in peers])
        own = np.array([mean(system, score) for system in models])
        known = np.isfinite(own).all() and np.isfinite(values).all()
        middle = float(np.median(values))
        yield Claim(
            f"Both hGP-LVMs have relatively high {name} (read as: above the middle of the others)",
            f"sparse {own[0]:.3f}, Bayesian {own[1]:.3f}, middle of the others {middle:.3f}",
            bool((own > middle).all()) if known else None,
        )


# --- Spiral and myeloid progenitors ---------------------------------------------------------

# as in the paper's figures, then ours
SMALL_SYSTEMS = (
    *("hGP-LVM", "Sparse hGP-LVM", "Bayesian hGP-LVM", "GP-LVM", "UMAP", "PoincaréMaps"),
    *("HGPLVM, defaults", "SparseHGPLVM, defaults", "BayesianHGPLVM, defaults"),
    "VecchiaHGPLVM, defaults",
)
SMALL_PICTURES = ("hGP-LVM", "UMAP", "PoincaréMaps", "HGPLVM, defaults")
SWEEP = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# inducing points at which data are reconstructed
INDUCING_SWEEP = (10, 20, 30, 50)
DECODERS = ("Sparse hGP-LVM", "Sparse GP-LVM", "SparseHGPLVM, defaults", "SparseGPLVM, defaults")
LOCAL_AND_GLOBAL = {
    "trustworthiness": "trustworthiness (k = 3)",
    "continuity": "continuity (k = 3)",
    "shepard_goodness": "Shepard goodness",
}


def _small_options(system: str, data: str) -> dict[str, Any]:
    inducing = system in ("Sparse hGP-LVM", "Bayesian hGP-LVM")
    return {"n_inducing": paper.INDUCING[data]} if inducing else {}


def _small_tasks(scale: Scale, data: str) -> Iterator[Task]:
    for system in SMALL_SYSTEMS:
        yield from tasks_of(scale, (system,), data, scale.runs, **_small_options(system, data))
    for kappa in SWEEP:
        yield from tasks_of(scale, ("hGP-LVM",), data, scale.sweep_runs, length_scale=kappa)
    for count in INDUCING_SWEEP:
        yield from tasks_of(scale, DECODERS, data, scale.sweep_runs, n_inducing=count, decode=True)


def _small(context: Context, data: str, title: str) -> Section:
    cells = context.rows(data)
    if cells is None:
        return Section(title, _why_no_data(context, data))
    colors = drawing.colors_of(data, cells.labels)
    rows, numbers = [], []
    for system in SMALL_SYSTEMS:
        options = _small_options(system, data)
        scores = {
            name: context.results.scores(system, data, name, **options)
            for name in (*LOCAL_AND_GLOBAL, "shepard_goodness_hyperbolic", "knn_accuracy")
        }
        status = context.results.status(system, data, **options)
        digits = dict.fromkeys(("trustworthiness", "continuity"), 4)
        shown = [cell(values, digits.get(name, 3)) for name, values in scores.items()]
        if status:
            shown[0] = status.split(":")[0]
        rows.append((system, *shown, _seconds(context, system, data, **options)))
        numbers.append(_numbers(system, data, scores, status))
    names = ("system", "trustworthiness", "continuity", "Shepard goodness")
    header = (*names, "the same, hyperbolic", "5-NN accuracy", "seconds")
    stem = data.lower()
    return Section(
        title,
        "Metrics on coordinates as they are drawn, as in the paper, which shows them in a picture "
        "and prints no numbers.",
        (Table(header, tuple(rows), "Mean ± standard deviation over runs; one thread a run."),),
        tuple(_small_claims(context, data)),
        (
            _small_scores(context, data, stem),
            _small_embeddings(context, data, stem, cells.data, cells.labels, colors),
            _small_sweeps(context, data, stem),
        ),
        tuple(numbers),
    )


def _small_scores(context: Context, data: str, stem: str) -> Picture:
    figure = Figure(figsize=(12.0, 3.8), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (name, title) in zip(axes, LOCAL_AND_GLOBAL.items(), strict=True):
        values = [
            context.results.scores(system, data, name, **_small_options(system, data))
            for system in SMALL_SYSTEMS
        ]
        drawing.error_bars(ax, SMALL_SYSTEMS, values, title)
    drawing.save(figure, context.folder, f"{stem}-scores")
    return Picture(f"{stem}-scores", f"{data}: mean and standard deviation over runs.")


def _small_embeddings(
    context: Context, data: str, stem: str, values: Array, labels: Array, colors: dict[Any, Any]
) -> Picture:
    figure = Figure(figsize=(3.4 * (1 + len(SMALL_PICTURES)), 4.1), layout="constrained")
    axes = figure.subplots(1, 1 + len(SMALL_PICTURES))
    _first_two_components(axes[0], values, labels, colors)
    for ax, system in zip(axes[1:], SMALL_PICTURES, strict=True):
        found = context.results.points(system, data, **_small_options(system, data))
        drawing.zoomed(ax, found, labels, colors, system)
    name = "spiral" if data == "Spiral" else "stage"
    drawing.legend_of(figure, colors, name, loc="outside lower center", ncols=len(colors))
    drawing.save(figure, context.folder, f"{stem}-embeddings")
    return Picture(
        f"{stem}-embeddings",
        f"{data}: the data on their first two principal components, and embeddings, zoomed to the "
        "points with the whole disk in the corner.",
    )


def _first_two_components(ax: Any, values: Array, labels: Array, colors: dict[Any, Any]) -> None:
    left, singular, _ = np.linalg.svd(values - values.mean(0), full_matrices=False)
    plane = left[:, :2] * singular[:2]
    drawing.scatter(ax, plane, labels, colors, 8.0)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    ax.set_title("the data (PCA)", fontsize=10)


def _small_sweeps(context: Context, data: str, stem: str) -> Picture:
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, title), colour in zip(LOCAL_AND_GLOBAL.items(), pl.OKABE_ITO, strict=False):
        found = [context.results.scores("hGP-LVM", data, name, length_scale=k) for k in SWEEP]
        _line(left, SWEEP, found, title, colour)
    left.set(xscale="log", xlabel="length scale κ", title="hGP-LVM in paper mode")
    left.set_xticks(SWEEP, [f"{kappa:g}" for kappa in SWEEP])
    left.minorticks_off()
    for system, colour in zip(DECODERS, pl.OKABE_ITO, strict=False):
        found = [
            context.results.scores(
                system, data, "reconstruction_error", n_inducing=count, decode=True
            )
            for count in INDUCING_SWEEP
        ]
        _line(right, INDUCING_SWEEP, found, system, colour)
    right.set(xlabel="inducing points M", ylabel="RMSE", title="reconstruction error")
    right.set_ylim(bottom=0)
    for ax in (left, right):
        ax.grid(color="#d9d9d9", linewidth=0.5)
        ax.legend(frameon=False, fontsize=8)
    drawing.save(figure, context.folder, f"{stem}-sweeps")
    caption = f"{data}: quality against the length scale, and reconstruction by the sparse models."
    return Picture(f"{stem}-sweeps", caption)


def _line(ax: Any, x: Sequence[float], values: list[Array], label: str, colour: str) -> None:
    at = [place for place, found in zip(x, values, strict=True) if len(found)]
    means = [found.mean() for found in values if len(found)]
    spread = [found.std() for found in values if len(found)]
    ax.errorbar(at, means, yerr=spread, marker="o", capsize=3, color=colour, label=label)


def _small_claims(context: Context, data: str) -> Iterator[Claim]:
    def mean(system: str, score: str) -> float:
        found = context.results.scores(system, data, score, **_small_options(system, data))
        return float(found.mean()) if len(found) else float("nan")

    peers = ("UMAP", "PoincaréMaps")
    for system in ("hGP-LVM", "Sparse hGP-LVM") if data == "Spiral" else ("hGP-LVM",):
        gaps = {
            name: mean(system, name) - highest(mean(peer, name) for peer in peers)
            for name in LOCAL_AND_GLOBAL
        }
        known = np.isfinite(list(gaps.values())).all()
        said = ", ".join(f"{name.replace('_', ' ')} {gap:+.4f}" for name, gap in gaps.items())
        wanted = gaps if data == "Spiral" else {"shepard_goodness": gaps["shepard_goodness"]}
        where = "all three metrics" if data == "Spiral" else "Shepard goodness"
        holds = all(gap > 0 for gap in wanted.values()) if known else None
        yield Claim(f"{system} is above UMAP and PoincaréMaps in {where}", said, holds)
    for name, sign, text in (
        ("continuity", 1, "Continuity rises with κ"),
        ("shepard_goodness", -1, "Shepard goodness falls with κ"),
    ):
        found = [context.results.scores("hGP-LVM", data, name, length_scale=k) for k in SWEEP]
        if not all(len(values) for values in found):
            yield Claim(text, "", None)
            continue
        means = {kappa: float(values.mean()) for kappa, values in zip(SWEEP, found, strict=True)}
        steps = np.diff([means[kappa] for kappa in paper.KAPPAS])
        measured = ", ".join(f"{mean:.4f} at {kappa:g}" for kappa, mean in means.items())
        yield Claim(f"{text}, from 10 to 100", measured, bool((sign * steps > 0).all()))


# --- what they share ------------------------------------------------------------------------


def _why_no_data(context: Context, data: str) -> str:
    reasons = {r.status for r in context.results if r.task.data == data and not r.done}
    return f"Not run: {next(iter(sorted(reasons)), 'no data')}"


def _seconds(context: Context, system: str, data: str, **options: Any) -> str:
    found = [r.seconds for r in context.results.of(system, data, **options) if r.done]
    return f"{np.mean(found):.1f}" if found else "-"


def _numbers(system: str, data: str, scores: dict[str, Array], status: str) -> dict[str, Any]:
    means = {name: float(found.mean()) for name, found in scores.items() if len(found)}
    spread = {f"{name}_std": float(found.std()) for name, found in scores.items() if len(found)}
    return {"row": system, "data": data, "status": status, **means, **spread}


PRIOR = Part("prior", "samples from the prior", lambda scale: (), _prior)  # noqa: ARG005
TREES = Part("trees", "embeddings of the deepest tree", _tree_tasks, _trees)
LENGTH_SCALES = Part("length-scales", "κ = 10, 30, 100", _scale_tasks, _length_scales)
PAUL = Part("paul", "mouse myeloid progenitors", _paul_tasks, _paul)
SPIRAL = Part(
    "spiral",
    "ten spirals",
    lambda scale: _small_tasks(scale, "Spiral"),
    lambda context: _small(context, "Spiral", "Figure: Spiral"),
)
MYELOID = Part(
    "myeloid",
    "simulated myeloid progenitors",
    lambda scale: _small_tasks(scale, "Myeloid"),
    lambda context: _small(context, "Myeloid", "Figure: synthetic myeloid progenitors"),
)
