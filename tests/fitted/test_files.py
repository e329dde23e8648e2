"""Kernels and classes of one's own in files: found again, or refused with a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import hgplvm
from hgplvm import HGPLVM
from hgplvm import _storage as storage
from hgplvm._fitted.files import class_name, find_class, kernel_from_tree, kernel_tree
from hgplvm.kernels import Exponential, Heat, Kernel, RatioKernel, RationalQuadratic
from tests.contracts.spaces import COMBINED, SMOOTH, Rational

OPTIONS = {"max_iter": 3, "random_state": 0}


@dataclass(frozen=True, eq=False, repr=False)
class Power(RatioKernel):
    """``(1 + r)^-p``, a mixture of exponential kernels: a setting of its own."""

    p: float = 2.0

    def profile(self, r):
        return (1.0 + r) ** -self.p

    def slope(self, r, g):
        return -self.p * g / (1.0 + r)


class Careless(Power):
    """Keeps something that is no field."""

    def __init__(self, p=2.0):
        super().__init__(p)
        object.__setattr__(self, "table", np.zeros(3))


class Mine(HGPLVM):
    """A model of a user."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 2)) @ rng.standard_normal((2, 4))


@pytest.mark.parametrize(
    "kernel", [Exponential(), Power(3.0), Rational(), *SMOOTH, *COMBINED], ids=repr
)
def test_kernels_come_back(kernel):
    assert kernel_from_tree(kernel_tree(kernel)) == kernel


@pytest.mark.parametrize("kernel", ["heat", Power(3.0), Exponential() + RationalQuadratic(0.5)])
def test_a_model_with_a_kernel_comes_back(kernel, data, tmp_path):
    model = HGPLVM(kernel=kernel, **OPTIONS).fit(data)
    model.save(tmp_path / "model")
    again = hgplvm.load(tmp_path / "model")
    assert again.kernel == kernel
    assert again.kernel_parameters_ == model.kernel_parameters_
    new = data[:3] + 0.01
    assert np.array_equal(again.transform(new), model.transform(new))
    points = model.embedding_[:3]
    assert np.array_equal(again.inverse_transform(points), model.inverse_transform(points))


def test_a_learnt_shape_moves_and_is_reported(data):
    model = HGPLVM(kernel=RationalQuadratic(0.5), max_iter=20, random_state=0).fit(data)
    alpha = model.kernel_parameters_["alpha"]
    assert alpha != pytest.approx(0.5)
    assert model.history_["kernel.alpha"][0] == pytest.approx(0.5)
    assert model.history_["kernel.alpha"].shape == model.history_["objective"].shape


def test_a_subclass_comes_back_as_itself(data, tmp_path):
    model = Mine(**OPTIONS).fit(data)
    model.save(tmp_path / "model")
    assert type(hgplvm.load(tmp_path / "model")) is Mine


def test_a_subclass_is_never_taken_for_another_of_the_same_name(data, tmp_path):
    """The name of its module tells it from ours."""
    impostor = type("HGPLVM", (HGPLVM,), {"__doc__": "", "__module__": __name__})
    with pytest.raises(ValueError, match="its class 'HGPLVM' is not defined at the top level"):
        impostor(**OPTIONS).fit(data).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_kernel_that_could_not_be_found_again_is_refused_at_once(data, tmp_path):
    class Local(Rational):
        pass

    model = HGPLVM(kernel=Local(), **OPTIONS).fit(data)
    with pytest.raises(ValueError, match=r"kernel '.*Local' is not defined at the top level"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_kernel_that_could_not_be_made_again_is_refused_at_once(data, tmp_path):
    model = HGPLVM(kernel=Careless(), **OPTIONS).fit(data)
    with pytest.raises(ValueError, match="attribute 'table', which is not among its settings"):
        model.save(tmp_path / "model")
    model = HGPLVM(kernel=Power(np.ones(2)), **OPTIONS)
    with pytest.raises(ValueError, match="setting 'p' of the kernel Power is a ndarray"):
        kernel_tree(model.kernel)


def test_a_file_whose_kernel_is_not_imported_says_what_to_import(data, tmp_path):
    HGPLVM(kernel=Power(), **OPTIONS).fit(data).save(tmp_path / "model")
    tree = storage.read(tmp_path / "model", "model")
    for part in (tree["parameters"], tree["model"]):
        part["kernel"]["class"] = "their.module:Theirs"
    storage.write(tmp_path / "model", "model", tree)
    with pytest.raises(ValueError, match=r"'Theirs' of the module 'their.module'.*import that"):
        hgplvm.load(tmp_path / "model")


def test_classes_are_found_among_those_that_are_imported_and_nowhere_else():
    assert find_class(class_name(Power, "kernel"), Kernel, "kernel") is Power
    assert find_class("hgplvm:Heat", Kernel, "kernel") is Heat
    for name in ("os:system", "hgplvm:HGPLVM", "builtins:eval", ""):
        with pytest.raises(ValueError, match="has not imported"):
            find_class(name, Kernel, "kernel")


def test_files_of_the_version_before_are_refused_with_a_sentence(data, tmp_path, monkeypatch):
    model = HGPLVM(**OPTIONS).fit(data)
    monkeypatch.setattr(storage, "FORMAT", 1)
    model.save(tmp_path / "old")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 1, and this version of hgplvm reads format 5"):
        hgplvm.load(tmp_path / "old")
