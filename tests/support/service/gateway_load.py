"""Clients of a gateway: they submit documents, follow and download them, and stream speech, and count what fails."""

from __future__ import annotations

import itertools
import ssl
import threading
import time
import uuid
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import httpx

PATIENCE = 240.0  # seconds for one request: a host may restart meanwhile
SENTENCE = "This is sentence number {} of a document that is spoken through a gateway."
SENTENCES = 4


@dataclass
class Load:
    """Record of the clients: documents by id with their keys, requests, and failures as sentences."""

    url: str
    key: str
    trust: ssl.SSLContext
    documents: dict[str, str | None] = field(default_factory=dict)  # id → idempotency key
    fetched: dict[str, bytes] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def client(self) -> httpx.Client:
        """A client with a key, which trusts the gateway's authority alone."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, verify=self.trust, timeout=PATIENCE)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Clients at work; at the end of the block they take up nothing new, and finish what they have begun."""
        work = [self._write_with_keys, self._write_with_keys, self._write, self._speak, self._speak]
        threads = [threading.Thread(target=self._repeat, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(PATIENCE * 2)

    def _repeat(self, work: Callable[[httpx.Client], None]) -> None:
        with self.client() as client:
            while not self._stop.is_set():
                try:
                    work(client)
                except (httpx.HTTPError, AssertionError, KeyError, ValueError) as error:
                    with self._lock:
                        self.failures.append(f"{work.__name__}: {type(error).__name__}: {error}")
                time.sleep(0.05)

    def _count(self, what: str) -> None:
        with self._lock:
            self.requests[what] = self.requests.get(what, 0) + 1

    def _write_with_keys(self, client: httpx.Client) -> None:
        """A document with a key, sent twice: both are answered with the same one."""
        key = uuid.uuid4().hex
        first, second = (self._submit(client, {"Idempotency-Key": key}) for _ in range(2))
        with self._lock:
            self.documents[first] = key
            self.documents.setdefault(second, key)
        assert first == second, f"the key {key} has two documents: {first}, {second}"
        self._follow(client, first)

    def _write(self, client: httpx.Client) -> None:
        id = self._submit(client, {})
        with self._lock:
            self.documents[id] = None
        self._follow(client, id)

    def _submit(self, client: httpx.Client, headers: dict[str, str]) -> str:
        text = " ".join(SENTENCE.format(number) for number in range(SENTENCES))
        answer = client.post("/v1/documents", json={"text": text}, headers=headers)
        self._count("submit")
        assert answer.status_code in (200, 202), f"{answer.status_code} {answer.text}"
        return str(answer.json()["id"])

    def _follow(self, client: httpx.Client, id: str) -> None:
        """Events up to the last one, connecting again where a stream ends before; then the audio."""
        seen = "0"
        for _ in itertools.count():
            with client.stream("GET", f"/v1/documents/{id}/events", headers={"Last-Event-ID": seen}) as answer:
                self._count("events")
                assert answer.status_code == 200, f"events of {id}: {answer.status_code} {answer.read().decode()}"
                for line in answer.iter_lines():
                    seen = line.removeprefix("id: ") if line.startswith("id: ") else seen
                    if line == "event: end":
                        self.fetch(client, id)
                        return
            time.sleep(0.5)

    def fetch(self, client: httpx.Client, id: str) -> None:
        """The audio of a completed document."""
        answer = client.get(f"/v1/documents/{id}/audio")
        self._count("audio")
        assert answer.status_code == 200, f"audio of {id}: {answer.status_code} {answer.text}"
        with wave.open(BytesIO(answer.content)) as sound:
            assert sound.getnframes() > 0
        with self._lock:
            self.fetched[id] = answer.content

    def _speak(self, client: httpx.Client) -> None:
        body = {"model": "tts-1", "voice": "alloy", "input": SENTENCE.format(0), "response_format": "pcm"}
        with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            self._count("speech")
            assert answer.status_code == 200, f"speech: {answer.status_code} {answer.read().decode()}"
            assert sum(map(len, answer.iter_bytes())) > 0

    def state(self, client: httpx.Client, id: str) -> Any:
        """Progress of a document."""
        answer = client.get(f"/v1/documents/{id}")
        assert answer.status_code == 200, f"{id}: {answer.status_code} {answer.text}"
        return answer.json()
