"""Command line of the GPU report: `python scripts/gpu_report`, which `make test-gpu` calls."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpu_report.run import main

if __name__ == "__main__":
    sys.exit(main())
