"""uvicorn's next minor version: the server's tests run on it, as parts are used that uvicorn does not document."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from voxyard.service.http.protocol import PRIVATE_PARTS

ROOT = Path(__file__).parents[3]


def test_the_parts_that_are_used_are_there() -> None:
    made = H11Protocol.__init__.__code__.co_names
    assert set(PRIVATE_PARTS) <= set(made)
    assert callable(H11Protocol.send_400_response)


@pytest.mark.slow
def test_the_server_works_on_the_next_uvicorn(tmp_path: Path) -> None:
    major, minor = (int(part) for part in version("uvicorn").split(".")[:2])
    wanted = f"uvicorn>={major}.{minor + 1},<{major + 1}"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(tmp_path / "next"), wanted]
    installed = subprocess.run(pip, capture_output=True, text=True, timeout=120)
    if installed.returncode and "No matching distribution" in installed.stderr:
        return  # there is none yet
    assert installed.returncode == 0, installed.stderr[-1000:]
    path = os.pathsep.join(filter(None, (str(tmp_path / "next"), str(ROOT / "runtime"), os.environ.get("PYTHONPATH"))))
    tests = [str(ROOT / "tests/unit/service" / name) for name in ("test_server.py", "http")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, f"on {wanted}: {done.stdout[-3000:]}"
