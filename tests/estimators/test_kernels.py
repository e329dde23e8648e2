"""The `kernel` parameter of the models."""

from __future__ import annotations

import numpy as np
import pytest

from hgplvm import GPLVM, HGPLVM, SparseHGPLVM, VecchiaHGPLVM
from hgplvm.datasets import make_binary_tree
from hgplvm.estimators import vecchia
from hgplvm.kernels import KERNELS, Exponential, Heat, RatioKernel, RationalQuadratic
from tests.contracts.spaces import Bare

TREE = make_binary_tree(3, 10, random_state=0).data


def sine(n=80, d=12):
    """Smooth functions of one variable: a smooth kernel predicts them far better."""
    x = np.sort(np.random.default_rng(0).uniform(0.0, 6.0, n))
    return np.sin(x[:, None] + np.linspace(0.0, 3.0, d))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("model", [HGPLVM, GPLVM, SparseHGPLVM, VecchiaHGPLVM])
def test_names_stand_for_kernels(model, name):
    options = {"max_iter": 5, "random_state": 0, "init": "pca", "noise_floor": 0.01}
    named = model(kernel=name, **options).fit(TREE)
    given = model(kernel=KERNELS[name], **options).fit(TREE)
    assert named.kernel_ == KERNELS[name]
    assert np.array_equal(named.embedding_, given.embedding_)
    assert np.isfinite(named.embedding_).all()


def test_auto_takes_the_kernel_under_which_held_out_rows_are_likeliest():
    model = HGPLVM(kernel="auto", max_iter=3, random_state=0).fit(sine())
    names, scores = model.history_["kernel_name"].tolist(), model.history_["kernel_score"]
    assert names == list(KERNELS)
    assert model.kernel_.name == names[int(np.argmax(scores))] != "exponential"


def test_auto_stays_with_the_exponential_kernel_on_a_tree_and_where_little_is_known():
    tree = make_binary_tree(4, 15, random_state=0).data
    model = HGPLVM(kernel="auto", init="mds", max_iter=3, random_state=0).fit(tree)
    assert model.kernel_ == Exponential()
    few = HGPLVM(kernel="auto", max_iter=3, random_state=0).fit(TREE[:12])
    assert few.kernel_ == Exponential()
    assert "kernel_name" not in few.history_
    many = HGPLVM(5, kernel="auto", init="pca", max_iter=3, random_state=0).fit(TREE[:30])
    assert many.history_["kernel_name"].tolist() == ["exponential"]


@pytest.mark.parametrize("init", ["random", "array"])
def test_auto_goes_with_every_start(init):
    rows = sine()
    start = 0.1 * np.random.default_rng(0).standard_normal((80, 2)) if init == "array" else init
    model = HGPLVM(kernel="auto", init=start, max_iter=3, random_state=0).fit(rows)
    assert model.kernel_.name in KERNELS


def test_a_resumed_fit_keeps_the_kernel_that_was_chosen(tmp_path):
    options = {"kernel": "auto", "max_iter": 12, "random_state": 0}
    whole = HGPLVM(**options).fit(sine())
    path = tmp_path / "state"
    part = HGPLVM(**options, checkpoint=path, callback=lambda s: s.iteration == 4).fit(sine())
    assert part.n_iter_ == 4
    rest = HGPLVM(**options, checkpoint=path).fit(sine())
    assert rest.kernel_ == whole.kernel_
    assert np.array_equal(rest.embedding_, whole.embedding_)


def test_the_first_level_of_a_large_fit_hands_its_shape_on(monkeypatch):
    for name, value in (("FEW_ROWS", 90), ("COARSE_ROWS", 60), ("COARSE_PROBES", 1)):
        monkeypatch.setattr(vecchia, name, value)
    rows = np.concatenate([sine(60), sine(60) + 0.01])
    model = VecchiaHGPLVM(
        kernel=RationalQuadratic(0.5), n_neighbors=8, n_inducing=80, max_iter=10, random_state=0
    ).fit(rows)
    assert model.history_["kernel.alpha"][0] != pytest.approx(0.5)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("gauss", r"'kernel' .* 'heat', 'auto' or a Kernel object. Got 'gauss'"),
        (RatioKernel, "'kernel' .* a Kernel object"),
        (None, "'kernel' .* Got None"),
        (Bare(), "not positive definite on hyperbolic space"),
        (RationalQuadratic(-1.0), r"'alpha' parameter of Rational.* \(0, inf\). Got -1.0"),
    ],
)
def test_kernels_that_are_none(kernel, message):
    with pytest.raises(ValueError, match=message):
        HGPLVM(kernel=kernel).fit(TREE)


def test_smooth_kernels_have_their_limits():
    with pytest.raises(ValueError, match="more than 3 dimensions of hyperbolic"):
        HGPLVM(4, kernel="heat").fit(TREE)
    assert np.isfinite(GPLVM(4, kernel="heat", max_iter=3).fit(TREE).embedding_).all()


class Eager(Heat):
    """Returns all derivatives, whatever is wanted."""

    def derivatives(self, d, rho, theta, manifold, wanted=()):
        return super().derivatives(d, rho, theta, manifold, ("length_scale",))


def test_derivatives_that_nobody_asked_for_do_no_harm():
    assert HGPLVM(kernel=Eager(), length_scale=2.0, max_iter=3).fit(TREE).n_iter_ == 3


def test_a_second_fit_leaves_nothing_of_the_first():
    model = VecchiaHGPLVM(n_inducing=10, n_neighbors=5, max_iter=2).fit(TREE)
    model.source_ = {"layer": "counts"}
    assert hasattr(model, "inducing_")
    model.set_params(n_inducing=0).fit(TREE[:40])
    assert not hasattr(model, "inducing_")
    assert not hasattr(model, "source_")
