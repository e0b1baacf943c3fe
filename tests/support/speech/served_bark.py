"""`voxyard serve` with a real engine, as a process."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import httpx
import psutil
from eventually import PATIENCE, eventually

STORY = "\n\n".join(
    f"This is paragraph number {number}. It says little, but it says it in two sentences." for number in range(1, 13)
)


class Served:
    """One process of the service."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "voxyard", "serve", *flags, "--port", "0", "--data-dir", str(data)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.noted: list[str] = []
        self._address: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self.process.stderr, self.noted.append), daemon=True).start()
        threading.Thread(target=self._read, args=(self.process.stdout, self._address.put), daemon=True).start()
        self.address = self._address.get(timeout=PATIENCE).split()[0]
        self.client = httpx.Client(base_url=self.address, timeout=PATIENCE)
        eventually(lambda: self.client.get("/readyz").status_code == 200)

    def end(self, how: signal.Signals) -> int:
        """Its exit code; its workers end too."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.client.close()
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
        assert not alive
        return code

    @staticmethod
    def _read(stream: IO[str], take: Callable[[str], None]) -> None:
        for line in stream:
            take(line)


class ServedBark(Served):
    """The service with Bark on a tiny model."""

    def __init__(self, model: Path, data: Path) -> None:
        super().__init__(data, "--model", str(model), "--device", "cpu", "--workers", "2", "--batch-size", "2")


def finished(client: httpx.Client, document: str) -> bytes:
    """The sound of a document, once it is whole."""
    eventually(lambda: client.get(f"/v1/documents/{document}").json()["state"] == "completed")
    return client.get(f"/v1/documents/{document}/audio", params={"format": "wav"}).content
