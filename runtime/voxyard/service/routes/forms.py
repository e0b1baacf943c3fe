"""Forms with one file, in the spellings of browsers and other clients: the file's name, or none; whole, or refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from urllib.parse import unquote

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from voxyard.service.errors import ServiceError

FILE = "file"
"""Name of the part that is a file: where it has a media type, also without a file name, which RFC 7578 lets lack."""
_EXTENDED = re.compile(rb""";\s*filename\*\s*=\s*"?(utf-8|iso-8859-1)'[^';]*'([^;"\s]*)""", re.IGNORECASE)
_WORDS = re.compile(r"(=\?[\w.+-]+\?[bq]\?[^?]*\?=\s*)+", re.IGNORECASE)
_UNREADABLE = "Invalid multipart data."  # what Starlette says of every other structure


@asynccontextmanager
async def read_form(request: Request, *, max_fields: int, max_part_size: int = 1 << 20) -> AsyncIterator[FormData]:
    """A form with at most one file. Raises ServiceError where it is none, or not whole."""
    try:
        async with aclosing(request.stream()) as stream:
            parser = _Parser(request.headers, stream, max_files=1, max_fields=max_fields, max_part_size=max_part_size)
            form = await parser.parse()
    except MultiPartException as error:
        raise ServiceError(
            "the form cannot be read: expected parts after the boundary of its Content-Type, and CR LF between lines"
            if error.message == _UNREADABLE
            else error.message
        ) from error
    try:
        yield form
    finally:
        await form.close()


class _Parser(MultiPartParser):
    """Starlette's parser, which reads `filename` alone, takes a coded part as it is and leaves out one that is cut."""

    _cut = False

    def on_headers_finished(self) -> None:
        """Opens a part: as a file where it has a file name in any spelling, or is the file without one."""
        part = self._current_part
        headers = dict(part.item_headers)
        coding = headers.get(b"content-transfer-encoding", b"").strip().lower()
        if coding in (b"base64", b"quoted-printable"):
            raise MultiPartException(f"a part is encoded ({coding.decode()}): send it as it is")
        given = bytes(part.content_disposition or b"")
        options, extended = parse_options_header(given)[1], _EXTENDED.search(given)
        nameless = options.get(b"name") == FILE.encode() and b"content-type" in headers
        if b"filename" not in options and (extended or nameless):
            part.content_disposition = given + b'; filename=""'
        self._cut = True
        super().on_headers_finished()
        if part.file is not None:
            part.file.filename = _extended(extended) if extended else _decoded(part.file.filename or "")

    def on_part_end(self) -> None:
        """Ends a part."""
        self._cut = False
        super().on_part_end()

    async def parse(self) -> FormData:
        """The form, none of whose parts is cut."""
        form = await super().parse()
        if self._cut:
            await form.close()
            raise MultiPartException("the form ends within a part: expected its boundary there, and -- after the last")
        return form


def chosen(form: FormData) -> UploadFile | None:
    """The form's file; None without one, and for the empty part without a name that stands for no choice."""
    found = form.get(FILE)
    return found if isinstance(found, UploadFile) and (found.filename or found.size) else None


def _extended(found: re.Match[bytes]) -> str:
    """A file name as `filename*` has it (RFC 5987): .NET, PowerShell and urllib3 send one."""
    return unquote(found[2].decode("latin-1"), found[1].decode(), "replace")


def _decoded(name: str) -> str:
    """A file name without the spelling of mail headers (RFC 2047: PowerShell) and of browsers' quotation marks."""
    if _WORDS.fullmatch(name):
        try:
            return str(make_header(decode_header(name)))
        except (HeaderParseError, LookupError, ValueError):
            return name
    return name.replace("%22", '"')
