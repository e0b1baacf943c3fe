"""`voxyard exporter --record`: what the driver answered, replayed in its place."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from eventually import PATIENCE, eventually
from exporters import BIN, RunningExporter, Series, exporter, parse
from fake_driver import FakeDriver
from free_ports import free_port
from prometheus_client import CollectorRegistry, generate_latest
from replay import ReplayedSession, read
from scenario import GpuState, MigInstance, Process, Scenario, counter

from voxyard.telemetry import recording
from voxyard.telemetry import sampler as sampling
from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.gpu_collector import GpuCollector
from voxyard.telemetry.sampler import GpuSampler

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
CHANGING = (  # by time, not by the driver
    "voxyard_exporter_",
    "voxyard_gpu_activity_seconds",
    "voxyard_gpu_busy_",
    "voxyard_gpu_mig_activity_seconds",
    "voxyard_gpu_xid_",
    "process_",
)


def host() -> Scenario:
    """A server's card with links and an instance, a workstation's, and one that is lost; figures that stand still."""
    still = {"energy": 5_000_000, "pcie_tx_bytes": 7e9, "pcie_rx_bytes": 9e9, "nvlink_tx": 1e6, "nvlink_rx": 2e6}
    return Scenario(
        [
            GpuState.default(0, mig=1, mig_instances={0: MigInstance("MIG-1")}, **still),
            GpuState.consumer(1, energy=5_000_000, processes=[Process(7, 1 << 30, "/home/alice/secret.py")]),
            GpuState.default(2, lost=True),
        ]
    )


def record(
    driver: FakeDriver,
    scenario: Scenario,
    path: Path,
    *more: str,
    then: Callable[[RunningExporter, Path], None] | None = None,
) -> tuple[Series, str]:
    """Series of an exporter that recorded every GPU, and its messages; `then` gets it and the file of its host."""
    file = path.with_name("scenario")
    environment = driver.environment_of(scenario, path=file)
    with exporter(environment, "--record", str(path), "--record-seconds", "600", *more) as running:
        running.until(lambda: sum(name == "voxyard_gpu_up" for name, _ in running.series()) == len(scenario.gpus))
        seen = running.series()
        if then is not None:
            then(running, file)
        running.process.terminate()
        assert running.process.stderr is not None
        assert running.process.wait(timeout=PATIENCE) == 0
        return seen, running.process.stderr.read()


@contextmanager
def replayed(path: Path) -> Iterator[Callable[[], Series]]:
    """Scrapes of an exporter that gets the recorded answers."""
    registry = CollectorRegistry()
    with GpuSampler(0.1, session=partial(ReplayedSession, path)) as sampler:
        registry.register(GpuCollector(sampler))
        yield lambda: parse(generate_latest(registry).decode())


def of_the_driver(series: Series) -> Series:
    return {
        (name, labels): value
        for (name, labels), value in series.items()
        if not name.startswith(CHANGING) and not (name == "voxyard_gpu_pcie_bytes_total" and ("gpu", "1") in labels)
    }  # the workstation's card tells bytes a second, of which the exporter makes a sum over time


@pytest.mark.parametrize("name", ["card.jsonl", "card.jsonl.gz"])
def test_a_replay_gives_what_the_exporter_gave(driver: FakeDriver, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    seen, said = record(driver, host(), path)
    assert f"in {path}" in said
    head, *lines = read(path)
    assert head["recording"] == 1
    assert f"recorded {len(lines)} calls of the driver" in said
    wanted = of_the_driver(seen)
    assert len(wanted) > 80
    with replayed(path) as scrape:
        end = time.monotonic() + PATIENCE
        while other := wanted.items() - (found := scrape()).items():
            assert time.monotonic() < end, {key: (value, found.get(key)) for key, value in other}
            time.sleep(0.05)


def test_a_real_card_under_load_has_all_its_readings() -> None:
    """An H100 while runs of the trainer were compiled and timed (2026-11-26, driver 580.159.04)."""
    labels = (("gpu", "0"),)
    with replayed(CAPTURES / "recordings" / "h100-under-load.jsonl.gz") as scrape:
        eventually(lambda: ("voxyard_gpu_utilization_ratio", labels) in of_one(scrape()))
        found = of_one(scrape())
    assert found["voxyard_gpu_up", labels] == 1
    assert 0 <= found["voxyard_gpu_utilization_ratio", labels] <= 1
    assert 100 < found["voxyard_gpu_power_watts", labels] < 700
    assert found["voxyard_gpu_memory_size_bytes", labels] == 85520809984


def of_one(series: Series) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Series by their name and their card's number alone."""
    return {
        (name, tuple(each for each in labels if each[0] == "gpu")): value for (name, labels), value in series.items()
    }


@pytest.mark.slow
def test_figures_come_in_their_order_and_the_last_stay(driver: FakeDriver, tmp_path: Path) -> None:
    def warmer(running: RunningExporter, _: Path) -> None:
        running.until(lambda: (running.value("voxyard_gpu_temperature_celsius", gpu="0") or 0) > 60)

    record(driver, Scenario([GpuState.default(0, temperature=counter(40, 10))]), tmp_path / "card", then=warmer)
    found: list[float] = []
    with replayed(tmp_path / "card") as scrape:

        def stays() -> bool:
            found.extend(value for (name, _), value in scrape().items() if name == "voxyard_gpu_temperature_celsius")
            return len(found) > 10 and len(set(found[-10:])) == 1

        eventually(stays)
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.slow
def test_names_of_processes_are_left_out(driver: FakeDriver, tmp_path: Path) -> None:
    record(driver, host(), tmp_path / "card", "--processes")
    calls = [line["call"] for line in read(tmp_path / "card")[1:]]
    assert "nvmlSystemGetProcessName" in calls
    assert "alice" not in (tmp_path / "card").read_text()


