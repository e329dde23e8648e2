"""The fit loop: history, reasons to stop, interruption."""

import numpy as np
import pytest
import torch

from hgplvm._stops import StopReason
from hgplvm.errors import FitInterruptedWarning
from hgplvm.fit import WINDOW, fit
from hgplvm.manifolds import Flat
from hgplvm.objectives import Evaluation, Parameters
from hgplvm.optim import Step

FLAT = Flat()


class Scripted:
    """An optimiser that visits these values in turn, and an objective that has them."""

    manifold = FLAT
    n_entries = 1
    stochastic = False

    def advance(self, p):
        return False

    def __init__(self, values, monotone=True, interrupt_at=None, stall_at=None):
        self.values, self.monotone = values, monotone
        self.interrupt_at, self.stall_at = interrupt_at, stall_at
        self.count = 0

    def value(self, p):
        return self.values[int(p.latents[0, 0])]

    def evaluate(self, p):
        return Evaluation(self.value(p), torch.ones(1))

    def step(self, objective, p, here):
        self.count += 1
        if self.count == self.interrupt_at:
            raise KeyboardInterrupt
        there = at(self.count)
        stop = StopReason.NO_STEP if self.count == self.stall_at else None
        return Step(there, self.evaluate(there), 1.0, stop)


def at(index):
    return Parameters(torch.tensor([[float(index)]]), {}, ())


def run(script, **options):
    return fit(script, at(0), script, **{"max_iter": len(script.values) - 1, "tol": 0.0, **options})


def test_history_has_a_row_for_the_start_and_each_step():
    result = run(Scripted([0.0, 1.0, 2.0, 3.0]))
    assert result.n_iter == 3
    assert set(result.history) == {"objective", "seconds", "gradient_norm", "step_size"}
    assert result.history["objective"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (np.diff(result.history["seconds"]) >= 0).all()
    assert "max_iter=3" in result.stop_reason


def test_the_best_state_is_returned_even_if_a_later_one_is_worse():
    result = run(Scripted([0.0, 5.0, 2.0], monotone=False))
    assert result.value == 5.0
    assert result.parameters.latents.item() == 1.0


def test_never_worse_than_the_start():
    result = run(Scripted([4.0, 1.0, 2.0], monotone=False))
    assert result.value == 4.0
    assert result.parameters.latents.item() == 0.0


def test_a_pause_ends_a_monotone_fit_and_no_other():
    values = [0.0, *np.linspace(1.0, 1.0 + 1e-9, 40)]
    assert "converged" in (result := run(Scripted(values), tol=1e-6)).stop_reason
    assert result.n_iter == WINDOW + 1
    assert run(Scripted(values, monotone=False), tol=1e-6).n_iter == 40


def test_the_callback_sees_each_step_and_can_stop():
    seen = []

    def callback(state):
        seen.append((state.iteration, state.objective))
        return state.objective > 1.5

    result = run(Scripted([0.0, 1.0, 2.0, 3.0]), callback=callback)
    assert seen == [(1, 1.0), (2, 2.0)]
    assert "callback" in result.stop_reason


def test_an_optimiser_that_stalls_says_why():
    assert "no step increases" in run(Scripted([0.0, 1.0, 2.0], stall_at=1)).stop_reason


def test_ctrl_c_returns_the_best_so_far_with_a_warning():
    with pytest.warns(FitInterruptedWarning, match="after 2 steps; the best state so far"):
        result = run(Scripted([0.0, 7.0, 3.0, 9.0], monotone=False, interrupt_at=3))
    assert result.value == 7.0
    assert "interrupted" in result.stop_reason


def test_numbers_are_reported_in_the_units_that_describe_gives():
    def describe(value, p):
        return {"objective": 10 * value, "index": p.latents.item()}

    result = run(Scripted([0.0, 1.0]), describe=describe)
    assert result.history["objective"].tolist() == [0.0, 10.0]
    assert result.history["index"].tolist() == [0.0, 1.0]
    assert result.value == 1.0


def test_progress_is_silent_where_there_is_no_terminal(capsys):
    run(Scripted([0.0, 1.0]), verbose=1)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(("rise", "stops"), [(0.5e-6, True), (2e-6, False)])
def test_tol_is_a_rise_per_step_and_entry(rise, stops):
    values = list(rise * np.arange(40))
    assert ("converged" in run(Scripted(values), tol=1e-6).stop_reason) is stops


def test_a_stochastic_objective_ends_at_its_last_state_and_reports_means():
    script = Scripted([0.0, 9.0, 3.0, 6.0], monotone=True)
    script.stochastic = True
    result = run(script)
    assert result.parameters.latents.item() == 3.0
    assert result.history["objective"].tolist() == [0.0, 4.5, 4.0, 4.5]


@pytest.mark.parametrize(
    ("values", "stop"),
    [
        (np.linspace(0.0, 1.0, 61), StopReason.MAX_ITER),
        (np.minimum(np.linspace(0.0, 2.0, 61), 1.0), StopReason.COMPLETE),
        (1.0 - np.exp(-np.arange(61.0)), StopReason.COMPLETE),
        (np.zeros(61), StopReason.COMPLETE),
        (np.minimum(np.arange(21.0), 5.0), StopReason.MAX_ITER),  # too few steps to say
    ],
)
def test_the_reason_says_whether_more_steps_would_help(values, stop):
    result = run(Scripted(list(values), monotone=False))
    assert result.stop is stop
    advice = "a larger max_iter may help" if stop is StopReason.MAX_ITER else "would change little"
    assert advice in result.stop_reason
