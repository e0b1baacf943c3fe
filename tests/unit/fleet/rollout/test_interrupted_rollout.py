"""Rollout on one host that is cut or interrupted at any step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from leaping_clock import LeapingCancellation
from release_doubles import image, release, saved
from rollout_steps import ALICE, HOST, deploy, everything, roll_back, rollout_context, second, state
from shell_host import FakeServices, ShellHost

from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.lock import break_lock
from fleet.rollout.change_plan import plan_change, plan_rollback
from fleet.rollout.context import RolloutContext
from fleet.ssh.connection_pool import Connections
from tasks.deploy import _unlock


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "part"),
    [("middle", 0), *(pytest.param("before", part, marks=pytest.mark.slow) for part in range(3))],
    ids=str,
)
def test_a_cut_at_any_step_is_healed_by_the_next_deploy(
    deployed: ShellHost, fake_services: FakeServices, tmp_path: Path, moment: Literal["before", "middle"], part: int
) -> None:
    context = rollout_context(tmp_path, min_healthy_seconds=0)  # one look a service: each is a dozen processes
    newer = second(tmp_path / "b", fake_services.port)
    counted = deployed.like(tmp_path / "counted")
    deploy(counted, newer, context)
    sends = {"load-image", "release-write", "artefact-write", "secrets-write"}
    steps = [number for number, name in enumerate(counted.names, 1) if moment == "before" or name in sends]
    assert len(steps) >= (15 if moment == "before" else 5)
    for step in steps[part :: 3 if moment == "before" else 1]:
        host = deployed.like(tmp_path / f"{moment}-{step}")
        host.break_at, host.moment = step, moment
        with suppress(FleetError):  # before the host was locked, or looked at
            assert deploy(host, newer, context).result in ("failed", "deployed"), step
        names = host.names
        host.reconnect()
        if (host.folder / "lock").exists():
            with pytest.raises(FleetError, match=r"is locked by .* \(deploy\).*fab unlock --host gpu-01"):
                deploy(host, newer, context)
            assert break_lock(host, "gpu-01") is not None
        assert deploy(host, newer, context).result in ("deployed", "unchanged"), (step, names)
        assert plan_change(newer, state(host, newer)).nothing, (step, names)
        assert host.services() == {"exporter": "e-2", "bark": "b-2"}, (step, names)
        assert not [name for name in host.tree() if "partial" in name or "next" in name or ".before" in name], step
        host.close()


def test_ctrl_c_stops_at_the_next_step_and_gives_the_lock_back(
    host: ShellHost, fake_services: FakeServices, tmp_path: Path
) -> None:
    cancellation = LeapingCancellation()

    def impatient(wanted: Any) -> Iterator[bytes]:
        cancellation.ask()
        yield from saved(wanted)

    context = rollout_context(tmp_path, cancellation, cache=ImageCache(tmp_path / "cache", impatient))
    outcome = deploy(host, release(fake_services.port), context)
    assert outcome.result == "interrupted"
    assert outcome.note == "cancelled by Ctrl-C; run the same command again to continue"
    assert not (host.folder / "lock").exists()
    assert host.audit()[-1]["result"] == "interrupted"


def impatient(host: ShellHost, *, times: int) -> LeapingCancellation:
    """Operator who types Ctrl-C `times` times at the gate of Bark's second configuration, and during its rollback."""

    def ask(_: float) -> None:
        if times > 1 if cancellation.asked else host.services().get("bark") == "b-2":
            cancellation.ask()

    cancellation = LeapingCancellation(ask)
    return cancellation


