"""Command line of the demo: `python scripts/demo`, which `make demo` calls."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tests" / "nvml")]

from demo.flow import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
