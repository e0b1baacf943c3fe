"""API keys: a file of names, SHA-256 hashes, limits and lexicons, reloaded when it changes."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from voxyard.host import durable_files
from voxyard.service.auth.key_lexicons import KeyLexicons, LexiconSource, file_identity, read_source
from voxyard.service.errors import ServiceError
from voxyard.service.fairness import NO_LIMITS, KeyLimits, read_limits
from voxyard.settings.errors import SettingsError
from voxyard.speech.reading.lexicon import Lexicon

if TYPE_CHECKING:
    from voxyard.settings.yaml_reader import YamlValue

log = logging.getLogger("voxyard.service")

COOKIE = "voxyard_session"
PREFIX = "vox_"
"""Prefix of the keys, by which secret scanners recognize them."""
_KEY_BYTES = 32
_LONGEST_KEY = 512
_LARGEST_FILE = 4_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
Read = TypeVar("Read")
REVOKED = "revoked"
"""What stands in the file in place of a revoked key's hash."""
_HEADER = "# API keys of voxyard: name: SHA-256 of the key. `voxyard keys` writes this file.\n"
_SHA256, _LIMITS, _LEXICON, _ADMIN = (
    "sha256",
    "limits",
    "lexicon",
    "admin",
)  # fields of an entry


@dataclass(frozen=True)
class Client:
    """Client of a request: the name of its API key, "" where none is required."""

    name: str
    sha256: str = field(default="", compare=False)  # of its key


@dataclass(frozen=True)
class StoredKey:
    """Entry of the file: the hash of a key, its limits and its lexicon.

    A revoked one stays, without its hash: the documents that its key has sent are kept by its name.
    """

    sha256: str
    limits: KeyLimits = NO_LIMITS
    lexicon: LexiconSource | None = None
    lexicon_place: str = field(default="", compare=False)  # its file and line
    admin: bool = False  # sees the usage of all keys

    @property
    def revoked(self) -> bool:
        """True where its key is valid no more."""
        return self.sha256 == REVOKED

    def written(self) -> str | dict[str, object]:
        """The entry as the file has it."""
        more = {_LIMITS: self.limits.changed(), _LEXICON: self.lexicon, _ADMIN: self.admin}
        given = {field: value for field, value in more.items() if value}
        return {_SHA256: self.sha256, **given} if given else self.sha256


def new_key() -> str:
    """New key with 256 random bits, which an unsalted SHA-256 protects well enough."""
    return PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hashed(key: str) -> str:
    """Stored form of a key: the SHA-256 of its UTF-8 bytes as 64 hexadecimal digits."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def hash_line(name: str, key: str) -> str:
    """Line of the file for a key."""
    return f"{name}: {hashed(key)}"


class Keys:
    """API keys of a file, as it was read last; `refresh` reads it again. May be used from several threads.

    While the file is invalid, empty or missing, the last valid keys stay in use, which is logged once.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file and the lexicons. Raises ServiceError where one is missing or invalid."""
        self.path = path
        self._lock = threading.Lock()
        self._seen = file_identity(path)
        self._stored = _valid(read_keys(path))
        self._lexicons = KeyLexicons(path)
        for name, known in self._stored.items():
            if known.lexicon is not None:
                try:
                    self._lexicons.check(name, known.lexicon)
                except ServiceError as error:
                    raise ServiceError(f"{known.lexicon_place}: {name}: {error}") from error
        if not self._stored:
            log.warning("%s has no keys: every request is refused until `voxyard keys new NAME` adds one", path)

    @property
    def changed(self) -> bool:
        """True where the file is another one than was read."""
        return file_identity(self.path) != self._seen

    def refresh(self) -> None:
        """Reads the file again where it has changed. Takes a second for each thousand keys: not for the event loop."""
        with self._lock:
            seen = file_identity(self.path)
            if seen == self._seen:
                return
            try:
                found = read_keys(self.path)
                if self._stored and not found:  # a write that was cut, or is not finished
                    raise ServiceError(f"{self.path} is empty: `voxyard keys revoke NAME` takes a key away")
            except ServiceError as error:
                log.error("keeping the previous API keys: %s", error)
            else:
                self._stored = _valid(found)
                log.info("reloaded the API keys from %s: %d keys", self.path, len(self._stored))
            self._seen = seen

    def client(self, key: str) -> Client | None:
        """Client of this key, None where it is unknown; compared in constant time."""
        if len(key) > _LONGEST_KEY:
            return None
        given, found = hashed(key), None
        for name, known in self._stored.items():
            if hmac.compare_digest(given, known.sha256):
                found = Client(name, known.sha256)
        return found

    def valid(self, client: Client) -> bool:
        """False where the client's key has been revoked, also where its name has another one now."""
        return client.sha256 == self.hash_of(client.name)

    def hash_of(self, name: str) -> str | None:
        """Hash of a client's key; None where the name is unknown or revoked."""
        known = self._stored.get(name)
        return None if known is None else known.sha256

    def limits(self, name: str) -> KeyLimits:
        """Limits of a client's key; none where the name is unknown or revoked."""
        known = self._stored.get(name)
        return NO_LIMITS if known is None else known.limits

    def is_admin(self, name: str) -> bool:
        """True where a client's key sees the usage of all."""
        known = self._stored.get(name)
        return known is not None and known.admin

    def lexicon(self, name: str) -> Lexicon | None:
        """Lexicon of a client's key; None where it has none. May read a file: not for the event loop."""
        known = self._stored.get(name)
        return None if known is None or known.lexicon is None else self._lexicons.find(name, known.lexicon)

    def names(self) -> tuple[str, ...]:
        """Names of all keys, sorted."""
        return tuple(sorted(self._stored))


