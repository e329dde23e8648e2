"""What is said where a package is missing."""

import sys

import pytest

from hgplvm._optional import require
from hgplvm.errors import MissingPackageError


def test_a_module_that_is_there_is_given():
    import email.message

    assert require("somebody", "email.message", "mail") is email.message


@pytest.mark.parametrize("blocked", [False, True])
def test_a_missing_package_is_named_with_what_brings_it(monkeypatch, blocked):
    if blocked:
        monkeypatch.setitem(sys.modules, "no_such_package", None)
    with pytest.raises(MissingPackageError) as caught:
        require("load_everything", "no_such_package", "extras")
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == "no_such_package"
    assert isinstance(caught.value.__cause__, ImportError)
    text = str(caught.value)
    assert text.startswith("load_everything needs the package 'no_such_package'")
    assert "pip install" in text
    assert "'hgplvm[extras]'" in text


def test_a_package_that_another_one_misses_is_the_one_that_is_named(monkeypatch, tmp_path):
    (tmp_path / "needs_another.py").write_text("import the_other_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPackageError, match="'the_other_package'") as caught:
        require("somebody", "needs_another", "extras")
    assert caught.value.name == "the_other_package"


def test_other_errors_pass(monkeypatch, tmp_path):
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        require("somebody", "broken_module", "extras")
