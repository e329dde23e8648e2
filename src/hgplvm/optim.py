"""Riemannian optimisers: gradient descent (the paper's), Adam, and L-BFGS.

All three maximise an objective over :class:`~hgplvm.objectives.Parameters`. They see plain flat
vectors, the coordinates of gradients in the transported frames (orthonormal, so the metric is the
identity) followed by the logarithms of the free parameters; a step is taken with the exponential
map, so that a step of a given length covers the same distance everywhere on the manifold.

An optimiser makes one step at a time and keeps its own state; the loop is
:func:`hgplvm.fit.fit`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from hgplvm._stops import StopReason
from hgplvm.errors import NotPositiveDefiniteError
from hgplvm.objectives import Evaluation, Objective, Parameters

__all__ = ["LBFGS", "Adam", "GradientDescent", "Optimizer", "Step", "climb"]


@dataclass(frozen=True)
class Step:
    """Outcome of one step: where it led, and why no further step is possible, if so.

    Where an objective was drawn anew in the step, earlier values compare with later ones after
    `shift`, the difference that the draw made, is added to them.
    """

    parameters: Parameters
    evaluation: Evaluation
    size: float
    stop: StopReason | None = None
    shift: float = 0.0


class Optimizer(Protocol):
    """Makes steps that increase an objective.

    A `monotone` one never decreases the objective, so that it has converged when the value no
    longer rises.
    """

    @property
    def monotone(self) -> bool:
        """Whether no step leads down."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes from step to step."""

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Go on from what :meth:`state_dict` returned."""

    def step(self, objective: Objective, parameters: Parameters, here: Evaluation, /) -> Step:
        """One step from `parameters`, where the objective evaluates to `here`."""


def climb(
    objective: Objective,
    parameters: Parameters,
    optimizer: Optimizer,
    n_steps: int,
    *,
    after: Callable[[], object] = lambda: None,
) -> Parameters:
    """Make some steps and return the best state: a fit within a fit, which Ctrl-C may break off.

    `after` is called after each step.
    """
    here = objective.evaluate(parameters)
    best, best_value = parameters, here.value
    for _ in range(n_steps):
        step = optimizer.step(objective, parameters, here)
        parameters, here = step.parameters, step.evaluation
        best_value += step.shift
        if here.value > best_value:
            best, best_value = parameters, here.value
        after()
        if step.stop is not None:
            break
    return best


def _evaluate(objective: Objective, parameters: Parameters) -> Evaluation | None:
    """Evaluate at a trial point; None where the objective has no finite value or gradient."""
    try:
        evaluation = objective.evaluate(parameters)
    except NotPositiveDefiniteError:
        return None
    return evaluation if evaluation.finite else None


def _begin(
    objective: Objective, parameters: Parameters, here: Evaluation
) -> tuple[Evaluation, float]:
    """Begin a step that compares values: all of them under the same draw. And what it changed."""
    if not objective.advance(parameters):
        return here, 0.0
    again = _evaluate(objective, parameters)
    if again is None:  # not under this draw: the old one's gradient still points up
        return here, 0.0
    return again, again.value - here.value


def _shift(objective: Objective, parameters: Parameters, here: Evaluation) -> float:
    """Return what a new draw changed at the point where `here` was evaluated."""
    try:
        shift = objective.value(parameters) - here.value
    except NotPositiveDefiniteError:
        return 0.0
    return shift if math.isfinite(shift) else 0.0


def _row_norms(vector: Tensor, parameters: Parameters) -> tuple[Tensor, int]:
    """Norms of the latents' rows in a flat vector, and where the rest begins."""
    n_free = sum(parameters.logs[name].numel() for name in parameters.free)
    n_frame = vector.numel() - n_free
    rows = vector[:n_frame].reshape(parameters.latents.shape[0], -1)
    return torch.linalg.vector_norm(rows, dim=1), n_frame


