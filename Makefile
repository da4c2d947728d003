# Each target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BENCH  ?=

.PHONY: demo test check format bench bench-quick clean

demo: $(VENV)/demo.stamp        ## a real model, plainly and with a drafter: same text, both speeds
	$(BIN)/leadout demo

test: $(VENV)/dev.stamp         ## every test; the small model is fetched once, the larger pair is used where cached
	$(BIN)/pytest

check: $(VENV)/dev.stamp        ## format, lint, strict types, import directions, full branch coverage of the core
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_structure.py tests/core --cov=leadout.core --cov-branch --cov-fail-under=100

bench: $(VENV)/bench.stamp       ## the standard set on the 1.5B/0.5B pair: about an hour on two cores; wants the machine for itself
	$(BIN)/python -m leadout.bench.standard $(BENCH)

bench-quick: $(VENV)/bench.stamp ## a part of it, shortened: under 8 minutes, into benchmarks/quick
	$(BIN)/python -m leadout.bench.standard --quick $(BENCH)

format: $(VENV)/dev.stamp
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24.1"

$(VENV)/demo.stamp: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[ik]"
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml
	@echo "Installing the test environment; llama-cpp-python is compiled, which takes minutes the first time."
	$(BIN)/python -m pip install --quiet --editable ".[ik,llama,dev,clients]"
	touch $@ $(VENV)/demo.stamp

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
