"""`voxyard serve` with the real engine on a tiny model: OpenAI's own client, and a kill in mid-document."""

from __future__ import annotations

import io
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import av
import httpx
import psutil
import pytest
from openai import OpenAI

STORY = "\n\n".join(
    f"This is paragraph number {number}. It says little, but it says it in two sentences." for number in range(1, 13)
)
PATIENCE = 120.0  # seconds


class Running:
    """One process of the service."""

    def __init__(self, model: Path, data: Path) -> None:
        flags = ["--model", str(model), "--device", "cpu", "--workers", "2", "--batch-size", "2", "--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "voxyard", "serve", *flags, "--data-dir", str(data)],
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
        until(lambda: self.client.get("/readyz").status_code == 200)

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


@pytest.fixture
def start(tiny_model: Path, tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Starts the service on one data directory, again and again."""
    started: list[Running] = []

    def run() -> Running:
        started.append(Running(tiny_model, tmp_path / "data"))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.end(signal.SIGKILL)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def finished(client: httpx.Client, document: str) -> bytes:
    """The sound of a document, once it is whole."""
    until(lambda: client.get(f"/v1/documents/{document}").json()["state"] == "completed")
    return client.get(f"/v1/documents/{document}/audio", params={"format": "wav"}).content


def test_the_openai_client_streams_an_mp3(start: Callable[[], Running]) -> None:
    service = start()
    client = OpenAI(base_url=f"{service.address}/v1", api_key="none is asked for", max_retries=0)
    got = io.BytesIO()
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=STORY[:400], response_format="mp3"
    ) as answer:
        for piece in answer.iter_bytes():
            got.write(piece)

    with av.open(io.BytesIO(got.getvalue()), "r") as sound:
        seconds = sum(frame.samples for frame in sound.decode(audio=0)) / 24_000
    assert seconds > 2
    assert service.end(signal.SIGTERM) == 0
    assert any("the weights in" in line and "are random" in line for line in service.noted)


def test_a_stop_in_mid_document_changes_no_byte_of_it(start: Callable[[], Running]) -> None:
    service = start()
    body = {"text": STORY, "seed": 7}
    expected = finished(service.client, service.client.post("/v1/documents", json=body).json()["id"])
    stopped = service.client.post("/v1/documents", json=body).json()["id"]
    until(lambda: service.client.get(f"/v1/documents/{stopped}").json()["progress"]["done"] >= 2)

    assert service.end(signal.SIGTERM) == 0

    until(lambda: any("stopped" in line for line in service.noted))
    assert any("all chunks in progress finished" in line for line in service.noted)
    assert finished(start().client, stopped) == expected


def test_a_kill_in_mid_document_changes_no_byte_of_it(start: Callable[[], Running]) -> None:
    service = start()
    body = {"text": STORY, "seed": 7}
    expected = finished(service.client, service.client.post("/v1/documents", json=body).json()["id"])
    killed = service.client.post("/v1/documents", json=body).json()["id"]

    until(lambda: service.client.get(f"/v1/documents/{killed}").json()["progress"]["done"] >= 2)
    service.end(signal.SIGKILL)
    again = start()
    left = again.client.get(f"/v1/documents/{killed}").json()["progress"]["done"]

    assert left >= 2
    assert finished(again.client, killed) == expected
    assert again.end(signal.SIGTERM) == 0
