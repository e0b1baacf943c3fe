"""Command batch: several shell commands in one SSH exchange, and the parser of their output."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST = 500  # characters
TIMED_OUT = 124  # exit code of coreutils' `timeout`


@dataclass(frozen=True, slots=True)
class Command:
    """Shell command (POSIX sh) with a name and a timeout in seconds."""

    name: str
    text: str
    seconds: int = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """Output and exit code of a command."""

    out: str
    err: str = ""
    code: int = 0

    @property
    def ok(self) -> bool:
        """True where it succeeded."""
        return self.code == 0

    @property
    def message(self) -> str:
        """Failure message on one line."""
        if self.code == TIMED_OUT:
            return "timed out"
        said = " ".join((self.err.strip() or self.out.strip() or f"exit code {self.code}").split())
        return said if len(said) <= _LONGEST else f"…{said[-_LONGEST:]}"  # the reason is at the end


def script(commands: Sequence[Command]) -> tuple[str, str]:
    """Shell script that runs all commands, even after a failure, and the marker that separates their output."""
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
    """Answers by command name; a command that was cut off has no answer."""
    errors = dict(_parts(err, marker))
    answers = {}
    for name, text in _parts(out, marker):
        body, mark, code = text.rpartition(f"\n{marker} end ")
        if mark:
            answers[name] = Answer(body, errors.get(name, ""), int(code))
    return answers


def marked(command: Command) -> tuple[str, str]:
    """Shell script for a command that reads standard input, and the marker before its exit code."""
    marker = f"--voxyard-{secrets.token_hex(8)}"
    return f"sh -c {shlex.quote(command.text)}; printf '\\n{marker} end %s\\n' $? >&2", marker


def unmarked(out: str, err: str, marker: str) -> Answer | None:
    """Answer of the command; None where the session ended before it."""
    said, mark, code = err.rpartition(f"\n{marker} end ")
    return Answer(out, said, int(code)) if mark else None


def _parts(text: str, marker: str) -> list[tuple[str, str]]:
    pieces = re.split(rf"\n{re.escape(marker)} begin (\S+)\n", text)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))
