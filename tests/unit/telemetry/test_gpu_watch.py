"""The watch over a run's GPUs: its figures are those of all passes, its memory that of a few."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest
from readings import reading

from voxyard.diagnose.gpu_figures import gpu_figures
from voxyard.host import Gpu
from voxyard.host.readings import DeviceMemory
from voxyard.telemetry import gpu_watch
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.telemetry.sampler import GpuState, Snapshot

CARDS = [Gpu(i, f"GPU-{i}", "a card", f"00000000:{i}7:00.0", 24564, 24000, (8, 9)) for i in range(2)]


def state(number: int, at: int) -> GpuState:
    """GPU `number` in one pass: 10 % × (number + 1) busy, its reading an object of its own."""
    memory = DeviceMemory(size=24 << 30, used=(1 + at % 7) << 30, free=0, reserved=None)
    measured = replace(reading(None), power_watts=100.0 + 50 * number, memory=memory)
    return GpuState(CARDS[number], True, measured, 0.1 * (number + 1), float(at), {})


def taken(watch: GpuWatch, passes: int) -> GpuWatch:
    """The watch after so many more passes."""
    for at in range(watch.passes, watch.passes + passes):
        states = tuple(state(number, at) for number in range(len(CARDS)))
        watch.take(Snapshot(at, at, True, at, 0.01, states, {}, None, None, {}))
    return watch


def opened() -> GpuWatch:
    return GpuWatch(list(zip(["data", "model"], CARDS, strict=True)))


@pytest.mark.slow
def test_a_watch_of_days_takes_no_more_memory_than_one_of_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "MOST_KEPT", 100)
    watch = taken(opened(), 200)
    tracemalloc.start()
    try:
        taken(watch, 200)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        taken(watch, 4000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000  # bytes; a single float kept of each pass would be 96,000


def test_means_are_of_all_passes_also_of_those_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "MOST_KEPT", 10)
    watch = taken(opened(), 500)
    assert watch.utilization() == {"data": pytest.approx(0.1), "model": pytest.approx(0.2)}
    assert watch.power_watts() == pytest.approx(250)
    data = gpu_figures(watch).gpus[0]
    assert (data.utilization.count, data.memory_used, data.memory_size) == (10, 7 << 30, 24 << 30)


def test_figures_leave_the_first_pass_out() -> None:
    """The driver measured it before the watch began."""
    assert gpu_figures(taken(opened(), 1)).gpus == ()
    watch = taken(opened(), 3)
    assert [gpu.utilization.count for gpu in gpu_figures(watch).gpus] == [2, 2]
