"""Counts of simulated cells whose tree is known."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils import Bunch, check_random_state

from hgplvm import _validation as check
from hgplvm._typing import Array
from hgplvm.datasets._branching import TreeDistance
from hgplvm.datasets._topology import Topology, read_topology

__all__ = ["CellRates", "make_cells"]

# numbers that are drawn at a time
CHUNK_ENTRIES = 2**20
# steps in which a programme is held along a branch
STEPS = 64
# standard deviations of the logarithms of the genes' means and dispersions
MEAN_SPREAD = 1.5
DISPERSION_SPREAD = 0.5
# Dirichlet concentration of a batch's share of a branch of mean length
COMPOSITION = 5.0
# largest change of log expression whose exponential is still a number
LARGEST_CHANGE = 300.0
# smallest dispersion whose inverse is still a shape to draw with
SMALLEST_DISPERSION = 1e-12

UP_TO_ONE = check.Number(low=0.0, high=np.nextafter(1.0, 2.0))
PARAMETERS: dict[str, check.Constraint] = {
    "n_cells": check.Number(low=1, integer=True),
    "n_genes": check.Number(low=1, integer=True),
    "programmes": check.Options(("smooth", "brownian")),
    "informative": UP_TO_ONE,
    "signal": check.Number(low=0, high=20),
    "depth": check.Number(low=0, high=1e8, closed=False),
    "depth_spread": check.Number(low=0, high=5),
    "depth_trend": check.Number(low=-10, high=10),
    "dispersion": check.Number(low=0, high=100),
    "dropout": UP_TO_ONE,
    "n_batches": check.Number(low=1, integer=True),
    "batch_effect": check.Number(low=0, high=20),
}


class CellRates:
    """Expected share of each gene in the counts of each cell, computed where it is asked for.

    It stands for the (n_cells, n_genes) matrix, whose rows sum to 1: ``rates[rows]`` are some of
    its rows and ``rates[rows, columns]`` is the block ``matrix[rows][:, columns]``, where both may
    be integers, slices or arrays; ``numpy.asarray`` makes the whole matrix.

    Parameters
    ----------
    weights : array (n_batches, n_genes)
        Expression at the root, up to a factor a row.
    programmes : array (n_branches, n_steps + 1, n_changing)
        Logarithm of what it is multiplied by at points along each branch, for genes that change.
    changing : array (n_changing,)
        Those genes.
    branch, place, batch : arrays (n_cells,)
        The branch of each cell, its place on it from 0 to 1, and its batch.
    """

    def __init__(
        self,
        weights: Array,
        programmes: Array,
        *,
        changing: Array,
        branch: Array,
        place: Array,
        batch: Array,
    ) -> None:
        self._weights, self._programmes = weights, programmes
        self._branch, self._place, self._batch = branch, place, batch
        self._slot = np.full(weights.shape[1], -1)
        self._slot[changing] = np.arange(len(changing))
        genes = np.arange(weights.shape[1])
        parts = _chunks(len(branch), len(genes))
        self._total = np.concatenate([self._expression(part, genes).sum(1) for part in parts])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return len(self._branch), self._weights.shape[1]

    def __getitem__(self, index: Any) -> Array:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        cells, genes = np.arange(self.shape[0])[rows], np.arange(self.shape[1])[columns]
        block = self._expression(cells.ravel(), genes.ravel())
        block /= self._total[cells.ravel(), None]
        return block.reshape(cells.shape + genes.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("Rates of cells are computed, so that there is no array to share.")
        return self[:].astype(dtype or float, copy=False)

    def _expression(self, cells: Array, genes: Array) -> Array:
        """Expression of some genes in some cells, before it is divided by its total."""
        block = self._weights[np.ix_(self._batch[cells], genes)]  # [n, m]
        changing = np.flatnonzero(self._slot[genes] >= 0)
        block[:, changing] *= np.exp(self._programme(cells, self._slot[genes[changing]]))
        return block

    def _programme(self, cells: Array, slots: Array) -> Array:
        """Programmes at the places of some cells, linear between the points held [n, slots]."""
        branch, n_steps = self._branch[cells, None], self._programmes.shape[1] - 1
        step, part = np.divmod(self._place[cells, None] * n_steps, 1.0)
        left = step.astype(int)
        right = np.minimum(left + 1, n_steps)
        # f(k + s) = (1 - s) f_k + s f_{k+1}
        value = (1.0 - part) * self._programmes[branch, left, slots]
        value += part * self._programmes[branch, right, slots]
        return value


def make_cells(
    n_cells: int = 2000,
    n_genes: int = 1000,
    *,
    topology: str | Sequence[tuple[Hashable, ...]] = "binary",
    programmes: str = "smooth",
    informative: float = 0.2,
    signal: float = 1.0,
    depth: float = 700.0,
    depth_spread: float = 0.7,
    depth_trend: float = 0.0,
    dispersion: float = 0.2,
    dropout: float = 0.0,
    n_batches: int = 1,
    batch_effect: float = 0.5,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Cells along a tree with counts of genes, as sequencing with unique molecules makes them.

    Cells lie at random places on the branches of a tree. Some genes change along them, starting
    each branch where its parent ended. The expected count of a gene is its share of the cell's
    expression, times the size of the cell's library, which is log-normal; the count is negative
    binomial. The defaults are close to the counts of Paul et al. (2015) at a thousand genes.

    Parameters
    ----------
    n_cells : int, default=2000
        Rows; 100,000 cells of 1000 genes take about 10 s.
    n_genes : int, default=1000
        Columns.
    topology : str or list of edges, default="binary"
        "linear" is one branch, "bifurcation" a stem and two branches, "multifurcation" a stem and
        four, "binary" a stem, two and four. Otherwise edges (parent, child) or (parent, child,
        length) between nodes of any name that make one tree; an edge is a branch, of length 1 if
        it has none.
    programmes : {"smooth", "brownian"}, default="smooth"
        How the logarithm of expression changes along a branch: in one switch, at a random place
        and of a random width, or as a Brownian motion.
    informative : float, default=0.2
        Share of the genes that change along the tree, from 0 to 1.
    signal : float, default=1.0
        Standard deviation of the change of log expression along a branch of length 1. The variance
        is in proportion to the length.
    depth : float, default=700.0
        Median size of the library, which is the expected number of counts of a cell.
    depth_spread : float, default=0.7
        Standard deviation of its logarithm.
    depth_trend : float, default=0.0
        What is added to the logarithm, in units of `depth_spread`, a standard deviation of
        pseudotime.
    dispersion : float, default=0.2
        Median over genes of φ, where a count of mean μ has variance μ + φ μ²; log φ has a standard
        deviation of 0.5. With 0 counts are Poisson.
    dropout : float, default=0.0
        A count of mean μ is set to 0 with probability `dropout` times exp(-μ), from 0 to 1.
    n_batches : int, default=1
        Batches, among which cells are shared out at random. With more than one, each has its own
        shares of the branches, Dirichlet around their lengths.
    batch_effect : float, default=0.5
        Standard deviation of the shift of each gene's log expression in each batch, if there are
        several.
    random_state : int, RandomState or None, default=None
        Seed of everything.

    Returns
    -------
    Bunch
        ``counts`` (n_cells, n_genes) a sparse CSR matrix of integers, which is ``data`` too,
        ``branch`` (n_cells,) the branch of each cell by its number in ``edges``, which is
        ``target`` too, ``pseudotime`` (n_cells,) its distance from the root, ``batch`` (n_cells,),
        ``library_size`` (n_cells,) its counts in all and ``expected_size`` (n_cells,) those
        expected before dropout, ``rates`` a :class:`CellRates`, the share of each gene in these,
        ``tree_distance`` a :class:`TreeDistance`, both of which are indexed like matrices but
        never hold them, ``informative`` (n_genes,) whether a gene changes, ``dispersion``
        (n_genes,), ``edges`` the (parent, child, length) of each branch, ``parent`` (n_branches,)
        the branch before it, -1 at the root, and ``DESCR``.

    Notes
    -----
    Made here, for choices that real data cannot decide since their tree is not known; licence MIT.

    Examples
    --------
    >>> from hgplvm.datasets import make_cells
    >>> cells = make_cells(300, 50, topology="bifurcation", random_state=0)
    >>> cells.counts.shape
    (300, 50)
    >>> bool(cells.tree_distance[3, 3] == 0)
    True
    """
    for name, value in dict(locals()).items():
        if name in PARAMETERS:
            PARAMETERS[name].check("make_cells", name, value)
    tree = read_topology("make_cells", topology)

    seed = check_random_state(random_state).randint(2**31 - 1, size=4)
    rng, *streams = (np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(4))
    batch, branch, place = _place_cells(tree, n_cells, n_batches, rng)
    time = tree.start[branch] + tree.length[branch] * place
    sizes = _sizes(time, depth, depth_spread, depth_trend, rng)
    # log w_bg = μ_g + δ_bg
    shifts = batch_effect * (n_batches > 1) * rng.standard_normal((n_batches, n_genes))
    weights = np.exp(MEAN_SPREAD * rng.standard_normal(n_genes) + shifts)
    phi = dispersion * np.exp(DISPERSION_SPREAD * rng.standard_normal(n_genes))
    changing = np.sort(rng.permutation(n_genes)[: round(informative * n_genes)])
    grow = _smooth if programmes == "smooth" else _brownian
    paths = _join(tree, signal * grow(tree.length, len(changing), rng))
    rates = CellRates(weights, paths, changing=changing, branch=branch, place=place, batch=batch)
    counts = _draw(rates, sizes, phi, dropout, streams)
    return Bunch(
        data=counts,
        target=branch,
        counts=counts,
        branch=branch,
        pseudotime=time,
        batch=batch,
        library_size=np.asarray(counts.sum(1)).ravel(),
        expected_size=sizes,
        rates=rates,
        tree_distance=TreeDistance(time, branch, tree.parting),
        informative=np.isin(np.arange(n_genes), changing),
        dispersion=phi,
        edges=tree.edges,
        parent=tree.parent,
        DESCR=f"Counts of {n_cells} cells along a tree of {len(tree.edges)} branches.",
    )


