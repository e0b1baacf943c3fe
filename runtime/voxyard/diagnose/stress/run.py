"""Stress test: the trainer's real step for some seconds, with utilisation before, during and after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxyard.corpus.cold import ColdSource
from voxyard.diagnose.dry_run import build_dry_run, rows_of, scratch, with_corpus
from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_figures import NO_GPU, READ_SECONDS, GpuFigures, gpu_figures
from voxyard.diagnose.stress.targets import LowUse, StressResult, TargetReport, check_targets, low_use
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.out_of_memory import Doing, told_out_of_memory
from voxyard.trainer.reporting.clocks import CpuClock, MemoryGrowth
from voxyard.trainer.reporting.figures import columns, share
from voxyard.trainer.steps.in_flight import StepsInFlight

if TYPE_CHECKING:
    from voxyard.trainer.devices.tensorflow_setup import Devices
    from voxyard.trainer.loop import Run

IDLE_SECONDS = 2.0
FEWEST_STEPS = 5
FORETOLD = 400
"""Batches whose clips are dropped from the page cache before the load begins; those after them one by one."""
SKIPPED = "not measured: --skip-stress"


@dataclass(frozen=True)
class Utilization:
    """Utilisation of the machine over some seconds: its processors, 0 to 1, and the GPUs of the run."""

    cpu: float | None
    gpus: GpuFigures

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {"cpu": self.cpu, "gpus": self.gpus.document()}


@dataclass(frozen=True)
class Stress:
    """Measurements, judged by the targets; without `result` only those of the idle machine."""

    devices: tuple[str, ...]
    kind: str
    before: Utilization
    during: Utilization | None = None
    after: Utilization | None = None
    result: StressResult | None = None
    report: TargetReport | None = None
    low: tuple[LowUse, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """1 where a target is missed, else 0."""
        return 1 if self.report is not None and self.report.verdict == "missed" else 0

    def document(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {
            "devices": self.devices,
            "utilization": {
                name: None if one is None else one.document()
                for name, one in (("before", self.before), ("during", self.during), ("after", self.after))
            },
            "load": None
            if self.result is None
            else asdict(self.result) | {"ceiling": self.result.data_ceiling, "reads": self.result.reads.document()},
            "verdict": None if self.report is None else self.report.verdict,
            "targets": [] if self.report is None else [asdict(each) for each in self.report.targets],
            "below_30_percent": [asdict(each) for each in self.low],
            "notes": self.notes,
        }

    def text(self) -> str:
        """The report for a terminal."""
        lines = [*self.devices, "", *_utilization(self)]
        if self.result is not None and self.report is not None:
            lines += ["", *self.result.lines(), "", *self.report.lines()]
        for each in self.low:
            lines += ["", *each.lines()]
        return "\n".join([*lines, *self.notes])


def stress(
    config: TrainConfig, *, seconds: float = 30.0, skip: bool = False, progress: Callable[[str], None] = lambda _: None
) -> Stress:
    """Loads the devices of `config` with the trainer's real pipeline and step; one a process. Nothing is saved.

    `skip` leaves the load out and only reads the idle machine. Without a corpus a small one is generated.
    Raises TrainerError (out of memory is one), CorpusError or HostError as training does.
    """
    from voxyard.trainer.devices.auto_settings import apply_auto_settings
    from voxyard.trainer.devices.tensorflow_setup import prepare_devices

    config = apply_auto_settings(config)
    devices = prepare_devices(config)
    progress(f"measuring the idle machine for {IDLE_SECONDS:g} s")
    before = idle(devices)
    if skip:
        return Stress(devices.description, devices.kind, before, notes=(SKIPPED,))
    with scratch() as directory:
        return train_under_load(config, devices, before, seconds, directory, progress)


def idle(devices: Devices, seconds: float = IDLE_SECONDS) -> Utilization:
    """Utilisation of the machine while this program does nothing."""
    clock = MachineClock()
    with GpuWatch(devices.cards, interval=READ_SECONDS) as watch:
        time.sleep(seconds)
    return Utilization(clock.use(), gpu_figures(watch))


def train_under_load(
    config: TrainConfig,
    devices: Devices,
    before: Utilization,
    seconds: float,
    directory: Path,
    progress: Callable[[str], None],
) -> Stress:
    """Runs the part of `stress` under load. Raises OutOfMemoryError where the memory does not suffice."""
    from voxyard.diagnose.profile.measure import StageBenchmark
    from voxyard.trainer.corpora import open_corpora

    config = with_corpus(config, rows_of(config, devices), directory)
    corpora = open_corpora(config)
    source = ColdSource(corpora.training)
    with told_out_of_memory(config, devices, lambda: Doing("under load"), lambda: "Nothing was saved."):
        run = build_dry_run(config, directory, devices=devices, corpora=replace(corpora, training=source))
        progress("tracing and compiling (not timed)")
        StageBenchmark(run, FEWEST_STEPS, source).warm_up()
        progress(f"training for {seconds:g} s")
        plans = run.sampler.batches(0, min(FORETOLD, run.sampler.steps_per_epoch))
        with source.cold_read(clip for plan in plans for clip in plan.clips) as cold:
            during, result = train_for(run, seconds)
        result = replace(result, reads=cold.pages)
    return Stress(
        devices.description, devices.kind, before, during, idle(devices), result, check_targets(result), low_use(result)
    )


def train_for(run: Run, seconds: float) -> tuple[Utilization, StressResult]:
    """The run's pipeline and step for so many seconds, and at least a few steps, as its loop would do it."""
    on_gpu, fills, number, timer = run.devices.kind == "gpu", 0, 0, run.step.timer
    memory = MemoryGrowth(0, 2 * FEWEST_STEPS, run.step.memory_by_role)
    with (
        GpuWatch(run.devices.cards, interval=READ_SECONDS) as watch,
        run.pipeline(0, None) as pipeline,
        StepsInFlight(asynchronous=run.step.asynchronous) as steps,
    ):
        warm_up = pipeline.warm_up()
        machine, cpu = MachineClock(), CpuClock()
        steps.restart()
        begin = last = time.perf_counter()
        while number < FEWEST_STEPS or last - begin < seconds:
            if run.launch(steps, pipeline) is None:
                raise DiagnoseError("the pipeline ended before the time was up: this is a bug", exit_code=1)
            calibrates = timer.due()
            for ended in steps.drain() if calibrates else steps.ended():
                run.clock.step(ended.duration, ended.wait, ended.plan.bucket, traced=ended.traced)
            if calibrates:
                timer.calibrate(run.step.data_stage_alone, pipeline.ring.paused())
                steps.restart()
            number, last = number + 1, time.perf_counter()
            fills += pipeline.buffer[0]
            memory.sample(number)
        for ended in steps.drain():
            run.clock.step(ended.duration, ended.wait, ended.plan.bucket, traced=ended.traced)
        used, process, most = machine.use(), cpu.use(), pipeline.buffer[1]
    gpus = gpu_figures(watch)
    clock = run.clock
    result = StressResult(
        kind=run.devices.kind,
        strategy=run.devices.strategy,
        seconds=last - begin,
        steps=number,
        steps_per_second=clock.rate,
        clips_per_second=clock.rate * run.rows,
        batch=run.rows,
        warm_up=warm_up,
        data_wait_share=clock.wait_share,
        data_stage_seconds=timer.data.mean(clock.shapes) if run.devices.strategy != "mirrored" else None,
        train_stage_seconds=clock.train_mean,
        variation=clock.variation,
        variation_within_buckets=clock.variation_within_buckets,
        cpu_use=process,
        resident_memory_growth=memory.growth,
        buffer_filled=fills / number / most,
        workers=run.config.data.num_workers,
        use=_use(run, gpus),
        memory_of_limit=run.step.memory_of_limits() if on_gpu else {},
        device_memory_growth=memory.of_devices,
        powers=watch.powers(),
        xla=bool(run.config.training.xla),
        precision=run.config.training.precision,
    )
    return Utilization(used, gpus), result


