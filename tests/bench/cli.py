"""Benchmark of `voxyard --help` beside an interpreter that does nothing → build/bench/cli.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "cli.json"


def main() -> None:
    """Measure, print the table and write the file."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    contestants = {
        "help": [sys.executable, "-m", "voxyard", "--help"],
        "bare_python": [sys.executable, "-c", "pass"],
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, command in contestants.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    result = {
        "name": "cli",
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "ratios": {"help_vs_bare_python": medians["help"] / medians["bare_python"]},
        "figures": {f"{name}_seconds": seconds for name, seconds in medians.items()},
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, seconds in medians.items():
        print(f"{name:12} {seconds * 1000:7.1f} ms (median of {ROUNDS})")
    print(f"ratio        {result['ratios']['help_vs_bare_python']:7.2f}")  # type: ignore[index]


if __name__ == "__main__":
    main()
