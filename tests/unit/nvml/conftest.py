"""A host of fake GPUs, and a process on it that makes NVML calls through the real nvidia-ml-py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE
from fake_driver import FakeDriver
from scenario import Scenario

NVML = Path(__file__).parents[2] / "nvml"
sys.path.insert(0, str(NVML))


class Refusal(Exception):  # noqa: N818 - it is what NVML answered, not a fault
    """NVML answered with a return code that is not success."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Host:
    """A process on a host. Functions are named without their `nvml`; GPUs are handles by the name `@0`, `@1`, …."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self._process, self.path = process, path
        self.seconds = self.before = self.now = 0.0
        self.errors = ""

    def call(self, function: str, *arguments: Any) -> Any:
        """The answer. Raises Refusal."""
        keep, _, name = function.rpartition(":")
        said = self.say(f"{keep}:nvml{name}" if keep else f"nvml{name}", *arguments)
        if "code" in said:
            raise Refusal(said["code"], said["text"])
        return said["answer"]

    def device(self, function: str, gpu: int, *arguments: Any) -> Any:
        """The answer to nvmlDeviceGet… of a GPU. Raises Refusal."""
        return self.call(f"DeviceGet{function}", f"@{gpu}", *arguments)

    def code(self, function: str, *arguments: Any) -> int:
        """The return code of a call; the answer is dropped."""
        try:
            self.call(function, *arguments)
        except Refusal as refusal:
            return refusal.code
        return 0

    def open(self, gpus: int) -> Host:
        """Begins a session and keeps the handles of GPUs."""
        self.call("Init")
        for index in range(gpus):
            self.call(f"{index}:DeviceGetHandleByIndex", index)
        return self

    def say(self, *line: Any) -> Any:
        """One line to the process, and its answer. `seconds`, `before`, `now`: how long it took, its Unix times."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        self.seconds, self.before, self.now = said["seconds"], said["before"], said["now"]
        return said

    def finish(self) -> str:
        """Ends the process; what it wrote to standard error."""
        if self._process.returncode is None:
            _, self.errors = self._process.communicate(timeout=PATIENCE)
        return self.errors


@pytest.fixture
def host(driver: FakeDriver, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """`host(scenario)` starts a process on it; `host.path` is where another scenario may be written."""
    with ExitStack() as stack:

        def start(scenario: Scenario, path: Path = tmp_path / "scenario", **more: str) -> Host:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(NVML / "calls.py")],
                    env=driver.environment_of(scenario, path=path, **more),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            made = Host(process, path)
            stack.callback(made.finish)
            return made

        yield start
