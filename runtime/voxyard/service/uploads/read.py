"""Reading of an upload: its text in a child process, and the chunks of that."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from voxyard.extraction.document import CodeBlocks
from voxyard.extraction.errors import (
    ExtractionError,
    ReaderUnavailableError,
    TextTooLongError,
    UnsupportedFileError,
)
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.service.audiobook.chapters import Heading
from voxyard.service.auth.key_limits import LimitsOf, no_limits
from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import Document, NewDocument, Upload
from voxyard.service.documents.submission import DocumentRequest, extracted_document
from voxyard.service.errors import (
    ServiceError,
    TooLargeError,
    UnavailableError,
    UnreadableDocumentError,
    UnsupportedDocumentError,
)
from voxyard.service.names import VoiceNames
from voxyard.speech.frontend import Frontend
from voxyard.speech.script import READING, ReadingOptions, document_language

_STATUS: dict[type[ExtractionError], type[ServiceError]] = {  # others: UnreadableDocumentError
    ReaderUnavailableError: UnavailableError,
    TextTooLongError: TooLargeError,
    UnsupportedFileError: UnsupportedDocumentError,
}
ReadUpload = Callable[[Document, Upload, threading.Event], NewDocument]
"""Reads the upload of a document; raises ServiceError, also where the event is set."""


def service_error(error: ExtractionError) -> ServiceError:
    """Service error of an extraction error."""
    kind = _STATUS.get(type(error), UnreadableDocumentError)
    return kind(str(error), parameter="file")


@dataclass(frozen=True)
class UploadReader:
    """Reads uploads, with the front end and within the limits of a service."""

    frontend: Frontend
    voices: VoiceNames
    section: ServiceSection
    limits: LimitsOf = no_limits
    reading: ReadingOptions = READING
    code: CodeBlocks = "skip"

    def __call__(self, document: Document, upload: Upload, cancelled: threading.Event) -> NewDocument:
        """Text and chunks of a document. Raises ServiceError."""
        most = self.limits(document.owner).characters_of(self.section.max_characters)
        found = self._extracted(upload, most, cancelled)
        request = DocumentRequest(
            text=found.text,
            title=document.title if upload.titled else found.title,
            voice=document.voice,
            seed=document.seed,
            language=document_language(document.language, document.voice, found.language, self.frontend),
            on_failure=document.on_failure,
            read=upload.read,
            headings=tuple(Heading(chapter.title, chapter.start, chapter.level) for chapter in found.chapters),
            cover=found.cover,
            author=document.author or found.author,
            declared=found.language,
            note=found.note,
        )
        reading = replace(self.reading, lexicons=(*upload.lexicons, *self.reading.lexicons))
        cast = self.voices.cast_of(upload.cast, document.owner)
        return extracted_document(document, request, self.frontend, reading, cast)

    def _extracted(self, upload: Upload, most: int, cancelled: threading.Event) -> ExtractedText:
        try:
            return extract(
                io.BytesIO(upload.content),
                upload.name,
                upload.media_type,
                max_characters=most,
                code=self.code,
                cancelled=cancelled,
            )
        except ExtractionError as error:
            raise service_error(error) from error
