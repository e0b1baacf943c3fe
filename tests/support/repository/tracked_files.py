"""The files of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def tracked(*patterns: str) -> list[Path]:
    """Absolute paths of the files that match git's patterns (all without one), those not yet added too, sorted."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run([*command, *patterns], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return sorted({ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()})
