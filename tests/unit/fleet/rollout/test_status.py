"""Status of a host: services, drift, draining."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from leaping_clock import LeapingCancellation
from release_doubles import image, release, saved
from shell_host import FakeServices, ShellHost

from fleet.errors import HostFailedError
from fleet.images.archive import ImageCache
from fleet.lock import locked
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout import report
from fleet.rollout.apply import apply, drain_host
from fleet.rollout.change_plan import plan_change
from fleet.rollout.context import NoSilencer, RolloutContext
from fleet.rollout.host_state import read_state
from fleet.rollout.status import Status, read_status
from fleet.ssh.connection_pool import GroupResult


@pytest.fixture
def endpoint() -> Iterator[FakeServices]:
    """Address of the services."""
    found = FakeServices()
    yield found
    found.close()


@pytest.fixture
def wanted(endpoint: FakeServices) -> Release:
    """An exporter and a speech service."""
    return release(endpoint.port)


@pytest.fixture
def host(tmp_path: Path, wanted: Release) -> Iterator[ShellHost]:
    """A host on which it runs."""
    found = ShellHost(tmp_path / "host")
    state = read_state(found, "gpu-01", manifest_of(wanted))
    context = RolloutContext(
        cancellation=LeapingCancellation(), cache=ImageCache(tmp_path / "cache", saved), min_healthy_seconds=1
    )
    assert apply("gpu-01", found, plan_change(wanted, state), (), context).result == "deployed"
    yield found
    found.close()


def labels(host: ShellHost, service: str) -> dict[str, str]:
    (found,) = [each for each in host.engine.containers if each["Name"] == f"/voxyard-{service}-1"]
    return dict(found["Config"]["Labels"])


def set_up(host: ShellHost, service: str, **keys: Any) -> None:
    for each in host.engine.containers:
        if each["Name"] == f"/voxyard-{service}-1":
            each["Config"]["Labels"] |= {name.replace("_", "."): value for name, value in keys.items()}


def test_a_host_on_which_all_is_well(host: ShellHost, wanted: Release) -> None:
    found = read_status(host, "gpu-01")
    assert found.healthy
    assert (found.current, found.previous, found.drift) == (wanted.id, None, ())
    assert [(each.name, each.state, each.answers) for each in found.services] == [
        ("exporter", "running, healthy", "up"),
        ("bark", "running, healthy", "up"),
    ]


def test_asking_changes_nothing(host: ShellHost) -> None:
    before = host.tree(), host.engine.copy()
    read_status(host, "gpu-01")
    assert before == (host.tree(), host.engine)


def test_a_service_that_was_started_again_is_told(host: ShellHost) -> None:
    for each in host.engine.containers:
        if each["Name"] == "/voxyard-bark-1":
            each["RestartCount"] = 7
    found = read_status(host, "gpu-01")
    assert [(each.name, each.restarts) for each in found.services] == [("exporter", 0), ("bark", 7)]
    console = report.console()
    with console.capture() as capture:
        console.print(report.status_table(GroupResult({"gpu-01": found}, {}), ["gpu-01"]))
    header, *rows = (line.split() for line in capture.get().splitlines())
    assert "restarts" in header
    assert [row[row.index("healthy") + 1] for row in rows] == ["0", "7"]


def another_configuration(host: ShellHost) -> None:
    set_up(host, "bark", voxyard_config="b-0")


def another_image(host: ShellHost) -> None:
    host.engine.images["sha256:other"] = host.engine.images.pop(image("bark").id)


def changed_file(host: ShellHost) -> None:
    (host.folder / "current/services.yaml").write_text("mine")


def of_a_release_that_is_gone(host: ShellHost) -> None:
    set_up(host, "bark", voxyard_release="gone", voxyard_config="b-0")


def stray_container(host: ShellHost) -> None:
    (found,) = [each for each in host.engine.containers if each["Name"] == "/voxyard-bark-1"]
    stray = {
        **found,
        "Id": "ff",
        "Config": {**found["Config"], "Labels": {**labels(host, "bark"), "voxyard.role": "x"}},
    }
    host.engine.containers.append(stray)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (another_configuration, "bark: configuration b-0, expected b-1"),
        (another_image, f"bark: the tag {image('bark').reference} now names another image"),
        (changed_file, "/services.yaml was changed on the host"),
        (of_a_release_that_is_gone, "bark: configuration b-0, expected b-1"),
        (stray_container, "x: not in the release"),
    ],
)
def test_drift_is_told(host: ShellHost, fault: Any, said: str) -> None:
    fault(host)
    found = read_status(host, "gpu-01")
    assert not found.healthy
    assert [each for each in found.drift if said in each]


def test_what_does_not_run_or_does_not_answer_is_not_healthy(host: ShellHost, endpoint: FakeServices) -> None:
    endpoint.bad.add("/readyz")
    found = read_status(host, "gpu-01")
    assert (found.healthy, found.services[1].answers) == (False, "/readyz: answers 503: no model is loaded")
    host.engine.containers.clear()
    assert [each.state for each in read_status(host, "gpu-01").services] == ["no container", "no container"]


def test_a_host_without_a_release_or_with_one_that_cannot_be_read_says_so(host: ShellHost, tmp_path: Path) -> None:
    empty = ShellHost(tmp_path / "empty")
    assert read_status(empty, "gpu-01").problem == "not deployed: make deploy"
    empty.close()
    (host.folder / "current/release.json").write_text("{")
    assert "release.json of release" in str(read_status(host, "gpu-01").problem)


def test_the_document_and_the_table_have_the_same(host: ShellHost, wanted: Release) -> None:
    set_up(host, "bark", voxyard_config="b-0")
    with locked(host, "gpu-01", "deploy"):
        result: GroupResult[Status] = GroupResult(
            {"gpu-01": read_status(host, "gpu-01")}, {"gpu-02": HostFailedError("is down")}
        )
    names = ["gpu-01", "gpu-02"]
    document: Any = report.status_document(result, names)
    assert document["ok"] is False
    one, two = document["hosts"]
    assert (one["current"], one["lock"]["reason"], two["error"]) == (wanted.id, "deploy", "is down")
    console = report.console()
    with console.capture() as capture:
        console.print(report.status_table(result, names))
    for words in ("b-0, expected b-1", "is down", "locked by", "running, healthy"):
        assert words in capture.get()


class Training:
    """One run."""

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def active(self, _: Any) -> Sequence[str]:
        return ("r-1",)

    def waiting(self, _: Any) -> Sequence[str]:
        return ()

    def stop(self, _: Any, run: str, *, drained: bool) -> None:
        assert drained
        self.stopped.append(run)

    def resume_drained(self, _: Any, release: str | None) -> None:
        raise AssertionError


@pytest.mark.slow
def test_a_drained_host_has_no_run_and_no_speech_service_but_its_exporter(host: ShellHost, wanted: Release) -> None:
    training = Training()
    context = RolloutContext(runs=training, silencer=NoSilencer(), drain=True, maintenance_seconds=1800)
    outcome = drain_host(host, "gpu-01", context)
    assert (outcome.result, outcome.before) == ("drained", wanted.id)
    assert "its alerts are silent for 30 minutes at most" in outcome.note
    assert 1700 < int((host.folder / "state/maintenance").read_text()) - time.time() < 1900
    assert "stopped: run r-1 with a checkpoint, bark; undo with: fab deploy --drain --host gpu-01" in outcome.note
    assert training.stopped == ["r-1"]
    assert host.services() == {"exporter": "e-1"}
    assert host.engine.stopped[-1] == ("bark", 7)
    assert host.audit()[-1]["what"] == "drain"
    assert not (host.folder / "lock").exists()
    assert not read_status(host, "gpu-01").healthy


def test_a_host_that_is_being_deployed_is_not_drained(host: ShellHost) -> None:
    with locked(host, "gpu-01", "deploy"), pytest.raises(HostFailedError, match="is locked by"):
        drain_host(host, "gpu-01", RolloutContext())
