"""Rules for every test: nothing is skipped under CI, tests that need a GPU are counted, torch may be declined.

A test marked `needs("rsync")` is left out with a sentence where that program is not installed.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import logging
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings
from programs import lacking

# No test asserts an absolute time, and none is red by chance: a run draws the examples that the last one drew.
settings.register_profile("shared-machine", deadline=None, derandomize=True, database=None)
settings.load_profile("shared-machine")

# Of the make that runs the tests: a make that a test starts would take over its jobs and variables.
for name in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "JOBS", "ROOM", "TESTS", "TIER", "VOXYARD_GATE"):
    os.environ.pop(name, None)

# Bytecode is kept whatever the machine says: otherwise each worker rewrites every test's assertions anew, and each of
# the hundreds of processes that tests start compiles all of voxyard.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# After how many seconds a test hangs: pytest's `timeout` of pyproject.toml, longer for a machine that does much else.
if patience_of_tests := os.environ.get("VOXYARD_TEST_PATIENCE"):
    os.environ.setdefault("PYTEST_TIMEOUT", f"{300 * float(patience_of_tests):g}")

# A proxy of the machine is for what lies outside: neither tests nor the programs under test reach loopback through it.
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = ",".join(filter(None, (os.environ.get(name), "localhost,127.0.0.1,::1")))

# A shell has its background commands ignore Ctrl-C, and programs that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine may take longer for an answer than the five seconds for which httpx waits unless told otherwise.
for name in ("httpx", "httpx2"):  # the second is openai's
    if importlib.util.find_spec(name) is None:  # the trainer's tests with the oldest TensorFlow have none
        continue
    httpx = importlib.import_module(name)
    patience = inspect.signature(httpx.get).parameters["timeout"].default
    patience.connect = patience.read = patience.write = patience.pool = 60.0
    # The authorities that are trusted are read once: that takes 70 ms, and tests ask thousands of times.
    trusted = httpx.create_ssl_context()
    asking = (httpx.get, httpx.post, httpx.put, httpx.patch, httpx.delete, httpx.head, httpx.options)
    for each in (*asking, httpx.request, httpx.stream, httpx.Client.__init__, httpx.AsyncClient.__init__):
        inspect.unwrap(each).__kwdefaults__["verify"] = trusted

# Clients whose server has gone try again in threads that outlive their test: their words are not those of the next one.
logging.getLogger("urllib3").setLevel(logging.ERROR)

pytest_plugins = ["driver_fixture", "postgres_fixture"]  # tests/nvml, tests/support/service


@pytest.fixture
def localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name localhost is 127.0.0.1, also on a machine whose /etc/hosts does not say so."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *arguments: Any, **named: Any) -> Any:
        return resolve("127.0.0.1" if host == "localhost" else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


_NO_GPU = "marked gpu, and this machine has no NVIDIA GPU"
_NEED_TORCH = [Path(__file__).parent / folder for folder in ("integration/bark", "monitoring/proof")]
_SLOW = (  # below tests/, beside those marked slow: what `make prove` runs and `make test` leaves out
    "fleet/",
    "integration/bark/test_faults.py",
    "integration/bark/test_first_sound.py",
    "integration/bark/test_gpu_report.py",
    "integration/bark/test_serve.py",
    "integration/bark/test_serve_stops.py",
    "integration/bark/test_speak.py",
    "integration/bark/test_uploaded_voices.py",
    "integration/bark/test_workers.py",
    "integration/clients/",
    "integration/cluster/",
    "integration/demo/",
    "integration/devices/",
    "integration/diagnose/",
    "integration/model/test_export.py",
    "integration/model/test_judged_run.py",
    "integration/service/test_audio_bucket.py",
    "integration/service/test_cells.py",
    "integration/service/test_gateway.py",
    "integration/service/test_sick_gpu.py",
    "integration/service/test_stop.py",
    "integration/slurm/",
    "integration/telemetry/",
    "integration/trainer/test_asynchronous_devices.py",
    "integration/trainer/test_compilation_cache.py",
    "integration/trainer/test_gpu_trial.py",
    "integration/trainer/test_gpus.py",
    "integration/trainer/test_hosts.py",
    "integration/trainer/test_placement.py",
    "integration/trainer/test_resume.py",
    "integration/trainer/test_run.py",
    "integration/trainer/test_run_checkpoints.py",
    "integration/trainer/test_run_directory.py",
    "integration/trainer/test_strategy_auto.py",
    "integration/trainer/test_two_networks.py",
    "monitoring/proof/",
    "unit/extraction/test_hostile_files.py",
    "unit/fleet/rollout/test_fitness.py",
    "unit/fleet/rollout/test_hooks.py",
    "unit/fleet/rollout/test_reload.py",
    "unit/fleet/rollout/test_rollback.py",
    "unit/fleet/test_environment.py",
    "unit/repository/test_mutants.py",
    "unit/repository/test_python_versions.py",
    "unit/repository/test_suite.py",
    "unit/service/audiobook/test_word_aligner.py",
    "unit/service/test_kill.py",
    "unit/service/test_kill_encoding.py",
    "unit/service/test_schemathesis.py",
    "unit/service/uploads/test_tagged_titles.py",
    "unit/speech/cluster/test_link.py",
    "unit/speech/test_pocketsphinx.py",
)
_LONG = (  # of the slow ones what `make prove` leaves out and `make prove-long` runs, beside those marked long
    "fleet/test_cells.py",
    "fleet/test_deploy.py",
    "fleet/test_deploy_cuts.py",
    "fleet/test_deploy_sick_hosts.py",
    "fleet/test_gateway.py",
    "fleet/test_images.py",
    "fleet/test_ray_cluster.py",
    "fleet/test_releases.py",
    "fleet/test_runs.py",
    "fleet/test_runs_over_hosts.py",
    "integration/bark/test_faults.py",
    "integration/bark/test_gpu_report.py",
    "integration/bark/test_serve_stops.py",
    "integration/cluster/test_faults.py",
    "integration/cluster/test_head.py",
    "integration/cluster/test_head_address.py",
    "integration/cluster/test_joining.py",
    "integration/cluster/test_lost_head.py",
    "integration/demo/",
    "integration/trainer/test_gpus.py",
    "unit/repository/test_python_versions.py",
)
_WITH_PROGRAMS = (  # quick tests that look for a program themselves: `make prove` repeats them, as those marked needs
    "browser/",
    "monitoring/",
    "unit/extraction/test_real_files.py",
    "unit/fleet/gateway/test_gateway.py",
    "unit/fleet/monitoring/test_monitoring_files.py",
    "unit/fleet/ssh/test_interrupt.py",
    "unit/fleet/ssh/test_ssh_login.py",
    "integration/service/test_gateway_tls.py",
    "integration/service/test_gateway_shared.py",
)
_FULL_RUN = os.environ.get("CI", "").lower() in ("1", "true", "yes")


_LEFT_OUT = {"not slow": _SLOW, "(slow or needs) and not long": _LONG}  # by the tiers of the Makefile


class _OfAnotherTier(pytest.Module):
    """A file of which the tier runs nothing: its imports would take each worker process seconds."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        return []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leave the files of other tiers unopened."""
    here = Path(__file__).parent
    left_out = _LEFT_OUT.get(parent.config.getoption("markexpr"), ())
    if left_out and module_path.is_relative_to(here) and module_path.relative_to(here).as_posix().startswith(left_out):
        unopened: pytest.Module = _OfAnotherTier.from_parent(parent, path=module_path)
        return unopened
    return None


