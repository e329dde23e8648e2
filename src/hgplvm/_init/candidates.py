"""The search for a start: kinds of start times sizes, compared by evidence on a sample of rows.

Hyperbolic space has a unit of its own, the curvature radius, so a start has a *scale*, the median
distance between its points. It is chosen by evidence. Of scales with nearly the same evidence the
smallest is taken, so that data that a flat embedding explains as well start flat.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm._init import mds, paths
from hgplvm._init.evidence import Profile, profile_evidence
from hgplvm._init.simple import median_distance, principal_scores, scaled
from hgplvm.covariance import CovarianceFunction
from hgplvm.manifolds import Manifold

__all__ = ["KINDS", "Candidate", "Candidates", "Comparison"]

# the simplest first
KINDS = ("pca", "mds", "mds-denoised")
# length scales to try, in units of the median distance: a long one makes the variogram a line
LENGTH_SCALES = (1.5, 4.0, 12.0, 50.0)
# evidence per entry by which a flatter start may be behind, for one probe; for the mean of n probes
# it is divided by √n
EQUIVALENCE = 1.5e-3
# rows that the search looks at, and rows whose pairs are embedded all at once
PROBE_ROWS = 300
LANDMARK_ROWS = 3000
# landmarks between which a further row starts
NEAREST_LANDMARKS = 5


@dataclass(frozen=True)
class Candidate:
    """One candidate: a kind at a scale, with its evidence."""

    kind: str
    scale: float
    profile: Profile


@dataclass(frozen=True)
class Comparison:
    """All candidates in the order in which they were tried."""

    candidates: tuple[Candidate, ...]
    n_probes: int = 1

    @property
    def enough(self) -> tuple[bool, ...]:
        """Which of them are nearly as good as the best."""
        evidence = [c.profile.evidence for c in self.candidates]
        least = max(evidence) - EQUIVALENCE / math.sqrt(self.n_probes)
        return tuple(e >= least for e in evidence)

    @property
    def chosen(self) -> Candidate:
        """Of those that are nearly as good as the best: the first kind, at its smallest scale."""
        return next(c for c, good in zip(self.candidates, self.enough, strict=True) if good)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns for the history, one entry per candidate."""
        profiles, chosen = [c.profile for c in self.candidates], self.chosen
        return {
            "search_start": np.array([c.kind for c in self.candidates]),
            "search_scale": np.array([c.scale for c in self.candidates]),
            "search_length_scale": np.array([p.length_scale for p in profiles]),
            "search_evidence": np.array([p.evidence for p in profiles]),
            "search_enough": np.array(self.enough),
            "search_chosen": np.array([c is chosen for c in self.candidates]),
        }