def _chunks(n_rows: int, n_columns: int) -> Iterator[Array]:
    """Row indices, as many at a time as chunks hold."""
    size = max(1, CHUNK_ENTRIES // n_columns)
    for first in range(0, n_rows, size):
        yield np.arange(first, min(first + size, n_rows))


def _place_cells(
    tree: Topology, n_cells: int, n_batches: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Batch, branch and place on it from 0 to 1 of each cell, uniform along the branches."""
    shares = np.tile(tree.length / tree.length.sum(), (n_batches, 1))  # [batches, branches]
    if n_batches > 1:
        shares = rng.dirichlet(COMPOSITION * tree.length / tree.length.mean(), size=n_batches)
    batch = rng.integers(n_batches, size=n_cells)
    uniform = rng.random(n_cells)
    branch = np.empty(n_cells, dtype=int)
    for b in range(n_batches):
        rows = np.flatnonzero(batch == b)
        ends = np.cumsum(shares[b])[:-1]
        branch[rows] = np.searchsorted(ends, uniform[rows], side="right")
    return batch, branch, rng.random(n_cells)


def _sizes(
    time: Array, depth: float, spread: float, trend: float, rng: np.random.Generator
) -> Array:
    """Size of each cell's library: its expected counts [n]."""
    standard = (time - time.mean()) / (time.std() or 1.0)
    # log s = log depth + σ (ε + trend · t)
    return depth * np.exp(spread * (rng.standard_normal(len(time)) + trend * standard))


def _smooth(length: Array, n_genes: int, rng: np.random.Generator) -> Array:
    """Change since the start of each branch, at each step of it: a switch [b, steps + 1, genes]."""
    shape = len(length), 1, n_genes
    size = np.sqrt(length)[:, None, None] * rng.standard_normal(shape)
    onset, width = rng.uniform(0.1, 0.9, shape), rng.uniform(0.05, 0.2, shape)
    place = np.linspace(0.0, 1.0, STEPS + 1)[:, None]
    switch = expit((place - onset) / width)
    # from 0 to 1 exactly
    first, last = switch[:, :1], switch[:, -1:]
    return np.asarray(size * (switch - first) / (last - first))


def _brownian(length: Array, n_genes: int, rng: np.random.Generator) -> Array:
    """Change since the start of each branch, at each step of it [b, steps + 1, genes]."""
    moves = rng.standard_normal((len(length), STEPS + 1, n_genes))
    moves[:, 0] = 0.0
    return np.asarray(np.cumsum(np.sqrt(length / STEPS)[:, None, None] * moves, axis=1))


def _join(tree: Topology, paths: Array) -> Array:
    """Start each branch where its parent ended."""
    for b in tree.order:
        if tree.parent[b] >= 0:
            paths[b] += paths[tree.parent[b], -1]
    if np.abs(paths).max(initial=0.0) > LARGEST_CHANGE:
        raise ValueError(
            "The 'signal' of make_cells, along branches of these lengths, must change log "
            f"expression by at most {LARGEST_CHANGE:g}: make it smaller."
        )
    return paths


def _draw(
    rates: CellRates,
    sizes: Array,
    phi: Array,
    dropout: float,
    streams: Sequence[np.random.Generator],
) -> sparse.csr_matrix:
    """Draw counts, with a stream of numbers for each law, so that chunks do not change them."""
    gamma, poisson, uniform = streams
    parts = []
    for rows in _chunks(*rates.shape):
        mean = sizes[rows, None] * rates[rows]  # [n, m]
        law = mean
        if phi.any():
            # λ ~ Gamma(1/φ, φ μ), y ~ Poisson(λ): the variance is μ + φ μ²
            shape = 1.0 / np.maximum(phi, SMALLEST_DISPERSION)
            law = mean * gamma.standard_gamma(shape, size=mean.shape) / shape
        if not law.max() < 2**30:
            raise ValueError(
                "The 'depth', 'depth_spread', 'signal' and 'dispersion' of make_cells must give "
                "counts below 2^30: make them smaller."
            )
        part = poisson.poisson(law).astype(np.int32)
        if dropout:
            part[uniform.random(mean.shape) < dropout * np.exp(-mean)] = 0
        parts.append(sparse.csr_matrix(part))
    return sparse.vstack(parts, format="csr")
