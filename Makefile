# From a fresh clone, `make demo` and `make test` do everything, the installation into .venv included.
#
# PYTHON    the interpreter that makes .venv, 3.11 or newer:  make PYTHON=python3.12 test
# PIP_ARGS  more options for pip. PyPI's torch for Linux carries CUDA and is large; a CPU build is enough for all that is
#           here:  make PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" install
#           For another CUDA version, name its index instead (.../whl/cu126). The version stays the one of constraints.txt.
# ARGS      options for what the target calls:  make test ARGS="tests/methods/selectors -x"
# JOBS      processes that run the tests, one per core by default:  make test JOBS=0 runs them in one, for a debugger

PYTHON ?= python3
PIP_ARGS ?=
ARGS ?=
JOBS ?= auto

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --no-input --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo quick test test-all lint lint-types lint-style docs tutorials wheel \
  bench bench-nodes-scale bench-clients bench-edges bench-selection bench-device attack same-results testbed kills study-fedacs \
  study-cefgl study-fedais study-levers study-reputation-ucb study-rafhgl study-selectors study-attackers study-graft study-openfgl clean

help:  ## list the targets (what plain `make` does)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

install: .venv/.installed  ## make .venv and install the tested versions into it

demo: .venv/.installed  ## a first federated run, its figures and report, in ./demo
	$(BIN)/python -m fedgraft.interface.demo $(ARGS)

# Tiers of tests: CONTRIBUTING.md says what each guards. One thread each: tests are small, and threads that fight for cores
# make them slower. Bytecode is kept, whatever the shell says: each of many processes would compile everything anew.
quick test test-all: export OMP_NUM_THREADS = 1
unexport PYTHONDONTWRITEBYTECODE
QUICK := tests/contracts tests/domains tests/engine tests/methods tests/nn tests/wire

quick: .venv/.installed  ## run the tests of single parts; two minutes
	$(BIN)/pytest $(QUICK) -n $(JOBS) --dist worksteal $(ARGS)

test: .venv/.installed  ## run the tests, but for those that are long or start a federation's own processes; seven minutes
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

# A file's tests share a federation, which is a dozen processes; federations come first.
test-all: .venv/.installed  ## run all tests
	$(BIN)/pytest -m '' -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: lint-types lint-style  ## check types, style, formatting, the floors of the architecture and limits on its shape

lint-types: .venv/.installed
	$(BIN)/mypy

lint-style: .venv/.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/limits.py

# The variable silences a notice of the theme's authors about other programs; warnings about pages stay errors.
docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv/.installed  ## build the documentation site into ./site; a warning or a broken link is an error
	$(BIN)/mkdocs build --strict $(ARGS)

tutorials: .venv/.installed  ## execute the tutorials and write what they print into them; five minutes
	$(BIN)/python docs/execute_tutorials.py $(ARGS)

wheel: .venv/.installed  ## build source distribution and wheel into ./dist, and check what an index would show
	rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*

bench: .venv/.installed  ## time the hot paths against their limits
	$(BIN)/python benchmarks/bench.py $(ARGS)

bench-nodes-scale: .venv/.installed  ## measure node classification as graphs grow, and draw it; half an hour
	$(BIN)/python benchmarks/scale_nodes.py $(ARGS)

bench-clients: .venv/.installed  ## measure federations of up to 100,000 made-up clients; a quarter of an hour
	$(BIN)/python benchmarks/scale_clients.py $(ARGS)

bench-edges: .venv/.installed  ## measure recipes for edges on a million nodes and five million edges; ten minutes
	$(BIN)/python benchmarks/million_edges.py $(ARGS)

bench-selection: .venv/.installed  ## measure each selector among 100, 1,000 and some among a million clients; half a minute
	$(BIN)/python benchmarks/selection.py $(ARGS)

bench-device: .venv/.installed  ## measure every task on a CUDA device and on one core; six minutes
	$(BIN)/python benchmarks/device.py $(ARGS)

attack: .venv/.installed  ## attack the code as it is: bytes, folders, kills, no room, liars; half an hour, or ARGS="--minutes 5"
	$(BIN)/python benchmarks/attack.py $(ARGS)

same-results: .venv/.installed  ## run two commits in turns and compare digests, bytes, scores:  make same-results ARGS=HEAD~1
	$(BIN)/python benchmarks/same_results.py $(ARGS)

testbed: .venv/.installed  ## a federation over slow links, in network namespaces of this machine; needs root and iproute2
	$(BIN)/python benchmarks/testbed.py $(ARGS)

kills: .venv/.installed  ## kill a federation's server and runs at 26 random moments, and compare digests; ten minutes
	$(BIN)/python benchmarks/server_kills.py $(ARGS)

study-fedacs: .venv/.installed  ## the FedACS table: methods x seeds, the paper's numbers beside ours
	$(BIN)/fedgraft study fedacs $(ARGS)

study-cefgl: .venv/.installed  ## the CEFGL tables: sharing methods x settings x seeds, the paper's numbers beside ours
	$(BIN)/fedgraft study cefgl $(ARGS)

study-fedais: .venv/.installed  ## the FedAIS tables: accuracy against bytes and operations, the paper's numbers beside ours
	$(BIN)/fedgraft study fedais $(ARGS)

study-attackers: .venv/.installed  ## what ten of fifty clients that lie do to each aggregation rule: make study-attackers ARGS="--data DIR"
	$(BIN)/python benchmarks/attackers.py $(ARGS)

study-levers: .venv/.installed  ## who trains, on what, what is sent: each lever alone and together
	$(BIN)/fedgraft study levers $(ARGS)

study-reputation-ucb: .venv/.installed  ## the reputation-UCB tables: simulated seconds to a score, the paper's numbers beside ours
	$(BIN)/fedgraft study reputation-ucb $(ARGS)

study-rafhgl: .venv/.installed  ## the RAFHGL tables: selectors on typed graphs, paired differences with intervals
	$(BIN)/fedgraft study rafhgl $(ARGS)

study-selectors: .venv/.installed  ## all selectors side by side on ratings, nodes, graphs and typed graphs
	$(BIN)/fedgraft study selectors $(ARGS)

study-graft: .venv/.installed  ## our own recipes, part by part, paired with the published ones
	for task in node graph rating; do $(BIN)/fedgraft study graft_$$task --seeds 5 $(ARGS) || exit 1; done

study-openfgl: .venv/.installed  ## all methods of others and ours on OpenFGL's cuts: ARGS="--data DIR"
	$(BIN)/fedgraft study openfgl --seeds 5 $(ARGS)

clean:  ## delete caches, builds and ./demo; .venv and ./runs stay
	rm -rf build dist demo site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# `.unfinished` marks an environment whose first installation has not ended: it is made anew.
.venv/.installed: pyproject.toml constraints.txt
	@if [ -e .venv/.unfinished ] || ! $(BIN)/python -m pip --version > /dev/null 2>&1; then \
	  "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
	    echo "fedgraft needs Python 3.11 or newer; '$(PYTHON)' is: $$("$(PYTHON)" --version 2>&1 || true)" >&2; \
	    echo "Name another interpreter: make PYTHON=/path/to/python3.12" >&2; exit 1; }; \
	  echo "Making .venv; the installation takes a few minutes, once."; \
	  rm -rf .venv && mkdir .venv && touch .venv/.unfinished && "$(PYTHON)" -m venv .venv; \
	fi
	$(PIP) $(PIP_ARGS) -e ".[dev]"
	@rm -f .venv/.unfinished && touch $@
