# Everything works from here on a machine with Python alone: each target makes its own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: spiral test test-all check-estimators lint types bench torture lowest docs dist clean

spiral: $(VENV)/installed
	$(BIN)/leadline spiral --omega 10 --epochs 500 --out runs/spiral --force

test: $(VENV)/developed lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-all: $(VENV)/developed lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# scikit-learn's own checks of both estimators
check-estimators: $(VENV)/developed
	$(BIN)/python -m pytest -n 2 tests/estimators/test_checks.py

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/developed
	$(BIN)/basedpyright

# Beside PyTorch, where it is installed: $(BIN)/python -m pip install "torch==2.13.0"
bench: $(VENV)/developed
	$(BIN)/python benchmarks/step_time.py

# Kills at random moments, damaged checkpoints, a full disk, 100,000 mutated files, 20,000 epochs killed ten times
torture: $(VENV)/developed
	$(BIN)/python -m tests.torture --out runs/torture

# The tests with the lower ends of the ranges in pyproject.toml; the upper ends are what pip takes by itself
lowest:
	test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints/lowest.txt --editable ".[dev]"
	$(VENV)-lowest/bin/python -m pip check
	$(VENV)-lowest/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

# The site, in site/: a broken link, a picture that is not there or a public name without a word about it fails
docs:
	test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints/docs.txt --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict

# What would be uploaded, in dist/, tried in an empty environment (docs/releasing.md)
dist:
	test -x $(VENV)-release/bin/python || $(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[release]"
	$(VENV)-release/bin/python -m tests.distribution --out dist

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-docs $(VENV)-release site dist runs .pytest_cache .ruff_cache

# Two marker files: users of `make spiral` need not wait for the developers' tools. Installing builds the engine.
ENGINE := $(filter-out %.so,$(wildcard leadline/backend/native/*.*)) hatch_build.py

$(VENV)/installed: pyproject.toml $(ENGINE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/developed: pyproject.toml $(ENGINE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints/development.txt --editable ".[dev]"
	$(BIN)/python -m pip check
	touch $@ $(VENV)/installed
