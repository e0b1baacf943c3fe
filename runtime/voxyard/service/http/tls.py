"""TLS of the service: its certificate, read anew when it is renewed, and time limits of connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError

log = logging.getLogger("voxyard.service")

HANDSHAKE_SECONDS = 10.0
"""Time limit of a handshake; asyncio's is 60 s, in which such a connection counts nowhere."""
_CLOSE_SECONDS = 2.0  # for the client's answer to the end of a connection
EVENT_LOOP = f"{__name__}:EventLoop"
"""Event loop with these limits, as uvicorn's configuration names it."""


class Certificate:
    """Certificate and key of the service; TLS 1.2 or newer.

    Raises:
        ServiceError: a file is missing or not readable, or the key is not the certificate's.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        self._versions = self._found()
        self.context = self._load()

    def renew(self) -> None:
        """Reads files that have changed, for new connections; the old certificate stays where they are wrong."""
        versions = self._found()
        if versions == self._versions:
            return
        self._versions = versions
        try:
            self._load()  # in a context of its own: a wrong pair would spoil the one in use
            self.context.load_cert_chain(self._certificate, self._key)
        except (OSError, ServiceError) as error:  # ssl.SSLError is an OSError
            log.warning("the old certificate stays in use: %s", error)
        else:
            log.info("the certificate in %s was renewed", self._certificate)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for name, path in (("tls_certificate", self._certificate), ("tls_key", self._key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise ServiceError(f"{name} {path}: {error.strerror}: expected a readable PEM file") from error
        try:
            context.load_cert_chain(self._certificate, self._key, password="")  # without: it would ask the terminal
        except (ssl.SSLError, ValueError) as error:
            raise ServiceError(
                f"tls_certificate {self._certificate} and tls_key {self._key} cannot be used ({error}): expected PEM, "
                "a certificate with its chain, and its key without a password"
            ) from error
        return context

    def _found(self) -> list[tuple[int, int] | None]:
        return [_version(path) for path in (self._certificate, self._key)]


def open_certificate(section: ServiceSection) -> Certificate | None:
    """The certificate of the settings; None for plain HTTP.

    Raises:
        ServiceError: as `Certificate`, or one of the two files is not set.
    """
    if section.tls_certificate is None and section.tls_key is None:
        return None
    if section.tls_certificate is None or section.tls_key is None:
        missing = "--tls-key" if section.tls_key is None else "--tls-certificate"
        raise ServiceError(f"{missing} is not set: TLS needs both --tls-certificate and --tls-key, a PEM file each")
    return Certificate(section.tls_certificate, section.tls_key)


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, with time limits for the begin and the end of TLS connections."""

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:
        """As asyncio's."""
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": _CLOSE_SECONDS}
        return await super().create_server(*arguments, **options)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
