"""`voxyard stress` and `voxyard diagnose` on two logical CPU devices, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from forked import run_forked
from runs import environment, write_tones

SPLIT = ("--device", "cpu", "--data-gpu", 0, "--model-gpu", 1)
TOY = ("--model-module", "toy:make", "--batch-size", 4, "--num-workers", 2, "--buckets", 1)
SLOW_READER = ("--model-module", "slow_stages:make", "--batch-size", 4, "--num-workers", 1, "--buckets", 1)
SECRET = "plantedSecret4711"


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty tones."""
    return write_tones(tmp_path_factory.mktemp("corpus") / "tones", 40)


def voxyard(*arguments: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_forked(*arguments, environment=environment(**variables), cwd=cwd)


def test_a_stress_test_measures_the_trainers_step(tones: Path, tmp_path: Path) -> None:
    arguments = ("stress", *SPLIT, *TOY, "--train-data", tones, "--stress-duration", 2, "--json")
    done = voxyard(*arguments, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["verdict"] == "missed" else 0)
    load = found["load"]
    assert load["reads"]["state"] in ("cold", "warm")  # by the disk that tests are written to
    assert load["seconds"] >= 2
    assert load["steps_per_second"] == pytest.approx(load["steps"] / load["seconds"], rel=0.5)
    assert 0 < load["cpu_use"] <= 1.1
    for when in ("before", "during", "after"):
        assert found["utilization"][when]["gpus"]["missing"] == "not measured: no GPU"
    targets = {target["name"]: target["measured"] for target in found["targets"]}
    assert targets["data GPU"] == targets["model GPU"] == "not measured: no GPU"
    assert list(tmp_path.iterdir()) == []


def test_a_slow_reader_is_diagnosed_below_30_percent(tones: Path, tmp_path: Path) -> None:
    arguments = ("stress", *SPLIT, *SLOW_READER, "--train-data", tones, "--stress-duration", 2)
    done = voxyard(*arguments, cwd=tmp_path, SLOW_READ="0.05")
    assert "below 30%: the model device is busy" in done.stdout, done.stderr[-3000:]
    assert "reading and decoding the clips is too slow" in done.stdout


def test_the_load_can_be_skipped(tmp_path: Path) -> None:
    done = voxyard("stress", *SPLIT, "--skip-stress", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert (found["load"], found["verdict"], found["utilization"]["during"]) == (None, None, None)
    assert found["notes"] == ["not measured: --skip-stress"]
    assert found["utilization"]["before"]["cpu"] is not None


def test_devices_that_are_not_there_are_wrong_use(tmp_path: Path) -> None:
    done = voxyard("stress", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 7, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--model-gpu 7 is not a device here" in done.stderr


def diagnosed(tones: Path, tmp_path: Path, *flags: object, **variables: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Output of the command, and the unpacked archive."""
    file = tmp_path / "train.yaml"
    file.write_text(f"# token: {SECRET}\ndata:\n  num_workers: 1\ntelemetry:\n  run: https://u:{SECRET}@h/run\n")
    out = tmp_path / "d.tar.gz"
    arguments = ("diagnose", *SPLIT, "--train-data", tones, "--config", file, "--out", out, "--steps", 8, "--json")
    done = voxyard(*arguments, *flags, cwd=tmp_path, MY_SERVICE_TOKEN=SECRET, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    with tarfile.open(out) as tar:
        opened = {Path(member.name): tar.extractfile(member) for member in tar}
        files = {path.name: file.read() for path, file in opened.items() if file is not None}
    assert {path.parent for path in opened} <= {Path(), Path("d")}
    assert {path.name for path in tmp_path.iterdir()} == {"train.yaml", "d.tar.gz"}
    return json.loads(done.stdout), files


def test_the_archive_reports_the_verdict_that_the_profiler_gave(tones: Path, tmp_path: Path) -> None:
    """A throttled reader is diagnosed as data loading, in every place of the archive where a verdict stands."""
    said, files = diagnosed(tones, tmp_path, *SLOW_READER, SLOW_READ="0.05")
    profile = json.loads(files["profile.json"])
    assert profile["verdict"]["bottleneck"] == "load"
    sentence = profile["verdict"]["sentence"]
    assert said["verdict"] == json.loads(files["manifest.json"])["verdict"] == sentence
    assert sentence.encode() in files["summary.html"]
    assert b"data loading" in files["profile.html"]
    assert f"Reads: {profile['reads']['state']}".encode() in files["summary.html"]
    assert json.loads(files["training.json"])["last_step"] == 8
    assert json.loads(files["configuration.json"])["in force"]["data"]["num_workers"] == 1
    assert b"tensorflow" in files["packages.txt"]
    missing = {part["name"]: part["missing"] for part in said["parts"] if part["missing"] is not None}
    assert {name: why.startswith("not measured: no GPU") for name, why in missing.items()} == {
        "GPUs": True, "nvidia-smi": True, "topology": True,
    }  # fmt: skip
    assert [name for name, data in files.items() if SECRET.encode() in data] == []


def test_a_training_that_breaks_is_a_part_with_the_reason(tones: Path, tmp_path: Path) -> None:
    said, files = diagnosed(tones, tmp_path, "--model-module", "toy:broken")
    missing = {part["name"]: part["missing"] for part in said["parts"]}
    for part in ("profile", "8 training steps"):
        assert "ended with code 2" in missing[part]
    assert said["verdict"].startswith("none: the profile is missing")
    assert b"none: the profile is missing" in files["summary.html"]
    assert {"profile.log", "training.log", "system.json", "configuration.json"} <= set(files)


def test_a_name_that_is_no_archive_is_wrong_use(tones: Path, tmp_path: Path) -> None:
    done = voxyard("diagnose", *SPLIT, "--train-data", tones, "--out", tmp_path / "d.zip", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a name that ends in .tar.gz" in done.stderr
