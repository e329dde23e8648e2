"""Checkpoints: a fit that was cut off ends where it would have ended."""

import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

from hgplvm import (
    GPLVM,
    HGPLVM,
    BayesianHGPLVM,
    SparseHGPLVM,
    VecchiaHGPLVM,
)
from hgplvm import _storage as storage
from hgplvm.datasets import make_binary_tree
from hgplvm.errors import FitInterruptedWarning
from hgplvm.estimators import checkpoint
from hgplvm.estimators.checkpoint import Checkpoint, digest

STEPS = 14
QUICK = {"init": "pca", "noise_floor": 0.01}  # no long search for a start
CASES = {
    "exact": (HGPLVM, {}),
    "lbfgs": (HGPLVM, {"optimizer": "lbfgs", **QUICK}),
    "rgd": (HGPLVM, {"optimizer": "rgd", "init": "random"}),
    "float32": (HGPLVM, {"dtype": "float32", **QUICK}),
    "flat": (GPLVM, {"length_scale": 2.0}),
    "sparse": (SparseHGPLVM, {"n_inducing": 8, "inducing_update": 3, **QUICK}),
    "bayesian": (
        BayesianHGPLVM,
        {"n_inducing": 8, "inducing_update": 3, "quadrature": "monte-carlo", "n_samples": 2},
    ),
    "vecchia": (VecchiaHGPLVM, {"n_neighbors": 8, "neighbor_update": 3, "n_inducing": 0}),
    "vecchia-inducing": (
        VecchiaHGPLVM,
        {"n_neighbors": 8, "neighbor_update": 3, "n_inducing": 5, **QUICK},
    ),
    "vecchia-reshuffle": (
        VecchiaHGPLVM,
        {"n_neighbors": 8, "neighbor_update": 3, "n_inducing": 0, "reshuffle": True, **QUICK},
    ),
}


@pytest.fixture(scope="module")
def data():
    return make_binary_tree(3, n_per_node=4, random_state=0).data


@pytest.fixture(scope="module")
def gappy(data):
    return np.where(np.random.default_rng(1).random(data.shape) < 0.1, np.nan, data)


@pytest.fixture(scope="module", params=CASES)
def case(request, data):
    """Return a way to make a model, and what it gives without interruption."""
    model_class, options = CASES[request.param]

    def make(**more):
        return model_class(**{"max_iter": STEPS, "random_state": 0, **options, **more})

    return make, make().fit(data)


@pytest.fixture(scope="module")
def whole(data):
    return flat().fit(data)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "fit.checkpoint"


def flat(**options):
    """Make a model whose fits are the fastest."""
    return GPLVM(**{"max_iter": STEPS, "random_state": 0, "init": "pca", **options})


def stop_at(step):
    return lambda state: state.iteration == step


def interrupt_at(step):
    def callback(state):
        if state.iteration == step:
            raise KeyboardInterrupt

    return callback


class Counter:
    """A callback that counts its calls."""

    calls = 0

    def __call__(self, state):
        self.calls += 1


def assert_same_fit(ours, theirs):
    """Bit by bit, but for the time that it took."""
    assert np.array_equal(ours.embedding_, theirs.embedding_)
    assert ours.log_likelihood_ == theirs.log_likelihood_
    assert (ours.n_iter_, ours.stop_reason_) == (theirs.n_iter_, theirs.stop_reason_)
    assert ours.noise_variance_ == theirs.noise_variance_
    assert list(ours.history_) == list(theirs.history_)
    for name, column in ours.history_.items():
        other = theirs.history_[name]
        assert column.shape == other.shape
        assert column.dtype == other.dtype
        if name != "seconds":
            assert np.array_equal(column, other, equal_nan=column.dtype.kind == "f"), name


# --- where it was cut off, it goes on -------------------------------------------------------


def test_a_stopped_fit_goes_on_bit_by_bit(case, data, place):
    (make, uninterrupted), step = case, 7
    first = make(checkpoint=place, callback=stop_at(step)).fit(data)
    assert first.n_iter_ == step < uninterrupted.n_iter_
    assert "stopped by the callback" in first.stop_reason_
    calls = Counter()
    second = make(checkpoint=place, callback=calls).fit(data)
    assert calls.calls == uninterrupted.n_iter_ - step
    assert_same_fit(second, uninterrupted)
    rows = data[::5] + 0.02
    assert np.array_equal(second.transform(rows), uninterrupted.transform(rows))


