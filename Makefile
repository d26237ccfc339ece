# Every target sets up .venv by itself from a bare python3 (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A file's tests share its fixtures and stay in one worker; twice the cores, since many of them wait for processes.
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder

.PHONY: help setup demo test check soak bench lock format clean

help:
	@echo "make demo    play 60 days in the embedded demo (DEMO_ARGS=--no-drop for the null)"
	@echo "make check   every gate and every test but the long ones"
	@echo "make test    the tests alone"
	@echo "make soak    the long ones: kills and simulations, seeded"
	@echo "make bench   the benchmarks, each figure a ratio"
	@echo "make format  rewrite the sources as the format gate wants them"

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("canaryd needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11 and run make again" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once, about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

demo: $(READY)
	$(BIN)/canaryd demo $(DEMO_ARGS)

test: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -q -m "not soak"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/interrogate -q canaryd
	$(BIN)/python -m pytest $(PARALLEL) -q -m "not soak"

soak: $(READY)
	$(BIN)/python -m pytest -q -m soak -s

bench: $(READY)
	$(BIN)/python -m benchmarks

lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet pyproject.toml --extra dev --universal --generate-hashes --no-header --no-annotate -o requirements.lock

format: $(READY)
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
