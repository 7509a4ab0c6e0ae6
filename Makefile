# `make demo` and `make test` do all the set-up that they need; nothing has to be run first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export DAGSTER_HOME ?= $(CURDIR)/dagster_home

# A run and its tests are many processes: the packages are compiled once for all of them, also where nothing else is.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
export PYTHONDONTWRITEBYTECODE :=

TRAINERS := .venv-trainers
TRAINER_TESTS := eagle_assets_tests/training/trainers
SERVERS := .venv-servers
SERVER_TESTS := eagle_assets_tests/judge/servers

.PHONY: help setup demo run ui test test-trainers test-servers bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    the whole graph on a loopback server: no key, no network, nothing spent"
	@echo "make demo JUDGE=1    the same, with a small target model as the judge of the verdicts"
	@echo "make run     the same for real, with OPENROUTER_API_KEY set"
	@echo "make ui      the lineage in a browser, on http://127.0.0.1:3000"
	@echo "make test    every check of this repository"
	@echo "make test-trainers    the real speculators and SpecForge on exports of the demo: minutes, and gigabytes of torch"
	@echo "make test-servers     vLLM's and SGLang's own servers on the CPU as the judge, with a tiny model: minutes, and gigabytes of torch"
	@echo "make bench   every figure against its peer, as a table: about ten minutes"
	@echo "make clean   remove the environment and the demo's data (never the data of make run)"

setup: $(READY)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed and $(PYTHON) is not that: install it, or name one: make setup PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: install its venv module (on Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "Setting up $(VENV), once: this takes a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/eagle-assets preflight > $(VENV)/preflight.txt || { cat $(VENV)/preflight.txt >&2; exit 1; }
	@touch $(READY)

demo: setup
	@EAGLE_ASSETS_HOME="$(CURDIR)/data/demo" $(BIN)/python -m eagle_assets.demo $(if $(JUDGE),--judge)

run: setup
	@$(BIN)/eagle-assets run

ui: setup
	@echo "Once it serves: http://127.0.0.1:3000/asset-groups is the lineage, /assets/run_statistics says what it cost and what can"
	@echo "be trusted, /assets/token_sequences?view=partitions&partition=B3 why, dataset by dataset, and /automation has the schedules."
	@$(BIN)/dagster dev --host 127.0.0.1 --port 3000

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# speculators' index torchvision is a CUDA build that does not load beside a CPU torch; nothing imports it.
$(TRAINERS)/.ready: $(TRAINER_TESTS)/requirements.txt
	@echo "Setting up $(TRAINERS), once: this takes a few minutes"
	@$(PYTHON) -m venv $(TRAINERS)
	@$(TRAINERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $(TRAINER_TESTS)/requirements.txt
	@$(TRAINERS)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio
	@$(TRAINERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps specforge==0.2.0
	@touch $(TRAINERS)/.ready

# The trainers' own code reads exports of the demo's shards, and trains a tiny drafter on them.
test-trainers: setup $(TRAINERS)/.ready
	@test -d data/demo/training_shards || $(MAKE) demo
	EAGLE_ASSETS="$(CURDIR)/$(BIN)/eagle-assets" EAGLE_ASSETS_HOME="$(CURDIR)/data/demo" \
		$(TRAINERS)/bin/python -m pytest -q -s -o filterwarnings= $(TRAINER_TESTS)/check_trainers.py $(TRAINER_TESTS)/check_causal_model.py

# vLLM's torchvision, torchaudio and torchcodec are CUDA builds that do not load beside a CPU torch; nothing needs them
# here. SGLang names a torch of its own and two dozen packages for GPUs: it comes without what it names.
$(SERVERS)/.ready: $(SERVER_TESTS)/requirements.txt
	@echo "Setting up $(SERVERS), once: this takes a few minutes"
	@$(PYTHON) -m venv $(SERVERS)
	@$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $(SERVER_TESTS)/requirements.txt
	@$(SERVERS)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps sglang==0.5.23
	@touch $(SERVERS)/.ready

# The judge's questions to real servers, held against the model's own logits.
test-servers: setup $(SERVERS)/.ready
	SERVERS_PYTHON="$(CURDIR)/$(SERVERS)/bin/python" \
		$(BIN)/python -m pytest -q -s $(SERVER_TESTS)/check_vllm.py $(SERVER_TESTS)/check_sglang.py

# Each figure is a ratio of one run; nothing else should run meanwhile.
bench: setup
	@mkdir -p data
	@for measured in machine definitions reconstruct rematerialise collect draft_vocabulary shards; do \
		echo "== $$measured"; $(BIN)/python benchmarks/$$measured.py || echo "(a figure was missed)"; echo; \
	done 2>&1 | tee data/benchmarks.txt

clean:
	rm -rf $(VENV) data/demo build dist
