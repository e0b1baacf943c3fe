"""Report of a run: what its clocks, its step and its devices measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voxyard.telemetry.gpu_watch import PARTS
from voxyard.trainer.reporting.bounds import ALONE_NEEDED, ON_DATA, ON_MODEL, STEPS_NEEDED, StepStages, too_few

if TYPE_CHECKING:
    from voxyard.telemetry.gpu_watch import GpuWatch
    from voxyard.trainer.devices.tensorflow_setup import Devices
    from voxyard.trainer.reporting.clocks import StepClock
    from voxyard.trainer.step import TrainStep

NO_READING = "no reading is of a second of steps alone: the run was too short"


def measured(clock: StepClock, step: TrainStep, watch: GpuWatch) -> dict[str, Any]:
    """Fields of a run's report that its clock, its step and its devices give; None where too few steps were timed."""
    devices, enough = step.devices, clock.steps >= STEPS_NEEDED
    return {
        "strategy": devices.strategy,
        "too_few": _too_few(clock, step),
        "steps_per_second": clock.rate if enough else None,
        **_stages(clock, step),
        "data_stage_source": _data_stage_source(step),
        "reached": _reached(clock, step),
        "data_wait_share": clock.wait_share if enough else None,
        "step_time_variation": clock.variation if enough else None,
        "step_time_variation_within_buckets": clock.variation_within_buckets if enough else None,
        "traces": dict(step.traces),
        **_device_use(clock, step, watch),
    }


def devices_described(devices: Devices, own_rows: int, rows: int) -> tuple[str, ...]:
    """The devices in words, a line each; over hosts with this host's part of the `rows` clips of a batch."""
    if devices.hosts is None:
        return devices.description
    group = devices.hosts.group
    here = f"{group.name(group.index)} of {group.count}, {own_rows} of {rows} clips of each batch"
    return (*devices.description, here)


def train_mean(clock: StepClock, step: TrainStep) -> float | None:
    """Mean seconds of the training stage, without its waits: for data, and for the networks beside it.

    It has all that the model device does; its updates of a second network are counted as its present phase makes them.
    """
    mean, beside, times = clock.train_mean, step.update_thread, step.timer.beside
    if mean is None:
        return None
    if beside is not None:
        return mean - beside.blocked_seconds / clock.steps
    return mean if times.mean is None or times.run_mean is None else mean - times.run_mean + times.mean


def stage_times(clock: StepClock, step: TrainStep) -> StepStages | None:
    """Times of the stages of a step; None where one was not measured, and of mirrored devices, which make all."""
    return StepStages.of_report(_stages(clock, step))


def _too_few(clock: StepClock, step: TrainStep) -> dict[str, str]:
    """Stages (D, M, V) timed too seldom, with the reason; M has V in it unless the data device makes V."""
    alone = ALONE_NEEDED if step.asynchronous else STEPS_NEEDED
    timed = {"M": (clock.steps, STEPS_NEEDED)}
    if step.devices.strategy != "mirrored":
        timed["D"] = step.timer.data.count, alone
    if step.beside_names:
        timed["V"] = step.timer.beside.count, alone
    found = {name: too_few(count, needed) for name, (count, needed) in timed.items() if count < needed}
    return {"M": found["V"]} | found if "V" in found and step.beside_on != "data" else found


def _stages(clock: StepClock, step: TrainStep) -> dict[str, Any]:
    """Times of the stages; None where one is not timed, or too seldom."""
    missing = _too_few(clock, step)
    data = "D" not in missing and step.devices.strategy != "mirrored"
    return {
        "data_stage_seconds": step.timer.data.mean(clock.shapes) if data else None,
        "train_stage_seconds": train_mean(clock, step) if "M" not in missing else None,
        "beside_stage_seconds": step.timer.beside.mean if "V" not in missing else None,
        "beside_names": step.beside_names,
        "beside_on": step.beside_on,
        "two_networks": _two_networks(step),
    }


def way_of(step: TrainStep) -> str:
    """Name of a step's way of training among `StepStages.bounds`."""
    if step.devices.strategy != "split" or not _two_networks(step):
        return step.devices.strategy
    return ON_DATA if step.beside_on == "data" else ON_MODEL


def _two_networks(step: TrainStep) -> bool:
    return bool(getattr(step.trainable, "beside", ()))


def _reached(clock: StepClock, step: TrainStep) -> float | None:
    """Gain over one device that makes all stages in turn, all of them as they were in this run."""
    times, mean, of_run = stage_times(clock, step), step.timer.beside.mean, step.timer.beside.run_mean
    if times is None or not clock.rate:
        return None
    return clock.rate * (times.in_turn - (mean or 0.0) + (of_run or 0.0))


def _device_use(clock: StepClock, step: TrainStep, watch: GpuWatch) -> dict[str, Any]:
    """Utilisation of the devices: of a CPU device the share of the time in which its function ran."""
    if step.devices.kind == "gpu":
        return {
            "device_use": watch.utilization(),
            "device_use_source": _readings(watch),
            "device_use_missing": PARTS if watch.cut else "" if watch.counted else NO_READING,
            "card_use": watch.cut_cards(),
            "power_watts": watch.power_watts(),
            "powers": watch.powers(),
            "memory_of_limit": step.memory_of_limits(),
        }
    seconds = clock.duration / max(1, clock.steps)
    if clock.steps < STEPS_NEEDED or not seconds:
        return {}
    data = step.timer.data.mean(clock.shapes) if step.devices.strategy == "split" else None
    if data is not None and step.update_thread is not None:
        data += step.timer.beside.run_mean or 0.0
    return {
        "device_use": {"data": None if data is None else min(1.0, data / seconds), "model": 1 - clock.wait_share},
        "device_use_source": "share of the time in which the CPU device's function ran",
    }


def _readings(watch: GpuWatch) -> str:
    kept_out = "without compiling, validating and saving"
    return f"mean of NVML's utilization, {watch.counted} readings of a second of steps, {kept_out}"


def _data_stage_source(step: TrainStep) -> str:
    count = step.timer.data.count
    return f"{count} batches, alone between barriers" if step.asynchronous else f"{count} batches of this run"