@pytest.mark.slow
def test_a_call_that_hangs_hangs_again(driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = Scenario([GpuState.default(0), GpuState.default(1)])

    def hangs(running: RunningExporter, file: Path) -> None:
        two.hanging(1, "nvmlDeviceGetPowerUsage").write(file)
        running.until(lambda: running.value("voxyard_gpu_up", gpu="1") == 0)

    record(driver, two, tmp_path / "card", then=hangs)
    hung = [line for line in read(tmp_path / "card")[1:] if not {"answer", "code"} & line.keys()]
    assert [line["call"] for line in hung] == ["nvmlDeviceGetPowerUsage"]
    monkeypatch.setattr(sampling, "HUNG_SECONDS", 0.5)
    with replayed(tmp_path / "card") as scrape:

        def up() -> dict[str, float]:
            return {
                dict(labels)["gpu"]: value for (name, labels), value in scrape().items() if name == "voxyard_gpu_up"
            }

        eventually(lambda: up() == {"0": 1, "1": 0})


def refused(
    driver: FakeDriver,
    path: Path,
    *,
    before: str = "",
    library: bool = True,
    address: str = "127.0.0.1",
    port: int | None = None,
) -> tuple[int, str]:
    """Exit code and messages of an exporter that cannot record to its end."""
    listen = f"--host {address} --port {port or free_port()}"
    command = f'{before} exec {BIN}/voxyard exporter {listen} --record "$0" --record-seconds 2'
    environment = driver.environment_of(host())
    if not library:
        del environment["LD_LIBRARY_PATH"]
    done = subprocess.run(
        ["bash", "-c", command, str(path)],
        env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_file_is_never_written_over(driver: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "card").write_text("mine")
    code, said = refused(driver, tmp_path / "card")
    assert code == 2
    assert "card: it is there already: choose another name, or remove it" in said
    assert (tmp_path / "card").read_text() == "mine"


def test_a_folder_that_is_missing_is_made_and_not_left_where_nothing_comes_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with recording.Recording(tmp_path / "new/more/card", interval=1.0) as made:
        assert read(tmp_path / "new/more/card") == []  # of this second
    assert f"the folder {tmp_path}/new/more was not there, and was made" in caplog.text
    made.remove()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(TelemetryError, match=r"file/card: it cannot be made \(.*\): choose a folder that can be"):
        recording.Recording(tmp_path / "file/card", interval=1.0)
    with pytest.raises(TelemetryError, match=r"new/nn+: it cannot be made"):
        recording.Recording(tmp_path / "new" / ("n" * 300), interval=1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_host_without_a_driver_has_nothing_to_record(driver: FakeDriver, tmp_path: Path) -> None:
    code, said = refused(driver, tmp_path / "card", library=False)
    assert code == 1
    assert "card: the driver answered no call, so there is nothing to record" in said
    assert not (tmp_path / "card").exists()


def test_it_records_beside_the_exporter_of_the_host(driver: FakeDriver, tmp_path: Path) -> None:
    with exporter(driver.environment_of(host(), path=tmp_path / "scenario")) as running:
        code, said = refused(driver, tmp_path / "card", port=running.port)

        assert running.value("voxyard_gpu_power_watts", gpu="0")
    assert code == 0
    assert f"port {running.port} is in use, by this host's exporter it seems: recording beside it" in said
    assert len(read(tmp_path / "card")) > 10


def test_an_address_that_cannot_be_taken_leaves_no_file(driver: FakeDriver, tmp_path: Path) -> None:
    code, _ = refused(driver, tmp_path / "card", address="192.0.2.1")  # of documentation (RFC 5737): nobody's

    assert code == 2
    assert not (tmp_path / "card").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["card.jsonl", "card.jsonl.gz"])
def test_a_kill_costs_the_last_second_at_most(driver: FakeDriver, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with exporter(driver.environment_of(host(), path=tmp_path / "scenario"), "--record", str(path)) as running:
        eventually(lambda: path.stat().st_size > 100)  # more than the head of a gzip file
        running.process.kill()
        running.process.wait(timeout=PATIENCE)
    head, *lines = read(path)
    assert head["recording"] == 1
    assert "nvmlDeviceGetCount" in {line["call"] for line in lines}


@pytest.mark.parametrize("name", ["card.jsonl", "card.jsonl.gz"])
def test_a_recording_is_read_up_to_its_last_whole_line_wherever_it_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(recording, "_FLUSH_SECONDS", -1.0)  # after each line
    with recording.Recording(tmp_path / name, interval=1.0) as made:
        for number in range(5):
            made.begin("nvmlDeviceGetPowerUsage", (number,))
            made.end(answer=1000 * number)
    data, whole = (tmp_path / name).read_bytes(), read(tmp_path / name)
    assert [line["answer"] for line in whole[1:]] == [0, 1000, 2000, 3000, 4000]
    counts = []
    for size in range(len(data) + 1):
        (tmp_path / name).write_bytes(data[:size])
        found = read(tmp_path / name)
        assert found == whole[: len(found)]
        counts.append(len(found))
    assert counts == sorted(counts)
    assert set(counts) == set(range(len(whole) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["card.jsonl", "card.jsonl.gz"])
def test_a_file_that_cannot_grow_is_an_error_and_the_metrics_go_on(
    driver: FakeDriver, tmp_path: Path, name: str
) -> None:
    code, said = refused(driver, tmp_path / name, before="ulimit -f 2;")
    assert code == 1
    assert "it ends early (File too large): what was written can be replayed; for the rest make room, and" in said
    assert read(tmp_path / name)[0]["recording"] == 1
    assert said.count("does not answer") == 1  # the lost GPU
