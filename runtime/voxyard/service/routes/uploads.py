"""Bodies of `POST /v1/documents`: JSON, or a form with a file, in the spellings of browsers and other clients."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Any, TypeVar
from urllib.parse import unquote

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from voxyard.extraction.document import TextChapter
from voxyard.extraction.errors import ExtractionError
from voxyard.extraction.extract import extract, kind_of, title_of_name
from voxyard.extraction.plaintext import clean
from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import Upload
from voxyard.service.documents.submission import LONGEST_TITLE, DocumentRequest, service_error
from voxyard.service.errors import ServiceError, TooLargeError, UnsupportedDocumentError
from voxyard.service.routes.inputs import DocumentBody, UploadBody

MIB = 1 << 20
_FIELDS = 16  # of a form
FILE = "file"
"""Name of the part that is a file: where it has a media type, also without a file name, which RFC 7578 lets lack."""
_EXTENDED = re.compile(rb""";\s*filename\*\s*=\s*"?(utf-8|iso-8859-1)'[^';]*'([^;"\s]*)""", re.IGNORECASE)
_WORDS = re.compile(r"(=\?[\w.+-]+\?[bq]\?[^?]*\?=\s*)+", re.IGNORECASE)
_UNREADABLE = "Invalid multipart data."  # what Starlette says of every other structure
Read = TypeVar("Read")


ReadRequest = Callable[[], DocumentRequest]
"""Reads a body that has come whole: it validates, and takes as long as the body is large."""


async def read_document_request(request: Request, section: ServiceSection, idempotency_key: str | None) -> ReadRequest:
    """Reads the body; what is given back makes of it, in a thread, a document request with its text, or with a file
    whose text is extracted later.

    Raises:
        ServiceError: the body is too large or of another type; what is given back: the file is not supported.
        RequestValidationError: what is given back: a field is invalid.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        content = await request.body()
        return lambda: _from_json(valid(lambda: DocumentBody.model_validate_json(content)), idempotency_key)
    if kind == "multipart/form-data":
        return await _from_form(request, section, idempotency_key)
    raise UnsupportedDocumentError(
        f"unsupported Content-Type {kind or '(none)'}: expected application/json with a text, or multipart/form-data "
        "with a file"
    )


def _from_json(body: DocumentBody, idempotency_key: str | None) -> DocumentRequest:
    if (body.text is None) == (body.chapters is None):
        found = "neither text nor chapters are" if body.text is None else "both text and chapters are"
        raise ServiceError(f"{found} given: expected one of them", parameter="text")
    if body.chapters is None:
        return _of_text(body, body.text or "", idempotency_key)
    if body.input_format != "text":
        raise ServiceError(
            "chapters are plain text: send a Markdown text as text, whose headings begin its chapters",
            parameter="input_format",
        )
    parts, headings, length = list[str](), list[TextChapter](), 0
    for chapter in body.chapters:
        title = " ".join(clean(chapter.title).split())
        headings.append(TextChapter(title, length))
        parts.append(f"{title}\n\n{clean(chapter.text).strip()}\n\n")
        length += len(parts[-1])
    made = _document_request(body, "".join(parts), body.title, idempotency_key)
    return replace(made, headings=tuple(headings))


async def _from_form(request: Request, section: ServiceSection, idempotency_key: str | None) -> ReadRequest:
    async with read_form(request, max_fields=_FIELDS, max_part_size=4 * section.max_characters + 4) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str) and value and name != FILE}
        file = None
        if (found := chosen(form)) is not None:
            if (found.size or 0) > section.max_upload_mib * MIB:
                raise TooLargeError(
                    f"file larger than {section.max_upload_mib} MiB: send a smaller one", parameter="file"
                )
            file = _File(found.filename, found.content_type, await found.read())
    return lambda: _of_fields(fields, file, section, idempotency_key)


@dataclass(frozen=True)
class _File:
    """The file of a form."""

    name: str | None
    media_type: str | None
    content: bytes


def _of_fields(
    fields: Mapping[str, str], file: _File | None, section: ServiceSection, idempotency_key: str | None
) -> DocumentRequest:
    options: UploadBody = valid(lambda: UploadBody.model_validate(fields))
    if file is not None:
        if options.text is not None:
            raise ServiceError("both file and text are given: expected one of them", parameter="text")
        if options.input_format != "text":
            raise ServiceError(
                "the name of a file, or its media type, tells its format: leave input_format out, it is that of text",
                parameter="input_format",
            )
        return _from_file(file, options, section, idempotency_key)
    if options.text is None:
        raise ServiceError(
            "neither file nor text is given: expected one of them (of curl: -F file=@PATH)", parameter="file"
        )
    return _of_text(options, options.text, idempotency_key)


def _of_text(options: DocumentBody | UploadBody, text: str, idempotency_key: str | None) -> DocumentRequest:
    """A text in its format: Markdown is read as a file is, in a process of its own, and has chapters."""
    if options.input_format == "text":
        return _document_request(options, clean(text), options.title, idempotency_key)
    upload = Upload("", "text/markdown", bool(options.title), text.encode(), options.read)
    title = options.title or text.lstrip("#>*_- \t\r\n").partition("\n")[0][:LONGEST_TITLE]  # until it is read
    return replace(_document_request(options, "", title, idempotency_key), upload=upload)


def _from_file(
    file: _File, options: UploadBody, section: ServiceSection, idempotency_key: str | None
) -> DocumentRequest:
    kind = _checked(lambda: kind_of(file.content, file.name, file.media_type))
    if kind != "txt":
        upload = Upload(file.name or "", file.media_type or "", bool(options.title), file.content, options.read)
        title = options.title or title_of_name(file.name)
        return replace(_document_request(options, "", title, idempotency_key), upload=upload)
    extracted = _checked(
        lambda: extract(file.content, file.name, file.media_type, max_characters=section.max_characters)
    )
    request = _document_request(options, extracted.text, options.title or extracted.title, idempotency_key)
    return replace(request, note=extracted.damage)


def _checked(read: Callable[[], Read]) -> Read:
    """Contents of a file; an ExtractionError becomes a ServiceError."""
    try:
        return read()
    except ExtractionError as error:
        raise service_error(error) from error


def _document_request(
    options: DocumentBody | UploadBody, text: str, title: str | None, idempotency_key: str | None
) -> DocumentRequest:
    return DocumentRequest(
        text=text,
        title=title,
        voice=options.voice,
        seed=options.seed,
        language=options.language or None,
        on_failure=options.on_failure,
        webhook=options.webhook or None,
        idempotency_key=idempotency_key,
        read=options.read,
        lexicon=options.lexicon,
        cast=options.cast,
        author=options.author,
    )


def valid(read: Any) -> Any:
    """Validated model; its ValidationError becomes a RequestValidationError."""
    try:
        return read()
    except ValidationError as error:
        errors: list[Mapping[str, Any]] = [
            {**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False, include_input=False)
        ]
        raise RequestValidationError(errors) from error


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