class Candidates:
    """Starts of several kinds and scales for a sample of the rows: the probe.

    There may be several such samples; the mean of their evidence varies less.

    Parameters
    ----------
    data : Tensor [N, D']
        Centred data, perhaps rotated to fewer columns than the D = `n_columns` they stand for.
    kinds : sequence of str
        Some of ``KINDS``: an embedding of the data's distances, of those on the components that
        stand out of noise, and principal components; or "paths", an embedding of distances that
        follow the data (:mod:`hgplvm._init.paths`). Ignored where latents are given.
    scales : sequence of float
        Median distances to try, in rising order.
    length_scale : float, optional
        κ where it is given; without it several multiples of the scale are tried.
    given : Tensor [N, Q+1], optional
        Latents that are the only candidate.
    n_probes : int
        Samples to look at, of rows enough for all of them.
    row_noise : Tensor [N], optional
        Noise variances of the rows, by which "paths" averages them first.
    """

    def __init__(
        self,
        data: Tensor,
        n_components: int,
        covariance: CovarianceFunction,
        *,
        kinds: Sequence[str],
        scales: Sequence[float],
        length_scale: float | None,
        n_columns: int,
        generator: torch.Generator,
        given: Tensor | None = None,
        n_probes: int = 1,
        row_noise: Tensor | None = None,
    ) -> None:
        self._covariance, manifold = covariance, covariance.manifold
        self._length_scale, self._n_columns = length_scale, n_columns
        self._order = torch.randperm(data.shape[0], generator=generator).to(data.device)
        rows = data[self._order]
        self._rows = rows
        self._samples = [slice(i * PROBE_ROWS, (i + 1) * PROBE_ROWS) for i in range(n_probes)]
        self._sources: dict[str, _Source] = {}
        self._probes: dict[tuple[str, float], list[Tensor]] = {}
        self._comparison = Comparison(())
        if given is not None:
            self._add("given", _Given(given[self._order], manifold), [0.0])
            return
        noise = None if row_noise is None else row_noise[self._order]
        for kind in kinds:
            source = _source(kind, rows, n_columns, n_components, manifold, generator, noise)
            if source is not None:
                self._add(kind, source, scales)

    def _add(self, kind: str, source: _Source, scales: Sequence[float]) -> None:
        self._sources[kind] = source
        for sample in self._samples:
            for scale, latents in source.probes(scales, sample):
                self._probes.setdefault((kind, scale), []).append(latents)

    def probes(self) -> Iterator[tuple[float, Tensor]]:
        """Sizes and latents of all starts, in the order of the rows, which are one sample."""
        for (_, scale), samples in self._probes.items():
            latents = torch.empty_like(samples[0])
            latents[self._order] = samples[0]
            yield scale, latents

    @property
    def probe_rows(self) -> Tensor:
        """Indices of the probe's rows."""
        return self._order[:PROBE_ROWS]

    def probe(self, start: Candidate) -> Tensor:
        """Latents of the probe."""
        return self._probes[start.kind, start.scale][0]

    def compare(self, noise_share: float) -> Comparison:
        """Choose by the evidence of the probe at this share of noise."""
        candidates = []
        for (kind, scale), probes in self._probes.items():
            ranges = [f * scale for f in LENGTH_SCALES]
            if self._length_scale is not None:
                ranges = [self._length_scale]
            profiles = [self._profile(probes, length_scale, noise_share) for length_scale in ranges]
            best = max(profiles, key=attrgetter("evidence"))
            candidates.append(Candidate(kind, scale, best))
        self._comparison = Comparison(tuple(candidates), len(self._samples))
        return self._comparison

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns of the last comparison, for the history."""
        return self._comparison.arrays()

    def _profile(self, probes: list[Tensor], length_scale: float, noise_share: float) -> Profile:
        """Profile of the probe at a length scale, with the mean evidence of all samples."""
        profiles = [
            profile_evidence(
                self._rows[sample],
                latents,
                self._covariance,
                [length_scale],
                n_columns=self._n_columns,
                noise_share=noise_share,
            )
            for sample, latents in zip(self._samples, probes, strict=True)
        ]
        evidence = sum(profile.evidence for profile in profiles) / len(profiles)
        return replace(profiles[0], evidence=evidence)

    def latents(self, start: Candidate) -> Tensor:
        """Latents of all rows, in their order."""
        shuffled = self._sources[start.kind].everything(start.scale)
        return torch.empty_like(shuffled).index_copy_(0, self._order, shuffled)


class _Source(ABC):
    """Latents of one kind of start: of the probe at every scale, then of all rows at one."""

    @abstractmethod
    def probes(self, scales: Sequence[float], sample: slice) -> Iterator[tuple[float, Tensor]]:
        """Scales, and the latents of a sample of the rows."""

    @abstractmethod
    def everything(self, scale: float) -> Tensor:
        """Latents of all rows."""


class _Given(_Source):
    def __init__(self, latents: Tensor, manifold: Manifold) -> None:
        self._latents, self._manifold = latents, manifold

    def probes(
        self,
        scales: Sequence[float],  # noqa: ARG002
        sample: slice,
    ) -> Iterator[tuple[float, Tensor]]:
        yield median_distance(self._latents, self._manifold), self._latents[sample]

    def everything(self, scale: float) -> Tensor:  # noqa: ARG002
        return self._latents


class _Scores(_Source):
    def __init__(self, scores: Tensor, manifold: Manifold) -> None:
        self._scores, self._manifold = scores, manifold

    def probes(self, scales: Sequence[float], sample: slice) -> Iterator[tuple[float, Tensor]]:
        for scale in scales:
            yield scale, self.everything(scale)[sample]

    def everything(self, scale: float) -> Tensor:
        return scaled(self._scores, self._manifold, scale)


class _Embedded(_Source):
    """Landmarks, the first of the rows, embedded by targets between them; other rows by these."""

    def __init__(
        self, n_landmarks: int, n_components: int, manifold: Manifold, generator: torch.Generator
    ) -> None:
        self._n_landmarks, self._n_components = n_landmarks, n_components
        self._manifold, self._generator = manifold, generator
        self._probes: dict[float, Tensor] = {}

    @abstractmethod
    def _unit(self, rows: slice, others: slice) -> Tensor:
        """Targets, of median 1, between some landmarks and others."""

    @abstractmethod
    def _weights(self, unit: Tensor) -> Tensor:
        """Weights of targets in the stress."""

    @abstractmethod
    def _rest(self, latents: Tensor, scale: float) -> Tensor:
        """Latents of the rows that are no landmarks, from those of the landmarks."""

    def _embed(self, rows: slice, scales: Sequence[float], **options: Any) -> Iterator[Tensor]:
        unit = self._unit(rows, rows)
        return mds.embed(
            unit,
            self._weights(unit),
            scales,
            self._n_components,
            self._manifold,
            generator=self._generator,
            **options,
        )

    def probes(self, scales: Sequence[float], sample: slice) -> Iterator[tuple[float, Tensor]]:
        for scale, latents in zip(scales, self._embed(sample, scales), strict=True):
            self._probes.setdefault(scale, latents)  # the first sample is the probe
            yield scale, latents

    def everything(self, scale: float) -> Tensor:
        """Embed landmarks by the probe, then all of them together; then the other rows."""
        latents, few = self._probes[scale], self._n_landmarks <= PROBE_ROWS
        if not few:
            unit = self._unit(slice(PROBE_ROWS, self._n_landmarks), slice(0, PROBE_ROWS))
            more = mds.place_targets(unit, self._weights(unit), latents, scale, self._manifold)
            latents = torch.cat([latents, more])
        landmarks = slice(0, self._n_landmarks)
        (latents,) = self._embed(landmarks, [scale], begin=latents, tol=1e-4 if few else 1e-3)
        return torch.cat([latents, self._rest(latents, scale)])


class _Distances(_Embedded):
    """By targets from the distances of the rows."""

    def __init__(
        self,
        rows: Tensor,
        targets: mds.Targets,
        n_components: int,
        manifold: Manifold,
        generator: torch.Generator,
    ) -> None:
        super().__init__(min(len(rows), LANDMARK_ROWS), n_components, manifold, generator)
        self._rows, self._targets = rows, targets

    def _unit(self, rows: slice, others: slice) -> Tensor:
        other = None if rows == others else self._rows[others]
        return self._targets.between(self._rows[rows], other)

    def _weights(self, unit: Tensor) -> Tensor:
        return self._targets.weights(unit)

    def _rest(self, latents: Tensor, scale: float) -> Tensor:
        rows, anchors = self._rows[self._n_landmarks :], slice(0, PROBE_ROWS)
        if not len(rows):
            return latents[:0]
        return mds.place(
            rows, self._rows[anchors], latents[anchors], self._targets, scale, self._manifold
        )


class _Paths(_Embedded):
    """By targets that follow the data; other rows start between the landmarks.

    Parameters
    ----------
    rows : Tensor [N, r]
        All rows.
    landmarks : Tensor [L, r]
        The first of them, averaged where they are noisy.
    unit : Tensor [L, L]
        Targets between these, of median 1.
    """

    def __init__(
        self,
        rows: Tensor,
        landmarks: Tensor,
        unit: Tensor,
        n_components: int,
        manifold: Manifold,
        generator: torch.Generator,
    ) -> None:
        super().__init__(len(landmarks), n_components, manifold, generator)
        self._rows, self._landmarks, self._all = rows, landmarks, unit
        self._mean = unit.mean().item()

    @classmethod
    def of(
        cls,
        rows: Tensor,
        noise: Tensor | None,
        n_components: int,
        manifold: Manifold,
        generator: torch.Generator,
    ) -> _Paths | None:
        """From rows, which are averaged with their nearest where they have noise [N]."""
        landmarks = rows[:LANDMARK_ROWS]
        if noise is not None:
            landmarks, _ = paths.averaged(landmarks, rows, noise)
        unit = paths.path_targets(landmarks)
        if unit is None:
            return None
        return cls(rows, landmarks, unit, n_components, manifold, generator)

    def _unit(self, rows: slice, others: slice) -> Tensor:
        return self._all[rows, others]

    def _weights(self, unit: Tensor) -> Tensor:
        return mds.relative_weights(unit, self._mean)

    def _rest(self, latents: Tensor, scale: float) -> Tensor:  # noqa: ARG002
        """Middles of the nearest landmarks, each weighted by the inverse squared distance."""
        rows = self._rows[self._n_landmarks :]
        if not len(rows):
            return latents[:0]
        near = paths.nearest(rows, self._landmarks, min(NEAREST_LANDMARKS, len(latents)))
        apart = (rows.unsqueeze(1) - self._landmarks[near]).square().sum(2)
        weights = 1.0 / apart.clamp_min(1e-12 * apart.max().clamp_min(1e-300))
        return self._manifold.weighted_mean(latents[near], weights / weights.sum(1, keepdim=True))


def _source(
    kind: str,
    rows: Tensor,
    n_columns: int,
    n_components: int,
    manifold: Manifold,
    generator: torch.Generator,
    noise: Tensor | None = None,
) -> _Source | None:
    """Make the source of a kind; None where the data have nothing for it."""
    if kind == "paths":
        return _Paths.of(rows, noise, n_components, manifold, generator) or _source(
            "pca", rows, n_columns, n_components, manifold, generator
        )
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
