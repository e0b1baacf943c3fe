"""A real Prometheus scrapes for most of a minute while a GPU is lost and comes back: no NaN, no gap, no ghost."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from pathlib import Path

import pytest
from exporters import exporter
from fake_driver import FakeDriver
from monitoring_programs import Prometheus, prometheus
from scenario import GpuState, Scenario, wave

SECONDS = 55
LOST_AT, BACK_AT = 10, 20
LOST = 5


def configuration(directory: Path, target: int) -> Path:
    """Scrapes the target on loopback every second."""
    path = directory / "prometheus.yml"
    path.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: gpus, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}\n"
    )
    return path


def samples(server: Prometheus, expression: str, seconds: int) -> dict[str, list[tuple[float, float]]]:
    """The raw samples of a selector over the last seconds, by GPU."""
    found = server.query(f"{expression}[{seconds}s]")
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
        prometheus(prometheus_program, configuration(tmp_path, running.port)) as server,
    ):
        running.until(lambda: running.value("voxyard_gpu_busy_seconds_total", gpu="7"))
        begun = time.time()
        time.sleep(LOST_AT)
        host.losing(LOST).raising(LOST, 79).write(path)
        running.until(lambda: running.value("voxyard_gpu_up", gpu=str(LOST)) == 0)
        lost = time.time()
        time.sleep(BACK_AT - LOST_AT)
        back = time.time()
        host.raising(LOST, 79).returning(LOST).write(path)
        running.until(lambda: running.value("voxyard_gpu_up", gpu=str(LOST)) == 1)
        again = time.time()
        time.sleep(SECONDS - BACK_AT)
        window = int(time.time() - begun)

        everything = server.query(f'{{__name__=~"voxyard_.+"}}[{window}s]')
        assert len(everything) > 300
        assert not [each["metric"] for each in everything for _, value in each["values"] if math.isnan(float(value))]

        told = defaultdict[tuple[str, str | None], set[float]](set)  # by series, the times at which it was there
        for each in everything:
            metric = each["metric"]
            told[metric["__name__"], metric.get("gpu")] |= {at for at, _ in each["values"]}
        scrapes = told["voxyard_exporter_collect_success", None]
        assert len(scrapes) > SECONDS / 5

        power = samples(server, "voxyard_gpu_power_watts", window)
        up = samples(server, "voxyard_gpu_up", window)
        for gpu in "01234678"[:LOST] + "67":
            assert told["voxyard_gpu_power_watts", gpu] == scrapes, f"a gap of GPU {gpu}"
            assert {value for _, value in up[gpu]} == {1.0}
        gone = [at for at, _ in power[str(LOST)] if lost < at < back]
        assert gone == []
        assert {value for at, value in up[str(LOST)] if lost < at < back} == {0.0}
        assert {value for at, value in up[str(LOST)] if at > again} == {1.0}
        assert [at for at, _ in power[str(LOST)] if at > again]

        (xid,) = server.query("voxyard_gpu_xid_errors_total")
        assert (xid["metric"]["gpu"], xid["metric"]["xid"], xid["value"][1]) == (str(LOST), "79", "1")
        busy = server.query(f"rate(voxyard_gpu_busy_seconds_total{{gpu='0'}}[{window // 10 * 10 - 10}s])")
        assert float(busy[0]["value"][1]) == pytest.approx(0.475, abs=0.05)
        assert {each["value"][1] for each in server.query("voxyard_exporter_collect_success")} == {"1"}
