"""`tones_service.py` as a process: started with its settings, asked whether it is ready, stopped, killed, frozen."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import tones_service
import yaml
from eventually import PATIENCE


@dataclass
class TonesProcess:
    """One service; `section` are its settings beside the address and the data directory, read at each start.

    A chunk takes `seconds`; of a service that speaks TLS `trust` knows the authority. `migration` are statements that a
    release after this one adds to the schema; `clock` is how many seconds its clock is off.
    """

    folder: Path
    name: str
    port: int
    section: dict[str, object] = field(default_factory=dict)
    seconds: float = tones_service.CHUNK_SECONDS
    trust: ssl.SSLContext | None = None
    migration: Sequence[str] = ()
    gpus: Mapping[str, str] | None = None
    clock: float = 0.0
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if 'tls_certificate' in self.section else ''}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; it need not be ready then."""
        self.folder.mkdir(exist_ok=True)
        section = {"host": "127.0.0.1", "port": self.port, "data_dir": str(self.folder / "data"), **self.section}
        cards = {} if self.gpus is None else {**self.gpus, "TONES_DEVICE": "cuda"}
        speech = {"max_parallel_tts_workers": 1} if self.gpus is None else {}
        settings = self.folder / "bark.yaml"
        settings.write_text(yaml.safe_dump({"service": section, "speech": speech}))
        self.jump(self.clock)
        folders = [*map(str, Path(tones_service.__file__).parents[1].glob("*/")), os.environ.get("PYTHONPATH", "")]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, tones_service.__file__, "serve", "--config", str(settings)],
                env={
                    **os.environ, **cards, "PYTHONPATH": os.pathsep.join(filter(None, folders)),
                    "TONES_SECONDS": str(self.seconds), "TONES_MIGRATION": json.dumps(self.migration),
                    "TONES_CLOCK": str(self.folder / "clock"),
                },
                stdout=log, stderr=log, text=True,
            )  # fmt: skip

    def jump(self, seconds: float) -> None:
        """Set its clock so many seconds ahead of the machine's, also while it runs."""
        self.clock = seconds
        new = self.folder / "clock.new"
        new.write_text(str(seconds))
        new.rename(self.folder / "clock")

    @property
    def log(self) -> Path:
        """Output of all its processes."""
        return self.folder / "log"

    @property
    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=10, verify=self.trust or True).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """SIGTERM, and wait for its end in order."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        assert self.process.wait(PATIENCE) == 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        """SIGKILL, where it runs; its workers end by themselves."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
