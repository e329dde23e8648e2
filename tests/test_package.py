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
    *("hgplvm", "hgplvm.geometry", "hgplvm.datasets", "hgplvm.metrics", "hgplvm.pl", "hgplvm.tl"),
    *("hgplvm.baselines", "hgplvm.kernels", "hgplvm.manifolds"),
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


@pytest.mark.parametrize("thing", list(public_functions()))
def test_every_parameter_is_documented(thing):
    """Also that nothing is documented that is not there."""
    if thing.__module__.startswith("hgplvm.geometry."):
        return  # formulas, whose symbols stand in the first line
    text = inspect.getdoc(thing)
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n[A-Z]\w+\n-+\n|\Z)", text, re.DOTALL)
    named = re.findall(r"^([\w*][\w*, ]*?)(?: :|$)", section[1] if section else "", re.MULTILINE)
    documented = {name.strip("* ") for names in named for name in names.split(",")}
    parameters = {p.strip("*") for p in inspect.signature(thing).parameters}
    assert documented == parameters or (not section and len(parameters) <= 1)


@pytest.mark.parametrize("module", ["hgplvm.tl", "hgplvm.pl"])
def test_adata_comes_first(module):
    for name in importlib.import_module(module).__all__:
        thing = getattr(importlib.import_module(module), name)
        if inspect.isfunction(thing):
            assert next(iter(inspect.signature(thing).parameters)) == "adata", name


@pytest.mark.parametrize("name", ["poincare", "uncertainty", "decoder", "trajectory", "history"])
def test_pictures_share_their_habits(name):
    for other in (name, "length_scales", "compare"):
        parameters = inspect.signature(getattr(hgplvm.pl, other)).parameters
        for habit in ("ax", "show", "save"):
            assert parameters[habit].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[habit].default is None


def documented_places():
    """Modules whose members are all in the reference, and things that are there by name."""
    text = (ROOT / "docs" / "api.md").read_text()
    whole = re.findall(r"automodule:: ([\w.]+)\n   :members:\n", text)
    by_name = re.findall(r"auto(?:class|function):: ([\w.]+)", text)
    for module, names in re.findall(r"automodule:: ([\w.]+)\n   :members: (.+)", text):
        by_name += [f"{module}.{name.strip()}" for name in names.split(",")]
    return whole, {name.rpartition(".")[2] for name in by_name}


@pytest.mark.parametrize("thing", list(public_functions()))
def test_every_public_name_is_in_the_reference(thing):
    whole, by_name = documented_places()
    exported = [m for m in PUBLIC if getattr(importlib.import_module(m), thing.__name__, None)]
    assert thing.__module__ in whole or thing.__name__ in by_name or set(exported) & set(whole)


def test_every_command_is_in_the_docs():
    from hgplvm.cli import app

    text = (ROOT / "docs" / "command_line.md").read_text()
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert {"fit", "transform", "decode", "plot", "metrics", "benchmark"} <= set(names)
    assert [name for name in names if f"`hgplvm {name}" not in text] == []


@pytest.mark.parametrize("module", ["hgplvm", "hgplvm.cli", "hgplvm._tables"])
def test_importing_does_not_import_what_takes_long(module):
    code = (
        f"import sys, {module}; "
        "print(sorted({'matplotlib', 'anndata', 'scanpy', 'torch', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_models_import_neither_pictures_nor_anndata():
    code = (
        "import sys, hgplvm; hgplvm.HGPLVM; hgplvm.datasets; hgplvm.metrics; hgplvm.tl; "
        "print(sorted({'matplotlib', 'anndata', 'scanpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lazy_names_are_listed_and_are_the_things_themselves():
    from hgplvm.estimators import HGPLVM

    assert set(hgplvm.__all__) <= set(dir(hgplvm))
    assert hgplvm.HGPLVM is HGPLVM


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_unknown_attributes_are_errors():
    with pytest.raises(AttributeError, match="no attribute 'umap'"):
        _ = hgplvm.umap


def test_every_test_that_the_errata_name_is_there():
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "errata.md").read_text())
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) >= 10
    assert [name for name in named if f"def {name}(" not in written] == []


@pytest.mark.parametrize(
    "name", ["tl", "pl", "metrics", "datasets", "kernels", "manifolds", "geometry", "baselines"]
)
def test_completion_shows_what_is_public_alone(name):
    module = getattr(hgplvm, name)
    assert dir(module) == sorted(module.__all__)
