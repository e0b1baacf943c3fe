"""Shelf: the place of the audio files, checked to be that of the documents of this database, on every host."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from voxyard.service.audio.files import MARKER, AudioFiles, AudioFolder
from voxyard.service.documents.store import Store
from voxyard.service.errors import StoreError

_TOKEN = re.compile(r"[0-9a-f]{8,32}")


def open_shelf(place: Path | str, *, shared: bool) -> AudioFiles:
    """A directory, or the bucket of an `s3://` URL.

    Raises:
        StoreError: the URL is wrong, or the library of the bucket is missing.
    """
    if isinstance(place, Path):
        return AudioFolder(place, shared=shared)
    from voxyard.service.audio.bucket import open_bucket  # boto3 is loaded for a bucket alone

    return open_bucket(place)


def check_shelf(files: AudioFiles, store: Store, *, mark: bool) -> None:
    """Checks that `files` are the audio of these documents, and of no other.

    With `mark`, an empty place gets a marker at the first start; without, only a place that has one is checked.

    Raises:
        StoreError: the files are the audio of other documents, or the documents' audio is in another place.
    """
    files.create()
    ids = files.ids()
    known = store.shelf()  # in this order: another service writes the marker, then the token, then audio
    found = _read(files)
    if known is None and mark and (not ids or any(store.exists(id) for id in ids)):
        known = store.shelf(found or files.mark(uuid.uuid4().hex[:8]))
        found = _read(files)
    if known is None and (mark or found is not None):
        raise StoreError(
            f"{files} has the audio of other documents than those of --store, which would be deleted: choose an empty "
            "place as --shelf"
        )
    if found != known:
        raise StoreError(
            f"{files} is not the place with the audio of these documents ({_described(found)}): mount the same "
            f"directory on each host and give it as --shelf; where the files were moved, move {MARKER} along"
        )


def _described(marker: str | None) -> str:
    return f"it has no file {MARKER}" if marker is None else f"its file {MARKER} is another one's"


def _read(files: AudioFiles) -> str | None:
    text = files.marker()
    return text if text is None or _TOKEN.fullmatch(text) else ""
