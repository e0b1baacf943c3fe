"""`voxyard exporter` as a process, on our own libnvidia-ml: what it serves, and driver faults."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from eventually import PATIENCE, eventually
from exporters import BIN, exporter
from fake_driver import FakeDriver
from free_ports import free_port
from prometheus_client import CollectorRegistry
from scenario import AN_HOUR_US, GpuState, Process, Scenario

from voxyard.telemetry import TelemetryError
from voxyard.telemetry.healthcheck import probe
from voxyard.telemetry.server import serve
from voxyard.telemetry.web_config import read_web_config


def two() -> Scenario:
    return Scenario([GpuState.default(0), GpuState.consumer(1, fan=None)])


def plain(driver: FakeDriver) -> dict[str, str]:
    """An environment without any NVIDIA library."""
    return {name: value for name, value in driver.environment_of(two()).items() if name != "LD_LIBRARY_PATH"}


@pytest.mark.slow
def test_what_is_not_supported_is_left_out(driver: FakeDriver) -> None:
    with exporter(driver.environment_of(two())) as running:
        running.until(lambda: running.value("voxyard_gpu_busy_seconds_total", gpu="1"))
        assert running.value("voxyard_gpu_fan_speed_ratio", gpu="0") == 0.35
        assert running.value("voxyard_gpu_fan_speed_ratio", gpu="1") is None
        assert running.value("voxyard_gpu_ecc_errors_total", gpu="1") is None
        names = {name for name, _ in running.series()}
        assert not [name for name in names if not name.startswith(("voxyard_", "process_"))]
        assert running.value("process_start_time_seconds")
        assert not [value for value in running.series().values() if value != value]


def test_a_scrape_never_calls_nvml(driver: FakeDriver, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with exporter(driver.environment_of(two(), NVML_FAKE_TRACE=str(trace)), interval=10) as running:
        running.until(lambda: running.value("voxyard_gpu_power_watts", gpu="1"))

        def calls_nothing() -> bool:
            before = trace.read_text()
            for _ in range(20):
                running.get()
            return trace.read_text() == before

        eventually(calls_nothing, "between two passes, scrapes call nothing")


def later_calls(trace: Path, *, after: int, passes: int) -> Counter[str] | None:
    """Calls of so many passes over both GPUs, the first ones left out, once they are done."""
    calls = [line.split()[1] for line in trace.read_text().splitlines()]
    ends = [place for place, name in enumerate(calls) if name == "nvmlDeviceGetPowerUsage"][1::2]
    return Counter(calls[ends[after - 1] + 1 : ends[after + passes - 1] + 1]) if len(ends) >= after + passes else None


def test_a_pass_makes_few_calls(driver: FakeDriver, tmp_path: Path) -> None:
    """Slow values are not asked for each time, unsupported ones not again."""
    trace = tmp_path / "trace"
    with exporter(driver.environment_of(two(), NVML_FAKE_TRACE=str(trace)), interval=0.1) as running:
        running.until(lambda: running.value("voxyard_gpu_power_watts", gpu="1"))
        calls = eventually(lambda: later_calls(trace, after=4, passes=5), "there are nine passes")
    passes = calls["nvmlDeviceGetPowerUsage"] / 2
    assert sum(calls.values()) / passes / 2 < 20
    assert calls["nvmlDeviceGetMaxClockInfo"] == 0
    assert calls["nvmlDeviceGetFanSpeed"] < 2 * passes - 1  # one of the two has a fan, and may be ahead


@pytest.mark.slow
def test_calls_that_hang_leave_no_stale_value_no_scrape_waiting_and_no_process(
    driver: FakeDriver, tmp_path: Path
) -> None:
    """One GPU on one host, everything on another; at the same time, since a call hangs only after ten seconds."""
    paths = tmp_path / "one", tmp_path / "all"
    with (
        exporter(driver.environment_of(two(), path=paths[0])) as one,
        exporter(driver.environment_of(two(), path=paths[1])) as everything,
    ):
        one.until(lambda: one.value("voxyard_gpu_power_watts", gpu="0"))
        everything.until(lambda: everything.value("voxyard_gpu_power_watts", gpu="0"))
        two().hanging(0).write(paths[0])
        replace(two(), latency_us=AN_HOUR_US).write(paths[1])

        one.until(lambda: one.value("voxyard_gpu_up", gpu="0") == 0)
        assert one.value("voxyard_gpu_power_watts", gpu="0") is None
        assert (one.value("voxyard_gpu_up", gpu="1"), one.value("voxyard_exporter_collect_success")) == (1, 1)
        energy = one.value("voxyard_gpu_energy_joules_total", gpu="1")
        one.until(lambda: one.value("voxyard_gpu_energy_joules_total", gpu="1") != energy)
        assert [one.get(page)[0] for page in ("/healthz", "/readyz")] == [200, 200]
        one.process.send_signal(signal.SIGINT)

        everything.until(lambda: everything.get("/healthz")[0] == 503)
        assert "does the driver hang?" in everything.get("/healthz")[1]
        assert everything.value("voxyard_exporter_collect_success") == 0
        assert everything.value("voxyard_gpu_up", gpu="0") == 0
        assert everything.value("voxyard_gpu_power_watts", gpu="0") is None
        everything.process.send_signal(signal.SIGTERM)
        assert [running.process.wait(timeout=PATIENCE) for running in (one, everything)] == [0, 0]


def test_without_a_driver_it_stays_up_and_reports_it(driver: FakeDriver) -> None:
    with exporter(plain(driver)) as running:
        running.until(lambda: "libnvidia-ml.so.1 is not on this machine" in running.get("/readyz")[1])
        assert (running.get("/readyz")[0], running.value("voxyard_exporter_collect_success")) == (503, 0)
        assert running.get("/healthz") == (200, "ok\n")
        assert running.value("voxyard_exporter_nvml_errors_total", function="nvmlInit", code="12")


def test_a_scrape_before_the_first_pass_is_an_answer(driver: FakeDriver) -> None:
    slow = replace(two(), latency_us=5_000_000)
    with exporter(driver.environment_of(slow)) as running:
        assert running.value("voxyard_exporter_collect_success") == 0
        assert running.value("voxyard_gpu_up") is None
        assert running.get("/readyz")[0] == 503


def test_the_age_of_an_xid_begins_with_it_and_grows(driver: FakeDriver, tmp_path: Path) -> None:
    begun = time.monotonic()
    with exporter(driver.environment_of(two().raising(0, 48), path=tmp_path / "scenario")) as running:
        running.until(lambda: running.value("voxyard_gpu_xid_age_seconds", gpu="0", xid="48"))
        ages = [running.value("voxyard_gpu_xid_age_seconds", gpu="0", xid="48") or 0.0]
        running.until(lambda: (running.value("voxyard_gpu_xid_age_seconds", gpu="0", xid="48") or 0.0) > ages[0])
        assert 0 < ages[0] < time.monotonic() - begun
        assert running.value("voxyard_gpu_xid_age_seconds", gpu="1", xid="48") is None


@pytest.mark.slow
def test_processes_are_reported_only_when_asked(driver: FakeDriver) -> None:
    host = Scenario([GpuState.default(0, processes=[Process(7, 1 << 30, "/opt/python")])])
    with exporter(driver.environment_of(host)) as running:
        running.until(lambda: running.value("voxyard_gpu_power_watts"))
        assert running.value("voxyard_gpu_process_memory_bytes") is None
    with exporter(driver.environment_of(host), "--processes") as running:
        running.until(lambda: running.value("voxyard_gpu_process_memory_bytes", pid="7", process="python"))
        assert running.value("voxyard_gpu_process_memory_bytes", pid="7") == 1 << 30


def test_what_should_run_is_reported_from_the_plan_and_follows_it(driver: FakeDriver, tmp_path: Path) -> None:
    """The plan's sections for other programs are none of the exporter's business."""
    plan = tmp_path / "plan.yaml"
    entries = "[{workload: trainer, role: data, gpu: GPU-0}, {workload: trainer, role: model, gpu: GPU-1}]"
    plan.write_text(
        f"release: abc\ngpus: 8\nworkloads: {entries}\ntraining: {{batch_size: 16}}\nexporter: {{interval: 0.3}}\n"
        "acknowledged: [pcie_width]\n"
    )
    with exporter(driver.environment_of(two()), "--plan", str(plan)) as running:
        assert running.value("voxyard_workload_expected", workload="trainer", role="data") == 1
        assert running.value("voxyard_workload_expected", workload="trainer", role="model") == 1
        assert running.value("voxyard_gpus_expected") == 8
        assert running.value("voxyard_finding_acknowledged", check="pcie_width") == 1
        other = tmp_path / "other"
        other.write_text("workloads: [{workload: bark, role: bark, gpu: GPU-0}]\n")
        other.replace(plan)
        assert running.value("voxyard_workload_expected", workload="trainer", role="data") is None
        assert running.value("voxyard_workload_expected", workload="bark", role="bark") == 1
        assert running.value("voxyard_gpus_expected") is None
        assert running.value("voxyard_finding_acknowledged", check="pcie_width") is None
        for broken in ("workloads: 7\n", "gpus: eight\n", "acknowledged: pcie_width\n", "acknowledged: [7]\n"):
            plan.write_text(broken)
            assert running.value("voxyard_workload_expected", workload="bark", role="bark") == 1


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "voxyard"), "exporter", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--plan", "no.yaml"], "no.yaml: no such file (VOXYARD_HOST_PLAN, or --plan of the exporter: expected a YAML"),
        (["--config", "no.yaml"], "no.yaml: no such file (--config, or VOXYARD_CONFIG: expected a YAML"),
        (["--web-config", "no.yaml"], "--web-config no.yaml: no such file: expected a"),
        (["--record-seconds", "5"], "--record-seconds has no effect without --record: add --record FILE, or leave it"),
        (["--interval", "60"], "from 0.1 to 10"),
        (["--port", "99999"], "65535"),
        (["--host", "nowhere.invalid"], "nowhere.invalid"),
    ],
)
def test_wrong_use_is_a_sentence_and_exit_2(driver: FakeDriver, arguments: list[str], said: str) -> None:
    ended = run(driver.environment_of(two()), *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def health_check(environment: dict[str, str], port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voxyard.telemetry.healthcheck"]
    environment = environment | {"VOXYARD_EXPORTER_PORT": str(port), "VOXYARD_EXPORTER_HOST": "0.0.0.0"}  # noqa: S104
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_the_probe_reports_health(driver: FakeDriver) -> None:
    environment = driver.environment_of(two())
    with exporter(environment) as running:
        ended = run(environment, "--probe", "--port", str(running.port), "--host", "0.0.0.0")  # noqa: S104
        assert (ended.returncode, ended.stdout) == (0, "ok\n")
        assert health_check(environment, running.port).returncode == 0
    port = free_port()
    for ended in (run(environment, "--probe", "--port", str(port)), health_check(environment, port)):
        assert ended.returncode == 1
        assert "no exporter answers" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_the_probe_speaks_tls_and_reports_what_is_wrong(driver: FakeDriver, tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    web = tmp_path / "web.yaml"
    web.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
    state = {"well": True}
    with serve(
        CollectorRegistry(), "127.0.0.1", 0, web=read_web_config(web), health=lambda: (state["well"], "it hangs")
    ) as server:
        assert probe("127.0.0.1", server.port) == "it hangs"
        state["well"] = False
        with pytest.raises(TelemetryError, match="unhealthy: it hangs") as caught:
            probe("", server.port)
    assert caught.value.exit_code == 1
