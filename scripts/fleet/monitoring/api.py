"""HTTP requests to Prometheus and Alertmanager on the loopback of a monitoring host."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection_pool import Session

PROMETHEUS_PORT = 9090
ALERTMANAGER_PORT = 9093
SECONDS = 30


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP response."""

    status: int
    body: str

    @property
    def good(self) -> bool:
        """True for a 2xx status."""
        return 200 <= self.status < 300

    def document(self) -> Any:
        """Body as JSON. Raises ValueError for other content."""
        return json.loads(self.body)


def request(name: str, port: int, method: str, path: str, document: object = None) -> Command:
    """HTTP request to the host's loopback, with bash only: curl may be missing.

    HTTP/1.0: the server closes the connection at the end and sends no chunks.
    """
    body = "" if document is None else json.dumps(document)
    head = [
        f"{method} {path} HTTP/1.0",
        f"Host: 127.0.0.1:{port}",
        f"Content-Length: {len(body.encode())}",
        *(["Content-Type: application/json"] if body else []),
    ]
    text = "\r\n".join([*head, "", body])
    refused = f"{{ echo 'nothing listens on 127.0.0.1:{port}' >&2; exit 1; }}"
    script = (
        f"{{ exec 3<>/dev/tcp/127.0.0.1/{port}; }} 2>/dev/null || {refused}; "
        f"printf %s {shlex.quote(text)} >&3 && cat <&3"
    )
    return Command(name, f"bash -c {shlex.quote(script)}", SECONDS)


def reply(answer: Answer) -> Reply:
    """Parse the response. Raises ValueError for a failed request or no HTTP."""
    if not answer.ok:
        raise ValueError(answer.message)
    head, found, body = answer.out.partition("\r\n\r\n")
    words = head.split("\r\n")[0].split()
    if not found or len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        raise ValueError(f"expected an HTTP response, found {answer.out[:80]!r}")
    return Reply(int(words[1]), body)


def ask(session: Session, command: Command) -> Reply:
    """Send one request. Raises HostFailedError when the connection breaks, or nothing answers."""
    try:
        return reply(session.run([command])[command.name])
    except ValueError as error:
        raise HostFailedError(
            f"{command.name}: {error}: check that the monitoring containers run: {fab()} status"
        ) from None
