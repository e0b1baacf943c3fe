"""Secrets file of the fleet: readable by its owner only; values are never printed, logged or cached."""

from __future__ import annotations

import configparser
import functools
import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from fleet.errors import FleetError
from voxyard.service.auth.api_keys import parse_keys
from voxyard.service.errors import ServiceError
from voxyard.settings.yaml_reader import YamlSyntaxError, compose
from voxyard.speech.cluster.access import SHORTEST_TOKEN

BARK_KEYS = "bark-api-keys"
BARK_WEBHOOK = "bark-webhook-secret"
BARK_SESSIONS = "bark-session-secret"
BARK_STORE = "bark-store-password"
BARK_STORE_CA = "bark-store-ca"
BARK_SHELF = "bark-shelf-keys"
CLUSTER_TOKEN = "cluster-token"  # noqa: S105 - its name
GATEWAY_CERTIFICATE = "gateway-certificate"
GATEWAY_KEY = "gateway-key"
HOST_CERTIFICATE = "host-certificate"
HOST_KEY = "host-key"
HOST_CA = "host-ca"
GRAFANA = "grafana-admin-password"
SERVICE_OF = {
    BARK_KEYS: "bark",
    BARK_WEBHOOK: "bark",
    BARK_SESSIONS: "bark",
    BARK_STORE: "bark",
    BARK_STORE_CA: "bark",
    BARK_SHELF: "bark",
    CLUSTER_TOKEN: "cluster",
    GATEWAY_CERTIFICATE: "gateway",
    GATEWAY_KEY: "gateway",
    HOST_CERTIFICATE: "host",
    HOST_KEY: "host",
    HOST_CA: "host",
    GRAFANA: "grafana",
}
"""Service of each secret, `host` for those of all; the secret is mounted as a file of this name."""
ALERTS, CUSTOM = "alert-", "custom-"
"""Prefixes of Alertmanager's secrets (webhook URLs, the mail relay), and of those of the operator's own services."""

_NAMES = f"{', '.join(SERVICE_OF)}, {ALERTS}…, {CUSTOM}…"
LARGEST_FILE = 1 << 20
_SHORTEST = {BARK_WEBHOOK: 16, BARK_SESSIONS: 32, CLUSTER_TOKEN: SHORTEST_TOKEN, GRAFANA: 8}  # characters
_PEM = {
    **dict.fromkeys((GATEWAY_CERTIFICATE, HOST_CERTIFICATE, HOST_CA, BARK_STORE_CA), "CERTIFICATE"),
    **dict.fromkeys((GATEWAY_KEY, HOST_KEY), "PRIVATE KEY"),
}
_SHELF_KEYS = ("aws_access_key_id", "aws_secret_access_key")
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "maxmem": 64 << 20}


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets by name; values are excluded from repr."""

    values: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def of(self, service: str) -> Mapping[str, bytes]:
        """Secrets of one service."""
        return {name: value for name, value in self.values.items() if service_of(name) == service}


def service_of(name: str | None) -> str | None:
    """Service of the secret with this name; None for an unknown name. A file's version does not count."""
    name = None if name is None else name.partition(".")[0]
    if name is not None and re.fullmatch(rf"{ALERTS}[a-z0-9][a-z0-9-]*", name):
        return "alertmanager"
    return "custom" if re.fullmatch(rf"{CUSTOM}[a-z0-9][a-z0-9-]*", name or "") else SERVICE_OF.get(name or "")


def read(path: Path) -> Secrets:
    """Read the secrets in `path`.

    Raises FleetError, with file and line but no content, where it is not a YAML file of known names, where other
    users can read it, or where git tracks it.
    """
    document = _nodes(path, _content(path))
    refuse_tracked(path)
    if not isinstance(document, yaml.MappingNode):
        raise FleetError(f"{path}:1: expected NAME: VALUE, with a name of {_NAMES}")
    values: dict[str, bytes] = {}
    for key, node in document.value:
        where = f"{path}:{key.start_mark.line + 1}"
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if name is None or service_of(name) is None:  # not printed: it may be a misplaced secret
            raise FleetError(f"{where}: unknown secret name, expected one of {_NAMES}")
        if name in values:
            raise FleetError(f"{where}: {name} is given twice")
        values[name] = _value(name, node, where)
    return Secrets(values)


def read_all(paths: Sequence[Path]) -> Secrets:
    """Read the secrets of several files. Raises FleetError as `read` does, and for a name that two files give."""
    values: dict[str, bytes] = {}
    owners: dict[str, Path] = {}
    for path in paths:
        for name, value in read(path).values.items():
            if owners.setdefault(name, path) != path:
                raise FleetError(f"{name} is given in {owners[name]} and in {path}: remove it from one of them")
            values[name] = value
    return Secrets(values)


def place(paths: Sequence[Path]) -> str:
    """The files in words, for advice on a missing secret."""
    return " or ".join(map(str, paths)) or "a file named as secrets in the inventory"


@functools.lru_cache(maxsize=64)
def versioned(name: str, value: bytes) -> str:
    """File name of a secret on a host: its name and a fingerprint of its value.

    Each value has a file of its own, so that every release finds its secrets. The fingerprint is public: it is slow to
    compute, against brute force.
    """
    fingerprint = hashlib.scrypt(value, salt=f"voxyard {name}".encode(), dklen=6, **_SCRYPT)
    return f"{name}.{fingerprint.hex()}"


