"""Change plan: empty for an up-to-date host, otherwise the differences."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from release_doubles import BASE_LAYERS, artefact, image, release

from fleet.facts.machine import Container, HostImage
from fleet.inventory.secrets import versioned
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout.change_plan import ChangePlan, plan_change
from fleet.rollout.host_state import HostState

SECRET = b"alice: 0123456789\n"
FILE = versioned("bark-api-keys", SECRET)
REQUEST = release(9410, secrets={"bark-api-keys": SECRET}, gpu_limits={"GPU-1": 4096})


def container(service: str, config: str, **other: Any) -> Container:
    found = Container(
        id=f"id of {service}",
        name=f"voxyard-{service}-1",
        service=service,
        release=REQUEST.id,
        config=config,
        image=image(service).reference,
        image_id=image(service).id,
        state="running",
        health="healthy",
        started="",
    )
    return replace(found, **other)


def good(wanted: Release = REQUEST) -> HostState:
    """A host on which all is as `wanted` says."""
    return HostState(
        current=wanted.id,
        previous=None,
        checksums=wanted.checksums,
        changed_files=(),
        files=dict(wanted.files),
        images=tuple(HostImage(each.id, frozenset({each.reference}), each.layers) for each in wanted.images),
        artefacts=frozenset(each.name for each in wanted.artefacts),
        secrets={name: ("600", hashlib.sha256(value).hexdigest()) for name, value in wanted.secrets.items()},
        containers=(container("exporter", "e-1"), container("bark", "b-1")),
        not_answering={},
        expected=manifest_of(wanted).expected.strip(),
        lock=None,
    )


def nothing_there() -> HostState:
    return HostState(None, None, {}, (), {}, (), frozenset(), {}, (), {"exporter": "x", "bark": "x"}, b"", None)


def bark(**other: Any) -> dict[str, Any]:
    return {
        "containers": (
            container("exporter", "e-1"),
            container("bark", "b-1") if not other else container("bark", **other),
        )
    }


def test_nothing_is_done_where_everything_is_as_it_should_be() -> None:
    found = plan_change(REQUEST, good())
    assert found.nothing
    assert found.lines() == (f"nothing to do: release {REQUEST.id} runs",)


def test_a_new_host_gets_everything_and_the_text_contains_no_secret(tmp_path: Path) -> None:
    weights = artefact(tmp_path)
    wanted = release(9410, secrets={"bark-api-keys": SECRET}, artefacts=[weights], gpu_limits={"GPU-1": 4096})
    found = plan_change(wanted, nothing_there())
    assert found.lines() == (
        f"send image {image('exporter').release_tag} (3 MB)",
        f"send image {image('bark').release_tag} (3 MB)",
        f"send {weights.name} (0 MB)",
        f"write release {wanted.id}: services.yaml, voxyard.env, release.json",
        f"write secrets: {FILE}",
        "bark: limit on GPU-1: none → 4096 MiB",
        "start exporter: no container",
        "start bark: no container",
        f"make {wanted.id} the current release, after none",
    )
    assert found.diff == (), "a first release would be one long diff"
    assert "0123456789" not in repr(found)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (bark(config="b-0"), "start bark: configuration b-0, expected b-1"),
        (bark(config="b-1", image="voxyard-bark:older"), "start bark: image voxyard-bark:older"),
        (bark(config="b-1", state="exited", exit_code=3), "start bark: exited, health: healthy, exit code 3"),
        (bark(config="b-1", health="unhealthy"), "start bark: running, health: unhealthy"),
        (bark(config="b-1", health="starting"), "wait for bark: starting"),
        ({"not_answering": {"bark": "/readyz: answers 503"}}, "start bark: /readyz: answers 503"),
        ({"containers": (container("exporter", "e-1"),)}, "start bark: no container"),
        ({"secrets": {}}, f"write secrets: {FILE}"),
        ({"secrets": {FILE: ("644", hashlib.sha256(SECRET).hexdigest())}}, f"write secrets: {FILE}"),
        ({"expected": b"{}"}, f"make {REQUEST.id} the current release, after {REQUEST.id}"),
    ],
)
def test_only_what_is_not_as_it_should_be_changes(other: dict[str, Any], said: str) -> None:
    found = plan_change(REQUEST, replace(good(), **other))
    assert len(found.lines()) == 1
    assert said in found.lines()[0]


def test_a_secret_that_belongs_to_its_container_is_not_written_again() -> None:
    assert plan_change(REQUEST, replace(good(), secrets={FILE: ("600", "-")})).nothing


def test_what_a_cut_deploy_has_started_is_watched_or_recreated_where_it_ended_before() -> None:
    cut = replace(good(), current="older")
    assert [str(each) for each in plan_change(REQUEST, cut).starts] == [
        "wait for exporter: its health was not verified yet",
        "wait for bark: its health was not verified yet",
    ]
    crashed = replace(cut, containers=(container("exporter", "e-1"), container("bark", "b-1", restarts=3)))
    (_, bark) = plan_change(REQUEST, crashed).starts
    assert str(bark) == "start bark: its container was restarted 3 times"
    assert not plan_change(REQUEST, replace(cut, previous=REQUEST.id)).starts, "it was found good before"


def test_a_service_may_run_from_an_older_release() -> None:
    state = replace(good(), containers=(container("exporter", "e-1", release="older"), container("bark", "b-1")))
    assert plan_change(REQUEST, state).nothing


def test_a_service_whose_release_somebody_changed_is_recreated() -> None:
    state = replace(
        good(),
        containers=(container("exporter", "e-1", release="older"), container("bark", "b-1")),
        changed_files=("older/plan.yaml",),
    )
    assert [str(each) for each in plan_change(REQUEST, state).starts] == [
        "start exporter: files changed on the host: older/plan.yaml"
    ]


def test_a_service_that_the_release_has_no_more_is_stopped() -> None:
    state = replace(good(), containers=(*good().containers, container("old", "o-1")))
    assert plan_change(REQUEST, state).lines() == ("stop old: not in the release",)


def test_the_layers_that_are_there_are_counted_from_below() -> None:
    newer = image("bark", "2")
    wanted = release(9410, images={"bark": newer}, configs={"exporter": "e-1", "bark": "b-2"})
    (image_transfer,) = plan_change(wanted, good()).image_transfers
    assert (image_transfer.image, image_transfer.layers_present) == (newer, len(BASE_LAYERS))
    assert str(image_transfer) == f"send image {newer.release_tag} (3 MB, 2 of 3 layers present)"


def test_an_image_whose_name_means_another_one_is_sent() -> None:
    other = HostImage("sha256:other", frozenset({image("bark").reference}), ("sha256:else",))
    state = replace(good(), images=(good().images[0], other))
    assert [each.image for each in plan_change(REQUEST, state).image_transfers] == [image("bark")]


def test_an_image_of_a_registry_is_pulled() -> None:
    digest = f"registry.example:5000/voxyard-bark@sha256:{'a' * 64}"
    wanted = release(9410, images={"bark": replace(image("bark"), digest=digest)})
    assert f"pull image {digest}" in plan_change(wanted, good()).lines()


def test_the_diff_is_that_of_the_files_and_leaves_the_manifest_out() -> None:
    older = release(9410, configs={"exporter": "e-1", "bark": "b-0"}, more="old: 1", gpu_limits={"GPU-1": 2048})
    newer = release(9410, more="new: 2", gpu_limits={"GPU-1": 4096})
    found: ChangePlan = plan_change(newer, replace(good(older), checksums={}))
    assert "-old: 1" in found.diff
    assert "+new: 2" in found.diff
    assert "--- a/voxyard.env" in found.diff
    assert not [line for line in found.diff if "release.json" in line]
    assert found.limits == ("bark: limit on GPU-1: 2048 MiB → 4096 MiB",)
