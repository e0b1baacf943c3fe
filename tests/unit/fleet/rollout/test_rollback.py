"""Rollback on one host, and what stays there for it: releases, images, artefacts, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from release_doubles import artefact, image, release
from rollout_steps import ALICE, deploy, everything, roll_back, second
from shell_host import FakeServices, ShellHost

from fleet.errors import HostFailedError
from fleet.inventory.secrets import versioned
from fleet.release.release import Release
from fleet.rollout.change_plan import plan_rollback
from fleet.rollout.context import RolloutContext


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
    assert {"load-image", "release-write", "artefact-write"}.isdisjoint(host.names)
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
    assert "secrets-write" not in host.names
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