@dataclass
class GradientDescent:
    """Riemannian gradient descent, the paper's Algorithm 1, with the rules of its code.

    Each row's gradient is shortened to length 1 where it is longer, and so is that of each positive
    parameter (taken on the parameter itself, not on its logarithm, and kept above `smallest`).
    A step that does not increase the objective is not taken, and the rate falls to a tenth.
    """

    learning_rate: float = 1e-2
    smallest: float = 1e-10
    monotone: ClassVar[bool] = True

    def step(self, objective: Objective, parameters: Parameters, here: Evaluation) -> Step:
        """One step of length `learning_rate` times the clipped gradient."""
        here, shift = _begin(objective, parameters, here)
        norms, n_frame = _row_norms(here.gradient, parameters)
        rows = here.gradient[:n_frame].reshape(norms.numel(), -1) / norms.clamp_min(1.0)[:, None]
        logs = torch.cat([parameters.logs[name].reshape(-1) for name in parameters.free])
        values = logs.exp()
        slopes = (here.gradient[n_frame:] / values).clamp(-1.0, 1.0)  # ∂F/∂v = ∂F/∂log v / v
        moved = (values + self.learning_rate * slopes).clamp_min(self.smallest)
        move = torch.cat([self.learning_rate * rows.reshape(-1), moved.log() - logs])

        candidate = parameters.moved(objective.manifold, move)
        evaluation = _evaluate(objective, candidate)
        if evaluation is not None and evaluation.value > here.value:
            return Step(candidate, evaluation, self.learning_rate, shift=shift)
        self.learning_rate *= 0.1
        stop = StopReason.NO_STEP if self.learning_rate < 1e-12 else None
        return Step(parameters, here, 0.0, stop, shift)

    def state_dict(self) -> dict[str, Any]:
        """Return the rate."""
        return {"learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with this rate."""
        self.learning_rate = state["learning_rate"]


@dataclass
class Adam:
    """Riemannian Adam in the frame: momentum for every coordinate, one scale for every row.

    The second moment is shared by the coordinates of a row, so that the path does not depend on
    how the frames are turned. The rate falls to 0 along a cosine over `horizon` steps: the kernel's
    cusps make the objective rough at every scale, and a constant rate would not converge. Unlike
    a line search, which stops at the first cusp, a step of Adam passes over it.

    Where the objective can be compared between steps the rate falls sooner: it is cut each time
    that the best value has risen by less than `smallest_rise` per step over a few steps, and after
    the last cut the fit ends when this happens again.

    Parameters
    ----------
    learning_rate, log_rate : float
        First step length of a row, and of a logarithm.
    horizon : int
        Steps after which the rate is 0.
    smallest_rise : float
        Rise per step below which the rate is cut; 0 follows the cosine to its end.
    """

    learning_rate: float = 2e-2
    horizon: int = 300
    log_rate: float = 6e-2
    smallest_rise: float = 0.0
    monotone: ClassVar[bool] = False
    betas: tuple[float, float] = (0.9, 0.99)
    patience: ClassVar[int] = 6
    cut: ClassVar[float] = 0.3
    max_cuts: ClassVar[int] = 2
    _count: int = 0
    _cuts: int = 0
    _best: deque[float] = field(default_factory=deque)
    _first: Tensor | None = None
    _second: Tensor | None = None

    def step(self, objective: Objective, parameters: Parameters, here: Evaluation) -> Step:
        """One step of about `learning_rate` in every row."""
        norms, n_frame = _row_norms(here.gradient, parameters)
        width = n_frame // norms.numel()
        squares = here.gradient.square()
        squares[:n_frame] = (norms.square() / width).repeat_interleave(width)
        if self._first is None or self._second is None:
            self._first = torch.zeros_like(squares)
            self._second = torch.zeros_like(squares)
        self._count += 1
        first, second = self.betas
        self._first = torch.lerp(here.gradient, self._first, first)
        self._second = torch.lerp(squares, self._second, second)
        mean = self._first / (1.0 - first**self._count)
        scale = torch.sqrt(self._second / (1.0 - second**self._count))
        # where squares underflow the direction is unknown
        direction = torch.where(
            scale > torch.finfo(scale.dtype).tiny ** 0.5, mean / scale, torch.zeros_like(mean)
        )

        if self._paused(objective, here.value):
            return Step(parameters, here, 0.0, StopReason.PAUSED)
        progress = min((self._count - 1) / self.horizon, 1.0)
        share = self.cut**self._cuts * 0.5 * (1.0 + math.cos(math.pi * progress))
        shift = 0.0
        for _ in range(20):
            move = share * direction
            move[:n_frame] *= self.learning_rate
            move[n_frame:] *= self.log_rate
            candidate = parameters.moved(objective.manifold, move)
            # the next step sees the next draw: one evaluation a step
            if objective.advance(candidate) and not objective.stochastic:
                shift = _shift(objective, parameters, here)
            evaluation = _evaluate(objective, candidate)
            if evaluation is not None:
                self._best = deque(best + shift for best in self._best)
                return Step(candidate, evaluation, share * self.learning_rate, shift=shift)
            share *= 0.5
        return Step(parameters, here, 0.0, StopReason.NOT_FINITE)

    def state_dict(self) -> dict[str, Any]:
        """Return moments, counts, and the best values since the last cut."""
        return {
            "learning_rate": self.learning_rate,
            "count": self._count,
            "cuts": self._cuts,
            "best": list(self._best),
            "first": self._first,
            "second": self._second,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self.learning_rate, self._best = state["learning_rate"], deque(state["best"])
        self._count, self._cuts = state["count"], state["cuts"]
        self._first, self._second = state["first"], state["second"]

    def _paused(self, objective: Objective, value: float) -> bool:
        """Cut the rate where the objective stops rising; return whether the fit should end."""
        if objective.stochastic or not self.smallest_rise > 0:
            return False
        self._best.append(max([value, *list(self._best)[-1:]]))
        if len(self._best) <= self.patience:
            return False
        if self._best[-1] - self._best.popleft() >= self.patience * self.smallest_rise:
            return False
        self._cuts += 1
        self._best.clear()
        return self._cuts > self.max_cuts


@dataclass
class LBFGS:
    """Riemannian L-BFGS with a strong Wolfe line search along geodesics.

    Curvature pairs are kept in frame coordinates. The new pair is parallel transported along the
    step, so that the Wolfe condition makes its curvature positive; older pairs keep their frame
    coordinates, which is an isometric transport too.

    Parameters
    ----------
    memory : int
        Number of curvature pairs.
    max_move : float
        No row moves further than this in one step, and no logarithm by more.
    """

    memory: int = 10
    max_move: float = 1.0
    first_move: float = 0.05
    max_evaluations: int = 20
    monotone: ClassVar[bool] = True
    _pairs: deque[tuple[Tensor, Tensor, float]] = field(default_factory=deque)

    def step(self, objective: Objective, parameters: Parameters, here: Evaluation) -> Step:
        """One quasi-Newton step."""
        here, shift = _begin(objective, parameters, here)
        return replace(self._step(objective, parameters, here), shift=shift)

    def _step(self, objective: Objective, parameters: Parameters, here: Evaluation) -> Step:
        direction = self._direction(here.gradient)
        slope = torch.dot(direction, here.gradient).item()
        if not slope > 0:
            self._pairs.clear()
            direction = here.gradient
            slope = torch.dot(direction, direction).item()
        if slope == 0:
            return Step(parameters, here, 0.0, StopReason.NO_GRADIENT)
        norms, n_frame = _row_norms(direction, parameters)
        longest = max(norms.amax().item(), *direction[n_frame:].abs().tolist(), 1e-300)
        first = self.first_move / longest if not self._pairs else 1.0
        limit = self.max_move / longest

        search = _LineSearch(objective, parameters, here, direction, slope)
        found = search.run(min(first, limit), limit, self.max_evaluations)
        if found is None:
            if self._pairs:  # the memory misled: once more along the gradient
                self._pairs.clear()
                return self._step(objective, parameters, here)
            return Step(parameters, here, 0.0, StopReason.NO_STEP)
        step = found.step * direction
        carried_step = parameters.transported(objective.manifold, step, found.parameters)
        carried_gradient = parameters.transported(
            objective.manifold, here.gradient, found.parameters
        )
        self._remember(carried_step, carried_gradient - found.evaluation.gradient)
        return Step(found.parameters, found.evaluation, found.step * longest)

    def state_dict(self) -> dict[str, Any]:
        """Return the curvature pairs."""
        return {"pairs": list(self._pairs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with these curvature pairs."""
        self._pairs = deque((s, y, curvature) for s, y, curvature in state["pairs"])

    def _remember(self, s: Tensor, y: Tensor) -> None:
        curvature = torch.dot(s, y).item()
        if curvature > 1e-10 * torch.dot(y, y).item() ** 0.5 * torch.dot(s, s).item() ** 0.5:
            self._pairs.append((s, y, curvature))
            if len(self._pairs) > self.memory:
                self._pairs.popleft()

    def _direction(self, gradient: Tensor) -> Tensor:
        """Two-loop recursion: ``-H⁻¹ g`` of the negated objective."""
        direction = gradient.clone()
        weights = []
        for s, y, curvature in reversed(self._pairs):
            weight = torch.dot(s, direction).item() / curvature
            direction.add_(y, alpha=-weight)
            weights.append(weight)
        if self._pairs:
            _, y, curvature = self._pairs[-1]
            direction.mul_(curvature / torch.dot(y, y).item())
        for (s, y, curvature), weight in zip(self._pairs, reversed(weights), strict=True):
            direction.add_(s, alpha=weight - torch.dot(y, direction).item() / curvature)
        return direction


@dataclass(frozen=True)
class _Trial:
    """A point on the search curve ``φ(t) = F(Exp(t·direction))``, with its slope φ'(t)."""

    step: float
    value: float
    slope: float
    parameters: Parameters
    evaluation: Evaluation


@dataclass
class _LineSearch:
    """Search along a geodesic for a step that satisfies the strong Wolfe conditions."""

    objective: Objective
    parameters: Parameters
    here: Evaluation
    direction: Tensor
    slope: float
    sufficient: float = 1e-4
    curvature: float = 0.9

    def run(self, step: float, limit: float, max_evaluations: int) -> _Trial | None:
        """Return a Wolfe point, else the best increase that was seen, else None.

        `low` always increases enough and climbs; `high`, once there is one, is too long (too low,
        falling, or without a finite value), so a maximum lies between.
        """
        low = _Trial(0.0, self.here.value, self.slope, self.parameters, self.here)
        high: _Trial | float | None = None
        best: _Trial | None = None
        for _ in range(max_evaluations):
            trial = self._try(step)
            if trial is None:
                high = step
            else:
                if trial.value > (best.value if best else self.here.value):
                    best = trial
                enough = self.here.value + self.sufficient * step * self.slope
                if trial.value < max(enough, low.value):
                    high = trial
                elif abs(trial.slope) <= self.curvature * self.slope:
                    return trial
                elif trial.slope < 0:
                    high = trial
                else:
                    low = trial
            if high is None:
                if step >= limit:
                    return best
                step = min(4.0 * step, limit)
            else:
                end = high if isinstance(high, float) else high.step
                if end - low.step <= 1e-9 * end:
                    return best
                step = _between(low, high)
        return best

    def _try(self, step: float) -> _Trial | None:
        moved = self.parameters.moved(self.objective.manifold, step * self.direction)
        evaluation = _evaluate(self.objective, moved)
        if evaluation is None:
            return None
        along = self.parameters.transported(self.objective.manifold, self.direction, moved)
        slope = torch.dot(along, evaluation.gradient).item()
        return _Trial(step, evaluation.value, slope, moved, evaluation)


def _between(low: _Trial, high: _Trial | float) -> float:
    """Next trial between two steps: the maximum of the cubic, kept away from the ends."""
    if isinstance(high, float):
        return low.step + 0.1 * (high - low.step)
    width = high.step - low.step
    # the cubic with these values and slopes (signs as for minimising -φ)
    mean = 3.0 * (high.value - low.value) / width - low.slope - high.slope
    square = mean * mean - low.slope * high.slope
    if square >= 0:
        root = square**0.5
        denominator = low.slope - high.slope + 2.0 * root
        if denominator > 0:
            t = high.step - width * (root - high.slope - mean) / denominator
            return min(max(t, low.step + 0.1 * width), high.step - 0.1 * width)
    return low.step + 0.5 * width
