"""An Xid under a speech service: exporter and service are processes, the driver is scripted, no document waits."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from exporters import BIN, RunningExporter, exporter, parse
from fake_driver import FakeDriver
from free_ports import free_port
from scenario import GpuState, Scenario
from tones_process import TonesProcess

from voxyard.host.out_of_work import VARIABLE

TEXT = " ".join(f"This is sentence number {number} of a long document." for number in range(40))


class Host:
    """A host with two scripted GPUs, an exporter and a service, that share one file of sick GPUs."""

    def __init__(self, driver: FakeDriver, folder: Path, stack: ExitStack) -> None:
        self._path, self._scenario = folder / "scenario", Scenario([GpuState.default(0), GpuState.default(1)])
        (folder / "state").mkdir()
        file = folder / "state" / "out_of_work.json"
        self.environment = driver.environment_of(self._scenario, path=self._path) | {VARIABLE: str(file)}
        self.exporter: RunningExporter = stack.enter_context(exporter(self.environment))
        self.service = TonesProcess(
            folder / "service", "one", free_port(), {"rate_limit": 0}, seconds=0.4, gpus=self.environment
        )
        self.service.start()
        stack.callback(self.service.end)
        eventually(lambda: self.service.ready, lambda: self.service.log.read_text()[-3000:])

    def xid(self, gpu: int, number: int) -> None:
        """The driver reports an error."""
        self._scenario = self._scenario.raising(gpu, number)
        self._scenario.write(self._path)

    def metric(self, name: str, **labels: str) -> float | None:
        """A series of the service."""
        series = parse(httpx.get(f"{self.service.url}/metrics").text)
        return series.get((name, frozenset(labels.items())))

    def workers(self) -> dict[str, str]:
        """States by device."""
        found = httpx.get(f"{self.service.url}/v1/workers").json()
        return {each["device"]: each["state"] for each in found["workers"]}

    def gpus(self, *arguments: str) -> str:
        """What `voxyard gpus` prints."""
        command = [str(BIN / "voxyard"), "gpus", *arguments]
        return subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=True, timeout=120
        ).stdout


@pytest.fixture
def host(driver: FakeDriver, tmp_path: Path) -> Iterator[Host]:
    with ExitStack() as stack:
        yield Host(driver, tmp_path, stack)


def test_a_sick_gpu_loses_its_worker_and_no_document_waits_for_it(host: Host) -> None:
    client = httpx.Client(base_url=host.service.url, timeout=60)
    document = client.post("/v1/documents", json={"text": TEXT}).json()["id"]
    eventually(lambda: set(host.workers().values()) == {"busy"}, host.workers)

    host.xid(0, 79)

    eventually(lambda: host.workers()["0"] == "waiting", host.workers)
    host.exporter.until(lambda: host.exporter.value("voxyard_gpu_out_of_work", gpu="0", state="out") == 1)
    assert host.metric("voxyard_bark_worker_waiting", gpu="0", reason="sick") == 1
    assert re.search(r"^0 .*out of work: Xid 79", host.gpus(), re.MULTILINE)

    def state() -> str:
        return str(client.get(f"/v1/documents/{document}").json()["state"])

    eventually(lambda: state() == "completed", state)
    assert host.workers()["0"] == "waiting"
    assert host.metric("voxyard_bark_chunks_total", outcome="failed", gpu="") in (None, 0)

    assert "GPU 0" in host.gpus("--return", "0")
    eventually(lambda: host.workers()["0"] == "ready", host.workers)
    host.exporter.until(lambda: host.exporter.value("voxyard_gpu_out_of_work", gpu="0") is None)
