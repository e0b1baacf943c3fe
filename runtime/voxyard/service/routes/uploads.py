"""Bodies of `POST /v1/documents`: JSON, or a form with a file whose text is extracted."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from voxyard.extraction.errors import ExtractionError
from voxyard.extraction.extract import extract, kind_of, title_of_name
from voxyard.extraction.plaintext import clean
from voxyard.service.audiobook.chapters import Heading
from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import Upload
from voxyard.service.documents.submission import DocumentRequest
from voxyard.service.errors import ServiceError, TooLargeError, UnsupportedDocumentError
from voxyard.service.routes.schemas import DocumentBody, UploadBody
from voxyard.service.uploads.read import service_error

MIB = 1 << 20
_FIELDS = 16  # of a form
Read = TypeVar("Read")


async def read_document_request(
    request: Request, section: ServiceSection, idempotency_key: str | None
) -> DocumentRequest:
    """Document request of a body, with its text, or with a file whose text is extracted later.

    Raises:
        ServiceError: the body is too large or of another type, or the file is not supported.
        RequestValidationError: a field is invalid.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        content = await request.body()
        body = await run_sync(lambda: valid(lambda: DocumentBody.model_validate_json(content)))
        return await run_sync(_from_json, body, idempotency_key)
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
        return _document_request(body, clean(body.text or ""), body.title, idempotency_key)
    parts, headings, length = list[str](), list[Heading](), 0
    for chapter in body.chapters:
        title = " ".join(clean(chapter.title).split())
        headings.append(Heading(title, length))
        parts.append(f"{title}\n\n{clean(chapter.text).strip()}\n\n")
        length += len(parts[-1])
    made = _document_request(body, "".join(parts), body.title, idempotency_key)
    return replace(made, headings=tuple(headings))


async def _from_form(request: Request, section: ServiceSection, idempotency_key: str | None) -> DocumentRequest:
    async with request.form(max_files=1, max_fields=_FIELDS, max_part_size=4 * section.max_characters + 4) as form:
        file = form.get("file")
        fields = {name: value for name, value in form.items() if isinstance(value, str) and value and name != "file"}
        options: UploadBody = valid(lambda: UploadBody.model_validate(fields))
        if isinstance(file, UploadFile):
            if options.text is not None:
                raise ServiceError("both file and text are given: expected one of them", parameter="text")
            return await _from_file(file, options, section, idempotency_key)
        if options.text is None:
            raise ServiceError("neither file nor text is given: expected one of them", parameter="file")
        return _document_request(options, clean(options.text), options.title, idempotency_key)


async def _from_file(
    file: UploadFile, options: UploadBody, section: ServiceSection, idempotency_key: str | None
) -> DocumentRequest:
    if (file.size or 0) > section.max_upload_mib * MIB:
        raise TooLargeError(f"file larger than {section.max_upload_mib} MiB: send a smaller one", parameter="file")
    content = await file.read()
    kind = await run_sync(lambda: _checked(lambda: kind_of(content, file.filename, file.content_type)))
    if kind != "txt":
        upload = Upload(file.filename or "", file.content_type or "", bool(options.title), content, options.read)
        title = options.title or title_of_name(file.filename)
        return replace(_document_request(options, "", title, idempotency_key), upload=upload)
    extracted = await run_sync(
        lambda: _checked(
            lambda: extract(
                io.BytesIO(content), file.filename, file.content_type, max_characters=section.max_characters
            )
        )
    )
    return _document_request(options, extracted.text, options.title or extracted.title, idempotency_key)


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
