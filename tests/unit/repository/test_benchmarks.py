"""The programs of `make bench-…` and `make soak` begin: each finds what it imports, without pytest's paths."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted(set(re.findall(r"tests/bench/\w+\.py", (ROOT / "Makefile").read_text(encoding="utf-8"))))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_benchmark_begins(program: str) -> None:
    done = subprocess.run(
        [sys.executable, program, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
