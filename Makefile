# Everything sets itself up: `make demo` and `make test` work on a fresh clone, offline once installed, and again.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install databases browser containers jq demo live test test-unit test-turn test-slow test-all test-open test-image test-schedulers trust prove fuzz \
	audit lint format docs wheel sbom bench clean

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3 python; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
INSTALLED := $(VENV)/.installed
INSTALLED_OPEN := $(VENV)/.installed-open
INSTALLED_TRUST := $(VENV)/.installed-trust
PYTEST_ARGS ?=
LIVE_ARGS ?=
# Minutes of a processor for each target of fuzzing.
FUZZ_MINUTES ?= 1
TRUST_SIZE ?= quick
# Tasks of each scheduler that `make test-schedulers` kills.
KILLS ?= 3
# The part of their tests that `make test-turn` and `make test-slow` run: 3/24 is the third of 24, all of about the same time.
PART ?= 1/1
# Most of a test of Spark is waiting for single tasks, so two at a time take half the time. Tests of a class or a module
# stay together, since they share what was built for them; the many small ones come last, and fill the gaps.
WORKERS ?= -n 2 --dist loadscope --no-loadscope-reorder

help:
	@echo "make install    a virtual environment in $(VENV), Java and the JARs that Spark needs"
	@echo "make databases  PostgreSQL, MariaDB and promtool for tests; part of make install for root on Debian"
	@echo "make browser    Chromium for the tests of the page; part of make install for root on Debian"
	@echo "make demo       the sample project, day after day"
	@echo "make live       flights that change in a database, followed through all layers within seconds"
	@echo "make test       the tests (make test-unit: without Java; make test-all: slow ones and dbt 1.11 too)"
	@echo "make test-turn  the tests that take turns in .ci/run; PART=2/4 runs the second of four equal parts"
	@echo "make test-slow  the tests that take longest; PART=3/24 runs the third of 24 equal parts"
	@echo "make test-open  object stores and catalogs, on servers of open source"
	@echo "make test-image the image, built by its Dockerfile and run as deploy/docker/compose.yml says; needs root and Debian"
	@echo "make test-schedulers Airflow and Dagster that run what deploy/ has for them, and are killed KILLS times for each"
	@echo "make trust      all that proves the guarantees, of TRUST_SIZE quick, full or night (parts: make fuzz, make audit)"
	@echo "make lint       style, types, import contracts and spelling (make format: put the style right)"
	@echo "make docs       the pages in docs/: generated parts, then all as a site, in site/"
	@echo "make wheel      what is released, in dist/, with its bill of materials (make sbom)"
	@echo "make bench      all benchmarks; one: python -m benchmarks NAME"
	@echo "make clean      take away what was built here"

install: $(INSTALLED)
	@$(BIN)/python -m arctic_runtime.spark.jars --install-java kafka avro
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		$(MAKE) --no-print-directory databases browser; fi

# Their packages start servers of their own where an init system runs; the tests use none of these.
databases:
	@if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || ! command -v mariadbd >/dev/null || \
		! command -v promtool >/dev/null || ! command -v bwrap >/dev/null; then \
		echo "Installing PostgreSQL, MariaDB, promtool and bubblewrap"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			postgresql mariadb-server prometheus bubblewrap >/dev/null; fi

# The page on AWS calls it.
jq:
	@if ! command -v jq >/dev/null; then \
		echo "Installing jq"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends jq >/dev/null; fi

# What builds the image by its Dockerfile and runs it, without a service that does.
containers:
	@if ! command -v buildah >/dev/null || ! command -v podman >/dev/null || ! command -v mmdebstrap >/dev/null; then \
		echo "Installing buildah, podman and mmdebstrap"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			buildah podman crun mmdebstrap iproute2 >/dev/null; fi

# The page of the service is tested in it; without it these tests are skipped.
browser:
	@if ! command -v chromium >/dev/null; then \
		echo "Installing Chromium"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium fonts-dejavu-core >/dev/null; fi