def test_a_fit_may_be_stopped_many_times(case, data, place):
    make, uninterrupted = case
    for step in (1, 2, 9):
        make(checkpoint=place, callback=stop_at(step)).fit(data)
    assert_same_fit(make(checkpoint=place).fit(data), uninterrupted)


@pytest.mark.parametrize("name", ["exact", "sparse", "vecchia"])
def test_a_fit_with_gaps_goes_on_bit_by_bit(name, gappy, place):
    model_class, options = CASES[name]
    options = {"max_iter": STEPS, "random_state": 0, **options}
    uninterrupted = model_class(**options).fit(gappy)
    model_class(**options, checkpoint=place, callback=stop_at(5)).fit(gappy)
    assert_same_fit(model_class(**options, checkpoint=place).fit(gappy), uninterrupted)


def test_a_fit_that_converges_goes_on_to_the_same_end(data, place):
    options = {"max_iter": 400, "tol": 1e-2, "optimizer": "lbfgs"}
    uninterrupted = flat(**options).fit(data)
    assert "converged" in uninterrupted.stop_reason_
    flat(**options, checkpoint=place, callback=stop_at(uninterrupted.n_iter_ - 1)).fit(data)
    assert_same_fit(flat(**options, checkpoint=place).fit(data), uninterrupted)


def test_a_fit_that_is_cut_off_as_it_converges_makes_no_more_steps(data, place):
    options = {"max_iter": 400, "tol": 1e-2, "optimizer": "lbfgs"}
    uninterrupted = flat(**options).fit(data)
    flat(**options, checkpoint=place, callback=stop_at(uninterrupted.n_iter_)).fit(data)
    assert_same_fit(flat(**options, checkpoint=place).fit(data), uninterrupted)


def test_a_fit_that_is_stopped_at_its_last_step_makes_no_more(whole, data, place):
    flat(checkpoint=place, callback=stop_at(STEPS)).fit(data)
    calls = Counter()
    assert_same_fit(flat(checkpoint=place, callback=calls).fit(data), whole)
    assert calls.calls == 0


def test_the_clock_goes_on(data, place):
    first = flat(checkpoint=place, callback=stop_at(5)).fit(data).history_["seconds"]
    second = flat(checkpoint=place).fit(data).history_["seconds"]
    assert np.array_equal(second[:6], first)
    assert (np.diff(second) >= 0).all()


