"""The optimisers on problems whose solution is known."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import torch

from hgplvm._stops import StopReason
from hgplvm.errors import NotPositiveDefiniteError
from hgplvm.fit import fit
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.objectives import Evaluation, Parameters
from hgplvm.optim import LBFGS, Adam, GradientDescent, Step, _LineSearch, climb

HYPERBOLIC = Hyperbolic()
FLAT = Flat()


class Pull:
    """-½ Σ stiffness d(x_i, target_i)² - ½ (log v - log 3)²: its maximum is at the targets."""

    n_entries = 10
    stochastic = False

    def advance(self, p):
        return False

    def __init__(self, targets, manifold, stiffness=1.0):
        self.targets, self.manifold, self.stiffness = targets, manifold, stiffness
        self.n_evaluations = 0

    def value(self, p):
        return self.evaluate(p).value

    def evaluate(self, p):
        self.n_evaluations += 1
        pull = self.manifold.to_frame(p.latents, self.manifold.log_map(p.latents, self.targets))
        gap = math.log(3) - p.logs["v"]
        value = -0.5 * ((self.stiffness * pull.square()).sum() + gap**2)
        gradient = torch.cat([(self.stiffness * pull).reshape(-1), gap.reshape(1)])
        return Evaluation(value.item(), gradient)


def start(latents):
    return Parameters(latents, {"v": torch.tensor(0.0, dtype=torch.float64)}, ("v",))


@pytest.mark.parametrize(
    ("optimizer", "max_iter", "tolerance"),
    [
        (LBFGS, 40, 1e-6),
        (lambda: Adam(learning_rate=0.1), 300, 1e-2),
        (lambda: GradientDescent(learning_rate=0.1), 600, 1e-4),
    ],
    ids=["lbfgs", "adam", "rgd"],
)
def test_each_optimiser_finds_the_maximum(manifold, optimizer, max_iter, tolerance, normal):
    targets = manifold.from_tangent(1.5 * normal(8, 2))
    begin = start(manifold.from_tangent(normal(8, 2)))
    result = fit(Pull(targets, manifold), begin, optimizer(), max_iter=max_iter, tol=0.0)
    assert manifold.distance(result.parameters.latents, targets).max() < tolerance
    assert result.parameters.positive("v") == pytest.approx(3.0, abs=10 * tolerance)


def test_lbfgs_is_as_good_as_scipys_in_flat_space(normal):
    """A quadratic with a condition number of 10⁴, step for step."""
    stiffness = torch.logspace(0, 4, 10, dtype=torch.float64)[:, None]
    begin = normal(10, 1)
    problem = Pull(torch.zeros(10, 1, dtype=torch.float64), FLAT, stiffness)
    ours = fit(problem, start(begin), LBFGS(), max_iter=60, tol=0.0)

    weights = np.append(stiffness.numpy(), 1.0)
    centre = np.append(np.zeros(10), math.log(3))
    theirs = scipy.optimize.minimize(
        lambda v: (0.5 * weights @ (v - centre) ** 2, weights * (v - centre)),
        np.append(begin.numpy(), 0.0),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 60, "maxcor": 10, "ftol": 0, "gtol": 0},
    )
    assert -ours.value < 2 * theirs.fun
    assert problem.n_evaluations < 1.2 * theirs.nfev


def test_lbfgs_far_out(normal):
    """Steps are measured in the metric, so a radius of 9 is as good a place as any."""
    targets = HYPERBOLIC.from_tangent(9.0 * torch.nn.functional.normalize(normal(6, 2), dim=1))
    near = HYPERBOLIC.exp_map(targets, HYPERBOLIC.from_frame(targets, 0.5 * normal(6, 2)))
    result = fit(Pull(targets, HYPERBOLIC), start(near), LBFGS(), max_iter=30, tol=0.0)
    assert HYPERBOLIC.distance(result.parameters.latents, targets).max() < 1e-6


@pytest.mark.parametrize("optimizer", [LBFGS, GradientDescent], ids=["lbfgs", "rgd"])
def test_monotone_optimisers_never_step_down(optimizer, normal):
    problem = Pull(HYPERBOLIC.from_tangent(normal(8, 2)), HYPERBOLIC)
    begin = start(HYPERBOLIC.from_tangent(normal(8, 2)))
    result = fit(problem, begin, optimizer(), max_iter=30, tol=0.0)
    assert (np.diff(result.history["objective"]) >= 0).all()


class Cliff(Pull):
    """The same, but beyond radius 1 nothing can be evaluated."""

    def evaluate(self, p):
        if self.manifold.distance(self.manifold.origin(2), p.latents).max() > 1.0:
            raise NotPositiveDefiniteError
        return super().evaluate(p)


@pytest.mark.parametrize(
    "optimizer",
    [LBFGS, lambda: Adam(learning_rate=0.5), lambda: GradientDescent(learning_rate=0.5)],
    ids=["lbfgs", "adam", "rgd"],
)
def test_a_region_that_cannot_be_evaluated_is_stepped_around(manifold, optimizer):
    targets = manifold.from_tangent(torch.full((4, 2), 2.0, dtype=torch.float64))
    problem = Cliff(targets, manifold)
    begin = start(manifold.from_tangent(torch.zeros(4, 2, dtype=torch.float64)))
    result = fit(problem, begin, optimizer(), max_iter=30, tol=0.0)
    assert math.isfinite(result.value)
    assert result.value > problem.value(begin)


def test_gradient_descent_clips_rows_and_positive_parameters():
    """Rows move by at most the rate, and a parameter itself (not its logarithm) too."""
    targets = HYPERBOLIC.from_tangent(torch.tensor([[5.0, 0.0], [0.3, 0.0]], dtype=torch.float64))
    begin = start(HYPERBOLIC.origin(2).expand(2, -1).clone())
    step = GradientDescent(learning_rate=0.01).step(
        problem := Pull(targets, HYPERBOLIC), begin, problem.evaluate(begin)
    )
    moved = HYPERBOLIC.distance(begin.latents, step.parameters.latents)
    assert torch.allclose(moved, torch.tensor([0.01, 0.003], dtype=torch.float64))
    assert step.parameters.positive("v") == pytest.approx(1.0 + 0.01 * min(1.0, math.log(3)))


def test_gradient_descent_lowers_its_rate_where_a_step_fails():
    targets = HYPERBOLIC.from_tangent(torch.tensor([[1e-4, 0.0]], dtype=torch.float64))
    problem = Pull(targets, HYPERBOLIC, stiffness=1e6)
    optimizer = GradientDescent(learning_rate=0.01)
    begin = start(HYPERBOLIC.origin(2)[None])
    step = optimizer.step(problem, begin, problem.evaluate(begin))
    assert step.size == 0.0
    assert step.parameters is begin
    assert optimizer.learning_rate == pytest.approx(0.001)


def test_adam_does_not_depend_on_how_frames_are_turned(normal):
    turn = torch.linalg.qr(normal(2, 2)).Q
    targets, begin = HYPERBOLIC.from_tangent(normal(5, 2)), HYPERBOLIC.from_tangent(normal(5, 2))
    ends = []
    for rotation in (torch.eye(2, dtype=torch.float64), turn):
        problem = Pull(HYPERBOLIC.rotate(targets, rotation), HYPERBOLIC)
        run = fit(problem, start(HYPERBOLIC.rotate(begin, rotation)), Adam(), max_iter=20, tol=0)
        ends.append(HYPERBOLIC.rotate(run.parameters.latents, rotation.mT))
    assert torch.allclose(ends[0], ends[1], atol=1e-9)


def test_adams_first_step_is_its_rate_and_the_rate_falls_along_a_cosine():
    targets = HYPERBOLIC.from_tangent(torch.tensor([[3.0, 0.0], [0.0, 2.0]], dtype=torch.float64))
    problem = Pull(targets, HYPERBOLIC)
    parameters = start(HYPERBOLIC.origin(2).expand(2, -1).clone())
    here, optimizer, sizes = problem.evaluate(parameters), Adam(0.1, horizon=8, log_rate=0.3), []
    for _ in range(9):
        step = optimizer.step(problem, parameters, here)
        if not sizes:
            moved = HYPERBOLIC.distance(parameters.latents, step.parameters.latents)
            # the second moment is a mean over coordinates: one of two carries the whole gradient
            assert torch.allclose(moved, torch.full((2,), 0.1 * 2**0.5, dtype=torch.float64))
            assert step.parameters.logs["v"].item() == pytest.approx(0.3)
        sizes.append(step.size)
        parameters, here = step.parameters, step.evaluation
    expected = [0.05 * (1 + math.cos(math.pi * t / 8)) for t in range(9)]
    assert sizes == pytest.approx(expected, abs=1e-12)


def test_slopes_of_the_line_search_are_derivatives_along_the_geodesic(normal):
    targets = HYPERBOLIC.from_tangent(normal(6, 2))
    problem = Pull(targets, HYPERBOLIC)
    begin = start(HYPERBOLIC.from_tangent(3.0 * torch.nn.functional.normalize(normal(6, 2), dim=1)))
    here = problem.evaluate(begin)
    direction = normal(13)
    search = _LineSearch(
        problem, begin, here, direction, torch.dot(direction, here.gradient).item()
    )
    trial = search._try(0.7)
    up, down = (problem.value(begin.moved(HYPERBOLIC, t * direction)) for t in (0.7001, 0.6999))
    assert trial.slope == pytest.approx((up - down) / 2e-4, rel=1e-6)


def test_curvature_pairs_are_carried_along_the_step(normal):
    """The secant condition holds at the new point: s·y is the change of slope along the step."""
    problem = Pull(HYPERBOLIC.from_tangent(2 * normal(6, 2)), HYPERBOLIC)
    begin = start(HYPERBOLIC.from_tangent(2 * normal(6, 2)))
    here, optimizer = problem.evaluate(begin), LBFGS()
    step = optimizer.step(problem, begin, here)
    ((s, y, curvature),) = optimizer._pairs
    moved = begin.transported(HYPERBOLIC, here.gradient, step.parameters)
    assert torch.allclose(y, moved - step.evaluation.gradient)
    assert curvature == pytest.approx(torch.dot(s, y).item())
    back = step.parameters.transported(HYPERBOLIC, s, begin)
    n = 12
    assert torch.allclose(
        torch.nn.functional.cosine_similarity(back[:n], here.gradient[:n], dim=0),
        torch.tensor(1.0, dtype=torch.float64),
    )


def test_lbfgs_moves_no_row_further_than_it_may():
    targets = HYPERBOLIC.from_tangent(torch.tensor([[9.0, 0.0]], dtype=torch.float64))
    problem = Pull(targets, HYPERBOLIC)
    parameters = start(HYPERBOLIC.origin(2)[None])
    here, optimizer = problem.evaluate(parameters), LBFGS(max_move=0.25)
    for _ in range(5):
        step = optimizer.step(problem, parameters, here)
        assert HYPERBOLIC.distance(parameters.latents, step.parameters.latents).max() <= 0.25 + 1e-9
        parameters, here = step.parameters, step.evaluation


class Slope:
    """An objective that rises by a given amount at every step, wherever the steps lead."""

    manifold = HYPERBOLIC
    n_entries = 1

    def __init__(self, rises, *, stochastic=False):
        self.values, self.stochastic = list(itertools.accumulate(rises, initial=0.0)), stochastic
        self.count = -1

    def advance(self, parameters):
        return False

    def evaluate(self, parameters):
        self.count += 1
        return Evaluation(self.values[self.count], torch.ones(3, dtype=torch.float64))


def sizes_on(slope, n_steps, **options):
    parameters, optimizer, sizes = start(HYPERBOLIC.origin(2)[None]), Adam(**options), []
    here = slope.evaluate(parameters)
    for _ in range(n_steps):
        step = optimizer.step(slope, parameters, here)
        if step.stop:
            return sizes, step.stop
        sizes.append(step.size)
        parameters, here = step.parameters, step.evaluation
    return sizes, None


def test_adam_shortens_its_steps_where_the_objective_pauses_and_then_stops():
    options = {"learning_rate": 1.0, "horizon": 10**9, "smallest_rise": 0.5}
    sizes, stop = sizes_on(Slope([0.1] * 40), 40, **options)
    assert stop is StopReason.PAUSED
    assert sorted(set(np.round(sizes, 6)), reverse=True) == pytest.approx([1.0, 0.3, 0.09])
    assert len(sizes) == 6 + 7 + 7  # the first pause has no value before the first step


@pytest.mark.parametrize(
    ("slope", "smallest_rise"),
    [
        (Slope([0.6] * 40), 0.5),  # rises enough
        (Slope([0.1] * 40), 0.0),  # no such rule
        (Slope([0.1] * 40, stochastic=True), 0.5),  # values do not compare
    ],
)
def test_adam_keeps_its_rate_otherwise(slope, smallest_rise):
    sizes, stop = sizes_on(slope, 40, learning_rate=1.0, horizon=10**9, smallest_rise=smallest_rise)
    assert stop is None
    assert np.allclose(sizes, 1.0)


def test_a_pause_is_judged_by_the_best_value():
    """Up and down around a level is a pause, though the last value of a window may be high."""
    rises = [2.0, -2.0] * 30
    _, stop = sizes_on(Slope(rises), 60, learning_rate=1.0, horizon=10**9, smallest_rise=0.1)
    assert stop is not None
    rises = [0.0, 0.0, 0.0, 0.0, 5.0, -5.0, 0.0, 0.0, 0.0, 5.5, -5.5, 0.0]
    sizes, _ = sizes_on(Slope(rises), 8, learning_rate=1.0, horizon=10**9, smallest_rise=0.5)
    assert np.allclose(sizes, 1.0)  # the best rose, though the last value did not


@pytest.mark.parametrize(("dtype", "tiny"), [(torch.float32, 1e-23), (torch.float64, 1e-170)])
def test_gradients_too_small_to_square_move_nothing(dtype, tiny):
    class Still(Slope):
        def evaluate(self, parameters):
            return Evaluation(0.0, torch.full((3,), tiny, dtype=dtype))

    parameters = Parameters(
        HYPERBOLIC.origin(2, dtype=dtype)[None], {"v": torch.zeros((), dtype=dtype)}, ("v",)
    )
    objective = Still([0.0])
    step = Adam(0.01).step(objective, parameters, objective.evaluate(parameters))
    assert torch.equal(step.parameters.latents, parameters.latents)


class Redrawn(Pull):
    """Pull, with a level that jumps at every third step."""

    def __init__(self, *arguments, jump):
        super().__init__(*arguments)
        self.jump, self.count, self.level = jump, 0, 0.0

    def advance(self, p):
        self.count += 1
        due = self.count % 3 == 0
        if due:
            self.level += self.jump
        return due

    def evaluate(self, p):
        evaluation = super().evaluate(p)
        return Evaluation(evaluation.value + self.level, evaluation.gradient)


@pytest.mark.parametrize("jump", [100.0, -100.0])
@pytest.mark.parametrize("optimizer", [LBFGS, GradientDescent, Adam])
def test_a_new_draw_is_told_as_a_shift(manifold, optimizer, jump, normal):
    objective = Redrawn(manifold.from_tangent(normal(5, 2)), manifold, jump=jump)
    parameters = start(manifold.from_tangent(normal(5, 2)))
    here, climber, shifts = objective.evaluate(parameters), optimizer(), []
    for _ in range(7):
        step = climber.step(objective, parameters, here)
        parameters, here = step.parameters, step.evaluation
        shifts.append(step.shift)
    assert np.allclose(shifts, [0, 0, jump, 0, 0, jump, 0])


@pytest.mark.parametrize("jump", [0.0, 100.0, -100.0])
@pytest.mark.parametrize(
    "optimizer",
    [
        LBFGS,
        lambda: GradientDescent(learning_rate=0.1),
        lambda: Adam(learning_rate=0.1, smallest_rise=1e-3),
    ],
    ids=["lbfgs", "rgd", "adam"],
)
def test_new_draws_do_not_shake_a_fit(manifold, optimizer, jump, normal):
    """Path, best state and stop are those of an objective whose level stays."""
    targets, begin = manifold.from_tangent(normal(5, 2)), start(manifold.from_tangent(normal(5, 2)))
    results = [
        fit(Redrawn(targets, manifold, jump=j), begin, optimizer(), max_iter=200, tol=1e-4)
        for j in (0.0, jump)
    ]
    assert results[0].n_iter == results[1].n_iter
    assert torch.allclose(results[0].parameters.latents, results[1].parameters.latents)
    assert manifold.distance(results[1].parameters.latents, targets).max() < 0.1


class Script:
    """An optimiser that visits states with these values, some of them after a shift."""

    monotone = False

    def __init__(self, steps):
        self.steps = list(steps)

    def step(self, objective, parameters, here):
        value, shift = self.steps.pop(0)
        there = start(torch.full((1, 3), value, dtype=torch.float64))
        return Step(there, Evaluation(value, here.gradient), 1.0, shift=shift)


def test_climb_compares_states_under_one_draw():
    """A level that jumps by 100 must not make the state after it the best."""

    class Level(Slope):
        def evaluate(self, parameters):
            return Evaluation(0.0, torch.ones(3, dtype=torch.float64))

    script = Script([(5.0, 0.0), (103.0, 100.0), (104.0, 0.0)])
    best = climb(Level([]), start(torch.zeros(1, 3, dtype=torch.float64)), script, 3)
    assert best.latents[0, 0] == 5.0


def test_a_failed_step_of_gradient_descent_tells_its_shift_too():
    class Downhill(Redrawn):
        def evaluate(self, p):
            evaluation = super().evaluate(p)
            return Evaluation(evaluation.value, -evaluation.gradient)  # the wrong way

    objective = Downhill(HYPERBOLIC.origin(2)[None], HYPERBOLIC, jump=7.0)
    parameters = start(HYPERBOLIC.from_tangent(torch.ones(1, 2, dtype=torch.float64)))
    climber, here, shifts = GradientDescent(), objective.evaluate(parameters), []
    for _ in range(3):
        step = climber.step(objective, parameters, here)
        assert step.size == 0.0
        here = step.evaluation
        shifts.append(step.shift)
    assert np.allclose(shifts, [0.0, 0.0, 7.0])


class Broken(Redrawn):
    """Redrawn, but from its third step on it has no value where that step began."""

    def advance(self, p):
        due = super().advance(p)
        if due and not hasattr(self, "barred"):
            self.barred = self.last
        return due

    def evaluate(self, p):
        self.last = p
        if p is getattr(self, "barred", None):
            raise NotPositiveDefiniteError("not under this draw")
        return super().evaluate(p)


@pytest.mark.parametrize("optimizer", [LBFGS, GradientDescent, Adam])
def test_a_draw_under_which_the_current_point_has_no_value(manifold, optimizer, normal):
    objective = Broken(manifold.from_tangent(normal(5, 2)), manifold, jump=0.0)
    begin = start(manifold.from_tangent(normal(5, 2)))
    result = fit(objective, begin, optimizer(), max_iter=8, tol=0.0)
    assert math.isfinite(result.value)
    assert hasattr(objective, "barred")
