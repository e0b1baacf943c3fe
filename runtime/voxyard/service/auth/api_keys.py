"""API keys: who a request comes from, by a file that holds names and hashes and no key."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from voxyard.service.errors import ServiceError

log = logging.getLogger("voxyard.service")

COOKIE = "voxyard_session"
PREFIX = "vox_"
"""Prefix of our keys: tools that look for secrets in source code find them by it."""
_KEY_BYTES = 32
_LONGEST_KEY = 512
_LARGEST_FILE = 4_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
_HEADER = "# API keys of voxyard: name: SHA-256 of the key. `voxyard keys` writes this file.\n"


@dataclass(frozen=True)
class Client:
    """Client that a request comes from: the name of its API key, "" where none is asked for."""

    name: str


def new_key() -> str:
    """A key with 256 random bits, so that one round of SHA-256 is enough to keep it."""
    return PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hashed(key: str) -> str:
    """Stored form of a key: the SHA-256 of its UTF-8 bytes as 64 hexadecimal digits."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def hash_line(name: str, key: str) -> str:
    """The line of the file for a key."""
    return f"{name}: {hashed(key)}"


class Keys:
    """API keys of a file; a change of the file takes effect with the next request.

    A file that is broken or gone while the service runs changes nothing: the last keys that could be read stay in
    use, and the log says so once. May be used from several threads.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises ServiceError where it cannot be read or is no such file."""
        self.path = path
        self._lock = threading.Lock()
        self._seen = _identity(path)
        self._hashes = read_keys(path)
        if not self._hashes:
            log.warning("%s holds no key: every request is refused until `voxyard keys new NAME` writes one", path)

    def client(self, key: str) -> Client | None:
        """Client of this key; the time it takes does not tell which key came near."""
        if len(key) > _LONGEST_KEY:
            return None
        given, found = hashed(key), None
        for name, known in self._current().items():
            if hmac.compare_digest(given, known):
                found = name
        return None if found is None else Client(found)

    def hash_of(self, name: str) -> str | None:
        """The hash of a client's key; None where the name is not known, or not any more."""
        return self._current().get(name)

    def names(self) -> tuple[str, ...]:
        """The names of all keys, sorted."""
        return tuple(sorted(self._current()))

    def _current(self) -> Mapping[str, str]:
        seen = _identity(self.path)
        if seen != self._seen:
            with self._lock:
                self._renew(seen)
        return self._hashes

    def _renew(self, seen: tuple[int, ...] | None) -> None:
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._hashes = read_keys(self.path)
        except ServiceError as error:
            log.error("the old API keys stay in use: %s", error)
        else:
            log.info("API keys were read again from %s: %d", self.path, len(self._hashes))


def check_name(name: str) -> str:
    """The name, if it may be a client's. Raises ServiceError."""
    if not _NAME.fullmatch(name):
        raise ServiceError(
            f"{name!r} cannot be the name of a key: expected up to 64 letters, digits, dots, hyphens and underscores, "
            "beginning with a letter or a digit"
        )
    return name


def read_keys(path: Path) -> dict[str, str]:
    """Name → hash, as the file has them. Raises ServiceError with what is wrong in it."""
    import yaml

    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        document = yaml.safe_load(content.decode()) if len(content) <= _LARGEST_FILE else content
    except FileNotFoundError as error:
        raise ServiceError(
            f"{path}: there is no such file: `voxyard keys new NAME --file {path}` writes one"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ServiceError(f"{path}: the API keys cannot be read: {_in_short(error)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ServiceError(f"{path}: expected lines `name: SHA-256 of the key`, as `voxyard keys new NAME` writes them")
    for name, known in document.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ServiceError(f"{path}: {name!r} cannot be the name of a key: put it into quotes, or take another")
        if not isinstance(known, str) or not _HASH.fullmatch(known):
            raise ServiceError(
                f"{path}: {name}: expected the SHA-256 of a key, 64 hexadecimal digits; "
                f"`voxyard keys new {name}` makes a key and writes its hash"
            )
    return document


def write_keys(path: Path, hashes: Mapping[str, str]) -> None:
    """Puts the whole file in place at once, readable by its owner alone. Raises ServiceError."""
    import yaml

    text = _HEADER + (yaml.safe_dump(dict(sorted(hashes.items())), default_flow_style=False) if hashes else "")
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # it is made with 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                _keep_owner(target, descriptor)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ServiceError(f"{path}: the API keys cannot be written: {_in_short(error)}") from error


def add_key(path: Path, name: str) -> str:
    """A new key, whose hash is now in the file under this name; nobody can see the key again.

    Raises:
        ServiceError: the name is taken or cannot be one, or the file cannot be read or written.
    """
    check_name(name)
    with _alone(path):
        hashes = read_keys(path) if path.exists() else {}
        if name in hashes:
            raise ServiceError(f"{path} has a key {name} already: revoke it first, or take another name")
        key = new_key()
        write_keys(path, {**hashes, name: hashed(key)})
    return key


def revoke_key(path: Path, name: str) -> None:
    """Takes a name out of the file. Raises ServiceError where it is not in there."""
    with _alone(path):
        hashes = read_keys(path)
        if name not in hashes:
            known = f"there are {', '.join(sorted(hashes))}" if hashes else "there is none"
            raise ServiceError(f"{path} has no key {name}: {known}")
        write_keys(path, {other: known for other, known in hashes.items() if other != name})


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two commands that change the file at the same time do not undo each other's work."""
    try:
        folder = path.resolve().parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ServiceError(f"{path}: the API keys cannot be written: {_in_short(error)}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _keep_owner(target: Path, descriptor: int) -> None:
    """Root adds a key, the service reads the file under its own name: it stays the service's."""
    if target.exists():
        before, mine = target.stat(), os.fstat(descriptor)
        if (before.st_uid, before.st_gid) != (mine.st_uid, mine.st_gid):
            os.fchown(descriptor, before.st_uid, before.st_gid)


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _in_short(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).replace("\n", " ")
