"""Record of the files and directories that were synced to the disk, in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def watch_syncs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A list that grows with every `os.fsync`, by the path that the descriptor has at that moment."""
    synced: list[Path] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    return synced