def test_ctrl_c_at_the_gate_takes_the_host_back(
    deployed: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    old, newer = deployed.current, second(tmp_path / "b", fake_services.port)
    outcome = deploy(deployed, newer, rollout_context(tmp_path, impatient(deployed, times=1)))
    assert outcome.result == "interrupted"
    assert outcome.note == (
        f"cancelled by Ctrl-C\nrolled back to release {old}; run the same command again to continue"
    )
    assert (deployed.current, deployed.services()) == (old, {"exporter": "e-1", "bark": "b-1"})
    assert (deployed.folder / "secrets" / ALICE).read_bytes() == b"alice: 0123456789\n"
    assert deployed.audit()[-1]["result"] == "interrupted"
    assert deploy(deployed, newer, context).result == "deployed"


@pytest.mark.slow
def test_ctrl_c_on_the_way_back_says_what_stands_and_a_rollback_does_not_overshoot(
    deployed: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    deploy(deployed, release(fake_services.port, configs={"exporter": "e-3", "bark": "b-3"}), context)
    current, newer = deployed.current, second(tmp_path / "b", fake_services.port)
    outcome = deploy(deployed, newer, rollout_context(tmp_path, impatient(deployed, times=2)))
    assert outcome.result == "interrupted"
    assert f"exporter of release {current} is running, health: healthy" in outcome.note
    assert f"bark of release {newer.id} is running, health: healthy" in outcome.note
    assert "fab rollback --host gpu-01 restores it" in outcome.note
    assert deployed.current == current
    assert roll_back(deployed, context).result == "rolled back"
    assert (deployed.current, deployed.services()) == (current, {"exporter": "e-3", "bark": "b-3"})
    assert roll_back(deployed, context).result == "rolled back", "the rollback ended the deploy: now the one before"
    assert (deployed.current != current, deployed.services()) == (True, {"exporter": "e-1", "bark": "b-1"})


@pytest.mark.slow
@pytest.mark.parametrize("what", ["interrupted", pytest.param("failed", marks=pytest.mark.slow)])
def test_rollback_after_a_deploy_that_was_taken_back_goes_no_further(
    deployed: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path,
    caplog: pytest.LogCaptureFixture, what: str,
) -> None:  # fmt: skip
    caplog.set_level("INFO", "fleet")
    deploy(deployed, release(fake_services.port, configs={"exporter": "e-3", "bark": "b-3"}), context)
    current, newer = deployed.current, second(tmp_path / "b", fake_services.port)
    if what == "failed":
        deployed.engine.modes = {image("bark", "2").reference: "unhealthy"}
    cancellation = impatient(deployed, times=1) if what == "interrupted" else LeapingCancellation()
    assert deploy(deployed, newer, rollout_context(tmp_path, cancellation)).result == what
    found = plan_rollback(deployed, "gpu-01", None)
    assert (found.manifest.id, found.nothing) == (current, True)
    assert f"the last deploy, of release {newer.id}, did not become current: going back to {current}" in caplog.text


@pytest.mark.slow
def test_rollback_after_a_cut_deploy_restores_the_current_release(
    deployed: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    deploy(deployed, release(fake_services.port, configs={"exporter": "e-3", "bark": "b-3"}), context)
    current = deployed.current
    deployed.reconnect()
    counted = deployed.like(tmp_path / "counted")
    newer = second(tmp_path / "b", fake_services.port)
    deploy(counted, newer, context)
    counted.close()
    deployed.break_at = 1 + max(number for number, name in enumerate(counted.names, 1) if name == "service-stop")
    assert deploy(deployed, newer, context).result == "failed"
    deployed.reconnect()
    with Connections(deployed.connect) as connections:
        _unlock(connections.to(HOST), HOST)
    assert deployed.services() != {"exporter": "e-3", "bark": "b-3"}
    assert roll_back(deployed, context).after == current
    assert deployed.services() == {"exporter": "e-3", "bark": "b-3"}
    with Connections(deployed.connect) as connections:
        _unlock(connections.to(HOST), HOST)
    assert plan_rollback(deployed, "gpu-01", None).manifest.id != current


@pytest.mark.slow
def test_ctrl_c_while_the_current_release_starts_a_service_again_leaves_it_running(
    deployed: ShellHost, fake_services: FakeServices, tmp_path: Path
) -> None:
    wanted = everything(tmp_path / "a", fake_services.port)
    deployed.engine.containers.clear()
    cancellation = LeapingCancellation(lambda _: cancellation.ask())
    outcome = deploy(deployed, wanted, rollout_context(tmp_path, cancellation))
    assert outcome.result == "interrupted"
    assert f"release {wanted.id} was already current" in outcome.note
    assert f"exporter of release {wanted.id} is running, health: healthy; run the same command again" in outcome.note
    assert deployed.services() == {"exporter": "e-1"}


@pytest.mark.slow
def test_a_service_that_a_cut_deploy_has_started_is_watched_before_its_release_is_good(
    deployed: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    def crash(time: float) -> None:
        for each in deployed.engine.containers:
            if each["Config"]["Labels"]["voxyard.config"] == "b-2":
                each["State"]["StartedAt"] = f"again at {time}"

    old, newer = deployed.current, second(tmp_path / "b", fake_services.port)
    counted = deployed.like(tmp_path / "counted")
    deploy(counted, newer, context)
    counted.close()
    looks = [number for number, name in enumerate(counted.names, 1) if name == "services ready-bark metrics-bark"]
    deployed.break_at = looks[0]
    assert deploy(deployed, newer, context).result == "failed"
    deployed.reconnect()
    break_lock(deployed, "gpu-01")
    found = plan_change(newer, state(deployed, newer))
    assert "wait for bark: its health was not verified yet" in found.lines()
    outcome = deploy(deployed, newer, rollout_context(tmp_path, LeapingCancellation(crash)))
    assert outcome.result == "failed"
    assert "bark (b-2) was restarted" in outcome.note
    assert (deployed.current, deployed.services()) == (old, {"exporter": "e-1", "bark": "b-1"})
