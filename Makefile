# Two commands do everything in a fresh clone: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types unit bench lock clean

demo: $(VENV)/ready
	$(BIN)/stream-apple demo

test: lint types unit

lint: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/ready
	$(BIN)/mypy

# The watchdog is for what pytest's own timeout can't interrupt, a call into C that never comes back.
unit: $(VENV)/ready
	$(BIN)/pytest -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

bench: $(VENV)/ready
	$(BIN)/python tests/bench/decode.py
	$(BIN)/python tests/bench/learning.py
	$(BIN)/python tests/bench/worker.py
	$(BIN)/python tests/bench/recovery.py
	$(BIN)/python tests/bench/standstill.py

# The environment holds exactly what the lock file names, checked by hash.
$(VENV)/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"stream-apple needs Python 3.11 or newer; $(PYTHON) is {sys.version.split()[0]}. Name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile pyproject.toml --extra test --extra study --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--quiet --upgrade --output-file requirements.lock
	$(VENV)-lock/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --quiet --constraint requirements.lock \
		--output-file docker/requirements.lock
	$(VENV)-lock/bin/uv pip compile docker/build.in --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --quiet --output-file docker/build.lock

clean:
	rm -rf $(VENV) $(VENV)-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
	find . -name __pycache__ -type d -exec rm -rf {} +
