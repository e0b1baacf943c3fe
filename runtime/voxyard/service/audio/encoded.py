"""Encoded copies of a document's audio, in its folder beside the WAV: one a format, written once."""

from __future__ import annotations

import logging
import shutil
import threading
from typing import BinaryIO

from voxyard.service.audio.store import AudioStore, audio_name
from voxyard.service.errors import NotFoundError, ServiceError

FREE_SHARE = 10
"""A copy is kept where 1/10 of the quota stays free: documents come first, copies can be made again."""
_log = logging.getLogger(__name__)
_lock = threading.Lock()  # one is stored at a time


def keep(audio_store: AudioStore, id: str, revision: int, format: str, file: BinaryIO) -> bool:
    """Stores all of `file` as this revision's audio in a format; False where it has no room, or the store fails.

    Another service may do the same: the bytes are the same, and the last one's stay.
    """
    copy_name = audio_name(revision, format)
    with _lock:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            if audio_store.room_bytes() - size < audio_store.quota / FREE_SHARE:
                _log.info("document %s: no room to keep %s of %.1f MiB", id, copy_name, size / 2**20)
                return False
            audio_store.wav_size(id, revision)
            with audio_store.write(id, copy_name) as copy:
                shutil.copyfileobj(file, copy)
        except NotFoundError:  # deleted, or spoken again
            return False
        except ServiceError as error:
            _log.warning("document %s: %s is not kept: %s", id, copy_name, error)
            return False
        if audio_store.size(id, audio_name(revision)) is None:  # deleted while the copy was written
            audio_store.remove_revision(id, revision)
            return False
        return True
