"""The watch over a run's GPUs: its figures are those of all passes, its memory that of a few."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest
from readings import reading

from voxyard.diagnose.gpu_figures import gpu_figures
from voxyard.host.nvml import Gpu
from voxyard.host.readings import DeviceMemory
from voxyard.telemetry import gpu_watch
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.telemetry.sampler import GpuState, Snapshot

CARDS = [Gpu(i, f"GPU-{i}", "a card", f"00000000:{i}7:00.0", 24564, 24000, (8, 9)) for i in range(2)]


def state(number: int, at: int) -> GpuState:
    """GPU `number` in one pass: 10 % × (number + 1) busy, its reading an object of its own."""
    memory = DeviceMemory(size=24 << 30, used=(1 + at % 7) << 30, free=0, reserved=None)
    measured = replace(reading(None), power_watts=100.0 + 50 * number, power_limit_watts=400.0, memory=memory)
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
    assert [(each.role, each.index) for each in watch.powers()] == [("data", 0), ("model", 1)]
    assert [each.share for each in watch.powers()] == pytest.approx([0.25, 0.375])
    data = gpu_figures(watch).gpus[0]
    assert (data.utilization.count, data.memory_used, data.memory_size) == (10, 7 << 30, 24 << 30)


def test_figures_leave_the_first_pass_out() -> None:
    """The driver measured it before the watch began."""
    assert gpu_figures(taken(opened(), 1)).gpus == ()
    watch = taken(opened(), 3)
    assert [gpu.utilization.count for gpu in gpu_figures(watch).gpus] == [2, 2]


def seen(busy: dict[int, float]) -> GpuWatch:
    """A watch of steps after a pass in each of these seconds, with the model GPU so busy."""
    watch = GpuWatch([("model", CARDS[0])], of_steps=True)
    for at, use in busy.items():
        one = replace(state(0, at), utilization_ratio=use)
        watch.take(Snapshot(at, at, True, at, 0.01, (one,), {}, None, None, {}))
    return watch


def test_compiling_and_validating_are_left_out_of_a_short_run() -> None:
    """30 s of compiling and 10 s of validating in a run of a minute, whose steps keep the GPU busy."""
    watch = seen({at: 0.9 if 30 < at <= 45 or at >= 56 else 0.05 for at in range(1, 61)})
    for step in range(300, 450):  # tenths of a second
        watch.trained(step / 10, step / 10 + 0.1)
    for step in range(550, 600):
        watch.trained(step / 10, step / 10 + 0.1)
    assert watch.utilization() == {"model": pytest.approx(0.9)}
    assert watch.power_watts() == pytest.approx(100)
    assert watch.counted == 20


def test_a_reading_that_begins_before_the_steps_is_left_out() -> None:
    watch = seen({10: 0.3, 11: 0.8})
    watch.trained(9.5, 11.2)
    assert watch.utilization() == {"model": 0.8}


def test_measurements_of_milliseconds_between_steps_leave_no_reading_out() -> None:
    """The data stage is timed alone for a hundredth of the time."""
    watch = seen(dict.fromkeys(range(1, 11), 0.7))
    for half in range(21):
        watch.trained(half / 2, half / 2 + 0.495)
    assert watch.counted == 10


def test_without_a_second_of_steps_there_is_no_utilization() -> None:
    watch = seen({1: 0.4, 2: 0.4})
    watch.trained(1.2, 2.0)
    assert watch.utilization() == {"model": None}
    assert watch.counted == 0


def test_spans_of_a_run_of_days_are_forgotten() -> None:
    watch = GpuWatch([("model", CARDS[0])], of_steps=True)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for step in range(20_000):
            watch.trained(step, step + 0.5)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000


def test_the_use_of_a_card_is_none_of_its_parts() -> None:
    """NVML cannot tell the logical GPUs of --gpu-parts apart."""
    watch = taken(GpuWatch([("data", CARDS[1]), ("model", CARDS[1])]), 3)
    assert watch.utilization() == {"data": None, "model": None}
    assert watch.cut_cards() == {"GPU 1": pytest.approx(0.2)}
    found = gpu_figures(watch)
    assert [gpu.role for gpu in found.gpus] == ["all parts"]
    assert (found.utilization("data"), found.utilization("model")) == (None, None)
    assert "cannot tell the parts" in (found.missing or "")


def test_mirrored_parts_beside_a_whole_card_have_no_use() -> None:
    watch = taken(GpuWatch([("model", CARDS[0]), ("model", CARDS[1]), ("model", CARDS[1])]), 3)
    assert watch.utilization() == {"model": None}


def test_energy_is_what_the_cards_counted_meanwhile_whatever_they_had_before() -> None:
    watch = opened()
    for at, counters in enumerate([(1000.0, 50.0), (1100.0, 80.0), (30.0, 90.0), (50.0, 100.0)]):  # a driver restarts
        states = []
        for number, joules in enumerate(counters):
            made = state(number, at)
            assert made.reading is not None
            states.append(replace(made, reading=replace(made.reading, totals={"energy_joules": joules})))
        watch.take(Snapshot(at, at, True, at, 0.01, tuple(states), {}, None, None, {}))
    assert watch.energy_joules() == pytest.approx(100 + 20 + 50)
    assert taken(opened(), 3).energy_joules() is None  # cards without a counter
    assert GpuWatch([]).energy_joules() is None