def _valid(found: Mapping[str, StoredKey]) -> dict[str, StoredKey]:
    return {name: known for name, known in found.items() if not known.revoked}


def check_name(name: str) -> str:
    """Validates a key's name and returns it. Raises ServiceError."""
    if not _NAME.fullmatch(name):
        raise ServiceError(
            f"invalid key name {name!r}: expected up to 64 letters, digits, dots, hyphens and underscores, "
            "beginning with a letter or a digit"
        )
    return name


def read_keys(path: Path) -> dict[str, StoredKey]:
    """Entries of the file by name, the revoked ones too. Raises ServiceError where it is missing or invalid."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        text = content.decode()
    except FileNotFoundError as error:
        raise ServiceError(f"{path}: no such file: `voxyard keys new NAME --file {path}` creates it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceError(f"{path}: the API keys cannot be read: {_one_line(error)}") from error
    return parse_keys(text, str(path))


def parse_keys(text: str, source: str) -> dict[str, StoredKey]:
    """Entries of a key file's text by name. Raises ServiceError, which names `source` and may quote the text."""
    from voxyard.settings.yaml_reader import parse

    if len(text) > _LARGEST_FILE:
        raise ServiceError(f"{source}: the API keys cannot be read: larger than {_LARGEST_FILE} characters")
    try:
        document = parse(text, source, anchors=True)
    except SettingsError as error:
        raise ServiceError(f"the API keys cannot be read: {error}") from error
    for problem in document.problems:
        raise ServiceError(f"{source}:{problem.line}: {problem.text}")
    entries = document.root.value
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise ServiceError(
            f"{source}: expected lines `name: SHA-256 of the key`, as `voxyard keys new NAME` writes them"
        )
    return {name: _stored(name, entry, source) for name, entry in entries.items()}


def _stored(name: str, entry: YamlValue, source: str) -> StoredKey:
    """The entry of a name. Raises ServiceError."""
    fields = entry.value if isinstance(entry.value, dict) else {_SHA256: entry}

    def read(field: str, value_of: Callable[[Any], Read]) -> Read:
        """A field of the entry; its ServiceError gets file, line and key."""
        found = fields.get(field)
        try:
            return value_of(None if found is None else found.plain())
        except ServiceError as error:
            raise ServiceError(f"{source}:{(found or entry).line}: {name}: {error}") from error

    try:
        check_name(name)
    except ServiceError as error:
        raise ServiceError(f"{source}:{entry.line}: {error}") from error
    if unknown := sorted(field for field in fields if field not in (_SHA256, _LIMITS, _LEXICON, _ADMIN)):
        raise ServiceError(
            f"{source}:{fields[unknown[0]].line}: {name}: unknown field {unknown[0]!r}: expected {_SHA256}, {_LIMITS}, "
            f"{_LEXICON} and {_ADMIN}"
        )
    limits = read(_LIMITS, lambda found: read_limits(found or {}))
    lexicon, admin = read(_LEXICON, read_source), read(_ADMIN, _truth)
    known = fields.get(_SHA256)
    if known is None or not (_HASH.fullmatch(known.text) or known.text == REVOKED):
        raise ServiceError(
            f"{source}:{entry.line}: {name}: expected the SHA-256 of a key, 64 hexadecimal digits; "
            f"`voxyard keys new {name}` creates a key and writes its hash"
        )
    place = "" if lexicon is None else f"{source}:{fields[_LEXICON].line}"
    return StoredKey(known.text, limits, lexicon, place, admin)


