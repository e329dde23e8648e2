"""The one fit loop: steps, history, stop rules, progress, interruption, checkpoints.

The state of a fit after a step is a plain tree of arrays and numbers (:class:`Snapshots`): the
parameters, the evaluation there, the best ones, the state of the optimiser, the draws and the
random state of the objective, and the history. A fit that continues from such a tree makes the same
steps, to the last bit, as one that was never interrupted.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from hgplvm._progress import progress
from hgplvm._stops import StopReason
from hgplvm.errors import FitInterruptedWarning
from hgplvm.objectives import Evaluation, KeptObjective, Parameters
from hgplvm.optim import Optimizer, Step

__all__ = ["FitResult", "FitState", "Snapshots", "fit"]

# improvement is judged over this many steps, so that one short step does not end a fit
WINDOW = 10
# the objective has hardly risen over the last third of all steps where that is less than this share
# of its whole rise
LITTLE = 0.01
# a gradient has vanished when a step of length 1 along it would rise by less than this share of tol
VANISHED = 1e-3


@dataclass(frozen=True)
class FitState:
    """What a callback sees after each step.

    Attributes
    ----------
    iteration : int
        Steps made.
    numbers : dict of str to float
        The row that goes into the history: ``objective``, ``seconds``, ``gradient_norm``,
        ``step_size``, and the model's positive parameters, all in units of the data.
    latents : Tensor
        Current latents on the manifold.
    """

    iteration: int
    numbers: dict[str, float]
    latents: torch.Tensor

    @property
    def objective(self) -> float:
        """Log likelihood, or bound, after this step."""
        return self.numbers["objective"]


@dataclass(frozen=True)
class FitResult:
    """Where a fit ended, how it got there, and why it stopped."""

    parameters: Parameters
    value: float
    history: dict[str, np.ndarray[Any, np.dtype[np.float64]]]
    n_iter: int
    stop: StopReason
    max_iter: int

    @property
    def stop_reason(self) -> str:
        """Why it stopped, as a sentence."""
        return self.stop.text(n_iter=self.n_iter, max_iter=self.max_iter)


class Snapshots(Protocol):
    """Where a fit's state goes."""

    def load(self) -> dict[str, Any] | None:
        """Return the state to go on from, tensors on their device; None to begin anew."""

    def save(self, state: dict[str, Any], *, now: bool) -> None:
        """Take a state; without `now`, it may be too early to write it."""


def fit(
    objective: KeptObjective,
    parameters: Parameters,
    optimizer: Optimizer,
    *,
    max_iter: int,
    tol: float,
    describe: Callable[[float, Parameters], dict[str, float]] | None = None,
    callback: Callable[[FitState], object] | None = None,
    verbose: int = 0,
    snapshots: Snapshots | None = None,
) -> FitResult:
    """Maximise an objective from `parameters`.

    Parameters
    ----------
    max_iter : int
        Most steps to make.
    tol : float
        Stop when the objective rises by less than this, per data entry and step, over ten steps (an
        optimiser that is not monotone has its own rule), or when its gradient vanishes.
    describe : callable, optional
        Turns a value and parameters into the numbers to report, ``objective`` among them, for
        models whose objective sees scaled data. By default the value as it is.
    callback : callable, optional
        Called with a :class:`FitState` after each step; a true value stops the fit.
    verbose : int
        1 or more: a progress bar with the objective and the time left.
    snapshots : Snapshots, optional
        Takes the state after each step, and has the one to continue from. A fit that has ended is
        not repeated; one that the callback or Ctrl-C ended is continued.

    Returns
    -------
    FitResult
        The best state that was seen, never worse than the start: also after Ctrl-C, with a warning.
        Values under different draws do not compare: a stochastic objective returns its last state,
        and its history holds means over the last ten draws.
    """
    log = _Log(describe or _plain, average=objective.stochastic)
    saved = snapshots.load() if snapshots is not None else None
    if saved is None:
        here = objective.evaluate(parameters)
        log.add(parameters, here, step_size=0.0)
        best, best_value = parameters, here.value
    else:
        objective.restore(saved["objective"])
        optimizer.load_state_dict(saved["optimizer"])
        log.restore(saved["log"])
        parameters, best = (_with(parameters, saved[k]) for k in ("parameters", "best"))
        here = Evaluation(saved["value"], saved["gradient"])
        best_value = saved["best_value"]
        if saved["stop"] is not None:
            stop = StopReason[saved["stop"]]
            return FitResult(best, best_value, log.arrays(), log.n_iter, stop, max_iter)

    def snapshot(reason: StopReason | None = None) -> dict[str, Any]:
        """State after a step; by reference, since nothing in it is changed in place."""
        return {
            "parameters": {"latents": parameters.latents, "logs": parameters.logs},
            "value": here.value,
            "gradient": here.gradient,
            "best": {"latents": best.latents, "logs": best.logs},
            "best_value": best_value,
            "objective": objective.state(),
            "optimizer": optimizer.state_dict(),
            "log": log.state(),
            "stop": None if reason is None else reason.name,
        }

    state = FitState(log.n_iter, log.last, parameters.latents)
    reason = StopReason.MAX_ITER
    last = snapshot() if snapshots is not None else None
    if snapshots is not None and last is not None and saved is None:
        snapshots.save(last, now=True)
    bar = progress(max_iter, what="fit", verbose=verbose, initial=log.n_iter)
    try:
        while log.n_iter < max_iter:
            step = optimizer.step(objective, parameters, here)
            parameters, here = step.parameters, step.evaluation
            if step.shift:
                best_value += step.shift
                log.shift(step.shift)
            if objective.stochastic or here.value > best_value:
                best, best_value = parameters, here.value
            state = log.add(parameters, here, step_size=step.size)
            arrived = _arrived(objective, optimizer, step, log, state, tol)
            if snapshots is not None:
                last = snapshot(arrived)
                snapshots.save(last, now=False)
            bar.set_postfix_str(f"objective {state.objective:.6g}", refresh=False)
            bar.update()
            if callback is not None and callback(state):
                reason = StopReason.CALLBACK
                break
            if arrived is not None:
                reason = arrived
                break
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    finally:
        bar.close()
    if reason is StopReason.MAX_ITER and log.flat:
        reason = StopReason.COMPLETE
    if snapshots is not None and last is not None:
        snapshots.save({**last, "stop": reason.name} if reason.final else last, now=True)
    result = FitResult(best, best_value, log.arrays(), log.n_iter, reason, max_iter)
    if reason is StopReason.INTERRUPTED:
        warnings.warn(
            f"The fit was {result.stop_reason}; the best state so far is returned.",
            FitInterruptedWarning,
            stacklevel=2,
        )
    return result


