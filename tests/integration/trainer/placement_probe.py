"""Trains our own model for a few steps while TensorFlow's profiler looks on; writes what ran when, as JSON.

In a process of its own: TensorFlow tells for each operation, on standard error or output, the device it was placed on.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import tensorflow as tf

tf.debugging.set_log_device_placement(True)

from voxyard.trainer import DataConfig, TelemetryConfig, TrainConfig, TrainingConfig
from voxyard.trainer.api import open_run


def main(corpus: Path, steps: int, out: Path) -> None:
    """Writes the times of the compiled functions: {"features": [[begin, end], …], "update": …, "copy": …}.

    Times are microseconds of the profiler's clock. With them the tensors sent between devices ("sent") and the
    operations outside functions ("alone").
    """
    config = TrainConfig(
        data=DataConfig(train_data=corpus, data_gpu=0, model_gpu=1, buckets=1, validation_share=0, num_workers=1),
        training=TrainingConfig(device="cpu", batch_size=8, checkpoint_dir=Path(tempfile.mkdtemp())),
        telemetry=TelemetryConfig(tensorboard=False),
    )
    run = open_run(config)
    with run.pipeline(0, 2 + steps) as pipeline, tempfile.TemporaryDirectory() as directory:
        for number in range(2 + steps):
            if number == 2:
                tf.profiler.experimental.start(directory)
            staged, _ = pipeline.get()
            assert staged is not None
            run.step.train(staged.batch)
        tf.profiler.experimental.stop()
        out.write_text(json.dumps(intervals(Path(directory))), encoding="utf-8")


def intervals(directory: Path) -> dict[str, list[list[int]]]:
    """Intervals in which each of the compiled functions ran, from the profiler's trace."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (file,) = directory.rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    found: dict[str, list[list[int]]] = {"features": [], "update": [], "copy": [], "sent": [], "alone": []}
    for plane in space.planes:
        names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns // 1000 + event.offset_ps // 10**6
                name = names[event.metadata_id]
                for function, times in found.items():
                    if (
                        name.startswith(f"EagerLocalExecute: __inference_{function}")
                        or (function == "sent" and name.endswith(":_Send"))
                        or (function == "alone" and name.startswith("EagerLocalExecute: Identity"))
                    ):
                        times.append([begin, begin + event.duration_ps // 10**6])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
