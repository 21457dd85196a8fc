# Needs git, make and a Python 3.11 or later with pip; everything else is built in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements/lock.txt

# Test processes. Each may use two numba threads, and one BLAS thread so that they do not
# fight for the cores.
WORKERS ?= 2
export NUMBA_NUM_THREADS ?= 2
RUN_TESTS = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
  $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
NUMERICAL_TESTS ?= $(addprefix tests/,spatial robot logs kalman simulation excitation \
  identification estimation laws)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env lock demo test format-check lint types imports docs pytest test-portable fuzz format bench bench-smoke metrics clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 24

env: $(STAMP) ## build .venv from the lock

# Some distributions ship pip without ensurepip: there pip itself fills the bare environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "bodysense needs Python 3.11 or later, e.g.: make env PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	  && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }

$(STAMP): pyproject.toml $(LOCK) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	touch $@

lock: $(BIN)/python ## resolve the dependencies again (UPGRADE=--upgrade for newer versions)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock" \
	  $(UPGRADE) --output-file $(LOCK) pyproject.toml

demo: $(STAMP) ## simulate a robot, identify it from its log, write a report
	$(BIN)/python examples/04_simulate_and_identify.py

test: format-check lint types imports docs pytest ## run every check

format-check: $(STAMP) ## is the code formatted?
	$(BIN)/ruff format --check

lint: $(STAMP) ## does the code follow the rules?
	$(BIN)/ruff check

types: $(STAMP) ## do the types hold?
	$(BIN)/mypy

imports: $(STAMP) ## do the imports point downward only?
	$(BIN)/lint-imports

docs: $(STAMP) ## build the documentation in site/
	$(BIN)/zensical build --strict --config-file mkdocs.yml

pytest: $(STAMP) ## run the tests
	$(RUN_TESTS) --durations 10

# numba, OpenBLAS and numpy choose instructions by the processor, and sums round otherwise. Here
# they are told of one with AVX2 but no AVX-512, then of one without these and without FMA (on
# x86-64 alone). numpy is asked for its own names of these: others are a warning, and that an error.
NUMPY_LEVELS = $(shell $(BIN)/python -c \
  'from numpy._core._multiarray_umath import __cpu_dispatch__ as levels; print(*levels)')

test-portable: $(STAMP) ## run the numerical tests in the arithmetic of other processors
	NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES= OPENBLAS_CORETYPE=Haswell \
	  NPY_DISABLE_CPU_FEATURES="$(filter X86_V4 AVX512%,$(NUMPY_LEVELS))" \
	  $(RUN_TESTS) $(NUMERICAL_TESTS)
	NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Prescott \
	  NPY_DISABLE_CPU_FEATURES="$(NUMPY_LEVELS)" \
	  $(RUN_TESTS) $(NUMERICAL_TESTS)

fuzz: $(STAMP) ## try 12 000 damaged files on all readers
	$(BIN)/python tests/fuzz/fuzzer.py --inputs 12000 --workers $(WORKERS)

format: $(STAMP) ## format the code and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(STAMP) ## measure the speed against peers
	$(BIN)/python -m benchmarks

bench-smoke: $(STAMP) ## try every benchmark once, in miniature
	$(BIN)/python -m pytest tests/test_benchmarks.py -m smoke

metrics: $(STAMP) ## print code-size metrics: files, names, imports, complexity
	$(BIN)/python -m benchmarks.metrics

clean: ## remove what was built, but not .venv
	rm -rf site out build dist .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove what was built and .venv
	rm -rf $(VENV)
