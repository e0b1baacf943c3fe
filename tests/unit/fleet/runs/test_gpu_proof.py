"""`fab prove` on a fake host: the released image, the trainer's GPUs, the fetched report, and nothing left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import fake_ssh_host
import pytest
from fake_ssh_host import FakeHost
from fleet_doubles import uuid
from run_requests import PLAN, RELEASE

from fleet.errors import FleetError, HostFailedError
from fleet.runs import gpu_proof as proof
from fleet.runs.gpu_proof import prove
from gpu_report import run as gpu_report

ROOT = Path(__file__).resolve().parents[4]
GPUS = "".join(
    f"{index}, {uuid(index)}, RTX, 570.1, 0000:0{index}:00.0, 24564, 24000, Default, Enabled\n" for index in range(3)
)
REPORT = gpu_report.report(
    [{"name": "exporter", "ok": True, "seconds": 3.0, "log": "exporter.log", "tail": "", "exit_code": 0,
      "result": {"ratios": {"readings_that_agree": 1.0}}}],
    [{"name": "NVIDIA RTX"}], stand_in=False, place=RELEASE.image,
)  # fmt: skip


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host with three GPUs, of which the trainer has two, and a release."""
    made = fake_ssh_host.make(tmp_path / "host")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    (made.folder / "bin/nvidia-smi").write_text(f"#!/bin/sh\nprintf '%s' '{GPUS}'\n")
    (made.folder / "bin/nvidia-smi").chmod(0o755)
    (made.folder / "report.json").write_text(json.dumps(REPORT))
    made.answers("run", 'ls -R . > "$FAKE_HOST/files"; cp "$FAKE_HOST/report.json" report/; exit 0')
    folder = made.place / "releases" / RELEASE.release
    folder.mkdir(parents=True)
    (folder / "voxyard.env").write_text(
        f"VOXYARD_TRAINER_IMAGE={RELEASE.image}\nVOXYARD_UID=1000\nVOXYARD_GID=1001\n"
        "VOXYARD_TRAINER_METRICS_ADDRESS=127.0.0.1\nVOXYARD_TRAINER_METRICS_PORT=9411\n"
        "VOXYARD_TRAINER_STOP_SECONDS=120\n"
    )
    (folder / "plan.yaml").write_bytes(PLAN)
    (folder / "trainer.yaml").write_bytes(RELEASE.compose)
    (made.place / "current").symlink_to(f"releases/{RELEASE.release}")
    return made


def waiting() -> Callable[[float], None]:
    return lambda _: time.sleep(0.05)


def test_the_report_comes_here_and_nothing_stays_there(there: FakeHost, tmp_path: Path) -> None:
    found = prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", sleep=waiting())
    assert found["host"]["name"] == "gpu-01"
    assert found["left_out"] == list(proof.LEFT_OUT)
    gpu_report.write(found, tmp_path / "out")
    page = (tmp_path / "out/index.html").read_text()
    assert "Left out" in page
    assert RELEASE.image in page
    assert (tmp_path / "out/proof.log").exists()

    (ran,) = (line for line in (there.folder / "docker.log").read_text().splitlines() if line.startswith("run "))
    assert f'--gpus "device={uuid(0)},{uuid(1)}"' in ran  # Bark's stays free
    assert f"--entrypoint python {RELEASE.image} scripts/gpu_report --only bench-trainer profile-trace exporter" in ran
    assert "--read-only" in ran
    assert "--user 1000:1001" in ran
    files = (there.folder / "files").read_text()
    for name in ("trainer.py", "contestant.py", "profile_trace.py", "exporter_readings.py", "page.py", "style.py"):
        assert name in files
    assert not any((there.place / "proofs").iterdir())
    (entry,) = map(json.loads, (there.place / "audit.jsonl").read_text().splitlines())
    assert (entry["what"], entry["result"]) == ("prove", "ok")


def test_a_container_that_makes_no_report_is_an_error_with_its_words(there: FakeHost, tmp_path: Path) -> None:
    there.answers("run", "echo no NVIDIA GPU found >&2; exit 3")
    with pytest.raises(HostFailedError, match=r"made no report \(exit code 3\): no NVIDIA GPU found"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", sleep=waiting())
    assert not any((there.place / "proofs").iterdir())


def test_an_interrupted_proof_ends_its_container(there: FakeHost, tmp_path: Path) -> None:
    there.answers("run", "sleep 1")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", sleep=interrupted)
    assert "rm --force voxyard-proof-p1" in (there.folder / "docker.log").read_text()
    assert not any((there.place / "proofs").iterdir())


def test_a_proof_that_never_ends_is_stopped(there: FakeHost, tmp_path: Path) -> None:
    there.answers("run", "sleep 1")
    times = iter([0.0, 1.0, proof.LONGEST_SECONDS + 1])
    with pytest.raises(HostFailedError, match="has not ended after 3 hours"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", sleep=waiting(), now=lambda: next(times))


def test_a_host_without_gpus_for_the_trainer_proves_nothing(there: FakeHost, tmp_path: Path) -> None:
    (there.place / "current/plan.yaml").write_text("workloads: []\n")
    with pytest.raises(HostFailedError, match="no GPUs for the trainer"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", sleep=waiting())


def test_a_directory_with_files_is_not_written_to(there: FakeHost, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="name a new one"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path, sleep=waiting())
