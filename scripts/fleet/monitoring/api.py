"""HTTP requests to Prometheus and Alertmanager on the loopback of a monitoring host."""

from __future__ import annotations

from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import Reply, http, reply

PROMETHEUS_PORT = 9090
ALERTMANAGER_PORT = 9093
SECONDS = 30


def request(name: str, port: int, method: str, path: str, document: object = None) -> Command:
    """HTTP request to the host's loopback."""
    return http(name, "127.0.0.1", port, path, method, document=document, seconds=SECONDS)


def ask(session: Session, command: Command) -> Reply:
    """Send one request. Raises HostFailedError when the connection breaks, or nothing answers."""
    try:
        return reply(session.run([command])[command.name])
    except ValueError as error:
        raise HostFailedError(
            f"{command.name}: {error}: check that the monitoring containers run: {fab()} status"
        ) from None
