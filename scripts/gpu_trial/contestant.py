"""A run that is compiled beside others and then timed alone.

`contestant.py NAME CONFIG.json OUT.json FOLDER`: when its first steps are done it writes FOLDER/OUT.ready and waits for
FOLDER/OUT.go. CONFIG is of voxyard train; `xla_flags` in it are added to those of the environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 3.0  # of each measurement, at most
STEPS = 200
NVML_SECONDS = 0.1
Figures = dict[str, Any]


def main() -> None:
    """Compile, wait for the turn, measure, write the figures; exit code 1 where anything failed."""
    name, config, out, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    found: Figures = {"name": name}

    def written() -> None:
        out.write_text(json.dumps(found, indent=1), encoding="utf-8")

    try:
        with tempfile.TemporaryDirectory() as place:
            settings = json.loads(config.read_text(encoding="utf-8"))
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {settings.pop('xla_flags', '')}".strip()
            settings["training"] |= {"checkpoint_dir": place}
            run, arrays = compiled(settings, found)
            written()
            (folder / f"{out.stem}.ready").touch()
            while not (folder / f"{out.stem}.go").exists():
                time.sleep(0.1)
            with readings() as rows:
                for measure in (stages, overlapped):
                    begin = time.perf_counter()
                    found |= measure(run, arrays)
                    found[f"{measure.__name__}_nvml"] = means(rows, begin + 0.5)  # the driver looks back that far
                    written()
            found |= {"trace": traced(run, arrays), "peak_mib": peaks(run)}
            code = 0
    except Exception as error:  # noqa: BLE001 (whatever TensorFlow raises is this run's result)
        found["error"], code = f"{type(error).__name__}: {error}"[:1500], 1
    written()
    sys.stdout.flush()
    os._exit(code)  # nothing of TensorFlow's end is waited for


def compiled(settings: Mapping[str, Any], found: Figures) -> tuple[Any, list[Any]]:
    """The run after a first step of each kind, and some batches; what compiling took goes to `found`, in seconds."""
    from voxyard.trainer.api import open_run
    from voxyard.trainer.config import TrainConfig

    run = open_run(TrainConfig.model_validate(settings))
    step, plans = run.step, list(run.sampler.batches(0, min(4, run.sampler.steps_per_epoch)))
    arrays = [run.assemble(plan).arrays for plan in plans]
    found |= {"rows": run.rows, "precision": run.config.training.precision, "xla": bool(run.config.training.xla)}
    found |= {"parameters": step.model.count_params(), "devices": list(run.devices.description)}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        made = work()
        step.synchronise()
        found[name] = round(time.perf_counter() - begin, 3)
        return made

    staged = timed("compile_features_seconds", lambda: step.stage(arrays[0]))
    found["losses"] = dict(timed("compile_update_seconds", lambda: step.train(staged, 0).read()))
    timed("second_step_seconds", lambda: step.train(step.stage(arrays[-1]), 0).read())
    timed("evaluate_seconds", lambda: step.evaluate(arrays[0]))
    return run, arrays


def stages(run: Any, arrays: list[Any]) -> Figures:
    """Median milliseconds of each stage alone: the host's part, features (D), copies, update (M), its launch."""
    from voxyard.trainer.copies import to_device
    from voxyard.trainer.packing import pack_arrays

    step = run.step
    (plan,) = list(run.sampler.batches(0, 1))
    packed = pack_arrays(arrays[0])
    made = step.features_of(arrays[0])
    staged = [step.stage(each) for each in arrays]
    launches: list[float] = []

    def launched() -> None:
        begin = time.perf_counter()
        losses = step.train(staged[len(launches) % len(staged)], 0)
        launches.append(time.perf_counter() - begin)
        losses.read()

    found = {
        "assemble_ms": milliseconds(lambda: run.assemble(plan)),
        "pack_ms": milliseconds(lambda: pack_arrays(arrays[0])),
        "to_device_ms": alone(run, lambda: to_device({"words": packed.words}, run.devices.data)),
        "features_ms": alone(run, lambda: step.features_of(arrays[0])),
        "transfer_ms": alone(run, lambda: step.transfer(made)),
        "update_ms": alone(run, launched),
        "batch_mib": packed.words.nbytes / 2**20,
    }
    found["launch_ms"] = 1e3 * statistics.median(launches)
    if step.timer.beside.mean is not None:
        found["beside_ms"] = 1e3 * step.timer.beside.mean
    return found


def overlapped(run: Any, arrays: list[Any]) -> Figures:
    """The pipeline as a training has it: milliseconds a step, steps and clips a second, data wait, variation."""
    from voxyard.trainer.steps.in_flight import StepsInFlight

    del arrays  # the pipeline reads its own
    step = run.step
    ended: list[Any] = []
    with run.pipeline(STEPS, None) as pipeline, StepsInFlight(asynchronous=step.asynchronous) as steps:
        pipeline.warm_up()
        begin = time.perf_counter()
        while len(ended) < STEPS and time.perf_counter() - begin < 2 * SECONDS:
            if run.launch(steps, pipeline) is None:
                break
            ended += steps.ended()
        ended += steps.drain()
        step.settle()
    kept = [each for each in ended[3:] or ended if not each.traced] or ended
    seconds = sum(each.duration for each in kept)
    spread = statistics.pstdev([each.duration for each in kept]) if len(kept) > 1 else 0.0
    return {
        "steps": len(kept),
        "overlapped_ms": 1e3 * seconds / len(kept),
        "steps_per_second": len(kept) / seconds,
        "clips_per_second": run.rows * len(kept) / seconds,
        "data_wait_share": sum(each.wait for each in kept) / seconds,
        "variation": spread / (seconds / len(kept)),
    }


