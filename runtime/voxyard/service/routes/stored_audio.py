"""Responses with a stored audio file or a range of it, from the disk or a bucket."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import formatdate

from anyio import CapacityLimiter
from fastapi import Request, status
from starlette.responses import Response, StreamingResponse

from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.records import Document
from voxyard.service.http.errors import envelope
from voxyard.service.streaming.shared_encoding import blocks_of

_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")


def stored_response(
    request: Request,
    audio_store: AudioStore,
    document: Document,
    name: str,
    media_type: str,
    headers: Mapping[str, str],
    reading: CapacityLimiter,
) -> Response | None:
    """A file of a document, or the requested range of it; to HEAD the headers alone; None where there is no such file.

    A Range header that is not a single range, or whose If-Range names another file, is ignored. The file is read in
    the threads of `reading`, one block at a time, by turns with those of other responses. Blocks.
    """
    size = audio_store.size(document.id, name)
    if size is None:
        return None
    # A strong validator: two files of one are the same bytes, whichever service made them.
    etag = f'"{document.id[:16]}-{document.revision}-{name}-{size}"'
    headers = {**headers, "Cache-Control": "private, no-cache", "ETag": etag}
    if etag in _tags(request.headers.get("if-none-match")):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    path = audio_store.path(document.id, name)
    validators = [None, etag]
    if path is not None and path.exists():
        headers["Last-Modified"] = formatdate(path.stat().st_mtime, usegmt=True)
        validators.append(headers["Last-Modified"])
    found = _range(request.headers.get("range")) if request.headers.get("if-range") in validators else None
    start, end = 0, size
    if found is not None:
        if (found[1] and int(found[1]) >= size) or (not found[1] and not int(found[2])):
            return _range_not_satisfiable(found[0], size)
        start = int(found[1]) if found[1] else max(0, size - int(found[2]))
        end = min(size, int(found[2]) + 1) if found[1] and found[2] else size
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers |= {"Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    code = status.HTTP_200_OK if found is None else status.HTTP_206_PARTIAL_CONTENT
    if request.method == "HEAD":
        return Response(status_code=code, media_type=media_type, headers=headers)
    blocks = blocks_of(audio_store.stream(document.id, name, start, end), reading)
    return StreamingResponse(blocks, status_code=code, media_type=media_type, headers=headers)


def _range(asked: str | None) -> re.Match[str] | None:
    """A header that asks for one range of bytes; None for any other."""
    found = None if asked is None else _RANGE.fullmatch(asked.strip())
    if found is None or found[0] == "bytes=-" or (found[1] and found[2] and int(found[2]) < int(found[1])):
        return None
    return found


def _tags(header: str | None) -> tuple[str, ...]:
    return () if header is None else tuple(tag.strip().removeprefix("W/") for tag in header.split(","))


def _range_not_satisfiable(asked: str, size: int) -> Response:
    """Response to a range that starts after the end of the file."""
    return envelope(
        status.HTTP_416_RANGE_NOT_SATISFIABLE,
        f"range {asked[:100]} not satisfiable: the audio has {size} bytes",
        "invalid_request_error",
        "range_not_satisfiable",
        headers={"Content-Range": f"bytes */{size}"},
    )
