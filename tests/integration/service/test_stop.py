"""Graceful shutdown of a real service process: chunks in progress are kept, time limits hold."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import stopped_service
from documents import marks
from eventually import PATIENCE, eventually

from voxyard.service.documents.store import Store

SEED, CHUNKS = 7, 5
TEXT = " ".join(
    f"This is sentence number {number} of a text that is spoken one sentence at a time." for number in range(CHUNKS)
)
LONG = 3600.0  # seconds that no test waits for


class Service:
    """One process of the service."""

    def __init__(
        self,
        folder: Path,
        *,
        chunk: float = 0.05,
        held: bool = False,
        drain: float = PATIENCE,
        stop: float = 0.0,
        notice: float = 0.0,
    ) -> None:
        """Where it is `held`, its first chunk is in work until it is let go on."""
        self.data, self._marks = folder / "data", folder / "marks"
        self._marks.mkdir(exist_ok=True)
        (self._marks / "on").unlink(missing_ok=True)
        if not held:
            self.go_on()
        paths = [
            *map(str, Path(stopped_service.__file__).parents[1].glob("*/")),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]
        arguments = [str(each) for each in (self.data, self._marks, chunk, drain, stop, notice)]
        self.process = subprocess.Popen(
            [sys.executable, stopped_service.__file__, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.client = httpx.Client(base_url=self.process.stdout.readline().strip(), timeout=PATIENCE)

    def go_on(self) -> None:
        """Let it speak on."""
        (self._marks / "on").touch()

    def send(self) -> str:
        """A document's id."""
        answer = self.client.post("/v1/documents", json={"text": TEXT, "seed": SEED})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def document(self, id: str) -> Any:
        return self.client.get(f"/v1/documents/{id}").json()

    def is_speaking(self) -> bool:
        return [worker["state"] for worker in self.client.get("/v1/workers").json()["workers"]] == ["busy"]

    def waiting(self) -> float:
        """Chunks that wait for the worker."""
        (depth,) = re.findall(r"^voxyard_bark_queue_depth (.+)$", self.client.get("/metrics").text, re.MULTILINE)
        return float(depth)

    def terminate(self) -> None:
        """SIGTERM, and wait until it is known."""
        self.process.send_signal(signal.SIGTERM)
        eventually(lambda: self.client.get("/readyz").status_code == 503)

    def ended(self) -> list[dict[str, Any]]:
        """Log of it, once it has ended in order and its workers with it."""
        workers = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        _, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, err
        assert not psutil.wait_procs(workers, timeout=PATIENCE)[1]
        assert "Traceback" not in err
        return [json.loads(line) for line in err.splitlines() if line.startswith("{")]

    def kept(self, id: str) -> int:
        """Chunks of the document whose sound is written down; to be asked when the process has ended."""
        store = Store(self.data / "documents.sqlite")
        try:
            return sum(chunk.state == "spoken" for chunk in store.chunks(id))
        finally:
            store.close()

    def spoken(self) -> dict[int, int]:
        """Number of times that each chunk has been spoken to its end."""
        return {chunk: times for (seed, chunk), times in marks(self._marks).items() if seed == SEED}

    def end(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the service on one data directory, again and again."""
    started: list[Service] = []

    def run(**options: Any) -> Service:
        started.append(Service(tmp_path, **options))
        return started[-1]

    yield run
    for each in started:
        each.end()


def logged(lines: list[dict[str, Any]], words: str) -> list[str]:
    return [line["message"] for line in lines if words in line["message"]]


def assert_goes_on(service: Service, document: str) -> None:
    """The document is completed, and every chunk of it was spoken to its end once, before or after the restart."""
    eventually(lambda: service.document(document)["state"] == "completed")
    assert service.spoken() == dict.fromkeys(range(CHUNKS), 1)


def test_the_chunk_in_work_is_finished_and_kept_and_not_spoken_again(start: Start) -> None:
    service = start(held=True)
    document = service.send()
    eventually(service.is_speaking)

    service.terminate()

    assert "chunk on worker" in service.client.get("/readyz").json()["error"]["message"]
    assert "voxyard_bark_workers_busy 1.0" in service.client.get("/metrics").text
    assert service.document(document)["progress"]["done"] == 0
    for path, body in (("/v1/documents", {"text": TEXT}), ("/v1/audio/speech", {"input": "No.", "model": "tts-1"})):
        refused = service.client.post(path, json={"voice": "alloy", **body})
        assert (refused.status_code, "shutting down" in refused.text) == (503, True), refused.text
    service.go_on()
    lines = service.ended()
    assert logged(lines, "waiting for 1 chunk on worker")
    assert logged(lines, "all chunks in progress finished")
    assert not [line for line in lines if line["level"] in ("warning", "error") and "request" not in line["message"]]
    assert (service.kept(document), sum(service.spoken().values())) == (1, 1)

    again = start()

    assert_goes_on(again, document)


def test_a_chunk_that_takes_longer_than_it_may_is_ended_and_spoken_at_the_next_start(start: Start) -> None:
    service = start(held=True, drain=2.0)
    document = service.send()
    eventually(service.is_speaking)

    service.terminate()

    lines = service.ended()
    assert logged(lines, "the time limit is over for 1 chunk on worker")
    assert (service.kept(document), service.spoken()) == (0, {})

    again = start()

    assert_goes_on(again, document)


def test_a_second_signal_ends_the_service_at_once_and_loses_nothing(start: Start) -> None:
    service = start(held=True, drain=LONG, stop=LONG)
    document = service.send()
    eventually(service.is_speaking)
    service.terminate()

    service.process.send_signal(signal.SIGTERM)

    lines = service.ended()
    assert logged(lines, "second signal: stopping")
    assert (service.kept(document), service.spoken()) == (0, {})
    assert_goes_on(start(), document)


def test_an_open_request_is_answered_while_no_document_is_spoken_on(start: Start) -> None:
    service = start(held=True, stop=PATIENCE)
    document = service.send()
    eventually(service.is_speaking)
    answers: queue.Queue[httpx.Response] = queue.Queue()
    body = {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": "pcm"}

    def ask() -> None:
        answers.put(httpx.post(service.client.base_url.join("/v1/audio/speech"), json=body, timeout=PATIENCE))

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: service.waiting() >= CHUNKS)  # more than can wait of the document

    service.terminate()
    service.go_on()

    answer = answers.get(timeout=PATIENCE)
    asking.join()
    assert (answer.status_code, len(answer.content) > 0) == (200, True)
    service.ended()
    assert 1 <= service.kept(document) == sum(service.spoken().values()) < CHUNKS
    assert_goes_on(start(), document)


def test_a_service_without_work_ends_at_once(start: Start) -> None:
    service = start(drain=LONG, stop=LONG)
    eventually(lambda: service.client.get("/readyz").status_code == 200)
    service.process.send_signal(signal.SIGTERM)
    assert logged(service.ended(), "all chunks in progress finished")


def test_a_service_that_gives_notice_is_not_ready_and_still_accepts_all(start: Start) -> None:
    service = start(stop=PATIENCE, notice=20.0)
    eventually(lambda: service.client.get("/readyz").status_code == 200)

    service.terminate()

    assert "still accepts requests" in service.client.get("/readyz").json()["error"]["message"]
    assert service.client.get("/healthz").status_code == 200
    speech = {"model": "tts-1", "voice": "alloy", "input": "Yes.", "response_format": "pcm"}
    assert service.client.post("/v1/audio/speech", json=speech).status_code == 200
    document = service.send()
    lines = service.ended()
    assert logged(lines, "not ready any more")
    assert_goes_on(start(), document)


def test_a_document_with_a_key_is_accepted_until_the_end_and_spoken_at_the_next_start(start: Start) -> None:
    service = start(held=True)
    service.send()
    eventually(service.is_speaking)
    service.terminate()

    body, headers = {"text": "Later.", "seed": SEED + 1}, {"Idempotency-Key": "one"}
    answers = [service.client.post("/v1/documents", json=body, headers=headers) for _ in range(2)]

    assert [each.status_code for each in answers] == [202, 200]
    (id,) = {each.json()["id"] for each in answers}
    service.go_on()
    service.ended()
    again = start()
    eventually(lambda: again.document(id)["state"] == "completed")


def test_streams_of_unfinished_documents_end_once_no_chunk_is_in_progress(start: Start) -> None:
    service = start(chunk=3.0, stop=LONG)
    document = service.send()
    eventually(service.is_speaking)
    with (
        service.client.stream("GET", f"/v1/documents/{document}/events") as events,
        service.client.stream("GET", f"/v1/documents/{document}/audio") as audio,
    ):
        service.terminate()
        assert "event: end" not in "".join(events.iter_text())
        with pytest.raises(httpx.RemoteProtocolError):
            audio.read()
    service.ended()
    assert_goes_on(start(), document)
