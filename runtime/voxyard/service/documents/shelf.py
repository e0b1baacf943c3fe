"""Marker of the directory of audio files: it belongs to the documents of one database, on every host."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Protocol

from voxyard.service.errors import StoreError

MARKER = ".voxyard"
_TOKEN = re.compile(r"[0-9a-f]{8,32}")


class ShelfOwner(Protocol):
    """Store interface of the check."""

    def shelf(self, new: str | None = None) -> str | None:
        """Token of the directory with the documents' audio; `new` becomes it where there is none yet."""

    def exists(self, id: str) -> bool:
        """True where this is one of the documents."""


def check_shelf(folder: Path, owner: ShelfOwner, *, mark: bool) -> None:
    """Checks that `folder` has the audio of these documents, and no other.

    With `mark`, an empty folder gets a marker at the first start; without, only a folder that has one is checked.

    Raises:
        StoreError: the folder has the audio of other documents, or the documents' audio is in another folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ids = [path.name for path in folder.iterdir() if path.is_dir()]
        known = owner.shelf()  # in this order: another service writes the marker, then the token, then audio
        found = _read(folder)
        if known is None and mark and (not ids or any(owner.exists(id) for id in ids)):
            known = owner.shelf(found or _write(folder))
            found = _read(folder)
    except OSError as error:
        raise StoreError(
            f"cannot use the audio directory {folder}: {error.strerror}; choose another --shelf"
        ) from error
    if known is None and (mark or found is not None):
        raise StoreError(
            f"{folder} has the audio of other documents than those of --store, which would be deleted: choose an "
            "empty directory as --shelf"
        )
    if found != known:
        raise StoreError(
            f"{folder} is not the directory with the audio of these documents ({_described(found)}): mount the same "
            f"directory on each host and give it as --shelf; where the files were moved, move {MARKER} along"
        )


def _described(marker: str | None) -> str:
    return f"it has no file {MARKER}" if marker is None else f"its file {MARKER} is another one's"


def _read(folder: Path) -> str | None:
    try:
        text = (folder / MARKER).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    return text if _TOKEN.fullmatch(text) else ""


def _write(folder: Path) -> str:
    """Writes a new marker, or returns the one that another service has just written."""
    token = uuid.uuid4().hex[:8]
    part = folder / f"{MARKER}.{uuid.uuid4().hex}"
    with part.open("x", encoding="ascii") as file:
        file.write(f"{token}\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        (folder / MARKER).hardlink_to(part)
    except FileExistsError:
        token = _read(folder) or token
    finally:
        part.unlink()
    return token
