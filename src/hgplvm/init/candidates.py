"""The search for a start: kinds of start times sizes, compared by evidence on a sample of rows.

Hyperbolic space has a unit of its own, the curvature radius, so a start has to choose how far
apart its points are: its *scale*, the median distance. The evidence chooses. Where it cannot tell
two scales apart the smaller is taken: what is as well explained flat should not be bent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm.geometry import Manifold
from hgplvm.init import mds
from hgplvm.init.evidence import Profile, profile_evidence
from hgplvm.init.simple import median_distance, principal_scores, scaled
from hgplvm.kernels import Kernel

__all__ = ["KINDS", "SCALES", "Candidates", "Comparison", "Start"]

# the simplest first
KINDS = ("pca", "mds", "mds-denoised")
# median distances, in curvature radii; beyond, the outer rows come near the radius cap
SCALES = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
# length scales to try, in units of the median distance: a long one makes the variogram a line
LENGTH_SCALES = (1.5, 4.0, 12.0, 50.0)
# evidence an entry that a flatter start may be behind
EQUIVALENCE = 1.5e-3
# rows that the search looks at, and rows whose pairs are embedded all at once
PROBE_ROWS = 300
LANDMARK_ROWS = 3000


@dataclass(frozen=True)
class Start:
    """One candidate: a kind at a scale, with what the evidence says of it."""

    kind: str
    scale: float
    profile: Profile


@dataclass(frozen=True)
class Comparison:
    """All candidates in the order in which they were tried, and the chosen one."""

    candidates: tuple[Start, ...]
    chosen: Start

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns for the history, one entry a candidate."""
        profiles = [c.profile for c in self.candidates]
        return {
            "search_start": np.array([c.kind for c in self.candidates]),
            "search_scale": np.array([c.scale for c in self.candidates]),
            "search_length_scale": np.array([p.length_scale for p in profiles]),
            "search_evidence": np.array([p.evidence for p in profiles]),
            "search_enough": np.array([_is_enough(c, self.candidates) for c in self.candidates]),
            "search_chosen": np.array([c is self.chosen for c in self.candidates]),
        }


class Candidates:
    """Starts of several kinds and scales for a sample of the rows: the probe.

    Parameters
    ----------
    data : Tensor [N, D']
        Centred data, perhaps rotated to fewer columns than the D = `n_columns` they stand for.
    kinds : sequence of str
        Some of ``KINDS``: an embedding of the data's distances, of those on the components that
        stand out of noise, and principal components. Ignored where latents are given.
    scales : sequence of float
        Median distances to try, in rising order.
    length_scale : float, optional
        κ where it is given; without it several multiples of the scale are tried.
    given : Tensor [N, Q+1], optional
        Latents that are the only candidate.
    """

    def __init__(
        self,
        data: Tensor,
        n_components: int,
        manifold: Manifold,
        kernel: Kernel,
        *,
        kinds: Sequence[str],
        scales: Sequence[float],
        length_scale: float | None,
        n_columns: int,
        generator: torch.Generator,
        given: Tensor | None = None,
    ) -> None:
        self._manifold, self._kernel = manifold, kernel
        self._length_scale, self._n_columns = length_scale, n_columns
        self._order = torch.randperm(data.shape[0], generator=generator).to(data.device)
        rows = data[self._order]
        self._probe_data = rows[:PROBE_ROWS]
        self._sources: dict[str, _Source] = {}
        self._probes: dict[tuple[str, float], Tensor] = {}
        if given is not None:
            self._add("given", _Given(given[self._order], manifold), [0.0])
            return
        for kind in kinds:
            source = _source(kind, rows, n_columns, n_components, manifold, generator)
            if source is not None:
                self._add(kind, source, scales)

    def _add(self, kind: str, source: _Source, scales: Sequence[float]) -> None:
        self._sources[kind] = source
        for scale, latents in source.probes(scales):
            self._probes[kind, scale] = latents

    @property
    def probe_rows(self) -> Tensor:
        """Indices of the probe's rows."""
        return self._order[:PROBE_ROWS]

    def probe(self, start: Start) -> Tensor:
        """Latents of the probe."""
        return self._probes[start.kind, start.scale]

    def compare(self, noise_share: float) -> Comparison:
        """Choose by the evidence of the probe at this share of noise."""
        candidates = []
        for (kind, scale), latents in self._probes.items():
            ranges = [f * scale for f in LENGTH_SCALES]
            profile = profile_evidence(
                self._probe_data,
                latents,
                self._manifold,
                self._kernel,
                ranges if self._length_scale is None else [self._length_scale],
                n_columns=self._n_columns,
                noise_share=noise_share,
            )
            candidates.append(Start(kind, scale, profile))
        return Comparison(tuple(candidates), _choose(candidates))

    def latents(self, start: Start) -> Tensor:
        """Latents of all rows, in their order."""
        shuffled = self._sources[start.kind].everything(start.scale)
        return torch.empty_like(shuffled).index_copy_(0, self._order, shuffled)


