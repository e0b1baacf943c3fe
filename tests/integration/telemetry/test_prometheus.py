"""A real Prometheus scrapes for two minutes while a GPU is lost and comes back: no NaN, no gap, no ghost."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from exporters import exporter, free_port
from fake_driver import FakeDriver
from scenario import GpuState, Scenario, wave

SECONDS = 120
LOST_AT, BACK_AT = 40, 75
LOST = 5


@contextmanager
def prometheus(program: str, directory: Path, target: int) -> Iterator[int]:
    """Scrapes the target on loopback every second; yields the port of its API."""
    port = free_port()
    config = directory / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: gpus, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}\n"
    )
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    with subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"], cwd=directory
    ) as process:
        try:
            _wait_until_ready(port)
            yield port
        finally:
            process.terminate()


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "Prometheus did not become ready"
            time.sleep(0.2)


def query(port: int, expression: str, moment: float | None = None) -> list[dict[str, Any]]:
    """What Prometheus answers to an instant query."""
    more = {} if moment is None else {"time": f"{moment:.3f}"}
    asked = urllib.parse.urlencode({"query": expression, **more})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=30) as answer:
        body = json.load(answer)
    assert body["status"] == "success", body
    result: list[dict[str, Any]] = body["data"]["result"]
    return result


def samples(port: int, expression: str, seconds: int) -> dict[str, list[tuple[float, float]]]:
    """The raw samples of a selector over the last seconds, by GPU."""
    found = query(port, f"{expression}[{seconds}s]")
    return {each["metric"]["gpu"]: [(float(at), float(value)) for at, value in each["values"]] for each in found}


@pytest.mark.timeout(400)
def test_a_lost_gpu_is_seen_and_the_others_have_no_gap(
    driver: FakeDriver, prometheus_program: str, tmp_path: Path
) -> None:
    path = tmp_path / "scenario"
    host = Scenario([GpuState.default(index, utilization=wave((90, 5), (5, 5))) for index in range(8)])
    environment = driver.environment_of(host, path=path)
    with (
        exporter(environment, interval=1.0) as running,
        prometheus(prometheus_program, tmp_path, running.port) as port,
    ):
        running.until(lambda: running.value("voxyard_gpu_busy_seconds_total", gpu="7"))
        begun = time.time()
        time.sleep(LOST_AT)
        host.losing(LOST).raising(LOST, 79).write(path)
        lost = time.time()
        time.sleep(BACK_AT - LOST_AT)
        host.raising(LOST, 79).returning(LOST).write(path)
        back = time.time()
        time.sleep(SECONDS - BACK_AT)
        window = int(time.time() - begun)

        everything = query(port, f'{{__name__=~"voxyard_.+"}}[{window}s]')
        assert len(everything) > 300
        assert not [each["metric"] for each in everything for _, value in each["values"] if math.isnan(float(value))]

        power = samples(port, "voxyard_gpu_power_watts", window)
        up = samples(port, "voxyard_gpu_up", window)
        for gpu in "01234678"[:LOST] + "67":
            times = [at for at, _ in power[gpu]]
            assert max(after - before for before, after in pairwise(times)) < 4, f"a gap of GPU {gpu}"
            assert {value for _, value in up[gpu]} == {1.0}
        gone = [at for at, _ in power[str(LOST)] if lost + 3 < at < back]
        assert gone == []
        assert {value for at, value in up[str(LOST)] if lost + 3 < at < back} == {0.0}
        assert {value for at, value in up[str(LOST)] if at > back + 25} == {1.0}
        assert [at for at, _ in power[str(LOST)] if at > back + 25]

        (xid,) = query(port, "voxyard_gpu_xid_errors_total")
        assert (xid["metric"]["gpu"], xid["metric"]["xid"], xid["value"][1]) == (str(LOST), "79", "1")
        busy = query(port, f"rate(voxyard_gpu_busy_seconds_total{{gpu='0'}}[{window // 10 * 10 - 10}s])")
        assert float(busy[0]["value"][1]) == pytest.approx(0.475, abs=0.05)
        assert {each["value"][1] for each in query(port, "voxyard_exporter_collect_success")} == {"1"}
