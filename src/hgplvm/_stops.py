"""Why a fit stops, and what to do about it."""

from __future__ import annotations

from enum import Enum

__all__ = ["StopReason"]


class StopReason(Enum):
    """Why a fit stopped; the value is its text, with the numbers of the fit to be filled in."""

    CONVERGED = "converged after {n_iter} steps: the objective rises less than tol"
    NO_GRADIENT = "converged after {n_iter} steps: the gradient vanishes"
    PAUSED = "stopped after {n_iter} steps: the objective rises less than tol"
    NO_STEP = (
        "stopped after {n_iter} steps: no step increases the objective; another optimizer or init "
        "may go further"
    )
    NOT_FINITE = (
        "stopped after {n_iter} steps: the objective is not finite around the current point; "
        "check the data for extreme values, or use dtype='float64'"
    )
    MAX_ITER = (
        "reached max_iter={max_iter} with the objective still rising; a larger max_iter may help"
    )
    COMPLETE = (
        "made all steps (max_iter={max_iter}); over the last third of them the objective hardly "
        "rose, so that more would change little"
    )
    ENOUGH = "made the {max_iter} steps that a fit of this model to noisy data takes"
    CALLBACK = "stopped by the callback after {n_iter} steps"
    INTERRUPTED = "interrupted from the keyboard after {n_iter} steps"

    def text(self, *, n_iter: int, max_iter: int) -> str:
        """Return the reason as a sentence of this fit."""
        return self.value.format(n_iter=n_iter, max_iter=max_iter)

    @property
    def final(self) -> bool:
        """Whether the fit is over, so that resuming it would change nothing."""
        return self not in (StopReason.CALLBACK, StopReason.INTERRUPTED)
