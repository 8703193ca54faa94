# Every target sets up what it needs; a second run installs nothing again.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests that share a fitted model name one group, which one process runs (`loadgroup`).
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup --durations=20

.PHONY: demo docs test test-slow test-accuracy check bench setup clean

demo: $(READY)  ## a column dies, and methods on synthetic data: tables and report.html
	$(BIN)/stablemiss demo

docs: $(READY)  ## the documentation site, offline and strictly: build/site/index.html
	$(BIN)/python -m sphinx -b html -q -W --keep-going docs build/site
	@echo "Open build/site/index.html"

test: $(READY)  ## the fast suite, about five minutes on two cores
	$(PYTEST) -m "not slow and not accuracy"

test-slow: $(READY)  ## tests of killed processes, clusters and browsers, and other tests of many seconds
	$(PYTEST) -m "slow and not accuracy"

test-accuracy: $(READY)  ## accuracy at full size, a few minutes
	$(PYTEST) -m accuracy

check: $(READY)  ## lint, types, import layers, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(READY)  ## speed against bare linear algebra, in the same run
	$(BIN)/python benchmarks/em_mixture.py
	$(BIN)/python benchmarks/decorrelation.py

setup: $(READY)  ## only create .venv

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:  ## remove .venv and the caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
