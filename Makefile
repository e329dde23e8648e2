# Each target does all its own set-up in .venv, and is quick when nothing changed.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# one stamp for each set of dependencies that is installed
CORE := .venv/.core
DEV := .venv/.dev
DOCS := .venv/.docs
PEERS := .venv/.peers

.PHONY: demo test test-all lint docs walk bench reproduce clean

demo: $(CORE)
	$(BIN)/hgplvm demo

test: $(DEV)
	$(BIN)/python -m pytest --numprocesses auto -m "not slow"

test-all: $(DEV)
	$(BIN)/python -m pytest --numprocesses auto

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DOCS)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

walk:
	$(PYTHON) -m venv --clear .venv-walk
	.venv-walk/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '.[anndata]'
	.venv-walk/bin/python tests/walk.py

bench: $(DEV)
	$(BIN)/python benchmarks/speed/exact.py
	$(BIN)/python benchmarks/speed/collapsed.py
	$(BIN)/python benchmarks/speed/vecchia.py

reproduce: $(PEERS)
	$(BIN)/hgplvm reproduce --quick

clean:
	rm -rf .venv .venv-walk docs/_build docs/gallery docs/sg_execution_times.rst hgplvm-demo hgplvm-reproduce

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(DEV): $(CORE)
	$(PIP) --editable ".[dev]"
	@touch $@

$(DOCS): $(CORE)
	$(PIP) --editable ".[docs]"
	@touch $@

$(PEERS): $(CORE)
	$(PIP) --editable ".[peers,anndata]"
	@touch $@
