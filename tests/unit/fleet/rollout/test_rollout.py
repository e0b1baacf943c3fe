"""Rollout on one host: order of steps, gates, runs and alerts around it, rollback after failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from release_doubles import image, release
from rollout_steps import ALICE, GPU, deploy, everything, rollout_context, state
from shell_host import FakeServices, ShellHost

from fleet.errors import HostFailedError
from fleet.lock import locked
from fleet.release.manifest import manifest_of
from fleet.rollout.change_plan import plan_change
from fleet.rollout.context import RolloutContext


def test_a_host_that_has_nothing_gets_everything(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path
) -> None:
    wanted = everything(tmp_path, fake_services.port)
    (host.folder / "state").mkdir(parents=True)
    (host.folder / "state/maintenance").write_text("1790000000\n")
    outcome = deploy(host, wanted, context)
    assert (outcome.result, outcome.before, outcome.after) == ("deployed", "", wanted.id)
    assert not (host.folder / "state/maintenance").exists()  # a drain's; the work is done
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


@pytest.mark.slow
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
        name
        for name in host.names
        if name in {"load-image", "release-write", "service-stop", "service-start", "release-publish", "prune-remove"}
    ]
    assert steps == ["load-image", "release-write", "service-stop", "service-start", "release-publish"]
    assert host.engine.stopped[-1] == ("bark", 7)
    assert host.services() == {"exporter": "e-1", "bark": "b-2"}


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_service_that_holds_more_than_its_limit_does_not_pass(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    wanted = release(fake_services.port, gpu_limits={GPU: 4096})
    (host.home / "compute-apps.csv").write_text(
        f"{GPU}, 4711, 3000, python\n{GPU}, 4712, 2500, python\n{GPU}, 99, 9000, x\n"
    )
    outcome = deploy(host, wanted, context)
    assert outcome.result == "failed"
    assert f"{GPU}: uses 5500 MiB, allowed 4096 + 1024 MiB" in outcome.note
    (host.home / "compute-apps.csv").write_text(f"{GPU}, 4711, 3000, python\n")
    assert deploy(host, wanted, context).limits == (f"bark: {GPU}: verified 3000 of 4096 MiB",)


@pytest.mark.slow
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
    assert "release-write" in host.names[:begin]
    assert {"service-stop", "service-start"} <= set(during)
    assert {"load-image", "release-write"}.isdisjoint(during)


def test_two_at_once_are_refused_with_owner_and_reason(
    host: ShellHost, fake_services: FakeServices, context: RolloutContext
) -> None:
    with (
        locked(host, "gpu-01", "deploy of somebody"),
        pytest.raises(HostFailedError, match=r"@.* for \d+ s \(deploy of somebody\).*\nnothing was changed"),
    ):
        deploy(host, release(fake_services.port), context)
    assert host.engine.images == {}
