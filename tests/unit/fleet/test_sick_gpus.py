"""Sick GPUs of a fleet: how many may go out of work and which, what a release does without them, `fab gpus`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from fab_tasks import Fab, task_runner
from fleet_doubles import facts, gpu, uuid
from fleet_doubles import host as trainer_host
from shell_host import ShellHost

from fleet.checks.gpu_use import out_of_work
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.facts.gpu_use import OUT_OF_WORK
from fleet.inventory.hosts import Host, load, with_allowances
from fleet.inventory.rollout_settings import MaxFailed
from fleet.release.gpu_assignment import Assignment
from fleet.release.gpu_selection import select_gpus
from fleet.release.plan import plan_document
from fleet.release.release import _sick_gpus
from fleet.ssh.connection_pool import Connections
from tasks import gpus
from voxyard.host.errors import HostError
from voxyard.host.out_of_work import Mark, OutOfWork

INVENTORY = "defaults: {user: voxyard, node_exporter: false}\nhosts:\n  gpu-01: {address: 192.0.2.11, roles: [bark]}\n"
SICK = Mark(uuid(0), 0, "Xid 79: the GPU fell off the bus", "restart the host")


def allowed(counts: Sequence[int | None], most: MaxFailed) -> list[int | None]:
    hosts = [Host(f"gpu-{number}", f"192.0.2.{number}", "a", gpus=count) for number, count in enumerate(counts)]
    return [host.sick_gpus for host in with_allowances(hosts, most)]


@pytest.mark.parametrize(
    ("counts", "most", "allowances"),
    [
        ([8, 8, 8, 8], MaxFailed(percent=25), [2, 2, 2, 2]),
        ([8, 4, 4, 0], MaxFailed(percent=25), [2, 1, 1, 0]),
        ([1, 1, 1, 1], MaxFailed(percent=25), [1, 0, 0, 0]),  # never more than the share
        ([2, 2, 2], MaxFailed(percent=25), [1, 0, 0]),
        ([2], MaxFailed(percent=25), [1]),  # one at least
        ([8, None], MaxFailed(percent=25), [2, None]),  # that one's exporter counts what it finds
        ([8, 8], MaxFailed(count=3), [2, 1]),
        ([1, 1], MaxFailed(count=9), [1, 1]),
        ([8], MaxFailed(count=0), [0]),
        ([0], MaxFailed(percent=25), [0]),
    ],
)
def test_each_host_may_take_out_its_part_of_the_fleets_share(
    counts: list[int | None], most: MaxFailed, allowances: list[int | None]
) -> None:
    assert allowed(counts, most) == allowances


def inventory(tmp_path: Path, text: str) -> Host:
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    return load(path).hosts[0]


def test_the_inventory_has_the_share_and_what_stays(tmp_path: Path) -> None:
    entry = "hosts: {gpu-01: {address: 192.0.2.11, user: a, gpus: 8"
    assert _sick_gpus(inventory(tmp_path, entry + "}}")) == {"most": 2}
    assert _sick_gpus(inventory(tmp_path, f"sick_gpus: {{most: 50%}}\n{entry}}}}}")) == {"most": 4}
    stay = f"{entry}, keep_sick_gpus: [{uuid(0)}]}}}}"
    assert _sick_gpus(inventory(tmp_path, f"sick_gpus: {{most: 3}}\n{stay}")) == {"most": 3, "stay": [uuid(0)]}
    assert _sick_gpus(inventory(tmp_path, f"{entry}, keep_sick_gpus: true}}}}")) == {"most": 2, "stay": True}
    with pytest.raises(FleetError, match="a number of GPUs from 0 to 1000, or a share such as 10%"):
        inventory(tmp_path, f"sick_gpus: {{most: half}}\n{entry}}}}}")


def test_what_stays_is_of_the_host(tmp_path: Path) -> None:
    entry = f"hosts: {{gpu-01: {{address: 192.0.2.11, user: a, gpus: [{uuid(0)}], keep_sick_gpus: "
    assert inventory(tmp_path, f"{entry}[{uuid(0)}]}}}}").keep_sick_gpus == (uuid(0),)
    with pytest.raises(FleetError, match=rf"keep_sick_gpus: {uuid(1)}: not among the gpus of this host"):
        inventory(tmp_path, f"{entry}[{uuid(0)}, {uuid(1)}]}}}}")
    with pytest.raises(FleetError, match="expected true, or a list of UUIDs, found the text 'true'"):
        inventory(tmp_path, f'{entry}"true"}}}}')


def test_the_plan_has_it_for_the_exporter() -> None:
    assert plan_document(Assignment(), sick_gpus={"most": 2})["sick_gpus"] == {"most": 2}
    assert "sick_gpus" not in plan_document(Assignment())


@pytest.mark.parametrize(("state", "used"), [("out", {1, 2}), ("reset", {1, 2}), ("kept", {0, 1, 2})])
def test_a_release_does_without_what_is_out_of_work(state: Literal["out", "reset", "kept"], used: set[int]) -> None:
    marked = facts(gpus=(gpu(0), gpu(1), gpu(2)), out_of_work=(replace(SICK, state=state),))
    selection = select_gpus(marked, trainer_host(gpus=3))
    assert selection.used == {uuid(each) for each in used}
    (finding,) = out_of_work(marked, selection)
    assert (finding.level, finding.check) == ("WARN", "out_of_work")
    assert all(
        word in f"{finding.found} {finding.remedy}" for word in (SICK.cause, SICK.cure, "gpus --return", uuid(0))
    )


def test_without_a_spare_gpu_it_blocks_what_needs_it() -> None:
    marked = facts(out_of_work=(SICK,))
    (finding,) = out_of_work(marked, select_gpus(marked, trainer_host(gpus=2)))
    assert finding.level == "FAIL"


def test_marks_that_cannot_be_read_are_a_warning() -> None:
    damaged = facts(out_of_work=Unknown("it is not JSON"))
    (finding,) = out_of_work(damaged, select_gpus(damaged, trainer_host(gpus=2)))
    assert (finding.level, finding.found) == ("WARN", "sick GPUs are not known: it is not JSON")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShellHost]:
    """A host that runs an exporter, in a directory."""
    made = ShellHost(tmp_path / "host")
    monkeypatch.setattr(gpus, "Connections", lambda: Connections(made.connect))
    (made.home / ".voxyard/data/exporter").mkdir(parents=True)
    labels = {
        "voxyard.role": "exporter",
        "voxyard.release": "r1",
        "voxyard.config": "c",
        "com.docker.compose.project": "voxyard",
    }
    made.engine.containers.append(
        {
            "Id": "c0ffee", "Name": "/voxyard-exporter-1", "Image": "sha256:aa", "HostConfig": {}, "Mounts": [],
            "RestartCount": 0, "Config": {"Labels": labels, "Image": "exporter:1"},
            "State": {"Status": "running", "StartedAt": "2026-01-05T08:00:00Z", "ExitCode": 0, "OOMKilled": False},
        }
    )  # fmt: skip
    yield made
    made.close()


def test_the_marks_of_a_host_are_read_and_none_are_no_error(host: ShellHost) -> None:
    assert OUT_OF_WORK.among(host.run([OUT_OF_WORK.command])) == ()
    file = OutOfWork(host.home / ".voxyard/data/exporter/out_of_work.json")
    file.put(SICK)
    assert OUT_OF_WORK.among(host.run([OUT_OF_WORK.command])) == (SICK,)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", r"it is not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("null", "it has something else"),
        ('{"gpus": [{"uuid": "GPU-1"}]}', "it has something else"),
        ('{"gpus": [{"uuid": "GPU-1", "gpu": 1, "cause": null, "cure": ""}]}', "it has something else"),
    ],
)
def test_a_damaged_file_of_marks_is_told_in_the_exporters_words(host: ShellHost, text: str, wrong: str) -> None:
    path = host.home / ".voxyard/data/exporter/out_of_work.json"
    path.write_text(text)
    found = OUT_OF_WORK.among(host.run([OUT_OF_WORK.command]))
    said = f"data/exporter/out_of_work.json: {wrong}: expected the marks of sick GPUs: remove the file, "
    assert found == Unknown(f"{said}and look at the GPUs")
    with pytest.raises(HostError) as error:
        OutOfWork(path).marks()
    assert str(error.value) == f"{host.home}/.voxyard/{found.reason}"


def test_a_directory_in_place_of_the_marks_is_no_host_without_marks(host: ShellHost) -> None:
    (host.home / ".voxyard/data/exporter/out_of_work.json").mkdir()
    found = OUT_OF_WORK.among(host.run([OUT_OF_WORK.command]))
    assert isinstance(found, Unknown)
    assert "directory" in found.reason


def test_a_docker_that_does_not_answer_is_no_host_without_exporter(
    host: ShellHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fab: Fab = task_runner(INVENTORY, tmp_path, capsys)
    docker = Path(host.environment["PATH"].partition(":")[0]) / "docker"
    docker.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    said = "docker does not answer: Cannot connect to the Docker daemon"
    for option in ("return_", "take_out"):
        code, _, err = fab(gpus.gpus, host=["gpu-01"], **{option: uuid(0)})
        assert (code, err) == (1, f"gpu-01: {said}")
    code, out, _ = fab(gpus.gpus, json=True)
    assert (code, json.loads(out)["failed"]) == (1, {"gpu-01": said})


def test_a_host_without_a_running_exporter_is_not_taken_for_healthy(
    host: ShellHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fab: Fab = task_runner(INVENTORY, tmp_path, capsys)
    OutOfWork(host.home / ".voxyard/data/exporter/out_of_work.json").put(SICK)
    host.engine.containers[0]["State"]["Status"] = "exited"
    code, out, _ = fab(gpus.gpus)
    assert code == 1
    assert uuid(0) in out
    assert "gpu-01: its exporter, which marks sick GPUs, is exited" in out

    host.engine.containers.clear()
    code, out, _ = fab(gpus.gpus)
    assert code == 1
    assert "gpu-01: no exporter is there, which marks sick GPUs" in out
    code, _, err = fab(gpus.gpus, host=["gpu-01"], return_=uuid(0))
    assert (code, "gpu-01: no exporter is there" in err) == (1, True)


def test_a_uuid_that_nobody_has_names_the_hosts_that_were_not_read(
    host: ShellHost, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def connect(which: Host) -> Iterator[ShellHost]:
        if which.name == "gpu-02":
            raise HostFailedError("gpu-02 does not answer")
        yield host

    monkeypatch.setattr(gpus, "Connections", lambda: Connections(connect))
    fab: Fab = task_runner(f"{INVENTORY}  gpu-02: {{address: 192.0.2.12, roles: [bark]}}\n", tmp_path, capsys)
    code, _, err = fab(gpus.gpus, return_=uuid(0))
    assert code == 2
    assert err.endswith("gpus lists; not read: gpu-02: gpu-02 does not answer")


@pytest.mark.slow
def test_fab_gpus_lists_what_is_sick_and_returns_it(
    host: ShellHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fab: Fab = task_runner(INVENTORY, tmp_path, capsys)
    file = OutOfWork(host.home / ".voxyard/data/exporter/out_of_work.json")
    file.put(SICK)
    code, out, _ = fab(gpus.gpus)
    assert code == 0
    assert all(word in out for word in ("gpu-01", uuid(0), "out", SICK.cause, SICK.cure))

    code, out, err = fab(gpus.gpus, return_=uuid(0), json=True)
    assert code == 0, err
    assert json.loads(out) == {"gpus": [], "failed": {}}
    assert "gpu-01: GPU 0" in err
    assert not file.marks()
    assert '"what": "gpus"' in (host.home / ".voxyard/audit.jsonl").read_text()

    code, _, err = fab(gpus.gpus, return_=uuid(0))
    assert code != 0
    assert "is not marked as sick" in err
