"""`make soak`: what grows is told, and a minute of a soak loses nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "soak.py"


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("soak", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        spec.loader.exec_module(module)
    return module


def test_what_grows_to_the_end_is_told_and_what_levels_out_is_not(soak: ModuleType) -> None:
    level = dict.fromkeys(soak.GROWTH, 100.0)
    rises = [min(1.0, place / 10) for place in range(50)]
    assert (
        soak.grown([(at, {name: value * share for name, value in level.items()}) for at, share in enumerate(rises)])
        == []
    )
    for name in soak.GROWTH:
        readings = [(float(at), {**level, name: 100.0 + 3.0 * at}) for at in range(50)]
        (told,) = soak.grown(readings)
        assert told.startswith(f"{name}: ")
    (few,) = soak.grown([(0.0, level)] * 3)
    assert few == "3 readings are too few to say what grows"


@pytest.mark.slow
@pytest.mark.needs("initdb", "unshare")
def test_a_minute_of_a_soak_loses_nothing_and_ends_with_a_report(tmp_path: Path) -> None:
    """Whether anything grows needs longer: a minute's readings are of services that have just begun."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {tried.stderr.strip()}")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--hours", "0.015", "--out", tmp_path], capture_output=True, text=True, check=False
    )
    told = [line for line in done.stdout.splitlines() if not line.endswith("it grows")]
    assert done.returncode in (0, 1), done.stderr
    assert len(told) == 2, done.stdout + done.stderr
    page = (tmp_path / "soak.html").read_text()
    assert page.count("<polyline") == 6
    assert "the disk is full" in page
