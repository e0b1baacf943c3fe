"""File watcher: detects that a file was replaced since the last check."""

from __future__ import annotations

from pathlib import Path


class WatchedFile:
    """Detects a replaced file by its modification time and inode, without reading it; it need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int] | None = None

    def replaced(self) -> bool:
        """True where it changed, came or went since the last call; at the first call it has."""
        before, self._stamp = self._stamp, self._stamp_now()
        return self._stamp != before

    def _stamp_now(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino
