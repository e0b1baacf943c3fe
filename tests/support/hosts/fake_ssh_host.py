"""Fake host in a folder: `ssh` and `docker` are scripts, rsync and the shell are real."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local_session import LocalSession

# ssh's options take a value each but for none that we use; the first other word is the host, the rest the command.
_SSH = """#!/bin/sh
printf '%s\\n' "$@" > "$FAKE_HOST/ssh.log"
while [ $# -gt 0 ]; do case "$1" in -o|-p|-l|-F|-i|-W) shift 2;; *) break;; esac; done
shift
[ ! -e "$FAKE_HOST/refuse" ] || { cat "$FAKE_HOST/refuse" >&2; exit 255; }
cd "$FAKE_HOST/home" && HOME="$FAKE_HOST/home" exec sh -c "$*"
"""
# What `docker WORDS…` answers lies in files named after the first words; what it was asked stands in docker.log.
_DOCKER = """#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE_HOST/docker.log"
name=$1
case "$*" in *" up "*) name=up;; esac
[ ! -e "$FAKE_HOST/docker/$name.sh" ] || . "$FAKE_HOST/docker/$name.sh"
"""


@dataclass(frozen=True)
class FakeHost:
    """Stand-in host in a folder; `variables` make programs that are started here find its scripts first."""

    folder: Path

    @property
    def home(self) -> Path:
        """The login's home directory on the host."""
        return self.folder / "home"

    @property
    def place(self) -> Path:
        """Folder of voxyard there."""
        return self.home / ".voxyard"

    @property
    def variables(self) -> Mapping[str, str]:
        """For the environment."""
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "FAKE_HOST": str(self.folder)}

    def session(self) -> LocalSession:
        """An open connection to it, where the variables are set."""
        return LocalSession(self.home)

    def answers(self, name: str, script: str) -> None:
        """`docker NAME …` runs this shell script from now on."""
        (self.folder / "docker" / f"{name}.sh").write_text(script)

    def refuse(self, words: str) -> None:
        """ssh says this, and fails."""
        (self.folder / "refuse").write_text(words)

    def asked(self, program: str) -> list[str]:
        """The command lines that `docker` was called with, or the words of the last one that `ssh` was."""
        log = self.folder / f"{program}.log"
        return log.read_text().splitlines() if log.exists() else []


def make(folder: Path) -> FakeHost:
    """A host with nothing on it."""
    for name in ("home", "bin", "docker"):
        (folder / name).mkdir(parents=True)
    for name, text in (("ssh", _SSH), ("docker", _DOCKER)):
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    return FakeHost(folder)
