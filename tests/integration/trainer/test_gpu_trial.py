"""`make gpu-trial` in its stand-in: every step of a trial on CPU devices."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(1300)
def test_the_stand_in_takes_every_step_and_measures_nothing(tmp_path: Path) -> None:
    command = ["make", "MAKE=true", "STAND_IN=1", f"ARGS=--out {tmp_path}/trial", "gpu-trial"]  # set up already
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    logs = "\n".join(log.read_text()[-3000:] for log in (tmp_path / "trial").glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs

    report = json.loads((tmp_path / "trial/report.json").read_text())
    assert report["stand_in"]
    assert {each["met"] for each in report["figures"]} <= {None}
    steps = {step["name"]: step for step in report["steps"]}
    compared = {"losses of a CPU", "losses on two parts"}
    assert set(steps) == {"libraries", *compared, "two networks, split", "training", "export", "resume"}
    assert all(step["ok"] for step in steps.values())
    assert steps["losses on two parts"]["result"]["ratios"]["split, float32: difference"] < 1e-3
    timed = steps["two networks, split"]["result"]
    assert min(timed[name] for name in ("features_ms", "update_ms", "beside_ms", "overlapped_ms")) > 0
    assert steps["resume"]["result"]["last_step"] == steps["training"]["result"]["last_step"] + 1
    assert "two networks, split" in done.stdout
