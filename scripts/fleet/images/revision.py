"""Revision of the images' sources: the commit that last changed them, its time, uncommitted changes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError

SOURCES = ("runtime", "images", "constraints.txt", "constraints-tf217.txt", "pyproject.toml", "LICENSE")
"""Paths of the repository that are part of images."""
UNKNOWN = "unknown"
UNKNOWN_TIME = 315_532_800  # 1980-01-01T00:00:00Z, of images without a commit


@dataclass(frozen=True, slots=True)
class Revision:
    """Commit that last changed the sources of images; other commits do not change an image."""

    commit: str | None = None  # 40 hexadecimal digits; None: no git repository
    time: int = UNKNOWN_TIME  # of the commit, in seconds since 1970: SOURCE_DATE_EPOCH of a build
    changed: tuple[str, ...] = ()  # paths with uncommitted changes

    @property
    def text(self) -> str:
        """Revision for labels: the commit, with a suffix for uncommitted changes; `unknown` without git."""
        return UNKNOWN if self.commit is None else self.commit + ("-changed" if self.changed else "")

    @property
    def fault(self) -> str | None:
        """Reason why images of these sources cannot be named by their commit; None where they can."""
        if self.commit is None:
            return "these sources are no git clone, so their commit is not known"
        if self.changed:
            more = f" and {len(self.changed) - 1} more" if len(self.changed) > 1 else ""
            return f"uncommitted changes: {self.changed[0]}{more}"
        return None


def read_revision(root: Path) -> Revision:
    """Revision of the repository `root`. Raises FleetError for a shallow clone that lacks the commit."""
    said = _git(root, "log", "-1", "--format=%H %ct", "--", *SOURCES)
    if not said:
        return Revision()
    commit, time = said.split()
    if commit in _boundary(root):
        raise FleetError(
            f"{root} is a shallow clone, in which the commit that last changed the images is not known: "
            "git fetch --unshallow"
        )
    status = _git(root, "status", "--porcelain", "--", *SOURCES) or ""
    return Revision(commit, int(time), tuple(line.split(maxsplit=1)[1] for line in status.splitlines()))


def _boundary(root: Path) -> frozenset[str]:
    """Commits whose parents a shallow clone lacks."""
    said = _git(root, "rev-parse", "--git-path", "shallow")
    path = root / (said or "")
    return frozenset(path.read_text(encoding="utf-8").split()) if said and path.is_file() else frozenset()


def _git(root: Path, *arguments: str) -> str | None:
    command: Sequence[str] = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
