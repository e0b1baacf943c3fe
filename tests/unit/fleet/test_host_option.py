"""Tasks that need a host: without one, a message with a complete command, for `make` too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["logs"], "HOST (--host) is missing; for example: make logs HOST=gpu-01, or fab logs --host gpu-01"),
        (["drain"], "HOST (--host) is missing; for example: make drain HOST=gpu-01, or fab drain --host gpu-01"),
        (["unlock"], "HOST (--host) is missing; for example: make unlock HOST=gpu-01, or fab unlock --host gpu-01"),
        (["stop", "--run", "r-1"], "--host is missing; for example: fab stop --host gpu-01"),
        (["stop"], "--host and --run are missing; for example: fab stop --host gpu-01 --run RUN"),
        (["logs", "--host", "gpu-01"], 'make logs HOST=gpu-01 ARGS="--service bark"'),
        (["logs", "--host", "a,b", "--service", "bark"], "found 'a,b' as host, expected the name of one host"),
    ],
)
def test_a_missing_host_is_named_with_a_complete_command(arguments: list[str], said: str) -> None:
    fab = str(Path(sys.executable).with_name("fab"))
    on_the_path = {**os.environ, "PATH": f"{Path(fab).parent}:{os.environ['PATH']}"}
    done = subprocess.run([fab, *arguments], cwd=ROOT, env=on_the_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
