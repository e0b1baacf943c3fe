"""Runs over two fake hosts: start, stop, resume, and again after a host was lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import run_engine
from fake_ssh_host import FakeHost
from run_fleet import HOSTS, RUN, TwoHosts
from run_requests import RELEASE

from fleet.errors import HostFailedError
from fleet.lock import locked
from fleet.rollout.health_gate import Clock
from fleet.runs import together
from fleet.runs.rollout_hooks import TrainingRunHooks
from fleet.runs.state import TrainingRun


class Fleet(TwoHosts):
    """Two hosts, watched with a clock that leaps."""

    def watch(self, *steps: Callable[[], None]) -> list[TrainingRun]:
        """Watches the run; after each look the next step happens. Time goes on by minutes."""
        left, now = list(steps), [0.0]

        def wait(_: float) -> None:
            now[0] += 61
            (left.pop(0) if left else lambda: pytest.fail("the run is watched for ever"))()

        clock = Clock(wait=wait, now=lambda: now[0])
        return list(together.keep_training(HOSTS, RUN, self.connect, lambda _: None, clock))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(together, "is_training", lambda _, run: run.active)
    return Fleet(tmp_path)


def audit(there: FakeHost) -> list[tuple[str, str]]:
    lines = (there.place / "audit.jsonl").read_text().splitlines()
    return [(each["what"], each["result"]) for each in map(json.loads, lines)]


def test_a_run_is_started_on_all_hosts_and_each_names_them_all(fleet: Fleet) -> None:
    fleet.start()
    assert fleet.starts() == [1, 1]
    for index, name in enumerate(fleet.hosts):
        found = fleet.run(name)
        assert (found.host, found.active, found.hosts) == (name, True, ("gpu-01", "gpu-02"))
        assert found.to_json()["hosts"] == ["gpu-01", "gpu-02"]
        command = (fleet.hosts[name].place / f"runs/{RUN}/run.yaml").read_text()
        assert f"--host-index={index}" in command
        assert audit(fleet.hosts[name]) == [("train", "ok")]


def test_a_start_that_fails_on_one_host_is_undone_on_the_others(fleet: Fleet) -> None:
    fleet.hosts["gpu-02"].answers("image", "exit 1")
    with pytest.raises(HostFailedError, match="gpu-02 has no image"):
        fleet.start()
    assert not fleet.run("gpu-01").active
    assert any(line.startswith("stop ") for line in fleet.hosts["gpu-01"].asked("docker"))


def test_a_port_that_another_program_of_a_host_has_stops_the_start_everywhere(fleet: Fleet) -> None:
    fleet.hosts["gpu-02"].listens(2222)
    with pytest.raises(HostFailedError, match="gpu-02: port 2222 is in use by another program"):
        fleet.start()
    assert fleet.starts() == [0, 0]


def test_hosts_with_other_images_do_not_begin(fleet: Fleet) -> None:
    run_engine.write_release(fleet.hosts["gpu-02"], replace(RELEASE, release="b" * 12, image="voxyard-trainer:b"))
    with pytest.raises(HostFailedError, match="need one trainer image, and differ"):
        fleet.start()
    assert fleet.starts() == [0, 0]


def test_a_host_that_is_locked_stops_the_start_everywhere(fleet: Fleet) -> None:
    held = locked(fleet.hosts["gpu-02"].session(), "gpu-02", "deploy")
    with held, pytest.raises(HostFailedError, match="gpu-02 is locked"):
        fleet.start()
    assert fleet.starts() == [0, 0]
    fleet.start()  # the lock of the first one was given back


def test_stopping_stops_all_hosts(fleet: Fleet) -> None:
    fleet.start()
    ended = together.stop_everywhere(HOSTS, fleet.connect, RUN)
    assert [(each.host, each.active) for each in ended] == [("gpu-01", False), ("gpu-02", False)]
    assert [audit(there)[-1][0] for there in fleet.hosts.values()] == ["stop run", "stop run"]


def test_a_host_that_does_not_answer_does_not_keep_the_others_from_stopping(fleet: Fleet) -> None:
    fleet.start()
    fleet.away.add("gpu-01")
    with pytest.raises(HostFailedError, match="gpu-01 does not answer"):
        together.stop_everywhere(HOSTS, fleet.connect, RUN)
    assert not fleet.run("gpu-02").active


def test_a_run_that_was_stopped_is_resumed_on_all_hosts(fleet: Fleet) -> None:
    fleet.start()
    together.stop_everywhere(HOSTS, fleet.connect, RUN)
    files = together.resume_everywhere(HOSTS, fleet.connect, RUN)
    fleet.settle()
    assert fleet.starts() == [2, 2]
    assert [each.wanted.hosts.index for each in files if each.wanted.hosts] == [0, 1]


def test_a_deploy_drains_no_part_of_a_run(fleet: Fleet) -> None:
    fleet.start()
    session = fleet.hosts["gpu-02"].session()
    with pytest.raises(HostFailedError, match=r"trains over gpu-01, gpu-02.*fab stop --host gpu-02.*--resume demo-1"):
        TrainingRunHooks().stop(session, fleet.run("gpu-02"), drained=True)
    assert fleet.run("gpu-02").active


def test_a_run_is_watched_to_its_end(fleet: Fleet) -> None:
    fleet.start()
    ended = fleet.watch(lambda: None, lambda: fleet.end([0, 0]))
    assert [each.state for each in ended] == ["finished", "finished"]
    assert fleet.starts() == [1, 1]


def test_a_run_that_lost_a_host_is_resumed_on_all(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet.start()
    (fleet.hosts["gpu-01"].place / f"runs/{RUN}/checkpoints/step-00000012").mkdir()
    fleet.watch(lambda: fleet.end([75, 137]), fleet.settle, lambda: fleet.end([0, 0]))
    assert fleet.starts() == [2, 2]
    assert "resuming it on all of them from step 12" in caplog.text
    assert audit(fleet.hosts["gpu-02"])[-1] == ("resume", "ok")


@pytest.mark.slow
def test_the_fourth_loss_in_an_hour_ends_it(fleet: Fleet) -> None:
    fleet.start()
    with pytest.raises(HostFailedError, match=r"lost a host 4 times in an hour.*fab train --host gpu-01 --resume"):
        fleet.watch(*[lambda: fleet.end([75, 75])] * 4)
    assert fleet.starts() == [4, 4]


@pytest.mark.slow
def test_losses_of_earlier_hours_do_not_count(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "RESTARTS_SECONDS", 100.0)
    fleet.start()
    fleet.watch(*[lambda: fleet.end([75, 75])] * 5, lambda: fleet.end([0, 0]))
    assert fleet.starts() == [6, 6]


def test_a_host_that_goes_on_alone_is_stopped_and_the_run_resumed(fleet: Fleet) -> None:
    fleet.start()
    fleet.hosts["gpu-01"].answers(  # as one that is frozen: killed after its time
        "stop", f'echo 137 > "$FAKE_HOST/code"; printf exited > "$FAKE_HOST/state-{RUN}"'
    )
    fleet.watch(
        lambda: fleet.end([75], ["gpu-02"]), lambda: None, lambda: None, fleet.settle, lambda: fleet.end([0, 0])
    )
    assert fleet.starts() == [2, 2]


def test_a_run_that_fails_otherwise_is_reported_with_its_log(fleet: Fleet) -> None:
    fleet.start()
    (fleet.hosts["gpu-02"].folder / "said").write_text("the loss is not finite\n")
    with pytest.raises(
        HostFailedError, match=r"gpu-02: the run demo-1 failed \(exit code 1\)(.|\n)*loss is not finite"
    ):
        fleet.watch(lambda: fleet.end([1, 1]))
    assert fleet.starts() == [1, 1]


def test_a_run_that_was_stopped_on_one_host_is_not_resumed(fleet: Fleet) -> None:
    fleet.start()
    with pytest.raises(HostFailedError, match="gpu-02: the run demo-1 is stopped"):
        fleet.watch(lambda: fleet.end([75, 143]))
    assert fleet.starts() == [1, 1]


def test_a_host_that_comes_back_is_waited_for(fleet: Fleet) -> None:
    fleet.start()

    def lose() -> None:
        fleet.end([75, 255])
        fleet.away.add("gpu-02")

    fleet.watch(lose, lambda: None, fleet.away.clear, fleet.settle, lambda: fleet.end([0, 0]))
    assert fleet.starts() == [2, 2]


def test_a_host_that_stays_away_ends_the_watching(fleet: Fleet) -> None:
    fleet.start()

    def lose() -> None:
        fleet.end([75], ["gpu-01"])
        fleet.away.add("gpu-02")

    with pytest.raises(HostFailedError, match="gpu-02 does not answer"):
        fleet.watch(lose, *[lambda: None] * 31)
    assert fleet.starts() == [1, 1]
