PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
STAMP := $(VENV)/.installed
REAL := $(VENV)/.installed-real

# Two test workers, or two model servers, on two cores: one thread each, or they fight for them.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(RUN) pytest -q -n 2

.PHONY: help setup setup-real demo demo-llm paper paper-quick test test-browser test-drills test-real screenshots bench bench-quick lint \
	format clean

help: ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(STAMP) ## Build the environment in .venv from requirements.lock

setup-real: $(REAL) ## Add the real models of requirements-real.lock (500 MB)

demo: setup ## Run Mixture-Greedy on the scikit-learn digits
	@$(RUN) genmix demo

demo-llm: setup-real ## Mix two real language models, served here (minutes)
	@$(ONE_THREAD) $(VENV)/bin/python examples/city/demo.py

paper: setup ## Make every figure and table of the paper on the recorded worlds (about an hour and a half)
	$(RUN) genmix paper --all --out build/paper

paper-quick: setup ## A quick look at all of them (minutes)
	$(RUN) genmix paper --all --quick --out build/paper-quick

test: setup ## Run the tests and measure the coverage
	$(PYTEST) -m "not drill and not real and not browser" --cov

test-drills: setup ## Run the long checks
	$(PYTEST) -m drill -rP

test-real: setup-real ## Run the end-to-end tests on real models
	HF_HUB_OFFLINE=1 $(ONE_THREAD) $(RUN) pytest -q -m real

test-browser: setup ## Run the tests in a real browser (needs Debian's chromium)
	$(ONE_THREAD) $(RUN) pytest -q -m browser

screenshots: setup ## Make the screenshots, those of the README among them
	PYTHONPATH=. $(ONE_THREAD) $(VENV)/bin/python docs/screenshots.py

bench: setup ## Run all benchmarks at full size (about 45 minutes)
	$(RUN) bench all

bench-quick: setup ## Run small versions of all benchmarks (minutes)
	$(RUN) bench all --quick

lint: setup ## Check style and types
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy

format: setup ## Put the code in shape
	$(RUN) ruff check --fix
	$(RUN) ruff format

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis \
		.mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment made by another version of Python is rebuilt; one made by this version is reused.
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "genmix needs Python 3.11 or newer: name one, as in PYTHON=python3.12 make setup."; \
		exit 1; }
	@version='import sys; print(sys.version_info[:2])'; \
	if [ "$$($(VENV)/bin/python -c "$$version" 2>/dev/null)" != "$$($(PYTHON) -c "$$version")" ]; \
	then $(PYTHON) -m venv --clear $(VENV); fi
	@echo "Installing requirements.lock into $(VENV) (minutes the first time) ..."
	@$(RUN) pip install -qq --disable-pip-version-check -r requirements.lock
	@$(RUN) pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(REAL): $(STAMP) requirements-real.lock
	@echo "Installing requirements-real.lock into $(VENV) (minutes the first time) ..."
	@$(RUN) pip install -qq --disable-pip-version-check --no-deps -r requirements-real.lock
	@touch $@
