TASK ?= banana
SOLVER ?= civi
RECIPE ?= default
SEED ?= 0
OUT ?= runs/$(TASK)-$(SOLVER)-$(RECIPE)-$(SEED)
PYTHON ?= python3
BIN := .venv/bin
SPHINX := --fail-on-warning --keep-going --quiet --doctree-dir docs/_build/doctrees

.PHONY: setup run test browser check package docs clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "civi needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

run: setup
	$(BIN)/civi run $(TASK) --solver $(SOLVER) --recipe $(RECIPE) --seed $(SEED) --out $(OUT) --force

test: setup check
	$(BIN)/python -m pytest

browser: setup
	$(BIN)/python -m pytest -n 0 -rs tests/browser

check: setup
	$(BIN)/ruff check src benchmarks tests
	$(BIN)/ruff format --check src benchmarks tests
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

package: setup
	.ci/package

.venv/docs-ready: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: .venv/docs-ready
	$(BIN)/python -m sphinx $(SPHINX) --builder html docs docs/_build/html
	$(BIN)/python -m sphinx $(SPHINX) --builder doctest docs docs/_build/doctest

clean:
	rm -rf .venv runs docs/_build docs/_cache .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