def traced(run: Any, arrays: list[Any]) -> Figures:
    """TensorFlow's own trace of features alone, of updates alone, and of both together: busy streams, long kernels."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    step = run.step
    staged = [step.stage(each) for each in arrays]

    def updates(*, beside: bool) -> None:
        for number in range(8):
            losses = step.train(staged[number % len(staged)], number)
            if beside:
                step.stage(arrays[number % len(arrays)])
            losses.read()

    works: dict[str, Callable[[], Any]] = {
        "features": lambda: [step.features_of(each) for each in arrays],
        "updates": lambda: updates(beside=False),
        "together": lambda: updates(beside=True),
    }
    found: Figures = {}
    for name, work in works.items():
        step.synchronise()
        with tempfile.TemporaryDirectory() as folder:
            tf.profiler.experimental.start(folder)
            begin = time.perf_counter()
            work()
            step.synchronise()
            seconds = time.perf_counter() - begin
            tf.profiler.experimental.stop()
            files = list(Path(folder).rglob("*.xplane.pb"))
            read: Any = xplane_pb2.XSpace.FromString
            planes = [plane for file in files for plane in read(file.read_bytes()).planes]
        found[name] = {"seconds": seconds, **of_streams(planes)}
    return found


def of_streams(planes: Sequence[Any]) -> Figures:
    """Busy seconds of every stream of a card, and the kernels that took longest: name, times, milliseconds."""
    busy: dict[str, float] = {}
    kernels: dict[str, tuple[int, float]] = {}
    for plane in planes:
        if not plane.name.startswith("/device:GPU:"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):  # other lines are summaries of these
                continue
            spans = sorted((event.offset_ps, event.offset_ps + event.duration_ps) for event in line.events)
            last, total = 0, 0
            for first, end in spans:
                total += max(0, end - max(first, last))
                last = max(last, end)
            busy[line.name] = busy.get(line.name, 0.0) + total / 1e12
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name[:90]
                times, took = kernels.get(name, (0, 0.0))
                kernels[name] = times + 1, took + event.duration_ps / 1e9
    longest = sorted(kernels.items(), key=lambda each: -each[1][1])[:12]
    return {"busy_seconds": busy, "kernels": [[name, times, round(took, 3)] for name, (times, took) in longest]}


def peaks(run: Any) -> dict[str, float]:
    """Most MiB that TensorFlow's allocator held, by GPU."""
    import tensorflow as tf

    if run.devices.kind != "gpu":
        return {}
    devices = dict.fromkeys((run.devices.data, run.devices.model))
    read = tf.config.experimental.get_memory_info
    return {device: read(device.removeprefix("/device:"))["peak"] / 2**20 for device in devices}


def milliseconds(work: Callable[[], Any]) -> float:
    """Median of a work on the host."""
    spans: list[float] = []
    began = time.perf_counter()
    while len(spans) < 3 or (len(spans) < STEPS and time.perf_counter() - began < SECONDS / 6):
        begin = time.perf_counter()
        work()
        spans.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(spans)


def alone(run: Any, work: Callable[[], Any]) -> float:
    """Median milliseconds of a work on devices that have nothing else to do."""
    spans: list[float] = []
    began = time.perf_counter()
    while len(spans) < 3 or (len(spans) < STEPS and time.perf_counter() - began < SECONDS / 3):
        spans.append(1e3 * run.step.seconds_alone(work))
    return statistics.median(spans)


@contextlib.contextmanager
def readings() -> Iterator[list[tuple[float, float, float, float]]]:
    """Time, utilization (0…1), power (W) and SM clock (MHz) of the first card, ten a second; none without NVML."""
    import pynvml

    rows: list[tuple[float, float, float, float]] = []
    end = threading.Event()

    def read() -> None:
        with contextlib.suppress(pynvml.NVMLError):  # a host without a card has no readings
            pynvml.nvmlInit()
            card = pynvml.nvmlDeviceGetHandleByIndex(0)
            while not end.wait(NVML_SECONDS):
                use = pynvml.nvmlDeviceGetUtilizationRates(card).gpu / 100
                power = pynvml.nvmlDeviceGetPowerUsage(card) / 1000
                clock = float(pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM))
                rows.append((time.perf_counter(), use, power, clock))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield rows
    finally:
        end.set()
        thread.join(2)


def means(rows: list[tuple[float, float, float, float]], begin: float) -> dict[str, float]:
    """Means of the readings since `begin`."""
    since = [row for row in rows if row[0] >= begin]
    names = ("utilization", "power_watts", "sm_mhz")
    return {name: statistics.fmean(row[place] for row in since) for place, name in enumerate(names, 1)} if since else {}


if __name__ == "__main__":
    main()
