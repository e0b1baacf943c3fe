"""Rollout on one host: order of steps, rollback after failures, interruption at every step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from leaping_clock import LeapingCancellation
from release_doubles import artefact, image, release, saved
from shell_host import FakeServices, ShellHost

from fleet.errors import FleetError, HostFailedError
from fleet.images.archive import ImageCache
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import versioned
from fleet.lock import break_lock, locked
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout.change_plan import plan_change
from fleet.rollout.context import Cancellation, RolloutContext
from fleet.rollout.fleet import RolloutTask, run_rollout
from fleet.rollout.host_state import endpoints, read_state
from fleet.rollout.outcome import Outcome
from fleet.rollout.rollback import plan_rollback
from fleet.ssh.connection_pool import Connections
from tasks.deploy import _unlock

HOST = Host("gpu-01", "192.0.2.11", "voxyard", roles=("bark",))
GPU = "GPU-00000000-aaaa-bbbb-cccc-000000000000"
ALICE = versioned("bark-api-keys", b"alice: 0123456789\n")


@pytest.fixture
def fake_services() -> Iterator[FakeServices]:
    """Address of the services."""
    found = FakeServices()
    yield found
    found.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ShellHost]:
    """A host that has nothing yet."""
    found = ShellHost(tmp_path / "host")
    yield found
    found.close()


@pytest.fixture
def context(tmp_path: Path) -> RolloutContext:
    """Surroundings in which nothing trains."""
    return rollout_context(tmp_path)


def rollout_context(folder: Path, cancellation: Cancellation | None = None, **other: Any) -> RolloutContext:
    """Site where waiting takes no time, and a gate two looks; half a minute of it is what the gate's own tests wait."""
    cache = ImageCache(folder / "cache", saved)
    return RolloutContext(
        **{"cancellation": cancellation or LeapingCancellation(), "cache": cache, "min_healthy_seconds": 1, **other}
    )


def state(host: ShellHost, wanted: Release) -> Any:
    return read_state(host, "gpu-01", wanted.id, endpoints(manifest_of(wanted)))


def deploy(host: ShellHost, wanted: Release, context: RolloutContext) -> Outcome:
    """As `fab deploy` does it, the lock included."""
    with Connections(host.connect) as connections:
        task = RolloutTask(
            "deploy",
            lambda _, session: plan_change(
                wanted, read_state(session, "gpu-01", wanted.id, endpoints(manifest_of(wanted)))
            ),
        )
        (outcome,) = run_rollout([HOST], connections, task, context)
    return outcome


def roll_back(host: ShellHost, context: RolloutContext, name: str | None = None) -> Outcome:
    with Connections(host.connect) as connections:
        task = RolloutTask("rollback", lambda each, session: plan_rollback(session, each.name, name))
        (outcome,) = run_rollout([HOST], connections, task, context)
    return outcome


def everything(folder: Path, port: int, **other: Any) -> Release:
    """Two services, weights, a secret."""
    return release(port, artefacts=[artefact(folder)], secrets={"bark-api-keys": b"alice: 0123456789\n"}, **other)


