"""A server of OpenAI's speech API for tests: what it answers is planned, and what it was asked is kept."""

from __future__ import annotations

import io
import json
import threading
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Planned:
    """One answer; `broken` closes the connection in the middle of it."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    broken: bool = False
    wait: Callable[[], object] = lambda: None  # before it answers


@dataclass
class SpeechServerPlan:
    """What a server lists, and how it answers speech requests: by `speak`, the body to an answer."""

    speak: Callable[[dict[str, Any]], Planned]
    models: Planned = field(default_factory=lambda: Planned(body=b'{"object": "list", "data": [{"id": "kokoro"}]}'))
    voices: Planned = field(default_factory=lambda: Planned(404, b'{"detail": "Not Found"}'))
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    port: int = 0


def tone(seconds: float, rate: int, *, channels: int = 1, hertz: float = 440.0) -> bytes:
    """A WAV file of a sine."""
    samples = (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate) * 2**15).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(samples, channels).tobytes())
    return out.getvalue()


@contextmanager
def speech_server(plan: SpeechServerPlan) -> Iterator[str]:
    """The base URL of a server that answers by the plan, on the plan's port where it has one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            plan.keys.append(self.headers.get("Authorization"))
            self._send({"/v1/models": plan.models, "/v1/audio/voices": plan.voices}.get(self.path, Planned(404)))

        def do_POST(self) -> None:
            plan.keys.append(self.headers.get("Authorization"))
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            plan.asked.append(body)
            self._send(plan.speak(body))

        def _send(self, planned: Planned) -> None:
            planned.wait()
            self.send_response(planned.status)
            for name, value in planned.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(planned.body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(planned.body[: len(planned.body) // 2] if planned.broken else planned.body)
            self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", plan.port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
