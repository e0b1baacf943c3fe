"""NVIDIA's libraries of the tests, and a sampler that runs on them in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE
from fake_driver import FakeDriver
from scenario import Scenario

PROGRAM = """
import dataclasses, json, sys, threading
from voxyard.telemetry import sampler
sampler.REOPEN_SECONDS, sampler.HUNG_SECONDS = 0.3, float(sys.argv[2])

def tell(snapshot):
    told = {
        "time": snapshot.monotonic, "threads": threading.active_count(),
        "success": snapshot.success, "problem": snapshot.problem, "driver": snapshot.driver_version,
        "errors": {f"{function} {code}": count for (function, code), count in snapshot.errors.items()},
        "links": {f"{one} {other}": link for (one, other), link in snapshot.links.items()},
        "gpus": {
            str(state.gpu.index): {
                "uuid": state.gpu.uuid, "up": state.up, "problem": state.gpu.problem, "ratio": state.utilization_ratio,
                "busy": state.busy_seconds, "xids": {str(n): x.count for n, x in state.xids.items()},
                "reading": None if state.reading is None else dataclasses.asdict(state.reading),
            }
            for state in snapshot.gpus
        },
    }
    print(json.dumps(told), flush=True)

only = {sys.argv[3]} if sys.argv[3] else None
with sampler.GpuSampler(float(sys.argv[1]), only=only, processes=True, on_snapshot=tell):
    sys.stdin.read()
"""

Told = dict[str, Any]


class Sampling:
    """A sampler in another process; its host's scenario can be changed under it."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self._process, self._path = process, path

    def change(self, scenario: Scenario) -> None:
        """Changes the host from now on."""
        scenario.write(self._path)

    def until(self, holds: Callable[[Told], bool], seconds: float = PATIENCE) -> Told:
        """The first snapshot of which something holds."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        told: Told = {}
        silence = threading.Timer(seconds, self._process.kill)  # a loop that hangs tells nothing at all
        silence.start()
        try:
            while time.monotonic() < deadline and (line := self._process.stdout.readline()):
                told = json.loads(line)
                if holds(told):
                    return told
        finally:
            silence.cancel()
        raise AssertionError(f"within {seconds} s it never held; the last snapshot: {json.dumps(told)[:2000]}")


@pytest.fixture
def sampling(driver: FakeDriver, tmp_path: Path) -> Callable[..., Any]:
    """Starts a sampler on a host; a context."""

    @contextmanager
    def start(scenario: Scenario, interval: float = 0.1, hung: float = 10.0, only: str = "") -> Iterator[Sampling]:
        path = tmp_path / "scenario"
        environment = driver.environment_of(scenario, path=path)
        command = [sys.executable, "-c", PROGRAM, str(interval), str(hung), only]
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield Sampling(process, path)
            finally:
                process.kill()

    return start