def test_a_host_that_has_nothing_gets_everything(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    wanted = everything(tmp_path, fake_services.port)
    outcome = deploy(host, wanted, context)
    assert (outcome.result, outcome.before, outcome.after) == ("deployed", "", wanted.id)
    assert host.services() == {"exporter": "e-1", "bark": "b-1"}
    assert host.current == wanted.id
    assert plan_change(wanted, state(host, wanted)).nothing
    weights = host.folder / "artefacts" / wanted.artefacts[0].name
    assert {path.name for path in weights.iterdir()} == {"config.json", "model.safetensors", ".sha256"}
    assert all(not path.stat().st_mode & 0o222 for path in [weights, *weights.iterdir()])
    secret = host.folder / "secrets" / ALICE
    assert (secret.read_bytes(), secret.stat().st_mode & 0o777) == (b"alice: 0123456789\n", 0o600)
    assert secret.parent.stat().st_mode & 0o777 == 0o700
    expected = host.folder / "state/expected.json"
    assert expected.read_bytes() == manifest_of(wanted).expected
    assert (expected.stat().st_mode & 0o777, expected.parent.stat().st_mode & 0o777) == (0o644, 0o755)


def test_what_is_needed_is_there_before_anything_stops(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    deploy(host, everything(tmp_path, fake_services.port), context)
    host.reconnect()
    newer = everything(
        tmp_path / "new",
        fake_services.port,
        configs={"exporter": "e-1", "bark": "b-2"},
        images={"bark": image("bark", "2")},
        more="x",
    )
    deploy(host, newer, context)
    steps = [
        name for name in host.names if name in {"load-image", "write-release", "stop", "start", "set-current", "prune"}
    ]
    assert steps == ["load-image", "write-release", "stop", "start", "set-current"]
    assert host.engine.stopped[-1] == ("bark", 7)
    assert host.services() == {"exporter": "e-1", "bark": "b-2"}


def test_only_the_changed_service_is_touched(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    deploy(host, release(fake_services.port), context)
    before = {each["Name"]: each["Id"] for each in host.engine.containers}
    newer = release(fake_services.port, configs={"exporter": "e-1", "bark": "b-2"})
    assert deploy(host, newer, context).result == "deployed"
    after = {each["Name"]: each["Id"] for each in host.engine.containers}
    assert after["/voxyard-exporter-1"] == before["/voxyard-exporter-1"]
    assert after["/voxyard-bark-1"] != before["/voxyard-bark-1"]


def test_a_second_deploy_changes_nothing(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    wanted = everything(tmp_path, fake_services.port)
    deploy(host, wanted, context)
    before = host.tree(), host.engine.copy()
    assert plan_change(wanted, state(host, wanted)).lines() == (f"nothing to do: release {wanted.id} runs",)
    assert before == (host.tree(), host.engine)


def test_no_secret_is_in_a_command_or_the_audit_log(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    deploy(host, everything(tmp_path, fake_services.port), context)
    assert not [text for text in [*host.texts, str(host.audit())] if "0123456789" in text]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("unhealthy", "bark (b-2) is running, health: unhealthy. Last log lines:\nlast words"),
        ("starting", "bark (b-2) is running, health: starting"),
        ("ends", "bark (b-2) is exited, health: healthy, exit code 3"),
        ("refused", "could not start bark: Error response from daemon: port is already allocated"),
    ],
)
def test_a_release_that_is_not_well_is_rolled_back(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path, mode: str, said: str
) -> None:
    old = everything(tmp_path, fake_services.port)
    deploy(host, old, context)
    bad = release(
        fake_services.port,
        configs={"exporter": "e-2", "bark": "b-2"},
        images={"bark": image("bark", "bad")},
        artefacts=old.artefacts,
        secrets={"bark-api-keys": b"mallory: 9876543210\n"},
    )
    host.engine.modes = {image("bark", "bad").reference: mode}
    outcome = deploy(host, bad, context)
    assert outcome.result == "failed"
    assert said in outcome.note
    assert f"rolled back to release {old.id}" in outcome.note
    assert host.services() == {"exporter": "e-1", "bark": "b-1"}
    assert host.current == old.id
    assert (host.folder / "state/expected.json").read_bytes() == manifest_of(old).expected
    assert (host.folder / "secrets" / ALICE).read_bytes() == b"alice: 0123456789\n"
    assert host.audit()[-1]["result"] == "failed"
    assert "rolled back" in host.audit()[-1]["note"]
    assert not (host.folder / "lock").exists()


def test_a_secret_that_a_service_writes_comes_into_no_message_and_no_log(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    host.engine.log = "this is no key: alice: 0123456789"
    host.engine.modes = {image("bark").reference: "unhealthy"}
    outcome = deploy(host, everything(tmp_path, fake_services.port), context)
    assert "this is no key: [secret]" in outcome.note
    assert "0123456789" not in f"{outcome}{host.audit()}"


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_a_service_that_cannot_work_does_not_pass(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, path: str
) -> None:
    fake_services.bad.add(path)
    outcome = deploy(host, release(fake_services.port), context)
    assert outcome.result == "failed"
    assert f"{path}: answers 503" in outcome.note
    assert "started services were removed" in outcome.note
    assert host.services() == {}
    assert host.current is None


def test_a_service_that_holds_more_than_its_limit_does_not_pass(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    wanted = release(fake_services.port, gpu_limits={GPU: 4096})
    (host.home / "compute-apps.csv").write_text(f"{GPU}, 4711, 3000\n{GPU}, 4712, 2500\n{GPU}, 99, 9000\n")
    outcome = deploy(host, wanted, context)
    assert outcome.result == "failed"
    assert f"{GPU}: uses 5500 MiB, allowed 4096 + 1024 MiB" in outcome.note
    (host.home / "compute-apps.csv").write_text(f"{GPU}, 4711, 3000\n")
    assert deploy(host, wanted, context).limits == (f"bark: {GPU}: verified 3000 of 4096 MiB",)


def test_a_service_that_the_release_has_no_more_is_stopped(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    deploy(host, release(fake_services.port), context)
    deploy(host, release(fake_services.port, configs={"exporter": "e-1"}), context)
    assert host.services() == {"exporter": "e-1"}
    assert host.engine.stopped == [("bark", 7)]


def test_a_file_that_was_changed_on_the_host_is_written_again_and_its_services_are_started_anew(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    wanted = release(fake_services.port)
    deploy(host, wanted, context)
    (host.folder / "current/services.yaml").write_text("mine")
    found = plan_change(wanted, state(host, wanted))
    assert found.write_files
    assert [each.reason for each in found.starts] == [f"files changed on the host: {wanted.id}/services.yaml"] * 2
    assert deploy(host, wanted, context).result == "deployed"
    assert plan_change(wanted, state(host, wanted)).nothing


def second(folder: Path, port: int) -> Release:
    """Everything is another."""
    return release(
        port,
        configs={"exporter": "e-2", "bark": "b-2"},
        images={role: image(role, "2") for role in ("exporter", "bark")},
        artefacts=[artefact(folder, content="others")],
        secrets={"bark-api-keys": b"bob: abcdefghij\n"},
    )


@pytest.fixture
def deployed(host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path) -> ShellHost:
    """A host on which everything is as it should be."""
    deploy(host, everything(tmp_path / "a", fake_services.port), context)
    host.reconnect()
    return host


@pytest.mark.parametrize(("moment", "part"), [("before", 0), ("before", 1), ("before", 2), ("middle", 0)], ids=str)
def test_a_cut_at_any_step_is_healed_by_the_next_deploy(
    deployed: ShellHost, fake_services: FakeServices, tmp_path: Path, moment: Literal["before", "middle"], part: int
) -> None:
    context = rollout_context(tmp_path, min_healthy_seconds=0)  # one look a service: each is a dozen processes
    newer = second(tmp_path / "b", fake_services.port)
    counted = deployed.like(tmp_path / "counted")
    deploy(counted, newer, context)
    sends = {"load-image", "write-release", "receive-artefact", "write-secrets"}
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


@pytest.mark.parametrize("what", ["interrupted", "failed"])
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
    deployed.break_at = 1 + max(number for number, name in enumerate(counted.names, 1) if name == "stop")
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


class Training:
    """A host on which a run trains until it is drained."""

    def __init__(self) -> None:
        self.runs: list[str] = ["r-1"]
        self.drained: list[str] = []
        self.did: list[str] = []

    def active(self, _: Any) -> Sequence[str]:
        return tuple(self.runs)

    def stop(self, _: Any, run: str, *, drained: bool) -> None:
        assert drained
        self.did.append(f"stop {run}")
        self.runs.remove(run)
        self.drained.append(run)

    def waiting(self, _: Any) -> Sequence[str]:
        return tuple(self.drained)

    def resume_drained(self, _: Any, release: str | None) -> None:
        self.did += [f"resume {run}" for run in self.drained]
        self.runs, self.drained = self.drained, []


def test_a_host_that_trains_is_skipped_and_left_as_it_is(
    host: ShellHost, fake_services: FakeServices, tmp_path: Path
) -> None:
    context = rollout_context(tmp_path, runs=Training())
    outcome = deploy(host, release(fake_services.port), context)
    assert outcome.result == "skipped"
    assert "run r-1 is active: use --drain" in outcome.note
    assert host.engine.images == {}
    assert [each["result"] for each in host.audit()] == ["skipped"]


@pytest.mark.parametrize("mode", ["healthy", "unhealthy"])
def test_a_run_is_drained_and_started_again_however_the_deploy_ends(
    host: ShellHost, fake_services: FakeServices, tmp_path: Path, mode: str
) -> None:
    training = Training()
    context = rollout_context(tmp_path, runs=training, drain=True)
    host.engine.modes = {image("bark").reference: mode}
    outcome = deploy(host, release(fake_services.port), context)
    assert outcome.result == ("deployed" if mode == "healthy" else "failed")
    assert "resumed" in outcome.note
    assert training.did == ["stop r-1", "resume r-1"]


class Quietly:
    """Remembers when alerts were silenced."""

    def __init__(self, host: ShellHost) -> None:
        self.host = host
        self.spans: list[tuple[int, int]] = []

    @contextmanager
    def silenced(self, hosts: Sequence[str], reason: str) -> Iterator[None]:
        begin = self.host.exchanges
        yield
        self.spans.append((begin, self.host.exchanges))

    def begin(self, hosts: Sequence[str], reason: str) -> None:
        raise AssertionError


def test_alerts_are_silenced_while_services_are_stopped_and_not_before(
    host: ShellHost, fake_services: FakeServices, tmp_path: Path
) -> None:
    quietly = Quietly(host)
    context = rollout_context(tmp_path, silencer=quietly)
    deploy(host, release(fake_services.port), context)
    ((begin, end),) = quietly.spans
    during = host.names[begin:end]
    assert "write-release" in host.names[:begin]
    assert {"stop", "start"} <= set(during)
    assert {"load-image", "write-release"}.isdisjoint(during)


def test_rollback_goes_to_the_release_before_with_what_is_on_the_host(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    old, newer = everything(tmp_path / "a", fake_services.port), second(tmp_path / "b", fake_services.port)
    deploy(host, old, context)
    deploy(host, newer, context)
    host.reconnect()
    outcome = roll_back(host, context)
    assert (outcome.result, outcome.before, outcome.after) == ("rolled back", newer.id, old.id)
    assert host.services() == {"exporter": "e-1", "bark": "b-1"}
    assert host.current == old.id
    assert {"load-image", "write-release", "receive-artefact"}.isdisjoint(host.names)
    assert host.audit()[-1]["what"] == "rollback"
    assert roll_back(host, context).after == newer.id


def test_rollback_names_what_it_cannot_do(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    old, newer = everything(tmp_path / "a", fake_services.port), second(tmp_path / "b", fake_services.port)
    deploy(host, old, context)
    with pytest.raises(HostFailedError, match="no previous release"):
        plan_rollback(host, "gpu-01", None)
    with pytest.raises(HostFailedError, match=f"no release 0123: expected one of {old.id}"):
        plan_rollback(host, "gpu-01", "0123")
    deploy(host, newer, context)
    (host.folder / "releases" / old.id / "services.yaml").write_text("mine")
    with pytest.raises(HostFailedError, match="has changed files"):
        plan_rollback(host, "gpu-01", None)


def test_rollback_needs_the_image(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    old, newer = everything(tmp_path / "a", fake_services.port), second(tmp_path / "b", fake_services.port)
    deploy(host, old, context)
    deploy(host, newer, context)
    del host.engine.images[image("bark").id]
    with pytest.raises(HostFailedError, match=f"are missing: image {image('bark').reference}"):
        plan_rollback(host, "gpu-01", None)


def test_what_is_old_goes_and_what_is_in_use_stays(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    versions = [
        release(
            fake_services.port,
            configs={"exporter": "e-1", "bark": f"b-{number}"},
            images={"bark": image("bark", str(number))},
            artefacts=[artefact(tmp_path / str(number), content=str(number))],
        )
        for number in range(5)
    ]
    for each in versions:
        assert deploy(host, each, context).result == "deployed"
    left = {path.name for path in (host.folder / "releases").iterdir()}
    assert left == {versions[0].id, versions[3].id, versions[4].id}, "the exporter runs from the first one"
    artefacts = {path.name for path in (host.folder / "artefacts").iterdir()}
    assert artefacts == {versions[number].artefacts[0].name for number in (0, 3, 4)}
    tags = {tag for each in host.engine.images.values() for tag in each["tags"]}
    assert tags == {image("exporter").reference, *(image("bark", str(number)).reference for number in (0, 3, 4))}


def with_secret(port: int, number: int, secrets: dict[str, bytes]) -> Release:
    """A release of one service with its own configuration and these secrets."""
    return release(port, configs={"exporter": "e-1", "bark": f"b-{number}"}, secrets=secrets)


def secrets_of(host: ShellHost) -> list[str]:
    return sorted(path.name for path in (host.folder / "secrets").iterdir())


def test_a_rollback_takes_the_secrets_of_its_release_back_and_a_removed_one_leaves_with_the_last_that_reads_it(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    bob, hook = b"bob: abcdefghij\n", {"bark-webhook-secret": b"0123456789abcdef"}
    first = with_secret(fake_services.port, 1, {"bark-api-keys": b"alice: 0123456789\n", **hook})
    second = with_secret(fake_services.port, 2, {"bark-api-keys": bob})
    for each in (first, second):
        deploy(host, each, context)
    assert secrets_of(host) == sorted([*first.secrets, *second.secrets])
    host.reconnect()
    assert roll_back(host, context).after == first.id
    assert "write-secrets" not in host.names
    assert (host.folder / "secrets" / ALICE).read_bytes() == b"alice: 0123456789\n"
    for number in (3, 4, 5):
        host.engine.containers = [each for each in host.engine.containers if each["Name"] != "/voxyard-exporter-1"]
        deploy(host, with_secret(fake_services.port, number, {"bark-api-keys": bob}), context)
    assert secrets_of(host) == [versioned("bark-api-keys", bob)]


def test_a_rollback_without_a_secret_of_its_release_is_refused(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    deploy(host, everything(tmp_path / "a", fake_services.port), context)
    deploy(host, second(tmp_path / "b", fake_services.port), context)
    (host.folder / "secrets" / ALICE).unlink()
    with pytest.raises(HostFailedError, match=f"are missing: secret {ALICE}"):
        plan_rollback(host, "gpu-01", None)


def test_secrets_of_an_earlier_version_stay_while_a_release_of_it_stays_and_those_of_monitoring_always(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    earlier = with_secret(fake_services.port, 0, {})
    deploy(host, earlier, context)
    (host.folder / "secrets").mkdir(mode=0o700)
    for name in ("bark-api-keys", "grafana-admin-password"):
        (host.folder / "secrets" / name).write_text("as it was")
    file = host.folder / "releases" / earlier.id / "release.json"
    document = json.loads(file.read_text())
    del document["secrets"]
    file.write_text(json.dumps(document))
    (file.parent / ".sha256").write_text(
        "".join(
            f"{hashlib.sha256((file.parent / name).read_bytes()).hexdigest()}  {name}\n" for name, _ in earlier.files
        )
    )
    deploy(host, everything(tmp_path, fake_services.port), context)
    assert secrets_of(host) == ["bark-api-keys", ALICE, "grafana-admin-password"]
    assert plan_rollback(host, "gpu-01", None).manifest.id == earlier.id
    for number in (1, 2, 3):
        host.engine.containers = []
        deploy(host, with_secret(fake_services.port, number, {}), context)
    assert secrets_of(host) == ["grafana-admin-password"]


def test_two_at_once_are_refused_with_owner_and_reason(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    with (
        locked(host, "gpu-01", "deploy of somebody"),
        pytest.raises(HostFailedError, match=r"@.* for \d+ s \(deploy of somebody\).*\nnothing was changed"),
    ):
        deploy(host, release(fake_services.port), context)
    assert host.engine.images == {}
