"""Clients of a soak: documents of every format, audio, redos, streams, WebSockets, voices; each checks its answers.

What a client has heard once, it has to hear again, byte by byte, whatever is disturbed meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from soak_files import files
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

TRY_AGAIN = (429, 502, 503, 504, 507)
PATIENCE = 300.0  # seconds in which a document, a redo or an answer has to come, disturbed as it may be
WITHIN = 30.0  # of one request
SENTENCE = "A bell rang far out, twice, and the harbour lay still until the morning came."


class LostError(Exception):
    """Something was lost, doubled or wrong."""


@dataclass
class Clients:
    """What they send, have heard, and count."""

    entrances: Sequence[str]
    stop: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    again: Counter[int] = field(default_factory=Counter)  # answers that said: later; 0 is none at all
    failures: list[str] = field(default_factory=list)
    heard: dict[str, str] = field(default_factory=dict)  # digests
    pause: float = 0.5  # seconds between two turns of a client
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """One thread for each kind of work, until the block ends."""
        works: list[Callable[[Client], None]] = [_document, _upload, _upload, _stream, _socket, _voice, _look]
        threads = [
            threading.Thread(target=self._work, args=(work, number), daemon=True) for number, work in enumerate(works)
        ]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self.stop.set()
            for each in threads:
                each.join(2 * PATIENCE)

    def hear(self, what: str, content: bytes) -> None:
        """Raises LostError where it sounds otherwise than the first time."""
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            if self.heard.setdefault(what, digest) != digest:
                raise LostError(f"{what}: {len(content)} bytes, others than the first time")

    def _work(self, work: Callable[[Client], None], number: int) -> None:
        client = Client(self, random.Random(number), number)
        while not self.stop.is_set():
            try:
                work(client)
                self.done[work.__name__[1:]] += 1
            except Exception as error:  # noqa: BLE001 — each is told in the report, and the soak has failed
                self.failures.append(
                    f"{time.strftime('%H:%M:%S')} {work.__name__[1:]}: {type(error).__name__}: {error}"[:500]
                )
            self.stop.wait(self.pause)


@dataclass
class Client:
    """One of them."""

    of: Clients
    dice: random.Random
    number: int
    turns: int = 0

    def ask(self, method: str, path: str, **more: object) -> httpx.Response:
        """The answer of whichever service answers, asked again until one does."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer = httpx.request(method, self.of_any() + path, timeout=WITHIN, **more)  # type: ignore[arg-type]
            except httpx.TransportError as error:
                told, wait = 0, 0.3
                last = str(error)
            else:
                if answer.status_code not in TRY_AGAIN:
                    return answer
                told, wait, last = answer.status_code, float(answer.headers.get("Retry-After", 1)), answer.text
            self.of.again[told] += 1
            if time.monotonic() > deadline:
                raise LostError(f"{method} {path} is answered nowhere: {told} {last[:200]}")
            time.sleep(min(wait, 3.0))

    def of_any(self) -> str:
        return self.dice.choice(self.of.entrances)

    def expect(self, method: str, path: str, *statuses: int, **more: object) -> httpx.Response:
        """An answer of one of these statuses. Raises LostError."""
        answer = self.ask(method, path, **more)
        if answer.status_code not in statuses:
            raise LostError(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text[:300]}")
        return answer

    def key(self) -> str:
        self.turns += 1
        return f"{self.number}-{self.turns}"

    def until(self, id: str, condition: Callable[[dict[str, object]], bool], what: str) -> dict[str, object]:
        """The document, once it is so. Raises LostError."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = dict(self.expect("GET", f"/v1/documents/{id}", 200).json())
            if condition(found):
                return found
            if found["state"] == "failed" or time.monotonic() > deadline:
                raise LostError(f"document {id} is not {what}: {found}")
            time.sleep(0.3)

    def whole(self, id: str, what: str) -> None:
        """Waits for a document's end, hears it in some formats, has a chunk spoken again, and deletes it."""
        self.until(id, lambda found: found["state"] == "completed", "completed")
        self.of.hear(what, self.expect("GET", f"/v1/documents/{id}/audio", 200).content)
        form = self.dice.choice(["mp3", "opus", "m4b", "flac"])
        self.expect("GET", f"/v1/documents/{id}/audio?format={form}", 200)
        self.expect("GET", f"/v1/documents/{id}/subtitles?format=vtt&estimated=true", 200)
        before = self.until(id, lambda _: True, "there")
        if self.dice.random() < 0.5:  # with its own seed: the same sound
            again = self.expect(
                "POST", f"/v1/documents/{id}/chunks/0/redo", 200, 202, 409, json={"seed": before["seed"]}
            )
            if again.status_code != 409:
                self.until(id, lambda found: found["revision"] != before["revision"], "spoken again")
                self.of.hear(what, self.expect("GET", f"/v1/documents/{id}/audio", 200).content)
                self.of.done["redo"] += 1
        self.expect("DELETE", f"/v1/documents/{id}", 200, 204, 404)  # 404: deleted, but the answer was cut


