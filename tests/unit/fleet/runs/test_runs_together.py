"""Runs over two fake hosts: start, stop, resume."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import run_engine
from fake_ssh_host import FakeHost
from run_fleet import HOSTS, RUN, TwoHosts
from run_requests import RELEASE

from fleet.errors import HostFailedError
from fleet.lock import locked
from fleet.runs import together
from fleet.runs.rollout_hooks import TrainingRunHooks


@pytest.fixture
def fleet(tmp_path: Path) -> TwoHosts:
    return TwoHosts(tmp_path)


def audit(there: FakeHost) -> list[tuple[str, str]]:
    lines = (there.place / "audit.jsonl").read_text().splitlines()
    return [(each["what"], each["result"]) for each in map(json.loads, lines)]


def test_a_run_is_started_on_all_hosts_and_each_names_them_all(fleet: TwoHosts) -> None:
    fleet.start()
    assert fleet.starts() == [1, 1]
    for index, name in enumerate(fleet.hosts):
        found = fleet.run(name)
        assert (found.host, found.active, found.hosts) == (name, True, ("gpu-01", "gpu-02"))
        assert found.to_json()["hosts"] == ["gpu-01", "gpu-02"]
        command = (fleet.hosts[name].place / f"runs/{RUN}/run.yaml").read_text()
        assert f"--host-index={index}" in command
        assert "restart: on-failure:3" in command
        assert "VOXYARD_TRAIN_RESTARTS: '3'" in command
        assert audit(fleet.hosts[name]) == [("train", "ok")]


def test_a_start_that_fails_on_one_host_is_undone_on_the_others(fleet: TwoHosts) -> None:
    fleet.hosts["gpu-02"].answers("image", "exit 1")
    with pytest.raises(HostFailedError, match="gpu-02 has no image"):
        fleet.start()
    assert not fleet.run("gpu-01").active
    assert any(line.startswith("stop ") for line in fleet.hosts["gpu-01"].asked("docker"))


def test_a_port_that_another_program_of_a_host_has_stops_the_start_everywhere(fleet: TwoHosts) -> None:
    fleet.hosts["gpu-02"].listens(2222)
    with pytest.raises(HostFailedError, match="gpu-02: port 2222 is in use by another program"):
        fleet.start()
    assert fleet.starts() == [0, 0]


def test_hosts_with_other_images_do_not_begin(fleet: TwoHosts) -> None:
    run_engine.write_release(fleet.hosts["gpu-02"], replace(RELEASE, release="b" * 12, image="voxyard-trainer:b"))
    with pytest.raises(HostFailedError, match="need one trainer image, and differ"):
        fleet.start()
    assert fleet.starts() == [0, 0]


def test_a_host_that_is_locked_stops_the_start_everywhere(fleet: TwoHosts) -> None:
    held = locked(fleet.hosts["gpu-02"].session(), "gpu-02", "deploy")
    with held, pytest.raises(HostFailedError, match="gpu-02 is locked"):
        fleet.start()
    assert fleet.starts() == [0, 0]
    fleet.start()  # the lock of the first one was given back


def test_stopping_stops_all_hosts(fleet: TwoHosts) -> None:
    fleet.start()
    ended = together.stop_everywhere(HOSTS, fleet.connect, RUN)
    assert [(each.host, each.active) for each in ended] == [("gpu-01", False), ("gpu-02", False)]
    assert [audit(there)[-1][0] for there in fleet.hosts.values()] == ["stop run", "stop run"]


def test_a_host_that_does_not_answer_does_not_keep_the_others_from_stopping(fleet: TwoHosts) -> None:
    fleet.start()
    fleet.away.add("gpu-01")
    with pytest.raises(HostFailedError, match="gpu-01 does not answer"):
        together.stop_everywhere(HOSTS, fleet.connect, RUN)
    assert not fleet.run("gpu-02").active


@pytest.mark.slow
def test_a_run_that_was_stopped_is_resumed_on_all_hosts(fleet: TwoHosts) -> None:
    fleet.start()
    together.stop_everywhere(HOSTS, fleet.connect, RUN)
    files = together.resume_everywhere(HOSTS, fleet.connect, RUN)
    fleet.settle()
    assert fleet.starts() == [2, 2]
    assert [each.wanted.hosts.index for each in files if each.wanted.hosts] == [0, 1]


def test_a_deploy_drains_no_part_of_a_run(fleet: TwoHosts) -> None:
    fleet.start()
    session = fleet.hosts["gpu-02"].session()
    with pytest.raises(HostFailedError, match=r"trains over gpu-01, gpu-02.*fab stop --host gpu-02.*--resume demo-1"):
        TrainingRunHooks().stop(session, fleet.run("gpu-02"), drained=True)
    assert fleet.run("gpu-02").active
