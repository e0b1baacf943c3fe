"""TLS and basic auth for scrapes, from a web configuration file, as Prometheus's exporters read it."""

from __future__ import annotations

import hmac
import secrets
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voxyard.settings.errors import SettingsError
from voxyard.telemetry.errors import TelemetryError

_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_TLS_KEYS = {"cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version"}
_TOP_KEYS = {"tls_server_config", "basic_auth_users", "http_server_config"}
_DEFAULT_HEADERS = {"X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Tls:
    """The server's certificate, and what is asked of clients."""

    cert_file: Path
    key_file: Path
    client_auth: ssl.VerifyMode
    client_ca_file: Path | None
    min_version: ssl.TLSVersion
    max_version: ssl.TLSVersion | None


@dataclass(frozen=True)
class WebConfig:
    """A valid web configuration file."""

    tls: Tls | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)  # name → bcrypt hash
    headers: Mapping[str, str] = field(default_factory=dict)

    def context(self) -> ssl.SSLContext | None:
        """A TLS context with the certificate as it lies on the disk now; None without TLS. Raises TelemetryError."""
        if self.tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self.tls.min_version
        if self.tls.max_version is not None:
            context.maximum_version = self.tls.max_version
        try:
            context.load_cert_chain(self.tls.cert_file, self.tls.key_file)
            if self.tls.client_ca_file is not None:
                context.load_verify_locations(self.tls.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise TelemetryError(
                f"the certificate cannot be used ({error}): look at {self.tls.cert_file}, {self.tls.key_file}"
                + (f" and {self.tls.client_ca_file}" if self.tls.client_ca_file else "")
            ) from error
        context.verify_mode = self.tls.client_auth
        return context


class BasicAuth:
    """Basic auth: checks names and passwords; an accepted password is not hashed again (bcrypt is slow)."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self._users = users
        self._secret = secrets.token_bytes(32)
        self._known: set[bytes] = set()
        self._one_at_a_time = threading.Lock()  # guesses must not take every core

    def accepts(self, name: str, password: str) -> bool:
        """True where the name is known and the password its own; an unknown name takes as long as a known one."""
        import bcrypt

        hashed = self._users.get(name)
        key = hmac.digest(self._secret, repr((name, password, hashed)).encode(), "sha256")
        if key in self._known:
            return True
        spent = hashed if hashed is not None else next(iter(self._users.values()))
        with self._one_at_a_time:
            right = bcrypt.checkpw(password.encode()[:72], spent) and hashed is not None
        if right:
            self._known.add(key)
        return right


def read_web_config(path: Path, *, option: str = "--web-config") -> WebConfig:
    """The file's settings; `option` names it. Raises TelemetryError with file, key and what was expected."""
    expected = f"expected a YAML file with {' or '.join(sorted(_TOP_KEYS))}, as Prometheus's exporters read it"
    from voxyard.settings.yaml_reader import read_plain  # most exporters need no PyYAML

    try:
        document = read_plain(path)
    except SettingsError as error:
        raise TelemetryError(f"{option} {error}: {expected}; leave the option out for plain HTTP") from error
    document = _mapping(path, "", {} if document is None else document, _TOP_KEYS)
    http = _mapping(path, "http_server_config", document.get("http_server_config") or {}, {"http2", "headers"})
    tls = document.get("tls_server_config")
    return WebConfig(
        tls=_tls(path, tls) if tls else None,
        users=_users(path, document.get("basic_auth_users") or {}),
        headers=_DEFAULT_HEADERS | _texts(path, "http_server_config.headers", http.get("headers") or {}),
    )


def _tls(path: Path, document: Any) -> Tls:
    where = "tls_server_config"
    given = _texts(path, where, _mapping(path, where, document, _TLS_KEYS))
    for needed in ("cert_file", "key_file"):
        if needed not in given:
            raise TelemetryError(f"{path}: {where}.{needed} is missing: expected the path of a PEM file")
    auth = _one_of(path, f"{where}.client_auth_type", given.get("client_auth_type", "NoClientCert"), _CLIENT_AUTH)
    if (auth != ssl.CERT_NONE) != ("client_ca_file" in given):
        raise TelemetryError(
            f"{path}: {where}: client_ca_file and a client_auth_type that verifies belong together: "
            "give both or neither"
        )
    most = given.get("max_version")
    return Tls(
        cert_file=path.parent / given["cert_file"],
        key_file=path.parent / given["key_file"],
        client_auth=auth,
        client_ca_file=path.parent / given["client_ca_file"] if "client_ca_file" in given else None,
        min_version=_one_of(path, f"{where}.min_version", given.get("min_version", "TLS12"), _VERSIONS),
        max_version=None if most is None else _one_of(path, f"{where}.max_version", most, _VERSIONS),
    )


def _users(path: Path, document: Any) -> dict[str, bytes]:
    users = _texts(path, "basic_auth_users", document)
    for name, hashed in users.items():
        if not hashed.startswith(("$2a$", "$2b$", "$2y$")) or len(hashed) != 60:
            raise TelemetryError(
                f"{path}: basic_auth_users.{name} is no bcrypt hash: expected what "
                f"`htpasswd -nBC 10 {name}` prints after the colon"
            )
    return {name: hashed.encode() for name, hashed in users.items()}


def _mapping(path: Path, where: str, document: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise TelemetryError(
            f"{path}: {where or 'the file'}: expected keys and values, found {type(document).__name__}"
        )
    unknown = sorted(str(key) for key in document if key not in known)
    if unknown:
        raise TelemetryError(
            f"{path}: {where + ': ' if where else ''}{', '.join(unknown)} is not supported here: "
            f"expected {', '.join(sorted(known))}"
        )
    return document


def _texts(path: Path, where: str, document: Any) -> dict[str, str]:
    if not isinstance(document, dict):
        raise TelemetryError(f"{path}: {where}: expected keys and texts, found {type(document).__name__}")
    wrong = [str(key) for key, value in document.items() if not isinstance(value, str)]
    if wrong:
        raise TelemetryError(f"{path}: {where}.{wrong[0]}: expected a text")
    return {str(key): value for key, value in document.items()}


def _one_of(path: Path, where: str, value: str, known: Mapping[str, Any]) -> Any:
    if value not in known:
        raise TelemetryError(f"{path}: {where} is {value}: expected one of {', '.join(known)}")
    return known[value]