def _content(path: Path) -> str:
    """Text of the file, after a check of its permissions."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FleetError(f"{path}: no such file, named as secrets in the inventory") from None
    except OSError as error:
        raise FleetError(f"{path}: the secrets cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FleetError(f"{path}: expected a regular file")
        _refuse_mode(path, found.st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST_FILE + 1)
    finally:
        os.close(descriptor)
    if len(data) > LARGEST_FILE:
        raise FleetError(f"{path}: larger than {LARGEST_FILE >> 20} MiB, expected a few secrets")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FleetError(f"{path}:{line}: not UTF-8 text: save it as UTF-8") from None


def _nodes(path: Path, text: str) -> yaml.Node | None:
    """Root node of the document. Parser messages may contain secrets: only the line is reported."""
    try:
        return compose(text)
    except YamlSyntaxError as error:
        line = error.line
    raise FleetError(f"{path}:{line}: not readable as YAML: quote values with special characters") from None


def _value(name: str, node: yaml.Node, where: str) -> bytes:
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str" or not node.value.strip():
        raise FleetError(f"{where}: {name}: expected a non-empty string: quote it")
    text = str(node.value)
    if any(ord(each) < 32 and each not in "\n\t" for each in text):
        raise FleetError(f"{where}: {name}: contains a control character")
    if len(text.strip()) < _SHORTEST.get(name, 1):
        raise FleetError(f"{where}: {name}: expected at least {_SHORTEST[name]} characters")
    if name == BARK_KEYS:
        _check_keys(text, where)
        return text.encode()
    if name == BARK_SHELF:
        _check_shelf_keys(text, where)
        return text.strip().encode() + b"\n"
    if name in _PEM:
        if not re.search(rf"^-----BEGIN (?:[A-Z]+ )?{_PEM[name]}-----$", text, re.MULTILINE):  # text may be before it
            raise FleetError(f"{where}: {name}: expected PEM, as a block (|) with a line -----BEGIN {_PEM[name]}-----")
        return text.strip().encode() + b"\n"
    if "\n" in text.rstrip("\n"):
        raise FleetError(f"{where}: {name}: expected one line")
    text = text.rstrip("\n")
    if name == CLUSTER_TOKEN and (len(text.split()) != 1 or not text.isascii()):
        raise FleetError(f"{where}: {name}: expected one word, such as what `openssl rand -hex 32` prints")
    return (_password_file(text) if name == BARK_STORE else text).encode()


def _password_file(password: str) -> str:
    """File of PGPASSFILE with this password, for whatever database the service is told to use."""
    escaped = re.sub(r"([\\:])", r"\\\1", password)
    return f"*:*:*:*:{escaped}\n"


def _check_shelf_keys(text: str, where: str) -> None:
    """Checks the format of AWS's own files: keys, and what else is needed to reach the bucket."""
    parser = configparser.RawConfigParser(default_section="")
    try:
        parser.read_string(text)
        given = set(parser["default"])
    except (configparser.Error, KeyError):  # whose words would show the keys
        given = set()
    if missing := [each for each in _SHELF_KEYS if each not in given]:
        raise FleetError(
            f"{where}: {BARK_SHELF}: no {' and no '.join(missing)}: expected lines as of AWS's own files, [default], "
            "aws_access_key_id = …, aws_secret_access_key = …, and region and endpoint_url where the bucket needs them"
        )


def _check_keys(text: str, where: str) -> None:
    """Checks the keys as the service reads them; what it says of a wrong one could show a piece of it."""
    try:
        keys = parse_keys(text, where)
    except ServiceError:
        raise FleetError(
            f"{where}: {BARK_KEYS}: expected what `voxyard keys new NAME --file FILE` and the other `voxyard keys` "
            "write: `voxyard keys list --file FILE` tells what is wrong in that file"
        ) from None
    if not keys:
        raise FleetError(
            f"{where}: {BARK_KEYS}: has comments and no key, so that nobody could use the service: `voxyard keys new "
            "NAME --file FILE` makes one"
        )
    if names := [name for name, known in keys.items() if isinstance(known.lexicon, str)]:
        raise FleetError(
            f"{where}: {BARK_KEYS}: the lexicon of {' and of '.join(names)} is a file, which the hosts do not have: "
            "write its words in place of its path, as lines such as `nginx: engine x`"
        )


def refuse_readable(path: Path) -> None:
    """Raises FleetError where other users can read or write the file."""
    try:
        _refuse_mode(path, path.stat().st_mode)
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_mode(path: Path, mode: int) -> None:
    if mode & 0o077:
        raise FleetError(f"{path}: other users can read or write it (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")


def refuse_tracked(path: Path) -> None:
    """Raises FleetError where git tracks the file."""
    path = path.resolve()  # git tracks the name of a link, not what is behind it
    command = ["git", "-C", str(path.parent), "ls-files", "--error-unmatch", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return  # no git, nothing tracked
    if done.returncode == 0:
        raise FleetError(
            f"{path}: tracked by git: run git rm --cached, add it to .gitignore, and change every secret in it"
        )
