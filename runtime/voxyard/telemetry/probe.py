"""Asks the exporter on this machine whether it is well; `python -m voxyard.telemetry.probe` is the health check.

It runs every few seconds for ever, so it imports next to nothing.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys

from voxyard.telemetry import TelemetryError

SECONDS = 4.0
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask instead


def probe(host: str, port: int) -> str:
    """What the exporter that listens on host:port says of its health, over HTTP or, where it speaks that, HTTPS.

    The certificate is not verified: this asks whether it answers, on an address of this machine. Raises TelemetryError,
    exit code 1, where it is not well or does not answer.
    """
    address = _EVERYWHERE.get(host, host)
    try:
        try:
            status, said = _ask(http.client.HTTPConnection(address, port, timeout=SECONDS))
        except (http.client.HTTPException, ConnectionResetError):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            status, said = _ask(http.client.HTTPSConnection(address, port, timeout=SECONDS, context=context))
    except (OSError, http.client.HTTPException) as error:
        raise TelemetryError(f"no exporter answers on {address}:{port} ({error})", exit_code=1) from error
    if status != 200:
        raise TelemetryError(f"the exporter on {address}:{port} is not well: {said}", exit_code=1)
    return said


def _ask(connection: http.client.HTTPConnection) -> tuple[int, str]:
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read(1000).decode(errors="replace").strip()
    finally:
        connection.close()


if __name__ == "__main__":
    try:
        probe(os.environ.get("VOXYARD_EXPORTER_HOST", ""), int(os.environ.get("VOXYARD_EXPORTER_PORT") or 9410))
    except TelemetryError as error:
        sys.exit(f"voxyard exporter: {error}")
