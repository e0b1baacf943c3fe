"""File watcher: detects that a file was replaced since the last check."""

from __future__ import annotations

from pathlib import Path


class WatchedFile:
    """Tells a replaced file by its time and its number, without reading it; it need not be there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int] | None = None

    def replaced(self) -> bool:
        """True where it changed, came or went since the last call; at the first call it has."""
        before, self._stamp = self._stamp, self._look()
        return self._stamp != before

    def _look(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino
