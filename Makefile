# Each target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test check format bench clean

demo: $(VENV)/demo.stamp        ## a real model, plainly and with a drafter: same text, both speeds
	$(BIN)/leadout demo

test: $(VENV)/dev.stamp         ## every test; the small model is fetched once, the larger pair is used where cached
	$(BIN)/pytest

check: $(VENV)/dev.stamp        ## format, lint, strict types, import directions, full branch coverage of the core
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_structure.py tests/core --cov=leadout.core --cov-branch --cov-fail-under=100

bench: $(VENV)/bench.stamp       ## the standard set on the 1.5B/0.5B pair; takes hours on two cores, and wants the machine for itself
	$(BIN)/leadout bench qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b \
		--vs plain,plain@llama,ngram:3,fixed:1,fixed:3,llama-cpp-python,llama-server,transformers,openvino \
		--out benchmarks/bench.json --picture benchmarks/bench.svg

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
	$(BIN)/python -m pip install --quiet --editable ".[ik,llama,dev]"
	touch $@ $(VENV)/demo.stamp

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
