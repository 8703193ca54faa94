# Every target sets up what it needs; a second run installs nothing again.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow check setup bench clean

demo: $(READY)  ## the main job on built-in data: a table and report.html
	$(BIN)/stablemiss demo

test: $(READY)  ## the fast suite
	$(BIN)/python -m pytest -n 2 -m "not slow" --durations=20

test-slow: $(READY)  ## the long checks: accuracy at full size
	$(BIN)/python -m pytest -m slow

check: $(READY)  ## lint, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## speed against bare linear algebra, in the same run
	$(BIN)/python benchmarks/em_mixture.py
	$(BIN)/python benchmarks/decorrelation.py

setup: $(READY)  ## only create .venv

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
