# `make book`, `make test` and, in about a minute, `make check`; each sets up .venv.
#
#   make book [PROFILE=quick|laptop|paper]   the site, in _build/html/index.html
#   make test [ARGS="..."]                   all tests; ARGS go to pytest
#   make check                               format, lint, types, and the tests that are not slow
#   make test-flower [ARGS="..."]            the tests of fedstas.flower, in .venv-flower
#   make notebooks                           write notebooks/ipynb/: the chapters as plain notebooks, to be run elsewhere
#   make gpu [ARGS="..."]                    a GPU beside the CPU: results, seconds; into benchmarks/gpu.json
#   make times [ARGS="..."]                  each notebook in plain papermill, a line each; goes on where it stopped
#   make parameters [ARGS="..."]             chapters with parameters drawn at random: what their pages say; 40 sets
#   make chaos [ARGS="..."]                  kills, flipped bits, nonsense: half an hour; figures in tests/chaos/figures.json
#   make chaos-quick                         two minutes of it, as CI runs it; writes no figures
#   make format                              ruff: format, and lint with fixes
#   make figure                              draw the README's figure anew from results/
#   make lock                                resolve both locks anew, with the hashes of all files
#   make clean                               remove everything that was generated, but not .venv
#   make help                                this list

PROFILE ?= quick
ARGS ?=
export FEDSTAS_PROFILE := $(PROFILE)
# Book and tests start many interpreters: bytecode is stored, or each would compile torch's modules anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: book test check format-check lint types fast test-flower notebooks gpu times parameters chaos chaos-quick format figure lock clean help

book: .venv/.ready
	.venv/bin/doit

test: .venv/.ready
	.venv/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

check: format-check lint types fast

format-check: .venv/.ready
	.venv/bin/ruff format --check

lint: .venv/.ready
	.venv/bin/ruff check

types: .venv/.ready
	.venv/bin/mypy

fast: .venv/.ready
	.venv/bin/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile $(ARGS)

test-flower: .venv-flower/.ready
	.venv-flower/bin/python -m pytest tests/flower --numprocesses 2 --dist loadfile --durations 5 \
	  -W ignore::DeprecationWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(ARGS)

notebooks: .venv/.ready
	.venv/bin/python -m companion.pages.copies

gpu: .venv/.ready
	.venv/bin/python -m benchmarks.gpu --json benchmarks/gpu.json $(ARGS)

times: .venv/.ready
	.venv/bin/python -m benchmarks.notebooks --json benchmarks/notebooks.json $(ARGS)

parameters: .venv/.ready
	.venv/bin/python -m companion.pages.random_parameters --sets 40 $(ARGS)

chaos: .venv/.ready
	.venv/bin/python tests/chaos tests/chaos/figures.json $(ARGS)

chaos-quick: .venv/.ready
	.venv/bin/python tests/chaos /dev/null --kills 10 --flips 75 --calls 1000 --commands 100 --seconds 40 $(ARGS)

format: .venv/.ready
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

figure: .venv/.ready
	.venv/bin/doit front
	cp book/chapters/start.png book/_static/first-result.png

RESOLVE = .venv/bin/uv pip compile -q pyproject.toml --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
  --no-annotate --no-header --no-emit-index-url --no-emit-find-links --constraint .ci/constraints.txt --extra dev

lock: .venv/.ready
	$(RESOLVE) --extra book --extra dask -o requirements.lock
	$(RESOLVE) --extra flower -o requirements-flower.lock

.venv/.ready: requirements.lock pyproject.toml .ci/setup
	@sh .ci/setup

.venv-flower/.ready: requirements-flower.lock | .venv/.ready
	@echo "Setting up .venv-flower; the first time takes a few minutes." >&2
	@uv=$$(command -v uv || echo .venv/bin/uv); here=.venv-flower/bin/python; \
	if "$$uv" --version >/dev/null 2>&1; then \
	  "$$uv" venv -q --allow-existing --python .venv/bin/python .venv-flower && \
	  "$$uv" pip install -q --python $$here --require-hashes -r requirements-flower.lock && \
	  "$$uv" pip install -q --python $$here --no-deps --editable .; \
	else \
	  .venv/bin/python -m venv .venv-flower && \
	  $$here -m pip install -q --require-hashes -r requirements-flower.lock && \
	  $$here -m pip install -q --no-deps --editable .; \
	fi
	@touch $@

clean:
	rm -rf _build .cache book/chapters notebooks/ipynb .pytest_cache .ruff_cache .hypothesis out.ipynb

help:
	@sed -n 's/^#   //p' Makefile
