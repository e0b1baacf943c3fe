"""Paths of the server's files, which clients are not shown: a message keeps the names of the files."""

from __future__ import annotations

import re

_PATH = re.compile(r"""(?<![\w/:.~<*])/[^\s'"<>|;,()]*[^\s'"<>|;,().:]""")
_OWN = {"v1", "docs", "session", "healthz", "readyz", "metrics", "openapi.json", "page"}  # of the API, no files


def without_paths(message: str) -> str:
    """The message with each absolute path cut to its last part; paths of the API stay."""
    return _PATH.sub(_name, message)


def _name(found: re.Match[str]) -> str:
    parts = [part for part in found[0].split("/") if part]
    return found[0] if not parts or parts[0] in _OWN else parts[-1]
