# Three commands: `make demo` (the main job), `make quick` (what to run after an edit) and `make test` (everything that must hold).
# All set themselves up.
# `make mutants` breaks the library on purpose and checks that the simulations notice (some 20 minutes of two cores).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# versions of everything that is installed; `make CONSTRAINTS= test`, or `make newest`, takes the newest that pyproject.toml allows
CONSTRAINTS ?= constraints.txt
INSTALL = $(BIN)/python -m pip install --quiet $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

.PHONY: demo quick quick-tests test newest mutants validity faults lint format bench docs docs-serve dist clean

demo: $(VENV)/base.done
	$(BIN)/riskfront demo --out-dir demo-output

# the base install and pytest only, no slow tests: under two minutes; tests that need an extra are skipped and say so
# in an environment of its own, because with all extras the same tests take seven minutes
quick:
	$(MAKE) VENV=.venv-quick quick-tests

quick-tests: $(VENV)/quick.done
	$(BIN)/python -m pytest --quick -q -r fE

# a test that hangs fails after five minutes and says where it stood; the slowest ones are named
test: $(VENV)/dev.done lint
	bash tests/install_browser.sh
	$(BIN)/python -m pytest -n 2 --dist worksteal --timeout 300 --durations 25

# the tests with the newest versions of all dependencies, in an environment of their own
newest:
	$(MAKE) VENV=.venv-newest CONSTRAINTS= test

mutants: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants

# every guarantee on every hard population, and every known trap (over an hour of processor time, all cores); writes docs/compare/validity.md
validity: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.validity

# every fault of tests/faults with real processes and servers (minutes); writes docs/compare/faults.md
faults: $(VENV)/dev.done
	$(BIN)/python -m tests.faults

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

$(VENV)/base.done: $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	$(INSTALL) --editable .
	touch $@

$(VENV)/quick.done: $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	$(INSTALL) --editable . pytest hypothesis
	touch $(VENV)/base.done $@

$(VENV)/dev.done: $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	$(INSTALL) --editable '.[dev]'
	touch $(VENV)/base.done $@

clean:
	rm -rf $(VENV) .venv-newest .venv-quick demo-output site dist