def _arrived(
    objective: KeptObjective,
    optimizer: Optimizer,
    step: Step,
    log: _Log,
    state: FitState,
    tol: float,
) -> StopReason | None:
    """Why the step that was just made is the last; None if it is not."""
    if step.stop is not None:
        return step.stop
    if objective.stochastic:
        return None
    if optimizer.monotone and log.settled(tol * objective.n_entries):
        return StopReason.CONVERGED
    if state.numbers["gradient_norm"] < VANISHED * tol * objective.n_entries:
        return StopReason.NO_GRADIENT
    return None


def _with(parameters: Parameters, saved: dict[str, Any]) -> Parameters:
    return Parameters(saved["latents"], saved["logs"], parameters.free)


def _plain(value: float, parameters: Parameters) -> dict[str, float]:  # noqa: ARG001
    return {"objective": value}


class _Log:
    """Columns of numbers, one row per step; row 0 is the start."""

    def __init__(
        self, describe: Callable[[float, Parameters], dict[str, float]], *, average: bool
    ) -> None:
        self._describe = describe
        self._recent: deque[float] = deque(maxlen=WINDOW if average else 1)
        self._started = time.perf_counter()
        self._rows: list[dict[str, float]] = []
        self._best: list[float] = []

    @property
    def n_iter(self) -> int:
        return len(self._rows) - 1

    @property
    def last(self) -> dict[str, float]:
        return self._rows[-1]

    def state(self) -> dict[str, Any]:
        return {"rows": list(self._rows), "recent": list(self._recent), "best": list(self._best)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state, the clock included."""
        self._rows, self._best = list(state["rows"]), list(state["best"])
        self._recent.extend(state["recent"])
        self._started = time.perf_counter() - self.last["seconds"]

    def add(self, parameters: Parameters, here: Evaluation, *, step_size: float) -> FitState:
        self._recent.append(here.value)
        numbers = {
            **self._describe(sum(self._recent) / len(self._recent), parameters),
            "seconds": time.perf_counter() - self._started,
            "gradient_norm": torch.linalg.vector_norm(here.gradient).item(),
            "step_size": step_size,
        }
        self._rows.append(numbers)
        self._best.append(max([here.value, *self._best[-1:]]))
        return FitState(self.n_iter, numbers, parameters.latents)

    def shift(self, difference: float) -> None:
        """Make earlier values comparable with those under a new draw."""
        self._best = [value + difference for value in self._best]

    def settled(self, smallest_rise: float) -> bool:
        """Whether the best value rose by less than this per step over the window."""
        if self.n_iter < WINDOW:
            return False
        return self._best[-1] - self._best[-1 - WINDOW] < WINDOW * smallest_rise

    @property
    def flat(self) -> bool:
        """Whether the last third of the steps added little to the whole rise."""
        objective = [row["objective"] for row in self._rows]
        if self.n_iter < 3 * WINDOW:
            return False
        before = objective[-1 - self.n_iter // 3]
        return objective[-1] - before <= LITTLE * (max(objective) - objective[0])

    def arrays(self) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        return {name: np.array([row[name] for row in self._rows]) for name in self._rows[0]}
