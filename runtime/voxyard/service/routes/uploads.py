"""Bodies of `POST /v1/documents`: JSON, or a form with a file whose text is extracted."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import Request

from voxyard.extraction.document import TextChapter
from voxyard.extraction.errors import ExtractionError
from voxyard.extraction.extract import extract, kind_of, title_of_name
from voxyard.extraction.plaintext import clean
from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import Upload
from voxyard.service.documents.submission import LONGEST_TITLE, DocumentRequest, service_error
from voxyard.service.errors import ServiceError, TooLargeError, UnsupportedDocumentError
from voxyard.service.routes.forms import chosen, read_form
from voxyard.service.routes.schemas import DocumentBody, UploadBody

MIB = 1 << 20
_FIELDS = 16  # of a form
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
        fields = {name: value for name, value in form.items() if isinstance(value, str) and value and name != "file"}
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
        lambda: extract(io.BytesIO(file.content), file.name, file.media_type, max_characters=section.max_characters)
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
