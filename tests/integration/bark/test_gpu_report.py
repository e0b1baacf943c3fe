"""`make test-gpu` with stand-ins: the command of a GPU host, every step of it, on the CPU with tiny models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(1800)
def test_the_stand_in_run_takes_every_step_and_is_labelled(tmp_path: Path) -> None:
    command = ["make", "MAKE=true", "STAND_IN=1", f"ARGS=--out {tmp_path}", "test-gpu"]  # set up already
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    logs = "\n".join(log.read_text()[-3000:] for log in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs

    report = json.loads((tmp_path / "report.json").read_text())
    steps = {step["name"]: step for step in report["steps"]}
    assert report["stand_in"]
    assert report["ok"]
    assert steps["tests-trainer"]["result"]["tests"] >= 1
    assert steps["tests-trainer"]["result"]["failed"] == []
    assert steps["tests-bark"]["result"]["tests"] >= 1
    assert steps["tests-bark"]["result"]["failed"] == []

    measured = {each["figure"]: each for each in report["figures"]}
    assert {
        "overlap", "mirrored_vs_single", "vs_keras_fit", "telemetry", "memory_growth", "features_vs_trace",
        "train_vs_trace", "readings_that_agree",
    } <= {name for name, each in measured.items() if each["value"] is not None}  # fmt: skip
    assert {each["met"] for each in measured.values()} == {None}
    assert measured["readings_that_agree"]["value"] == 1.0
    page = (tmp_path / "index.html").read_text()
    assert "No GPU was used." in page
    assert page.count("stand-in") >= 5

    bark = json.loads((tmp_path / "bark.json").read_text())
    assert bark["stand_in"]
    assert set(bark["ratios"]) >= {
        "preset_end_to_end_vs_transformers", "preset_end_to_end_vs_suno", "decode_vs_floor",
        "first_sound_vs_first_sentence", "opening_clause_vs_whole_sentence",
        "tiny_vs_transformers", "narrow24_vs_transformers",
        "stand_in_b1_vs_transformers", "stand_in_b1_vs_suno", "stand_in_b1_vs_floor", "stand_in_b2_vs_floor",
    }  # fmt: skip
    figures = bark["figures"]
    assert figures["preset_audio_seconds"] > 0
    shares = {name: value for name, value in figures.items() if name.startswith("preset_") and "_share_" in name}
    assert len(shares) == 5 * 5  # stages, contestants: three precisions of voxyard, one of each other
    assert all(share > 0 for share in shares.values()), shares
    assert all(value > 0 for name, value in figures.items() if name.endswith("_tokens_prefilled"))