def _choose(candidates: Sequence[Start]) -> Start:
    """Of those that are nearly as good as the best: the first kind, at its smallest scale."""
    return next(c for c in candidates if _is_enough(c, candidates))


def _is_enough(candidate: Start, candidates: Sequence[Start]) -> bool:
    best = max(c.profile.evidence for c in candidates)
    return candidate.profile.evidence >= best - EQUIVALENCE


class _Source(ABC):
    """Latents of one kind of start: of the probe at every scale, then of all rows at one."""

    @abstractmethod
    def probes(self, scales: Sequence[float]) -> Iterator[tuple[float, Tensor]]:
        """Scales and the probe's latents."""

    @abstractmethod
    def everything(self, scale: float) -> Tensor:
        """Latents of all rows."""


class _Given(_Source):
    def __init__(self, latents: Tensor, manifold: Manifold) -> None:
        self._latents, self._manifold = latents, manifold

    def probes(self, scales: Sequence[float]) -> Iterator[tuple[float, Tensor]]:  # noqa: ARG002
        yield median_distance(self._latents, self._manifold), self._latents[:PROBE_ROWS]

    def everything(self, scale: float) -> Tensor:  # noqa: ARG002
        return self._latents


class _Scores(_Source):
    def __init__(self, scores: Tensor, manifold: Manifold) -> None:
        self._scores, self._manifold = scores, manifold

    def probes(self, scales: Sequence[float]) -> Iterator[tuple[float, Tensor]]:
        for scale in scales:
            yield scale, self.everything(scale)[:PROBE_ROWS]

    def everything(self, scale: float) -> Tensor:
        return scaled(self._scores, self._manifold, scale)


class _Distances(_Source):
    def __init__(
        self,
        rows: Tensor,
        targets: mds.Targets,
        n_components: int,
        manifold: Manifold,
        generator: torch.Generator,
    ) -> None:
        self._rows, self._targets = rows, targets
        self._n_components, self._manifold = n_components, manifold
        self._generator = generator
        self._probes: dict[float, Tensor] = {}

    def probes(self, scales: Sequence[float]) -> Iterator[tuple[float, Tensor]]:
        found = mds.embed(
            self._rows[:PROBE_ROWS],
            self._targets,
            scales,
            self._n_components,
            self._manifold,
            generator=self._generator,
        )
        for scale, latents in zip(scales, found, strict=True):
            self._probes[scale] = latents
            yield scale, latents

    def everything(self, scale: float) -> Tensor:
        """Landmarks are placed against the probe and relaxed together; the rest is placed."""
        rows, targets, manifold = self._rows, self._targets, self._manifold
        latents = self._probes[scale]
        landmarks = rows[:LANDMARK_ROWS]
        if landmarks.shape[0] > PROBE_ROWS:
            more = mds.place(
                rows[PROBE_ROWS:LANDMARK_ROWS], rows[:PROBE_ROWS], latents, targets, scale, manifold
            )
            latents = torch.cat([latents, more])
        (latents,) = mds.embed(
            landmarks,
            targets,
            [scale],
            self._n_components,
            manifold,
            generator=self._generator,
            begin=latents,
            tol=1e-4 if landmarks.shape[0] <= PROBE_ROWS else 1e-3,
        )
        if rows.shape[0] > LANDMARK_ROWS:
            anchors = slice(0, PROBE_ROWS)
            more = mds.place(
                rows[LANDMARK_ROWS:], rows[anchors], latents[anchors], targets, scale, manifold
            )
            latents = torch.cat([latents, more])
        return latents


def _source(
    kind: str,
    rows: Tensor,
    n_columns: int,
    n_components: int,
    manifold: Manifold,
    generator: torch.Generator,
) -> _Source | None:
    """Make the source of a kind; None where the data have nothing for it."""
    if kind == "mds-denoised":
        clean = mds.denoised(rows, n_components, rows[:LANDMARK_ROWS], n_columns=n_columns)
        if clean is None:
            return None
        rows = clean
    if kind != "pca":
        targets = mds.Targets.of(rows[:LANDMARK_ROWS])
        if targets is not None:
            return _Distances(rows, targets, n_components, manifold, generator)
        if kind == "mds-denoised":
            return None
    return _Scores(principal_scores(rows, n_components, generator=generator), manifold)
