"""Command batch: several shell commands in one SSH exchange, and the parser of their output.

A command is one of its own, or a verb of host/voxyard-host.sh: that script travels once with each exchange that needs
it, so that a host never runs another version of it.
"""

from __future__ import annotations

import functools
import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOST_SCRIPT = Path(__file__).parents[1] / "host/voxyard-host.sh"
_NAME = HOST_SCRIPT.stem
_LONGEST = 500  # characters
_UNSAFE = re.compile(rb"[^\w /.,:;=|<>(){}\[\]*?#~%@^&+-]")
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
TIMED_OUT = 124  # exit code of coreutils' `timeout`

# Where programs are that a login without a terminal may not find: those of the administrator, of a NAS, of Flatcar, of
# NixOS, of NVIDIA's in WSL, of snap, and the system's own, which a PATH set in ~/.bashrc may have replaced.
_PROGRAMS = (
    *("/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/bin"),
    *("/run/current-system/sw/bin", "/usr/lib/wsl/lib", "/snap/bin", "/usr/bin", "/bin"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """Shell command (POSIX sh) with a name and a timeout in seconds."""

    name: str
    text: str
    seconds: int = 20

    @property
    def is_verb(self) -> bool:
        """True for a verb of the host script."""
        return self.text.startswith(f"{_NAME} ")

    @property
    def shell(self) -> str:
        """Shell text that needs nothing else."""
        return self.started_by(_host_script())

    def started_by(self, program: str) -> str:
        """Shell text, with the word that expands to the host script."""
        return f"sh -c {program} {self.text}" if self.is_verb else f"sh -c {shlex.quote(self.text)}"


def verb(*words: str) -> str:
    """Text of a command that is a verb of the host script, with its arguments."""
    return shlex.join((_NAME, *words))


def host_verb(name: str, *words: str, seconds: int = 20) -> Command:
    """Command that is a verb of the host script, which says what it does; for messages it is named as that."""
    return Command(name.replace("_", "-"), shlex.join((_NAME, name, *words)), seconds)


@functools.cache
def _host_script() -> str:
    """The host script as one word of a shell."""
    return shlex.quote(HOST_SCRIPT.read_text(encoding="utf-8"))


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


def decoded(data: bytes) -> str:
    """What a host says, without the colours and control characters that would change the terminal which shows it."""
    return _CONTROL.sub("", data.decode(errors="replace"))


def _placed(state_dir: str | None) -> list[str]:
    """Lines that make programs speak English, whose words are read, find them, and say where the host's files are."""
    elsewhere = [] if state_dir is None else [f"export VOXYARD_STATE_DIR={shlex.quote(state_dir)}"]
    return ["export LC_ALL=C", f'export PATH="${{PATH:+$PATH:}}{":".join(_PROGRAMS)}"', *elsewhere]


def for_any_shell(text: str) -> str:
    """Command line that runs a script with /bin/sh, whatever the shell of the login is.

    csh takes no line break within quotes and expands `!` there, fish takes two backslashes for one: none of these is
    left, nor what sh expands within double quotes. To BusyBox's shell `sh` alone is itself, with programs of its own.
    """
    plain = _UNSAFE.sub(lambda found: b"\\0%03o" % found[0][0], text.encode(errors="surrogateescape")).decode()
    return f"""/bin/sh -c 'eval "$(printf %b "{plain}")"'"""


def script(commands: Sequence[Command], state_dir: str | None = None) -> tuple[str, str]:
    """Shell script that runs all commands, even after a failure, and the marker that separates their output."""
    marker = f"--voxyard-{secrets.token_hex(8)}"
    lines = [
        *_placed(state_dir),
        f"begin() {{ printf '\\n{marker} begin %s\\n' \"$1\"; printf '\\n{marker} begin %s\\n' \"$1\" >&2; }}",
        f"end() {{ printf '\\n{marker} end %s\\n' \"$1\"; }}",
    ]
    if any(command.is_verb for command in commands):
        lines.append(f"voxyard_host={_host_script()}")
    for command in commands:
        lines.append(f"begin {shlex.quote(command.name)}")
        started = command.started_by('"$voxyard_host"')
        lines.append(f"timeout -k 2 {command.seconds} {started} </dev/null; end $?")
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


def marked(command: Command, state_dir: str | None = None) -> tuple[str, str]:
    """Shell script for a command that reads standard input, and the marker around its output."""
    marker = f"--voxyard-{secrets.token_hex(8)}"
    begin = f"printf '\\n{marker} begin\\n'"
    end = f"printf '\\n{marker} end %s\\n' $? >&2"
    return "\n".join([*_placed(state_dir), f"{begin}; {begin} >&2; {command.shell}; {end}"]), marker


def unmarked(out: str, err: str, marker: str) -> Answer | None:
    """Answer of the command; None where the session ended before it."""
    said, mark, code = err.rpartition(f"\n{marker} end ")
    begin = f"\n{marker} begin\n"  # before it stands what the login prints
    return Answer(out.partition(begin)[2], said.partition(begin)[2], int(code)) if mark else None


def _parts(text: str, marker: str) -> list[tuple[str, str]]:
    pieces = re.split(rf"\n{re.escape(marker)} begin (\S+)\n", text)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))
