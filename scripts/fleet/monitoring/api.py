"""Prometheus and Alertmanager of a monitoring host, asked on its own loopback: their ports are open to nobody else."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from fleet.errors import HostFailedError
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection_pool import Session

PROMETHEUS_PORT = 9090
ALERTMANAGER_PORT = 9093
SECONDS = 30


@dataclass(frozen=True, slots=True)
class Reply:
    """Response of an HTTP server."""

    status: int
    body: str

    @property
    def good(self) -> bool:
        """True where the request succeeded."""
        return 200 <= self.status < 300

    def document(self) -> Any:
        """The body as JSON. Raises ValueError where it is none."""
        return json.loads(self.body)


def request(name: str, port: int, method: str, path: str, document: object = None) -> Command:
    """An HTTP request to the host's loopback; bash is on every host, curl is not.

    HTTP/1.0: the server closes the connection at the end, and sends its answer in one piece.
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
    """Parsed response. Raises ValueError, with the reason, where there is none or it is no HTTP."""
    if not answer.ok:
        raise ValueError(answer.message)
    head, found, body = answer.out.partition("\r\n\r\n")
    words = head.split("\r\n")[0].split()
    if not found or len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        raise ValueError(f"expected an answer of HTTP, found {answer.out[:80]!r}")
    return Reply(int(words[1]), body)


def ask(session: Session, command: Command) -> Reply:
    """One request and its answer.

    Raises HostFailedError when the connection to the host breaks, or nothing answers there.
    """
    try:
        return reply(session.run([command])[command.name])
    except ValueError as error:
        raise HostFailedError(f"{command.name}: {error}: are the containers of monitoring up? fab monitoring") from None
