"""Directories of nodes in /tmp, each locked while its voxyard runs; those that a killed one has left are removed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from voxyard.host.durable_files import open_locked, try_lock

_PREFIX = "voxyard-ray-"  # short: the directory holds the paths of sockets
_OWNER = "owner"  # a file that is locked as long as the owner lives, in whatever container that is


class NodeDirectory:
    """A directory of this process. Its lock ends with the process, however that ends; nodes do not inherit it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unlocked = self.path / f"{_OWNER}.new"
        self._owner = os.fdopen(open_locked(unlocked), "wb")
        unlocked.rename(self.path / _OWNER)  # under this name it has never been without its lock

    def clear(self) -> None:
        """Remove what a node has left in it."""
        for old in self.path.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old, ignore_errors=True)
            elif old.name != _OWNER:
                old.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._owner.close()


def remove_abandoned() -> list[Path]:
    """Remove this user's directories whose owner has ended without doing so; they are returned."""
    return [path for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")) if _removed(path)]


def _removed(path: Path) -> bool:
    """Remove a directory unless it is another user's, its owner lives, or it has none (an earlier release's)."""
    try:
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            return False
        owner = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # gone meanwhile, or without an owner
    try:
        if not try_lock(owner):
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(owner)
