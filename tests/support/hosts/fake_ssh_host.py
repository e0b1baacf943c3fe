"""Fake host in a folder: `ssh`, `docker` and the list of ports in use are scripts, rsync and the shell are real."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local_session import LocalSession

# All ssh options in use take a value; the first other argument is the host, the rest the command.
_SSH = """#!/bin/sh
printf '%s\\n' "$@" > "$FAKE_HOST/ssh.log"
while [ $# -gt 0 ]; do case "$1" in -o|-p|-l|-F|-i|-W) shift 2;; *) break;; esac; done
shift
[ ! -e "$FAKE_HOST/refuse" ] || { cat "$FAKE_HOST/refuse" >&2; exit 255; }
cd "$FAKE_HOST/home" && HOME="$FAKE_HOST/home" exec sh -c "$*"
"""
# `docker NAME …` runs docker/NAME.sh; its command lines are logged in docker.log.
_DOCKER = """#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE_HOST/docker.log"
name=$1
case "$*" in *" up "*) name=up;; esac
[ ! -e "$FAKE_HOST/docker/$name.sh" ] || . "$FAKE_HOST/docker/$name.sh"
"""
# The host's ports are those of FakeHost.listens, not those of the machine that runs the tests.
_CAT = """#!/bin/sh
case "$1" in /proc/net/tcp) set -- "$FAKE_HOST/ports";; /proc/net/tcp6) exit 1;; esac
exec /bin/cat "$@"
"""
_PORTS = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@dataclass(frozen=True)
class FakeHost:
    """Fake host in a folder; `variables` put its scripts first in PATH."""

    folder: Path

    @property
    def home(self) -> Path:
        """The login's home directory on the host."""
        return self.folder / "home"

    @property
    def place(self) -> Path:
        """Folder ~/.voxyard of the host."""
        return self.home / ".voxyard"

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables of programs that use the host."""
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "FAKE_HOST": str(self.folder)}

    def session(self) -> LocalSession:
        """Open session to the host."""
        return LocalSession(self.home, self.variables)

    def answers(self, name: str, script: str) -> None:
        """Set the shell script of `docker NAME …`."""
        (self.folder / "docker" / f"{name}.sh").write_text(script)

    def listens(self, port: int) -> None:
        """Have a program of the host listen on a port, on all addresses."""
        with (self.folder / "ports").open("a") as file:
            file.write(f"   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1\n")

    def refuse(self, words: str) -> None:
        """Make ssh print this and fail."""
        (self.folder / "refuse").write_text(words)

    def asked(self, program: str) -> list[str]:
        """Command lines of `docker`, or the arguments of the last `ssh`."""
        log = self.folder / f"{program}.log"
        return log.read_text().splitlines() if log.exists() else []


def make(folder: Path) -> FakeHost:
    """Create an empty host."""
    for name in ("home", "bin", "docker"):
        (folder / name).mkdir(parents=True)
    (folder / "ports").write_text(_PORTS)
    for name, text in (("ssh", _SSH), ("docker", _DOCKER), ("cat", _CAT)):
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    return FakeHost(folder)