# Made anew when what is to be installed changes; otherwise nothing is asked of any network.
$(INSTALLED): pyproject.toml constraints.txt requirements-dbt.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.10 to 3.13 is needed and none was found; make PYTHON=/path/to/python names one" >&2; exit 2; fi
	@[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-dbt.txt
	@touch $@

demo: install
	@$(BIN)/python -m sample_project.demo

live: install
	@$(BIN)/python -m sample_project.live $(LIVE_ARGS)

test: install
	@$(BIN)/python -m pytest -m "not slow and not in_turn" $(WORKERS) $(PYTEST_ARGS)

test-unit: $(INSTALLED)
	@$(BIN)/python -m pytest tests/unit -m "not slow" $(WORKERS) $(PYTEST_ARGS)

SPLIT = --splits $(notdir $(PART)) --group $(patsubst %/,%,$(dir $(PART))) --durations-path tests/durations.json

test-turn: install
	@$(BIN)/python -m pytest -m "in_turn and not slow" $(SPLIT) $(WORKERS) $(PYTEST_ARGS)

test-slow: install
	@$(BIN)/python -m pytest -m slow $(SPLIT) $(WORKERS) $(PYTEST_ARGS)

test-all: test test-turn test-slow
	@$(BIN)/python -m nox -s dbt-1.11 -- $(WORKERS) $(PYTEST_ARGS)

test-open: install $(INSTALLED_OPEN) jq
	@$(BIN)/python -m pytest tests/open $(PYTEST_ARGS)

# The servers need many packages, which nothing else here does.
$(INSTALLED_OPEN): $(INSTALLED) tests/open/daft.txt
	@echo "Installing the servers and readers of tests/open into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,open]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/open/daft.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-dbt.txt
	@touch $@

# The audit runs in any case: a fault hides no weakness of a package, nor does one hide a fault.
# Built while there is a network; its containers have none but the loopback, as no other process of the tests has.
test-image: install containers
	@$(BIN)/python -m tests.image.image
	@ARCTIC_IMAGE_TESTS=1 sh tests/image/alone.sh $(BIN)/python -m pytest tests/image $(PYTEST_ARGS)

# Airflow has an environment of its own, since it needs other versions than dbt; Dagster stands beside the project's.
test-schedulers: install build/airflow/.installed build/dagster/.installed
	@ARCTIC_SCHEDULER_TESTS=1 ARCTIC_SCHEDULER_KILLS=$(KILLS) $(BIN)/python -m pytest tests/schedulers $(PYTEST_ARGS)

build/airflow/.installed: tests/schedulers/airflow.txt
	@echo "Installing Airflow into build/airflow"
	@"$(PYTHON)" -m venv --clear build/airflow
	@build/airflow/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build/dagster/.installed: tests/schedulers/dagster.txt $(INSTALLED)
	@echo "Installing Dagster into build/dagster"
	@rm -rf build/dagster
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/dagster -r $<
	@touch $@

trust: install $(INSTALLED_TRUST)
	@mkdir -p build
	@$(MAKE) --no-print-directory --keep-going prove audit

prove:
	@$(BIN)/python -m tests.trust --size $(TRUST_SIZE) --json build/trust.json

fuzz: $(INSTALLED_TRUST)
	@mkdir -p build
	@$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) --json build/fuzz.json

audit: $(INSTALLED_TRUST)
	@$(BIN)/python -m release.audit

# Guided fuzzing has wheels for some systems only; elsewhere inputs are made by chance.
$(INSTALLED_TRUST): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,trust]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-dbt.txt
	@touch $@

# Each check is a target of its own, so that one that fails hides no other: `make --keep-going lint`.
.PHONY: lint-style lint-types lint-contracts lint-spelling
lint: lint-style lint-types lint-contracts lint-spelling

lint-style: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types: $(INSTALLED)
	$(BIN)/mypy

lint-contracts: $(INSTALLED)
	$(BIN)/lint-imports

lint-spelling: $(INSTALLED)
	$(BIN)/codespell

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(INSTALLED)
	@$(BIN)/python -m docs.generate
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

wheel: $(INSTALLED) sbom
	@$(BIN)/python -m hatchling build -t wheel

sbom: $(INSTALLED)
	@$(BIN)/python -m release.sbom dist/dbt-arctic.cdx.json

bench: install
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist site .nox .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	rm -rf target logs warehouse spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
