# Every target makes .venv itself when it is missing or pyproject.toml has changed.
PYTHON ?= python3
JOBS ?= 2
ARGS ?=
SHARED ?= $(or $(GRADCLI_SHARED),../shared)

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

# The project alone, on one machine; peers need an environment of their own (README.md beside the scripts).
bench: export GRADCLI := $(CURDIR)/$(VENV)/bin/gradcli
bench: $(READY)
	@test -d '$(SHARED)/bench' || { echo 'bench: no $(SHARED)/bench here; say SHARED=folder' >&2; exit 2; }
	$(RUN) '$(SHARED)/bench/startup.py'
	$(RUN) '$(SHARED)/bench/large_file.py' --peers ''
	$(RUN) '$(SHARED)/bench/throughput.py' --peers ''

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gradcli needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(RUN) -m compileall -q gradcli
	@touch $@
