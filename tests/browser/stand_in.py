"""A service without a model: it follows the HTTP contract, and its documents grow with the clock."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
import wave
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from simulated_documents import Growing, encoded
from starlette.datastructures import UploadFile

COOKIE = "voxyard_session"
POLICY = "default-src 'self'; media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'"
VOICES: tuple[dict[str, Any], ...] = (
    {"id": "alloy", "name": "alloy", "language": "en", "alias_of": "v2/en_speaker_6"},
    *(
        {"id": f"v2/{language}_speaker_{number}", "name": f"v2/{language}_speaker_{number}", "language": language}
        for language in ("de", "en", "fr", "zh")
        for number in range(5)
    ),
)


class RefusedError(Exception):
    """An answer in the error envelope."""

    def __init__(self, status: int, message: str, code: str = "invalid_request", param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param


class StandIn:
    """The documents of a service, its sessions, and the routes of the contract."""

    def __init__(self, page: Path, audio: Path, key: str | None, pace: float) -> None:
        self._page, self._audio, self._key, self._pace = page, audio, key, pace
        self._documents: dict[str, Growing] = {}
        self._repeated: dict[str, str] = {}
        self._sessions: set[str] = set()

    async def guard(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response: Response
        try:
            _check_access(request, self._key, self._sessions)
            response = await call_next(request)
        except RefusedError as refusal:
            response = await refused(request, refusal)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    async def index(self) -> FileResponse:
        return FileResponse(self._page / "index.html")

    async def sign_in(self, request: Request) -> Response:
        given = str((await request.json()).get("key"))
        if self._key is None or not secrets.compare_digest(given, self._key):
            raise RefusedError(401, "This API key is not known.", "invalid_api_key")
        token = secrets.token_hex(16)
        self._sessions.add(token)
        response = Response(status_code=204)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response

    async def sign_out(self, request: Request) -> Response:
        self._sessions.discard(request.cookies.get(COOKIE, ""))
        return Response(status_code=204)

    async def models(self) -> dict[str, Any]:
        notes = ["No model is loaded: every voice is a tone."]
        return {"object": "list", "data": [{"id": "tones", "object": "model", "created": 0, "notes": notes}]}

    async def voices(self) -> dict[str, Any]:
        return {"voices": VOICES}

    async def accept(self, request: Request) -> JSONResponse:
        again = self._repeated.get(request.headers.get("idempotency-key", ""), "")
        if again in self._documents:
            return JSONResponse(self._documents[again].described())
        json_body = request.headers["content-type"].startswith("application/json")
        body = await request.json() if json_body else await _uploaded(request)
        if body.get("voice") not in (None, *(known["id"] for known in VOICES)):
            raise RefusedError(404, f"There is no voice {body['voice']!r}.", "not_found", "voice")
        document = Growing(secrets.token_hex(16), body, time.time(), self._pace)
        self._documents[document.id] = document
        self._repeated[request.headers.get("idempotency-key", document.id)] = document.id
        return JSONResponse(document.described(), 202, {"Location": f"/v1/documents/{document.id}"})

    def found(self, name: str) -> Growing:
        if name not in self._documents:
            raise RefusedError(404, f"There is no document {name}.", "not_found")
        return self._documents[name]

    async def listed(self, limit: int = 50, before: str | None = None) -> dict[str, Any]:
        newest = sorted(self._documents.values(), key=lambda document: -document.created)
        start = 0 if before is None else [document.id for document in newest].index(before) + 1
        rows = [document.described() for document in newest[start : start + limit]]
        return {"documents": rows} | ({"next": rows[-1]["id"]} if start + limit < len(newest) else {})

    async def one(self, name: str, chunks: bool = False) -> dict[str, Any]:
        document = self.found(name)
        return document.described() | ({"chunks": document.chunk_rows()} if chunks else {})

    async def events(self, name: str) -> StreamingResponse:
        return StreamingResponse(_events(self.found(name), self._documents), media_type="text/event-stream")

    async def sound(self, name: str, request: Request, download: bool = False) -> Response:
        document, kind = self.found(name), request.query_params.get("format", "wav")
        if document.state == "failed":
            raise RefusedError(409, f"The document failed: {document.reason}", "conflict")
        if kind == "wav" and document.state == "completed":
            path = _wav(document, self._audio)
            return FileResponse(path, media_type="audio/wav", filename=f"{document.title}.wav" if download else None)
        headers = {"Content-Disposition": f'attachment; filename="{document.id}.{kind}"'} if download else {}
        stream = encoded(_growing_audio(document, self._documents), kind)
        return StreamingResponse(stream, media_type=f"audio/{kind.replace('mp3', 'mpeg')}", headers=headers)

    async def retry(self, name: str) -> dict[str, Any]:
        self.found(name).retry()
        return self.found(name).described()

    async def delete(self, name: str) -> Response:
        self.found(name)
        del self._documents[name]
        return Response(status_code=204)


def create(page: Path, audio: Path, *, key: str | None = None, pace: float = 0.25) -> FastAPI:
    """The app: `page` is served, `audio` holds WAV files, a chunk takes `pace` seconds."""
    app, stand_in = FastAPI(), StandIn(page, audio, key, pace)
    app.middleware("http")(stand_in.guard)
    app.exception_handler(RefusedError)(refused)
    app.mount("/page", StaticFiles(directory=page))
    for method, path, endpoint in (
        ("GET", "/", stand_in.index),
        ("POST", "/session", stand_in.sign_in),
        ("DELETE", "/session", stand_in.sign_out),
        ("GET", "/v1/models", stand_in.models),
        ("GET", "/v1/audio/voices", stand_in.voices),
        ("POST", "/v1/documents", stand_in.accept),
        ("GET", "/v1/documents", stand_in.listed),
        ("GET", "/v1/documents/{name}", stand_in.one),
        ("DELETE", "/v1/documents/{name}", stand_in.delete),
        ("GET", "/v1/documents/{name}/events", stand_in.events),
        ("GET", "/v1/documents/{name}/audio", stand_in.sound),
        ("POST", "/v1/documents/{name}/retry", stand_in.retry),
    ):
        app.add_api_route(path, endpoint, methods=[method], response_model=None)
    return app


async def refused(request: Request, refusal: RefusedError) -> JSONResponse:
    """The answer that says why not."""
    error = {"message": refusal.message, "type": "error", "param": refusal.param, "code": refusal.code}
    return JSONResponse({"error": error}, refusal.status)


def _check_access(request: Request, key: str | None, sessions: set[str]) -> None:
    if key is None or not request.url.path.startswith("/v1/"):
        return
    if request.headers.get("authorization") == f"Bearer {key}":
        return
    if request.cookies.get(COOKIE) not in sessions:
        raise RefusedError(401, "An API key is needed.", "invalid_api_key")
    if request.method not in ("GET", "HEAD") and request.headers.get("x-voxyard-page") != "1":
        raise RefusedError(403, "The header X-Voxyard-Page is missing.", "forbidden")


async def _uploaded(request: Request) -> dict[str, Any]:
    form = await request.form()
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise RefusedError(400, "There is no file in this request.", param="file")
    content, name = await file.read(), file.filename or "document.txt"
    if not name.endswith(".txt") or b"\0" in content:
        raise RefusedError(415, f"{name} is no text, PDF or DOCX.", "unsupported_document", "file")
    options = {field: value for field, value in form.items() if field != "file"}
    return {**options, "text": content.decode(), "stem": name.removesuffix(".txt")}


async def _events(document: Growing, documents: dict[str, Growing]) -> AsyncIterator[str]:
    told: set[tuple[int, str]] = set()
    last, number = "", 0
    while document.id in documents:
        described = document.described()
        fingerprint = hashlib.sha256(json.dumps([described["state"], described["progress"]["done"]]).encode())
        rows = [row for row in document.chunk_rows() if row["state"] != "waiting"]
        for row in rows:
            if (row["index"], row["state"]) not in told:
                told.add((row["index"], row["state"]))
                number += 1
                fields = {name: row[name] for name in ("index", "state", "start_seconds", "end_seconds")}
                yield f"id: {number}\nevent: chunk\ndata: {json.dumps(fields)}\n\n"
        if fingerprint.hexdigest() != last:
            last, number = fingerprint.hexdigest(), number + 1
            yield f"id: {number}\nevent: progress\ndata: {json.dumps(described)}\n\n"
        if described["state"] in ("completed", "failed"):
            yield f"id: {number + 1}\nevent: end\ndata: {{}}\n\n"
            return
        await asyncio.sleep(0.03)


def _growing_audio(document: Growing, documents: dict[str, Growing]) -> Iterator[bytes]:
    """Samples (s16le, 24 kHz) in text order, each part as soon as it is there; ends early where the document does."""
    for index in range(len(document.parts)):
        while not document.spoken(index):
            if document.id not in documents or document.state == "failed":
                raise ConnectionAbortedError(f"document {document.id} ended while it was streamed")
            time.sleep(0.02)
        yield document.audio(index)


def _wav(document: Growing, directory: Path) -> Path:
    path = directory / f"{document.id}.wav"
    if not path.exists():
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(24_000)
            file.writeframes(b"".join(document.audio(index) for index in range(len(document.parts))))
    return path
