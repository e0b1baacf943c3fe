"""Rollout of a Ray cluster: head first, service last, and the last host completes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fleet_doubles import IMAGE, RecordingSession, host
from leaping_clock import LeapingCancellation

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host, Role
from fleet.inventory.ray_clusters import RayNode
from fleet.release.manifest import Manifest, ServiceEntry
from fleet.rollout.change_plan import ServiceStart
from fleet.rollout.context import RolloutContext
from fleet.rollout.fleet import _refuse_other_image, canaries, waves
from fleet.rollout.health_gate import (
    CLUSTER_SECONDS,
    ClusterGate,
    before_workers,
    cluster_gates,
    pass_cluster_gate,
    wait_until_ready,
    with_cluster_gates,
)
from fleet.rollout.restart import ServiceRestart
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection_pool import Connections

SPEECH = ServiceEntry("bark", "b-1", "b", "127.0.0.1", 8080, "/readyz", 60, 900, {})
GATE = ClusterGate("lab", "10.0.0.1:6379", ("gpu-01", "gpu-02"), ("worker",))


def member(name: str, *roles: Role, **more: Any) -> Host:
    return host(name=name, roles=roles, ray=RayNode("lab"), ray_head="10.0.0.1", **more)


HEAD, SERVICE = member("desk", "head"), member("voice", "bark")
WORKERS = [member("gpu-01", "worker"), member("gpu-02", "worker")]
OTHER = host(name="other")


def test_the_head_comes_first_and_the_service_last() -> None:
    order = waves([SERVICE, OTHER, *WORKERS, HEAD], 4)
    assert [[each.name for each in wave] for wave in order] == [["desk"], ["other"], ["gpu-01"], ["gpu-02"], ["voice"]]
    both = member("desk", "head", "bark")
    assert [each.name for wave in waves([*WORKERS, both], 4) for each in wave] == ["desk", "gpu-01", "gpu-02"]
    marked = member("voice", "bark", canary=True)
    assert waves([marked, *WORKERS, HEAD], 4)[-1] == (marked,)
    assert HEAD in canaries([SERVICE, *WORKERS, HEAD])  # so that nobody is touched after a head that failed


def test_the_last_host_of_a_cluster_to_change_asks_for_all_workers() -> None:
    order = [HEAD, OTHER, *WORKERS, SERVICE]
    gates = cluster_gates(order, [each.name for each in order])
    assert gates == {"voice": ClusterGate("lab", "10.0.0.1:6379", ("gpu-01", "gpu-02"), ("bark",), SERVICE)}
    assert [*cluster_gates(order, ["desk", "gpu-01"])] == ["gpu-01"]
    assert cluster_gates(order, ["other"]) == {}


def test_only_a_service_that_changes_before_a_host_with_workers_may_lack_them() -> None:
    both, names = member("desk", "head", "bark"), ["desk", "gpu-01", "gpu-02"]
    order = [both, *WORKERS]
    assert before_workers(order, cluster_gates(order, names)) == {"desk"}
    assert before_workers(order, cluster_gates(order, ["desk"])) == set()  # its workers are there, and stay
    apart = [HEAD, *WORKERS, SERVICE]
    assert before_workers(apart, cluster_gates(apart, [each.name for each in apart])) == set()
    assert before_workers(WORKERS, cluster_gates(WORKERS, names)) == set()


@dataclass
class SpeechHost(RecordingSession):
    """Host with a speech service that answers, and is ready once it was asked so many times."""

    refusals: int = 1_000_000

    def _answer(self, command: Command) -> Answer:
        super()._answer(command)
        if command.name == "services":
            labels = {"voxyard.role": "bark", "voxyard.config": SPEECH.config}
            state = {"Status": "running", "StartedAt": "x", "Health": {"Status": "healthy"}}
            found = {"Id": "c-1", "Image": "sha256:1", "State": state, "Config": {"Image": "b", "Labels": labels}}
            return Answer(json.dumps([found]))
        if command.text.endswith("/readyz") and self.asked.count("ready-bark") <= self.refusals:
            return Answer("HTTP/1.0 503 Unavailable\r\n\r\nno worker")
        return Answer("HTTP/1.0 200 OK\r\n\r\nvoxyard_up 1.0\n")


def wait_for(session: RecordingSession, *, early: bool, rolling_back: bool = False) -> None:
    restart = ServiceRestart("desk", session, LeapingCancellation(), 1, not_ready_yet=("bark",) if early else ())
    restart.rolling_back = rolling_back
    restart.carry_out(Manifest("r", (SPEECH,), (), (), ()), [ServiceStart(SPEECH, "", "wait for")], ())


def test_a_service_that_waits_for_its_workers_has_only_to_answer() -> None:
    wait_for(SpeechHost(), early=True)
    for early, rolling_back in ((False, False), (True, True)):
        with pytest.raises(HostFailedError, match="no worker"):
            wait_for(SpeechHost(), early=early, rolling_back=rolling_back)


def test_the_service_of_a_complete_cluster_becomes_ready() -> None:
    time, session = LeapingCancellation(), SpeechHost(refusals=3)
    wait_until_ready("desk", session, SPEECH, time)
    assert session.asked.count("ready-bark") == 4
    with pytest.raises(HostFailedError, match=r"desk: bark is not ready 900 s after its cluster was complete: .*no wo"):
        wait_until_ready("desk", SpeechHost(), SPEECH, time)


def test_the_gate_of_the_last_host_asks_the_service_of_another() -> None:
    both, last = member("desk", "head", "bark"), WORKERS[0]
    sessions = {"desk": SpeechHost(refusals=1), "gpu-01": asked(["gpu-01"], [])}
    manifest = Manifest("r", (SPEECH,), (), (), ())
    change = SimpleNamespace(nothing=False, manifest=manifest)
    connections = SimpleNamespace(to=lambda host: sessions[host.name])
    changes: Any = dict.fromkeys(("desk", "gpu-01"), change)
    context = with_cluster_gates(RolloutContext(), [both, last], changes, cast("Connections", connections))
    assert context.before_workers == {"desk"}
    assert context.cluster_gate("desk", sessions["desk"], LeapingCancellation()) is None
    said = context.cluster_gate("gpu-01", sessions["gpu-01"], LeapingCancellation())
    assert said == "the cluster lab has gpu-01; the service of desk is ready"
    assert sessions["desk"].asked.count("ready-bark") == 2


def asked(*missing: list[str] | str) -> RecordingSession:
    container = {
        "Id": "c-1", "Image": "sha256:1", "Config": {"Image": "b", "Labels": {"voxyard.role": "worker"}},
        "State": {"Status": "running", "StartedAt": "x"},
    }  # fmt: skip
    answers = [
        Answer("", each, 2) if isinstance(each, str) else Answer(json.dumps({"missing": each}), "", bool(each))
        for each in missing
    ]
    return RecordingSession({"services": Answer(json.dumps([container])), "cluster-status": answers})


def test_a_cluster_that_becomes_complete_passes() -> None:
    session, time = asked("no head yet", ["gpu-02"], []), LeapingCancellation()
    assert pass_cluster_gate("gpu-01", session, GATE, time) == "the cluster lab has gpu-01, gpu-02"
    assert session.texts["cluster-status"] == (
        "docker exec c-1 voxyard cluster status --cluster 10.0.0.1:6379 --cluster-token /run/secrets/cluster-token "
        "--json --expect gpu-01,gpu-02"
    )
    assert 0 < time.now() < CLUSTER_SECONDS


@pytest.mark.parametrize(
    ("answer", "said"), [(["gpu-02"], "gpu-02 missing"), ("refused the token", "status` fails: refused the token")]
)
def test_a_cluster_that_stays_incomplete_fails_with_what_is_missing(answer: Any, said: str) -> None:
    with pytest.raises(
        HostFailedError, match=rf"gpu-01: the cluster lab is not complete after {CLUSTER_SECONDS} s: .*{said}"
    ):
        pass_cluster_gate("gpu-01", asked(answer), GATE, LeapingCancellation())


def test_without_a_container_nothing_can_be_asked() -> None:
    session = RecordingSession({"services": Answer("[]")})
    with pytest.raises(HostFailedError, match="no container can ask the cluster lab"):
        pass_cluster_gate("gpu-01", session, GATE, LeapingCancellation())


def test_hosts_of_one_cluster_get_one_image() -> None:
    hosts = [HEAD, *WORKERS, OTHER]
    needed = {each.name: {"bark": IMAGE, "exporter": IMAGE} for each in hosts}
    for each in hosts:
        _refuse_other_image(each, hosts, needed)
    needed["gpu-02"] = {"bark": type(IMAGE)("sha256:22", (), 1)}
    with pytest.raises(FleetError, match="gpu-02: its image of Bark is not that of desk, of the same cluster"):
        _refuse_other_image(WORKERS[1], hosts, needed)