KILLED = """
import os, signal, sys
import numpy as np
from hgplvm import VecchiaHGPLVM
from hgplvm.estimators import checkpoint
checkpoint.INTERVAL, checkpoint.SHARE = 0.0, float("inf")
def callback(state):
    if state.iteration == 7:
        os.kill(os.getpid(), signal.SIGKILL)
VecchiaHGPLVM(
    n_neighbors=8, neighbor_update=3, n_inducing=5, max_iter=int(sys.argv[3]), random_state=0,
    init="pca", noise_floor=0.01, checkpoint=sys.argv[1], callback=callback,
).fit(np.load(sys.argv[2]))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("case", ["vecchia-inducing"], indirect=True)
def test_a_killed_process_leaves_a_checkpoint_to_go_on_from(case, data, place, tmp_path):
    make, uninterrupted = case
    np.save(tmp_path / "data.npy", data)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(place), str(tmp_path / "data.npy"), str(STEPS)],
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(storage.read(place, "checkpoint")["state"]["log"]["rows"]) == 1 + 7
    calls = Counter()
    assert_same_fit(make(checkpoint=place, callback=calls).fit(data), uninterrupted)
    assert calls.calls == uninterrupted.n_iter_ - 7


def test_an_interrupted_fit_goes_on(whole, data, place):
    with pytest.warns(FitInterruptedWarning, match="after 6 steps"):
        first = flat(checkpoint=place, callback=interrupt_at(6)).fit(data)
    assert first.n_iter_ == 6
    assert len(storage.read(place, "checkpoint")["state"]["log"]["rows"]) == 1 + 6
    calls = Counter()
    assert_same_fit(flat(checkpoint=place, callback=calls).fit(data), whole)
    assert calls.calls == STEPS - 6


def test_an_error_leaves_a_checkpoint(whole, data, place, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))

    def callback(state):
        if state.iteration == 4:
            raise RuntimeError("the disk of the callback is full")

    with pytest.raises(RuntimeError, match="the disk of the callback"):
        flat(checkpoint=place, callback=callback).fit(data)
    calls = Counter()
    assert_same_fit(flat(checkpoint=place, callback=calls).fit(data), whole)
    assert calls.calls == STEPS - 4


def test_a_finished_fit_is_not_begun_again(case, data, place):
    make, uninterrupted = case
    assert_same_fit(make(checkpoint=place).fit(data), uninterrupted)  # nor changed by its file
    before = place.read_bytes()
    calls = Counter()
    again = make(checkpoint=place, callback=calls).fit(data)
    assert calls.calls == 0
    assert_same_fit(again, uninterrupted)
    assert place.read_bytes() == before


def test_a_fit_without_a_seed_goes_on_from_its_own_start(data, place):
    first = flat(random_state=None, init="random", checkpoint=place, callback=stop_at(5)).fit(data)
    second = flat(random_state=None, init="random", checkpoint=place).fit(data)
    assert np.array_equal(second.history_["objective"][:6], first.history_["objective"])
    assert second.n_iter_ == STEPS


def test_a_finished_fit_with_gaps_is_the_same_again_when_the_seed_has_moved_on(data, place):
    random = np.random.RandomState(0)
    gappy = np.where(random.random_sample(data.shape) < 0.25, np.nan, data)
    first, second = (flat(random_state=random, checkpoint=place).fit(gappy) for _ in range(2))
    assert_same_fit(first, second)
    points = first.embedding_[:5]
    assert np.array_equal(first.inverse_transform(points), second.inverse_transform(points))


# --- what belongs to another fit is left alone ------------------------------------------------


@pytest.fixture
def begun(data, place):
    """A checkpoint of a fit that was stopped."""
    flat(checkpoint=place, callback=stop_at(3)).fit(data)
    return place


def refused(model, data, begun, match):
    before = begun.read_bytes()
    with pytest.raises(ValueError, match=match):
        model.fit(data)
    assert begun.read_bytes() == before
    assert list(begun.parent.iterdir()) == [begun]


def test_other_data_are_refused(data, begun):
    changed = data.copy()
    changed[3, 2] += 1e-12
    match = "belongs to another fit: the data were different"
    refused(flat(checkpoint=begun), changed, begun, match)
    refused(flat(checkpoint=begun), data[:-1], begun, match)
    refused(flat(checkpoint=begun), data[::-1], begun, match)
    changed[3, 2] = np.nan
    refused(flat(checkpoint=begun), changed, begun, match)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_iter", STEPS + 1),
        ("random_state", 1),
        ("tol", 1e-5),
        ("length_scale", 2.0),
        ("init", "mds"),
        ("optimizer", "lbfgs"),
        ("learning_rate", 0.1),
        ("n_components", 3),
        ("dtype", "float32"),
        ("noise_floor", 0.1),
        ("center", 3),
    ],
)
def test_another_parameter_is_refused_by_its_name(data, begun, name, value):
    match = f"belongs to another fit: the parameters {name} were different"
    refused(flat(checkpoint=begun, **{name: value}), data, begun, match)


def test_several_differences_are_named_together(data, begun):
    match = "the parameters center, tol were different and the data were different"
    refused(flat(checkpoint=begun, tol=1e-3, center=2), data[1:], begun, match)


def test_another_model_is_refused(data, begun):
    model = HGPLVM(max_iter=STEPS, random_state=0, init="pca", checkpoint=begun)
    refused(model, data, begun, "belongs to another fit: it is one of GPLVM")


def test_another_array_as_init_is_refused(data, place):
    start = np.random.default_rng(0).uniform(-0.4, 0.4, (len(data), 2))
    whole = flat(init=start).fit(data)
    flat(init=start, checkpoint=place, callback=stop_at(3)).fit(data)
    refused(flat(init=start + 1e-9, checkpoint=place), data, place, "parameters init were")
    assert_same_fit(flat(init=start.copy(), checkpoint=place).fit(data), whole)


def test_what_does_not_change_a_fit_is_not_refused(whole, data, begun, tmp_path):
    os.rename(begun, moved := tmp_path / "moved")  # the path is free, too
    calls = Counter()
    again = flat(checkpoint=str(moved), verbose=1, device="cpu", callback=calls).fit(data)
    assert_same_fit(again, whole)
    assert calls.calls == STEPS - 3


@pytest.mark.parametrize("content", [b"", b"Dear diary", b"\x80\x04K\x01."])
def test_a_file_that_is_no_checkpoint_is_refused(data, place, content):
    place.write_bytes(content)
    refused(flat(checkpoint=place), data, place, "not a complete hgplvm checkpoint")


def test_a_checkpoint_that_was_cut_short_is_refused(data, begun):
    begun.write_bytes(begun.read_bytes()[:-9])
    refused(flat(checkpoint=begun), data, begun, "not a complete hgplvm checkpoint")


def test_paths_that_cannot_be_are_refused(data, tmp_path):
    with pytest.raises(ValueError, match=r"folder '.*gone', which does not exist"):
        flat(checkpoint=tmp_path / "gone" / "fit.checkpoint").fit(data)
    with pytest.raises(ValueError, match="is a folder"):
        flat(checkpoint=tmp_path).fit(data)
    for wrong in (3, True, "", object()):
        with pytest.raises(ValueError, match="'checkpoint' parameter of GPLVM must be the path"):
            flat(checkpoint=wrong).fit(data)
    assert list(tmp_path.iterdir()) == []


# --- how often it is written ------------------------------------------------------------------


class Clock:
    """A clock that goes on by what one is told a write takes, and by hand."""

    def __init__(self, monkeypatch, write_seconds=0.0):
        self.now, self.write_seconds, self.written = 1000.0, write_seconds, []
        monkeypatch.setattr(checkpoint.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(checkpoint.storage, "write", self.write)

    def write(self, path, kind, tree):
        assert kind == "checkpoint"
        self.now += self.write_seconds
        self.written.append(tree["state"]["step"])


def steps_written(place, clock, n_steps, seconds_each):
    subject = Checkpoint(place, "GPLVM", {}, "digest", "cpu")
    subject.save({"step": 0}, now=True)
    for step in range(1, n_steps + 1):
        clock.now += seconds_each
        subject.save({"step": step}, now=False)
    return clock.written


def test_a_write_comes_at_most_once_an_interval(place, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 10.0)
    clock = Clock(monkeypatch)
    assert steps_written(place, clock, 35, 1.0) == [0, 10, 20, 30]


def test_a_slow_step_is_always_written(place, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 10.0)
    assert steps_written(place, Clock(monkeypatch), 4, 60.0) == [0, 1, 2, 3, 4]


def test_slow_writes_take_a_small_share_of_the_time(place, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 10.0)
    monkeypatch.setattr(checkpoint, "SHARE", 0.05)
    clock = Clock(monkeypatch, write_seconds=2.0)  # a pause of 40 seconds after each
    assert steps_written(place, clock, 100, 1.0) == [0, 40, 80]


def test_a_write_that_is_wanted_now_is_made_now(place, monkeypatch):
    clock = Clock(monkeypatch)
    subject = Checkpoint(place, "GPLVM", {}, "digest", "cpu")
    for step in range(3):
        subject.save({"step": step}, now=True)
    assert clock.written == [0, 1, 2]


def test_a_short_fit_writes_its_start_and_its_end(data, place, monkeypatch):
    trees, write = [], storage.write

    def noted(path, kind, tree):
        state = tree["state"]
        trees.append((len(state["log"]["rows"]) - 1, state["stop"]))
        write(path, kind, tree)

    monkeypatch.setattr(checkpoint, "INTERVAL", 3600.0)
    monkeypatch.setattr(checkpoint.storage, "write", noted)
    model = flat(checkpoint=place).fit(data)
    assert trees == [(0, None), (STEPS, model.stop_)]


def test_digests_tell_arrays_apart():
    a = np.arange(6.0)
    assert digest(a) == digest(a.copy())
    assert digest(a.reshape(2, 3).T) == digest(np.ascontiguousarray(a.reshape(2, 3).T))
    different = [a, a[::-1], a.reshape(2, 3), a.reshape(3, 2), a + 1e-15, a.astype(np.float32)]
    assert len({digest(x) for x in different}) == len(different)


def test_going_on_warns_of_nothing(data, begun):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat(checkpoint=begun).fit(data)


def test_a_full_disk_does_not_end_the_fit(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError("No space left on device.")

    data = np.random.default_rng(0).standard_normal((20, 4))
    whole = HGPLVM(max_iter=4, random_state=0).fit(data)
    monkeypatch.setattr("hgplvm._storage.write", full)
    with pytest.warns(UserWarning, match="No space left on device. The fit goes on"):
        model = HGPLVM(max_iter=4, random_state=0, checkpoint=tmp_path / "fit").fit(data)
    assert np.array_equal(model.embedding_, whole.embedding_)
    assert list(tmp_path.iterdir()) == []
