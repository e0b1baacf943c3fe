"""What is done over a session again and again: a command that must work, files as an archive, HTTP, waiting."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol, TypeVar

from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown
from fleet.ssh.command_batch import Answer, Command, verb
from fleet.ssh.connection_pool import Session

T = TypeVar("T")


class Clock(Protocol):
    """Source of the time, and of waits, which may be cut short by an exception."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""

    def wait(self, seconds: float) -> None:
        """Wait."""


def must(
    session: Session, host: str, what: str, command: Command, data: Iterable[bytes] | None = None, *, other: int = 0
) -> Answer:
    """Run a command, with `data` on its standard input. Raises HostFailedError, "HOST could not WHAT", where it fails.

    `other` is an exit code that is an answer, too.
    """
    answer = session.run([command])[command.name] if data is None else session.send(command, data)
    if answer.code not in (0, other):
        raise HostFailedError(f"{host} could not {what}: {answer.message}")
    return answer


def must_know(fact: Fact[T], answers: Mapping[str, Answer], otherwise: str) -> T:
    """Value of a fact. Raises HostFailedError, "OTHERWISE: REASON", where it is not known."""
    found = fact.among(answers)
    if isinstance(found, Unknown):
        raise HostFailedError(f"{otherwise}: {found.reason}")
    return found


def wait_until(problem: Callable[[], str | None], seconds: float, clock: Clock, poll_seconds: float) -> str | None:
    """Wait until there is no problem; the last one where there still is one after `seconds`."""
    end = clock.now() + seconds
    while (found := problem()) is not None and clock.now() < end:
        clock.wait(poll_seconds)
    return found


def tar_of(files: Iterable[tuple[str, bytes]], modes: Mapping[str, int] | None = None) -> bytes:
    """Tar archive of files, of which those without a mode are the owner's alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), (modes or {}).get(name, 0o600)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def files_of(text: str) -> dict[str, bytes]:
    """Files of a tar archive in base64; none for no text. Raises ValueError for another text, and for members
    that are neither files nor folders, or outside of it.
    """
    found: dict[str, bytes] = {}
    if not text.strip():
        return found
    try:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                    raise ValueError(f"{member.name!r} is in it, expected files and folders only")
                if (body := archive.extractfile(member)) is not None:
                    found[member.name.removeprefix("./")] = body.read()
    except tarfile.TarError as error:
        raise ValueError(str(error)) from error
    return found


@dataclass(frozen=True, slots=True)
class Tls:
    """Verification of a service's certificate on its host."""

    name: str  # that it is for
    authorities: str  # file with the roots, below the directory of the host's state


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


def http(
    name: str,
    address: str,
    port: int,
    path: str,
    method: str = "GET",
    tls: Tls | None = None,
    document: object = None,
    seconds: int = 10,
) -> Command:
    """Prints the response of an HTTP request, head and body; needs bash only, not curl, and with TLS openssl.

    `document` is sent as JSON, without TLS only.
    """
    target = "127.0.0.1" if address == "0.0.0.0" else "::1" if address == "::" else address  # noqa: S104
    words = [method, target, str(port), path]
    if tls is not None:
        return Command(name, verb("https_request", *words, tls.authorities, tls.name), seconds)
    return Command(name, verb("http_request", *words, *([] if document is None else [json.dumps(document)])), seconds)


def reply(answer: Answer) -> Reply:
    """Parse the response to `http`. Raises ValueError for a failed request or no HTTP."""
    if not answer.ok:
        raise ValueError(answer.message)
    head, found, body = answer.out.partition("\r\n\r\n")
    words = head.split("\r\n")[0].split()
    if not found or len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        raise ValueError(f"expected an HTTP response, found {answer.out[:80]!r}")
    return Reply(int(words[1]), body)
