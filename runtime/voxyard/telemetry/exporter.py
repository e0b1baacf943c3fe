"""The exporter: one loop that reads the GPUs, one server that exports the latest snapshot."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from prometheus_client import CollectorRegistry, ProcessCollector

from voxyard.host.nvml import Session
from voxyard.host.out_of_work import OutOfWork
from voxyard.telemetry.configuration import (
    ExpectedConfigurations,
    HostPlan,
    Maintenance,
    export_configuration,
    sick_policy,
)
from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.gpu_collector import GpuCollector
from voxyard.telemetry.sampler import GpuSampler
from voxyard.telemetry.server import MetricsServer, serve
from voxyard.telemetry.sick_gpus import SickGpus, SickPolicy
from voxyard.telemetry.web_config import read_web_config

if TYPE_CHECKING:
    from voxyard.telemetry.recording import Recording

log = logging.getLogger("voxyard.telemetry")

_PATHS = ("web_config", "plan", "state", "record")


@dataclass(frozen=True, slots=True)
class Config:
    """The exporter's settings (see config.py), read and checked, as they travel to the process that serves."""

    host: str
    port: int
    interval: float  # seconds
    web_config: Path | None
    processes: bool
    plan: Path | None
    state: Path | None
    record: Path | None = None
    record_seconds: float = 60.0

    def to_json(self) -> str:
        """A text from which `from_json` makes the same."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parses the output of `to_json`."""
        fields = json.loads(text)
        paths = {name: Path(fields[name]) if fields[name] else None for name in _PATHS}
        return cls(**{**fields, **paths})


class Exporter:
    """A running exporter. A context: its loop and its server end with it."""

    def __init__(self, config: Config, recording: Recording | None = None) -> None:
        """Raises TelemetryError where the plan, the web configuration or the address cannot be used."""
        web = read_web_config(config.web_config) if config.web_config else None
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # its start: one that starts again and again answers most scrapes
        session = Session if recording is None else recording.session
        marks, judge = OutOfWork.of_host(), None
        if marks is not None and recording is None:
            sick = SickGpus(marks, SickPolicy() if config.plan is None else sick_policy(config.plan))
            registry.register(sick)
            judge = sick.judge
        self.sampler = GpuSampler(config.interval, processes=config.processes, session=session, on_snapshot=judge)
        registry.register(GpuCollector(self.sampler))
        if config.plan is not None:
            registry.register(HostPlan(config.plan))
        if config.state is not None:
            registry.register(ExpectedConfigurations(config.state))
            registry.register(Maintenance(config.state))
        export_configuration(registry, "exporter")
        self.server: MetricsServer = serve(
            registry, config.host, config.port, flags="--", web=web, health=self._health, ready=self._ready
        )
        self.sampler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        self.sampler.stop()

    def _health(self) -> tuple[bool, str]:
        if self.sampler.alive():
            return True, "ok"
        return False, f"no call to the NVIDIA driver has returned for {self.sampler.age():.0f} s: does the driver hang?"

    def _ready(self) -> tuple[bool, str]:
        snapshot = self.sampler.snapshot
        if snapshot is None:
            return False, "the first pass over the GPUs is not done yet"
        if not snapshot.success:
            return False, snapshot.problem or "the driver does not answer"
        return self._health()


def exec_exporter(config: Config) -> NoReturn:
    """Replaces this process by an exporter with the same process ID.

    A fresh interpreter drops the modules that read the settings: about a third of the memory that an exporter on
    every host would hold for ever.
    """
    os.execv(sys.executable, [sys.executable, "-P", "-m", "voxyard.telemetry", config.to_json()])  # noqa: S606


def run(config: Config) -> None:
    """Export until SIGTERM or SIGINT. Raises TelemetryError before anything is served where it cannot begin."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with ExitStack() as stack:
        recording = None
        if config.record is not None:
            from voxyard.telemetry.recording import Recording  # most exporters record nothing

            recording = stack.enter_context(Recording(config.record, interval=config.interval))
        exporter = stack.enter_context(Exporter(config) if recording is None else _recording(config, recording))
        scheme = "https" if config.web_config and read_web_config(config.web_config).tls else "http"
        log.info("metrics on %s://%s:%d/metrics", scheme, _shown(config.host), exporter.server.port)
        ended.wait(None if recording is None else config.record_seconds)
    if recording is not None:
        _report(recording)
    log.info("ended")


def _recording(config: Config, recording: Recording) -> Exporter:
    """An exporter that records; beside the exporter of this host, which has the port, it takes another one."""
    try:
        return Exporter(config, recording)
    except TelemetryError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRINUSE:
            recording.remove()
            raise
        log.info("port %d is in use, by this host's exporter it seems: recording beside it", config.port)
        return Exporter(replace(config, host="127.0.0.1", port=0), recording)


def _report(recording: Recording) -> None:
    """Says what was recorded. Raises TelemetryError where the file is not whole; an empty one is removed."""
    if recording.problem is not None:
        raise TelemetryError(
            f"--record {recording.path}: it ends early ({recording.problem}): what was written can be replayed; for "
            "the rest make room, and record to a new name or another disk",
            exit_code=1,
        )
    if not recording.answered:
        recording.remove()
        raise TelemetryError(
            f"--record {recording.path}: the driver answered no call, so there is nothing to record: see what "
            "nvidia-smi says",
            exit_code=1,
        )
    log.info("recorded %d calls of the driver in %s", recording.calls, recording.path)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
