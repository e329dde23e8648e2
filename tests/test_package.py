"""The package as a whole: names, imports, signatures, documents."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hgplvm

ROOT = Path(__file__).parents[1]
PUBLIC = [
    *("hgplvm", "hgplvm.geometry", "hgplvm.datasets", "hgplvm.metrics", "hgplvm.pl"),
    "hgplvm.baselines",
]


def modules():
    return [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(hgplvm.__path__, "hgplvm.")
        if not info.name.endswith("__main__")
    ]


def public_functions():
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield pytest.param(thing, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("name", PUBLIC)
def test_all_names_what_is_there(name):
    module = importlib.import_module(name)
    for entry in module.__all__:
        assert hasattr(module, entry)


@pytest.mark.parametrize("thing", list(public_functions()))
def test_public_things_are_documented(thing):
    assert inspect.getdoc(thing)


@pytest.mark.parametrize("thing", list(public_functions()))
def test_at_most_three_positional_parameters(thing):
    if thing.__module__.startswith("hgplvm.geometry.") and inspect.isclass(thing):
        return  # the interface that modules satisfy, not something to call
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(thing).parameters.values()
    assert sum(parameter.kind in kinds for parameter in parameters) <= 3


def test_importing_the_package_does_not_import_matplotlib():
    code = (
        "import sys, hgplvm; print(sorted({'matplotlib', 'anndata', 'scanpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    names = {}  # one block goes on where the last ended
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)


def test_unknown_attributes_are_errors():
    with pytest.raises(AttributeError, match="no attribute 'umap'"):
        _ = hgplvm.umap


def test_every_test_that_the_errata_name_is_there():
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "errata.md").read_text())
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) >= 10
    assert [name for name in named if f"def {name}(" not in written] == []
