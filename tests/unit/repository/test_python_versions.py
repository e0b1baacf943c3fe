"""Pinned packages on the newest Python that is supported, as an index offers them: nothing is run on it here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILT_FROM_SOURCE = (
    "docopt",
    "eng-to-ipa",
    "gpustat",
    "pocketsphinx",
)  # the first two are Python alone; a compiler builds the others
NEWEST = "3.12"


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-tf217.txt"])
def test_every_pinned_package_has_a_wheel_for_the_newest_python(file: str, tmp_path: Path) -> None:
    assert f'requires-python = ">=3.11,<3.{int(NEWEST.partition(".")[2]) + 1}"' in (ROOT / "pyproject.toml").read_text()
    pins = (ROOT / file).read_text(encoding="utf-8").splitlines()
    wanted = tmp_path / "pins.txt"
    wanted.write_text("\n".join(pin for pin in pins if pin.partition("==")[0] not in BUILT_FROM_SOURCE))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--no-deps",
        "--target",
        str(tmp_path / "none"),
    ]
    only = ["--python-version", NEWEST, "--only-binary", ":all:"]
    ended = subprocess.run([*pip, *only, "--requirement", str(wanted)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