def _use(run: Run, gpus: GpuFigures) -> Mapping[str, float | None]:
    """Utilisation of the devices, by role: NVML's; of CPU devices the share of time in their functions."""
    if run.devices.kind == "gpu":
        roles = ("data", "model") if run.devices.strategy == "split" else ("model",)
        return {role: gpus.utilization(role) for role in roles}
    clock, seconds = run.clock, run.clock.duration / max(1, run.clock.steps)
    data = run.step.timer.data.mean(clock.shapes) if run.devices.strategy == "split" else None
    use: dict[str, float | None] = {"model": 1 - clock.wait_share}
    return use if data is None or not seconds else {"data": min(1.0, data / seconds), **use}


class MachineClock:
    """Utilisation of all processors of this machine between the creation of the clock and `use()`, by any process."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._begin = self._read()

    def use(self) -> float | None:
        """Share of the processors' time, 0 to 1; None where no time has passed."""
        idle, total = (now - then for now, then in zip(self._read(), self._begin, strict=True))
        return None if total <= 0 else 1 - idle / total

    def _read(self) -> tuple[int, int]:
        """Idle and total time of all processors, in clock ticks."""
        with self._stat.open() as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)


def _utilization(found: Stress) -> list[str]:
    times = (found.before, found.during, found.after)
    rows = [
        ["utilization", "before", "during", "after"],
        ["all processors", *(share(None if one is None else one.cpu, "–") for one in times)],
    ]
    if found.kind != "gpu":
        return [*columns(rows), f"GPUs: {NO_GPU}"]
    for role, index in [(gpu.role, gpu.index) for gpu in found.before.gpus.gpus]:
        rows.append([f"{role} GPU {index}", *(_gpu(one, index) for one in times)])
    return columns(rows)


def _gpu(one: Utilization | None, index: int) -> str:
    gpu = None if one is None else next((each for each in one.gpus.gpus if each.index == index), None)
    return share(None if gpu is None or not gpu.utilization.count else gpu.utilization.mean, "–")
