"""Interrupted connections: at a command."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.fleet.bed.host import GpuHost
from tests.fleet.bed.stand_ins import replaced_program

Moment = Literal["before", "after"]
Rest = Literal["dies", "goes on"]
"""What becomes of the commands that the login has started: a network that breaks lets them go on until they speak."""
_CUT = "/opt/bed/cut.py"


@dataclass(frozen=True)
class Cut:
    """A cut that waits for its moment."""

    host: GpuHost
    mark: str  # a file in the host, there once it has happened

    def happened(self) -> bool:
        """True where its moment came."""
        return self.host.run(f"[ -e {self.mark} ]", check=False).returncode == 0


@contextlib.contextmanager
def cut_at(
    host: GpuHost, program: str, arguments: str = "*", *, moment: Moment = "before", rest: Rest = "dies"
) -> Iterator[Cut]:
    """While the block runs, the first call of `program` with such arguments (a shell's pattern) cuts the logins.

    `before`: it does not come to run the real program; `after`: it has run it. It happens once.
    """
    cut = Cut(host, _mark())
    now = f"python3 {_CUT} {_word(rest)}; exit 137"
    did = f'"$REAL" "$@"; {now}' if moment == "after" else now
    script = f"""case "$*" in
      {_pattern(arguments)}) if mkdir {cut.mark} 2>/dev/null; then {did}; fi ;;
    esac
    exec "$REAL" "$@" """
    with replaced_program(host, program, script):
        yield cut


def _mark() -> str:
    return f"/tmp/bed-cut-{secrets.token_hex(4)}"


def _word(rest: Rest) -> str:
    return "dies" if rest == "dies" else "now"


def _pattern(arguments: str) -> str:
    """For `case`: everything but the pattern's own signs is quoted."""
    return "".join(each if each in "*?[]" else shlex.quote(each) for each in arguments)
