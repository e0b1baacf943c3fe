"""Command line of the demo: `python scripts/demo`, which `make demo` calls."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType


def interrupted(_number: int, _frame: FrameType | None) -> None:
    """Ends the demo before it has started anything."""
    os.write(2, b"interrupted: the demo had not begun\n")
    os._exit(130)


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, interrupted)  # before the imports, which take a second

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tests" / "nvml")]

from demo.flow import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
