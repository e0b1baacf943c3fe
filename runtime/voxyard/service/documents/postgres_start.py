"""Waiting for a PostgreSQL server at a start, and what a connection that fails means, in words."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from pathlib import Path

import psycopg
from psycopg import pq

from voxyard.service.documents.server_answers import LOG_SECONDS
from voxyard.service.errors import StoreError

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_FULL = re.compile(r"too many (clients|connections)|connection slots")
_TLS = re.compile(r"\bSSL\b(?! SYSCALL)(?!.*\beof\b)|certificate", re.IGNORECASE)  # not of a server that restarts


def wait_for_server(conninfo: str, name: str, seconds: float) -> None:
    """Waits until the server accepts connections.

    Raises:
        StoreError: it has not for so many seconds, or for a reason that waiting does not mend.
    """
    began, logged, refused = time.monotonic(), -LOG_SECONDS, False
    while True:
        try:
            psycopg.connect(conninfo).close()
        except psycopg.OperationalError as error:
            reason, waited = first_line(error), time.monotonic() - began
            full = _FULL.search(reason) is not None
            if _TLS.search(str(error)):
                raise StoreError(
                    f"cannot open the database {name} with TLS: {reason}; check sslmode and sslrootcert in the URL of "
                    "--store (or PGSSLMODE, PGSSLROOTCERT): verify-full wants the certificate of the server's "
                    "authority, and the host as the server's certificate names it"
                ) from error
            accepts = pq.PGconn.ping(conninfo.encode()) in (pq.Ping.OK, pq.Ping.NO_ATTEMPT)
            if accepts and not full:
                if refused:
                    raise StoreError(f"cannot open the database {name}: {reason}; {_advice(reason)}") from error
                refused = True  # asked once more: it may have begun to accept between the two questions
                time.sleep(_RETRY_SECONDS)
                continue
            refused = False
            if waited >= seconds:
                raise StoreError(
                    f"the database {name} has had no connection left for {waited:.0f} s: {reason}; raise its "
                    "max_connections or the role's limit (a service takes up to 9), or end other clients"
                    if full
                    else f"the database {name} has not answered for {waited:.0f} s: {reason}; start PostgreSQL there, "
                    "or give another --store"
                ) from error
            if waited - logged >= LOG_SECONDS:
                logged = waited
                _log.warning("waiting for the database %s: %s", name, reason)
            time.sleep(_RETRY_SECONDS)
        else:
            return


def first_line(error: BaseException) -> str:
    """First line of a message, which has the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _advice(reason: str) -> str:
    """Remedy for a server that refuses."""
    if "password" in reason and (fault := _fault_of_password_file()):
        return fault
    return (
        "check the user and the database of --store, and the password in the file that PGPASSFILE names, which only "
        "its owner may read (chmod 600)"
    )


def _fault_of_password_file() -> str | None:
    """Reason why libpq takes no password from the file that PGPASSFILE names; None where it may be right."""
    if (name := os.environ.get("PGPASSFILE")) is None:
        return None
    try:
        mode = Path(name).stat().st_mode
        Path(name).read_bytes()
    except OSError as error:
        return f"PGPASSFILE names {name}, which cannot be read: {error.strerror}"
    if stat.S_IMODE(mode) & 0o077:
        return f"others may read {name}, which PGPASSFILE names, so that it is ignored: chmod 600 {name}"
    return None
