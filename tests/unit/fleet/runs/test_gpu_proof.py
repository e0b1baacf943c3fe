"""`fab prove` on a fake host: the released image, the trainer's GPUs, the fetched report, and nothing left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fake_ssh_host
import pytest
import yaml
from fake_ssh_host import FakeHost
from fleet_doubles import uuid
from run_requests import PLAN, RELEASE

from fleet.errors import FleetError, HostFailedError
from fleet.release import compose
from fleet.rollout.health_gate import Clock
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
    made.answers(
        "compose",
        'cp trainer.yaml "$FAKE_HOST/asked.yaml"; env > "$FAKE_HOST/variables"; ls -R . > "$FAKE_HOST/files"; '
        'cp "$FAKE_HOST/report.json" report/; exit 0',
    )
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


def test_its_steps_are_those_of_the_report() -> None:
    assert set(proof.STAND_IN_STEPS) < set(proof.STEPS) < set(gpu_report.NAMES)


def test_the_report_comes_here_and_nothing_stays_there(there: FakeHost, tmp_path: Path) -> None:
    found = prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))
    assert found["host"]["name"] == "gpu-01"
    assert found["left_out"] == [proof.LEFT_OUT]
    gpu_report.write(found, tmp_path / "out")
    page = (tmp_path / "out/index.html").read_text()
    assert "Left out" in page
    assert RELEASE.image in page
    assert (tmp_path / "out/proof.log").exists()

    (ran,) = (line for line in (there.folder / "docker.log").read_text().splitlines() if line.startswith("compose "))
    assert ran == (
        "compose --project-name voxyard-proof-p1 --file trainer.yaml run --rm --no-TTY --name voxyard-proof-p1 train"
    )
    service = yaml.safe_load((there.folder / "asked.yaml").read_text())["services"]["train"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["device_ids"] == [uuid(0), uuid(1)]  # Bark's stays free
    assert service["entrypoint"] == ["python"]
    words = ["scripts/gpu_report", "--only", *proof.STEPS, "--place", RELEASE.image]
    assert service["command"] == [*words, "--out", "/proof/report"]
    assert service["network_mode"] == "none"
    variables = (there.folder / "variables").read_text()
    assert f"VOXYARD_TRAINER_IMAGE={RELEASE.image}" in variables
    assert "VOXYARD_UID=1000" in variables
    files = (there.folder / "files").read_text()
    bench = ("trainer.py", "contestant.py", "profile_trace.py", "exporter_readings.py")
    for name in (*bench, "page.py", "style.py", "test_gpus.py", "forked.py", "pytest_timeout.py"):
        assert name in files
    assert not any((there.place / "proofs").iterdir())
    (entry,) = map(json.loads, (there.place / "audit.jsonl").read_text().splitlines())
    assert (entry["what"], entry["result"]) == ("prove", "ok")


def test_the_container_is_that_of_a_training_run() -> None:
    shipped = (ROOT / "deploy/compose/trainer.yaml").read_bytes()
    asked = yaml.safe_load(proof.compose_file(replace(RELEASE, compose=shipped), [uuid(0)], stand_in=False))
    service, run = asked["services"]["train"], yaml.safe_load(shipped)["services"]["train"]
    assert {"user", "ulimits", "read_only", "cap_drop", "security_opt", "pids_limit", "image"} <= set(service)
    assert service.pop("tmpfs") == [*run.pop("tmpfs"), "/proof/build:mode=1777,size=4g"]
    assert {key: service[key] for key in run if key in service and key not in proof.OF_RUNS} == {
        key: run[key] for key in run if key not in proof.OF_RUNS
    }
    given = proof.variables(RELEASE)
    assert compose.variables(asked) <= set(given)


def test_a_stand_in_says_so_and_takes_the_operators_compose_files(there: FakeHost, tmp_path: Path) -> None:
    (there.place / "current/plan.yaml").write_text("workloads: []\n")  # it needs no GPU
    own = (("site-1-bed.yaml", b"services: {train: {ulimits: !reset null}}\n"),)
    found = prove(
        there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", overrides=own, stand_in=True, clock=Clock(waiting())
    )
    assert found["left_out"] == [proof.LEFT_OUT, proof.STAND_IN_LEFT_OUT]
    service = yaml.safe_load((there.folder / "asked.yaml").read_text())["services"]["train"]
    assert service["command"][:6] == ["scripts/gpu_report", "--only", *proof.STAND_IN_STEPS, "--stand-in"]
    assert "deploy" not in service
    assert "site-1-bed.yaml" in (there.folder / "files").read_text()
    assert "--file trainer.yaml --file site-1-bed.yaml run" in (there.folder / "docker.log").read_text()


def test_a_container_that_makes_no_report_is_an_error_with_its_words(there: FakeHost, tmp_path: Path) -> None:
    there.answers("compose", "echo no NVIDIA GPU found >&2; exit 3")
    with pytest.raises(HostFailedError, match=r"made no report \(exit code 3\): no NVIDIA GPU found"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))
    assert not any((there.place / "proofs").iterdir())


def test_a_report_with_a_link_is_not_unpacked(there: FakeHost, tmp_path: Path) -> None:
    there.answers("compose", "ln -s /etc/passwd report/report.json; exit 0")
    with pytest.raises(HostFailedError, match=r"cannot be read: './report.json' is in it, expected files"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))
    assert not (tmp_path / "out/report.json").exists()


@pytest.mark.parametrize("body", ["[]", "{}", '{"host": {}, "steps": [], "figures": []}'])
def test_an_answer_that_is_no_report_is_an_error(there: FakeHost, tmp_path: Path, body: str) -> None:
    there.answers("compose", f"echo '{body}' >report/report.json; exit 0")
    with pytest.raises(HostFailedError, match="is no report"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))


def test_a_report_that_could_not_be_written_here_is_not_made(there: FakeHost, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FleetError, match="cannot be made: Not a directory"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "file/out", clock=Clock(waiting()))
    assert not (there.folder / "docker.log").exists()


def test_what_a_cut_connection_left_is_ended_before_another_proof(there: FakeHost, tmp_path: Path) -> None:
    (there.place / "proofs/p0/report").mkdir(parents=True)
    there.answers("ps", 'case "$*" in *voxyard-proof*) echo 5f2c;; esac')
    prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))
    assert "rm --force 5f2c" in (there.folder / "docker.log").read_text()
    assert not any((there.place / "proofs").iterdir())


def test_a_proof_that_is_gone_is_not_waited_for(there: FakeHost, tmp_path: Path) -> None:
    there.answers("compose", "kill -KILL $(cat pid); exit 0")
    with pytest.raises(HostFailedError, match="ended without a report"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))


def test_an_interrupted_proof_ends_its_container(there: FakeHost, tmp_path: Path) -> None:
    there.answers("compose", "sleep 1")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(interrupted))
    assert "rm --force voxyard-proof-p1" in (there.folder / "docker.log").read_text()
    assert not any((there.place / "proofs").iterdir())


def test_a_proof_that_never_ends_is_stopped(there: FakeHost, tmp_path: Path) -> None:
    there.answers("compose", "sleep 1")
    times = iter([0.0, 1.0, proof.LONGEST_SECONDS + 1])
    with pytest.raises(HostFailedError, match="has not ended after 3 hours"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting(), lambda: next(times)))


def test_a_host_without_gpus_for_the_trainer_proves_nothing(there: FakeHost, tmp_path: Path) -> None:
    (there.place / "current/plan.yaml").write_text("workloads: []\n")
    with pytest.raises(HostFailedError, match="no GPUs for the trainer"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path / "out", clock=Clock(waiting()))


def test_a_directory_with_files_is_not_written_to(there: FakeHost, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="name a new one"):
        prove(there.session(), "gpu-01", "p1", ROOT, tmp_path, clock=Clock(waiting()))
