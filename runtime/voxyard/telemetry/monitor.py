"""A live view of the GPUs: a table for a terminal, a line for a pipe, rows for a CSV file."""

from __future__ import annotations

import csv
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from voxyard.host.nvml import Session
from voxyard.host.readings import MigReading, Reading
from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot

if TYPE_CHECKING:
    from _csv import Writer

COLUMNS = ("timestamp", "gpu", "utilization", "memory", "temperature", "power", "fan")
"""Of the CSV file: ISO time, index (1:0 of a MIG instance), percent, MiB, °C, W, percent; empty: not measured."""

_MIB, _GIB = 1 << 20, 1 << 30
_BAR = 12
_ACTIVITY, _TRAFFIC = "SM · tensor · memory", "PCIe · NVLink GB/s"
_WIDE = 100
_SLOWING = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hw slowdown",
    "sw_thermal_slowdown": "thermal",
    "hw_thermal_slowdown": "thermal!",
    "hw_power_brake": "power brake",
}


def snapshots(interval: float, duration: float | None) -> Iterator[Snapshot]:
    """A snapshot of each pass over the GPUs, for `duration` seconds, or for ever where it is None.

    Raises HostError where there is no NVIDIA library or driver to ask.
    """
    with Session():
        pass  # a machine that never had GPUs is told so; one that loses its driver later is watched on
    passes: queue.Queue[Snapshot] = queue.Queue()
    end = None if duration is None else time.monotonic() + duration
    with GpuSampler(interval, on_snapshot=passes.put):
        while end is None or time.monotonic() < end:
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                yield passes.get(timeout=left)
            except queue.Empty:
                return


def table(snapshot: Snapshot, width: int = 120) -> Table:
    """The GPUs as a table for a terminal of so many columns; a narrow one does without names and reasons."""
    driver = f"driver {snapshot.driver_version}" if snapshot.driver_version else snapshot.problem or "no driver"
    view = Table(title=escape(f"{_clock(snapshot):%H:%M:%S}   {driver}"), title_justify="left", box=SIMPLE_HEAD)
    active = any(each.activity.parts for state in snapshot.gpus for each in (state.reading, *_mig(state)) if each)
    shown = [
        column
        for column in _TABLE
        if (width >= _WIDE or column.always) and (active or column.name not in (_ACTIVITY, _TRAFFIC))
    ]
    for column in shown:
        view.add_column(column.name, no_wrap=True, justify=column.justify, min_width=column.width)
    for state in snapshot.gpus:
        view.add_row(*(column.cell(state) for column in shown))
        for each in _mig(state):
            figures = {"GPU": _number_of(state, each), "memory GiB": _mig_memory(each), _ACTIVITY: _activity(each)}
            view.add_row(*(figures.get(column.name, "") for column in shown))
    return view


def lines(snapshot: Snapshot) -> str:
    """The GPUs as plain lines, one a GPU."""
    clock = f"{_clock(snapshot):%H:%M:%S}"
    if not snapshot.gpus:
        return f"{clock}  {snapshot.problem or 'no GPU'}"
    return "\n".join(f"{clock}  {line}" for state in snapshot.gpus for line in (_plain(state), *_plain_mig(state)))


@contextmanager
def csv_log(path: Path) -> Iterator[CsvLog]:
    """A CSV file that grows by a row a GPU and pass, and is on the disk after each.

    A file that is there already is continued. Raises TelemetryError where it cannot be written.
    """
    try:
        fresh = not path.exists() or path.stat().st_size == 0
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if fresh:
                writer.writerow(COLUMNS)
            yield CsvLog(writer, file.flush)
    except OSError as error:
        raise TelemetryError(f"{path} cannot be written: {error.strerror or error}") from error


class CsvLog:
    """CSV file of readings."""

    def __init__(self, writer: Writer, flush: Callable[[], object]) -> None:
        self._writer, self._flush = writer, flush

    def write(self, snapshot: Snapshot) -> None:
        """The rows of one pass."""
        stamp = _clock(snapshot).isoformat(timespec="milliseconds")
        for state in snapshot.gpus:
            self._writer.writerow([stamp, state.gpu.index, *_row(state)])
            for each in _mig(state):
                used = "" if each.memory_used is None else f"{each.memory_used / _MIB:.0f}"
                self._writer.writerow([stamp, _number_of(state, each), "", used, "", "", ""])
        self._flush()


