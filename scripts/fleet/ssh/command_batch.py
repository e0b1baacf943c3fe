"""Several commands in one exchange with a host: the script that runs them, and their answers out of its output."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST = 500  # characters
TIMED_OUT = 124  # what coreutils' `timeout` answers


@dataclass(frozen=True, slots=True)
class Command:
    """A command line for a POSIX shell, under a name, with the seconds it may take."""

    name: str
    text: str
    seconds: int = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """Output of a command, and its exit code."""

    out: str
    err: str = ""
    code: int = 0

    @property
    def ok(self) -> bool:
        """True where it succeeded."""
        return self.code == 0

    @property
    def message(self) -> str:
        """Message of its failure, on one line."""
        if self.code == TIMED_OUT:
            return "it did not end in time"
        said = " ".join((self.err.strip() or self.out.strip() or f"exit code {self.code}").split())
        return said if len(said) <= _LONGEST else f"…{said[-_LONGEST:]}"  # the reason comes last


def script(commands: Sequence[Command]) -> tuple[str, str]:
    """A shell script that runs all commands, a failing one too, and the marker with which it parts their output."""
    marker = f"--voxyard-{secrets.token_hex(8)}"
    lines = [
        f"begin() {{ printf '\\n{marker} begin %s\\n' \"$1\"; printf '\\n{marker} begin %s\\n' \"$1\" >&2; }}",
        f"end() {{ printf '\\n{marker} end %s\\n' \"$1\"; }}",
    ]
    for command in commands:
        lines.append(f"begin {shlex.quote(command.name)}")
        lines.append(f"timeout -k 2 {command.seconds} sh -c {shlex.quote(command.text)} </dev/null; end $?")
    return "\n".join(lines), marker


def split(out: str, err: str, marker: str) -> dict[str, Answer]:
    """The answers by name; a command that has no end, because the session was cut, has no answer."""
    errors = dict(_parts(err, marker))
    answers = {}
    for name, text in _parts(out, marker):
        body, mark, code = text.rpartition(f"\n{marker} end ")
        if mark:
            answers[name] = Answer(body, errors.get(name, ""), int(code))
    return answers


def marked(command: Command) -> tuple[str, str]:
    """A shell script that runs a command which reads standard input, and the marker before its exit code."""
    marker = f"--voxyard-{secrets.token_hex(8)}"
    return f"sh -c {shlex.quote(command.text)}; printf '\\n{marker} end %s\\n' $? >&2", marker


def unmarked(out: str, err: str, marker: str) -> Answer | None:
    """Its answer; none where the session was cut before its end."""
    said, mark, code = err.rpartition(f"\n{marker} end ")
    return Answer(out, said, int(code)) if mark else None


def _parts(text: str, marker: str) -> list[tuple[str, str]]:
    pieces = re.split(rf"\n{re.escape(marker)} begin (\S+)\n", text)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))
