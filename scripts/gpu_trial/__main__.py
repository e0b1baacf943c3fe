"""Command line of the GPU trial: `python scripts/gpu_trial`, which `make gpu-trial` calls."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpu_trial.run import main

if __name__ == "__main__":
    sys.exit(main())
