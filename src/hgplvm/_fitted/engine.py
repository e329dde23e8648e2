"""A fitted model at work on a device: latents of rows, decoding, samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgplvm._covariates import Coded
from hgplvm._fitted.model import FittedModel, row_digests
from hgplvm._fitted.off_map import OffMap, log_rest
from hgplvm._inference import Landmarks, RowInference
from hgplvm._threads import threads_for_rows
from hgplvm._typing import Array
from hgplvm.manifolds._tagged import Tagged
from hgplvm.objectives.predictive import Predictor
from hgplvm.objectives.residuals import ResidualScale

__all__ = ["Engine", "Inferred"]

# training latents that new rows may start at
LANDMARKS = 4096
# combinations of batches for which a model is kept
KEPT_TAGS = 1000
# rounds in which the shift of a new batch is estimated
SHIFT_ROUNDS = 6
# rows by which the usual variance of decoded functions is known, and the share of them within it
USUAL_ROWS, USUAL_SHARE = 300, 0.95
# rows that the shares of covariates are computed from
EXPLAINED_ROWS = 2000


@dataclass(frozen=True)
class Inferred:
    """Rows in the model's units, 0 where nothing is observed, and their latents.

    Effects of covariates are not in the rows any more.
    """

    rows: Tensor
    observed: Tensor  # 1 and 0
    x: Tensor  # in the prior's frame
    std: Tensor | None  # of q(x), for Bayesian models
    known: Array  # the training row that each one is, or -1
    noise: Tensor | None  # [n], where rows differ
    beyond: Array  # [n], see ModelRows
    coded: Coded
    counts: Any = None  # of a model of counts
    squares: Array | None = None  # [n], of entries beyond the signal
    counts_beyond: Array | None = None  # [n], how many these are


class Engine:
    """A fitted model on a device, in the prior's frame."""

    def __init__(self, model: FittedModel, device: torch.device) -> None:
        self.model, self.device = model._mapped(lambda t: t.to(device)), device
        self.manifold = model.manifold
        root = self.model.prior_root
        self.latents = self.manifold.recenter(self.model.latents, root)
        sites = self.manifold.recenter(self.model.residuals.sites, root)
        self.residuals = ResidualScale(self.manifold, sites, self.model.residuals.squares)
        self.covariates = self.model.covariates
        self._inferences: dict[bytes, RowInference] = {}
        self._landmarks: Landmarks | None = None

    # --- the model for rows of some batches -----------------------------------------------

    @cached_property
    def _predictors(self) -> tuple[Predictor, Predictor | None]:
        """The model, and a cheaper one to try starts with."""
        model, latents, covariance = self.model, self.latents, self.model.covariance
        if self.covariates is not None:
            covariance, latents = self.covariates.covariance_of(covariance), self._tagged
        predictions = model.predictions.recentred(covariance.manifold, model.prior_root)
        parts = (covariance, model.noise, latents)
        return predictions.predictor(*parts), predictions.scout(*parts)

    @property
    def _tagged(self) -> Tensor:
        return self.latents if self.covariates is None else self.covariates.tagged(self.latents)

    def inference(self, tag: Tensor | None = None) -> RowInference:
        """Return what finds the latents of rows with these tags; by default of their mean."""
        if self.covariates is not None and tag is None:
            tag = self._mean_tags
        key = b"" if tag is None else tag.cpu().numpy().tobytes()
        if key not in self._inferences:
            if len(self._inferences) >= KEPT_TAGS:
                del self._inferences[next(iter(self._inferences))]
            self._inferences[key] = self._inference(tag)
        return self._inferences[key]

    def _inference(self, tag: Tensor | None) -> RowInference:
        model = self.model
        predictor, scout = self._predictors
        if tag is not None:
            predictor = predictor.with_tag(tag)
            scout = None if scout is None else scout.with_tag(tag)
        if self._landmarks is None:  # where rows begin; those of other batches begin there, too
            chosen = torch.randperm(len(self.latents), generator=torch.Generator().manual_seed(0))
            at = self.latents[chosen[:LANDMARKS].to(self.device)]
            noise = model.noise if model.bound else None
            self._landmarks = Landmarks.of(self._averaged(predictor), at, noise=noise)
        std = None
        if model.variational and model.std is not None:
            std = model.std.median().item()
        return RowInference(
            predictor,
            self._landmarks,
            model.prior_scale,
            scout=scout,
            bound=model.bound,
            std=std,
        )

    def _averaged(self, predictor: Predictor) -> Predictor:
        """Predict for the mean over batches."""
        if self.covariates is None:
            return predictor
        return predictor.with_tag(self._mean_tags)

    @property
    def _mean_tags(self) -> Tensor:
        assert self.covariates is not None
        return torch.from_numpy(self.covariates.coding.mean_tags).to(self.latents)

    def groups(self, coded: Coded) -> Iterator[tuple[Tensor, RowInference]]:
        """Rows with the same tags, and what holds for them."""
        if not coded.tags.shape[1] or self.covariates is None:
            yield torch.arange(len(coded.tags), device=self.device), self.inference()
            return
        tags, which = np.unique(coded.tags, axis=0, return_inverse=True)
        for place, tag in enumerate(tags):
            rows = torch.from_numpy(np.flatnonzero(which.reshape(-1) == place)).to(self.device)
            yield rows, self.inference(torch.from_numpy(tag).to(self.latents))

    def coded(self, coded: Coded | None, n_rows: int) -> Coded:
        """Covariates of rows; the mean over the training rows where nothing is said."""
        if coded is not None:
            return coded
        if self.covariates is not None:
            return self.covariates.coding.averaged(n_rows)
        return Coded(np.zeros((n_rows, 0)), np.zeros((n_rows, 0)), np.zeros(n_rows, dtype=bool))

    def effects(self, coded: Coded) -> tuple[Tensor | float, Tensor | None]:
        """``Wβ`` [n, r], and the variance [n] that effects add to a row's noise, if any."""
        if self.covariates is None:
            return 0.0, None
        design = torch.from_numpy(coded.design).to(self.latents)
        spread = self.covariates.spread(design)
        if coded.fresh.any() and self.covariates.shares:
            # of a batch that is not known, only what it shares with the others is predicted
            covariance = self._predictors[0].covariance  # type: ignore[attr-defined]
            tags = torch.from_numpy(coded.tags).to(self.latents)
            fresh = torch.from_numpy(coded.fresh).to(tags.device)
            known, which = torch.unique(tags[fresh], dim=0, return_inverse=True)
            own = [covariance.diagonal - covariance.at_tags(tag) for tag in known]
            spread[fresh] += torch.tensor(own, dtype=spread.dtype, device=spread.device)[which]
        return self.covariates.shift(design), spread

    # --- frames ---------------------------------------------------------------------------

    def shown(self, x: Tensor) -> Tensor:
        """Points of the prior's frame, in the pose."""
        return self.model.pose.points(self.manifold.uncenter(x, self.model.prior_root))

    def hidden(self, x: Tensor) -> Tensor:
        """Points of the pose, in the prior's frame."""
        return self.manifold.recenter(self.model.pose.back(x), self.model.prior_root)

    # --- rows -----------------------------------------------------------------------------

    def infer(self, data: Any, coded: Coded | None = None) -> Inferred:
        """Latents of rows; those of the training data are where the fit put them."""
        coded = self.coded(coded, data.shape[0])
        known = self.model.known(row_digests(data, coded.design))
        shift = self.model.units.shift(coded.design)
        if coded.fresh.any():
            shift = shift + self._new_shift(data, coded, shift)
        return self._inferred(data, coded, shift, known)

    def _inferred(self, data: Array, coded: Coded, shift: Array | float, known: Array) -> Inferred:
        """Latents of rows from which covariates take a shift of their residuals."""
        seen = self.model.units.to_model(data, shift)
        observed = torch.from_numpy(seen.observed).to(self.device, torch.float64)
        effects, spread = self.effects(coded)
        rows = torch.from_numpy(seen.values).to(self.device)
        if self.covariates is not None:
            rows = (rows - effects) * observed
        noise = None if seen.noise is None else torch.from_numpy(seen.noise).to(self.device)
        if spread is not None:
            noise = (self.model.noise if noise is None else noise) + spread
        x, std = self._placed(rows, observed, noise, coded, known)
        return Inferred(
            rows,
            observed,
            x,
            std,
            known,
            noise,
            seen.beyond,
            coded,
            squares=seen.squares,
            counts_beyond=seen.counts,
        )

    def _placed(
        self, rows: Tensor, observed: Tensor, noise: Tensor | None, coded: Coded, known: Array
    ) -> tuple[Tensor, Tensor | None]:
        """Latents, and deviations of Bayesian models; `known` rows keep their own."""
        at = torch.from_numpy(known).to(self.device)
        x, std = self.latents[at], None
        if self.model.variational and self.model.std is not None:
            std = self.model.std[at]
        for members, inference in self.groups(coded):
            new = members[at[members] < 0]
            if not len(new):
                continue
            with threads_for_rows(len(new)):
                own = None if noise is None else noise[new]
                found = inference.infer(rows[new], observed[new], own)
            x[new] = found.latents
            if std is not None:
                std[new] = found.logs["std"].exp()
        return x, std

    def _new_shift(self, data: Array, coded: Coded, shift: Array | float) -> Array:
        """Shift of the residuals of a new batch [n, D]; 0 for rows of those that are known.

        In turn, the shift is the mean of what the rows' places leave unexplained, and the rows are
        placed without it. It is shrunk, by the size of the shifts that the fit saw.
        """
        assert self.covariates is not None
        units, fresh = self.model.units, coded.fresh
        own = coded.some(fresh)
        before = shift[fresh] if isinstance(shift, np.ndarray) else shift
        residuals = units.mean.residuals(data[fresh]) - before
        nothing = np.full(len(residuals), -1)
        variance = self._shift_variance()
        expected: Array | float = 0.0
        found = np.zeros(residuals.shape[1])
        for _ in range(SHIFT_ROUNDS):
            found = shrunk_mean(residuals - expected, variance)
            placed = self._inferred(data[fresh], own, before + found, nothing)
            expected = units.residuals(self.function(placed.x, own))
        whole = np.zeros((len(fresh), len(found)))
        whole[fresh] = found
        return whole

    def _shift_variance(self) -> Array:
        """Variance [D], over the training rows, of what covariates do to each column."""
        assert self.covariates is not None
        units = self.model.units
        effects = units.residuals(self.covariates.mean)
        if units.effects is not None:
            effects = effects + units.effects
        weights = self.covariates.design_covariance.cpu().numpy()
        return np.maximum(((weights @ effects) * effects).sum(0), 0.0)

    def function(self, x: Tensor, coded: Coded) -> Tensor:
        """Decode functions [n, r] at points, for rows with these tags, without linear effects."""
        return self._function(x, coded)[0]

    def _function(self, x: Tensor, coded: Coded, *, smooth: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance of each entry, the noise of a new row included."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for rows, inference in self.groups(coded):
            moments = inference.decode if smooth else inference.predict
            parts.append((rows, *moments(x[rows])))
        order = torch.cat([rows for rows, _, _ in parts]).argsort()
        mean, variance = (torch.cat([part[i] for part in parts])[order] for i in (1, 2))
        return mean, variance

    def covariances(self, found: Inferred) -> Array:
        """Posterior covariances [n, Q, Q] of inferred latents, in the pose."""
        model, positions = self.model, self.model.positions
        x = self.manifold.uncenter(found.x, model.prior_root)  # in the frame of the fit
        points, tagged = model.latents, x
        if isinstance(positions.covariance.manifold, Tagged):
            assert self.covariates is not None
            points = self.covariates.tagged(points)
            tagged = torch.cat([x, torch.from_numpy(found.coded.tags).to(x)], dim=1)
        noise = torch.full_like(x[:, 0], model.noise) if found.noise is None else found.noise
        observed = found.observed.mean(1)
        with threads_for_rows(len(x)):
            own = positions.own_at(points, tagged, noise, observed)
            modes = positions.modes_at(model.latents, x)
            # a row of which nothing is known has the prior's
            modes = modes * (observed > 0)[:, None, None]
            covariance = own + modes @ modes.mT
        turned = model.pose.covariances(x, covariance)
        return model.units.latent**2 * turned.cpu().numpy()

    def off_map(self, found: Inferred) -> Array:
        """p-value of each row: the share of training rows that are as unusual."""
        model = self.model
        mean, variance = self._function(found.x, found.coded)
        noise = torch.full_like(found.x[:, 0], model.noise) if found.noise is None else found.noise
        spread = (variance - model.noise).clamp_min(0.0) + noise[:, None]
        residuals = (found.rows - mean) * found.observed / spread.sqrt()
        x = self.manifold.uncenter(found.x, model.prior_root)
        p = model.off_map.p_values(
            self.manifold, model.latents, x, residuals, self.rest(found), self._sizes(found)
        )
        p[found.observed.sum(1) == 0] = 1.0  # of which nothing is known
        return np.asarray(p.cpu().numpy())

    def rest(
        self,
        found: Inferred,
        degrees: float = 0.0,
        errors: Tensor | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Logarithm of what the model does not see of rows, of an entry: [n].

        Training rows have lost a share of it to the fit, their `degrees`; of counts, `errors` are
        the residuals of their scores, each of which was predicted without itself.
        """
        if found.squares is not None and found.counts_beyond is not None:
            squares, counts = (
                torch.from_numpy(part).to(self.latents)
                for part in (found.squares, found.counts_beyond)
            )
            return log_rest(squares, counts, degrees)
        axes = self.model.off_map.axes
        if axes.shape[0] == axes.shape[1]:  # nothing is left
            return torch.zeros_like(found.x[:, 0])
        mean, variance = self._function(found.x, found.coded)
        residuals = (found.rows - mean) * found.observed
        along = residuals @ axes
        squares = (residuals.square().sum(1) - along.square().sum(1)).clamp_min(0.0)
        return log_rest(squares / variance.mean(1), found.observed.sum(1), degrees)

    def _sizes(self, found: Inferred) -> Tensor | None:  # noqa: ARG002
        """Logarithms of the sizes of libraries, of counts."""
        return None

    def referred(self, data: Any, coded: Coded | None) -> OffMap:
        """Complete what training rows leave unexplained by what is beyond: `data` are theirs."""
        off_map = self.model.off_map
        found = self.infer(data, coded)
        lost = (self.latents.shape[1] + off_map.axes.shape[0]) / len(self.latents)
        return off_map.with_rest(self.rest(found, lost, off_map.errors), self._sizes(found))

    def log_density(self, found: Inferred) -> float:
        """Mean log density of rows at their latents, in the units of the data."""
        density = torch.zeros(len(found.x), dtype=torch.float64, device=self.device)
        for rows, inference in self.groups(found.coded):
            noise = None if found.noise is None else found.noise[rows]
            with threads_for_rows(len(rows)):
                density[rows] = inference.log_density(
                    found.rows[rows], found.observed[rows], found.x[rows], noise
                )
        return float(density.mean().item() + found.beyond.mean())

    # --- decoding -------------------------------------------------------------------------

    def decode(self, x: Tensor, coded: Coded | None = None) -> tuple[Array, Array]:
        """Mean and standard deviation of rows at points of the prior's frame, in data units."""
        coded = self.coded(coded, len(x))
        units, noise = self.model.units, self.model.noise
        with threads_for_rows(len(x)):
            mean, variance = self._function(x, coded, smooth=True)
            variance = (variance - noise).clamp_min(0.0)
            effects, spread = self.effects(coded)
            if spread is not None:
                mean, variance = mean + effects, variance + spread[:, None]
            # what is less known than at the rows themselves is no matter of their residuals
            usual = variance.clamp_max(self._usual_variance)
            spread_near = units.variances(usual, noise) * self.residuals.at(x)
            spread_beyond = units.variances(variance - usual, 0.0) * self.residuals.whole
            std = (spread_near + spread_beyond).sqrt()
        return units.rows(mean, std, units.shift(coded.design))

    @cached_property
    def _usual_variance(self) -> float:
        """Variance of the decoded functions that hardly any training row exceeds."""
        chosen = torch.randperm(len(self.latents), generator=torch.Generator().manual_seed(0))
        some = self.latents[chosen[:USUAL_ROWS].to(self.device)]
        _, variance = self._function(some, self.coded(None, len(some)), smooth=True)
        return float((variance - self.model.noise).clamp_min(0.0).quantile(USUAL_SHARE))

    def sample(self, rows: Array, zeta: Array, random: np.random.RandomState) -> Array:
        """Draw rows at latents drawn around those of training rows [n], of the same batches.

        `zeta` [n, Q] are standard normal numbers.
        """
        mean, std = self.decode(*self._drawn(rows, zeta))
        return np.asarray(mean + std * random.standard_normal(mean.shape))

    def _drawn(self, rows: Array, zeta: Array) -> tuple[Tensor, Coded]:
        """Latents around those of training rows, and covariates of these rows."""
        at, standard = (torch.from_numpy(a).to(self.device) for a in (rows, zeta))
        coded = self._training(rows)
        latents = self.model.latents[at]  # in the frame of the fit
        root = torch.linalg.cholesky(self.model.positions.own[at])
        x = self.manifold.displaced(latents, (root @ standard.unsqueeze(-1)).squeeze(-1))
        x = self.manifold.recenter(x, self.model.prior_root)
        return self.manifold.inside(x), coded

    def _training(self, rows: Array) -> Coded:
        """Covariates of training rows; continuous ones are at their means."""
        if self.covariates is None:
            return self.coded(None, len(rows))
        coding = self.covariates.coding
        tags = self.covariates.tags.cpu().numpy()[rows]
        parts, start = [], 0
        for part in coding.parts:
            if part.levels is None:
                parts.append(np.zeros((len(rows), 1)))
            else:
                parts.append(tags[:, start : start + part.width] - part.middle)
                start += part.width
        return Coded(np.concatenate(parts, axis=1), tags, np.zeros(len(rows), dtype=bool))

    # --- trends -------------------------------------------------------------------------

    def base(self, x: Tensor) -> Array:
        """Rows that are decoded at points [n, D], a mean over batches; of counts logarithms."""
        return self.decode(x)[0]

    def loading_variances(self, change: Tensor) -> Array:
        """Variance [k, D] of a change of the functions [k, r] in the columns, from their loadings.

        Loadings V of the signal were estimated from N rows: of a column with the noise variance b,
        they have the covariance ``b (SᵀS)⁻¹``.
        """
        units = self.model.units
        if units.signal is None:
            return np.zeros((len(change), self.model.off_map.axes.shape[0]))
        scores = self._training_functions()
        gram = scores.mT @ scores + 1e-9 * torch.eye(scores.shape[1]).to(scores)
        shape = (change * torch.linalg.solve(gram, change.mT).mT).sum(1).clamp_min(0.0)
        noise = self.model.noise * units.data**2 * np.square(units.signal.scale)
        return np.asarray(shape.cpu().numpy()[:, None] * noise)

    def _training_functions(self) -> Tensor:
        """Decode all training latents [N, r]."""
        return self.function(self.latents, self.coded(None, len(self.latents)))

    def shifts(self, coded: Coded | None, columns: Array) -> Array | None:
        """Return what covariates do to some columns of rows [n, m]; None without covariates."""
        if self.covariates is None or coded is None:
            return None
        design = torch.from_numpy(coded.design).to(self.latents)
        units = self.model.units
        linear = units.residuals(self.covariates.shift(design))
        whole = linear + units.shift(coded.design)
        return np.asarray(whole[:, columns])

    # --- what covariates explain ----------------------------------------------------------

    def explained(self) -> dict[str, float]:
        """Share of the variance of the rows without noise that each covariate has.

        Of linear effects, and of the functions that batches have to themselves. The latents have
        the rest. Columns count in units of their noise.
        """
        assert self.covariates is not None
        effects, loadings, noise = self._columns()
        n = len(self.latents)
        chosen = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:EXPLAINED_ROWS]
        x, own = self.latents[chosen.to(self.device)], self._training(chosen.numpy())
        mean = self.covariates.coding.averaged(len(x)).tags
        common = self.function(x, Coded(own.design, mean, own.fresh))
        gram = loadings @ loadings.mT

        def size(functions: Tensor) -> float:
            return float(((functions @ gram) * functions).sum() / len(functions))

        found, column, tag = {}, 0, 0
        weights = self.covariates.design_covariance
        for part in self.covariates.coding.parts:
            some = slice(column, column + part.width)
            column += part.width
            linear = float(((weights[some, some] @ effects[some]) * effects[some]).sum())
            # what noise alone would leave in effects that are estimated
            linear -= noise * effects.shape[1] * max(part.width - 1, 1) / n
            beside = 0.0
            if part.levels is not None:
                tags = mean.copy()
                tags[:, tag : tag + part.width] = own.tags[:, tag : tag + part.width]
                tag += part.width
                beside = size(self.function(x, Coded(own.design, tags, own.fresh)) - common)
            found[part.name] = max(linear, 0.0) + beside
        total = sum(found.values()) + size(common - common.mean(0))
        return {name: value / max(total, 1e-300) for name, value in found.items()}

    def _columns(self) -> tuple[Tensor, Tensor, float]:
        """Effects [q, D] and loadings of the model's numbers [r, D] in scaled columns.

        And the noise variance there.
        """
        assert self.covariates is not None
        units, beta = self.model.units, self.covariates.mean
        loadings = torch.eye(beta.shape[1], dtype=beta.dtype, device=beta.device)
        scale: Array | float = 1.0
        if units.signal is not None:
            loadings, scale = units._loadings(beta), units.signal.scale
        effects = units.data * beta @ loadings
        if units.effects is not None:
            effects = effects + torch.from_numpy(units.effects / scale).to(beta)
        return effects, units.data * loadings, self.model.noise * units.data**2


def shrunk_mean(rows: Array, variance: Array) -> Array:
    """Means of columns [D] of this prior variance around 0; NaN is a missing entry."""
    count = np.maximum((~np.isnan(rows)).sum(0), 1)
    mean = np.nansum(rows, axis=0) / count
    own = np.nansum(np.square(rows - mean), axis=0) / count
    # of a single row nothing is known of how rows scatter: its own square stands for that
    own = np.where(count > 1, own * count / np.maximum(count - 1, 1), np.square(mean))
    return np.asarray(mean * variance / np.maximum(variance + own / count, 1e-300))
