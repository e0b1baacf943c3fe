"""`voxyard monitor`: lines in a pipe, a table in a terminal, rows in a CSV file."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from eventually import PATIENCE
from exporters import BIN
from fake_driver import FakeDriver
from readings import reading
from rich.console import Console
from scenario import GpuState, MigInstance, Scenario

from voxyard.host.gpm import Activity
from voxyard.host.nvml import Gpu
from voxyard.host.readings import MigReading
from voxyard.telemetry.monitor import table
from voxyard.telemetry.sampler import GpuState as State
from voxyard.telemetry.sampler import Snapshot


def host() -> Scenario:
    return Scenario(
        [GpuState.default(0, utilization=60, clock_events=0x20), GpuState.consumer(1), GpuState.default(2, mig=1)]
    )


def monitor(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "voxyard"), "monitor", *arguments]
    return subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=60)


def test_a_pipe_gets_a_line_a_gpu_and_pass(driver: FakeDriver) -> None:
    ended = monitor(driver.environment_of(host()), "--interval", "0.2", "--duration", "3")
    assert (ended.returncode, ended.stderr) == (0, "")
    first = ended.stdout.splitlines()[:3]
    assert [line.split()[1:3] for line in first] == [["GPU", "0"], ["GPU", "1"], ["GPU", "2"]]
    assert "60%" in first[0]
    assert "412 / 700 W" in first[0]
    assert "–" in first[2]
    assert "\x1b" not in ended.stdout
    assert len(ended.stdout.splitlines()) >= 6


def test_what_the_parts_do_stands_beside_a_card_that_tells_it(driver: FakeDriver) -> None:
    environment = driver.environment_of(host())
    ended = monitor(environment, "--interval", "0.2", "--duration", "4")
    last = ended.stdout.splitlines()[-3:]
    assert ["SM · tensor · memory 64% · 29% · 46%" in line for line in last] == [True, False, False]


def test_mig_instances_have_lines_and_rows_of_their_own(driver: FakeDriver, tmp_path: Path) -> None:
    instances = {0: MigInstance("MIG-1", total=10 << 30, used=1 << 30), 4: MigInstance("MIG-2", total=20 << 30)}
    card = GpuState.default(0, mig=1, mig_instances=instances, gpm_sm=70)
    environment, log = driver.environment_of(Scenario([card, GpuState.default(1)])), tmp_path / "log.csv"
    ended = monitor(environment, "--interval", "0.2", "--duration", "4", "--log-file", str(log))
    lines = ended.stdout.splitlines()[-4:]
    assert [line.split()[2] for line in lines] == ["0", "0:0", "0:4", "1"]
    assert ["1.0 / 10.0 GiB" in lines[1], "0.0 / 20.0 GiB" in lines[2]] == [True, True]
    assert ["SM · tensor · memory 10%" in lines[1], "SM · tensor · memory 50%" in lines[2]] == [True, True]
    rows = {row["gpu"]: row for row in csv.DictReader(log.open())}
    assert {number: row["memory"] for number, row in rows.items() if ":" in number} == {"0:0": "1024", "0:4": "0"}


def test_the_table_has_mig_instances_below_their_card() -> None:
    instance = MigReading(4, 20 << 30, 1 << 30, Activity({"sm": 0.5, "tensor": 0.1, "dram": 0.2}))
    card = Gpu(1, "GPU-1", "H100", "", 1, 1, None)
    states = (State(card, True, replace(reading(None), mig=(instance,)), None, None, {}),)
    drawn = Console(width=160, file=io.StringIO())
    drawn.print(table(Snapshot(0, 0, True, 0, 0.0, states, {}, None, None, {}), 160))
    last = drawn.file.getvalue().rstrip().splitlines()[-1]  # type: ignore[attr-defined] # a StringIO
    assert last.split() == ["1:4", "1.0", "/", "20.0", "50%", "·", "10%", "·", "20%"]


@pytest.mark.parametrize(("gpu", "shown"), [(GpuState.default(0), True), (GpuState.consumer(0), False)])
def test_the_table_has_their_columns_where_a_card_tells_it(gpu: GpuState, shown: bool) -> None:
    measured = reading(None)
    if shown:
        parts, links = {"sm": 0.64, "tensor": 0.29, "dram": 0.46}, {"pcie_transmit": 2e9, "pcie_receive": 3e9}
        measured = replace(measured, activity=Activity(parts, links))
    card = Gpu(0, gpu.uuid, gpu.name, gpu.pci_bus_id, 1, 1, None)
    states = (State(card, True, measured, 0.5, 1.0, {}),)
    drawn = Console(width=160, file=io.StringIO())
    drawn.print(table(Snapshot(0, 0, True, 0, 0.0, states, {}, None, None, {}), 160))
    text = drawn.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert ("64% · 29% · 46%" in text, "5.0 · –" in text, "SM · tensor" in text) == (shown,) * 3


@pytest.mark.slow
def test_the_log_is_a_csv_with_a_row_a_gpu_and_pass(driver: FakeDriver, tmp_path: Path) -> None:
    log = tmp_path / "gpus.csv"
    log.touch()  # an empty file gets its header too
    environment = driver.environment_of(host())
    for _ in range(2):
        assert monitor(environment, "--interval", "0.3", "--duration", "2", "--log-file", str(log)).returncode == 0
    rows = list(csv.DictReader(log.open()))
    assert list(rows[0]) == ["timestamp", "gpu", "utilization", "memory", "temperature", "power", "fan"]
    assert datetime.fromisoformat(rows[0]["timestamp"]).tzinfo is not None
    assert {row["gpu"] for row in rows} == {"0", "1", "2"}
    assert [rows[0][name] for name in ("utilization", "memory", "temperature", "power", "fan")] == [
        "60",
        "30720",
        "61",
        "412.0",
        "35",
    ]
    assert rows[2]["utilization"] == ""
    assert len(rows) >= 8
    assert len(rows) % 3 == 0


def test_a_gpu_that_does_not_answer_has_empty_columns_in_the_log(driver: FakeDriver, tmp_path: Path) -> None:
    log = tmp_path / "gpus.csv"
    ended = monitor(driver.environment_of(host().losing(1)), "--duration", "2", "--log-file", str(log))
    header, *rows = csv.reader(log.open())
    assert ended.returncode == 0
    assert {tuple(row[1:]) for row in rows if row[1] == "1"} == {("1", "", "", "", "", "")}
    assert {len(row) for row in rows} == {len(header)}


@pytest.mark.parametrize(("columns", "shown"), [(130, "H100"), (70, "30.0 / 80.0")])
def test_a_terminal_gets_a_table_that_fits(driver: FakeDriver, columns: int, shown: str) -> None:
    ours, theirs = pty.openpty()
    environment = driver.environment_of(host()) | {"COLUMNS": str(columns), "TERM": "xterm"}
    command = [str(BIN / "voxyard"), "monitor", "--interval", "0.3", "--duration", "3"]
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        screen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            screen += part
        assert process.wait(timeout=PATIENCE) == 0
    os.close(ours)
    text = screen.decode()
    assert shown in text
    assert "412 / 700" in text
    assert ("slowed by" in text) == (columns > 100)


def test_without_nvidias_library_there_is_a_one_line_error(driver: FakeDriver) -> None:
    environment = driver.environment_of(host())
    del environment["LD_LIBRARY_PATH"]
    ended = monitor(environment)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "libnvidia-ml.so.1 is not on this machine" in ended.stderr


def test_a_full_disk_is_a_sentence(driver: FakeDriver) -> None:
    ended = monitor(driver.environment_of(host()), "--duration", "1", "--log-file", "/dev/full")
    assert ended.returncode == 2
    assert "/dev/full cannot be written: No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
