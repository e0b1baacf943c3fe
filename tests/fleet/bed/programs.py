"""Local programs: found, run, waited for, with their output in errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.fleet.bed.errors import BedError

# Debian's places first: a static client elsewhere may be of another release than the engine.
SEARCH = "/usr/bin:/usr/sbin:/bin:/sbin:" + os.environ.get("PATH", "")
PACKAGES: Mapping[str, str] = {
    "docker": "docker.io (from Debian 13 on: docker-cli)",
    "dockerd": "docker.io",
    "iptables": "iptables",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
    "gpgv": "gpgv",
    "apt-get": "apt",
    "dpkg": "dpkg",
    "tar": "tar",
    "gcc": "gcc libc6-dev",
    "ssh": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "umount": "mount",
}
"""The Debian package of each program that the bed starts on this machine."""


def find(name: str) -> str:
    """Path of the program. Raises BedError naming its package."""
    if path := shutil.which(name, path=SEARCH):
        return path
    raise BedError(f"{name} is missing: apt-get install {PACKAGES.get(name, name)}")


def missing() -> list[str]:
    """Requirements of the bed that this machine lacks, a sentence each."""
    lacks = [f"{name} ({package})" for name, package in PACKAGES.items() if shutil.which(name, path=SEARCH) is None]
    found = [f"programs are missing, install their packages: {', '.join(lacks)}"] if lacks else []
    if os.geteuid() != 0:
        found.append("the Docker engine of the test bed needs root: run the tests as root")
    return found


def run(
    command: Sequence[str | Path],
    *,
    seconds: float = 600,
    check: bool = True,
    environment: Mapping[str, str] | None = None,
    text_in: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its first word is looked for as `find` does.

    Raises BedError when it takes longer than `seconds`, or with `check` when it fails: with the end of what it said.
    """
    words = [find(str(command[0])), *(str(word) for word in command[1:])]
    said = " ".join(words)[:200]
    try:
        done = subprocess.run(
            words,
            input=text_in,
            stdin=subprocess.DEVNULL if text_in is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=None if environment is None else {**os.environ, **environment},
        )
    except subprocess.TimeoutExpired as error:
        raise BedError(f"did not end within {seconds:.0f} s: {said}") from error
    if check and done.returncode != 0:
        end = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-1500:]
        raise BedError(f"exit code {done.returncode}: {said}\n{end}")
    return done


def wait_until(ready: Callable[[], bool], what: str, *, seconds: float = 120, every: float = 0.2) -> None:
    """Ask again and again until it is so. Raises BedError after `seconds`."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise BedError(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(every)
