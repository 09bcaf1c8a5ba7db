# Every target makes .venv itself when it is missing or pyproject.toml has changed.
PYTHON ?= python3
JOBS ?= 2
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.installed

.DELETE_ON_ERROR:
.PHONY: demo test lint docs bench clean

demo: $(READY)
	@$(RUN) samples/demo.py

# make test ARGS='-k twins' runs some; JOBS=0 runs them in one process.
test: $(READY)
	$(RUN) -m pytest -n $(JOBS) $(ARGS)

lint: $(READY)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

docs: $(READY)
	$(RUN) docs/generate.py

# The project alone, on one machine; benchmarks/README.md says how peers run beside it.
bench: export GRADCLI := $(CURDIR)/$(VENV)/bin/gradcli
bench: $(READY)
	$(RUN) benchmarks/startup.py
	$(RUN) benchmarks/large.py
	$(RUN) benchmarks/batch.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gradcli needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(RUN) -m compileall -q gradcli
	@touch $@