def _truth(found: object) -> bool:
    """A field that is true, false or missing. Raises ServiceError."""
    if not isinstance(found, bool | None):
        raise ServiceError(f"{_ADMIN}: found {str(found)[:60]!r}, expected true or false")
    return bool(found)


def write_keys(path: Path, keys: Mapping[str, StoredKey]) -> None:
    """Replaces the file atomically, readable by its owner only. Raises ServiceError."""
    import yaml

    entries = {name: known.written() for name, known in sorted(keys.items())}
    text = _HEADER + (yaml.safe_dump(entries, default_flow_style=False, sort_keys=False) if entries else "")
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with durable_files.whole_file(target, mode=durable_files.PRIVATE) as file:
            _keep_owner(target, file.fileno())
            file.write(text.encode())
    except OSError as error:
        raise ServiceError(f"{path}: the API keys cannot be written: {_one_line(error)}") from error


def add_key(path: Path, name: str, *, take_over: bool = False, admin: bool = False) -> str:
    """Creates a key, adds its hash to the file, and returns the key, which is not stored.

    `admin`: it sees the usage of all keys.
    `take_over`: also for a name whose key was revoked, with the documents and voices that are kept by it.

    Raises:
        ServiceError: the name is taken or invalid, or the file cannot be read or written.
    """
    check_name(name)
    with _locked(path):
        keys = read_keys(path) if path.exists() else {}
        if name in keys and not keys[name].revoked:
            raise ServiceError(f"{path} already has a key {name}: revoke it first, or choose another name")
        if name in keys and not take_over:
            raise ServiceError(
                f"{name} had a key that was revoked, and a new one would see its documents and voices: choose another "
                "name, or hand them over with --take-over"
            )
        key = new_key()
        write_keys(path, {**keys, name: StoredKey(hashed(key), admin=admin)})
    return key


def revoke_key(path: Path, name: str) -> None:
    """Revokes a key; its name stays in the file. Raises ServiceError where the key is not there."""
    with _locked(path):
        _write_changed(path, name, lambda _: StoredKey(REVOKED))


def limit_key(path: Path, name: str, limits: KeyLimits) -> None:
    """Replaces the limits of a key. Raises ServiceError where it is not there."""
    with _locked(path):
        _write_changed(path, name, lambda known: replace(known, limits=limits))


def give_lexicon(path: Path, name: str, lexicon: LexiconSource | None) -> None:
    """Replaces the lexicon of a key. Raises ServiceError where the key is not there, or the lexicon is wrong."""
    if lexicon is not None:
        KeyLexicons(path).check(name, lexicon)
    with _locked(path):
        _write_changed(path, name, lambda known: replace(known, lexicon=lexicon))


def _write_changed(path: Path, name: str, change: Callable[[StoredKey], StoredKey]) -> None:
    """Writes the file with another entry for a key."""
    keys = read_keys(path)
    valid = _valid(keys)
    if name not in valid:
        known = f"the keys are {', '.join(sorted(valid))}" if valid else "it has no keys"
        raise ServiceError(f"{path} has no key {name}: {known}")
    write_keys(path, {**keys, name: change(valid[name])})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Exclusive lock of the file's folder, for a read-modify-write."""
    try:
        folder = path.resolve().parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = durable_files.open_locked(folder, wait=True)
    except OSError as error:
        raise ServiceError(f"{path}: the API keys cannot be written: {_one_line(error)}") from error
    try:
        yield
    finally:
        os.close(descriptor)


def _keep_owner(target: Path, descriptor: int) -> None:
    """Keeps the file's owner where root changes it, so that the service can still read it."""
    if target.exists():
        before, mine = target.stat(), os.fstat(descriptor)
        if (before.st_uid, before.st_gid) != (mine.st_uid, mine.st_gid):
            os.fchown(descriptor, before.st_uid, before.st_gid)


def _one_line(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).replace("\n", " ")
