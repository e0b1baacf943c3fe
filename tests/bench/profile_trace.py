"""Times of `voxyard profile` beside TensorFlow's own trace of the same executions → build/bench/profile-trace.json.

A stage is timed by the profile's own code while the trace is taken. On a GPU the trace has each kernel and copy by
the device's clock (CUPTI); on the CPU it has the compiled functions.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from voxyard.corpus.cold import ColdSource
from voxyard.diagnose.dry_run import build_dry_run
from voxyard.diagnose.profile.measure import StageBenchmark
from voxyard.diagnose.profile.stages import figures
from voxyard.trainer import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig
from voxyard.trainer.corpora import open_corpora

OUTPUT = Path(__file__).resolve().parents[2] / "build/bench/profile-trace.json"
TARGET = 0.10
ALONE, STEP = "voxyard alone", "voxyard step"  # annotations in the trace
Interval = tuple[float, float]  # seconds of the trace's clock


@dataclass(frozen=True)
class Trace:
    """Intervals of a trace: those of this program's annotations, and the work of the devices."""

    marks: dict[str, list[Interval]]
    work: list[Interval]

    def alone(self) -> list[float]:
        """Seconds of device work within each execution that ran alone: from its first operation to its last."""
        spans = []
        for begin, end in self.marks[ALONE]:
            inside = [each for each in self.work if begin <= each[0] and each[1] <= end]
            if inside:
                spans.append(max(last for _, last in inside) - min(first for first, _ in inside))
        return spans

    def steps(self, count: int) -> float:
        """Mean seconds of the last `count` steps, which follow each other: from the first operation to the last."""
        began = sorted(self.marks[STEP])[-count][0]
        inside = [each for each in self.work if each[0] >= began]
        return (max(last for _, last in inside) - min(first for first, _ in inside)) / count


def read_trace(planes: Iterable[Any], *, on_gpu: bool) -> Trace:
    """The trace of an XSpace's planes; on the CPU the work of devices is that of the compiled functions."""
    marks: dict[str, list[Interval]] = {ALONE: [], STEP: []}
    work: list[Interval] = []
    for plane in planes:
        names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
        of_gpu = plane.name.startswith("/device:GPU:")
        for line in plane.lines:
            for event in line.events:
                name = names[event.metadata_id]
                begin = line.timestamp_ns / 1e9 + event.offset_ps / 1e12
                interval = begin, begin + event.duration_ps / 1e12
                if on_gpu and of_gpu:
                    if line.name.startswith("Stream"):  # other lines are summaries of these
                        work.append(interval)
                elif not on_gpu and name.startswith("EagerLocalExecute: __inference_"):
                    work.append(interval)
                for mark, found in marks.items():
                    if name.startswith(mark):
                        found.append(interval)
    return Trace(marks, work)


@contextmanager
def traced(found: list[Trace], *, on_gpu: bool) -> Iterator[None]:
    """Takes a trace of the block; it is in `found` afterwards."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as directory:
        tf.profiler.experimental.start(directory)
        try:
            yield
        finally:
            tf.profiler.experimental.stop()
        (file,) = Path(directory).rglob("*.xplane.pb")
        found.append(read_trace(xplane_pb2.XSpace.FromString(file.read_bytes()).planes, on_gpu=on_gpu))


class TracedBenchmark(StageBenchmark):
    """Stage benchmark of the profile whose executions are traced: seconds by its own clock, and by the trace."""

    def compare(self) -> dict[str, tuple[float, float]]:
        """Mean seconds of features and step: as the profile says, and as the trace says. ValueError without work."""
        step, on_gpu = self.run.step, self.run.devices.kind == "gpu"
        seconds_alone, train = step.seconds_alone, step.train

        def marked(work: Callable[[], Any]) -> float:
            with tf.profiler.experimental.Trace(ALONE):
                return seconds_alone(work)

        def marked_step(staged: Any, step: int = 0) -> Any:
            with tf.profiler.experimental.Trace(STEP):
                return train(staged, step)

        step.seconds_alone, step.train = marked, marked_step  # type: ignore[method-assign]
        traces: list[Trace] = []
        with traced(traces, on_gpu=on_gpu):
            features = self._each(lambda batch: batch.arrays, step.features_of)
        with traced(traces, on_gpu=on_gpu):
            steps = self._train()
        spans = traces[0].alone()
        if len(spans) != len(features):
            raise ValueError(f"the trace has device work in {len(spans)} of {len(features)} feature batches")
        return {
            "features": (figures(features).mean, figures(spans).mean),
            "train": (figures(steps).mean, traces[1].steps(len(steps))),
        }


def configuration(device: Any, rows: int, size: Any, corpus: Path | None) -> TrainConfig:
    """One device: each stage runs alone on it."""
    return TrainConfig(
        model=ModelConfig(size=size),
        data=DataConfig(train_data=corpus, validation_share=0, buckets=1, num_workers=1),
        training=TrainingConfig(device=device, batch_size=rows, checkpoint_dir=Path(tempfile.mkdtemp()), seed=1),
        telemetry=TelemetryConfig(tensorboard=False),
    )


def result(compared: dict[str, tuple[float, float]], *, device: str, stand_in: bool) -> dict[str, Any]:
    """The result of a run, as its JSON file holds it: differences as shares of the trace's time."""
    return {
        "name": "profile-trace",
        "stand_in": stand_in,
        "machine": {"device": device, "tensorflow": tf.__version__},
        "ratios": {f"{stage}_vs_trace": abs(ours / theirs - 1) for stage, (ours, theirs) in compared.items()},
        "figures": {
            stage: {"profile_seconds": ours, "trace_seconds": theirs} for stage, (ours, theirs) in compared.items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="recordings or shards [default: the demo corpus]")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rows", type=int, default=32, help="clips in a batch")
    parser.add_argument("--size", default="small", help="row of the table of model sizes")
    parser.add_argument("--out", type=Path, default=OUTPUT, metavar="FILE", help="JSON file of the result")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU: a stand-in, which proves nothing")
    chosen = parser.parse_args(arguments)
    if chosen.smoke and chosen.device == "gpu":
        parser.error("--smoke is of the CPU: leave --device gpu out")
    steps, rows, size = (5, 4, "tiny") if chosen.smoke else (chosen.steps, chosen.rows, chosen.size)
    with tempfile.TemporaryDirectory() as directory:
        corpus = chosen.corpus
        if corpus is None:
            from voxyard.corpus.demo import make_demo

            corpus = make_demo(Path(directory) / "corpus", clips=16 if chosen.smoke else None).path
        config = configuration(chosen.device, rows, size, corpus)
        corpora = open_corpora(config)
        source = ColdSource(corpora.training)
        run = build_dry_run(config, Path(directory), corpora=replace(corpora, training=source))
        benchmark = TracedBenchmark(run, steps, source)
        benchmark.warm_up()
        found = result(benchmark.compare(), device=chosen.device, stand_in=chosen.smoke)
    for stage, each in found["figures"].items():
        share = found["ratios"][f"{stage}_vs_trace"]
        print(
            f"{stage:9} profile {1e3 * each['profile_seconds']:9.3f} ms, trace {1e3 * each['trace_seconds']:9.3f} ms, "
            f"difference {share:.1%} (target within {TARGET:.0%})"
        )
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"→ {chosen.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
