"""Extraction of an upload's text, as the first step of its document."""

from __future__ import annotations

import logging
import threading

from voxyard.service.documents.records import Document, NewDocument
from voxyard.service.documents.store import Store
from voxyard.service.errors import ServiceError, UnavailableError
from voxyard.service.uploads.read import ReadUpload

_log = logging.getLogger(__name__)


def extract(
    document: Document, store: Store, read_upload: ReadUpload | None, cancelled: threading.Event
) -> NewDocument | ServiceError:
    """Text and chunks of a document's upload, or the error that ends or delays it."""
    try:
        if read_upload is None:
            raise UnavailableError("this service reads no files")
        return read_upload(document, store.upload(document.id), cancelled)
    except ServiceError as error:
        return error
    except Exception as error:  # noqa: BLE001 — the other documents continue
        _log.exception("internal error in the extraction of document %s", document.id)
        return ServiceError(f"internal error of the service: {type(error).__name__}: {error}")