class _WithoutTorch(pytest.Directory):
    """A folder whose tests are left out together."""

    def collect(self) -> NoReturn:
        why = f"all tests of {self.path.name} need torch, which is not installed: make setup TORCH=auto"
        if _FULL_RUN:  # said here: pytest asks this file about modules, not about folders
            pytest.fail(f"{why}; that counts as a failure under CI", pytrace=False)
        pytest.skip(why)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Leave out the folders that need torch where it was declined: their files could not even be imported."""
    if path in _NEED_TORCH and importlib.util.find_spec("torch") is None:
        left_out: pytest.Collector = _WithoutTorch.from_parent(parent, path=path)
        return left_out
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep thousands of tests, which live to the end, out of every later look for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest itself picks by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow proofs; skip `gpu` on a machine without one, and what needs a program that is not installed."""
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        if place.startswith(_LONG):
            item.add_marker(pytest.mark.long)
        if place.startswith(_SLOW) or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
        fixtures = getattr(item, "fixturenames", ())
        params = getattr(getattr(item, "callspec", None), "params", {}).values()
        on_postgres = "postgres" in fixtures or any(isinstance(each, str) and each == "postgres" for each in params)
        if place.startswith(_WITH_PROGRAMS) or on_postgres or "driver" in fixtures:
            item.add_marker(pytest.mark.needs())
        needed = [name for mark in item.iter_markers("needs") for name in mark.args]
        if "driver" in fixtures:  # NVIDIA's libraries of the tests are compiled
            needed.append("gcc")
        if reason := lacking(needed):
            item.add_marker(pytest.mark.skip(reason=reason))
    if not Path("/dev/nvidiactl").exists():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=_NO_GPU))


@pytest.fixture(autouse=True)
def _logging_stays() -> Generator[None]:
    """Take back what a test's command configures: its handler writes to a standard error that ends with the test."""
    loggers = [logging.getLogger(name) for name in (None, "fleet", "uvicorn", "voxyard")]
    before = [(each, each.handlers[:], each.level) for each in loggers]
    yield
    for each, handlers, level in before:
        each.handlers[:] = handlers
        each.setLevel(level)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI=true a skip is a failure, unless a GPU is what is missing."""
    report = yield
    if _FULL_RUN and report.skipped and not hasattr(report, "wasxfail") and not item.get_closest_marker("gpu"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure under CI: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is collected."""
    report = yield
    if _FULL_RUN and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: skipped, which counts as a failure under CI"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out: a line for each reason, with the number of tests."""
    reasons = Counter(_reason(report) for report in terminalreporter.getreports("skipped"))
    for reason, tests in reasons.most_common():
        terminalreporter.write_line(f"{tests} {'test' if tests == 1 else 'tests'} not run: {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Reason of a skip, without its place."""
    text = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    return text.removeprefix("Skipped: ")
