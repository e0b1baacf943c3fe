"""Health check of the exporter on this machine: `python -m voxyard.telemetry.healthcheck`.

With the argument `trainer` it checks the training run instead. It runs every few seconds for ever, so it imports next
to nothing.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys

from voxyard.telemetry import TelemetryError

SECONDS = 4.0
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask instead


def probe(host: str, port: int, name: str = "exporter") -> str:
    """Health of the service that listens on host:port, over HTTP or, where it speaks that, HTTPS.

    The certificate is not verified: this asks whether it answers, on an address of this machine. Raises TelemetryError,
    exit code 1, where it is unhealthy or does not answer.
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
        raise TelemetryError(f"no {name} answers on {address}:{port} ({error})", exit_code=1) from error
    if status != 200:
        raise TelemetryError(f"the {name} on {address}:{port} is unhealthy: {said}", exit_code=1)
    return said


def _ask(connection: http.client.HTTPConnection) -> tuple[int, str]:
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read(1000).decode(errors="replace").strip()
    finally:
        connection.close()


def ask(name: str, host_variable: str, port_variable: str, default: int) -> str | None:
    """Fault of the service that listens where these variables say, a sentence; None where it is healthy.

    Port 0 is well: then it listens nowhere.
    """
    try:
        port = int(os.environ.get(port_variable) or default)
        if port:
            probe(os.environ.get(host_variable, ""), port, name)
    except (TelemetryError, ValueError) as error:
        return f"voxyard: {error}"
    return None


if __name__ == "__main__":
    if sys.argv[1:] == ["trainer"]:
        sys.exit(ask("trainer", "VOXYARD_TRAIN_METRICS_HOST", "VOXYARD_TRAIN_METRICS_PORT", 0))
    sys.exit(ask("exporter", "VOXYARD_EXPORTER_HOST", "VOXYARD_EXPORTER_PORT", 9410))