def sentences(kind: int) -> list[str]:
    """Texts of a kind of document."""
    return [f"This is sentence number {place} of a story of kind {kind}. {SENTENCE}" for place in range(2 + kind)]


def _document(client: Client) -> None:
    kind = client.dice.randrange(3)
    body = {"text": " ".join(sentences(kind)), "seed": kind}
    headers, path = {"Idempotency-Key": client.key()}, "/v1/documents"
    id = str(client.expect("POST", path, 200, 202, json=body, headers=headers).json()["id"])
    same = client.expect("POST", path, 200, 202, json=body, headers=headers).json()["id"]
    if same != id:
        raise LostError(f"one key has the documents {id} and {same}")
    client.whole(id, f"text {kind}")


def _upload(client: Client) -> None:
    kind = client.dice.randrange(3)
    made = files(f"Story {kind}", sentences(kind))
    name = client.dice.choice(sorted(made))
    id = client.expect(
        "POST", "/v1/documents", 200, 202, files={"file": (name, made[name])}, data={"seed": str(kind)},
        headers={"Idempotency-Key": client.key()},
    ).json()["id"]  # fmt: skip
    client.whole(str(id), f"{name} {kind}")


def _stream(client: Client) -> None:
    """A speech request; one that a disturbance cuts is asked again."""
    kind = client.dice.randrange(4)
    body = {"model": "tts-1", "voice": "alloy", "input": f"{SENTENCE} It was {kind} o'clock.", "response_format": "pcm"}
    client.of.hear(f"speech {kind}", client.expect("POST", "/v1/audio/speech", 200, json=body).content)


def _socket(client: Client) -> None:
    """A WebSocket's utterance; one that a disturbance cuts is begun again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            audio = _utterance(client.of_any().replace("http", "ws") + "/v1/audio/speech/stream")
        except (OSError, WebSocketException, TimeoutError) as error:
            audio, last = None, f"{type(error).__name__}: {error}"
        else:
            last = "an error message"
        if audio is not None:
            client.of.hear("utterance", audio)
            return
        client.of.again[0] += 1
        if time.monotonic() > deadline:
            raise LostError(f"no WebSocket's utterance is spoken: {last}")
        time.sleep(1.0)


def _utterance(url: str) -> bytes | None:
    """Audio of one; None after an error's message."""
    audio = b""
    with connect(url, open_timeout=WITHIN, close_timeout=5) as socket:
        for message in (
            {"type": "session.config", "voice": "alloy"}, {"type": "input.text", "text": SENTENCE},
            {"type": "input.done"},
        ):  # fmt: skip
            socket.send(json.dumps(message))
        while True:
            found = socket.recv(timeout=WITHIN)
            if isinstance(found, bytes):
                audio += found
            elif (kind := json.loads(found)["type"]) in ("error", "session.done"):
                return audio if kind == "session.done" and audio else None


def _voice(client: Client) -> None:
    """A voice that is uploaded, spoken with, and deleted."""
    name = f"voice-{client.key()}"
    fields = {"files": {"file": ("one.npz", b"tone one")}, "data": {"name": name, "language": "en"}}
    client.expect("POST", "/v1/audio/voices", 200, 201, 409, **fields)  # 409: there, but the answer was cut
    body = {"model": "tts-1", "voice": name, "input": SENTENCE, "response_format": "wav"}
    client.expect("POST", "/v1/audio/speech", 200, json=body)
    client.expect("DELETE", f"/v1/audio/voices/{name}", 200, 204, 404)


def _look(client: Client) -> None:
    """What a page and a scrape ask."""
    for path in ("/metrics", "/v1/documents", "/v1/workers", "/v1/usage", "/v1/audio/voices"):
        client.expect("GET", path, 200)
