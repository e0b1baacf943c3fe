"""Programs of tests: those that a machine may lack, with the sentence that leaves tests out; small ones of Python."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

PACKAGES = {  # Debian's, by the program that a test needs
    "alertmanager": "prometheus-alertmanager", "amtool": "prometheus-alertmanager", "chromium": "chromium",
    "createdb": "postgresql", "createuser": "postgresql",
    "curl": "curl", "ffprobe": "ffmpeg", "g++": "g++", "gcc": "gcc", "haproxy": "haproxy", "initdb": "postgresql",
    "ip": "iproute2", "munged": "munge", "node": "nodejs", "node_exporter": "prometheus-node-exporter", "npm": "npm",
    "pdftotext": "poppler-utils", "postgres": "postgresql", "prometheus": "prometheus", "promtool": "prometheus",
    "redis-server": "redis-server", "rsync": "rsync", "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm",
    "ssh": "openssh-client", "ssh-agent": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server",
    "systemd-analyze": "systemd", "tc": "iproute2", "unshare": "util-linux",
}  # fmt: skip
_OF_DEBIAN = {"alertmanager": "prometheus-alertmanager", "node_exporter": "prometheus-node-exporter"}  # its names
_DATABASES = Path("/usr/lib/postgresql")  # Debian's programs of PostgreSQL, by version


def found(program: str) -> str | None:
    """Path of a program, also where it is not on the PATH of every user; None where it is not installed."""
    if of_databases := sorted(_DATABASES.glob(f"*/bin/{program}"), key=lambda each: float(each.parts[-3])):
        return str(of_databases[-1])
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return shutil.which(_OF_DEBIAN.get(program, program), path=path) or shutil.which(program, path=path)


def lacking(programs: Iterable[str]) -> str | None:
    """What is missing of these programs, and how to install it; None where all are there."""
    package_of = {each: PACKAGES[each] for each in programs}  # on every machine, that none is forgotten
    missing = [each for each in package_of if found(each) is None]
    packages = " ".join(sorted({package_of[each] for each in missing}))
    return f"{' and '.join(missing)} not installed: apt-get install {packages}" if missing else None


def program(name: str) -> str:
    """Path of a program; leaves the test out where it is not installed, which under CI counts as a failure."""
    path = found(name)
    if path is None:
        pytest.skip(str(lacking([name])))
    return path


def python_program(code: str) -> str:
    """A program that runs Python code; unlike the path of `#!` its interpreter's may have blanks."""
    return f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''
{code}"""
