"""Lexicons of API keys: the words, or the file, that an entry of the key file names."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from voxyard.service.errors import ServiceError
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.lexicon import Lexicon, of_mapping, read_lexicon

log = logging.getLogger("voxyard.service")

LexiconSource = str | Mapping[str, str]
"""A path, relative to the key file's folder, or words and what is spoken for them."""
_Identity = tuple[LexiconSource, tuple[int, ...] | None]


def read_source(found: object) -> LexiconSource | None:
    """Lexicon of a key file's entry. Raises ServiceError; a file is not opened."""
    if found is None:
        return None
    if isinstance(found, str) and found:
        return found
    if not isinstance(found, dict):
        raise ServiceError(f"lexicon: found {found!r}, expected the path of a file, or lines such as `nginx: engine x`")
    for word, spoken in found.items():
        for text in (word, spoken):
            if not isinstance(text, str):
                raise ServiceError(f"lexicon: found {text!r}, expected words: put it into quotes")
    try:
        of_mapping(found)
    except SpeechError as error:
        raise ServiceError(f"lexicon: {error}") from error
    return found


class KeyLexicons:
    """Lexicons by the name of a key, read once, and again when the entry or its file changes.

    Where a changed one is wrong, the one before stays in use, which is logged once. May be used from several threads;
    a large file takes a second: not for the event loop.
    """

    def __init__(self, keys: Path) -> None:
        """`keys` is the path of the key file."""
        self._keys = keys
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Identity, Lexicon | None]] = {}

    def check(self, name: str, source: LexiconSource) -> None:
        """Reads the lexicon of a key. Raises ServiceError where it is wrong."""
        identity = self._identity(source)
        with self._lock:
            self._known[name] = (identity, self._read(source))

    def find(self, name: str, source: LexiconSource) -> Lexicon | None:
        """The lexicon of a key; None where there was never a right one."""
        identity = self._identity(source)
        with self._lock:
            before, lexicon = self._known.get(name, (None, None))
            if before == identity:
                return lexicon
            try:
                lexicon = self._read(source)
            except ServiceError as error:
                log.error("keeping the previous lexicon of key %s: %s", name, error)
            else:
                log.info("reloaded the lexicon of key %s", name)
            self._known[name] = (identity, lexicon)
            return lexicon

    def _read(self, source: LexiconSource) -> Lexicon:
        try:
            return read_lexicon(self._path(source)) if isinstance(source, str) else of_mapping(source)
        except SpeechError as error:
            raise ServiceError(f"lexicon: {error}") from error

    def _path(self, source: str) -> Path:
        return self._keys.parent / source

    def _identity(self, source: LexiconSource) -> _Identity:
        return source, file_identity(self._path(source)) if isinstance(source, str) else None


def file_identity(path: Path) -> tuple[int, ...] | None:
    """Modification time in ns, size in bytes, and inode of a file, one of which changes with it; None without one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
