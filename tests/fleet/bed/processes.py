"""Records the command lines of all processes on this machine, hosts and containers included, while a block runs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fleet.bed.errors import BedError

_PROGRAM = Path(__file__).with_name("exec_watch.py")
_SETTLE = 0.05  # seconds in which what was told last is read


@contextlib.contextmanager
def watched(into: Path) -> Iterator[Path]:
    """Look at all processes while the block runs; `command_lines` reads `into` afterwards.

    Where the kernel tells of every program that begins (it tells the first pid namespace), none is missed; elsewhere
    one that lives a few milliseconds can be. Raises BedError when the watch does not begin.
    """
    with (
        into.open("wb") as file,
        subprocess.Popen([sys.executable, "-S", "-E", str(_PROGRAM)], stdin=subprocess.PIPE, stdout=file) as process,
    ):
        assert process.stdin is not None
        while not into.stat().st_size:
            if process.poll() is not None:
                raise BedError(f"the watch of processes ended at once, with exit code {process.returncode}")
            time.sleep(0.01)
        try:
            yield into
            time.sleep(_SETTLE)
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def command_lines(watch: Path) -> str:
    """Command lines of the processes, a paragraph each, words with spaces between."""
    return watch.read_bytes().replace(b"\0", b" ").decode(errors="replace")
