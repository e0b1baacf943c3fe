"""Inventory from a program: an executable that prints it, or standard input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fleet.errors import FleetError

STANDARD_INPUT = "-"
_SECONDS = 120
_PROGRAM = (b"#!", b"\x7fELF")


def printed(path: Path) -> bytes | None:
    """What the program in `path` prints, or standard input for `-`; None for a file that is the inventory itself.

    A file that is executable and no program, as all are on some file systems, is an inventory. Raises FleetError.
    """
    if path.name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        with path.open("rb") as file:
            begins = file.read(4)
    except OSError:
        return None  # which its reader says
    if not begins.startswith(_PROGRAM) or not os.access(path, os.X_OK):
        return None
    try:
        done = subprocess.run(
            [path], cwd=path.parent, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FleetError(
            f"{path} does not end: expected a program that prints the inventory within {_SECONDS} s"
        ) from None
    except OSError as error:
        raise FleetError(
            f"{path} cannot be run ({error.strerror}): expected a program that prints the inventory"
        ) from None
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())[-300:] or "no message"
        raise FleetError(
            f"{path} ended with exit code {done.returncode} ({said}): it must print the inventory and end with 0"
        )
    return done.stdout