def _row(state: GpuState) -> list[str]:
    reading = state.reading
    if reading is None:
        return [""] * 5
    return [
        _percent(state.utilization_ratio),
        "" if reading.memory is None else f"{reading.memory.used / _MIB:.0f}",
        "" if reading.temperature_celsius is None else f"{reading.temperature_celsius:.0f}",
        "" if reading.power_watts is None else f"{reading.power_watts:.1f}",
        _percent(reading.fan_ratio),
    ]


@dataclass(frozen=True)
class _Column:
    name: str
    justify: Literal["left", "right"]
    cell: Callable[[GpuState], str | Text]
    width: int | None = None
    always: bool = True


def _measured(cell: Callable[[Reading], str | Text]) -> Callable[[GpuState], str | Text]:
    return lambda state: "" if state.reading is None else cell(state.reading)


def _use(state: GpuState) -> Text:
    if state.reading is None:
        return Text(state.gpu.problem or "does not answer", style="bold red")
    return _bar(state.utilization_ratio)


def _slowing(reading: Reading) -> Text:
    return Text(", ".join(words for reason, words in _SLOWING.items() if reading.clock_events.get(reason)), "yellow")


def _plain(state: GpuState) -> str:
    index, reading = state.gpu.index, state.reading
    if reading is None:
        return f"GPU {index}  {state.gpu.problem or 'does not answer'}"
    return (
        f"GPU {index}  {_percent(state.utilization_ratio, '%') or '–':>4}  {_memory(reading)} GiB  "
        f"{_number(reading.temperature_celsius)} °C  {_power(reading)} W"
        + (f"  SM · tensor · memory {_activity(reading)}" if reading.activity.parts else "")
    )


def _mig(state: GpuState) -> tuple[MigReading, ...]:
    return () if state.reading is None else state.reading.mig


def _number_of(state: GpuState, instance: MigReading) -> str:
    """As `--gpus` takes it."""
    return f"{state.gpu.index}:{instance.number}"


def _mig_memory(instance: MigReading) -> str:
    if instance.memory_used is None or instance.memory_size is None:
        return "–"
    return _of(instance.memory_used / _GIB, instance.memory_size / _GIB, ".1f")


def _plain_mig(state: GpuState) -> Iterator[str]:
    for each in _mig(state):
        line = f"GPU {_number_of(state, each)}  {_mig_memory(each)} GiB"
        yield line + (f"  SM · tensor · memory {_activity(each)}" if each.activity.parts else "")


def _activity(reading: Reading | MigReading) -> str:
    parts = reading.activity.parts
    return " · ".join(_percent(parts.get(name), "%") or "–" for name in ("sm", "tensor", "dram")) if parts else ""


def _traffic(reading: Reading) -> str:
    """Both directions together."""
    links = reading.activity.links
    sums = ([value for name, value in links.items() if name.startswith(link)] for link in ("pcie", "nvlink"))
    return " · ".join(f"{sum(each) / 1e9:.1f}" if each else "–" for each in sums) if links else ""


def _memory(reading: Reading) -> str:
    memory = reading.memory
    return "–" if memory is None else _of(memory.used / _GIB, memory.size / _GIB, ".1f")


def _bar(ratio: float | None) -> Text:
    if ratio is None:
        return Text("–")
    full = round(ratio * _BAR)
    colour = "green" if ratio >= 0.7 else "yellow" if ratio >= 0.3 else "red"
    return Text.assemble(("█" * full, colour), ("░" * (_BAR - full), "dim"), f" {ratio:4.0%}")


def _power(reading: Reading) -> str:
    return _of(reading.power_watts, reading.power_limit_watts, ".0f")


def _percent(ratio: float | None, unit: str = "") -> str:
    return "" if ratio is None else f"{100 * ratio:.0f}{unit}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _of(value: float | None, most: float | None, form: str) -> str:
    if value is None:
        return "–"
    return f"{value:{form}}" + ("" if most is None else f" / {most:{form}}")


def _clock(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.taken, UTC).astimezone()


_TABLE = (
    _Column("GPU", "right", lambda state: str(state.gpu.index), 3),
    _Column("name", "left", lambda state: escape(state.gpu.name), always=False),
    _Column("utilization", "left", _use, _BAR + 5),
    _Column("memory GiB", "right", _measured(_memory), 13),
    _Column("°C", "right", _measured(lambda reading: _number(reading.temperature_celsius)), 2),
    _Column("power W", "right", _measured(_power), 9),
    _Column("fan", "right", _measured(lambda reading: _percent(reading.fan_ratio, "%") or "–"), 4),
    _Column(_ACTIVITY, "right", _measured(_activity), 15, always=False),
    _Column(_TRAFFIC, "right", _measured(_traffic), 11, always=False),
    _Column("slowed by", "left", _measured(_slowing), always=False),
)
