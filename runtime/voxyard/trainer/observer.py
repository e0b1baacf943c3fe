"""Output of a run in progress: metrics, TensorBoard, and a progress bar or plain lines."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from voxyard.telemetry.server import MetricsServer, serve
from voxyard.telemetry.web_config import WebConfig, read_web_config
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer.config import TelemetryConfig
from voxyard.trainer.reporting.bounds import STEPS_NEEDED, too_few
from voxyard.trainer.reporting.mlflow_run import MlflowRun

log = logging.getLogger("voxyard.trainer")

PLAIN_LINE_SECONDS = 5.0
LAST_READ_SECONDS = 30.0


class Observer:
    """Reports the progress of a run to metrics, TensorBoard and the terminal."""

    def __init__(
        self,
        config: TelemetryConfig,
        metrics: TrainMetrics,
        directory: Path,
        *,
        first: int,
        end: int | None,
        mlflow: MlflowRun | None = None,
    ) -> None:
        self.metrics, self._mlflow = metrics, mlflow
        self._clips, self._seconds = 0, 0.0  # of the steps since losses were read
        self._config, self._directory, self._first = config, directory, first
        self._server: MetricsServer | None = None
        self._writer: Any = None
        self._progress = _Progress(first, end)

    def __enter__(self) -> Self:
        if self._config.metrics_port:
            host, port, path = self._config.metrics_host, self._config.metrics_port, self._config.metrics_web_config
            web = read_web_config(path, option="--metrics-web-config") if path else WebConfig()
            self._server = serve(self.metrics.registry, host, port, web=web)
            log.info("Metrics on %s://%s:%d/metrics", "https" if web.tls else "http", host, port)
        if self._config.tensorboard:
            with self._writing():
                self._writer = tf.summary.create_file_writer(str(self._directory / "tensorboard"))
            self._draw(self._first, {"started": time.time()})  # the slow first use, before any step is timed
        self.metrics.start()
        self._progress.start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._progress.stop()
        self.metrics.finish(in_order=kind is None)
        if self._writer is not None:
            with self._writing():
                self._writer.close()
        if self._server is not None:
            self._server.wait_for_reader(LAST_READ_SECONDS)  # an end that nobody reads looks like a run that was killed
            self._server.close()

    def step(
        self,
        step: int,
        duration: float,
        wait: float,
        *,
        samples: int,
        ring_depth: int,
        buffer: tuple[int, int],
        traced: bool = False,
    ) -> None:
        """After each step; cheap. `traced`: a function was traced (compiled) for it."""
        self.metrics.step(duration, wait, samples, ring_depth)
        self._clips, self._seconds = self._clips + samples, self._seconds + duration
        self._progress.timed += not traced
        self._progress.step(step, wait, ring_depth, buffer)

    def losses(self, step: int, losses: Mapping[str, float], learning_rate: float) -> None:
        """Every `log_every` steps, with values that were fetched from the device."""
        self.metrics.losses(losses)
        self.metrics.learning_rate(learning_rate)
        self._progress.loss = (step, losses["total"])
        scalars = {f"train/{name}": value for name, value in losses.items()} | {"learning_rate": learning_rate}
        if self._seconds:
            scalars["train/clips_per_second"] = self._clips / self._seconds
            self._clips, self._seconds = 0, 0.0
        self._scalars(step, scalars)

    def validation(self, step: int, losses: Mapping[str, float]) -> None:
        """After each validation."""
        self.metrics.validation(losses)
        self._scalars(step, {f"validation/{name}": value for name, value in losses.items()})
        parts = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        log.info("Validation at step %d: %s", step, parts)

    def judged(self, step: int | None, scores: Mapping[str, float]) -> None:
        """Result of the judges for a step; None is of the recordings, which are the most that can be reached."""
        of = "recordings" if step is None else f"step {step}"
        prefix = "validation/recorded_" if step is None else "validation/"
        self._scalars(self._first if step is None else step, {f"{prefix}{name}": v for name, v in scores.items()})
        log.info("Judged %s: %s", of, ", ".join(f"{name} {value:.3g}" for name, value in scores.items()))

    def ended(self, report: Path, *, killed: bool) -> None:
        """After the last step, with the file of the report; `killed`: the run was told to stop before its end."""
        if self._mlflow is not None:
            self._mlflow.finish(report, killed=killed)

    def pictures(self, step: int, pictures: Mapping[str, NDArray[np.uint8]]) -> None:
        """Images (height, width, 3) for TensorBoard."""
        if self._writer is not None:
            with self._writing(), self._writer.as_default():
                for name, picture in pictures.items():
                    tf.summary.image(name, picture[None], step=step)

    def _scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._draw(step, values)
        if self._mlflow is not None:
            self._mlflow.scalars(step, values)

    def _draw(self, step: int, values: Mapping[str, float]) -> None:
        if self._writer is not None:
            with self._writing(), self._writer.as_default():
                for name, value in values.items():
                    tf.summary.scalar(name, value, step=step)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Scope that writes for TensorBoard; where that cannot be, the run goes on without it, and the log says so."""
        try:
            yield
        except tf.errors.OpError as error:
            folder, why = self._directory / "tensorboard", error.message.rpartition("}} ")[2].partition(" [Op:")[0]
            log.warning("TensorBoard has nothing from here on: %s cannot be written (%s)", folder, why)
            self._writer = None


class _MeasuredTimeRemaining(TimeRemainingColumn):
    """Estimated time remaining, once enough steps were timed."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.fields["measured"] else Text("-:--:--", style="progress.remaining")


class _Progress:
    """A bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, first: int, end: int | None) -> None:
        self.loss: tuple[int, float] | None = None  # of which step, and the loss
        self.timed = 0  # steps, without those that were traced
        self._first, self._end = first, end
        self._bar: Progress | None = None
        self._told, self._told_step, self._wait = time.perf_counter(), first, 0.0
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                _MeasuredTimeRemaining(),
                TextColumn("{task.fields[figures]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("training", total=end, completed=first, figures="", measured=False)

    def start(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, step: int, wait: float, ring_depth: int, buffer: tuple[int, int]) -> None:
        self._wait += wait
        now = time.perf_counter()
        since = now - self._told
        if since < (0.25 if self._bar is not None else PLAIN_LINE_SECONDS) and step != self._end:
            return
        measured = self.timed >= STEPS_NEEDED
        rate, share = (step - self._told_step) / since, self._wait / since
        figures = [
            f"{rate:.2f} steps/s" if measured else f"rate: {too_few(self.timed)}",
            self._loss(step),
            *([f"data wait {share:.0%}"] if measured else []),
            f"ring {ring_depth}",
            f"buffer {buffer[0]}/{buffer[1]}",
        ]
        if self._bar is not None:
            self._bar.update(self._task, completed=step, figures=", ".join(figures), measured=measured)
        else:
            log.info("step %d%s: %s", step, f"/{self._end}" if self._end else "", ", ".join(figures))
        self._told, self._told_step, self._wait = now, step, 0.0

    def _loss(self, step: int) -> str:
        if self.loss is None:
            return "loss –"
        of, loss = self.loss
        return f"loss {loss:.4g}" if of == step else f"loss {loss:.4g} at step {of}"
