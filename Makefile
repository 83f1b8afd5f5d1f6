# Two commands: `make demo` (the main job) and `make test` (everything that must hold). Both set themselves up.
# `make mutants` breaks the library on purpose and checks that the simulations notice (some 20 minutes of two cores).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test mutants validity lint format bench docs docs-serve dist clean

demo: $(VENV)/base.done
	$(BIN)/riskfront demo --out-dir demo-output

test: $(VENV)/dev.done lint
	bash tests/install_browser.sh
	$(BIN)/python -m pytest -n 2 --dist worksteal

mutants: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants

# every guarantee on every hard population, and every known trap (about ten minutes of one core); writes docs/compare/validity.md
validity: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.validity

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev.done
	$(BIN)/python -m benchmarks.speed

# the site, in site/: open site/index.html from the folder; nothing is fetched, warnings are errors
docs: $(VENV)/dev.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/dev.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# wheel and sdist in dist/, tried in empty environments of every supported Python that is here (minutes)
dist: $(VENV)/dev.done
	$(BIN)/python -m tests.release

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/base.done: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/dev.done: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(VENV)/base.done $@

clean:
	rm -rf $(VENV) demo-output site dist
