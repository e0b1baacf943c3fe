"""Replaces programs of a host for the duration of a block."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

from tests.fleet.bed.host import GpuHost

_PLACE = "/usr/local/bin"  # first in the PATH of a login


@contextlib.contextmanager
def replaced_program(host: GpuHost, program: str, script: str) -> Iterator[None]:
    """A shell script is what logins find as `program`; in it, "$REAL" is the real one (/bin/false where none is)."""
    path = shlex.quote(f"{_PLACE}/{program}")
    found = host.run(f'real=$(command -v {shlex.quote(program)}) && readlink -f "$real" || echo /bin/false')
    real = found.stdout.strip()
    host.write(f"{_PLACE}/{program}", f"#!/bin/sh\nREAL={real}\n{script}\n", mode="0755")
    try:
        yield
    finally:
        # A shell that still runs may remember the place: from now on it leads to the real program.
        host.run(f"rm -f {path}" if real == "/bin/false" else f"ln -s {real} {path}.part && mv -f {path}.part {path}")
