"""A hub of models on this machine: the little of its HTTP interface that huggingface_hub asks for, with faults."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 50_000  # bytes from which a file lies in large-file storage, behind a redirect
_BLOCK = 3 * 2**19  # 1.5 MiB


@dataclass
class ModelHub:
    """One model under a name. What is put into `cuts` and `answers` happens once each, in order."""

    name: str
    files: dict[str, bytes]
    endpoint: str = ""
    cuts: dict[str, list[int]] = field(default_factory=dict)  # bytes of an answer before the connection breaks
    answers: dict[str, list[int]] = field(default_factory=dict)  # statuses instead of the content
    flipped: set[str] = field(default_factory=set)  # one byte differs from what was promised
    ranges: bool = True  # whether it answers a part where one is asked for
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # file or address, and its Range
    during: Callable[[str], None] = lambda _: None  # called after the first block of an answer

    def listing(self) -> dict[str, Any]:
        """Listing of the model at the hub."""
        return {
            "id": self.name,
            "modelId": self.name,
            "sha": COMMIT,
            "siblings": [self._sibling(name, content) for name, content in self.files.items()],
        }

    def ranges_of(self, name: str) -> list[str | None]:
        """The ranges that were asked of a file."""
        return [asked for file, asked in self.asked if file == name]

    @staticmethod
    def _sibling(name: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
        said: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
        if len(content) >= LARGE:
            digest = hashlib.sha256(content).hexdigest()
            said |= {"blobId": "ab" * 20, "lfs": {"sha256": digest, "size": len(content), "pointerSize": 135}}
        return said


def files_of(directory: Path) -> dict[str, bytes]:
    """A model's files, and two that are none of it."""
    files = {path.name: _content_of(path) for path in sorted(directory.iterdir()) if path.is_file()}
    return {**files, "README.md": b"# A model", "speaker_embeddings/voice.npy": b"\x93NUMPY"}


@functools.cache  # a hub lives until the garbage collector comes: many of them share these bytes
def _content_of(path: Path) -> bytes:
    return path.read_bytes()


@contextmanager
def serving(hub: ModelHub) -> Iterator[ModelHub]:
    """The hub at an address of this machine."""

    class Handler(_Handler):
        model = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    model: ModelHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a listing, a file, or what a redirect leads to."""
        path = unquote(urlsplit(self.path).path)
        hub = self.model
        if path.startswith("/api/models/"):
            self._list(path.removeprefix("/api/models/"))
        elif path.startswith("/storage/"):
            self._content(path.removeprefix("/storage/"))
        elif (found := re.fullmatch(rf"/{re.escape(hub.name)}/resolve/{COMMIT}/(.+)", path)) and found[1] in hub.files:
            if len(hub.files[found[1]]) >= LARGE:
                self._say(302, b"", {"Location": f"{hub.endpoint}/storage/{found[1]}"})
            else:
                self._content(found[1])
        else:
            self._say(404, b"", {"X-Error-Code": "EntryNotFound"})

    def _list(self, asked: str) -> None:
        hub = self.model
        hub.asked.append((asked, None))
        name, _, revision = asked.partition("/revision/")
        if status := next(iter(hub.answers.get("listing", ())), None):
            hub.answers["listing"].pop(0)
            self._say(status, b"")
        elif name != hub.name:
            self._say(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif revision not in ("", "main", COMMIT):
            self._say(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            self._say(200, json.dumps(hub.listing()).encode(), {"Content-Type": "application/json"})

    def _content(self, name: str) -> None:
        hub = self.model
        wanted = self.headers.get("Range")
        hub.asked.append((name, wanted))
        if hub.answers.get(name):
            self._say(hub.answers[name].pop(0), b"")
            return
        content = bytearray(hub.files[name])
        if name in hub.flipped:
            content[len(content) // 2] ^= 1
        start, headers, status = 0, {}, 200
        if wanted and hub.ranges:
            start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        cut = hub.cuts[name].pop(0) if hub.cuts.get(name) else None
        self._say(status, bytes(content[start:]), headers, name=name, cut=cut)

    def _say(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, name: str = "", cut: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = body if cut is None else body[:cut]
        try:
            for at in range(0, len(sent), _BLOCK):
                self.wfile.write(sent[at : at + _BLOCK])
                if at == 0 and name:
                    self.model.during(name)
        except ConnectionError:
            self.close_connection = True  # the reader has gone
        if cut is not None:
            self.close_connection = True
